/* SPDX-License-Identifier: BSD-2-Clause */

/*
 * The last poll of an armed CQ before its application waits by other means than ibv_get_cq_event().
 */

#include "fake.h"

#include <fcntl.h>

#include "base/clock.h"
#include "base/librdmacm_calls.h"
#include "core/engine/armed_spin.h"
#include "core/engine/channel.h"
#include "core/engine/direct_wake.h"
#include "core/engine/engine_run.h"
#include "core/engine/engine_serve.h"
#include "core/queue/cq.h"
#include "ipc/segment.h"

/* More rounds than a poll without spinning makes. */
#define ROUNDS 5u

/* The time of the spins; it advances with each look. */
static uint64_t time_ns;

/* What the transport does in its rounds. */
static struct rounds {
	unsigned int count;
	unsigned int until; /* the round in which the next two happen */
	struct cq *completes;
	struct comp_channel *reports; /* an event of `of` */
	struct cq *of;
	bool have_paused;    /* in one of them, peers were not to wake threads */
	bool have_been_away; /* in one of them, the engine thread was not to wait for messages */
	bool have_deferred;  /* in one of them, acknowledgements were to wait for the application */
} rounds;

int __wrap_clock_gettime(clockid_t clock, struct timespec *now);

int __wrap_clock_gettime(clockid_t clock, struct timespec *now)
{
	(void)clock;
	time_ns += CLOCK_NS_PER_US;
	*now = (struct timespec){.tv_sec = (time_t)(time_ns / CLOCK_NS_PER_S),
				 .tv_nsec = (long)(time_ns % CLOCK_NS_PER_S)};
	return 0;
}

/* How long a call of sched_yield() lets other programs compute. */
static uint64_t yield_lasts_ns;

int __wrap_sched_yield(void);

int __wrap_sched_yield(void)
{
	time_ns += yield_lasts_ns;
	return 0;
}

static struct fake fake;
static struct segment_cqs segment_cqs;
static struct ibv_comp_channel *channel;
static struct cq *cq;

static bool spins_alone(void)
{
	return progress_spins_alone(progress_state(&fake.engine.progress));
}

static unsigned int run_round(struct engine *engine)
{
	const struct ibv_wc wc = {.status = IBV_WC_SUCCESS};

	rounds.have_paused |= !atomic_load(&segment_cqs.takes_wakes);
	rounds.have_been_away |= progress_spins_alone(progress_state(&engine->progress));
	rounds.have_deferred |= run_by_replier(engine->run_by);
	if (++rounds.count != rounds.until)
		return 0;
	if (rounds.completes)
		cq_push(rounds.completes, &wc, false);
	if (rounds.reports)
		channel_post(rounds.reports, rounds.of);
	return 1;
}

static const struct transport only = {.name = "only", .run = run_round};
const struct transport *const transports[] = {&only, NULL};

int transports_register_notices(struct engine *engine)
{
	(void)engine;
	return 0;
}

/* Polls once. Returns the number of completions. */
static int poll_once(void)
{
	struct ibv_wc wc;

	rounds.count = 0;
	return ibv_poll_cq(&cq->pub, 1, &wc);
}

/* The application takes an event and arms the CQ. */
static void take_event(void)
{
	struct ibv_cq *got;
	void *user;

	engine_lock(&fake.engine);
	channel_post(to_channel(channel), cq);
	engine_unlock(&fake.engine);
	assert_int_equal(ibv_get_cq_event(channel, &got, &user), 0);
	ibv_ack_cq_events(got, 1);
	assert_int_equal(ibv_req_notify_cq(got, 0), 0);
}

/* Another thread takes the events of this channel. */
static void set_other_taker(struct ibv_comp_channel *other)
{
	to_channel(other)->taker = (uint8_t)(armed_spin_taker() % (SERVE_TAKERS - 1) + 1);
	assert_int_not_equal(to_channel(other)->taker, armed_spin_taker());
}

/*
 * A poll that spins finds the completion of a late round. Also ends the pauses that failures have
 * caused.
 */
static void expect_spin(void)
{
	for (int i = 0; i < 40; i++) {
		take_event();
		rounds = (struct rounds){.until = ROUNDS, .completes = cq};
		if (poll_once() == 1) {
			assert_true(rounds.count >= ROUNDS);
			/* The event of the completion. */
			engine_lock(&fake.engine);
			channel_forget(to_channel(channel), cq);
			engine_unlock(&fake.engine);
			rounds = (struct rounds){0};
			return;
		}
		rounds = (struct rounds){0};
	}
	fail_msg("no poll has spun");
}

static int setup(void **state)
{
	(void)state;
	fake_open(&fake);
	fake.engine.has_thread = true;
	fake.engine.segment.cqs = &segment_cqs;
	fake.engine.progress.state = PROGRESS_WAKES;
	atomic_store(&segment_cqs.takes_wakes, true);
	channel = ibv_create_comp_channel(fake.ctx);
	assert_non_null(channel);
	assert_int_equal(fcntl(channel->fd, F_SETFL, O_NONBLOCK), 0);
	cq = to_cq(ibv_create_cq(fake.ctx, 16, NULL, channel, 0));
	assert_non_null(cq);
	engine_lock(&fake.engine);
	engine_serve_set_external(&fake.engine, to_channel(channel), true);
	engine_unlock(&fake.engine);
	expect_spin();
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	assert_int_equal(ibv_destroy_cq(&cq->pub), 0);
	assert_int_equal(ibv_destroy_comp_channel(channel), 0);
	for (size_t i = 0; i < SERVE_TAKERS; i++)
		assert_int_equal(fake.engine.serve.events_for[i], 0);
	fake_close(&fake);
	return 0;
}

static void poll_spins_until_completion(void **state)
{
	(void)state;
	expect_spin();
	assert_true(atomic_load(&segment_cqs.takes_wakes));
}

static void poll_spins_once_for_each_event(void **state)
{
	(void)state;
	take_event();
	rounds = (struct rounds){0};
	assert_int_equal(poll_once(), 0);
	assert_true(rounds.count > ROUNDS);
	/* The application arms again without an event. */
	assert_int_equal(ibv_req_notify_cq(&cq->pub, 0), 0);
	assert_int_equal(poll_once(), 0);
	assert_int_equal(rounds.count, 1);
}

static void poll_of_cq_that_is_not_armed_does_not_spin(void **state)
{
	(void)state;
	armed_spin_event_taken();
	assert_int_equal(poll_once(), 0);
	assert_int_equal(rounds.count, 1);
}

static void poll_of_blocking_application_does_not_spin(void **state)
{
	(void)state;
	assert_int_equal(fcntl(channel->fd, F_SETFL, 0), 0);
	engine_lock(&fake.engine);
	engine_serve_set_external(&fake.engine, to_channel(channel), false);
	engine_unlock(&fake.engine);
	take_event();
	assert_int_equal(poll_once(), 0);
	assert_int_equal(rounds.count, 1);
}

/* Another channel of the thread has an event already, or gets it later. */
static void poll_does_not_delay_event_of_another_channel(void **state)
{
	struct ibv_comp_channel *other = ibv_create_comp_channel(fake.ctx);
	struct cq *of = to_cq(ibv_create_cq(fake.ctx, 16, NULL, other, 0));

	(void)state;
	to_channel(other)->taker = armed_spin_taker();
	take_event();
	rounds = (struct rounds){.until = ROUNDS, .reports = to_channel(other), .of = of};
	assert_int_equal(poll_once(), 0);
	assert_in_range(rounds.count, ROUNDS, ROUNDS + 1);
	take_event();
	assert_int_equal(poll_once(), 0);
	assert_int_equal(rounds.count, 1);
	assert_int_equal(ibv_destroy_cq(&of->pub), 0);
	assert_int_equal(ibv_destroy_comp_channel(other), 0);
}

/* An event that another thread takes is no reason to end. */
static void poll_spins_although_another_thread_has_event(void **state)
{
	struct ibv_comp_channel *other = ibv_create_comp_channel(fake.ctx);
	struct cq *of = to_cq(ibv_create_cq(fake.ctx, 16, NULL, other, 0));

	(void)state;
	set_other_taker(other);
	engine_lock(&fake.engine);
	channel_post(to_channel(other), of);
	engine_unlock(&fake.engine);
	expect_spin();
	assert_int_equal(ibv_destroy_cq(&of->pub), 0);
	assert_int_equal(ibv_destroy_comp_channel(other), 0);
}

/* In this time it executes all messages, so that peers need not wake other threads. */
static void poll_that_spins_pauses_direct_wakes(void **state)
{
	(void)state;
	take_event();
	rounds = (struct rounds){0};
	assert_int_equal(poll_once(), 0);
	assert_true(rounds.have_paused);
	assert_true(atomic_load(&segment_cqs.takes_wakes));
}

static void poll_that_spins_alone_replaces_engine_thread(void **state)
{
	(void)state;
	fake.engine.progress.state = PROGRESS_THREAD;
	take_event();
	rounds = (struct rounds){0};
	assert_int_equal(poll_once(), 0);
	assert_true(rounds.have_been_away);
	assert_false(spins_alone());
	fake.engine.progress.external_waits = 1;
	expect_spin();
	take_event();
	rounds = (struct rounds){.until = ROUNDS, .completes = cq};
	assert_int_equal(poll_once(), 1);
	assert_false(rounds.have_been_away);
}

/* Leaves the state after a successful spin that was alone. */
static void spin_alone(void)
{
	fake.engine.progress.state = PROGRESS_THREAD;
	expect_spin();
	assert_true(spins_alone());
}

static void poll_that_does_not_spin_ends_what_a_spin_alone_began(void **state)
{
	(void)state;
	spin_alone();
	take_event();
	assert_int_equal(poll_once(), 0);
	assert_false(spins_alone());
	spin_alone();
	assert_int_equal(ibv_req_notify_cq(&cq->pub, 0), 0);
	assert_int_equal(poll_once(), 0);
	assert_int_equal(rounds.count, 2);
	assert_false(spins_alone());
}

static void spin_alone_ends_when_another_thread_waits(void **state)
{
	(void)state;
	spin_alone();
	engine_lock(&fake.engine);
	engine_serve_enter(&fake.engine);
	engine_unlock(&fake.engine);
	assert_false(spins_alone());
	engine_serve_leave(&fake.engine);
	spin_alone();
	usrdma_wait_begins(fake.ctx);
	assert_false(spins_alone());
	usrdma_wait_ends(fake.ctx);
}

/* The first tick of the engine thread without a spin. */
static void spin_alone_ends_after_a_tick(void **state)
{
	(void)state;
	spin_alone();
	engine_lock(&fake.engine);
	assert_int_equal(engine_thread_rest(&fake.engine), PROGRESS_WAIT_OWN_TICK);
	/* WRs are sent at once, because the application may sleep without a further call. */
	assert_int_equal(progress_state(&fake.engine.progress), PROGRESS_SPIN);
	assert_false(engine_ticks(&fake.engine));
	assert_int_equal(engine_thread_rest(&fake.engine), PROGRESS_WAIT_ALL);
	engine_unlock(&fake.engine);
	assert_false(spins_alone());
}

/*
 * A spin does not run the queue pairs of other shards, so that the engine thread waits for all
 * messages. It has no tick then, which would end the wait of acknowledgements.
 */
static void spin_alone_ends_when_another_thread_has_queue_pairs(void **state)
{
	(void)state;
	spin_alone();
	engine_lock(&fake.engine);
	assert_true(shards_open(&fake.engine));
	assert_int_equal(engine_thread_rest(&fake.engine), PROGRESS_WAIT_ALL);
	engine_unlock(&fake.engine);
	take_event();
	rounds = (struct rounds){0};
	assert_int_equal(poll_once(), 0);
	assert_true(rounds.count > ROUNDS);
	assert_false(rounds.have_been_away);
	assert_false(rounds.have_deferred);
}

/* The child of a fork() has copies of the state, and no engine thread. */
static void poll_in_child_leaves_engine_alone(void **state)
{
	(void)state;
	spin_alone();
	take_event();
	armed_spin_event_taken();
	fake.engine.is_orphan = true;
	(void)progress_forked(&fake.engine.progress);
	for (int i = 0; i < 2; i++) {
		biased_lock_acquire(&cq->lock);
		armed_spin_cq_armed(cq);
		biased_lock_release(&cq->lock);
		assert_int_equal(poll_once(), 0);
		assert_int_equal(rounds.count, 0);
	}
	assert_int_equal(progress_state(&fake.engine.progress), PROGRESS_ENDED);
	fake.engine.is_orphan = false;
}

/* Otherwise no timer and no tick would end the wait. */
static void poll_defers_acknowledgements_only_if_engine_thread_ticks(void **state)
{
	(void)state;
	fake.engine.progress.state = PROGRESS_THREAD;
	usrdma_wait_begins(fake.ctx);
	take_event();
	rounds = (struct rounds){0};
	assert_int_equal(poll_once(), 0);
	assert_true(rounds.count > ROUNDS);
	assert_false(rounds.have_deferred);
	fake.engine.progress.state = PROGRESS_WAKES;
	expect_spin();
	take_event();
	rounds = (struct rounds){0};
	assert_int_equal(poll_once(), 0);
	assert_true(rounds.have_deferred);
	usrdma_wait_ends(fake.ctx);
}

/* Only a thread that spins alone yields. */
static void poll_after_long_yield_does_not_spin(void **state)
{
	const uint64_t lasts_ns = 3000 * CLOCK_NS_PER_US;

	(void)state;
	spin_alone();
	yield_lasts_ns = lasts_ns;
	take_event();
	rounds = (struct rounds){0};
	assert_int_equal(poll_once(), 0);
	assert_true(rounds.count >= ROUNDS);
	assert_false(spins_alone());
	for (int i = 0; i < 40; i++) {
		take_event();
		assert_int_equal(poll_once(), 0);
		assert_true(rounds.count < ROUNDS);
	}
	yield_lasts_ns = 0;
	time_ns += 40 * lasts_ns;
	expect_spin();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(poll_spins_until_completion, setup, teardown),
		cmocka_unit_test_setup_teardown(poll_spins_once_for_each_event, setup, teardown),
		cmocka_unit_test_setup_teardown(poll_of_cq_that_is_not_armed_does_not_spin, setup,
						teardown),
		cmocka_unit_test_setup_teardown(poll_of_blocking_application_does_not_spin, setup,
						teardown),
		cmocka_unit_test_setup_teardown(poll_does_not_delay_event_of_another_channel, setup,
						teardown),
		cmocka_unit_test_setup_teardown(poll_spins_although_another_thread_has_event, setup,
						teardown),
		cmocka_unit_test_setup_teardown(poll_that_spins_pauses_direct_wakes, setup,
						teardown),
		cmocka_unit_test_setup_teardown(poll_that_spins_alone_replaces_engine_thread, setup,
						teardown),
		cmocka_unit_test_setup_teardown(
			poll_that_does_not_spin_ends_what_a_spin_alone_began, setup, teardown),
		cmocka_unit_test_setup_teardown(spin_alone_ends_when_another_thread_waits, setup,
						teardown),
		cmocka_unit_test_setup_teardown(spin_alone_ends_after_a_tick, setup, teardown),
		cmocka_unit_test_setup_teardown(spin_alone_ends_when_another_thread_has_queue_pairs,
						setup, teardown),
		cmocka_unit_test_setup_teardown(poll_in_child_leaves_engine_alone, setup, teardown),
		cmocka_unit_test_setup_teardown(
			poll_defers_acknowledgements_only_if_engine_thread_ticks, setup, teardown),
		cmocka_unit_test_setup_teardown(poll_after_long_yield_does_not_spin, setup,
						teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
