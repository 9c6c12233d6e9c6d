/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A peer continuously accesses memory by RDMA while the owner of the memory revokes the access. The
 * program counts the rounds in which an access took effect after the revoking call had returned.
 *
 *	late_access ADDRESS ACTION DISTURBANCE ROUNDS
 *		ROUNDS for each operation and size
 *	late_access ADDRESS exec - ROUNDS
 *		the owner calls exec() instead of a revoking call
 *
 * ACTION: dereg, rereg, dealloc_mw, destroy_qp, err, reset, rdma_destroy_qp. DISTURBANCE: the
 * treatment of the peer before the call: none, stop (SIGSTOP until the call has returned), kill
 * (SIGKILL), closefrom (the peer closes its descriptors and continues), daemon (SIGSTOP; the test
 * sends SIGUSR1 after it killed the daemon, and the owner then kills the peer).
 *
 * The peer is another process of this program ("late_access ADDRESS peer") that communicates over
 * pipes on descriptors 20 and 21.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <rdma/rdma_cma.h>

#include "memory_kind.h"

#define REMOTE_ACCESS  (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC)
#define BUF_BYTES      (64u << 20)
#define STRIDE	       2048u
#define DEPTH	       4
#define DELAY_MAX_NS   300000
#define GOES_ON_NS     30000000
#define SILENCE_MAX_NS 15000000000
/* Above all executables and below all libraries, in a range that the sanitizers do not reserve. */
#define FIXED_ADDR ((void *)0x567000000000)
#define ORDERS_FD  20 /* descriptor of the pipe to the peer, kept across exec() */
#define ANSWERS_FD 21

enum { MARK = 0xee, PEERS_BYTE = 0xaa, BEFORE = 0x11 };

struct order {
	uint64_t addr;
	uint32_t qpn;
	uint32_t rkey;
	uint32_t bytes;
	enum ibv_wr_opcode opcode;
	bool does_closefrom;
};

struct response {
	enum { HAS_QP, RUNS, IS_OVER } what;
	/* HAS_QP: the QPN; IS_OVER: whether a READ returned data written after the revocation */
	uint32_t value;
};

static struct rdma_cm_id *id;
static struct ibv_pd *pd;
static struct ibv_cq *cq;
static uint8_t *buf;
static struct ibv_mr *mr;
static const char *address;

#define die(...)                                               \
	do {                                                   \
		fprintf(stderr, "late_access %d: ", getpid()); \
		fprintf(stderr, __VA_ARGS__);                  \
		fprintf(stderr, ": %s\n", strerror(errno));    \
		_exit(2);                                      \
	} while (0)

#define must(condition)                  \
	do {                             \
		if (!(condition))        \
			die(#condition); \
	} while (0)

static long now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000L + now.tv_nsec;
}

static void put(int fd, const void *from, size_t bytes)
{
	if (write(fd, from, bytes) != (ssize_t)bytes)
		die("write");
}

static void get(int fd, void *to, size_t bytes)
{
	if (read(fd, to, bytes) != (ssize_t)bytes)
		die("read");
}

static void open_device(void *at)
{
	struct sockaddr_in sin = {.sin_family = AF_INET};

	must(inet_pton(AF_INET, address, &sin.sin_addr) == 1);
	must(!rdma_create_id(NULL, &id, NULL, RDMA_PS_TCP));
	must(!rdma_bind_addr(id, (struct sockaddr *)&sin));
	pd = ibv_alloc_pd(id->verbs);
	must(pd);
	cq = ibv_create_cq(id->verbs, 64, NULL, NULL, 0);
	must(cq);
	buf = memory_of_kind(getenv("LATE_ACCESS_MEMORY"), at, 2 * BUF_BYTES, NULL);
}

static struct ibv_qp *make_qp(bool of_id)
{
	struct ibv_qp_init_attr init = {
		.qp_type = IBV_QPT_RC,
		.send_cq = cq,
		.recv_cq = cq,
		.cap = {.max_send_wr = 16, .max_recv_wr = 16, .max_send_sge = 1, .max_recv_sge = 1},
	};
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = REMOTE_ACCESS};
	struct ibv_qp *qp;

	if (of_id)
		must(!rdma_create_qp(id, pd, &init));
	qp = of_id ? id->qp : ibv_create_qp(pd, &init);
	must(qp);
	must(!ibv_modify_qp(qp, &attr,
			    IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS));
	return qp;
}

static void connect_qp(struct ibv_qp *qp, uint32_t remote_qpn)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = remote_qpn,
		.max_dest_rd_atomic = 8,
		.min_rnr_timer = 1,
		.ah_attr = {.is_global = 1, .port_num = 1},
	};

	must(!ibv_query_gid(id->verbs, 1, 0, &attr.ah_attr.grh.dgid));
	must(!ibv_modify_qp(qp, &attr,
			    IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
				    IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
				    IBV_QP_MIN_RNR_TIMER));
	attr = (struct ibv_qp_attr){
		.qp_state = IBV_QPS_RTS, .timeout = 8, .retry_cnt = 1, .max_rd_atomic = 8};
	must(!ibv_modify_qp(qp, &attr,
			    IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
				    IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC));
}

/* The peer. */

static int post(struct ibv_qp *qp, const struct order *order)
{
	struct ibv_sge sge = {.addr = (uintptr_t)buf, .length = order->bytes, .lkey = mr->lkey};
	struct ibv_send_wr *bad, wr = {.opcode = order->opcode,
				       .sg_list = &sge,
				       .num_sge = 1,
				       .send_flags = IBV_SEND_SIGNALED};

	if (order->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr.wr.atomic.remote_addr = order->addr;
		wr.wr.atomic.rkey = order->rkey;
		wr.wr.atomic.compare_add = 1;
	} else {
		wr.wr.rdma.remote_addr = order->addr;
		wr.wr.rdma.rkey = order->rkey;
	}
	return ibv_post_send(qp, &wr, &bad);
}

/*
 * Accesses memory until an operation fails. A peer that closed its descriptors stops after
 * GOES_ON_NS at the latest.
 */
static void access_on_and_on(struct ibv_qp *qp, const struct order *order)
{
	struct response response = {.what = RUNS};
	bool has_closed = !order->does_closefrom;
	unsigned int done = 0;
	long closed_ns = 0, last_ns = now_ns();
	struct ibv_wc wc;

	for (int i = 0; i < DEPTH; i++)
		must(!post(qp, order));
	for (;;) {
		int n = ibv_poll_cq(cq, 1, &wc);

		if (order->does_closefrom && has_closed && now_ns() - closed_ns > GOES_ON_NS)
			return;
		if (n < 0 || (n && wc.status != IBV_WC_SUCCESS))
			return;
		if (!n && now_ns() - last_ns > SILENCE_MAX_NS)
			die("opcode %d, %u bytes: no completion for 15 s", order->opcode,
			    order->bytes);
		if (!n)
			continue;
		last_ns = now_ns();
		if (!done++)
			put(ANSWERS_FD, &response, sizeof(response));
		/*
		 * ThreadSanitizer would report close() of a descriptor in use by another thread,
		 * which is intended here.
		 */
		if (!has_closed && done == 3) {
			for (int fd = 3; fd < 256; fd++) {
				if (fd != ORDERS_FD && fd != ANSWERS_FD)
					syscall(SYS_close, fd);
			}
			has_closed = true;
			closed_ns = now_ns();
		}
		if (post(qp, order))
			return;
	}
}

static bool has_mark(uint32_t bytes)
{
	for (uint32_t i = 0; i < bytes; i += STRIDE) {
		if (buf[i] == MARK)
			return true;
	}
	return false;
}

static void be_peer(void)
{
	struct order order;

	open_device(NULL);
	mr = ibv_reg_mr(pd, buf, BUF_BYTES, IBV_ACCESS_LOCAL_WRITE);
	must(mr);
	while (read(ORDERS_FD, &order, sizeof(order)) == sizeof(order)) {
		struct ibv_qp *qp = make_qp(false);
		struct response response = {.what = HAS_QP, .value = qp->qp_num};

		memset(buf, PEERS_BYTE, order.bytes);
		connect_qp(qp, order.qpn);
		put(ANSWERS_FD, &response, sizeof(response));
		get(ORDERS_FD, &order.rkey, sizeof(order.rkey));
		access_on_and_on(qp, &order);
		response = (struct response){.what = IS_OVER,
					     .value = order.opcode == IBV_WR_RDMA_READ &&
						      has_mark(order.bytes)};
		put(ANSWERS_FD, &response, sizeof(response));
		must(!ibv_destroy_qp(qp));
	}
}

/* The owner. */

static pid_t peer = -1;

static void start_peer(void)
{
	int orders[2], responses[2];

	must(!pipe(orders) && !pipe(responses));
	peer = fork();
	must(peer >= 0);
	if (!peer) {
		must(dup2(orders[0], 100) == 100 && dup2(responses[1], 101) == 101);
		must(dup2(100, ORDERS_FD) == ORDERS_FD && dup2(101, ANSWERS_FD) == ANSWERS_FD);
		for (int fd = 3; fd < 256; fd++) {
			if (fd != ORDERS_FD && fd != ANSWERS_FD)
				close(fd);
		}
		execl("/proc/self/exe", "late_access", address, "peer", (char *)NULL);
		die("exec");
	}
	must(dup2(orders[1], 100) == 100 && dup2(responses[0], 101) == 101);
	close(orders[0]);
	close(orders[1]);
	close(responses[0]);
	close(responses[1]);
	must(dup2(100, ORDERS_FD) == ORDERS_FD && dup2(101, ANSWERS_FD) == ANSWERS_FD);
	close(100);
	close(101);
}

static uint32_t expect(int what)
{
	struct response response;

	get(ANSWERS_FD, &response, sizeof(response));
	if ((int)response.what != what)
		die("the peer answered %d, not %d", response.what, what);
	return response.value;
}

static void linger(void)
{
	long until_ns = now_ns() + rand() % DELAY_MAX_NS;

	while (now_ns() < until_ns)
		;
}

struct victim {
	struct ibv_qp *qp;
	struct ibv_mw *mw;
	struct order order;
};

/* Binds a memory window over the region, for dealloc_mw. */
static uint32_t bind_window(struct victim *victim)
{
	struct ibv_mw_bind bind = {
		.send_flags = IBV_SEND_SIGNALED,
		.bind_info = {.mr = mr,
			      .addr = (uintptr_t)buf,
			      .length = victim->order.bytes,
			      .mw_access_flags = REMOTE_ACCESS},
	};
	struct ibv_wc wc;
	int n;

	victim->mw = ibv_alloc_mw(pd, IBV_MW_TYPE_1);
	must(victim->mw);
	must(!ibv_bind_mw(victim->qp, victim->mw, &bind));
	while (!(n = ibv_poll_cq(cq, 1, &wc)))
		;
	must(n == 1 && wc.status == IBV_WC_SUCCESS);
	return victim->mw->rkey;
}

static void prepare(struct victim *victim, const char *action)
{
	mr = ibv_reg_mr(pd, buf, BUF_BYTES,
			IBV_ACCESS_LOCAL_WRITE | REMOTE_ACCESS | IBV_ACCESS_MW_BIND);
	must(mr);
	victim->qp = make_qp(!strcmp(action, "rdma_destroy_qp"));
	victim->order.qpn = victim->qp->qp_num;
	victim->order.addr = (uintptr_t)buf;
	victim->order.rkey = mr->rkey;
}

static void set_going(struct victim *victim, const char *action)
{
	put(ORDERS_FD, &victim->order, sizeof(victim->order));
	connect_qp(victim->qp, expect(HAS_QP));
	/* The window can be bound only by a connected QP. */
	if (!strcmp(action, "dealloc_mw"))
		victim->order.rkey = bind_window(victim);
	put(ORDERS_FD, &victim->order.rkey, sizeof(victim->order.rkey));
	expect(RUNS);
}

static int set_state(struct ibv_qp *qp, enum ibv_qp_state state)
{
	struct ibv_qp_attr attr = {.qp_state = state};

	return ibv_modify_qp(qp, &attr, IBV_QP_STATE);
}

static int revoke_access(struct victim *victim, const char *action)
{
	if (!strcmp(action, "dereg"))
		return ibv_dereg_mr(mr);
	if (!strcmp(action, "rereg"))
		return ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, buf + BUF_BYTES,
				    BUF_BYTES, 0);
	if (!strcmp(action, "dealloc_mw"))
		return ibv_dealloc_mw(victim->mw);
	if (!strcmp(action, "destroy_qp"))
		return ibv_destroy_qp(victim->qp);
	if (!strcmp(action, "err"))
		return set_state(victim->qp, IBV_QPS_ERR);
	if (!strcmp(action, "reset"))
		return set_state(victim->qp, IBV_QPS_RESET);
	if (strcmp(action, "rdma_destroy_qp"))
		die("no action %s", action);
	rdma_destroy_qp(id);
	return id->qp ? EBUSY : 0;
}

static void clean_up(struct victim *victim, const char *action)
{
	if (strcmp(action, "dereg"))
		must(!ibv_dereg_mr(mr));
	if (strcmp(action, "destroy_qp") && strcmp(action, "rdma_destroy_qp"))
		must(!ibv_destroy_qp(victim->qp));
}

/* Marks one byte of each stride, so that marking a large buffer takes little time. */
static void mark(uint32_t bytes)
{
	for (uint32_t i = 0; i < bytes; i += STRIDE)
		((volatile uint8_t *)buf)[i] = MARK;
}

static bool is_marked(uint32_t bytes)
{
	for (uint32_t i = 0; i < bytes; i += STRIDE) {
		if (((volatile uint8_t *)buf)[i] != MARK)
			return false;
	}
	return true;
}

static void disturb(const char *disturbance)
{
	sigset_t usr1;
	int number;

	if (!strcmp(disturbance, "stop") || !strcmp(disturbance, "daemon"))
		must(!kill(peer, SIGSTOP));
	if (!strcmp(disturbance, "kill"))
		must(!kill(peer, SIGKILL));
	if (strcmp(disturbance, "daemon"))
		return;
	printf("stopped\n");
	fflush(stdout);
	sigemptyset(&usr1);
	sigaddset(&usr1, SIGUSR1);
	must(!sigwait(&usr1, &number));
	must(!kill(peer, SIGKILL));
}

/* Whether the peer's access took effect after the revoking call. */
static bool run_round(enum ibv_wr_opcode opcode, uint32_t bytes, const char *action,
		      const char *disturbance)
{
	struct victim victim = {.order = {.opcode = opcode,
					  .bytes = bytes,
					  .does_closefrom = !strcmp(disturbance, "closefrom")}};
	bool is_killed = !strcmp(disturbance, "kill") || !strcmp(disturbance, "daemon");
	bool is_late;
	int error;

	if (peer < 0)
		start_peer();
	memset(buf, BEFORE, bytes);
	prepare(&victim, action);
	set_going(&victim, action);
	linger();
	disturb(disturbance);
	error = revoke_access(&victim, action);
	mark(bytes);
	if (error)
		die("%s answered %d", action, error);
	if (!strcmp(disturbance, "stop"))
		must(!kill(peer, SIGCONT));
	is_late = is_killed ? false : expect(IS_OVER);
	if (is_killed || victim.order.does_closefrom) {
		must(!kill(peer, SIGKILL) || errno == ESRCH);
		must(waitpid(peer, NULL, 0) == peer);
		peer = -1;
	}
	if (opcode != IBV_WR_RDMA_READ)
		is_late = !is_marked(bytes);
	/* Without the daemon no further round is possible. */
	if (!strcmp(disturbance, "daemon")) {
		printf("late in %d rounds\n", is_late);
		exit(is_late);
	}
	clean_up(&victim, action);
	return is_late;
}

static const struct {
	enum ibv_wr_opcode opcode;
	uint32_t bytes;
} operations[] = {
	{IBV_WR_RDMA_WRITE, BUF_BYTES},	  {IBV_WR_RDMA_WRITE, 64u << 10},
	{IBV_WR_RDMA_WRITE, 4096},	  {IBV_WR_RDMA_WRITE, 8},
	{IBV_WR_RDMA_READ, BUF_BYTES},	  {IBV_WR_RDMA_READ, 64u << 10},
	{IBV_WR_RDMA_READ, 4096},	  {IBV_WR_RDMA_READ, 8},
	{IBV_WR_ATOMIC_FETCH_AND_ADD, 8},
};

static unsigned long run_all(const char *action, const char *disturbance, unsigned long rounds)
{
	unsigned long late = 0;

	for (size_t i = 0; i < sizeof(operations) / sizeof(operations[0]); i++) {
		unsigned long late_here = 0;

		for (unsigned long round = 0; round < rounds; round++)
			late_here += run_round(operations[i].opcode, operations[i].bytes, action,
					       disturbance);
		if (late_here)
			printf("%s, %s: opcode %d, %u bytes: late in %lu of %lu rounds\n", action,
			       disturbance, operations[i].opcode, operations[i].bytes, late_here,
			       rounds);
		late += late_here;
	}
	return late;
}

/*
 * Calls exec(); the new program maps other memory at the same address. The peer continues until an
 * operation fails.
 */
static void run_exec(unsigned long rounds)
{
	struct victim victim = {.order = {.opcode = IBV_WR_RDMA_WRITE, .bytes = 64u << 10}};
	char peer_text[16], rounds_text[16];

	open_device(FIXED_ADDR);
	start_peer();
	prepare(&victim, "exec");
	set_going(&victim, "exec");
	linger();
	snprintf(peer_text, sizeof(peer_text), "%d", peer);
	snprintf(rounds_text, sizeof(rounds_text), "%lu", rounds);
	execl("/proc/self/exe", "late_access", address, "after_exec", peer_text, rounds_text,
	      (char *)NULL);
	die("exec");
}

static void run_after_exec(pid_t old_peer, unsigned long rounds)
{
	uint32_t bytes = 64u << 10;

	buf = mmap(FIXED_ADDR, BUF_BYTES, PROT_READ | PROT_WRITE,
		   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
	must(buf != MAP_FAILED);
	mark(bytes);
	expect(IS_OVER);
	if (!is_marked(bytes)) {
		printf("late after exec()\n");
		exit(1);
	}
	close(ORDERS_FD);
	close(ANSWERS_FD);
	must(waitpid(old_peer, NULL, 0) == old_peer);
	if (rounds <= 1) {
		printf("late in 0 rounds\n");
		exit(0);
	}
	munmap(buf, BUF_BYTES);
	run_exec(rounds - 1);
}

int main(int argc, char **argv)
{
	unsigned long late;
	sigset_t usr1;

	if (argc < 3)
		return 2;
	address = argv[1];
	srand((unsigned int)getpid());
	sigemptyset(&usr1);
	sigaddset(&usr1, SIGUSR1);
	sigprocmask(SIG_BLOCK, &usr1, NULL);
	signal(SIGPIPE, SIG_IGN);
	if (!strcmp(argv[2], "peer")) {
		be_peer();
		return 0;
	}
	if (argc < 5)
		return 2;
	if (!strcmp(argv[2], "exec"))
		run_exec(strtoul(argv[4], NULL, 10));
	if (!strcmp(argv[2], "after_exec"))
		run_after_exec((pid_t)atoi(argv[3]), strtoul(argv[4], NULL, 10));
	open_device(NULL);
	late = run_all(argv[2], argv[3], strtoul(argv[4], NULL, 10));
	printf("late in %lu rounds\n", late);
	return late != 0;
}
