/* SPDX-License-Identifier: BSD-2-Clause */

/*
 * Objects that several processes share: XRC domains by their file, SRQs and XRC target QPs by their
 * numbers.
 */

#include "xrc_hub.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#define NO_SRQN 0xfffffeu

static void ibv_open_xrcd_same_file_in_two_processes_is_same_domain(void **state)
{
	struct hub *hub = *state;
	struct xrc_worker late;
	struct xrc_command open = {.op = XRC_OPEN, .value = O_CREAT | O_EXCL};
	FILE *other = tmpfile();

	xrc_worker_start(&late, fileno(hub->file));
	assert_int_equal(xrc_worker_do(&late, open).ret, EINVAL);
	open.value = 0;
	assert_int_equal(xrc_worker_do(&late, open).ret, 0);
	xrc_worker_stop(&late);
	xrc_worker_start(&late, fileno(other));
	assert_int_equal(xrc_worker_do(&late, open).ret, EAGAIN);
	/* A killed process no longer has the domain open. */
	open.value = O_CREAT | O_EXCL;
	assert_int_equal(xrc_worker_do(&late, open).ret, 0);
	xrc_worker_kill(&late);
	xrc_worker_start(&late, fileno(other));
	while (xrc_worker_do(&late, open).ret == EINVAL)
		;
	xrc_worker_stop(&late);
	fclose(other);
}

/* A descriptor that needs no access rights to open (O_PATH) does not identify a domain. */
static void ibv_open_xrcd_o_path_descriptor_fails(void **state)
{
	struct hub *hub = *state;
	struct xrc_worker late;
	struct xrc_command command = {.op = XRC_OPEN, .value = O_CREAT};
	char path[32];
	int fd;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fileno(hub->file));
	fd = open(path, O_PATH);
	assert_true(fd >= 0);
	xrc_worker_start(&late, fd);
	assert_int_equal(xrc_worker_do(&late, command).ret, EBADF);
	xrc_worker_stop(&late);
	close(fd);
}

static void ibv_create_srq_ex_srqns_are_unique_on_host(void **state)
{
	struct hub *hub = *state;

	for (int i = 0; i < WORKERS; i++) {
		for (int j = 0; j < i; j++)
			assert_int_not_equal(hub->workers[i].srqn, hub->workers[j].srqn);
	}
}

/* The number of open domains of a user is limited. A domain keeps its deleted file. */
static void ibv_open_xrcd_above_user_limit_fails(void **state)
{
	struct hub *hub = *state;
	struct ibv_xrcd *domains[1024];
	struct ibv_xrcd_init_attr attr = {
		.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
		.oflags = O_CREAT | O_EXCL,
	};
	int count = 0;

	if (!geteuid())
		skip();
	for (; count < 1024; count++) {
		attr.fd = memfd_create("domain", MFD_CLOEXEC);
		assert_true(attr.fd >= 0);
		domains[count] = ibv_open_xrcd(hub->api.ctx, &attr);
		if (!domains[count])
			break;
		close(attr.fd);
	}
	/* Each worker has one domain open. */
	assert_int_equal(count, 1024 - WORKERS);
	assert_null_errno(ibv_open_xrcd(hub->api.ctx, &attr), EDQUOT);
	close(attr.fd);
	while (count)
		assert_int_equal(ibv_close_xrcd(domains[--count]), 0);
}

/*
 * A handle in another process is equal to that of the creator, and keeps the queue pair when the
 * creator closes its own.
 */
static void ibv_open_qp_in_other_process_returns_handle(void **state)
{
	struct hub *hub = *state;
	struct xrc_worker *home = &hub->workers[HOME], *other = &hub->workers[1];
	struct xrc_command open = {.op = XRC_NAME, .value = hub->recv_qpn};

	xrc_worker_ask(other, XRC_NAME, hub->recv_qpn);
	assert_int_equal(xrc_worker_ask(other, XRC_STATE, 0), IBV_QPS_RTR);
	assert_int_equal(xrc_worker_do(other, (struct xrc_command){.op = XRC_CLOSE}).ret, EBUSY);
	xrc_worker_ask(home, XRC_NO_QP, 0);
	xrc_worker_recv(other, 0, SLOT_BYTES, 1);
	hub_post(hub, IBV_WR_SEND, 1, 0, SLOT_BYTES, 0, 1);
	wc_expect(hub->cq, 1, IBV_WC_SUCCESS);
	xrc_worker_wc(other, 1, IBV_WC_SUCCESS);
	assert_int_equal(xrc_worker_ask(other, XRC_EVENT, 0), IBV_EVENT_COMM_EST);
	xrc_worker_ask(other, XRC_RNR_TIMER, 3);
	assert_int_equal(xrc_worker_ask(other, XRC_STATE, 0), IBV_QPS_RTS);
	/* The handle keeps the creator's domain open. */
	xrc_worker_ask(home, XRC_NO_SRQ, 0);
	xrc_worker_ask(home, XRC_CLOSE, 0);
	hub_post(hub, IBV_WR_RDMA_WRITE, 1, 0, 8, 0, 2);
	wc_expect(hub->cq, 2, IBV_WC_SUCCESS);
	xrc_worker_ask(other, XRC_ERR, 0);
	assert_int_equal(xrc_worker_ask(other, XRC_STATE, 0), IBV_QPS_ERR);
	xrc_worker_ask(other, XRC_NO_QP, 0);
	/* That was the last handle. */
	assert_int_equal(xrc_worker_do(&hub->workers[2], open).ret, EINVAL);
}

static void ibv_open_qp_of_other_domain_fails(void **state)
{
	struct hub *hub = *state;
	struct xrc_worker *other = &hub->workers[1], stranger;
	struct xrc_command open = {.op = XRC_NAME};
	FILE *file = tmpfile();

	open.value = hub->recv_qpn + 1;
	assert_int_equal(xrc_worker_do(other, open).ret, EINVAL);
	open.value = 0x1000000 + hub->recv_qpn;
	assert_int_equal(xrc_worker_do(other, open).ret, EINVAL);
	open.value = 0xff8002;
	assert_int_equal(xrc_worker_do(other, open).ret, EINVAL);
	open.value = hub->qp->qp_num;
	assert_int_equal(xrc_worker_do(other, open).ret, EINVAL);
	xrc_worker_start(&stranger, fileno(file));
	xrc_worker_ask(&stranger, XRC_OPEN, O_CREAT);
	open.value = hub->recv_qpn;
	assert_int_equal(xrc_worker_do(&stranger, open).ret, EINVAL);
	xrc_worker_stop(&stranger);
	fclose(file);
}

/*
 * Each holder of a handle gets an event for the end of the queue pair, by an error or by the end of
 * its process.
 */
static void ibv_open_qp_handles_get_event_when_qp_ends(void **state)
{
	struct hub *hub = *state;

	for (int i = 1; i < WORKERS; i++)
		xrc_worker_ask(&hub->workers[i], XRC_NAME, hub->recv_qpn);
	/* One process ends without closing its handle. */
	xrc_worker_kill(&hub->workers[2]);
	hub->workers[2].pid = 0;
	hub_post_to_nobody(hub, NO_SRQN, 1);
	wc_expect(hub->cq, 1, IBV_WC_REM_INV_REQ_ERR);
	assert_int_equal(xrc_worker_ask(&hub->workers[1], XRC_EVENT, 0), IBV_EVENT_COMM_EST);
	assert_int_equal(xrc_worker_ask(&hub->workers[1], XRC_EVENT, 0), IBV_EVENT_QP_REQ_ERR);
	assert_int_equal(xrc_worker_ask(&hub->workers[1], XRC_STATE, 0), IBV_QPS_ERR);
	xrc_worker_kill(&hub->workers[HOME]);
	hub->workers[HOME].pid = 0;
	assert_int_equal(xrc_worker_ask(&hub->workers[1], XRC_EVENT, 0), IBV_EVENT_QP_FATAL);
	assert_int_equal(xrc_worker_do(&hub->workers[1], (struct xrc_command){.op = XRC_ERR}).ret,
			 EIO);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, hub_set_up, hub_tear_down)

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		TEST(ibv_open_xrcd_same_file_in_two_processes_is_same_domain),
		TEST(ibv_open_xrcd_o_path_descriptor_fails),
		TEST(ibv_create_srq_ex_srqns_are_unique_on_host),
		TEST(ibv_open_xrcd_above_user_limit_fails),
		TEST(ibv_open_qp_in_other_process_returns_handle),
		TEST(ibv_open_qp_of_other_domain_fails),
		TEST(ibv_open_qp_handles_get_event_when_qp_ends),
	};
	int status;

	if (xrc_worker_main(argc, argv, &status))
		return status;
	return cmocka_run_group_tests_name("xrc_names", tests, NULL, NULL);
}
