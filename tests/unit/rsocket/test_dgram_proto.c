/* SPDX-License-Identifier: BSD-2-Clause */

/* The headers of datagrams in the format of rdma-core's rsockets, and invalid headers. */

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "rsocket/addr.h"
#include "rsocket/dgram_proto.h"

static struct sockaddr_storage ipv4(void)
{
	struct sockaddr_in in = {.sin_family = AF_INET, .sin_port = htons(0x1234)};
	struct sockaddr_storage addr = {0};

	inet_pton(AF_INET, "10.1.2.3", &in.sin_addr);
	memcpy(&addr, &in, sizeof(in));
	return addr;
}

static struct sockaddr_storage ipv6(void)
{
	struct sockaddr_in6 in6 = {.sin6_family = AF_INET6, .sin6_port = htons(0x1234)};
	struct sockaddr_storage addr = {0};

	inet_pton(AF_INET6, "fd00::1", &in6.sin6_addr);
	memcpy(&addr, &in6, sizeof(in6));
	return addr;
}

static void dgram_udp_decode_reverses_encode(void **state)
{
	static const uint8_t wanted[] = {0x55, 0x55, 0x55, 0x55, 4,  7, 16, 0,
					 0,    0x12, 0x34, 0x56, 10, 1, 2,  3};
	struct sockaddr_storage addr = ipv4();
	uint8_t bytes[DGRAM_UDP_BYTES_MAX];
	struct dgram_udp_header header;

	(void)state;
	assert_int_equal(dgram_udp_encode(bytes, DGRAM_OP_CONTROL, 0xff123456, &addr), 16);
	assert_memory_equal(bytes, wanted, sizeof(wanted));
	assert_int_equal(dgram_udp_decode(bytes, 16, AF_INET, &header), 0);
	assert_int_equal(header.op, DGRAM_OP_CONTROL);
	assert_int_equal(header.qpn, 0x123456);
	assert_int_equal(header.bytes, 16);
	addr = ipv6();
	assert_int_equal(dgram_udp_encode(bytes, DGRAM_OP_DATA, 1, &addr), 28);
	assert_int_equal(bytes[4], 6);
	assert_int_equal(bytes[6], 28);
	assert_int_equal(dgram_udp_decode(bytes, 28, AF_INET6, &header), 0);
	assert_int_equal(header.op, DGRAM_OP_DATA);
}

/* Every byte of a header is checked, except the sender's address. */
static void dgram_udp_decode_invalid_header_fails(void **state)
{
	static const size_t looked_at[] = {0, 1, 2, 3, 4, 5, 6};
	struct sockaddr_storage addr = ipv4();
	uint8_t bytes[DGRAM_UDP_BYTES_MAX];
	struct dgram_udp_header header;

	(void)state;
	dgram_udp_encode(bytes, DGRAM_OP_DATA, 1, &addr);
	assert_int_equal(dgram_udp_decode(bytes, 15, AF_INET, &header), -EPROTO);
	assert_int_equal(dgram_udp_decode(bytes, 0, AF_INET, &header), -EPROTO);
	assert_int_equal(dgram_udp_decode(bytes, sizeof(bytes), AF_INET6, &header), -EPROTO);
	for (size_t i = 0; i < sizeof(looked_at) / sizeof(looked_at[0]); i++) {
		bytes[looked_at[i]] ^= 0x40;
		assert_int_equal(dgram_udp_decode(bytes, 16, AF_INET, &header), -EPROTO);
		bytes[looked_at[i]] ^= 0x40;
	}
	assert_int_equal(dgram_udp_decode(bytes, 16, AF_INET, &header), 0);
}

static void dgram_ud_decode_reverses_encode(void **state)
{
	static const uint8_t wanted[] = {4, 8, 0x12, 0x34, 10, 1, 2, 3};
	struct sockaddr_storage addr = ipv4(), from;
	uint8_t bytes[DGRAM_UD_BYTES_MAX];
	size_t header_bytes;

	(void)state;
	assert_int_equal(dgram_ud_encode(bytes, &addr), 8);
	assert_memory_equal(bytes, wanted, sizeof(wanted));
	assert_int_equal(dgram_ud_decode(bytes, 8, &from, &header_bytes), 0);
	assert_int_equal(header_bytes, 8);
	assert_true(addr_is_equal(&from, &addr));
	addr = ipv6();
	assert_int_equal(dgram_ud_encode(bytes, &addr), 24);
	assert_int_equal(dgram_ud_decode(bytes, 24, &from, &header_bytes), 0);
	assert_int_equal(header_bytes, 24);
	assert_true(addr_is_equal(&from, &addr));
}

static void dgram_ud_decode_invalid_header_fails(void **state)
{
	uint8_t bytes[DGRAM_UD_BYTES_MAX] = {0};
	struct sockaddr_storage from;
	size_t header_bytes;

	(void)state;
	for (unsigned version = 0; version < 8; version++) {
		for (unsigned length = 0; length < 256; length++) {
			bool is_good = (version == 4 && length == 8) ||
				       (version == 6 && length == 24);

			bytes[0] = (uint8_t)version;
			bytes[1] = (uint8_t)length;
			assert_int_equal(dgram_ud_decode(bytes, sizeof(bytes), &from,
							 &header_bytes),
					 is_good ? 0 : -EPROTO);
		}
	}
	bytes[0] = 6;
	bytes[1] = 24;
	for (size_t short_by = 1; short_by <= sizeof(bytes); short_by++)
		assert_int_equal(dgram_ud_decode(bytes, sizeof(bytes) - short_by, &from,
						 &header_bytes),
				 -EPROTO);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(dgram_udp_decode_reverses_encode),
		cmocka_unit_test(dgram_udp_decode_invalid_header_fails),
		cmocka_unit_test(dgram_ud_decode_reverses_encode),
		cmocka_unit_test(dgram_ud_decode_invalid_header_fails),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
