/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TESTS_SIM_FABRIC_H
#define TESTS_SIM_FABRIC_H

#include "fabric_net.h"
#include "sim_engine.h"

/*
 * Hosts with one process each on a leaf-spine network (fabric_net.h). A process is an engine that
 * runs the unmodified library code. All processes register the same memory: its content never
 * changes, because each RDMA WRITE copies a part of it to itself, so that packets refer to it
 * instead of a copy.
 */
struct fabric_host {
	struct engine engine;
	struct device device;
	struct context context;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_mr *mr;
};

struct fabric {
	struct fabric_net net;
	struct fabric_host *hosts;
	uint8_t *memory;
	uint32_t memory_bytes;
	enum ibv_mtu mtu;
	uint64_t turns; /* how often a host was run */
	/* Called for each completion of a host's send queue. */
	void (*on_wc)(struct fabric *fabric, uint32_t host, const struct ibv_wc *wc);
	void *arg;
};

/* memory_bytes: the maximum length of a message. */
void fabric_open(struct fabric *fabric, const struct fabric_net_spec *spec, enum ibv_mtu mtu,
		 uint32_t memory_bytes);
void fabric_close(struct fabric *fabric);
/*
 * The congestion control of the QPs that this host connects later, and whether its packets are
 * ECN-capable.
 */
void fabric_set_cc(struct fabric *fabric, uint32_t host, const char *name, bool is_ecn);
/* Connects an RC QP of `from` with one of `to`. max_wr: outstanding WRs of qps[0]. */
void fabric_connect(struct fabric *fabric, uint32_t from, uint32_t to, uint32_t max_wr,
		    struct ibv_qp *qps[2]);
/* Posts an RDMA WRITE of `bytes`. */
void fabric_write(struct fabric *fabric, uint32_t from, uint32_t to, struct ibv_qp *qp,
		  uint32_t bytes, uint64_t wr_id);
/* Packets that the peer of this QP has acknowledged, modulo 2^24. */
uint32_t fabric_acked_pkts(const struct ibv_qp *qp);
/* Runs the next host. false: no event is left. */
bool fabric_step(struct fabric *fabric);
/* The sum of a counter over all hosts. */
uint64_t fabric_counter(const struct fabric *fabric, enum roce_counter counter);

#endif
