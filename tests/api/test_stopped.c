/* SPDX-License-Identifier: BSD-2-Clause */

/*
 * A stopped daemon does not reply: only the calls that need its reply block, and no other thread.
 */

#include "child.h"
#include "datagram.h"
#include "host.h"
#include "peer.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define ROUNDS 500
#define FORKS  20
/* Seconds after which a hanging process is killed. */
#define PATIENCE_S 30

/* The number of low bits of a QPN within a QPN range. */
#define SLOT_SHIFT 15
#define SLOTS	   511u

/*
 * The daemon assigns QPN ranges in turn, so the range half of the table away from this process's
 * range is free. Each call returns another one.
 */
static uint32_t unowned_qpn(const struct ibv_qp *own)
{
	static uint32_t next;
	uint32_t slot = (own->qp_num >> SLOT_SHIFT) + SLOTS / 2 + next++;

	return (slot % SLOTS + 1) << SLOT_SHIFT | 5;
}

static struct api api;

static int setup(void **state)
{
	*state = &api;
	api_open(&api);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	host_continue_daemon();
	api_close(&api);
	return 0;
}

/* A call that waits for the daemon, in a thread of its own. */
struct waiting {
	void (*call)(struct waiting *waiting);
	pthread_t thread;
	atomic_bool has_begun;
	atomic_bool has_ended;
	int ret;
	struct ibv_qp *qp; /* to_rtr */
	uint32_t remote_qpn;
	struct ibv_xrcd *xrcd; /* open_xrcd, close_xrcd, open_qp */
	int file_fd;
	struct ibv_device **devices; /* list_devices, open_device */
	struct ibv_context *context;
};

static void to_rtr(struct waiting *waiting)
{
	waiting->ret = qp_to_rtr(waiting->qp, &api, waiting->remote_qpn);
}

static void open_xrcd(struct waiting *waiting)
{
	struct ibv_xrcd_init_attr attr = {
		.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
		.fd = waiting->file_fd,
		.oflags = O_CREAT,
	};

	waiting->xrcd = ibv_open_xrcd(api.ctx, &attr);
	waiting->ret = waiting->xrcd ? 0 : errno;
}

static void close_xrcd(struct waiting *waiting)
{
	waiting->ret = ibv_close_xrcd(waiting->xrcd);
}

static void open_qp(struct waiting *waiting)
{
	struct ibv_qp_open_attr attr = {
		.comp_mask = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE,
		.qp_num = waiting->remote_qpn,
		.xrcd = waiting->xrcd,
		.qp_type = IBV_QPT_XRC_RECV,
	};

	waiting->ret = ibv_open_qp(api.ctx, &attr) ? 0 : errno;
}

static void *run_call(void *arg)
{
	struct waiting *waiting = arg;

	waiting->has_begun = true;
	waiting->call(waiting);
	waiting->has_ended = true;
	return NULL;
}

static void ping_pong(struct pair *pair, uint64_t round)
{
	struct ibv_sge from = sge_of(&pair->a, 0, 64), to = sge_of(&pair->b, 0, 64);
	struct ibv_send_wr wr = send_wr(IBV_WR_SEND, &from, NULL, 0, round);

	post_recv_ok(&pair->b, &to, 1, round);
	post_send_ok(&pair->a, &wr);
	wc_expect(pair->b.cq, round, IBV_WC_SUCCESS);
	wc_expect(pair->a.cq, round, IBV_WC_SUCCESS);
}

/* Many rounds: the engine thread and the waiting thread may run between them. */
static void ping_pongs(struct pair *pair)
{
	for (uint64_t i = 1; i <= ROUNDS; i++) {
		ping_pong(pair, i);
		sched_yield();
	}
}

/*
 * Makes the call while the daemon is stopped. It returns when the daemon continues; until then
 * `busy` exchanges messages.
 */
static void expect_only_the_call_waits(struct pair *busy, struct waiting *waiting,
				       void (*call)(struct waiting *))
{
	waiting->call = call;
	waiting->has_begun = false;
	waiting->has_ended = false;
	host_stop_daemon();
	assert_int_equal(pthread_create(&waiting->thread, NULL, run_call, waiting), 0);
	while (!waiting->has_begun)
		sched_yield();
	ping_pongs(busy);
	assert_false(waiting->has_ended);
	host_continue_daemon();
	assert_int_equal(pthread_join(waiting->thread, NULL), 0);
	ping_pong(busy, 0);
}

/* A connection to a process without a pair while the daemon is stopped. */
static void
ibv_post_send_stopped_daemon_data_path_goes_on_while_daemon_introduces_nobody(void **state)
{
	struct pair_options unconnected = {.stays_unconnected = true};
	struct waiting waiting = {0};
	struct pair busy, idle;
	struct peer peer;

	(void)state;
	pair_open(&busy, &api, NULL);
	pair_open(&idle, &api, &unconnected);
	peer_start(&peer, PEER_PLAIN, NULL);
	ping_pong(&busy, 0);
	assert_int_equal(qp_to_init(idle.a.qp, ALL_ACCESS), 0);
	waiting.qp = idle.a.qp;
	waiting.remote_qpn = peer.qpn;
	expect_only_the_call_waits(&busy, &waiting, to_rtr);
	assert_int_equal(waiting.ret, 0);
	pair_close(&idle);
	pair_close(&busy);
	peer_stop(&peer);
}

/*
 * The sender's posts return, and its other QPs work. The datagram arrives when the daemon has
 * connected the processes.
 */
static void
ibv_post_send_stopped_daemon_first_datagram_to_process_waits_without_engine_lock(void **state)
{
	const struct pair_options options = {.type = IBV_QPT_UD};
	struct ibv_sge sge;
	struct ibv_send_wr wr;
	struct pair busy;
	struct peer peer;
	struct ud ud;

	(void)state;
	pair_open(&busy, &api, NULL);
	ud_open(&ud, &api, NULL);
	peer_start(&peer, PEER_PLAIN, &options);
	assert_int_equal(peer_do(&peer, (struct peer_command){.op = PEER_CONNECT}).ret, 0);
	peer_recv(&peer, 0, 1000, 1);
	fill_pattern(ud.pair.a.buf, 100, 5);
	wr = ud_wr(&ud, &ud.pair.a, &ud.pair.b, &sge, 100);
	wr.wr.ud.remote_qpn = peer.qpn;
	host_stop_daemon();
	post_send_ok(&ud.pair.a, &wr);
	ping_pong(&busy, 1);
	host_continue_daemon();
	wc_expect(ud.pair.a.cq, 100, IBV_WC_SUCCESS);
	peer_wc(&peer, 1, IBV_WC_SUCCESS);
	assert_true(peer_holds(&peer, GRH_BYTES, 100, 5));
	ud_close(&ud);
	pair_close(&busy);
	peer_stop(&peer);
}

/*
 * A datagram waits one second for the daemon, as it does for room in a peer's ring, and is then
 * dropped.
 */
static void datagram_is_lost_when_the_daemon_stays_stopped(void **state)
{
	struct ibv_sge sge;
	struct ibv_send_wr wr;
	struct pair busy;
	struct ud ud;

	(void)state;
	pair_open(&busy, &api, NULL);
	ud_open(&ud, &api, NULL);
	wr = ud_wr(&ud, &ud.pair.a, &ud.pair.b, &sge, 100);
	wr.wr.ud.remote_qpn = unowned_qpn(busy.a.qp);
	host_stop_daemon();
	post_send_ok(&ud.pair.a, &wr);
	ping_pong(&busy, 1);
	wc_expect(ud.pair.a.cq, 100, IBV_WC_SUCCESS);
	host_continue_daemon();
	ud_close(&ud);
	pair_close(&busy);
}

/*
 * A queue pair that was connected while no process owned its peer's QPN asks the daemon for the
 * owner when it sends.
 */
static void send_to_an_unowned_qpn_waits_without_the_engine_lock(void **state)
{
	struct pair_options unconnected = {.stays_unconnected = true};
	struct pair busy, idle;
	struct ibv_sge sge;
	struct ibv_send_wr wr;

	(void)state;
	pair_open(&busy, &api, NULL);
	pair_open(&idle, &api, &unconnected);
	assert_int_equal(qp_to_init(idle.a.qp, ALL_ACCESS), 0);
	assert_int_equal(qp_to_rtr(idle.a.qp, &api, unowned_qpn(busy.a.qp)), 0);
	assert_int_equal(qp_to_rts(idle.a.qp, 0, 0), 0);
	sge = sge_of(&idle.a, 0, 64);
	wr = send_wr(IBV_WR_SEND, &sge, NULL, 0, 7);
	host_stop_daemon();
	post_send_ok(&idle.a, &wr);
	ping_pongs(&busy);
	wc_none(idle.a.cq);
	host_continue_daemon();
	wc_expect(idle.a.cq, 7, IBV_WC_RETRY_EXC_ERR);
	pair_close(&idle);
	pair_close(&busy);
}

static void xrc_domain_is_opened_and_closed_without_the_engine_lock(void **state)
{
	struct waiting waiting = {0};
	struct pair busy;

	(void)state;
	waiting.file_fd = memfd_create("domain", MFD_CLOEXEC);
	assert_true(waiting.file_fd >= 0);
	pair_open(&busy, &api, NULL);
	waiting.remote_qpn = unowned_qpn(busy.a.qp);
	expect_only_the_call_waits(&busy, &waiting, open_xrcd);
	assert_int_equal(waiting.ret, 0);
	expect_only_the_call_waits(&busy, &waiting, open_qp);
	assert_int_equal(waiting.ret, EINVAL);
	expect_only_the_call_waits(&busy, &waiting, close_xrcd);
	assert_int_equal(waiting.ret, 0);
	pair_close(&busy);
	close(waiting.file_fd);
}

static void list_devices(struct waiting *waiting)
{
	waiting->devices = ibv_get_device_list(NULL);
	waiting->ret = waiting->devices ? 0 : errno;
}

static void open_device(struct waiting *waiting)
{
	waiting->context = ibv_open_device(waiting->devices[0]);
	waiting->ret = waiting->context ? 0 : errno;
}

static bool fork_and_wait(void)
{
	int status = -1;
	pid_t pid = fork();

	if (!pid)
		_exit(0);
	return waitpid(pid, &status, 0) == pid && !status;
}

/* Makes the call while the daemon is stopped, and forks before the call returns. */
static bool forks_during(struct waiting *waiting, void (*call)(struct waiting *), pid_t daemon)
{
	bool is_good;

	waiting->call = call;
	waiting->has_begun = false;
	waiting->has_ended = false;
	is_good = !kill(daemon, SIGSTOP) &&
		  !pthread_create(&waiting->thread, NULL, run_call, waiting);
	while (is_good && !waiting->has_begun)
		sched_yield();
	for (int i = 0; i < FORKS && is_good; i++)
		is_good = fork_and_wait();
	is_good = is_good && !waiting->has_ended;
	return !kill(daemon, SIGCONT) && is_good && !pthread_join(waiting->thread, NULL) &&
	       !waiting->ret;
}

/* Runs in a process of its own, which has not used the daemon before. */
static bool forks_while_it_connects(void *arg)
{
	struct waiting waiting = {0};
	const pid_t *daemon = arg;

	alarm(PATIENCE_S);
	return forks_during(&waiting, list_devices, *daemon) &&
	       forks_during(&waiting, open_device, *daemon) && !ibv_close_device(waiting.context);
}

static void fork_does_not_wait_for_a_thread_that_connects_to_the_daemon(void **state)
{
	pid_t daemon = host_daemon_pid();

	(void)state;
	child_agrees(forks_while_it_connects, &daemon);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
			ibv_post_send_stopped_daemon_data_path_goes_on_while_daemon_introduces_nobody),
		cmocka_unit_test(
			ibv_post_send_stopped_daemon_first_datagram_to_process_waits_without_engine_lock),
		cmocka_unit_test(datagram_is_lost_when_the_daemon_stays_stopped),
		cmocka_unit_test(send_to_an_unowned_qpn_waits_without_the_engine_lock),
		cmocka_unit_test(fork_does_not_wait_for_a_thread_that_connects_to_the_daemon),
		cmocka_unit_test(xrc_domain_is_opened_and_closed_without_the_engine_lock),
	};
	int status;

	if (peer_main(argc, argv, &status))
		return status;
	return cmocka_run_group_tests_name("stopped", tests, setup, teardown);
}
