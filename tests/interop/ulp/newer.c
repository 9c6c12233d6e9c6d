/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * FLUSH and atomic WRITE (IBA A19), and memory with on-demand paging: features that rxe of Linux
 * 6.1 does not have.
 *
 *	newer serve ADDRESS PORT [odp] [flush]
 *	newer drive ADDRESS PORT [odp] [flush]
 *
 * The driving side WRITEs a pattern, atomically WRITEs a word after it, executes a fetch-and-add on
 * the next word, READs everything and compares. With "flush" it FLUSHes the pattern, and the whole
 * region after the atomic WRITE. The serving side compares its memory with the same pattern when
 * the connection has ended. Each side has its own options: a side with "odp" registers its memory
 * for on-demand paging, before the memory has pages. "flush" has no effect on the serving side.
 */
#include <endian.h>
#include <errno.h>
#include <netdb.h>
#include <stdlib.h>
#include <string.h>

#include "ulp.h"

#define PATTERN_BYTES (64u << 10)
#define REGION_BYTES  (PATTERN_BYTES + 16) /* then the atomic WRITE's word and the counter */
#define WORD	      UINT64_C(0x1122334455667788)
#define ADDED	      5

struct grant {
	uint64_t addr_be;
	uint32_t rkey_be;
} __attribute__((packed));

struct side {
	struct rdma_cm_id *id;
	struct ibv_qp_ex *qpx;
	struct ibv_mr *mr;
	uint8_t *buf;
	bool is_odp;
	bool has_flush;
};

static struct rdma_addrinfo *lookup(const char *addr, const char *port, int flags)
{
	struct rdma_addrinfo hints = {.ai_flags = flags | RAI_NUMERICHOST,
				      .ai_port_space = RDMA_PS_TCP};
	struct rdma_addrinfo *found;

	ulp_require(!rdma_getaddrinfo(addr, port, &hints, &found), "rdma_getaddrinfo: %s",
		    strerror(errno));
	return found;
}

static void make_queues(struct side *side)
{
	struct ibv_qp_init_attr_ex attr = {
		.qp_type = IBV_QPT_RC,
		.sq_sig_all = 1,
		.cap = {.max_send_wr = 8, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1},
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.send_ops_flags = IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_READ |
				  IBV_QP_EX_WITH_ATOMIC_WRITE | IBV_QP_EX_WITH_FLUSH |
				  IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD};
	unsigned int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
			      IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC |
			      IBV_ACCESS_FLUSH_GLOBAL;

	attr.pd = ibv_alloc_pd(side->id->verbs);
	attr.send_cq = ibv_create_cq(side->id->verbs, 16, NULL, NULL, 0);
	attr.recv_cq = attr.send_cq;
	ulp_require(attr.pd && attr.send_cq, "ibv_alloc_pd or ibv_create_cq: %s", strerror(errno));
	ulp_require(!rdma_create_qp_ex(side->id, &attr), "rdma_create_qp_ex: %s", strerror(errno));
	side->qpx = ibv_qp_to_qp_ex(side->id->qp);
	side->buf = aligned_alloc(4096, (REGION_BYTES + 4095) & ~4095u);
	ulp_require(side->qpx && side->buf, "ibv_qp_to_qp_ex: %s", strerror(errno));
	if (!side->is_odp)
		memset(side->buf, 0, REGION_BYTES);
	side->mr = ibv_reg_mr(attr.pd, side->buf, REGION_BYTES,
			      access | (side->is_odp ? IBV_ACCESS_ON_DEMAND : 0));
	ulp_require(side->mr, "ibv_reg_mr: %s", strerror(errno));
	/* The registration must include pages that are mapped after it. */
	if (side->is_odp)
		memset(side->buf, 0, REGION_BYTES);
}

static void complete(struct side *side, const char *name)
{
	struct ibv_wc wc;
	int got, err = ibv_wr_complete(side->qpx);

	ulp_require(!err, "posting a %s: %s", name, strerror(err));
	do
		got = ibv_poll_cq(side->id->qp->send_cq, 1, &wc);
	while (!got);
	ulp_require(got == 1 && wc.status == IBV_WC_SUCCESS, "%s: %s, vendor error %u", name,
		    ibv_wc_status_str(wc.status), wc.vendor_err);
	ulp_say("%s: done", name);
}

/* Compares the local memory with the pattern, the word and the counter. */
static void compare(const struct side *side)
{
	size_t wrong = ulp_count_wrong(side->buf, PATTERN_BYTES, 1);
	uint64_t words[2];

	memcpy(words, side->buf + PATTERN_BYTES, sizeof(words));
	ulp_require(!wrong && words[0] == WORD && words[1] == ADDED,
		    "%zu wrong bytes, word %#llx, counter %llu", wrong,
		    (unsigned long long)words[0], (unsigned long long)words[1]);
}

static void transfer(struct side *side, const struct grant *grant)
{
	uint64_t addr = be64toh(grant->addr_be), word, counter;
	uint32_t rkey = be32toh(grant->rkey_be);
	struct ibv_qp_ex *qpx = side->qpx;

	ulp_fill(side->buf, PATTERN_BYTES, 1);
	ibv_wr_start(qpx);
	ibv_wr_rdma_write(qpx, rkey, addr);
	ibv_wr_set_sge(qpx, side->mr->lkey, (uintptr_t)side->buf, PATTERN_BYTES);
	complete(side, "WRITE");
	if (side->has_flush) {
		ibv_wr_start(qpx);
		ibv_wr_flush(qpx, rkey, addr, PATTERN_BYTES, IBV_FLUSH_GLOBAL, IBV_FLUSH_RANGE);
		complete(side, "FLUSH of a range");
	}
	word = WORD;
	ibv_wr_start(qpx);
	ibv_wr_atomic_write(qpx, rkey, addr + PATTERN_BYTES, &word);
	complete(side, "atomic WRITE");
	if (side->has_flush) {
		ibv_wr_start(qpx);
		ibv_wr_flush(qpx, rkey, addr, 0, IBV_FLUSH_GLOBAL, IBV_FLUSH_MR);
		complete(side, "FLUSH of the region");
	}
	ibv_wr_start(qpx);
	ibv_wr_atomic_fetch_add(qpx, rkey, addr + PATTERN_BYTES + 8, ADDED);
	ibv_wr_set_sge(qpx, side->mr->lkey, (uintptr_t)side->buf, 8);
	complete(side, "fetch-and-add");
	memcpy(&counter, side->buf, sizeof(counter));
	memset(side->buf, 0, REGION_BYTES);
	ibv_wr_start(qpx);
	ibv_wr_rdma_read(qpx, rkey, addr);
	ibv_wr_set_sge(qpx, side->mr->lkey, (uintptr_t)side->buf, REGION_BYTES);
	complete(side, "READ");
	compare(side);
	ulp_require(!counter, "the fetch-and-add returned %llu, not 0",
		    (unsigned long long)counter);
}

static void serve(struct side *side, const char *addr, const char *port)
{
	struct rdma_addrinfo *where = lookup(addr, port, RAI_PASSIVE);
	struct rdma_cm_id *listener;
	struct ibv_qp_attr attr;
	struct ibv_qp_init_attr init;
	struct rdma_cm_event *event;
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct grant grant;
	struct rdma_conn_param param = {.responder_resources = 4,
					.initiator_depth = 4,
					.rnr_retry_count = 7,
					.private_data = &grant,
					.private_data_len = sizeof(grant)};

	ulp_require(channel && !rdma_create_id(NULL, &listener, NULL, RDMA_PS_TCP),
		    "rdma_create_id: %s", strerror(errno));
	ulp_require(!rdma_bind_addr(listener, where->ai_src_addr) && !rdma_listen(listener, 1),
		    "listening: %s", strerror(errno));
	rdma_freeaddrinfo(where);
	ulp_require(!rdma_get_request(listener, &side->id), "rdma_get_request: %s",
		    strerror(errno));
	make_queues(side);
	grant = (struct grant){htobe64((uintptr_t)side->buf), htobe32(side->mr->rkey)};
	ulp_require(!rdma_accept(side->id, &param), "rdma_accept: %s", strerror(errno));
	ulp_require(!ibv_query_qp(side->id->qp, &attr, IBV_QP_ACCESS_FLAGS, &init),
		    "ibv_query_qp failed");
	ulp_say("accepted, access flags of the QP %#x", attr.qp_access_flags);
	ulp_require(!rdma_migrate_id(side->id, channel), "rdma_migrate_id: %s", strerror(errno));
	ulp_require(!rdma_get_cm_event(channel, &event), "rdma_get_cm_event: %s", strerror(errno));
	ulp_require(event->event == RDMA_CM_EVENT_DISCONNECTED, "event %s",
		    rdma_event_str(event->event));
	rdma_ack_cm_event(event);
	compare(side);
}

static void drive(struct side *side, const char *addr, const char *port)
{
	struct rdma_addrinfo *where = lookup(addr, port, 0);
	struct rdma_conn_param param = {.responder_resources = 4,
					.initiator_depth = 4,
					/* rxe takes 7 as unlimited. */
					.retry_count = 3,
					.rnr_retry_count = 7};
	struct grant grant;

	ulp_require(!rdma_create_id(NULL, &side->id, NULL, RDMA_PS_TCP), "rdma_create_id: %s",
		    strerror(errno));
	ulp_require(!rdma_resolve_addr(side->id, NULL, where->ai_dst_addr, 5000) &&
			    !rdma_resolve_route(side->id, 5000),
		    "resolving %s: %s", addr, strerror(errno));
	rdma_freeaddrinfo(where);
	make_queues(side);
	ulp_require(!rdma_connect(side->id, &param), "rdma_connect: %s", strerror(errno));
	ulp_require(side->id->event->param.conn.private_data_len >= sizeof(grant),
		    "private data of %u bytes, at least %zu are required",
		    side->id->event->param.conn.private_data_len, sizeof(grant));
	memcpy(&grant, side->id->event->param.conn.private_data, sizeof(grant));
	transfer(side, &grant);
	ulp_require(!rdma_disconnect(side->id), "rdma_disconnect: %s", strerror(errno));
}

int main(int argc, char **argv)
{
	struct side side = {0};

	ulp_require(argc >= 4, "usage: newer serve|drive ADDRESS PORT [odp] [flush]");
	for (int i = 4; i < argc; i++) {
		side.is_odp |= !strcmp(argv[i], "odp");
		side.has_flush |= !strcmp(argv[i], "flush");
	}
	if (!strcmp(argv[1], "serve"))
		serve(&side, argv[2], argv[3]);
	else
		drive(&side, argv[2], argv[3]);
	ulp_say("all bytes are right");
	return 0;
}
