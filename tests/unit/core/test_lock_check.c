/* SPDX-License-Identifier: BSD-2-Clause */

/* Functions of the core that are called without the lock that their comment states. */

#include "queues.h"

#include "../lock_death.h"
#include "core/device/av_call.h"
#include "core/engine/armed_spin.h"
#include "core/engine/engine.h"
#include "core/engine/lock_check.h"
#include "core/engine/qp_lock.h"
#include "core/queue/wq.h"

static void run_engine(void *arg)
{
	engine_run(arg);
}

static void engine_run_without_engine_lock_aborts(void **state)
{
	(void)state;
	expect_lock_check(run_engine, &fake.engine, "engine_run()", "engine.lock must be held");
	engine_lock(&fake.engine);
	engine_run(&fake.engine);
	engine_unlock(&fake.engine);
}

/* No server leaves an engine that has no thread. */
static void leave(void *arg)
{
	engine_serve_leave(arg);
}

static void engine_progress_do_input_that_does_not_occur_aborts(void **state)
{
	(void)state;
	assert_int_equal(progress_state(&fake.engine.progress), PROGRESS_NONE);
	expect_lock_check(leave, &fake.engine, "engine_progress_do()",
			  "the input does not occur in this state");
}

static void flush(void *arg)
{
	sq_flush(arg);
}

static void sq_flush_without_lock_of_qp_aborts(void **state)
{
	struct ibv_qp *qp = fake_qp(&fake, IBV_QPT_RC, NULL);
	enum qp_lock kind;

	(void)state;
	expect_lock_check(flush, to_qp(qp), "sq_flush()", "the lock of the QP must be held");
	kind = qp_lock(to_qp(qp));
	sq_flush(to_qp(qp));
	qp_unlock(to_qp(qp), kind);
	assert_int_equal(ibv_destroy_qp(qp), 0);
}

/* The parts of an engine with two shards, and of QPs of them, that the lock checks read. */
struct two_shards {
	struct engine engine;
	struct context context;
	struct qp base;
	struct qp other;
};

static void two_shards_open(struct two_shards *two)
{
	*two = (struct two_shards){.context.engine = &two->engine};
	biased_lock_init(&two->engine.lock);
	engine_init_lists(&two->engine);
	two->base.context = &two->context;
	two->other.context = &two->context;
	two->other.shard = 1;
	engine_lock(&two->engine);
	assert_true(shards_open(&two->engine));
	engine_unlock(&two->engine);
}

static bool qp_is_locked_by_qp_lock(struct qp *qp, enum qp_lock kind)
{
	enum qp_lock taken;
	bool is_locked;

	atomic_store(&qp->lock, kind);
	taken = qp_lock(qp);
	is_locked = qp_is_locked(qp);
	qp_unlock(qp, taken);
	return is_locked && !qp_is_locked(qp);
}

static void qp_is_locked_by_lock_of_its_shard_only(void **state)
{
	static struct two_shards two;

	(void)state;
	two_shards_open(&two);
	assert_true(qp_is_locked_by_qp_lock(&two.base, QP_LOCK_BASE));
	assert_true(qp_is_locked_by_qp_lock(&two.other, QP_LOCK_ALL));
	assert_true(qp_is_locked_by_qp_lock(&two.other, QP_LOCK_BASE));
	assert_true(qp_is_locked_by_qp_lock(&two.other, QP_LOCK_SHARD));
	engine_lock_base(&two.engine);
	assert_true(qp_is_locked(&two.base));
	assert_false(qp_is_locked(&two.other));
	assert_true(engine_is_any_locked(&two.engine));
	assert_false(engine_is_all_locked(&two.engine));
	engine_unlock_base(&two.engine);
	biased_lock_acquire(&two.engine.shards.each[1].lock);
	assert_false(qp_is_locked(&two.base));
	assert_true(qp_is_locked(&two.other));
	assert_true(engine_is_any_locked(&two.engine));
	assert_false(engine_is_locked(&two.engine));
	biased_lock_release(&two.engine.shards.each[1].lock);
	engine_lock(&two.engine);
	assert_true(qp_is_locked(&two.base) && qp_is_locked(&two.other));
	assert_true(engine_is_all_locked(&two.engine));
	engine_unlock(&two.engine);
	assert_false(engine_is_any_locked(&two.engine));
}

static void arm(void *arg)
{
	armed_spin_cq_armed(arg);
}

static void armed_spin_cq_armed_without_cq_lock_aborts(void **state)
{
	struct cq *cq = to_cq(fake.cq);

	(void)state;
	expect_lock_check(arm, cq, "armed_spin_cq_armed()", "cq.lock must be held");
	biased_lock_acquire(&cq->lock);
	armed_spin_cq_armed(cq);
	biased_lock_release(&cq->lock);
}

static void resolve_with_lock(void *arg)
{
	const struct ipc_gid source = {.ifindex = 1};
	union ibv_gid gid = {.raw = {0}};
	uint8_t hop_limit;
	bool is_local;

	engine_lock(arg);
	(void)!av_call_resolve(arg, &source, &gid, false, &is_local, &hop_limit);
}

static void av_call_resolve_with_engine_lock_aborts(void **state)
{
	(void)state;
	expect_lock_check(resolve_with_lock, &fake.engine, "av_call_resolve()", "must not be held");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		QUEUES_TEST(engine_run_without_engine_lock_aborts),
		QUEUES_TEST(engine_progress_do_input_that_does_not_occur_aborts),
		QUEUES_TEST(sq_flush_without_lock_of_qp_aborts),
		cmocka_unit_test(qp_is_locked_by_lock_of_its_shard_only),
		QUEUES_TEST(armed_spin_cq_armed_without_cq_lock_aborts),
		QUEUES_TEST(av_call_resolve_with_engine_lock_aborts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
