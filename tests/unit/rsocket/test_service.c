/* SPDX-License-Identifier: BSD-2-Clause */

/* The service thread, which makes progress while the application makes no calls. */

#include "rsocket/service.h"

#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"

struct job {
	struct service_item item;
	int event_fd;
	atomic_uint runs;
	atomic_bool may_end;
	bool takes;
	bool removes_itself;
	bool blocks_signals;
	pthread_t thread;
};

static void work(struct service_item *item)
{
	struct job *job = container_of(item, struct job, item);
	eventfd_t count;
	sigset_t blocked;

	if (job->takes)
		eventfd_read(job->event_fd, &count);
	job->thread = pthread_self();
	pthread_sigmask(SIG_BLOCK, NULL, &blocked);
	job->blocks_signals = sigismember(&blocked, SIGTERM) == 1;
	if (job->removes_itself)
		service_remove(item);
	atomic_fetch_add(&job->runs, 1);
	while (!atomic_load(&job->may_end))
		sched_yield();
}

static void job_make(struct job *job)
{
	service_item_init(&job->item, work);
	job->event_fd = eventfd(0, EFD_NONBLOCK);
	assert_true(job->event_fd >= 0);
	atomic_init(&job->runs, 0);
	atomic_init(&job->may_end, true);
	job->takes = true;
	job->removes_itself = false;
}

static void job_end(struct job *job)
{
	service_remove(&job->item);
	close(job->event_fd);
}

static void await_runs(struct job *job, unsigned runs)
{
	while (atomic_load(&job->runs) < runs)
		sched_yield();
}

static void service_add_readable_descriptor_calls_item(void **state)
{
	struct job job;

	(void)state;
	job_make(&job);
	assert_int_equal(service_add(&job.item, job.event_fd), 0);
	assert_int_equal(service_add(&job.item, job.event_fd), 0);
	for (unsigned run = 1; run <= 3; run++) {
		eventfd_write(job.event_fd, 1);
		await_runs(&job, run);
	}
	job_end(&job);
	assert_false(pthread_equal(job.thread, pthread_self()));
	assert_true(job.blocks_signals);
}

static void service_set_deadline_expiry_calls_item(void **state)
{
	struct job job;

	(void)state;
	job_make(&job);
	assert_int_equal(service_add(&job.item, -1), 0);
	service_set_deadline(&job.item, clock_now_ns());
	await_runs(&job, 1);
	service_set_deadline(&job.item, clock_now_ns() + 1000000);
	await_runs(&job, 2);
	/* A cancelled deadline does not expire. */
	service_set_deadline(&job.item, clock_now_ns() + 3600 * CLOCK_NS_PER_S);
	service_set_deadline(&job.item, TIMER_NEVER_NS);
	job_end(&job);
	assert_int_equal(atomic_load(&job.runs), 2);
}

static void service_remove_by_own_callback_succeeds(void **state)
{
	struct job job;

	(void)state;
	job_make(&job);
	job.removes_itself = true;
	job.takes = false;
	assert_int_equal(service_add(&job.item, job.event_fd), 0);
	eventfd_write(job.event_fd, 1);
	await_runs(&job, 1);
	service_remove(&job.item);
	assert_int_equal(atomic_load(&job.runs), 1);
	close(job.event_fd);
}

static void *remove_item(void *arg)
{
	struct job *job = arg;

	service_remove(&job->item);
	return NULL;
}

/* Removing an item waits until the item is not in use. */
static void service_remove_waits_for_running_callback(void **state)
{
	struct job job;
	pthread_t thread;

	(void)state;
	job_make(&job);
	atomic_store(&job.may_end, false);
	assert_int_equal(service_add(&job.item, job.event_fd), 0);
	eventfd_write(job.event_fd, 1);
	await_runs(&job, 1);
	assert_int_equal(pthread_create(&thread, NULL, remove_item, &job), 0);
	assert_int_not_equal(pthread_tryjoin_np(thread, NULL), 0);
	atomic_store(&job.may_end, true);
	assert_int_equal(pthread_join(thread, NULL), 0);
	close(job.event_fd);
}

static void service_set_hearing_off_suppresses_calls(void **state)
{
	struct job deaf, other;

	(void)state;
	job_make(&deaf);
	job_make(&other);
	deaf.takes = false;
	assert_int_equal(service_add(&deaf.item, deaf.event_fd), 0);
	assert_int_equal(service_add(&other.item, other.event_fd), 0);
	service_set_watching(&deaf.item, false);
	eventfd_write(deaf.event_fd, 1);
	for (unsigned run = 1; run <= 3; run++) {
		eventfd_write(other.event_fd, 1);
		await_runs(&other, run);
	}
	assert_int_equal(atomic_load(&deaf.runs), 0);
	service_set_watching(&deaf.item, true);
	await_runs(&deaf, 1);
	job_end(&deaf);
	job_end(&other);
}

static void service_add_invalid_descriptor_fails(void **state)
{
	struct job job;

	(void)state;
	job_make(&job);
	assert_true(service_add(&job.item, 1 << 20) < 0);
	assert_int_equal(job.item.handle, 0);
	service_remove(&job.item);
	close(job.event_fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(service_add_readable_descriptor_calls_item),
		cmocka_unit_test(service_set_deadline_expiry_calls_item),
		cmocka_unit_test(service_remove_by_own_callback_succeeds),
		cmocka_unit_test(service_remove_waits_for_running_callback),
		cmocka_unit_test(service_set_hearing_off_suppresses_calls),
		cmocka_unit_test(service_add_invalid_descriptor_fails),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
