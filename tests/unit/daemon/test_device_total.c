/* SPDX-License-Identifier: BSD-2-Clause */
#include "daemon/device_total.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "daemon/session.h"
#include "daemon/slots.h"
#include "fake_netdev.h"

#define PROCESSES   3
#define NO_DEVICE   77
#define MANY_QPS    12000u /* more than one step reads */
#define STEPS_MAX   100000
#define DEVICES_IN  3
#define STEPS_TRIED 10

static struct process {
	struct session session;
	struct segment *segment;
} processes[PROCESSES];
static struct slots slots;
static struct device_ended ended;

static void process_open(struct process *process)
{
	struct published *published = &process->session.published;

	memset(process, 0, sizeof(*process));
	process->session.slot = (uint32_t)slots_assign(&slots, &process->session);
	published->segment_fd = memfd_create("segment", MFD_CLOEXEC);
	published->segment_bytes = SEGMENT_BYTES;
	assert_true(published->segment_fd >= 0);
	assert_int_equal(ftruncate(published->segment_fd, (off_t)SEGMENT_BYTES), 0);
	process->segment = mmap(NULL, SEGMENT_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED,
				published->segment_fd, 0);
	assert_ptr_not_equal(process->segment, MAP_FAILED);
	process->segment->hdr.magic = SEGMENT_MAGIC;
	process->segment->hdr.version = SEGMENT_VERSION;
	process->segment->hdr.slot = process->session.slot;
	process->segment->devices.end = DEVICES_IN;
	process->segment->devices.entries[0].dev_id = FAKE_LO;
	process->segment->devices.entries[1].dev_id = NO_DEVICE;
	process->segment->devices.entries[2].dev_id = FAKE_ETH;
}

static void process_close(struct process *process)
{
	if (process->session.published.segment_fd < 0)
		return;
	munmap(process->segment, SEGMENT_BYTES);
	close(process->session.published.segment_fd);
	process->session.published.segment_fd = -1;
	slots_return(&slots, process->session.slot);
}

/* The process ends, as a session does. */
static void process_end(struct process *process)
{
	device_ended_add(&ended, &process->session);
	process_close(process);
}

static int setup(void **state)
{
	(void)state;
	fake_netdev_reset();
	slots_init(&slots, 0);
	device_ended_init(&ended);
	for (int i = 0; i < PROCESSES; i++)
		process_open(&processes[i]);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	for (int i = 0; i < PROCESSES; i++)
		process_close(&processes[i]);
	assert_true(list_is_empty(&ended.sums));
	device_ended_free(&ended);
	return 0;
}

/* QPs [0, count) of the process, each of which sent one message of 10 bytes on eth0. */
static void use_qps(struct process *process, uint32_t count)
{
	process->segment->hdr.qps_end = count;
	for (uint32_t i = 0; i < count; i++) {
		process->segment->qps[i].dev_id = FAKE_ETH;
		process->segment->qp_usage[i].sent_messages = 1;
		process->segment->qp_usage[i].sent_bytes = 10;
	}
}

static void run(struct device_sum *sum)
{
	for (int i = 0; !device_sum_step(sum); i++)
		assert_true(i < STEPS_MAX);
}

static struct ipc_usage total_of(uint32_t dev_id)
{
	struct device_sum sum;
	struct ipc_usage total;

	device_sum_begin(&sum, &ended, &slots);
	run(&sum);
	total = device_sum_of(&sum, dev_id);
	device_sum_end(&sum);
	return total;
}

static void device_sum_adds_used_and_revoked_qps_by_device(void **state)
{
	struct segment *segment = processes[1].segment;
	struct ipc_usage total;

	(void)state;
	segment->hdr.qps_end = 40;
	segment->devices.entries[2].total.sent_bytes = 1000;
	segment->qps[3].dev_id = FAKE_ETH;
	segment->qp_usage[3] = (struct segment_qp_usage){.sent_messages = 2,
							 .sent_bytes = 30,
							 .received_messages = 4,
							 .received_bytes = 50,
							 .read_bytes = 6,
							 .retries = 7,
							 .rnr_naks = 8};
	segment->qps[39].dev_id = FAKE_LO;
	segment->qp_usage[39].received_bytes = 9;
	segment->qps[38].dev_id = NO_DEVICE;
	segment->qp_usage[38].sent_bytes = 10;
	use_qps(&processes[2], 1);
	total = total_of(FAKE_ETH);
	assert_int_equal(total.sent_messages, 3);
	assert_int_equal(total.sent_bytes, 1040);
	assert_int_equal(total.received_messages, 4);
	assert_int_equal(total.received_bytes, 50);
	assert_int_equal(total.read_bytes, 6);
	assert_int_equal(total.retries, 7);
	assert_int_equal(total.rnr_naks, 8);
	assert_int_equal(total_of(FAKE_LO).received_bytes, 9);
	assert_int_equal(total_of(FAKE_LO).sent_messages, 0);
	assert_int_equal(total_of(NO_DEVICE).sent_bytes, 0);
}

static void device_ended_add_keeps_the_sum(void **state)
{
	(void)state;
	use_qps(&processes[0], MANY_QPS);
	use_qps(&processes[1], 5);
	processes[1].segment->devices.entries[2].total.sent_messages = 100;
	assert_int_equal(total_of(FAKE_ETH).sent_messages, MANY_QPS + 105);
	process_end(&processes[1]);
	assert_int_equal(total_of(FAKE_ETH).sent_messages, MANY_QPS + 105);
	process_end(&processes[0]);
	process_end(&processes[2]);
	assert_int_equal(total_of(FAKE_ETH).sent_messages, MANY_QPS + 105);
	assert_int_equal(total_of(FAKE_ETH).sent_bytes, 10 * (MANY_QPS + 5));
	/* The kernel's counters also end with the interface. */
	fake_netdev_remove(FAKE_ETH);
	process_open(&processes[0]);
	process_end(&processes[0]);
	assert_int_equal(ended.totals.count, 1);
}

/*
 * For each process and number of steps: if the process ends after these steps, the sum contains its
 * numbers once.
 */
static void device_sum_step_counts_ended_process_once(void **state)
{
	uint64_t ended_count = 0;

	(void)state;
	for (int which = 0; which < PROCESSES; which++) {
		for (int steps = 0; steps < STEPS_TRIED; steps++) {
			struct device_sum sum;
			uint64_t wanted;

			for (int i = 0; i < PROCESSES; i++)
				use_qps(&processes[i], MANY_QPS);
			wanted = (ended_count + PROCESSES) * MANY_QPS;
			device_sum_begin(&sum, &ended, &slots);
			for (int i = 0; i < steps; i++)
				(void)device_sum_step(&sum);
			process_end(&processes[which]);
			ended_count++;
			run(&sum);
			assert_int_equal(device_sum_of(&sum, FAKE_ETH).sent_messages, wanted);
			device_sum_end(&sum);
			assert_int_equal(total_of(FAKE_ETH).sent_messages, wanted);
			process_open(&processes[which]);
		}
	}
}

/* A process can write anything: the sum ends, and the numbers of the others are in it. */
static void device_sum_hostile_segment_is_read_safely(void **state)
{
	struct segment *segment = processes[0].segment;

	(void)state;
	use_qps(&processes[1], 5);
	segment->hdr.qps_end = UINT32_MAX;
	memset(&segment->devices, 0xff, sizeof(segment->devices));
	assert_int_equal(total_of(FAKE_ETH).sent_messages, 5);
	for (uint32_t i = 0; i < SEGMENT_DEVICES; i++)
		segment->devices.entries[i].dev_id = FAKE_LO;
	memset(segment->qps, 0xff, sizeof(segment->qps));
	memset(segment->qp_usage, 0xff, sizeof(segment->qp_usage));
	segment->hdr.qps_end = SEGMENT_QPS;
	assert_int_equal(total_of(FAKE_ETH).sent_messages, 5);
	process_end(&processes[0]);
	assert_int_equal(total_of(FAKE_ETH).sent_messages, 5);
	processes[2].segment->hdr.magic++;
	use_qps(&processes[2], 5);
	assert_int_equal(total_of(FAKE_ETH).sent_messages, 5);
	processes[2].segment->hdr.magic--;
	processes[2].session.published.segment_bytes--;
	assert_int_equal(total_of(FAKE_ETH).sent_messages, 5);
}

#define CASE(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(device_sum_adds_used_and_revoked_qps_by_device),
		CASE(device_ended_add_keeps_the_sum),
		CASE(device_sum_step_counts_ended_process_once),
		CASE(device_sum_hostile_segment_is_read_safely),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
