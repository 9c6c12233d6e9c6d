/* SPDX-License-Identifier: BSD-2-Clause */

/*
 * Failures of the device's environment: the daemon, the interface, the route to a peer. The cases
 * kill the daemon several times; the next client starts a new one.
 */

#include "fixture.h"
#include "host.h"
#include "impostor.h"

#include <arpa/inet.h>
#include <rdma/rdma_cma.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FATAL_WITHIN_MS 10000
#define KILLS		20

static void device_is_lost(struct ibv_context *ctx)
{
	struct ibv_async_event event;

	do {
		assert_true(readable_within(ctx->async_fd, FATAL_WITHIN_MS));
		assert_int_equal(ibv_get_async_event(ctx, &event), 0);
		ibv_ack_async_event(&event);
	} while (event.event_type != IBV_EVENT_DEVICE_FATAL);
}

/* Kills the daemon and waits until this process has detected it. */
static void lose_daemon(struct ibv_context *ctx)
{
	host_kill_daemon();
	device_is_lost(ctx);
}

static int count_devices(void)
{
	struct ibv_device **list;
	int count = -1;

	list = ibv_get_device_list(&count);
	assert_non_null(list);
	ibv_free_device_list(list);
	return count;
}

/* The first case: the process has opened no device, so no thread detects the end of the daemon. */
static void ibv_get_device_list_after_daemon_death_uses_new_daemon(void **state)
{
	int count = count_devices();

	(void)state;
	assert_true(count > 0);
	host_kill_daemon();
	assert_int_equal(count_devices(), count);
}

/* Opens and closes the device until `first` reports the end of the daemon. */
static void open_until_lost(struct ibv_context *first)
{
	while (!readable_within(first->async_fd, 0)) {
		struct ibv_context *ctx = ibv_open_device(first->device);
		struct ibv_pd *pd;

		if (!ctx)
			continue;
		pd = ibv_alloc_pd(ctx);
		if (pd)
			assert_int_equal(ibv_dealloc_pd(pd), 0);
		else
			device_is_lost(ctx);
		assert_int_equal(ibv_close_device(ctx), 0);
	}
}

/*
 * A context that is created while the engine thread detects the end of the daemon gets the event,
 * too.
 */
static void ibv_open_device_while_daemon_dies_reports_device_fatal(void **state)
{
	(void)state;
	for (int i = 0; i < KILLS; i++) {
		struct ibv_device **list = ibv_get_device_list(NULL);
		struct ibv_context *ctx;

		assert_non_null(list);
		assert_non_null(list[0]);
		ctx = ibv_open_device(list[0]);
		assert_non_null(ctx);
		assert_int_equal(kill(host_daemon_pid(), SIGKILL), 0);
		open_until_lost(ctx);
		device_is_lost(ctx);
		assert_int_equal(ibv_close_device(ctx), 0);
		ibv_free_device_list(list);
	}
}

static void ibv_open_device_rejected_by_daemon_fails(void **state)
{
	struct impostor impostor;
	struct api api;

	(void)state;
	api_open(&api);
	lose_daemon(api.ctx);
	/*
	 * A daemon of another version, a daemon of another user, a daemon that serves too many
	 * users.
	 */
	impostor_start(&impostor, -EPROTO);
	assert_null_errno(ibv_get_device_list(NULL), EPROTO);
	assert_null_errno(ibv_open_device(api.ctx->device), EPROTO);
	impostor.status = -EACCES;
	assert_null_errno(ibv_get_device_list(NULL), EACCES);
	assert_null_errno(ibv_open_device(api.ctx->device), EACCES);
	impostor.status = -EDQUOT;
	assert_null_errno(ibv_get_device_list(NULL), EDQUOT);
	impostor.status = -ENOSPC;
	assert_null_errno(ibv_get_device_list(NULL), ENOSPC);
	impostor_stop(&impostor);
	api_close(&api);
}

static void ibv_open_device_without_daemon_fails(void **state)
{
	struct ibv_alloc_dm_attr attr = {.length = 64};
	struct api api;
	int count = -1;

	(void)state;
	api_open(&api);
	lose_daemon(api.ctx);
	assert_null_errno(ibv_alloc_dm(api.ctx, &attr), EIO);
	assert_null_errno(ibv_alloc_pd(api.ctx), EIO);
	assert_int_equal(setenv("USRDMA_DAEMON", "/dev/null", 1), 0);
	assert_null_errno(ibv_open_device(api.ctx->device), ENODEV);
	/* As with a kernel without RDMA. */
	assert_null_errno(ibv_get_device_list(&count), ENOSYS);
	assert_int_equal(count, 0);
	assert_null_errno(ibv_get_device_list(NULL), ENOSYS);
	count = -1;
	assert_null_errno(rdma_get_devices(&count), ENODEV);
	assert_int_equal(count, 0);
	assert_null_errno(rdma_create_event_channel(), ENODEV);
	assert_int_equal(unsetenv("USRDMA_DAEMON"), 0);
	api_close(&api);
}

static struct ibv_qp *make_ud(struct ibv_pd *pd, struct ibv_cq *cq)
{
	struct ibv_qp_init_attr init = {
		.qp_type = IBV_QPT_UD,
		.send_cq = cq,
		.recv_cq = cq,
		.cap = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1},
	};
	struct ibv_qp *qp = ibv_create_qp(pd, &init);

	assert_non_null(qp);
	return qp;
}

static void ibv_open_device_removed_interface_fails(void **state)
{
	struct ibv_device *device;
	struct ibv_context *ctx;
	union ibv_gid group;
	struct ibv_cq *cq;
	struct ibv_pd *pd;
	struct ibv_qp *qp;
	int cmd_fd;

	(void)state;
	host_needed();
	host_ip("link add brief0 type veth peer name brief1");
	host_ip("link set brief1 up");
	host_ip("link set brief0 up");
	host_ip("addr add 10.79.0.1/24 dev brief0");
	ctx = host_open("brief0");
	device = ctx->device;
	cmd_fd = dup(ctx->cmd_fd);
	assert_non_null(pd = ibv_alloc_pd(ctx));
	assert_non_null(cq = ibv_create_cq(ctx, 4, NULL, NULL, 0));
	qp = make_ud(pd, cq);
	host_ip("link del brief0");
	assert_int_equal(inet_pton(AF_INET6, "::ffff:239.77.0.9", &group), 1);
	assert_int_equal(ibv_attach_mcast(qp, &group, 0), ENODEV);
	device_is_lost(ctx);
	assert_null_errno(ibv_open_device(device), ENODEV);
	assert_null_errno(ibv_import_device(cmd_fd), ENODEV);
	assert_int_equal(ibv_destroy_qp(qp), 0);
	assert_int_equal(ibv_destroy_cq(cq), 0);
	assert_int_equal(ibv_dealloc_pd(pd), 0);
	assert_int_equal(ibv_close_device(ctx), 0);
	close(cmd_fd);
}

/* USRDMA_TRANSPORT=local: other hosts are unreachable. */
static void ibv_modify_qp_local_transport_to_other_host_fails(void **state)
{
	struct ibv_ah_attr attr = {.is_global = 1, .port_num = 1, .grh = {.hop_limit = 64}};
	char *chosen = getenv("USRDMA_TRANSPORT");
	struct ibv_context *ctx;
	union ibv_gid group;
	struct ibv_cq *cq;
	struct ibv_pd *pd;
	struct ibv_qp *qp;

	(void)state;
	host_needed();
	ctx = host_open("own0");
	lose_daemon(ctx);
	assert_int_equal(ibv_close_device(ctx), 0);
	chosen = chosen ? strdup(chosen) : NULL;
	assert_int_equal(setenv("USRDMA_TRANSPORT", "local", 1), 0);
	ctx = host_open("own0");
	assert_non_null(pd = ibv_alloc_pd(ctx));
	assert_non_null(cq = ibv_create_cq(ctx, 4, NULL, NULL, 0));
	qp = make_ud(pd, cq);
	assert_int_equal(inet_pton(AF_INET6, "::ffff:239.77.0.9", &group), 1);
	assert_int_equal(ibv_attach_mcast(qp, &group, 0), EOPNOTSUPP);
	assert_int_equal(inet_pton(AF_INET6, "fd77::2", &attr.grh.dgid), 1);
	assert_null_errno(ibv_create_ah(pd, &attr), EOPNOTSUPP);
	assert_int_equal(ibv_destroy_qp(qp), 0);
	assert_int_equal(ibv_destroy_cq(cq), 0);
	assert_int_equal(ibv_dealloc_pd(pd), 0);
	lose_daemon(ctx);
	assert_int_equal(ibv_close_device(ctx), 0);
	if (chosen)
		assert_int_equal(setenv("USRDMA_TRANSPORT", chosen, 1), 0);
	else
		assert_int_equal(unsetenv("USRDMA_TRANSPORT"), 0);
	free(chosen);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ibv_get_device_list_after_daemon_death_uses_new_daemon),
		cmocka_unit_test(ibv_open_device_while_daemon_dies_reports_device_fatal),
		cmocka_unit_test(ibv_open_device_rejected_by_daemon_fails),
		cmocka_unit_test(ibv_open_device_without_daemon_fails),
		cmocka_unit_test(ibv_open_device_removed_interface_fails),
		cmocka_unit_test(ibv_modify_qp_local_transport_to_other_host_fails),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
