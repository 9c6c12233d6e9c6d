/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Two processes with one connected RC queue pair each. The requester makes one mistake of those
 * that applications make; both processes then end. The test reads the explanation of `usrdma why`.
 *
 *	mistake CASE DEVICE GID_INDEX
 *
 * Prints "requester PID QPN" and "responder PID QPN", and the statuses of the requester's
 * completions.
 */
#include <errno.h>
#include <infiniband/verbs.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define BUF_BYTES 65536u
#define REGION	  61440u
#define DEPTH	  16
#define LENGTH	  4096u
#define ALL_ACCESS                                                                   \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | \
	 IBV_ACCESS_REMOTE_ATOMIC)
#define REMOTE_WRITES (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC)

struct side;
struct hello;

struct mistake {
	const char *name;
	enum ibv_wr_opcode opcode;
	uint32_t length;     /* 0: LENGTH */
	uint32_t rkey_added; /* to the valid rkey */
	uint32_t lkey_added;
	bool is_ucx_fence;     /* the request of UCX's strong fence: address 0, rkey 0xff */
	int region_lacks;      /* access flags that the responder's region lacks */
	unsigned int qp_lacks; /* and its queue pair */
	bool has_other_pd;     /* the responder's region */
	uint32_t recv_length;  /* of the responder's receive; 0: none posted */
	uint32_t recv_lkey_added;
	uint32_t more_wrs; /* posted together with the failing one */
	uint8_t rnr_timer;
	bool responder_ends;	/* before the requester posts */
	bool responder_in_init; /* not moved to RTR */
	bool has_wrong_qpn;	/* of the responder */
	bool has_other_mtu;	/* the responder */
	bool posts_in_err;
	void (*call)(struct side *side, const struct hello *peer); /* instead of a WR */
	uint32_t cq_entries;					   /* 0: DEPTH */
	/* bytes of a memory window of the responder, whose rkey the request has; 0: none */
	uint32_t window;
	bool window_is_read_only;
	bool window_is_bound_again; /* after the requester got its rkey */
};

static void post_in_init(struct side *side, const struct hello *peer);
static void skip_rtr(struct side *side, const struct hello *peer);
static void forget_attribute(struct side *side, const struct hello *peer);
static void mix_families(struct side *side, const struct hello *peer);
static void mix_families_of_datagrams(struct side *side, const struct hello *peer);
static void take_no_route(struct side *side, const struct hello *peer);
static void take_no_route_of_datagrams(struct side *side, const struct hello *peer);
static void exceed_timeout(struct side *side, const struct hello *peer);
static void register_invalid(struct side *side, const struct hello *peer);
static void fill_queue(struct side *side, const struct hello *peer);

static const struct mistake mistakes[] = {
	{.name = "post_in_init", .call = post_in_init},
	{.name = "skip_rtr", .call = skip_rtr},
	{.name = "forget_attribute", .call = forget_attribute},
	{.name = "mix_families", .call = mix_families},
	{.name = "mix_families_of_datagrams", .call = mix_families_of_datagrams},
	{.name = "take_no_route", .call = take_no_route},
	{.name = "take_no_route_of_datagrams", .call = take_no_route_of_datagrams},
	{.name = "exceed_timeout", .call = exceed_timeout},
	{.name = "register_invalid", .call = register_invalid},
	{.name = "fill_queue", .call = fill_queue},
	{.name = "past_end", .length = BUF_BYTES},
	{.name = "wrong_rkey", .rkey_added = 1},
	{.name = "ucx_fence", .opcode = IBV_WR_RDMA_READ, .length = 8, .is_ucx_fence = true},
	{.name = "no_remote_write", .region_lacks = REMOTE_WRITES},
	{.name = "qp_access", .qp_lacks = REMOTE_WRITES},
	{.name = "other_pd", .has_other_pd = true},
	{.name = "wrong_lkey", .lkey_added = 1},
	{.name = "no_receive", .opcode = IBV_WR_SEND, .more_wrs = 3, .rnr_timer = 12},
	{.name = "slow_rnr_timer", .opcode = IBV_WR_SEND},
	{.name = "short_receive", .opcode = IBV_WR_SEND, .recv_length = 100},
	{.name = "invalid_receive",
	 .opcode = IBV_WR_SEND,
	 .recv_length = LENGTH,
	 .recv_lkey_added = 1},
	{.name = "peer_ends", .opcode = IBV_WR_SEND, .responder_ends = true},
	{.name = "peer_not_ready", .opcode = IBV_WR_SEND, .responder_in_init = true},
	{.name = "wrong_qpn", .opcode = IBV_WR_SEND, .has_wrong_qpn = true},
	{.name = "other_mtu", .recv_length = LENGTH, .opcode = IBV_WR_SEND, .has_other_mtu = true},
	{.name = "other_mtu_short",
	 .length = 512,
	 .recv_length = LENGTH,
	 .opcode = IBV_WR_SEND,
	 .has_other_mtu = true},
	{.name = "posted_in_err", .length = BUF_BYTES, .posts_in_err = true},
	{.name = "cq_overrun", .cq_entries = 1, .more_wrs = 7},
	{.name = "past_window", .window = 1024},
	{.name = "read_only_window", .window = LENGTH, .window_is_read_only = true},
	{.name = "window_bound_again", .window = LENGTH, .window_is_bound_again = true},
};

struct side {
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct ibv_mr *mr;
	struct ibv_mw *mw;
	uint8_t *buf;
	int socket;
};

struct hello {
	union ibv_gid gid;
	uint64_t addr;
	uint32_t rkey;
	uint32_t qpn;
	int32_t pid;
};

static void __attribute__((noreturn)) fail(const char *what)
{
	printf("%s: %s\n", what, strerror(errno));
	exit(EXIT_FAILURE);
}

static void open_side(struct side *side, const char *device, const struct mistake *mistake,
		      bool is_requester)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_qp_init_attr init = {
		.qp_type = IBV_QPT_RC,
		.cap = {.max_send_wr = DEPTH,
			.max_recv_wr = DEPTH,
			.max_send_sge = 1,
			.max_recv_sge = 1},
	};
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1};
	struct ibv_pd *mr_pd;

	for (int i = 0; list && list[i]; i++) {
		if (strcmp(ibv_get_device_name(list[i]), device) == 0)
			side->context = ibv_open_device(list[i]);
	}
	if (!side->context)
		fail(device);
	side->pd = ibv_alloc_pd(side->context);
	mr_pd = mistake->has_other_pd && !is_requester ? ibv_alloc_pd(side->context) : side->pd;
	side->buf = calloc(1, BUF_BYTES);
	side->mr = ibv_reg_mr(mr_pd, side->buf, is_requester ? BUF_BYTES : REGION,
			      is_requester ? ALL_ACCESS :
					     (ALL_ACCESS & ~mistake->region_lacks) |
						     (mistake->window ? IBV_ACCESS_MW_BIND : 0));
	if (mistake->window && !is_requester)
		side->mw = ibv_alloc_mw(side->pd, IBV_MW_TYPE_1);
	side->cq = ibv_create_cq(side->context,
				 mistake->cq_entries ? (int)mistake->cq_entries : 2 * DEPTH, NULL,
				 NULL, 0);
	init.send_cq = init.recv_cq = side->cq;
	side->qp = side->cq ? ibv_create_qp(side->pd, &init) : NULL;
	if (!side->mr || !side->qp)
		fail("cannot create the objects");
	attr.qp_access_flags = is_requester ? ALL_ACCESS : ALL_ACCESS & ~mistake->qp_lacks;
	if (ibv_modify_qp(side->qp, &attr,
			  IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS))
		fail("INIT");
}

static void exchange(struct side *side, int gid_index, struct hello *peer)
{
	struct hello own = {.addr = (uintptr_t)side->buf,
			    .rkey = side->mw ? ibv_inc_rkey(side->mw->rkey) : side->mr->rkey,
			    .qpn = side->qp->qp_num,
			    .pid = getpid()};

	if (ibv_query_gid(side->context, 1, gid_index, &own.gid) ||
	    write(side->socket, &own, sizeof(own)) != (ssize_t)sizeof(own) ||
	    read(side->socket, peer, sizeof(*peer)) != (ssize_t)sizeof(*peer))
		fail("exchange");
}

static void connect_side(struct side *side, int gid_index, const struct hello *peer,
			 const struct mistake *mistake, bool is_requester)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = mistake->has_other_mtu && !is_requester ? IBV_MTU_512 : IBV_MTU_1024,
		.dest_qp_num = peer->qpn,
		.max_dest_rd_atomic = 1,
		.min_rnr_timer = mistake->rnr_timer,
		.ah_attr = {.is_global = 1,
			    .port_num = 1,
			    .grh = {.dgid = peer->gid,
				    .sgid_index = (uint8_t)gid_index,
				    .hop_limit = 1}},
	};

	if (ibv_modify_qp(side->qp, &attr,
			  IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
				  IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER))
		fail("RTR");
	attr = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTS,
				    .timeout = 10,
				    .retry_cnt = 2,
				    .rnr_retry = 1,
				    .max_rd_atomic = 1};
	if (ibv_modify_qp(side->qp, &attr,
			  IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
				  IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC))
		fail("RTS");
}

static void post_recv(struct side *side, uint32_t length, uint32_t lkey_added)
{
	struct ibv_sge sge = {(uintptr_t)side->buf, length, side->mr->lkey + lkey_added};
	struct ibv_recv_wr wr = {.wr_id = 0x100, .sg_list = &sge, .num_sge = 1}, *bad;

	if (ibv_post_recv(side->qp, &wr, &bad))
		fail("ibv_post_recv");
}

static int post(struct side *side, const struct mistake *mistake, const struct hello *peer,
		uint64_t wr_id)
{
	struct ibv_sge sge = {(uintptr_t)side->buf, mistake->length ? mistake->length : LENGTH,
			      side->mr->lkey + mistake->lkey_added};
	struct ibv_send_wr wr =
				   {
					   .wr_id = wr_id,
					   .sg_list = &sge,
					   .num_sge = 1,
					   .opcode = mistake->opcode,
					   .send_flags = IBV_SEND_SIGNALED,
					   .wr.rdma = {peer->addr,
						       peer->rkey + mistake->rkey_added},
				   },
			   *bad;

	if (mistake->is_ucx_fence) {
		wr.wr.rdma.remote_addr = 0;
		wr.wr.rdma.rkey = 0xff;
	}
	return ibv_post_send(side->qp, &wr, &bad);
}

static void wait_completions(struct side *side, uint32_t count)
{
	struct ibv_wc wc;

	while (count) {
		if (ibv_poll_cq(side->cq, 1, &wc) != 1)
			continue;
		count--;
		printf("completion 0x%" PRIx64 " %d\n", wc.wr_id, wc.status);
	}
}

static void wait_error(struct side *side)
{
	struct ibv_qp_attr attr;
	struct ibv_qp_init_attr init;

	do {
		if (ibv_query_qp(side->qp, &attr, IBV_QP_STATE, &init))
			fail("ibv_query_qp");
	} while (attr.qp_state != IBV_QPS_ERR);
}

/* Binds the window with the next rkey. */
static void bind_window(struct side *side, const struct mistake *mistake)
{
	struct ibv_mw_bind bind = {
		.send_flags = IBV_SEND_SIGNALED,
		.bind_info = {.mr = side->mr,
			      .addr = (uintptr_t)side->buf,
			      .length = mistake->window,
			      .mw_access_flags = IBV_ACCESS_REMOTE_READ |
						 (mistake->window_is_read_only ? 0 :
										 REMOTE_WRITES)},
	};
	struct ibv_wc wc;

	if (!side->mw || ibv_bind_mw(side->qp, side->mw, &bind))
		fail("ibv_bind_mw");
	while (ibv_poll_cq(side->cq, 1, &wc) != 1)
		;
	if (wc.status)
		fail("bind");
}

static void request(struct side *side, const struct mistake *mistake, const struct hello *peer)
{
	for (uint32_t i = 0; i <= mistake->more_wrs; i++)
		(void)post(side, mistake, peer, i + 1);
	if (mistake->cq_entries) {
		wait_error(side);
		return;
	}
	wait_completions(side, mistake->more_wrs + 1);
	for (int i = 0; mistake->posts_in_err && i < 3; i++) {
		if (post(side, mistake, peer, 0x200))
			fail("ibv_post_send");
		wait_completions(side, 1);
	}
}

static void post_in_init(struct side *side, const struct hello *peer)
{
	if (!post(side, &mistakes[0], peer, 1))
		fail("ibv_post_send");
}

/* INIT to RTR with this mask and these families. */
static void to_rtr(struct side *side, const struct hello *peer, int mask, uint8_t sgid_index)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = peer->qpn,
		.timeout = 32,
		.ah_attr = {.is_global = 1,
			    .port_num = 1,
			    .grh = {.dgid = peer->gid, .sgid_index = sgid_index}},
	};

	if (!ibv_modify_qp(side->qp, &attr, mask))
		fail("ibv_modify_qp");
}

#define RTR_MASK                                                                        \
	(IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | \
	 IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER)

static void forget_attribute(struct side *side, const struct hello *peer)
{
	to_rtr(side, peer, RTR_MASK & ~IBV_QP_DEST_QPN & ~IBV_QP_RQ_PSN, 0);
}

static void exceed_timeout(struct side *side, const struct hello *peer)
{
	to_rtr(side, peer, RTR_MASK | IBV_QP_TIMEOUT, 0);
}

/* GID 1 of lo is IPv4, and that of the peer IPv6. */
static void mix_families(struct side *side, const struct hello *peer)
{
	to_rtr(side, peer, RTR_MASK, 1);
}

static void mix_families_of_datagrams(struct side *side, const struct hello *peer)
{
	struct ibv_ah_attr attr = {
		.is_global = 1, .port_num = 1, .grh = {.dgid = peer->gid, .sgid_index = 1}};

	if (ibv_create_ah(side->pd, &attr))
		fail("ibv_create_ah");
}

/* 192.0.2.1, to which no route leads from 127.0.0.1 (RFC 5737). */
static const union ibv_gid far_gid = {.raw = {[10] = 0xff, 0xff, 192, 0, 2, 1}};

static void take_no_route(struct side *side, const struct hello *peer)
{
	struct hello far = *peer;

	far.gid = far_gid;
	to_rtr(side, &far, RTR_MASK, 1);
}

static void take_no_route_of_datagrams(struct side *side, const struct hello *peer)
{
	struct hello far = *peer;

	far.gid = far_gid;
	mix_families_of_datagrams(side, &far);
}

static void skip_rtr(struct side *side, const struct hello *peer)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTS};

	(void)peer;
	if (!ibv_modify_qp(side->qp, &attr, IBV_QP_STATE))
		fail("ibv_modify_qp");
}

static void register_invalid(struct side *side, const struct hello *peer)
{
	(void)peer;
	if (ibv_reg_mr(side->pd, side->buf, REGION, IBV_ACCESS_REMOTE_WRITE))
		fail("ibv_reg_mr");
}

static void fill_queue(struct side *side, const struct hello *peer)
{
	int posted = 0;

	(void)peer;
	while (posted <= DEPTH) {
		struct ibv_sge sge = {(uintptr_t)side->buf, 1, side->mr->lkey};
		struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = 1}, *bad;

		if (ibv_post_recv(side->qp, &wr, &bad))
			return;
		posted++;
	}
	fail("ibv_post_recv");
}

static void run_requester(struct side *side, int gid_index, const struct mistake *mistake,
			  const char *device)
{
	struct hello peer;
	char byte;

	open_side(side, device, mistake, true);
	exchange(side, gid_index, &peer);
	printf("requester %d %u\nresponder %d %u\n", getpid(), side->qp->qp_num, peer.pid,
	       peer.qpn);
	if (mistake->has_wrong_qpn)
		peer.qpn++;
	if (mistake->call) {
		mistake->call(side, &peer);
		shutdown(side->socket, SHUT_WR);
		return;
	}
	connect_side(side, gid_index, &peer, mistake, true);
	if (write(side->socket, "", 1) != 1)
		fail("write");
	if (read(side->socket, &byte, 1) < 0)
		fail("read");
	request(side, mistake, &peer);
	shutdown(side->socket, SHUT_WR);
}

static void run_responder(struct side *side, int gid_index, const struct mistake *mistake,
			  const char *device)
{
	struct hello peer;
	char byte;

	open_side(side, device, mistake, false);
	exchange(side, gid_index, &peer);
	if (!mistake->responder_in_init)
		connect_side(side, gid_index, &peer, mistake, false);
	for (int i = 0; mistake->window && i <= mistake->window_is_bound_again; i++)
		bind_window(side, mistake);
	if (mistake->recv_length)
		post_recv(side, mistake->recv_length, mistake->recv_lkey_added);
	/* Not before the requester is connected. */
	if (mistake->responder_ends) {
		if (read(side->socket, &byte, 1) != 1)
			fail("read");
		return;
	}
	if (write(side->socket, "", 1) != 1)
		fail("write");
	while (read(side->socket, &byte, 1) > 0)
		;
}

int main(int argc, char **argv)
{
	const struct mistake *mistake = NULL;
	struct side side = {0};
	int sockets[2], status;

	for (size_t i = 0; argc == 4 && i < sizeof(mistakes) / sizeof(mistakes[0]); i++) {
		if (strcmp(mistakes[i].name, argv[1]) == 0)
			mistake = &mistakes[i];
	}
	if (!mistake || socketpair(AF_UNIX, SOCK_STREAM, 0, sockets))
		fail("usage: mistake CASE DEVICE GID_INDEX");
	if (fork() == 0) {
		close(sockets[0]);
		side.socket = sockets[1];
		run_responder(&side, atoi(argv[3]), mistake, argv[2]);
		fflush(stdout);
		_exit(EXIT_SUCCESS);
	}
	close(sockets[1]);
	side.socket = sockets[0];
	run_requester(&side, atoi(argv[3]), mistake, argv[2]);
	fflush(stdout);
	if (wait(&status) < 0 || status)
		return EXIT_FAILURE;
	return EXIT_SUCCESS;
}
