/* SPDX-License-Identifier: BSD-2-Clause */

/* Names of XRC receive queue pairs in other processes, which are this test: at the name, and at the queue pair. */

#include "fake.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <time.h>

#include "core/qp.h"
#include "core/xrc_far.h"

#define OTHER	  200u
#define THIRD	  201u
#define FAR_QPN	  (OTHER << IPC_SLOT_SHIFT | 5)
#define DOMAIN_ID 77u

#define assert_null_errno(call, wanted)          \
	do {                                     \
		errno = 0;                       \
		assert_null(call);               \
		assert_int_equal(errno, wanted); \
	} while (0)

static struct fake fake;
static struct ibv_xrcd *xrcd;

/* The other process: what it was told last, and what it says. */
static struct {
	struct relay_msg msg;
	struct far_ask ask;
	struct far_answer answer;
	bool is_silent;
	bool has_no_room;
	bool errs_at_once; /* an event of the queue pair follows each answer */
	uint32_t error;
	unsigned int words;
} far;

static bool is_hasty; /* a second passes with each look at the clock */

int __wrap_relay_send(struct engine *engine, uint32_t slot, const struct relay_msg *msg,
		      const struct iovec *pieces, int count);
int __wrap_pthread_cond_timedwait(pthread_cond_t *cond, pthread_mutex_t *lock,
				  const struct timespec *until);
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

/* Nobody else is there to bring news. */
int __wrap_pthread_cond_timedwait(pthread_cond_t *cond, pthread_mutex_t *lock,
				  const struct timespec *until)
{
	(void)cond;
	(void)lock;
	(void)until;
	return ETIMEDOUT;
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

int __wrap_relay_send(struct engine *engine, uint32_t slot, const struct relay_msg *msg,
		      const struct iovec *pieces, int count)
{
	struct relay_msg reply = {
		.kind = RELAY_ANSWER, .serial = msg->serial, .verdict = far.error};

	assert_int_equal(slot, OTHER);
	if (far.has_no_room)
		return -EAGAIN;
	far.words++;
	far.msg = *msg;
	if (msg->kind == RELAY_ANSWER && count) {
		assert_int_equal(pieces[0].iov_len, sizeof(far.answer));
		memcpy(&far.answer, pieces[0].iov_base, sizeof(far.answer));
	}
	if (msg->kind != RELAY_ASK)
		return 0;
	assert_int_equal(pieces[0].iov_len, sizeof(far.ask));
	memcpy(&far.ask, pieces[0].iov_base, sizeof(far.ask));
	/* Words of others, or about others, are no answer. */
	relay_take(engine, THIRD, &reply, (const uint8_t *)&far.answer, sizeof(far.answer));
	relay_take(engine, OTHER, &reply, (const uint8_t *)&far.answer, 1);
	if (!far.is_silent)
		relay_take(engine, OTHER, &reply, (const uint8_t *)&far.answer, sizeof(far.answer));
	if (far.errs_at_once) {
		reply = (struct relay_msg){
			.kind = RELAY_EVENT, .qpn = msg->qpn, .verdict = IBV_EVENT_QP_FATAL};
		relay_take(engine, OTHER, &reply, NULL, 0);
	}
	return 0;
}

static int setup(void **state)
{
	struct ibv_xrcd_init_attr attr = {
		.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
		.fd = -1,
		.oflags = O_CREAT,
	};

	(void)state;
	memset(&far, 0, sizeof(far));
	is_hasty = false;
	fake_open(&fake);
	xrcd = ibv_open_xrcd(fake.ctx, &attr);
	assert_non_null(xrcd);
	to_xrcd(xrcd)->domain->id = DOMAIN_ID;
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	/* Nobody else is left to be owed anything, or to owe it. */
	relay_gone(&fake.engine, OTHER);
	assert_int_equal(ibv_close_xrcd(xrcd), 0);
	assert_true(list_is_empty(&fake.engine.xrc_domains));
	assert_true(list_is_empty(&fake.engine.xrc_fars.names));
	assert_true(list_is_empty(&fake.engine.xrc_fars.holders));
	assert_true(list_is_empty(&fake.engine.xrc_fars.asking));
	assert_true(list_is_empty(&fake.engine.xrc_fars.lost));
	assert_true(list_is_empty(&fake.engine.xrc_fars.owed));
	fake_close(&fake);
	return 0;
}

static struct ibv_qp_open_attr open_attr(void)
{
	return (struct ibv_qp_open_attr){
		.comp_mask = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE,
		.qp_num = FAR_QPN,
		.xrcd = xrcd,
		.qp_type = IBV_QPT_XRC_RECV,
	};
}

static struct ibv_qp *open_name(void)
{
	struct ibv_qp_open_attr attr = open_attr();
	struct ibv_qp *name = ibv_open_qp(fake.ctx, &attr);

	assert_non_null(name);
	return name;
}

static void event(uint32_t slot, uint32_t qpn, uint32_t type)
{
	const struct relay_msg msg = {.kind = RELAY_EVENT, .qpn = qpn, .verdict = type};

	relay_take(&fake.engine, slot, &msg, NULL, 0);
}

static void a_name_asks_where_the_queue_pair_is(void **state)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;
	struct ibv_qp *name;

	(void)state;
	far.answer.attr.qp_state = IBV_QPS_RTR;
	far.answer.attr.dest_qp_num = 1234;
	name = open_name();
	assert_int_equal(far.msg.run, FAR_OPEN);
	assert_int_equal(far.ask.domain_id, DOMAIN_ID);
	assert_int_equal(name->qp_num, FAR_QPN);
	assert_int_equal(name->state, IBV_QPS_RTR);
	assert_int_equal(ibv_close_xrcd(xrcd), EBUSY);
	assert_int_equal(ibv_query_qp(name, &attr, 0, &init), 0);
	assert_int_equal(attr.dest_qp_num, 1234);
	assert_int_equal(init.qp_type, IBV_QPT_XRC_RECV);
	attr.qp_state = IBV_QPS_ERR;
	assert_int_equal(ibv_modify_qp(name, &attr, IBV_QP_STATE), 0);
	assert_int_equal(far.ask.mask, IBV_QP_STATE);
	assert_int_equal(far.ask.attr.qp_state, IBV_QPS_ERR);
	assert_int_equal(name->state, IBV_QPS_ERR);
	far.error = EINVAL;
	assert_int_equal(ibv_modify_qp(name, &attr, IBV_QP_STATE), EINVAL);
	assert_int_equal(ibv_destroy_qp(name), 0);
	assert_int_equal(far.msg.run, FAR_CLOSE);
}

static void a_name_hears_of_its_queue_pair_alone(void **state)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;
	struct ibv_qp *name = open_name();

	(void)state;
	event(THIRD, FAR_QPN, IBV_EVENT_QP_FATAL);
	event(OTHER, FAR_QPN + 1, IBV_EVENT_QP_FATAL);
	event(OTHER, FAR_QPN, IBV_EVENT_DEVICE_FATAL);
	event(OTHER, FAR_QPN, UINT32_MAX);
	fake_expect_no_event(&fake);
	event(OTHER, FAR_QPN, IBV_EVENT_QP_REQ_ERR);
	fake_expect_event(&fake, IBV_EVENT_QP_REQ_ERR, name);
	relay_gone(&fake.engine, THIRD);
	fake_expect_no_event(&fake);
	relay_gone(&fake.engine, OTHER);
	fake_expect_event(&fake, IBV_EVENT_QP_FATAL, name);
	far.words = 0;
	assert_int_equal(ibv_query_qp(name, &attr, 0, &init), EIO);
	assert_int_equal(ibv_modify_qp(name, &attr, 0), EIO);
	assert_int_equal(ibv_destroy_qp(name), 0);
	assert_int_equal(far.words, 0);
}

static void nobody_waits_for_silence(void **state)
{
	struct ibv_qp_open_attr attr = open_attr();
	struct ibv_qp *name = open_name();
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr values = {.qp_state = IBV_QPS_ERR};

	(void)state;
	far.is_silent = true;
	is_hasty = true;
	assert_null_errno(ibv_open_qp(fake.ctx, &attr), ETIMEDOUT);
	assert_int_equal(ibv_query_qp(name, &values, 0, &init), ETIMEDOUT);
	assert_int_equal(ibv_modify_qp(name, &values, IBV_QP_STATE), ETIMEDOUT);
	assert_int_equal(ibv_destroy_qp(name), 0);
}

/* The answer comes when nobody waits for it any more. */
static void answer_late(uint32_t serial, uint32_t error)
{
	const struct relay_msg msg = {.kind = RELAY_ANSWER, .serial = serial, .verdict = error};

	relay_take(&fake.engine, OTHER, &msg, (const uint8_t *)&far.answer, sizeof(far.answer));
}

static uint32_t open_in_vain(void)
{
	struct ibv_qp_open_attr attr = open_attr();

	far.is_silent = true;
	is_hasty = true;
	assert_null_errno(ibv_open_qp(fake.ctx, &attr), ETIMEDOUT);
	is_hasty = false;
	return far.msg.serial;
}

static void a_name_that_came_too_late_is_given_back(void **state)
{
	uint32_t refused = open_in_vain(), given = open_in_vain();

	(void)state;
	far.words = 0;
	answer_late(refused, EINVAL);
	assert_int_equal(far.words, 0);
	answer_late(given, 0);
	assert_int_equal(far.words, 1);
	assert_int_equal(far.msg.kind, RELAY_ASK);
	assert_int_equal(far.msg.run, FAR_CLOSE);
	assert_int_equal(far.msg.qpn, FAR_QPN);
	answer_late(given, 0);
	assert_int_equal(far.words, 1);
	/* Not of a process that is gone since. */
	given = open_in_vain();
	far.words = 0;
	relay_gone(&fake.engine, OTHER);
	answer_late(given, 0);
	assert_int_equal(far.words, 0);
}

static void what_was_never_asked_is_not_given_back(void **state)
{
	struct ibv_qp_open_attr attr = open_attr();

	(void)state;
	far.has_no_room = true;
	is_hasty = true;
	assert_null_errno(ibv_open_qp(fake.ctx, &attr), ETIMEDOUT);
	far.has_no_room = false;
	relay_room(&fake.engine, OTHER);
	assert_int_equal(far.words, 0);
	assert_true(list_is_empty(&fake.engine.xrc_fars.lost));
}

static void a_name_is_given_back_when_there_is_room(void **state)
{
	struct ibv_qp *name = open_name();

	(void)state;
	far.has_no_room = true;
	is_hasty = true;
	assert_int_equal(ibv_destroy_qp(name), 0);
	far.words = 0;
	relay_room(&fake.engine, OTHER);
	far.has_no_room = false;
	relay_room(&fake.engine, THIRD);
	assert_int_equal(far.words, 0);
	relay_room(&fake.engine, OTHER);
	assert_int_equal(far.words, 1);
	assert_int_equal(far.msg.run, FAR_CLOSE);
	relay_room(&fake.engine, OTHER);
	assert_int_equal(far.words, 1);
}

/* It follows on the answer, before who asked has the lock again. */
static void no_event_is_lost_between_answer_and_name(void **state)
{
	struct ibv_qp *name;

	(void)state;
	far.errs_at_once = true;
	name = open_name();
	fake_expect_event(&fake, IBV_EVENT_QP_FATAL, name);
	far.errs_at_once = false;
	assert_int_equal(ibv_destroy_qp(name), 0);
}

/* From here on the queue pair is this process's. */

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

static uint32_t ask(uint32_t qpn, enum far_question what, const struct far_ask *question,
		    uint32_t len)
{
	static uint32_t serial;
	const struct relay_msg msg = {
		.kind = RELAY_ASK, .qpn = qpn, .run = what, .serial = ++serial};

	relay_take(&fake.engine, OTHER, &msg, (const uint8_t *)question, len);
	assert_int_equal(far.msg.kind, RELAY_ANSWER);
	assert_int_equal(far.msg.serial, serial);
	return far.msg.verdict;
}

static void who_has_the_domain_may_hold_a_queue_pair(void **state)
{
	struct far_ask question = {.domain_id = DOMAIN_ID + 1};
	struct ibv_qp *qp = make_qp(), *rc = fake_qp(&fake, IBV_QPT_RC, NULL);
	uint32_t qpn = qp->qp_num;

	(void)state;
	assert_int_equal(ask(qpn, FAR_OPEN, &question, sizeof(question)), EINVAL);
	question.domain_id = 0;
	assert_int_equal(ask(qpn, FAR_OPEN, &question, sizeof(question)), EINVAL);
	question.domain_id = DOMAIN_ID;
	assert_int_equal(ask(qpn, FAR_OPEN, &question, sizeof(question) - 1), EINVAL);
	assert_int_equal(ask(qpn + 100, FAR_OPEN, &question, sizeof(question)), EINVAL);
	assert_int_equal(ask(rc->qp_num, FAR_OPEN, &question, sizeof(question)), EINVAL);
	for (int what = FAR_CLOSE; what <= FAR_MODIFY + 1; what++)
		assert_int_equal(ask(qpn, (enum far_question)what, &question, sizeof(question)),
				 EINVAL);
	assert_int_equal(ask(qpn, FAR_OPEN, &question, sizeof(question)), 0);
	assert_int_equal(far.answer.attr.qp_state, IBV_QPS_RESET);
	question.attr = fake_attr(IBV_QPS_INIT);
	question.mask = fake_mask(IBV_QPT_RC, IBV_QPS_INIT);
	assert_int_equal(ask(qpn, FAR_MODIFY, &question, sizeof(question)), 0);
	assert_int_equal(to_qp(qp)->state, IBV_QPS_INIT);
	assert_int_equal(ask(qpn, FAR_QUERY, &question, sizeof(question)), 0);
	assert_int_equal(far.answer.attr.qp_state, IBV_QPS_INIT);
	qp_enter_error(to_qp(qp), IBV_EVENT_QP_ACCESS_ERR);
	assert_int_equal(far.msg.kind, RELAY_EVENT);
	assert_int_equal(far.msg.verdict, IBV_EVENT_QP_ACCESS_ERR);
	fake_expect_event(&fake, IBV_EVENT_QP_ACCESS_ERR, qp);
	assert_int_equal(ibv_destroy_qp(qp), 0);
	assert_non_null(qp_find(&fake.engine, qpn));
	assert_int_equal(ask(qpn, FAR_CLOSE, &question, sizeof(question)), 0);
	assert_null(qp_find(&fake.engine, qpn));
	assert_int_equal(ibv_destroy_qp(rc), 0);
}

static void who_is_gone_holds_nothing(void **state)
{
	const struct far_ask question = {.domain_id = DOMAIN_ID};
	struct ibv_qp *qp = make_qp();
	uint32_t qpn = qp->qp_num;

	(void)state;
	assert_int_equal(ask(qpn, FAR_OPEN, &question, sizeof(question)), 0);
	assert_int_equal(ask(qpn, FAR_OPEN, &question, sizeof(question)), 0);
	assert_int_equal(ask(qpn, FAR_CLOSE, &question, sizeof(question)), 0);
	assert_int_equal(ibv_destroy_qp(qp), 0);
	assert_non_null(qp_find(&fake.engine, qpn));
	relay_gone(&fake.engine, THIRD);
	assert_non_null(qp_find(&fake.engine, qpn));
	relay_gone(&fake.engine, OTHER);
	assert_null(qp_find(&fake.engine, qpn));
}

/* Who asks and asks and reads no answer is forgotten. What befalls the queue pair he is told, each thing once. */
static void who_does_not_listen_is_owed_little(void **state)
{
	const struct far_ask question = {.domain_id = DOMAIN_ID};
	struct ibv_qp *qp = make_qp();
	struct relay_msg msg = {.kind = RELAY_ASK, .qpn = qp->qp_num, .run = FAR_QUERY};

	(void)state;
	assert_int_equal(ask(qp->qp_num, FAR_OPEN, &question, sizeof(question)), 0);
	far.has_no_room = true;
	for (msg.serial = 1; msg.serial <= 4 * FAR_ANSWERS_MAX; msg.serial++) {
		relay_take(&fake.engine, OTHER, &msg, (const uint8_t *)&question, sizeof(question));
		xrc_held_event(to_qp(qp), IBV_EVENT_COMM_EST);
		xrc_held_event(to_qp(qp), IBV_EVENT_QP_FATAL);
	}
	far.has_no_room = false;
	far.words = 0;
	/* Behind what is owed, though there is room. */
	xrc_held_event(to_qp(qp), IBV_EVENT_QP_FATAL);
	assert_int_equal(far.words, 0);
	relay_room(&fake.engine, OTHER);
	assert_int_equal(far.words, FAR_ANSWERS_MAX + 2);
	assert_int_equal(far.msg.kind, RELAY_EVENT);
	assert_int_equal(far.msg.verdict, IBV_EVENT_QP_FATAL);
	assert_int_equal(ask(qp->qp_num, FAR_CLOSE, &question, sizeof(question)), 0);
	assert_int_equal(ibv_destroy_qp(qp), 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_name_asks_where_the_queue_pair_is),
		TEST(a_name_hears_of_its_queue_pair_alone),
		TEST(nobody_waits_for_silence),
		TEST(a_name_that_came_too_late_is_given_back),
		TEST(what_was_never_asked_is_not_given_back),
		TEST(a_name_is_given_back_when_there_is_room),
		TEST(no_event_is_lost_between_answer_and_name),
		TEST(who_does_not_listen_is_owed_little),
		TEST(who_has_the_domain_may_hold_a_queue_pair),
		TEST(who_is_gone_holds_nothing),
	};

	return cmocka_run_group_tests_name("xrc_far", tests, NULL, NULL);
}
