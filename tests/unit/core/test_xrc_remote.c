/* SPDX-License-Identifier: BSD-2-Clause */

/*
 * Handles of XRC target QPs in other processes, which the test simulates: the side of the handle,
 * and the side of the queue pair.
 */

#include "fake.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <time.h>

#include "core/engine/qp_table.h"
#include "core/qp/xrc_remote.h"
#include "core/queue/qp_error.h"

#define OTHER	   200u
#define THIRD	   201u
#define REMOTE_QPN (OTHER << IPC_SLOT_SHIFT | 5)
#define DOMAIN_ID  77u

#define assert_null_errno(call, wanted)          \
	do {                                     \
		errno = 0;                       \
		assert_null(call);               \
		assert_int_equal(errno, wanted); \
	} while (0)

static struct fake fake;
static struct ibv_xrcd *xrcd;

/* The other process: the last message that it received, and its reply. */
static struct {
	struct xrc_forward_msg msg;
	struct ibv_qp_attr attr; /* in its reply */
	bool is_silent;
	bool has_no_space;
	bool errs_at_once; /* an event of the queue pair follows each reply */
	uint32_t error;
	unsigned int count; /* messages of all types */
	unsigned int events;
} remote;

static bool is_hasty; /* the clock advances a second with each reading */

void __wrap_futex_wait(_Atomic uint32_t *word, uint32_t value, uint64_t until_ns);
int __wrap_ipc_call(struct ipc_client *client, void *req, uint32_t req_len, const int *fds,
		    int nfds, void *reply, uint32_t reply_len);
int __real_clock_gettime(clockid_t clock, struct timespec *ts);
int __wrap_clock_gettime(clockid_t clock, struct timespec *ts);

int __wrap_clock_gettime(clockid_t clock, struct timespec *ts)
{
	static time_t ahead;
	int ret = __real_clock_gettime(clock, ts);

	ahead += is_hasty;
	ts->tv_sec += ahead;
	return ret;
}

/* No other thread exists that could wake the caller. */
void __wrap_futex_wait(_Atomic uint32_t *word, uint32_t value, uint64_t until_ns)
{
	(void)word;
	(void)value;
	(void)until_ns;
}

int __wrap_ipc_call(struct ipc_client *client, void *req, uint32_t req_len, const int *fds,
		    int nfds, void *reply, uint32_t reply_len)
{
	(void)client;
	(void)req;
	(void)req_len;
	(void)fds;
	(void)nfds;
	memset(reply, 0, reply_len);
	return 0;
}

/* A message of the process with that slot arrives. Returns whether it is valid. */
static bool arrives(uint32_t slot, const struct xrc_forward_msg *msg)
{
	struct xrc_forward_frame frame;
	int ret;

	xrc_forward_encode(msg, &frame);
	LOCKED(ret = xrc_forward_receive(&fake.engine, slot, frame.pieces[0].iov_base,
					 (uint32_t)frame.pieces[0].iov_len));
	return !ret;
}

static void reply_to(uint32_t slot, uint32_t qpn, uint32_t serial)
{
	const struct xrc_forward_msg reply = {
		.type = XRC_REMOTE_RESULT,
		.qpn = qpn,
		.result = {.serial = serial, .error = remote.error, .attr = remote.attr},
	};

	assert_true(arrives(slot, &reply));
}

static void event(uint32_t slot, uint32_t qpn, uint32_t type)
{
	const struct xrc_forward_msg msg = {
		.type = XRC_REMOTE_EVENT, .qpn = qpn, .event.event = type};

	(void)arrives(slot, &msg);
}

static uint32_t serial_of(const struct xrc_forward_msg *msg)
{
	if (msg->type == XRC_REMOTE_OPEN)
		return msg->open.serial;
	return msg->type == XRC_REMOTE_MODIFY ? msg->modify.serial : msg->operation.serial;
}

static int remote_send(struct engine *engine, uint32_t slot, const struct iovec *pieces, int count,
		       bool may_connect)
{
	struct xrc_forward_msg msg;

	assert_int_equal(slot, OTHER);
	assert_int_equal(count, 1);
	assert_false(may_connect);
	if (remote.has_no_space)
		return -EAGAIN;
	assert_int_equal(xrc_forward_decode(&msg, pieces[0].iov_base, (uint32_t)pieces[0].iov_len,
					    engine->slot, slot),
			 0);
	remote.count++;
	remote.events += msg.type == XRC_REMOTE_EVENT;
	remote.msg = msg;
	if (msg.type == XRC_REMOTE_RESULT || msg.type == XRC_REMOTE_EVENT)
		return 0;
	/* A result of another process is not the reply. */
	reply_to(THIRD, THIRD << IPC_SLOT_SHIFT | 5, serial_of(&msg));
	if (!remote.is_silent)
		reply_to(OTHER, msg.qpn, serial_of(&msg));
	if (remote.errs_at_once)
		event(OTHER, msg.qpn, IBV_EVENT_QP_FATAL);
	return 0;
}

static const struct xrc_forward_carrier remote_carrier = {.send = remote_send};

static int setup(void **state)
{
	struct ibv_xrcd_init_attr attr = {
		.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
		.fd = -1,
		.oflags = O_CREAT,
	};

	(void)state;
	memset(&remote, 0, sizeof(remote));
	is_hasty = false;
	fake_open(&fake);
	fake.engine.xrc_forward.carrier = &remote_carrier;
	xrcd = ibv_open_xrcd(fake.ctx, &attr);
	assert_non_null(xrcd);
	to_xrcd(xrcd)->domain->id = DOMAIN_ID;
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	/* No message of or for an ended process is pending. */
	LOCKED(xrc_forward_peer_exited(&fake.engine, OTHER));
	assert_int_equal(ibv_close_xrcd(xrcd), 0);
	assert_true(list_is_empty(&fake.engine.xrc.domains));
	assert_true(list_is_empty(&fake.engine.xrc_remote.qps));
	assert_true(list_is_empty(&fake.engine.xrc_remote.clients));
	assert_true(list_is_empty(&fake.engine.xrc_remote.calls));
	assert_true(list_is_empty(&fake.engine.xrc_remote.orphaned));
	assert_true(list_is_empty(&fake.engine.xrc_forward.queues[OTHER].pending));
	assert_true(list_is_empty(&fake.engine.xrc_forward.queues[OTHER].waiters));
	fake_close(&fake);
	return 0;
}

static struct ibv_qp_open_attr open_attr(void)
{
	return (struct ibv_qp_open_attr){
		.comp_mask = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE,
		.qp_num = REMOTE_QPN,
		.xrcd = xrcd,
		.qp_type = IBV_QPT_XRC_RECV,
	};
}

static struct ibv_qp *open_handle(void)
{
	struct ibv_qp_open_attr attr = open_attr();
	struct ibv_qp *handle = ibv_open_qp(fake.ctx, &attr);

	assert_non_null(handle);
	return handle;
}

static void xrc_remote_handle_sends_operations_to_server(void **state)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;
	struct ibv_qp *handle;

	(void)state;
	remote.attr.qp_state = IBV_QPS_RTR;
	remote.attr.dest_qp_num = 1234;
	handle = open_handle();
	assert_int_equal(remote.msg.type, XRC_REMOTE_OPEN);
	assert_int_equal(remote.msg.open.domain_id, DOMAIN_ID);
	assert_int_equal(handle->qp_num, REMOTE_QPN);
	assert_int_equal(handle->state, IBV_QPS_RTR);
	assert_int_equal(ibv_close_xrcd(xrcd), EBUSY);
	/* Programs that were built before rdma-core v13 have no room for rate_limit. */
	attr.rate_limit = 77;
	assert_int_equal(ibv_query_qp(handle, &attr, 0, &init), 0);
	assert_int_equal(attr.rate_limit, 77);
	assert_int_equal(attr.dest_qp_num, 1234);
	assert_int_equal(init.qp_type, IBV_QPT_XRC_RECV);
	attr.qp_state = IBV_QPS_ERR;
	assert_int_equal(ibv_modify_qp(handle, &attr, IBV_QP_STATE), 0);
	assert_int_equal(remote.msg.modify.mask, IBV_QP_STATE);
	assert_int_equal(remote.msg.modify.attr.qp_state, IBV_QPS_ERR);
	assert_int_equal(remote.msg.modify.attr.rate_limit, 0);
	assert_int_equal(handle->state, IBV_QPS_ERR);
	remote.error = EINVAL;
	assert_int_equal(ibv_modify_qp(handle, &attr, IBV_QP_STATE), EINVAL);
	assert_int_equal(ibv_destroy_qp(handle), 0);
	assert_int_equal(remote.msg.type, XRC_REMOTE_CLOSE);
}

static void xrc_remote_handle_receives_events_of_its_qp_only(void **state)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;
	struct ibv_qp *handle = open_handle();

	(void)state;
	event(THIRD, REMOTE_QPN, IBV_EVENT_QP_FATAL);
	event(OTHER, REMOTE_QPN + 1, IBV_EVENT_QP_FATAL);
	event(OTHER, REMOTE_QPN, IBV_EVENT_DEVICE_FATAL);
	event(OTHER, REMOTE_QPN, UINT32_MAX);
	fake_expect_no_event(&fake);
	event(OTHER, REMOTE_QPN, IBV_EVENT_QP_REQ_ERR);
	fake_expect_event(&fake, IBV_EVENT_QP_REQ_ERR, handle);
	LOCKED(xrc_forward_peer_exited(&fake.engine, THIRD));
	fake_expect_no_event(&fake);
	LOCKED(xrc_forward_peer_exited(&fake.engine, OTHER));
	fake_expect_event(&fake, IBV_EVENT_QP_FATAL, handle);
	remote.count = 0;
	assert_int_equal(ibv_query_qp(handle, &attr, 0, &init), EIO);
	assert_int_equal(ibv_modify_qp(handle, &attr, 0), EIO);
	assert_int_equal(ibv_destroy_qp(handle), 0);
	assert_int_equal(remote.count, 0);
}

static void xrc_remote_operation_without_result_times_out(void **state)
{
	struct ibv_qp_open_attr attr = open_attr();
	struct ibv_qp *handle = open_handle();
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr values = {.qp_state = IBV_QPS_ERR};

	(void)state;
	remote.is_silent = true;
	is_hasty = true;
	assert_null_errno(ibv_open_qp(fake.ctx, &attr), ETIMEDOUT);
	assert_int_equal(ibv_query_qp(handle, &values, 0, &init), ETIMEDOUT);
	assert_int_equal(ibv_modify_qp(handle, &values, IBV_QP_STATE), ETIMEDOUT);
	assert_int_equal(ibv_destroy_qp(handle), 0);
}

/* The reply arrives when no thread waits for it any more. */
static void reply_late(uint32_t serial, uint32_t error)
{
	remote.error = error;
	reply_to(OTHER, REMOTE_QPN, serial);
}

static uint32_t open_in_vain(void)
{
	struct ibv_qp_open_attr attr = open_attr();

	remote.is_silent = true;
	is_hasty = true;
	assert_null_errno(ibv_open_qp(fake.ctx, &attr), ETIMEDOUT);
	is_hasty = false;
	return remote.msg.open.serial;
}

static void xrc_remote_late_result_of_open_is_closed(void **state)
{
	uint32_t refused = open_in_vain(), given = open_in_vain();

	(void)state;
	remote.count = 0;
	reply_late(refused, EINVAL);
	assert_int_equal(remote.count, 0);
	reply_late(given, 0);
	assert_int_equal(remote.count, 1);
	assert_int_equal(remote.msg.type, XRC_REMOTE_CLOSE);
	assert_int_equal(remote.msg.qpn, REMOTE_QPN);
	reply_late(given, 0);
	assert_int_equal(remote.count, 1);
	/* A pending message to an ended process is discarded. */
	given = open_in_vain();
	remote.count = 0;
	LOCKED(xrc_forward_peer_exited(&fake.engine, OTHER));
	reply_late(given, 0);
	assert_int_equal(remote.count, 0);
}

static void xrc_remote_unsent_open_is_not_closed(void **state)
{
	struct ibv_qp_open_attr attr = open_attr();

	(void)state;
	remote.has_no_space = true;
	is_hasty = true;
	assert_null_errno(ibv_open_qp(fake.ctx, &attr), ETIMEDOUT);
	remote.has_no_space = false;
	LOCKED(xrc_forward_space(&fake.engine, OTHER));
	assert_int_equal(remote.count, 0);
	assert_true(list_is_empty(&fake.engine.xrc_remote.orphaned));
}

static void close_is_sent_when_there_is_space(void **state)
{
	struct ibv_qp *handle = open_handle();

	(void)state;
	remote.has_no_space = true;
	is_hasty = true;
	assert_int_equal(ibv_destroy_qp(handle), 0);
	remote.count = 0;
	LOCKED(xrc_forward_space(&fake.engine, OTHER));
	remote.has_no_space = false;
	LOCKED(xrc_forward_space(&fake.engine, THIRD));
	assert_int_equal(remote.count, 0);
	LOCKED(xrc_forward_space(&fake.engine, OTHER));
	assert_int_equal(remote.count, 1);
	assert_int_equal(remote.msg.type, XRC_REMOTE_CLOSE);
	LOCKED(xrc_forward_space(&fake.engine, OTHER));
	assert_int_equal(remote.count, 1);
}

/* The event follows the reply, before the requesting thread has the lock again. */
static void event_after_the_result_of_open_is_reported(void **state)
{
	struct ibv_qp *handle;

	(void)state;
	remote.errs_at_once = true;
	handle = open_handle();
	fake_expect_event(&fake, IBV_EVENT_QP_FATAL, handle);
	remote.errs_at_once = false;
	assert_int_equal(ibv_destroy_qp(handle), 0);
}

/* From here on the queue pair belongs to this process. */

static struct ibv_qp *make_qp(void)
{
	struct ibv_qp_init_attr_ex attr = {
		.qp_type = IBV_QPT_XRC_RECV,
		.comp_mask = IBV_QP_INIT_ATTR_XRCD,
		.xrcd = xrcd,
	};
	struct ibv_qp *qp = ibv_create_qp_ex(fake.ctx, &attr);

	assert_non_null(qp);
	return qp;
}

/* The other process executes an operation. Returns the error. */
static uint32_t operate(enum xrc_forward_type type, uint32_t qpn)
{
	static uint32_t serial;
	struct xrc_forward_msg msg = {.type = type, .qpn = qpn, .operation.serial = ++serial};

	if (type == XRC_REMOTE_OPEN)
		msg.open = (struct xrc_remote_open){.domain_id = DOMAIN_ID, .serial = serial};
	assert_true(arrives(OTHER, &msg));
	assert_int_equal(remote.msg.type, XRC_REMOTE_RESULT);
	assert_int_equal(remote.msg.result.serial, serial);
	return remote.msg.result.error;
}

static void open_requires_the_domain_and_an_xrc_target_qp(void **state)
{
	struct xrc_forward_msg msg = {.type = XRC_REMOTE_OPEN, .open.domain_id = DOMAIN_ID + 1};
	struct ibv_qp *qp = make_qp(), *rc = fake_qp(&fake, IBV_QPT_RC, NULL);

	(void)state;
	msg.qpn = qp->qp_num;
	assert_true(arrives(OTHER, &msg));
	assert_int_equal(remote.msg.result.error, EINVAL);
	assert_int_equal(operate(XRC_REMOTE_OPEN, qp->qp_num + 100), EINVAL);
	assert_int_equal(operate(XRC_REMOTE_OPEN, rc->qp_num), EINVAL);
	assert_int_equal(operate(XRC_REMOTE_CLOSE, qp->qp_num), EINVAL);
	assert_int_equal(operate(XRC_REMOTE_QUERY, qp->qp_num), EINVAL);
	assert_int_equal(operate(XRC_REMOTE_MODIFY, qp->qp_num), EINVAL);
	assert_int_equal(ibv_destroy_qp(qp), 0);
	assert_int_equal(ibv_destroy_qp(rc), 0);
}

static void xrc_remote_handle_modifies_queries_and_keeps_qp(void **state)
{
	struct ibv_qp *qp = make_qp();
	uint32_t qpn = qp->qp_num;
	struct xrc_forward_msg modify = {
		.type = XRC_REMOTE_MODIFY,
		.qpn = qpn,
		.modify = {.mask = fake_mask(IBV_QPT_RC, IBV_QPS_INIT),
			   .attr = fake_attr(IBV_QPS_INIT)},
	};

	(void)state;
	assert_int_equal(operate(XRC_REMOTE_OPEN, qpn), 0);
	assert_int_equal(remote.msg.result.attr.qp_state, IBV_QPS_RESET);
	assert_true(arrives(OTHER, &modify));
	assert_int_equal(remote.msg.result.error, 0);
	assert_int_equal(to_qp(qp)->state, IBV_QPS_INIT);
	assert_int_equal(operate(XRC_REMOTE_QUERY, qpn), 0);
	assert_int_equal(remote.msg.result.attr.qp_state, IBV_QPS_INIT);
	LOCKED(qp_enter_error(to_qp(qp), IBV_EVENT_QP_ACCESS_ERR));
	assert_int_equal(remote.msg.type, XRC_REMOTE_EVENT);
	assert_int_equal(remote.msg.event.event, IBV_EVENT_QP_ACCESS_ERR);
	fake_expect_event(&fake, IBV_EVENT_QP_ACCESS_ERR, qp);
	assert_int_equal(ibv_destroy_qp(qp), 0);
	LOCKED(assert_non_null(qp_find(&fake.engine, qpn)));
	assert_int_equal(operate(XRC_REMOTE_CLOSE, qpn), 0);
	LOCKED(assert_null(qp_find(&fake.engine, qpn)));
}

static void exit_of_a_process_closes_its_handles(void **state)
{
	struct ibv_qp *qp = make_qp();
	uint32_t qpn = qp->qp_num;

	(void)state;
	assert_int_equal(operate(XRC_REMOTE_OPEN, qpn), 0);
	assert_int_equal(operate(XRC_REMOTE_OPEN, qpn), 0);
	assert_int_equal(operate(XRC_REMOTE_CLOSE, qpn), 0);
	assert_int_equal(ibv_destroy_qp(qp), 0);
	LOCKED(assert_non_null(qp_find(&fake.engine, qpn)));
	LOCKED(xrc_forward_peer_exited(&fake.engine, THIRD));
	LOCKED(assert_non_null(qp_find(&fake.engine, qpn)));
	LOCKED(xrc_forward_peer_exited(&fake.engine, OTHER));
	LOCKED(assert_null(qp_find(&fake.engine, qpn)));
}

/*
 * A process that sends many operations and reads no results loses results. Each event of the queue
 * pair is stored for it once.
 */
static void xrc_remote_pending_results_and_events_are_limited(void **state)
{
	struct ibv_qp *qp = make_qp();
	struct xrc_forward_msg msg = {.type = XRC_REMOTE_QUERY, .qpn = qp->qp_num};

	(void)state;
	assert_int_equal(operate(XRC_REMOTE_OPEN, qp->qp_num), 0);
	remote.has_no_space = true;
	for (uint32_t i = 1; i <= 4 * XRC_FORWARD_RESULTS_MAX; i++) {
		msg.operation.serial = i;
		assert_true(arrives(OTHER, &msg));
		LOCKED(xrc_remote_post_event(to_qp(qp), IBV_EVENT_COMM_EST));
		LOCKED(xrc_remote_post_event(to_qp(qp), IBV_EVENT_QP_FATAL));
	}
	remote.has_no_space = false;
	remote.count = 0;
	LOCKED(xrc_forward_space(&fake.engine, OTHER));
	assert_int_equal(remote.count, XRC_FORWARD_RESULTS_MAX + 2);
	assert_int_equal(remote.events, 2);
	assert_int_equal(remote.msg.type, XRC_REMOTE_RESULT);
	assert_int_equal(remote.msg.result.serial, XRC_FORWARD_RESULTS_MAX);
	assert_int_equal(operate(XRC_REMOTE_CLOSE, qp->qp_num), 0);
	assert_int_equal(ibv_destroy_qp(qp), 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(xrc_remote_handle_sends_operations_to_server),
		TEST(xrc_remote_handle_receives_events_of_its_qp_only),
		TEST(xrc_remote_operation_without_result_times_out),
		TEST(xrc_remote_late_result_of_open_is_closed),
		TEST(xrc_remote_unsent_open_is_not_closed),
		TEST(close_is_sent_when_there_is_space),
		TEST(event_after_the_result_of_open_is_reported),
		TEST(xrc_remote_pending_results_and_events_are_limited),
		TEST(open_requires_the_domain_and_an_xrc_target_qp),
		TEST(xrc_remote_handle_modifies_queries_and_keeps_qp),
		TEST(exit_of_a_process_closes_its_handles),
	};

	return cmocka_run_group_tests_name("xrc_remote", tests, NULL, NULL);
}
