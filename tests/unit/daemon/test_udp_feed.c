/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A forwarding ring between the daemon's feed and a consumer. Datagrams arrive complete and in
 * order, sleeping consumers are woken, and a full ring continues when it has room. A consumer that
 * writes invalid values into its words and memory harms only itself.
 */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "daemon/udp_feed.h"
#include "link/udp_socket.h"

#define WAIT_MS 5000

struct fixture {
	int tx_fd;
	int rx_fd;
	struct sockaddr_in to;
	struct udp_feed feed;
	struct udp_ring ring;
	int words_fd;
	int memory_fd;
};

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));
	socklen_t len = sizeof(f->to);
	int fds[UDP_RING_FDS];

	f->rx_fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	f->tx_fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	f->to = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
	assert_int_equal(bind(f->rx_fd, (struct sockaddr *)&f->to, sizeof(f->to)), 0);
	assert_int_equal(getsockname(f->rx_fd, (struct sockaddr *)&f->to, &len), 0);
	assert_int_equal(udp_socket_prepare_rx(f->rx_fd), 0);
	assert_int_equal(udp_feed_open(&f->feed, f->rx_fd, fds), 0);
	f->words_fd = fcntl(fds[UDP_RING_FD_WORDS], F_DUPFD_CLOEXEC, 0);
	f->memory_fd = fcntl(fds[UDP_RING_FD_MEMORY], F_DUPFD_CLOEXEC, 0);
	assert_int_equal(udp_ring_open(&f->ring, fds), 0);
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	udp_ring_close(&f->ring);
	udp_feed_close(&f->feed);
	close(f->words_fd);
	close(f->memory_fd);
	close(f->rx_fd);
	close(f->tx_fd);
	free(f);
	return 0;
}

static void send_numbers(const struct fixture *f, uint32_t first, uint32_t count)
{
	for (uint32_t i = first; i < first + count; i++)
		assert_int_equal(sendto(f->tx_fd, &i, sizeof(i), 0, (struct sockaddr *)&f->to,
					sizeof(f->to)),
				 sizeof(i));
}

/* The kernel may merge datagrams of one sender; each is one number here. */
static uint32_t receive_numbers(struct fixture *f, uint32_t first)
{
	struct udp_rx rx[UDP_RING_CELLS];
	int n = udp_ring_receive(&f->ring, rx, UDP_RING_CELLS);

	for (int i = 0; i < n; i++) {
		for (size_t at = 0; at < rx[i].len; at += sizeof(first)) {
			assert_memory_equal(rx[i].bytes + at, &first, sizeof(first));
			first++;
		}
		assert_true(rx[i].len == sizeof(first) ||
			    rx[i].control.segment_bytes == sizeof(first));
		assert_int_equal(rx[i].control.remote_gid[12], 127);
		assert_int_equal(rx[i].control.local_gid[12], 127);
		assert_int_not_equal(rx[i].control.src_port, 0);
	}
	return first;
}

static bool is_rung(const struct fixture *f)
{
	struct pollfd fd = {.fd = f->ring.bell_fd, .events = POLLIN};

	return poll(&fd, 1, 0) == 1;
}

static void udp_feed_run_forwards_in_order(void **state)
{
	struct fixture *f = *state;
	uint32_t sent = 0, received = 0;

	for (int round = 0; round < 20; round++) {
		send_numbers(f, sent, 7);
		sent += 7;
		assert_int_not_equal(udp_feed_run(&f->feed, 8), UDP_FEED_FULL);
		received = receive_numbers(f, received);
		assert_int_equal(received, sent);
	}
	assert_false(is_rung(f));
}

static void udp_feed_run_wakes_sleeping_reader_once(void **state)
{
	struct fixture *f = *state;
	uint32_t received = 0;

	assert_false(udp_ring_sleep(&f->ring, true));
	send_numbers(f, 0, 1);
	udp_feed_run(&f->feed, 8);
	assert_true(is_rung(f));
	send_numbers(f, 1, 1);
	udp_feed_run(&f->feed, 8);
	/* Available data prevents the sleep, and the wake is consumed. */
	assert_true(udp_ring_sleep(&f->ring, true));
	assert_false(is_rung(f));
	received = receive_numbers(f, received);
	assert_int_equal(received, 2);
	send_numbers(f, 2, 1);
	udp_feed_run(&f->feed, 8);
	assert_false(is_rung(f));
	assert_true(udp_ring_sleep(&f->ring, true));
	received = receive_numbers(f, received);
	assert_false(udp_ring_sleep(&f->ring, true));
	send_numbers(f, 3, 1);
	udp_feed_run(&f->feed, 8);
	assert_true(is_rung(f));
	received = receive_numbers(f, received);
	assert_int_equal(received, 4);
	/* A late wake is consumed, too. */
	assert_false(udp_ring_sleep(&f->ring, true));
	assert_false(is_rung(f));
	assert_false(udp_ring_sleep(&f->ring, false));
}

/*
 * The daemon reads the sleep flag after the consumer has taken the data of an earlier wake: another
 * wake must follow.
 */
static void udp_feed_run_wakes_again_after_late_wake(void **state)
{
	struct fixture *f = *state;

	send_numbers(f, 0, 1);
	udp_feed_run(&f->feed, 8);
	assert_int_equal(receive_numbers(f, 0), 1);
	assert_false(udp_ring_sleep(&f->ring, true));
	f->feed.woken_at = atomic_load(&f->ring.words->sleeps);
	assert_int_equal(send(f->feed.bell_fd, "", 1, MSG_DONTWAIT), 1);
	assert_int_equal(receive_numbers(f, 1), 1);
	assert_false(udp_ring_sleep(&f->ring, true));
	send_numbers(f, 1, 1);
	udp_feed_run(&f->feed, 8);
	assert_true(is_rung(f));
}

static void fill(struct fixture *f, uint32_t *sent)
{
	for (uint32_t i = 0; i < UDP_RING_CELLS; i++) {
		send_numbers(f, (*sent)++, 1);
		assert_int_equal(udp_feed_run(&f->feed, 1), UDP_FEED_MORE);
	}
	send_numbers(f, (*sent)++, 1);
	assert_int_equal(udp_feed_run(&f->feed, 1), UDP_FEED_FULL);
}

static void udp_feed_run_full_ring_continues_when_read(void **state)
{
	struct fixture *f = *state;
	struct pollfd room = {.fd = f->feed.room_fd, .events = POLLIN};
	uint32_t sent = 0, received = 0;

	for (int round = 0; round < 3; round++) {
		fill(f, &sent);
		received = receive_numbers(f, received);
		assert_int_equal(received, sent - 1);
		assert_int_equal(udp_feed_run(&f->feed, 1), UDP_FEED_FULL);
		/* A consumer that goes to sleep frees the datagrams that it had. */
		assert_false(udp_ring_sleep(&f->ring, true));
		assert_int_equal(poll(&room, 1, WAIT_MS), 1);
		assert_int_equal(udp_feed_run(&f->feed, 8), UDP_FEED_EMPTY);
		received = receive_numbers(f, received);
		assert_int_equal(received, sent);
		assert_false(udp_ring_sleep(&f->ring, true));
	}
}

/*
 * Whatever the words contain, the feed writes only to free space, and works with the next valid
 * words.
 */
static void udp_feed_run_invalid_positions_are_ignored(void **state)
{
	struct fixture *f = *state;
	static const uint32_t tails[] = {1, 31, 32, 33, 0x7fffffff, 0x80000000, 0xfffffe00};
	uint32_t sent = 0;

	fill(f, &sent);
	for (size_t i = 0; i < sizeof(tails) / sizeof(tails[0]); i++) {
		uint32_t nonsense = f->feed.head + tails[i];

		atomic_store(&f->ring.words->tail, nonsense);
		atomic_store(&f->ring.words->sleeps, 2 * (uint32_t)i + 1);
		assert_int_equal(udp_feed_run(&f->feed, 8), UDP_FEED_FULL);
		assert_int_equal(f->feed.free_count, 0);
		assert_int_equal(f->feed.head - f->feed.tail, UDP_RING_CELLS);
	}
	/* Before a position that was freed already. */
	atomic_store(&f->ring.words->tail, f->feed.head);
	assert_int_equal(udp_feed_run(&f->feed, 1), UDP_FEED_MORE);
	atomic_store(&f->ring.words->tail, f->feed.tail - 1);
	udp_feed_run(&f->feed, 8);
	assert_true(f->feed.free_count <= UDP_RING_CELLS);
	assert_int_equal(f->feed.free_count + (f->feed.head - f->feed.tail), UDP_RING_CELLS);
}

static void udp_feed_memory_cannot_be_resized_or_mapped_writable(void **state)
{
	struct fixture *f = *state;

	/* The consumer can neither write the ring nor remove its pages nor shrink its words. */
	assert_ptr_equal(mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, f->memory_fd, 0),
			 MAP_FAILED);
	assert_int_equal(
		fallocate(f->memory_fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096), -1);
	assert_int_equal(pwrite(f->memory_fd, "x", 1, 0), -1);
	assert_int_equal(ftruncate(f->memory_fd, 0), -1);
	assert_int_equal(ftruncate(f->words_fd, 0), -1);
	assert_int_equal(fcntl(f->words_fd, F_ADD_SEALS, F_SEAL_WRITE), -1);
	/* After their page was removed the words are zero. */
	assert_int_equal(fallocate(f->words_fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0,
				   sizeof(struct udp_ring_words)),
			 0);
	send_numbers(f, 0, 1);
	assert_int_equal(udp_feed_run(&f->feed, 1), UDP_FEED_MORE);
}

static void udp_feed_run_unread_wakes_do_not_block(void **state)
{
	struct fixture *f = *state;

	for (uint32_t i = 0; i < 5000; i++) {
		atomic_store(&f->ring.words->sleeps, 2 * i + 1);
		atomic_store(&f->ring.words->tail, f->feed.head);
		send_numbers(f, i, 1);
		assert_int_equal(udp_feed_run(&f->feed, 1), UDP_FEED_MORE);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(udp_feed_run_forwards_in_order, setup, teardown),
		cmocka_unit_test_setup_teardown(udp_feed_run_wakes_sleeping_reader_once, setup,
						teardown),
		cmocka_unit_test_setup_teardown(udp_feed_run_wakes_again_after_late_wake, setup,
						teardown),
		cmocka_unit_test_setup_teardown(udp_feed_run_full_ring_continues_when_read, setup,
						teardown),
		cmocka_unit_test_setup_teardown(udp_feed_run_invalid_positions_are_ignored, setup,
						teardown),
		cmocka_unit_test_setup_teardown(
			udp_feed_memory_cannot_be_resized_or_mapped_writable, setup, teardown),
		cmocka_unit_test_setup_teardown(udp_feed_run_unread_wakes_do_not_block, setup,
						teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
