/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The link with real sockets, in a network namespace of its own. Packets arrive complete, with
 * their addresses, and with an ICRC that is right for the identification assigned by the kernel.
 */
#include <errno.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "link/udp.h"
#include "link/udp_socket.h"
#include "wire/icrc.h"

#ifndef UDP_NO_CHECK6_TX
#define UDP_NO_CHECK6_TX 101
#endif

#define PACKETS	  200
#define WAIT_MS	  5000
#define HDR_BYTES BTH_BYTES

static const uint8_t ipv4_lo[GID_BYTES] = {[10] = 0xff, [11] = 0xff, [12] = 127, [15] = 1};
static const uint8_t ipv6_lo[GID_BYTES] = {[15] = 1};

struct fixture {
	struct link *link;
	struct link_path path;
	struct icrc_flow flow;
	struct icrc_solver solver;
	bool had_burst;
};

static bool has_no_ipv6;

int __real_socket(int domain, int type, int protocol);
int __wrap_socket(int domain, int type, int protocol);

int __wrap_socket(int domain, int type, int protocol)
{
	if (domain != AF_INET6 || !has_no_ipv6)
		return __real_socket(domain, type, protocol);
	errno = EAFNOSUPPORT;
	return -1;
}

static bool namespace_open(void)
{
	struct ifreq request = {.ifr_name = "lo", .ifr_flags = IFF_UP};
	int fd, ret;

	if (unshare(CLONE_NEWNET) && unshare(CLONE_NEWUSER | CLONE_NEWNET))
		return false;
	fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	ret = ioctl(fd, SIOCSIFFLAGS, &request);
	close(fd);
	return ret == 0;
}

static int group_setup(void **state)
{
	(void)state;
	return namespace_open() ? 0 : -1;
}

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));
	int fd = udp_socket_open();

	assert_int_equal(udp_socket_is_ipv4(fd), has_no_ipv6);
	assert_int_equal(udp_socket_bind(fd, PACKET_UDP_PORT), 0);
	assert_int_equal(udp_socket_prepare_rx(fd), 0);
	f->link = udp_link_open(fd);
	assert_non_null(f->link);
	icrc_solver_init(&f->solver);
	*state = f;
	return 0;
}

static int setup_ipv4_alone(void **state)
{
	has_no_ipv6 = true;
	return setup(state);
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	has_no_ipv6 = false;
	link_close(f->link);
	free(f);
	return 0;
}

static void speak_over(struct fixture *f, const uint8_t gid[GID_BYTES])
{
	memcpy(f->path.local_gid, gid, GID_BYTES);
	memcpy(f->path.remote_gid, gid, GID_BYTES);
	f->path.remote_qpn = 0x8001;
	f->path.traffic_class = 0x02;
	f->path.hop_limit = 7;
	assert_int_equal(link_path_open(f->link, &f->path), 0);
	icrc_flow_init(&f->flow, gid, gid, f->path.src_port, PACKET_UDP_PORT);
	icrc_flow_set_dont_fragment(&f->flow, true);
}

/* Makes packet i: its number is in the header, and the payload follows from the number. */
static void make(struct fixture *f, struct link_tx *tx, struct iovec *iov, uint8_t *payload,
		 uint16_t i, uint16_t payload_bytes)
{
	struct iovec pieces[2];

	memset(tx, 0, sizeof(*tx));
	tx->path = &f->path;
	tx->hdr_bytes = HDR_BYTES;
	tx->hdr[0] = (uint8_t)i;
	tx->hdr[1] = (uint8_t)(i >> 8);
	tx->hdr[4] = 0xff;
	for (uint16_t at = 0; at < payload_bytes; at++)
		payload[at] = (uint8_t)(i + at);
	*iov = (struct iovec){payload, payload_bytes};
	tx->payload = iov;
	tx->payload_count = 1;
	tx->payload_bytes = payload_bytes;
	tx->trailer_bytes = ICRC_BYTES;
	pieces[0] = (struct iovec){tx->hdr, HDR_BYTES};
	pieces[1] = *iov;
	icrc_store(tx->trailer, icrc_compute(&f->flow, 0, pieces, 2));
}

static void check(struct fixture *f, const struct link_rx *rx, uint16_t i, uint16_t payload_bytes)
{
	uint16_t ip_id;

	assert_memory_equal(rx->local_gid, f->path.local_gid, GID_BYTES);
	assert_memory_equal(rx->remote_gid, f->path.remote_gid, GID_BYTES);
	assert_int_equal(rx->src_port, f->path.src_port);
	assert_int_equal(rx->traffic_class, f->path.traffic_class);
	assert_int_equal(rx->hop_limit, f->path.hop_limit);
	assert_int_equal(rx->len, HDR_BYTES + payload_bytes + ICRC_BYTES);
	assert_int_equal(rx->bytes[0] | rx->bytes[1] << 8, i);
	for (uint16_t at = 0; at < payload_bytes; at++)
		assert_int_equal(rx->bytes[HDR_BYTES + at], (uint8_t)(i + at));
	assert_int_equal(icrc_check(&f->flow, &f->solver, rx->bytes, rx->len, &ip_id), ICRC_RIGHT);
	f->had_burst |= ip_id != 0;
}

static void exchange(struct fixture *f, const uint16_t *lengths)
{
	static struct link_tx tx[PACKETS];
	static struct iovec iov[PACKETS];
	static uint8_t payloads[PACKETS][4096];
	int sent = 0, received = 0;

	for (uint16_t i = 0; i < PACKETS; i++)
		make(f, &tx[i], &iov[i], payloads[i], i, lengths[i]);
	while (received < PACKETS) {
		struct pollfd pollfd = {.fd = link_fd(f->link), .events = POLLIN};
		struct link_rx rx[32];
		int n;

		if (sent < PACKETS)
			sent += link_send(f->link, tx + sent, PACKETS - sent);
		assert_int_equal(poll(&pollfd, 1, WAIT_MS), 1);
		while ((n = link_recv(f->link, rx, 32)) > 0) {
			for (int i = 0; i < n; i++, received++)
				check(f, &rx[i], (uint16_t)received, lengths[received]);
		}
	}
}

static void exchange_all_lengths(struct fixture *f)
{
	uint16_t lengths[PACKETS];

	for (int i = 0; i < PACKETS; i++)
		lengths[i] = 1024;
	exchange(f, lengths);
	srandom(11);
	for (int i = 0; i < PACKETS; i++)
		lengths[i] = (uint16_t)(random() % 3 ? 4096 : 4 * (random() % 1025));
	exchange(f, lengths);
}

static void link_send_ipv4_datagram_arrives(void **state)
{
	struct fixture *f = *state;

	speak_over(f, ipv4_lo);
	exchange_all_lengths(f);
	assert_true(f->had_burst);
	link_path_close(f->link, &f->path);
}

/* A kernel without IPv6, or with IPv6 disabled. */
static void link_path_open_without_ipv6_uses_ipv4(void **state)
{
	struct fixture *f = *state;
	struct link_path ipv6 = {.remote_qpn = 0x8001};

	memcpy(ipv6.local_gid, ipv6_lo, GID_BYTES);
	memcpy(ipv6.remote_gid, ipv6_lo, GID_BYTES);
	assert_int_equal(link_path_open(f->link, &ipv6), -EAFNOSUPPORT);
	link_send_ipv4_datagram_arrives(state);
}

static void link_send_ipv6_datagram_arrives(void **state)
{
	struct fixture *f = *state;

	speak_over(f, ipv6_lo);
	exchange_all_lengths(f);
	link_path_close(f->link, &f->path);
}

static void send_three(struct fixture *f)
{
	uint8_t payload[8];
	struct link_tx tx;
	struct iovec iov;

	for (uint16_t i = 0; i < 3; i++) {
		make(f, &tx, &iov, payload, i, sizeof(payload));
		assert_int_equal(link_send(f->link, &tx, 1), 1);
	}
}

/* A thread that served a completion channel returns to the application after one call. */
static void link_recv_after_sleep_returns_all_datagrams(void **state)
{
	struct fixture *f = *state;
	struct link_rx rx[8];

	speak_over(f, ipv4_lo);
	assert_false(link_sleep(f->link, true));
	assert_int_equal(link_recv(f->link, rx, 8), 0);
	send_three(f);
	assert_int_equal(link_recv(f->link, rx, 8), 3);
	/* A polling thread receives one first. */
	assert_false(link_sleep(f->link, false));
	assert_int_equal(link_recv(f->link, rx, 8), 0);
	send_three(f);
	assert_int_equal(link_recv(f->link, rx, 8), 1);
	assert_int_equal(link_recv(f->link, rx, 8), 2);
	link_path_close(f->link, &f->path);
}

/* Linux's rxe sends IPv6 without a UDP checksum, which a socket must be set to accept. */
static void link_recv_ipv6_without_checksum_arrives(void **state)
{
	struct fixture *f = *state;
	struct sockaddr_in6 to = {.sin6_family = AF_INET6, .sin6_port = htons(PACKET_UDP_PORT)};
	struct pollfd pollfd = {.fd = link_fd(f->link), .events = POLLIN};
	static const uint8_t bytes[20];
	struct link_rx rx;
	int one = 1;
	int fd = socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	to.sin6_addr = in6addr_loopback;
	assert_int_equal(setsockopt(fd, IPPROTO_UDP, UDP_NO_CHECK6_TX, &one, sizeof(one)), 0);
	assert_int_equal(sendto(fd, bytes, sizeof(bytes), 0, (struct sockaddr *)&to, sizeof(to)),
			 sizeof(bytes));
	close(fd);
	assert_int_equal(poll(&pollfd, 1, WAIT_MS), 1);
	assert_int_equal(link_recv(f->link, &rx, 1), 1);
	assert_int_equal(rx.len, sizeof(bytes));
}

static void link_path_open_source_port_is_constant(void **state)
{
	struct fixture *f = *state;
	struct link_path same = {.remote_qpn = 0x8002}, other = {.remote_qpn = 0x10001};

	speak_over(f, ipv4_lo);
	memcpy(same.remote_gid, ipv4_lo, GID_BYTES);
	memcpy(other.remote_gid, ipv4_lo, GID_BYTES);
	assert_int_equal(link_path_open(f->link, &same), 0);
	assert_int_equal(link_path_open(f->link, &other), 0);
	assert_int_equal(same.src_port, f->path.src_port);
	assert_int_not_equal(other.src_port, f->path.src_port);
	assert_true(other.src_port >= 0xc000);
	link_path_close(f->link, &same);
	link_path_close(f->link, &other);
	link_path_close(f->link, &f->path);
}

/*
 * An unbound port: a send that the kernel rejects, and a path that was never opened, count as lost.
 */
static void link_send_rejected_datagram_counts_as_sent(void **state)
{
	struct fixture *f = *state;
	struct link_tx tx;
	struct iovec iov;
	uint8_t payload[8];
	struct link_rx rx;

	speak_over(f, ipv4_lo);
	make(f, &tx, &iov, payload, 0, 8);
	f->path.remote_gid[12] = 192;
	assert_int_equal(link_send(f->link, &tx, 1), 1);
	f->path.remote_gid[12] = 127;
	link_path_close(f->link, &f->path);
	assert_int_equal(link_send(f->link, &tx, 1), 1);
	assert_int_equal(link_recv(f->link, &rx, 1), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(link_send_ipv4_datagram_arrives, setup, teardown),
		cmocka_unit_test_setup_teardown(link_path_open_without_ipv6_uses_ipv4,
						setup_ipv4_alone, teardown),
		cmocka_unit_test_setup_teardown(link_send_ipv6_datagram_arrives, setup, teardown),
		cmocka_unit_test_setup_teardown(link_recv_after_sleep_returns_all_datagrams, setup,
						teardown),
		cmocka_unit_test_setup_teardown(link_recv_ipv6_without_checksum_arrives, setup,
						teardown),
		cmocka_unit_test_setup_teardown(link_path_open_source_port_is_constant, setup,
						teardown),
		cmocka_unit_test_setup_teardown(link_send_rejected_datagram_counts_as_sent, setup,
						teardown),
	};

	return cmocka_run_group_tests_name("udp", tests, group_setup, NULL);
}
