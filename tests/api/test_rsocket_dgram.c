/* SPDX-License-Identifier: BSD-2-Clause */
#include "rsocket_fixture.h"

#include <pthread.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

/*
 * Datagram rsockets: complete datagrams with their source addresses, first over UDP, then over
 * queue pairs.
 */

#define MOST4 2032
#define MOST6 2020

struct socks {
	int a;
	int b;
	struct sockaddr_storage addr_a;
	struct sockaddr_storage addr_b;
	socklen_t bytes;
};

static int dgram_at(const char *text, struct sockaddr_storage *addr)
{
	socklen_t bytes = sizeof(*addr);
	int fd;

	*addr = rs_addr(text, 0);
	fd = rsocket(addr->ss_family, SOCK_DGRAM, 0);
	if (fd < 0)
		fail_msg("no rsocket: %s", strerror(errno));
	assert_int_equal(rbind(fd, rs_sa(addr), rs_addr_bytes(addr)), 0);
	assert_int_equal(rgetsockname(fd, rs_sa(addr), &bytes), 0);
	return fd;
}

static void socks_open(struct socks *socks, const char *text)
{
	socks->a = dgram_at(text, &socks->addr_a);
	socks->b = dgram_at(text, &socks->addr_b);
	socks->bytes = rs_addr_bytes(&socks->addr_a);
}

static void socks_close(struct socks *socks)
{
	rs_close(socks->a);
	rs_close(socks->b);
}

/* One datagram from a to b, and a reply, so that both learn each other's queue pairs. */
static void exchange(struct socks *socks, size_t bytes, uint8_t seed)
{
	uint8_t out[MOST4], in[MOST4 + 1];
	struct sockaddr_storage from;
	socklen_t from_bytes = sizeof(from);

	pattern_fill(out, bytes, seed);
	assert_int_equal(rsendto(socks->a, out, bytes, 0, rs_sa(&socks->addr_b), socks->bytes),
			 bytes);
	assert_true(rs_await(socks->b, POLLIN) & POLLIN);
	assert_int_equal(rrecvfrom(socks->b, in, sizeof(in), 0, rs_sa(&from), &from_bytes), bytes);
	assert_true(pattern_holds(in, bytes, seed));
	assert_int_equal(from_bytes, socks->bytes);
	assert_memory_equal(&from, &socks->addr_a, socks->bytes);
	assert_int_equal(rsendto(socks->b, in, bytes, 0, rs_sa(&from), from_bytes), bytes);
	assert_true(rs_await(socks->a, POLLIN) & POLLIN);
	assert_int_equal(rrecv(socks->a, in, sizeof(in), 0), bytes);
	assert_true(pattern_holds(in, bytes, seed));
}

static void rsendto_datagrams_arrive_whole(void **state)
{
	static const char *const texts[] = {"127.0.0.1", "::1"};
	struct socks socks;

	(void)state;
	for (size_t i = 0; i < 2; i++) {
		size_t most = i ? MOST6 : MOST4;

		socks_open(&socks, texts[i]);
		for (size_t bytes = 0; bytes <= most; bytes += 127)
			exchange(&socks, bytes, (uint8_t)bytes);
		exchange(&socks, most, 1);
		socks_close(&socks);
	}
}

/* The number of UDP datagrams that this network namespace has sent. */
static unsigned long udp_datagrams(void)
{
	unsigned long in, no_ports, errors, out = 0;
	FILE *file = fopen("/proc/self/net/snmp", "r");
	char line[256];

	assert_non_null(file);
	while (fgets(line, sizeof(line), file))
		if (sscanf(line, "Udp: %lu %lu %lu %lu", &in, &no_ports, &errors, &out) == 4)
			break;
	fclose(file);
	return out;
}

/* After the first datagrams all others use queue pairs. */
static void rsendto_later_datagrams_use_queue_pairs(void **state)
{
	struct socks socks;
	unsigned long before;
	int tries = 0;

	(void)state;
	socks_open(&socks, "127.0.0.1");
	before = udp_datagrams();
	exchange(&socks, 100, 1);
	assert_true(udp_datagrams() > before);
	do {
		assert_true(tries++ < PATIENCE_MS);
		poll(NULL, 0, 1);
		before = udp_datagrams();
		exchange(&socks, 100, 1);
	} while (udp_datagrams() > before);
	socks_close(&socks);
}

static void rconnect_dgram_restricts_peer(void **state)
{
	struct sockaddr_storage addr = {.ss_family = AF_UNSPEC};
	struct socks socks;
	socklen_t bytes = sizeof(addr);
	struct sockaddr_storage stranger_addr;
	int stranger = dgram_at("127.0.0.1", &stranger_addr);
	char buffer[8];

	(void)state;
	socks_open(&socks, "127.0.0.1");
	assert_minus1_errno(rsend(socks.a, "x", 1, 0), EDESTADDRREQ);
	assert_minus1_errno(rgetpeername(socks.a, rs_sa(&addr), &bytes), ENOTCONN);
	assert_int_equal(rconnect(socks.a, rs_sa(&socks.addr_b), socks.bytes), 0);
	bytes = sizeof(addr);
	assert_int_equal(rgetpeername(socks.a, rs_sa(&addr), &bytes), 0);
	assert_memory_equal(&addr, &socks.addr_b, bytes);
	assert_int_equal(rsend(socks.a, "hello", 5, 0), 5);
	assert_int_equal(rwrite(socks.a, "again", 5), 5);
	for (int i = 0; i < 2; i++) {
		assert_true(rs_await(socks.b, POLLIN) & POLLIN);
		assert_int_equal(rread(socks.b, buffer, sizeof(buffer)), 5);
	}
	/* A connected rsocket drops datagrams of other sources. */
	assert_int_equal(rsendto(stranger, "boo", 3, 0, rs_sa(&socks.addr_a), socks.bytes), 3);
	assert_int_equal(rsendto(socks.b, "good", 4, 0, rs_sa(&socks.addr_a), socks.bytes), 4);
	assert_true(rs_await(socks.a, POLLIN) & POLLIN);
	assert_int_equal(rrecv(socks.a, buffer, sizeof(buffer), 0), 4);
	assert_memory_equal(buffer, "good", 4);
	/* After disconnecting it receives from all sources again. */
	addr = (struct sockaddr_storage){.ss_family = AF_UNSPEC};
	assert_int_equal(rconnect(socks.a, rs_sa(&addr), sizeof(addr)), 0);
	assert_minus1_errno(rsend(socks.a, "x", 1, 0), EDESTADDRREQ);
	assert_int_equal(rsendto(socks.a, "you", 3, 0, rs_sa(&stranger_addr), socks.bytes), 3);
	bytes = sizeof(addr);
	assert_true(rs_await(stranger, POLLIN) & POLLIN);
	assert_int_equal(rrecvfrom(stranger, buffer, sizeof(buffer), 0, rs_sa(&addr), &bytes), 3);
	assert_int_equal(rsendto(stranger, "boo", 3, 0, rs_sa(&addr), bytes), 3);
	assert_true(rs_await(socks.a, POLLIN) & POLLIN);
	assert_int_equal(rrecv(socks.a, buffer, sizeof(buffer), 0), 3);
	rs_close(stranger);
	socks_close(&socks);
}

/* An unbound rsocket gets a port with its first datagram. */
static void rsendto_unbound_assigns_port(void **state)
{
	struct sockaddr_storage addr, from;
	socklen_t bytes = sizeof(from);
	int server = dgram_at("127.0.0.1", &addr);
	int client = rsocket(AF_INET, SOCK_DGRAM, IPPROTO_UDP);
	char buffer[8];

	(void)state;
	assert_int_equal(rsendto(client, "hi", 2, 0, rs_sa(&addr), rs_addr_bytes(&addr)), 2);
	assert_true(rs_await(server, POLLIN) & POLLIN);
	assert_int_equal(rrecvfrom(server, buffer, sizeof(buffer), 0, rs_sa(&from), &bytes), 2);
	assert_int_not_equal(((struct sockaddr_in *)&from)->sin_port, 0);
	assert_int_equal(rsendto(server, "ho", 2, 0, rs_sa(&from), bytes), 2);
	assert_true(rs_await(client, POLLIN) & POLLIN);
	rs_close(client);
	rs_close(server);
}

static void rrecv_dgram_longer_than_buffer_is_truncated(void **state)
{
	struct socks socks;
	uint8_t bytes[MOST4 + 1] = {0}, buffer[50];
	struct iovec iov = {buffer, sizeof(buffer)};
	struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};

	(void)state;
	socks_open(&socks, "127.0.0.1");
	assert_minus1_errno(
		rsendto(socks.a, bytes, MOST4 + 1, 0, rs_sa(&socks.addr_b), socks.bytes), EMSGSIZE);
	for (int i = 0; i < 3; i++)
		assert_int_equal(rsendto(socks.a, bytes, 100, 0, rs_sa(&socks.addr_b), socks.bytes),
				 100);
	assert_true(rs_await(socks.b, POLLIN) & POLLIN);
	assert_int_equal(rrecv(socks.b, buffer, 50, MSG_PEEK), 50);
	assert_int_equal(rrecv(socks.b, buffer, 50, 0), 50);
	assert_true(rs_await(socks.b, POLLIN) & POLLIN);
	assert_int_equal(rrecv(socks.b, buffer, 50, MSG_TRUNC), 100);
	assert_true(rs_await(socks.b, POLLIN) & POLLIN);
	assert_int_equal(rrecvmsg(socks.b, &msg, 0), 50);
	assert_int_equal(msg.msg_flags, MSG_TRUNC);
	assert_minus1_errno(rrecv(socks.b, buffer, 50, MSG_DONTWAIT), EAGAIN);
	socks_close(&socks);
}

static void rlisten_dgram_fails(void **state)
{
	struct socks socks;
	char byte;
	int value = 1;

	(void)state;
	socks_open(&socks, "127.0.0.1");
	assert_minus1_errno(rlisten(socks.a, 1), EOPNOTSUPP);
	assert_minus1_errno(raccept(socks.a, NULL, NULL), EOPNOTSUPP);
	assert_minus1_errno(rrecv(socks.a, &byte, 1, MSG_OOB), EOPNOTSUPP);
	assert_minus1_errno(rsend(socks.a, &byte, 1, MSG_OOB), EOPNOTSUPP);
	assert_minus1_errno(rshutdown(socks.a, SHUT_RDWR), ENOTCONN);
	assert_minus1_errno(rbind(socks.b, rs_sa(&socks.addr_a), socks.bytes), EINVAL);
	assert_minus1_errno(rsetsockopt(socks.a, SOL_RDMA, RDMA_ROUTE, &value, sizeof(value)),
			    ENOTSUP);
	socks_close(&socks);
}

static void rsendto_unreachable_address_fails(void **state)
{
	struct sockaddr_storage addr, six = rs_addr("::1", 7);
	int fd = dgram_at("127.0.0.1", &addr);

	(void)state;
	assert_minus1_errno(rsendto(fd, "x", 1, 0, rs_sa(&six), sizeof(six)), EAFNOSUPPORT);
	assert_minus1_errno(rsendto(fd, "x", 1, 0, rs_sa(&addr), 3), EINVAL);
	assert_minus1_errno(rconnect(fd, rs_sa(&addr), 1), EINVAL);
	rs_close(fd);
}

static void rshutdown_dgram_ends_directions(void **state)
{
	struct socks socks;
	char byte;

	(void)state;
	socks_open(&socks, "127.0.0.1");
	assert_int_equal(rconnect(socks.a, rs_sa(&socks.addr_b), socks.bytes), 0);
	assert_int_equal(rshutdown(socks.a, SHUT_WR), 0);
	assert_minus1_errno(rsend(socks.a, "x", 1, 0), EPIPE);
	assert_int_equal(rshutdown(socks.a, SHUT_RD), 0);
	assert_int_equal(rrecv(socks.a, &byte, 1, 0), 0);
	socks_close(&socks);
}

static void rsetsockopt_dgram_options_are_those_of_udp(void **state)
{
	struct timeval time = {.tv_usec = 2000};
	struct socks socks;
	socklen_t bytes = sizeof(int);
	char byte;
	int value = 64;

	(void)state;
	socks_open(&socks, "127.0.0.1");
	assert_int_equal(rs_get(socks.a, SOL_SOCKET, SO_TYPE), SOCK_DGRAM);
	assert_int_equal(rs_get(socks.a, SOL_SOCKET, SO_PROTOCOL), IPPROTO_UDP);
	rs_set(socks.a, SOL_SOCKET, SO_BROADCAST, 1);
	assert_int_equal(rs_get(socks.a, SOL_SOCKET, SO_BROADCAST), 1);
	rs_set(socks.a, SOL_RDMA, RDMA_RQSIZE, 64);
	assert_int_equal(rs_get(socks.a, SOL_RDMA, RDMA_RQSIZE), 64);
	assert_int_equal(rsetsockopt(socks.a, SOL_SOCKET, SO_RCVTIMEO, &time, sizeof(time)), 0);
	assert_minus1_errno(rrecv(socks.a, &byte, 1, 0), EAGAIN);
	exchange(&socks, 10, 1);
	assert_minus1_errno(rsetsockopt(socks.a, SOL_RDMA, RDMA_RQSIZE, &value, sizeof(value)),
			    EINVAL);
	assert_minus1_errno(rsetsockopt(socks.a, SOL_SOCKET, 9999, &value, sizeof(value)),
			    ENOPROTOOPT);
	/* UDP rsockets do not support the options of TCP. */
	assert_minus1_errno(rgetsockopt(socks.a, IPPROTO_TCP, TCP_NODELAY, &value, &bytes),
			    ENOTSUP);
	socks_close(&socks);
}

/* A UDP packet without the header of rsockets is not delivered to the application. */
static void rrecv_dgram_udp_without_header_is_dropped(void **state)
{
	static const uint8_t nonsense[3][32] = {
		{0}, {0x55, 0x55, 0x55, 0x55, 6, 0, 28}, {0x55, 0x55, 0x55, 0x55, 4, 3, 16}};
	struct socks socks;
	uint8_t buffer[64];
	int udp = socket(AF_INET, SOCK_DGRAM, 0);

	(void)state;
	socks_open(&socks, "127.0.0.1");
	for (int i = 0; i < 3; i++)
		assert_true(sendto(udp, nonsense[i], (size_t)(i ? 32 : 5), 0, rs_sa(&socks.addr_b),
				   socks.bytes) > 0);
	exchange(&socks, 20, 1);
	assert_minus1_errno(rrecv(socks.b, buffer, sizeof(buffer), MSG_DONTWAIT), EAGAIN);
	close(udp);
	socks_close(&socks);
}

/* An rsocket that is bound again has another queue pair; its peer detects that without a call. */
static void rsendto_peer_bound_again_is_reached(void **state)
{
	struct socks socks;
	uint8_t byte = 0;
	bool is_there = false;

	(void)state;
	socks_open(&socks, "127.0.0.1");
	for (int i = 0; i < 20; i++)
		exchange(&socks, 10, 1);
	rs_close(socks.b);
	socks.b = rsocket(AF_INET, SOCK_DGRAM, 0);
	assert_int_equal(rbind(socks.b, rs_sa(&socks.addr_b), socks.bytes), 0);
	for (int i = 0; i < 1000 && !is_there; i++) {
		/* The port may be unbound for a moment, and UDP then reports an error. */
		if (rsendto(socks.a, &byte, 1, 0, rs_sa(&socks.addr_b), socks.bytes) < 0)
			assert_int_equal(errno, ECONNREFUSED);
		poll(NULL, 0, 5);
		is_there = rrecv(socks.b, &byte, 1, MSG_DONTWAIT) == 1;
	}
	assert_true(is_there);
	socks_close(&socks);
}

static void *receive_all(void *arg)
{
	uint8_t buffer[64];
	int fd = *(int *)arg;
	intptr_t count = 0;

	while (rrecv(fd, buffer, sizeof(buffer), 0) > 0 && buffer[0] != 'e')
		count++;
	return (void *)count;
}

/* Datagrams may be dropped, but the sender never blocks, and the last datagram arrives. */
static void rsendto_without_pause_never_blocks(void **state)
{
	struct socks socks;
	pthread_t thread;
	void *count;

	(void)state;
	socks_open(&socks, "127.0.0.1");
	exchange(&socks, 10, 1);
	assert_int_equal(pthread_create(&thread, NULL, receive_all, &socks.b), 0);
	for (int i = 0; i < 20000; i++)
		assert_int_equal(rsendto(socks.a, "data", 4, 0, rs_sa(&socks.addr_b), socks.bytes),
				 4);
	while (pthread_tryjoin_np(thread, &count)) {
		assert_int_equal(rsendto(socks.a, "end", 3, 0, rs_sa(&socks.addr_b), socks.bytes),
				 3);
		poll(NULL, 0, 1);
	}
	assert_true((intptr_t)count > 0);
	socks_close(&socks);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rsendto_datagrams_arrive_whole),
		cmocka_unit_test(rsendto_later_datagrams_use_queue_pairs),
		cmocka_unit_test(rconnect_dgram_restricts_peer),
		cmocka_unit_test(rsendto_unbound_assigns_port),
		cmocka_unit_test(rrecv_dgram_longer_than_buffer_is_truncated),
		cmocka_unit_test(rlisten_dgram_fails),
		cmocka_unit_test(rsendto_unreachable_address_fails),
		cmocka_unit_test(rshutdown_dgram_ends_directions),
		cmocka_unit_test(rsetsockopt_dgram_options_are_those_of_udp),
		cmocka_unit_test(rrecv_dgram_udp_without_header_is_dropped),
		cmocka_unit_test(rsendto_peer_bound_again_is_reached),
		cmocka_unit_test(rsendto_without_pause_never_blocks),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
