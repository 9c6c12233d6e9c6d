/* SPDX-License-Identifier: BSD-2-Clause */
#include "peer.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define PEER_ARGUMENT "--peer"

/* The parameters with which a peer is started. */
struct peer_start {
	enum peer_flavour flavour;
	struct pair_options options;
};

struct peer_hello {
	uint32_t qpn;
	uint64_t addr;
	uint32_t rkey;
};

/* The state of a peer process. */
struct worker {
	int sock;
	struct api api;
	struct pair pair;
	struct side *side;
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

static void refuse_vm_calls(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_readv, 2, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_writev, 1, 0),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
	};
	struct sock_fprog program = {.len = sizeof(code) / sizeof(code[0]), .filter = code};

	assert_int_equal(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
	assert_int_equal(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program), 0);
}

static int do_connect(struct worker *worker, const struct peer_command *command)
{
	const struct pair_options *options = &worker->pair.options;
	unsigned int access = command->access ? command->access : options->qp_access;
	int ret;

	if (options->type == IBV_QPT_UD) {
		ud_to_rts(worker->side->qp, UD_QKEY);
		return 0;
	}
	ret = qp_to_init(worker->side->qp, access);
	if (!ret)
		ret = qp_to_rtr(worker->side->qp, &worker->api, (uint32_t)command->value);
	if (!ret)
		ret = qp_to_rts(worker->side->qp, options->retry_cnt, options->rnr_retry);
	return ret;
}

static int do_recv(struct worker *worker, const struct peer_command *command)
{
	struct ibv_sge sge = sge_of(worker->side, command->offset, command->length);
	struct ibv_recv_wr wr = {
		.wr_id = command->wr_id, .sg_list = &sge, .num_sge = command->length > 0};
	struct ibv_recv_wr *bad;

	return ibv_post_recv(worker->side->qp, &wr, &bad);
}

static int do_send(struct worker *worker, const struct peer_command *command)
{
	struct ibv_sge sge = sge_of(worker->side, command->offset, command->length);
	struct ibv_send_wr wr = send_wr(command->opcode, &sge, NULL, 0, command->wr_id);
	struct ibv_send_wr *bad;

	wr.send_flags |= command->send_flags;
	wr.num_sge = command->length > 0;
	if (command->opcode == IBV_WR_ATOMIC_CMP_AND_SWP ||
	    command->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr.wr.atomic.remote_addr = command->remote_addr;
		wr.wr.atomic.rkey = (uint32_t)command->value;
		wr.wr.atomic.compare_add = command->compare_add;
		wr.wr.atomic.swap = command->swap;
	} else {
		wr.wr.rdma.remote_addr = command->remote_addr;
		wr.wr.rdma.rkey = (uint32_t)command->value;
		wr.imm_data = (__be32)command->swap;
	}
	return ibv_post_send(worker->side->qp, &wr, &bad);
}

static int do_check(struct worker *worker, const struct peer_command *command)
{
	uint8_t *wanted = malloc(command->length);
	int differs;

	assert_non_null(wanted);
	fill_pattern(wanted, command->length, (uint8_t)command->value);
	differs = memcmp(worker->side->buf + command->offset, wanted, command->length);
	free(wanted);
	return differs ? -1 : 0;
}

static uint64_t *word_at(struct worker *worker, uint64_t offset)
{
	return (uint64_t *)(void *)(worker->side->buf + offset);
}

static int do_add(struct worker *worker, const struct peer_command *command)
{
	for (uint32_t i = 0; i < command->length; i++)
		__atomic_fetch_add(word_at(worker, command->offset), command->value,
				   __ATOMIC_SEQ_CST);
	return 0;
}

static int do_dereg(struct worker *worker)
{
	int ret = ibv_dereg_mr(worker->side->mr);

	/* A region that can be deregistered at the end. */
	worker->side->mr = ibv_reg_mr(worker->api.pd, NULL, 0, 0);
	return ret;
}

static int do_unmap(struct worker *worker)
{
	void *at;

	notice_signal_handlers(&worker->api);
	at = mmap(worker->side->buf, SIDE_BUF_BYTES, PROT_NONE,
		  MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	assert_ptr_equal(at, worker->side->buf);
	return munmap(at, SIDE_BUF_BYTES);
}

/* The limit is one above the highest number that a descriptor may have. */
static int do_starve(struct worker *worker, const struct peer_command *command)
{
	static struct rlimit whole;
	struct rlimit limit;

	(void)worker;
	if (!whole.rlim_cur && getrlimit(RLIMIT_NOFILE, &whole))
		return errno;
	limit = whole;
	if (command->value)
		limit.rlim_cur = 0;
	return setrlimit(RLIMIT_NOFILE, &limit) ? errno : 0;
}

static void do_storm(struct worker *worker, const struct peer_command *command,
		     struct peer_answer *response)
{
	for (bool has_told = false;; has_told = true) {
		assert_int_equal(do_send(worker, command), 0);
		response->wc = wc_next(worker->side->cq);
		if (response->wc.status != IBV_WC_SUCCESS)
			return;
		if (!has_told)
			say(worker->sock, response, sizeof(*response));
	}
}

static void obey(struct worker *worker, const struct peer_command *command,
		 struct peer_answer *response)
{
	static int (*const simple[PEER_OPS])(struct worker *, const struct peer_command *) = {
		[PEER_CONNECT] = do_connect, [PEER_RECV] = do_recv, [PEER_SEND] = do_send,
		[PEER_CHECK] = do_check,     [PEER_ADD] = do_add,   [PEER_STARVE] = do_starve,
	};

	switch (command->op) {
	case PEER_WC:
		response->wc = wc_next(worker->side->cq);
		break;
	case PEER_FILL:
		fill_pattern(worker->side->buf + command->offset, command->length,
			     (uint8_t)command->value);
		break;
	case PEER_WORD:
		response->value = __atomic_load_n(word_at(worker, command->offset),
						  __ATOMIC_SEQ_CST);
		break;
	case PEER_DEREG:
		response->ret = do_dereg(worker);
		break;
	case PEER_UNMAP:
		response->ret = do_unmap(worker);
		break;
	case PEER_HIDE:
		response->ret = prctl(PR_SET_DUMPABLE, 0);
		break;
	case PEER_STORM:
		do_storm(worker, command, response);
		break;
	case PEER_SPIN:
		say(worker->sock, response, sizeof(*response));
		for (volatile unsigned int forever = 0;; forever++)
			;
	default:
		response->ret = simple[command->op](worker, command);
		break;
	}
}

static void work(struct worker *worker)
{
	struct peer_command command;

	while (recv(worker->sock, &command, sizeof(command), 0) == (ssize_t)sizeof(command)) {
		struct peer_answer response = {.ret = 0};

		/*
		 * The engine thread of this process may move data for the other side, which learns
		 * of it by another channel. A call before and after orders these accesses for a
		 * sanitizer that observes only this process.
		 */
		qp_state(worker->side->qp);
		obey(worker, &command, &response);
		qp_state(worker->side->qp);
		say(worker->sock, &response, sizeof(response));
	}
}

static void worker_open(struct worker *worker, int sock)
{
	struct peer_start start;
	struct peer_hello hello;

	worker->sock = sock;
	hear(sock, &start, sizeof(start));
	if (start.flavour == PEER_NO_VM_CALLS)
		refuse_vm_calls();
	if (start.flavour == PEER_UNDUMPABLE)
		assert_int_equal(prctl(PR_SET_DUMPABLE, 0), 0);
	api_open(&worker->api);
	start.options.stays_unconnected = true;
	pair_open(&worker->pair, &worker->api, &start.options);
	worker->side = &worker->pair.a;
	hello.qpn = worker->side->qp->qp_num;
	hello.addr = (uintptr_t)worker->side->buf;
	hello.rkey = worker->side->mr->rkey;
	say(sock, &hello, sizeof(hello));
}

/* A cmocka test, so that a failed assertion ends the peer and is printed. */
static void be_a_peer(void **state)
{
	struct worker worker = {.sock = *(int *)*state};

	/* If the test is killed, the kernel kills its peers, also a spinning one. */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	worker_open(&worker, worker.sock);
	work(&worker);
	pair_close(&worker.pair);
	api_close(&worker.api);
}

bool peer_main(int argc, char **argv, int *status)
{
	static int sock;
	const struct CMUnitTest peer[] = {cmocka_unit_test_prestate(be_a_peer, &sock)};

	if (argc != 3 || strcmp(argv[1], PEER_ARGUMENT))
		return false;
	sock = atoi(argv[2]);
	/* Only errors of a peer are printed: the report is that of the test. */
	setenv("CMOCKA_MESSAGE_OUTPUT", "STDOUT", 1);
	assert_non_null(freopen("/dev/null", "w", stdout));
	*status = cmocka_run_group_tests(peer, NULL, NULL);
	return true;
}

void peer_start(struct peer *peer, enum peer_flavour flavour, const struct pair_options *options)
{
	struct peer_start start = {.flavour = flavour};
	struct peer_hello hello;
	char number[16];
	int pair[2];

	if (options)
		start.options = *options;
	/* Pointers of this process are invalid in the peer. */
	start.options.channel = NULL;
	start.options.srq = NULL;
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
	snprintf(number, sizeof(number), "%d", pair[1]);
	peer->pid = fork();
	assert_true(peer->pid >= 0);
	if (!peer->pid) {
		close(pair[0]);
		/* dup() clears close-on-exec. */
		snprintf(number, sizeof(number), "%d", dup(pair[1]));
		execl("/proc/self/exe", "peer", PEER_ARGUMENT, number, NULL);
		_exit(127);
	}
	close(pair[1]);
	peer->sock = pair[0];
	say(peer->sock, &start, sizeof(start));
	hear(peer->sock, &hello, sizeof(hello));
	peer->qpn = hello.qpn;
	peer->addr = hello.addr;
	peer->rkey = hello.rkey;
}

void peer_connect(struct peer *peer, struct pair *pair)
{
	struct peer_command connect = {.op = PEER_CONNECT, .value = pair->a.qp->qp_num};

	assert_int_equal(peer_do(peer, connect).ret, 0);
	assert_int_equal(qp_to_init(pair->a.qp, pair->options.qp_access), 0);
	assert_int_equal(qp_to_rtr(pair->a.qp, pair->api, peer->qpn), 0);
	assert_int_equal(qp_to_rts(pair->a.qp, pair->options.retry_cnt, pair->options.rnr_retry),
			 0);
}

void peer_stop(struct peer *peer)
{
	int status;

	close(peer->sock);
	assert_int_equal(waitpid(peer->pid, &status, 0), peer->pid);
	assert_true(WIFSIGNALED(status) ? WTERMSIG(status) == SIGKILL : WEXITSTATUS(status) == 0);
}

void peer_tell(struct peer *peer, struct peer_command command)
{
	say(peer->sock, &command, sizeof(command));
}

struct peer_answer peer_answer(struct peer *peer)
{
	struct peer_answer response;

	hear(peer->sock, &response, sizeof(response));
	return response;
}

struct peer_answer peer_do(struct peer *peer, struct peer_command command)
{
	peer_tell(peer, command);
	return peer_answer(peer);
}

void peer_recv(struct peer *peer, uint64_t offset, uint32_t length, uint64_t wr_id)
{
	struct peer_command command = {
		.op = PEER_RECV, .offset = offset, .length = length, .wr_id = wr_id};

	assert_int_equal(peer_do(peer, command).ret, 0);
}

void peer_fill(struct peer *peer, uint64_t offset, uint32_t length, uint8_t seed)
{
	struct peer_command command = {
		.op = PEER_FILL, .offset = offset, .length = length, .value = seed};

	assert_int_equal(peer_do(peer, command).ret, 0);
}

bool peer_holds(struct peer *peer, uint64_t offset, uint32_t length, uint8_t seed)
{
	struct peer_command command = {
		.op = PEER_CHECK, .offset = offset, .length = length, .value = seed};

	return peer_do(peer, command).ret == 0;
}

struct ibv_wc peer_wc(struct peer *peer, uint64_t wr_id, enum ibv_wc_status status)
{
	struct peer_command command = {.op = PEER_WC};
	struct ibv_wc wc = peer_do(peer, command).wc;

	assert_int_equal(wc.wr_id, wr_id);
	assert_int_equal(wc.status, status);
	return wc;
}
