/* SPDX-License-Identifier: BSD-2-Clause */

/*
 * The CQ's ring against an array, with an engine that only counts its calls. The linker replaces
 * the engine's calls (see meson.build).
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../../with_locks.h"
#include "base/clock.h"
#include "base/fault.h"
#include "core/engine/channel.h"
#include "core/engine/engine.h"
#include "core/object/event_fd.h"
#include "core/queue/cq.h"

static struct engine engine;
static struct context context;
static struct device device;
static atomic_uint polls;
static atomic_uint blocks;
static struct cq *fed_by_poll;

void __wrap_engine_poll(struct engine *asked);
void __wrap_engine_will_block(struct engine *asked);

static struct ibv_wc wc_of(uint64_t wr_id, uint32_t qp_num)
{
	struct ibv_wc wc = {.wr_id = wr_id, .qp_num = qp_num, .opcode = IBV_WC_RECV};

	return wc;
}

/* Some completions are of sends and some of flushed WRs. */
static struct ibv_wc any_wc_of(uint64_t wr_id, uint32_t qp_num)
{
	struct ibv_wc wc = wc_of(wr_id, qp_num);

	if (wr_id % 3 == 0)
		wc.opcode = IBV_WC_RDMA_READ;
	if (wr_id % 5 == 0)
		wc.status = IBV_WC_WR_FLUSH_ERR;
	return wc;
}

static void deliver(struct cq *cq, const struct ibv_wc *wc, bool is_solicited)
{
	engine_lock(&engine);
	cq_push(cq, wc, is_solicited);
	engine_unlock(&engine);
}

static void push(struct cq *cq, uint64_t wr_id, uint32_t qp_num)
{
	struct ibv_wc wc = wc_of(wr_id, qp_num);

	deliver(cq, &wc, false);
}

void __wrap_engine_poll(struct engine *asked)
{
	assert_ptr_equal(asked, &engine);
	polls++;
	if (fed_by_poll)
		push(fed_by_poll, 4711, 1);
}

void __wrap_engine_will_block(struct engine *asked)
{
	assert_ptr_equal(asked, &engine);
	blocks++;
}

static int setup(void **state)
{
	(void)state;
	memset(&engine, 0, sizeof(engine));
	memset(&context, 0, sizeof(context));
	biased_lock_init(&engine.lock);
	engine_init_lists(&engine);
	assert_int_equal(qp_table_init(&engine.tables.qps), 0);
	context.engine = &engine;
	context.device = &device;
	list_init(&context.events);
	pthread_mutex_init(&context.events_lock, NULL);
	context.pub.context.async_fd = event_fd_open();
	assert_true(context.pub.context.async_fd >= 0);
	polls = 0;
	blocks = 0;
	fed_by_poll = NULL;
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	assert_int_equal(context.users, 0);
	qp_table_fini(&engine.tables.qps);
	assert_int_equal(engine.tables.cq_count, 0);
	assert_true(list_is_empty(&engine.tables.cqs));
	assert_true(list_is_empty(&context.events));
	close(context.pub.context.async_fd);
	return 0;
}

static struct ibv_cq *make(int cqe, struct ibv_comp_channel *channel)
{
	struct ibv_cq *cq = ibv_create_cq(&context.pub.context, cqe, NULL, channel, 0);

	assert_non_null(cq);
	assert_true(cq->cqe >= cqe);
	return cq;
}

static bool is_readable(int fd)
{
	struct pollfd pollfd = {.fd = fd, .events = POLLIN};

	return poll(&pollfd, 1, 0) == 1;
}

static void ibv_create_cq_limits_cqe(void **state)
{
	static const int bad[] = {0, -1, MAX_CQE + 1, INT32_MIN, INT32_MAX};

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		errno = 0;
		assert_null(ibv_create_cq(&context.pub.context, bad[i], NULL, NULL, 0));
		assert_int_equal(errno, EINVAL);
	}
	errno = 0;
	assert_null(ibv_create_cq(&context.pub.context, 1, NULL, NULL, -1));
	assert_int_equal(errno, EINVAL);
	errno = 0;
	assert_null(ibv_create_cq(&context.pub.context, 1, NULL, NULL, NUM_COMP_VECTORS));
	assert_int_equal(errno, EINVAL);
	for (int cqe = 1; cqe < 70; cqe++)
		assert_int_equal(ibv_destroy_cq(make(cqe, NULL)), 0);
	assert_int_equal(make(MAX_CQE, NULL)->cqe, MAX_CQE);
	assert_int_equal(
		ibv_destroy_cq(&list_first_entry(&engine.tables.cqs, struct cq, node)->pub), 0);
}

/*
 * The rules are cleared while a completion is delayed: a later completion of the QP stays behind
 * it.
 */
static void cq_push_behind_delayed_completion_keeps_order(void **state)
{
	struct cq *cq = container_of(make(8, NULL), struct cq, pub);
	struct ibv_wc wc[2];
	char why[128];

	(void)state;
	timer_heap_init(&engine.timers);
	engine.watches.timer_fd = -1;
	assert_int_equal(fault_configure("completion:delay=10s:times=1", why, sizeof(why)), 0);
	push(cq, 1, 7);
	assert_int_equal(fault_configure(NULL, why, sizeof(why)), 0);
	push(cq, 2, 7);
	push(cq, 3, 8);
	assert_int_equal(poll_cq(&cq->pub, 2, wc), 1);
	assert_int_equal(wc[0].wr_id, 3);
	WITH_LOCKS(&engine,
		   (void)timer_expire(&engine.timers, clock_now_ns() + 11 * CLOCK_NS_PER_S));
	assert_int_equal(poll_cq(&cq->pub, 2, wc), 2);
	assert_int_equal(wc[0].wr_id, 1);
	assert_int_equal(wc[1].wr_id, 2);
	assert_int_equal(ibv_destroy_cq(&cq->pub), 0);
}

/* A seeded sequence of pushes, polls, purges and resizes, compared with an array. */
struct model {
	struct ibv_wc wcs[512];
	size_t count;
};

static void model_poll(struct model *model, struct cq *cq, int n)
{
	struct ibv_wc got[40];
	int count = poll_cq(&cq->pub, n, got);
	int wanted = n < (int)model->count ? n : (int)model->count;

	assert_int_equal(count, wanted);
	assert_memory_equal(got, model->wcs, (size_t)count * sizeof(got[0]));
	model->count -= (size_t)count;
	memmove(model->wcs, model->wcs + count, model->count * sizeof(model->wcs[0]));
}

static void model_purge(struct model *model, struct cq *cq, uint32_t qpn)
{
	struct cq_purged wanted = {.sends = 3, .receives = 4}, purged = wanted;
	size_t kept = 0;

	for (size_t i = 0; i < model->count; i++) {
		if (model->wcs[i].qp_num != qpn)
			model->wcs[kept++] = model->wcs[i];
		else if (model->wcs[i].status != IBV_WC_SUCCESS)
			continue;
		else if (model->wcs[i].opcode == IBV_WC_RECV)
			wanted.receives++;
		else
			wanted.sends++;
	}
	model->count = kept;
	WITH_LOCKS(&engine, cq_purge_qp(cq, qpn, &purged));
	assert_memory_equal(&purged, &wanted, sizeof(wanted));
}

static void model_resize(const struct model *model, struct cq *cq, int cqe)
{
	int ret = ibv_resize_cq(&cq->pub, cqe);

	if ((size_t)cqe >= model->count)
		assert_int_equal(ret, 0);
	if (!ret)
		assert_true(cq->pub.cqe >= cqe && (size_t)cq->pub.cqe >= model->count);
	else
		assert_int_equal(ret, EINVAL);
}

static void cq_push_random_operations_match_model_queue(void **state)
{
	struct cq *cq = to_cq(make(3, NULL));
	struct model model = {.count = 0};
	struct ibv_wc wc;
	unsigned int seed = 20240607;
	uint64_t wr_id = 0;

	(void)state;
	/* The indices wrap during the test. */
	cq->head = cq->tail = UINT32_MAX - 1000;
	for (int step = 0; step < 200000; step++) {
		unsigned int dice = (unsigned int)rand_r(&seed);

		switch (dice % 16) {
		case 0:
			model_purge(&model, cq, dice / 16 % 3);
			break;
		case 1:
			if (dice % 7 == 0)
				model_resize(&model, cq, 1 + (int)(dice / 16 % 500));
			break;
		case 2:
		case 3:
		case 4:
		case 5:
			model_poll(&model, cq, (int)(dice / 16 % 40));
			break;
		default:
			if (model.count >= (size_t)cq->pub.cqe)
				break;
			wc = any_wc_of(wr_id, dice / 16 % 3);
			model.wcs[model.count++] = wc;
			deliver(cq, &wc, false);
			wr_id++;
			break;
		}
	}
	assert_int_equal(ibv_destroy_cq(&cq->pub), 0);
}

static void poll_cq_empty_runs_engine_once(void **state)
{
	struct cq *cq = to_cq(make(8, NULL));
	struct ibv_wc wc;

	(void)state;
	assert_int_equal(poll_cq(&cq->pub, 1, &wc), 0);
	assert_int_equal(polls, 1);
	push(cq, 1, 1);
	assert_int_equal(poll_cq(&cq->pub, 4, &wc), 1);
	assert_int_equal(polls, 1);
	fed_by_poll = cq;
	assert_int_equal(poll_cq(&cq->pub, 1, &wc), 1);
	assert_int_equal(wc.wr_id, 4711);
	assert_int_equal(poll_cq(&cq->pub, 0, &wc), 0);
	assert_int_equal(poll_cq(&cq->pub, -1, &wc), 0);
	assert_int_equal(ibv_destroy_cq(&cq->pub), 0);
}

static void cq_push_overrun_is_reported_once_and_drops_newest(void **state)
{
	struct cq *cq = to_cq(make(4, NULL));
	struct ibv_async_event event;
	struct ibv_wc wc;
	int capacity = cq->pub.cqe;

	(void)state;
	for (int i = 0; i < capacity + 3; i++)
		push(cq, (uint64_t)i, 1);
	assert_int_equal(ibv_get_async_event(&context.pub.context, &event), 0);
	assert_int_equal(event.event_type, IBV_EVENT_CQ_ERR);
	assert_ptr_equal(event.element.cq, &cq->pub);
	assert_false(is_readable(context.pub.context.async_fd));
	for (int i = 0; i < capacity; i++) {
		assert_int_equal(poll_cq(&cq->pub, 1, &wc), 1);
		assert_int_equal(wc.wr_id, i);
	}
	/* An overrun CQ stays in error, also when there is room again. */
	push(cq, 99, 1);
	assert_int_equal(poll_cq(&cq->pub, 1, &wc), 0);
	ibv_ack_async_event(&event);
	assert_int_equal(ibv_destroy_cq(&cq->pub), 0);
}

static void cq_push_ignored_overrun_drops_oldest(void **state)
{
	struct ibv_cq_init_attr_ex attr = {
		.cqe = 3,
		.comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS,
		.flags = IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN,
	};
	struct ibv_wc wc;
	struct cq *cq;

	(void)state;
	assert_int_equal(cq_create(&context, &attr, &cq), 0);
	assert_int_equal(cq->pub.cqe, 4);
	for (int i = 0; i < 10; i++)
		push(cq, (uint64_t)i, 1);
	for (int i = 6; i < 10; i++) {
		assert_int_equal(poll_cq(&cq->pub, 1, &wc), 1);
		assert_int_equal(wc.wr_id, i);
	}
	assert_int_equal(poll_cq(&cq->pub, 1, &wc), 0);
	assert_false(is_readable(context.pub.context.async_fd));
	assert_int_equal(ibv_destroy_cq(&cq->pub), 0);
}

static void req_notify_cq_reports_one_event_of_requested_kind(void **state)
{
	struct ibv_comp_channel *channel = ibv_create_comp_channel(&context.pub.context);
	struct cq *cq = to_cq(make(16, channel));
	struct ibv_wc failed = {.status = IBV_WC_WR_FLUSH_ERR};
	struct ibv_wc good = {.status = IBV_WC_SUCCESS};
	struct ibv_cq *got;
	struct ibv_wc wc;
	void *user;

	(void)state;
	deliver(cq, &good, true);
	assert_false(is_readable(channel->fd));
	/* Completions that the application has polled do not count. */
	assert_int_equal(poll_cq(&cq->pub, 1, &wc), 1);
	assert_int_equal(req_notify_cq(&cq->pub, 1), 0);
	assert_int_equal(blocks, 1);
	deliver(cq, &good, false);
	assert_false(is_readable(channel->fd));
	deliver(cq, &good, true);
	assert_true(is_readable(channel->fd));
	assert_int_equal(ibv_get_cq_event(channel, &got, &user), 0);
	assert_ptr_equal(got, &cq->pub);
	deliver(cq, &good, false);
	assert_false(is_readable(channel->fd));
	assert_int_equal(req_notify_cq(&cq->pub, 1), 0);
	assert_false(is_readable(channel->fd));
	deliver(cq, &failed, false);
	assert_int_equal(ibv_get_cq_event(channel, &got, &user), 0);
	/* Arming for solicited completions does not weaken an earlier arming for all. */
	assert_int_equal(req_notify_cq(&cq->pub, 0), 0);
	assert_int_equal(req_notify_cq(&cq->pub, 1), 0);
	deliver(cq, &good, false);
	assert_int_equal(ibv_get_cq_event(channel, &got, &user), 0);
	deliver(cq, &good, true);
	assert_false(is_readable(channel->fd));
	ibv_ack_cq_events(&cq->pub, 3);
	assert_int_equal(ibv_destroy_comp_channel(channel), EBUSY);
	assert_int_equal(ibv_destroy_cq(&cq->pub), 0);
	assert_int_equal(ibv_destroy_comp_channel(channel), 0);
}

/* A completion that arrives between the last poll and the call is reported by the call, once. */
static void req_notify_cq_reports_unpolled_completion_without_event(void **state)
{
	struct ibv_comp_channel *channel = ibv_create_comp_channel(&context.pub.context);
	struct cq *cq = to_cq(make(16, channel));
	struct ibv_wc wc = wc_of(1, 1);
	struct ibv_cq *got;
	void *user;

	(void)state;
	deliver(cq, &wc, false);
	assert_int_equal(req_notify_cq(&cq->pub, 1), 0);
	assert_false(is_readable(channel->fd));
	assert_int_equal(req_notify_cq(&cq->pub, 0), 0);
	assert_true(is_readable(channel->fd));
	assert_int_equal(ibv_get_cq_event(channel, &got, &user), 0);
	/* It has had its event, although it is still in the CQ. The event disarmed the CQ. */
	assert_int_equal(req_notify_cq(&cq->pub, 0), 0);
	assert_false(is_readable(channel->fd));
	deliver(cq, &wc, false);
	assert_int_equal(ibv_get_cq_event(channel, &got, &user), 0);
	deliver(cq, &wc, true);
	deliver(cq, &wc, false);
	assert_int_equal(req_notify_cq(&cq->pub, 1), 0);
	assert_int_equal(ibv_get_cq_event(channel, &got, &user), 0);
	assert_false(is_readable(channel->fd));
	ibv_ack_cq_events(&cq->pub, 3);
	assert_int_equal(ibv_destroy_cq(&cq->pub), 0);
	assert_int_equal(ibv_destroy_comp_channel(channel), 0);
}

#define RACE_COUNT 20000

static void *produce(void *arg)
{
	struct cq *cq = arg;

	for (uint64_t i = 0; i < RACE_COUNT;) {
		engine_lock(&engine);
		/*
		 * The ring is smaller than the number of completions, so the producer waits for
		 * room.
		 */
		if (__atomic_load_n(&cq->head, __ATOMIC_RELAXED) -
			    __atomic_load_n(&cq->tail, __ATOMIC_RELAXED) <
		    cq->capacity)
			push(cq, i++, 1);
		engine_unlock(&engine);
	}
	return NULL;
}

static atomic_uint taken;
static atomic_uchar seen[RACE_COUNT];

static void *consume(void *arg)
{
	struct cq *cq = arg;
	struct ibv_wc wcs[7];
	int count;

	while (atomic_load(&taken) < RACE_COUNT) {
		count = poll_cq(&cq->pub, 7, wcs);
		for (int i = 0; i < count; i++)
			atomic_fetch_add(&seen[wcs[i].wr_id], 1);
		atomic_fetch_add(&taken, (unsigned int)count);
		if (!count)
			sched_yield();
	}
	return NULL;
}

static void poll_cq_concurrent_consumers_get_each_completion_once(void **state)
{
	struct cq *cq = to_cq(make(60, NULL));
	pthread_t threads[3];

	(void)state;
	assert_int_equal(pthread_create(&threads[0], NULL, produce, cq), 0);
	assert_int_equal(pthread_create(&threads[1], NULL, consume, cq), 0);
	assert_int_equal(pthread_create(&threads[2], NULL, consume, cq), 0);
	for (int i = 0; i < 3; i++)
		pthread_join(threads[i], NULL);
	for (int i = 0; i < RACE_COUNT; i++)
		assert_int_equal(atomic_load(&seen[i]), 1);
	assert_int_equal(ibv_destroy_cq(&cq->pub), 0);
}

static void ibv_start_poll_readers_return_current_completion(void **state)
{
	struct ibv_cq_init_attr_ex attr = {
		.cqe = 8,
		.wc_flags = IBV_WC_EX_WITH_BYTE_LEN | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP |
			    IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK,
	};
	struct ibv_cq_ex *ex = create_cq_ex(&context.pub.context, &attr);
	struct ibv_poll_cq_attr poll_attr = {.comp_mask = 0};
	struct ibv_poll_cq_attr bad_attr = {.comp_mask = 1};
	uint64_t first_ns;

	(void)state;
	assert_non_null(ex);
	assert_null(ex->read_imm_data);
	assert_null(ex->read_cvlan);
	assert_int_equal(ibv_start_poll(ex, &bad_attr), EINVAL);
	assert_int_equal(ibv_start_poll(ex, &poll_attr), ENOENT);
	push(to_cq(ibv_cq_ex_to_cq(ex)), 1, 1);
	push(to_cq(ibv_cq_ex_to_cq(ex)), 2, 1);
	assert_int_equal(ibv_start_poll(ex, &poll_attr), 0);
	assert_int_equal(ex->wr_id, 1);
	first_ns = ibv_wc_read_completion_ts(ex);
	assert_true(first_ns > 0);
	assert_true(ibv_wc_read_completion_wallclock_ns(ex) > 0);
	assert_int_equal(ibv_next_poll(ex), 0);
	assert_int_equal(ex->wr_id, 2);
	assert_int_equal(ibv_wc_read_opcode(ex), IBV_WC_RECV);
	assert_true(ibv_wc_read_completion_ts(ex) >= first_ns);
	assert_int_equal(ibv_next_poll(ex), ENOENT);
	ibv_end_poll(ex);
	assert_int_equal(ibv_start_poll(ex, &poll_attr), ENOENT);
	assert_int_equal(ibv_destroy_cq(ibv_cq_ex_to_cq(ex)), 0);
}

static void create_cq_ex_invalid_attr_fails(void **state)
{
	static const struct {
		struct ibv_cq_init_attr_ex attr;
		int error;
	} rows[] = {
		{{.cqe = 8, .wc_flags = IBV_WC_EX_WITH_CVLAN}, EOPNOTSUPP},
		{{.cqe = 8, .wc_flags = IBV_WC_EX_WITH_FLOW_TAG}, EOPNOTSUPP},
		{{.cqe = 8, .wc_flags = IBV_WC_EX_WITH_TM_INFO}, EOPNOTSUPP},
		{{.cqe = 8, .wc_flags = UINT64_C(1) << 40}, EOPNOTSUPP},
		{{.cqe = 8, .comp_mask = 1 << 2}, EINVAL},
		{{.cqe = 8, .comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS, .flags = 1 << 2}, EINVAL},
		{{.cqe = 8, .comp_vector = NUM_COMP_VECTORS}, EINVAL},
		{{.cqe = 0}, EINVAL},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct ibv_cq_init_attr_ex attr = rows[i].attr;

		errno = 0;
		assert_null(create_cq_ex(&context.pub.context, &attr));
		assert_int_equal(errno, rows[i].error);
	}
}

static void ibv_create_cq_in_forked_child_or_after_daemon_death_fails(void **state)
{
	struct cq *cq = to_cq(make(8, NULL));

	(void)state;
	engine.is_fatal = true;
	errno = 0;
	assert_null(ibv_create_cq(&context.pub.context, 8, NULL, NULL, 0));
	assert_int_equal(errno, EIO);
	engine.is_fatal = false;
	engine.is_orphan = true;
	errno = 0;
	assert_null(ibv_create_cq(&context.pub.context, 8, NULL, NULL, 0));
	assert_int_equal(errno, EIO);
	assert_null(ibv_create_comp_channel(&context.pub.context));
	assert_int_equal(ibv_resize_cq(&cq->pub, 100), EIO);
	assert_int_equal(req_notify_cq(&cq->pub, 0), EIO);
	/* Fetched, unacknowledged events are for the parent to acknowledge. */
	cq->comp_events_fetched = 1;
	assert_int_equal(ibv_destroy_cq(&cq->pub), 0);
	engine.is_orphan = false;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(ibv_create_cq_limits_cqe, setup, teardown),
		cmocka_unit_test_setup_teardown(cq_push_behind_delayed_completion_keeps_order,
						setup, teardown),
		cmocka_unit_test_setup_teardown(cq_push_random_operations_match_model_queue, setup,
						teardown),
		cmocka_unit_test_setup_teardown(poll_cq_empty_runs_engine_once, setup, teardown),
		cmocka_unit_test_setup_teardown(cq_push_overrun_is_reported_once_and_drops_newest,
						setup, teardown),
		cmocka_unit_test_setup_teardown(cq_push_ignored_overrun_drops_oldest, setup,
						teardown),
		cmocka_unit_test_setup_teardown(req_notify_cq_reports_one_event_of_requested_kind,
						setup, teardown),
		cmocka_unit_test_setup_teardown(
			req_notify_cq_reports_unpolled_completion_without_event, setup, teardown),
		cmocka_unit_test_setup_teardown(
			poll_cq_concurrent_consumers_get_each_completion_once, setup, teardown),
		cmocka_unit_test_setup_teardown(ibv_start_poll_readers_return_current_completion,
						setup, teardown),
		cmocka_unit_test_setup_teardown(create_cq_ex_invalid_attr_fails, setup, teardown),
		cmocka_unit_test_setup_teardown(
			ibv_create_cq_in_forked_child_or_after_daemon_death_fails, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
