/* SPDX-License-Identifier: BSD-2-Clause */
#include "xrc_worker.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define WORKER_ARGUMENT "--xrc-worker"
#define RECV_ACCESS	(IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC)

struct hello {
	uint64_t addr;
	uint32_t rkey;
};

/* The state of a worker. */
struct work {
	struct api api;
	struct ibv_cq *cq;
	struct ibv_mr *mr;
	struct ibv_xrcd *xrcd;
	struct ibv_srq *srq;
	struct ibv_qp *qp;
	uint8_t *buf;
	int file_fd;
};

static void say(int sock, const void *message, size_t bytes)
{
	assert_int_equal(send(sock, message, bytes, MSG_NOSIGNAL), (ssize_t)bytes);
}

static void hear(int sock, void *message, size_t bytes)
{
	ssize_t got;

	do
		got = recv(sock, message, bytes, 0);
	while (got < 0 && errno == EINTR);
	assert_int_equal(got, (ssize_t)bytes);
}

static int open_xrcd(struct work *work, uint64_t oflags)
{
	struct ibv_xrcd_init_attr attr = {
		.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
		.fd = work->file_fd,
		.oflags = (int)oflags,
	};

	work->xrcd = ibv_open_xrcd(work->api.ctx, &attr);
	return work->xrcd ? 0 : errno;
}

static int make_srq(struct work *work, struct xrc_answer *response)
{
	struct ibv_srq_init_attr_ex attr = {
		.attr = {.max_wr = 64, .max_sge = 1},
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD |
			     IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ,
		.srq_type = IBV_SRQT_XRC,
		.pd = work->api.pd,
		.xrcd = work->xrcd,
		.cq = work->cq,
	};
	uint32_t srqn = 0;

	work->srq = ibv_create_srq_ex(work->api.ctx, &attr);
	if (!work->srq)
		return errno;
	assert_int_equal(ibv_get_srq_num(work->srq, &srqn), 0);
	response->value = srqn;
	return 0;
}

static int make_qp(struct work *work, struct xrc_answer *response)
{
	struct ibv_qp_init_attr_ex attr = {
		.qp_type = IBV_QPT_XRC_RECV,
		.comp_mask = IBV_QP_INIT_ATTR_XRCD,
		.xrcd = work->xrcd,
	};

	work->qp = ibv_create_qp_ex(work->api.ctx, &attr);
	if (!work->qp)
		return errno;
	response->value = work->qp->qp_num;
	return qp_to_init(work->qp, RECV_ACCESS);
}

static int open_name(struct work *work, uint64_t qpn)
{
	struct ibv_qp_open_attr attr = {
		.comp_mask = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE,
		.qp_num = (uint32_t)qpn,
		.xrcd = work->xrcd,
		.qp_type = IBV_QPT_XRC_RECV,
	};

	work->qp = ibv_open_qp(work->api.ctx, &attr);
	return work->qp ? 0 : errno;
}

static int to_rtr(struct work *work, uint64_t remote_qpn)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = (uint32_t)remote_qpn,
		.max_dest_rd_atomic = 4,
		.min_rnr_timer = 1,
		.ah_attr = {.is_global = 1,
			    .port_num = 1,
			    .grh = {.dgid = work->api.gid, .hop_limit = 1}},
	};

	return ibv_modify_qp(work->qp, &attr,
			     IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
				     IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
				     IBV_QP_MIN_RNR_TIMER);
}

static int set_rnr_timer(struct work *work, uint64_t code)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTS, .min_rnr_timer = (uint8_t)code};

	return ibv_modify_qp(work->qp, &attr,
			     IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_MIN_RNR_TIMER);
}

static int post_recv(struct work *work, const struct xrc_command *command)
{
	struct ibv_sge sge = {(uintptr_t)work->buf + command->offset, command->length,
			      work->mr->lkey};
	struct ibv_recv_wr wr = {.wr_id = command->value, .sg_list = &sge, .num_sge = 1}, *bad;

	return ibv_post_srq_recv(work->srq, &wr, &bad);
}

static int next_event(struct work *work, struct xrc_answer *response)
{
	struct ibv_async_event event;

	if (!readable_within(work->api.ctx->async_fd, 20000))
		return ETIMEDOUT;
	if (ibv_get_async_event(work->api.ctx, &event))
		return errno;
	response->value = event.event_type;
	ibv_ack_async_event(&event);
	return 0;
}

/*
 * The engine thread writes the peer's requests to the buffer. Any call takes the engine lock, and
 * so orders these accesses for a sanitizer.
 */
static void meet_engine(struct work *work)
{
	struct ibv_pd *pd = ibv_alloc_pd(work->api.ctx);

	assert_non_null(pd);
	assert_int_equal(ibv_dealloc_pd(pd), 0);
}

static int check(struct work *work, const struct xrc_command *command)
{
	uint8_t wanted[SIDE_BUF_BYTES];

	meet_engine(work);
	fill_pattern(wanted, command->length, (uint8_t)command->value);
	return memcmp(work->buf + command->offset, wanted, command->length) ? -1 : 0;
}

static int destroy_qp(struct work *work)
{
	int ret = ibv_destroy_qp(work->qp);

	work->qp = NULL;
	return ret;
}

static int destroy_srq(struct work *work)
{
	int ret = ibv_destroy_srq(work->srq);

	work->srq = NULL;
	return ret;
}

static int close_xrcd(struct work *work)
{
	int ret = ibv_close_xrcd(work->xrcd);

	if (!ret)
		work->xrcd = NULL;
	return ret;
}

static int obey(struct work *work, const struct xrc_command *command, struct xrc_answer *response)
{
	switch (command->op) {
	case XRC_OPEN:
		return open_xrcd(work, command->value);
	case XRC_CLOSE:
		return close_xrcd(work);
	case XRC_SRQ:
		return make_srq(work, response);
	case XRC_NO_SRQ:
		return destroy_srq(work);
	case XRC_QP:
		return make_qp(work, response);
	case XRC_NAME:
		return open_name(work, command->value);
	case XRC_RTR:
		return to_rtr(work, command->value);
	case XRC_RNR_TIMER:
		return set_rnr_timer(work, command->value);
	case XRC_STATE:
		response->value = qp_state(work->qp);
		return 0;
	case XRC_ERR:
		return qp_to_err(work->qp);
	case XRC_NO_QP:
		return destroy_qp(work);
	case XRC_RECV:
		return post_recv(work, command);
	case XRC_WC:
		response->wc = wc_next(work->cq);
		return 0;
	case XRC_NO_WC:
		return ibv_poll_cq(work->cq, 1, &response->wc);
	case XRC_EVENT:
		return next_event(work, response);
	case XRC_FILL:
		fill_pattern(work->buf + command->offset, command->length, (uint8_t)command->value);
		meet_engine(work);
		return 0;
	case XRC_CHECK:
		return check(work, command);
	case XRC_WORD:
		meet_engine(work);
		memcpy(&response->value, work->buf + command->offset, sizeof(response->value));
		return 0;
	default:
		return EINVAL;
	}
}

static void open_work(struct work *work, int sock, int file_fd)
{
	struct hello hello;

	work->file_fd = file_fd;
	api_open(&work->api);
	work->cq = ibv_create_cq(work->api.ctx, 256, NULL, NULL, 0);
	work->buf = aligned_alloc(4096, SIDE_BUF_BYTES);
	assert_non_null(work->cq);
	assert_non_null(work->buf);
	memset(work->buf, 0, SIDE_BUF_BYTES);
	work->mr = ibv_reg_mr(work->api.pd, work->buf, SIDE_BUF_BYTES, ALL_ACCESS);
	assert_non_null(work->mr);
	hello.addr = (uintptr_t)work->buf;
	hello.rkey = work->mr->rkey;
	say(sock, &hello, sizeof(hello));
}

static void close_work(struct work *work)
{
	if (work->qp)
		assert_int_equal(destroy_qp(work), 0);
	if (work->srq)
		assert_int_equal(destroy_srq(work), 0);
	if (work->xrcd)
		assert_int_equal(close_xrcd(work), 0);
	assert_int_equal(ibv_dereg_mr(work->mr), 0);
	assert_int_equal(ibv_destroy_cq(work->cq), 0);
	api_close(&work->api);
	free(work->buf);
}

/* A cmocka test, so that a failed assertion ends the worker and is printed. */
static void be_a_worker(void **state)
{
	const int *fds = *state;
	struct work work = {0};
	struct xrc_command command;

	/* If the test is killed, the kernel kills its workers. */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	open_work(&work, fds[0], fds[1]);
	while (recv(fds[0], &command, sizeof(command), 0) == (ssize_t)sizeof(command)) {
		struct xrc_answer response = {.ret = 0};

		response.ret = obey(&work, &command, &response);
		say(fds[0], &response, sizeof(response));
	}
	close_work(&work);
}

bool xrc_worker_main(int argc, char **argv, int *status)
{
	static int fds[2];
	const struct CMUnitTest worker[] = {cmocka_unit_test_prestate(be_a_worker, fds)};

	uid_t user;

	if (argc != 5 || strcmp(argv[1], WORKER_ARGUMENT))
		return false;
	fds[0] = atoi(argv[2]);
	fds[1] = atoi(argv[3]);
	user = (uid_t)atoi(argv[4]);
	if (user != geteuid())
		assert_int_equal(setresuid(user, user, user), 0);
	/* Only errors of a worker are printed: the report is that of the test. */
	setenv("CMOCKA_MESSAGE_OUTPUT", "STDOUT", 1);
	assert_non_null(freopen("/dev/null", "w", stdout));
	*status = cmocka_run_group_tests(worker, NULL, NULL);
	return true;
}

void xrc_worker_start(struct xrc_worker *worker, int file_fd)
{
	xrc_worker_start_as(worker, file_fd, geteuid());
}

void xrc_worker_start_as(struct xrc_worker *worker, int file_fd, uid_t user)
{
	struct hello hello;
	char number[3][16];
	int pair[2];

	memset(worker, 0, sizeof(*worker));
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
	worker->pid = fork();
	assert_true(worker->pid >= 0);
	if (!worker->pid) {
		close(pair[0]);
		/* dup() clears close-on-exec. */
		snprintf(number[0], sizeof(number[0]), "%d", dup(pair[1]));
		snprintf(number[1], sizeof(number[1]), "%d", dup(file_fd));
		snprintf(number[2], sizeof(number[2]), "%u", (unsigned int)user);
		execl("/proc/self/exe", "worker", WORKER_ARGUMENT, number[0], number[1], number[2],
		      NULL);
		_exit(127);
	}
	close(pair[1]);
	worker->sock = pair[0];
	hear(worker->sock, &hello, sizeof(hello));
	worker->addr = hello.addr;
	worker->rkey = hello.rkey;
}

void xrc_worker_stop(struct xrc_worker *worker)
{
	int status;

	close(worker->sock);
	assert_int_equal(waitpid(worker->pid, &status, 0), worker->pid);
	assert_true(WIFSIGNALED(status) ? WTERMSIG(status) == SIGKILL : WEXITSTATUS(status) == 0);
}

void xrc_worker_kill(struct xrc_worker *worker)
{
	assert_int_equal(kill(worker->pid, SIGKILL), 0);
	xrc_worker_stop(worker);
}

struct xrc_answer xrc_worker_do(struct xrc_worker *worker, struct xrc_command command)
{
	struct xrc_answer response;

	say(worker->sock, &command, sizeof(command));
	hear(worker->sock, &response, sizeof(response));
	return response;
}

uint64_t xrc_worker_ask(struct xrc_worker *worker, enum xrc_op op, uint64_t value)
{
	struct xrc_answer response = xrc_worker_do(worker,
						   (struct xrc_command){.op = op, .value = value});

	assert_int_equal(response.ret, 0);
	return response.value;
}

void xrc_worker_recv(struct xrc_worker *worker, uint64_t offset, uint32_t length, uint64_t wr_id)
{
	struct xrc_command command = {
		.op = XRC_RECV, .offset = offset, .length = length, .value = wr_id};

	assert_int_equal(xrc_worker_do(worker, command).ret, 0);
}

void xrc_worker_fill(struct xrc_worker *worker, uint64_t offset, uint32_t length, uint8_t seed)
{
	struct xrc_command command = {
		.op = XRC_FILL, .offset = offset, .length = length, .value = seed};

	assert_int_equal(xrc_worker_do(worker, command).ret, 0);
}

bool xrc_worker_holds(struct xrc_worker *worker, uint64_t offset, uint32_t length, uint8_t seed)
{
	struct xrc_command command = {
		.op = XRC_CHECK, .offset = offset, .length = length, .value = seed};

	return xrc_worker_do(worker, command).ret == 0;
}

struct ibv_wc xrc_worker_wc(struct xrc_worker *worker, uint64_t wr_id, enum ibv_wc_status status)
{
	struct ibv_wc wc = xrc_worker_do(worker, (struct xrc_command){.op = XRC_WC}).wc;

	assert_int_equal(wc.wr_id, wr_id);
	assert_int_equal(wc.status, status);
	return wc;
}
