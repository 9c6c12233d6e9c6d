/* SPDX-License-Identifier: BSD-2-Clause */
#include "fabric.h"

#include <stdlib.h>
#include <string.h>

#include "../with_locks.h"
#include "core/engine/transport.h"
#include "core/qp/qp.h"
#include "roce/qp.h"

#define FABRIC_CQE  1024
#define FABRIC_SLOT 1u
#define FIRST_PSN   1u

static uint64_t fabric_clock(void *arg)
{
	const struct fabric_net *net = arg;

	return net->now_ns;
}

static void host_open(struct fabric *fabric, uint32_t index)
{
	struct fabric_host *host = &fabric->hosts[index];
	struct ibv_context *context = &host->context.pub.context;
	uint8_t gid[GID_BYTES];

	fabric_net_gid(index, gid);
	sim_engine_open(&host->engine, FABRIC_SLOT + index % (IPC_SLOTS - FABRIC_SLOT));
	sim_device_open(&host->device, gid);
	sim_context_open(&host->context, &host->engine, &host->device, -1);
	WITH_LOCKS(&host->engine, roce_set_link(&host->engine, &fabric->net.nics[index].link,
						fabric_clock, &fabric->net));
	host->pd = ibv_alloc_pd(context);
	host->cq = ibv_create_cq(context, FABRIC_CQE, NULL, NULL, 0);
	sim_must(host->pd && host->cq);
	host->mr = ibv_reg_mr(host->pd, fabric->memory, fabric->memory_bytes,
			      IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	sim_must(host->mr != NULL);
}

void fabric_open(struct fabric *fabric, const struct fabric_net_spec *spec, enum ibv_mtu mtu,
		 uint32_t memory_bytes)
{
	memset(fabric, 0, sizeof(*fabric));
	fabric_net_open(&fabric->net, spec);
	fabric->mtu = mtu;
	fabric->memory_bytes = memory_bytes;
	fabric->memory = malloc(memory_bytes);
	fabric->hosts = calloc(spec->hosts, sizeof(*fabric->hosts));
	sim_must(fabric->memory && fabric->hosts);
	for (uint32_t i = 0; i < memory_bytes; i++)
		fabric->memory[i] = (uint8_t)(i * 31 >> 3);
	fabric->net.stable = fabric->memory;
	fabric->net.stable_end = fabric->memory + memory_bytes;
	for (uint32_t i = 0; i < spec->hosts; i++)
		host_open(fabric, i);
}

void fabric_close(struct fabric *fabric)
{
	for (uint32_t i = 0; i < fabric->net.spec.hosts; i++) {
		struct fabric_host *host = &fabric->hosts[i];

		sim_must(ibv_dereg_mr(host->mr) == 0);
		sim_must(ibv_destroy_cq(host->cq) == 0);
		sim_must(ibv_dealloc_pd(host->pd) == 0);
		WITH_LOCKS(&host->engine, roce_set_link(&host->engine, NULL, NULL, NULL));
		sim_engine_close(&host->engine);
	}
	fabric_net_close(&fabric->net);
	free(fabric->hosts);
	free(fabric->memory);
}

void fabric_set_cc(struct fabric *fabric, uint32_t host, const char *name, bool is_ecn)
{
	sim_must(roce_set_cc(&fabric->hosts[host].engine, name) == 0);
	fabric->net.nics[host].is_ecn = is_ecn;
}

static struct ibv_qp *fabric_create_qp(const struct fabric_host *host, uint32_t max_wr)
{
	struct ibv_qp_init_attr init = {
		.qp_type = IBV_QPT_RC,
		.send_cq = host->cq,
		.recv_cq = host->cq,
		.cap = {.max_send_wr = max_wr,
			.max_recv_wr = 1,
			.max_send_sge = 1,
			.max_recv_sge = 1},
	};
	struct ibv_qp *qp = ibv_create_qp(host->pd, &init);

	sim_must(qp != NULL);
	return qp;
}

void fabric_connect(struct fabric *fabric, uint32_t from, uint32_t to, uint32_t max_wr,
		    struct ibv_qp *qps[2])
{
	const struct world_qp_attr attr = {
		.type = IBV_QPT_RC,
		.mtu = fabric->mtu,
		.psns = {FIRST_PSN, FIRST_PSN},
		.timeout = 14,
		.retry_cnt = 7,
		.rnr_retry = 7,
		.min_rnr_timer = 1,
		.rd_atomic = 1,
		.access = IBV_ACCESS_REMOTE_WRITE,
	};
	const uint32_t hosts[2] = {from, to};
	uint8_t gid[GID_BYTES];

	qps[0] = fabric_create_qp(&fabric->hosts[from], max_wr);
	qps[1] = fabric_create_qp(&fabric->hosts[to], 1);
	for (int i = 0; i < 2; i++) {
		fabric_net_gid(hosts[!i], gid);
		world_connect_to(qps[i], gid, qps[!i]->qp_num, FIRST_PSN, FIRST_PSN, &attr);
	}
}

void fabric_write(struct fabric *fabric, uint32_t from, uint32_t to, struct ibv_qp *qp,
		  uint32_t bytes, uint64_t wr_id)
{
	struct ibv_sge sge = {(uintptr_t)fabric->memory, bytes, fabric->hosts[from].mr->lkey};
	struct ibv_send_wr wr = {.wr_id = wr_id,
				 .sg_list = &sge,
				 .num_sge = 1,
				 .opcode = IBV_WR_RDMA_WRITE,
				 .send_flags = IBV_SEND_SIGNALED},
			   *bad;

	wr.wr.rdma.remote_addr = (uintptr_t)fabric->memory;
	wr.wr.rdma.rkey = fabric->hosts[to].mr->rkey;
	sim_must(ibv_post_send(qp, &wr, &bad) == 0);
	/* The host's next timer may be earlier now. */
	fabric_net_wake(&fabric->net, from, fabric->net.now_ns);
}

uint32_t fabric_acked_pkts(const struct ibv_qp *qp)
{
	return psn_sub(roce_qp_of(to_qp((struct ibv_qp *)(uintptr_t)qp))->tx.una_psn, FIRST_PSN);
}

/*
 * Reports packets as epoll_wait(2) reports a readable socket. The engine of a host without QPs
 * receives only then.
 */
static void fabric_report_link(struct engine *engine, const struct fabric_nic *nic)
{
	if (nic->received.head)
		roce_link_is_readable(engine);
}

static void fabric_run_engine(struct engine *engine, const struct fabric_nic *nic, uint64_t now_ns)
{
	engine_lock(engine);
	timer_expire(&engine->timers, now_ns);
	fabric_report_link(engine, nic);
	while (roce_transport.run(engine))
		fabric_report_link(engine, nic);
	engine_unlock(engine);
}

bool fabric_step(struct fabric *fabric)
{
	int index = fabric_net_next_host(&fabric->net);
	struct fabric_host *host;
	struct ibv_wc wc;

	if (index < 0)
		return false;
	host = &fabric->hosts[index];
	fabric->turns++;
	fabric_run_engine(&host->engine, &fabric->net.nics[index], fabric->net.now_ns);
	while (world_poll(host->cq, &wc))
		fabric->on_wc(fabric, (uint32_t)index, &wc);
	fabric_net_wake(&fabric->net, (uint32_t)index, timer_next_deadline(&host->engine.timers));
	return true;
}

uint64_t fabric_counter(const struct fabric *fabric, enum roce_counter counter)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < fabric->net.spec.hosts; i++)
		sum += roce_of(&fabric->hosts[i].engine)->counters[counter];
	return sum;
}
