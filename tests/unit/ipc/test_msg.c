/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/fdpass.h"
#include "ipc/msg.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static union {
	struct ipc_hdr hdr;
	uint8_t bytes[IPC_MSG_MAX + 1];
} msg;

/* Makes a valid message of that type. */
static void make(uint32_t type, uint32_t len, uint32_t seq)
{
	memset(&msg, 0, sizeof(msg));
	msg.hdr.type = (uint16_t)type;
	msg.hdr.seq = seq;
	msg.hdr.len = len;
}

static void ipc_type_info_every_type_is_described(void **state)
{
	(void)state;
	for (uint32_t type = 1; type < IPC_TYPE_COUNT; type++) {
		const struct ipc_type_info *info = ipc_type_info(type);

		assert_non_null(info);
		assert_true(info->request_bytes > 0 || info->push_bytes > 0);
		assert_true(!info->request_bytes || info->roles);
		assert_true(!info->request_bytes || info->request_bytes >= sizeof(struct ipc_hdr));
		assert_true(!info->request_bytes || info->reply_bytes >= sizeof(struct ipc_hdr));
		assert_true(info->request_bytes <= IPC_MSG_MAX);
		assert_true(info->reply_bytes <= IPC_MSG_MAX);
		assert_true(info->push_bytes <= IPC_MSG_MAX);
		assert_true(info->request_fds <= IPC_FDS_MAX);
		assert_true(info->push_fds_max <= IPC_FDS_MAX);
	}
	assert_null(ipc_type_info(0));
	assert_null(ipc_type_info(IPC_TYPE_COUNT));
	assert_null(ipc_type_info(UINT32_MAX));
}

/* Every error of one byte of the header, a length or a count, for a request of every type. */
static void check_request(uint32_t type, const struct ipc_type_info *info)
{
	uint32_t len = info->request_bytes;
	int fds = info->request_fds;

	make(type, len, 7);
	assert_int_equal(ipc_request_check(&msg, len, fds), 0);

	assert_int_equal(ipc_request_check(&msg, len, fds + 1), -EPROTO);
	assert_int_equal(ipc_request_check(&msg, len, fds - 1), -EPROTO);
	assert_int_equal(ipc_request_check(&msg, len + 1, fds), -EPROTO);
	assert_int_equal(ipc_request_check(&msg, len - 1, fds), -EPROTO);
	make(type, len + 1, 7);
	assert_int_equal(ipc_request_check(&msg, len, fds), -EPROTO);
	assert_int_equal(ipc_request_check(&msg, len + 1, fds), -EPROTO);
	make(type, len - 1, 7);
	assert_int_equal(ipc_request_check(&msg, len - 1, fds), -EPROTO);
	make(type, len, 7);
	msg.hdr.flags = IPC_UNANSWERED;
	assert_int_equal(ipc_request_check(&msg, len, fds), info->may_be_unanswered ? 0 : -EPROTO);
	msg.hdr.flags = IPC_UNANSWERED << 1;
	assert_int_equal(ipc_request_check(&msg, len, fds), -EPROTO);
	msg.hdr.flags |= IPC_UNANSWERED;
	assert_int_equal(ipc_request_check(&msg, len, fds), -EPROTO);
	make(type, len, 7);
	msg.hdr.status = -1;
	assert_int_equal(ipc_request_check(&msg, len, fds), -EPROTO);
	for (size_t i = 0; i < IPC_ZERO_FIELDS; i++) {
		for (uint32_t at = 0; at < info->zero[i].len; at++) {
			make(type, len, 7);
			msg.bytes[info->zero[i].at + at] = 0x80;
			assert_int_equal(ipc_request_check(&msg, len, fds), -EPROTO);
		}
	}
}

static void ipc_request_check_wrong_length_or_content_fails(void **state)
{
	(void)state;
	for (uint32_t type = 1; type < IPC_TYPE_COUNT; type++) {
		const struct ipc_type_info *info = ipc_type_info(type);

		if (info->request_bytes) {
			check_request(type, info);
			continue;
		}
		/* A type that is only pushed is not a valid request, at any size. */
		make(type, info->push_bytes, 0);
		assert_int_equal(ipc_request_check(&msg, info->push_bytes, 0), -EPROTO);
	}
}

static void ipc_push_check_wrong_length_fails(void **state)
{
	(void)state;
	for (uint32_t type = 1; type < IPC_TYPE_COUNT; type++) {
		const struct ipc_type_info *info = ipc_type_info(type);
		uint32_t len = info->push_bytes;

		if (!len) {
			make(type, info->request_bytes, 0);
			assert_int_equal(ipc_push_check(&msg, info->request_bytes, 0), -EPROTO);
			continue;
		}
		make(type, len, 0);
		for (int fds = 0; fds <= IPC_FDS_MAX; fds++)
			assert_int_equal(ipc_push_check(&msg, len, fds),
					 fds >= info->push_fds_min && fds <= info->push_fds_max ?
						 0 :
						 -EPROTO);
		assert_int_equal(ipc_push_check(&msg, len - 1, info->push_fds_min), -EPROTO);
		make(type, len, 1);
		assert_int_equal(ipc_push_check(&msg, len, info->push_fds_min), -EPROTO);
		make(type, len, 0);
		msg.hdr.flags = IPC_UNANSWERED;
		assert_int_equal(ipc_push_check(&msg, len, info->push_fds_min), -EPROTO);
		make(type, len, 0);
		msg.hdr.status = -1;
		assert_int_equal(ipc_push_check(&msg, len, info->push_fds_min), -EPROTO);
	}
}

static void ipc_reply_check_wrong_length_fails(void **state)
{
	const struct ipc_hdr req = {.type = IPC_DEVICE_GET, .seq = 9};
	uint32_t len = sizeof(struct ipc_device_reply);

	(void)state;
	make(IPC_DEVICE_GET, len, 9);
	assert_int_equal(ipc_reply_check(&req, &msg, len, len, 0), 0);
	assert_int_equal(ipc_reply_check(&req, &msg, len - 1, len, 0), -EPROTO);
	msg.hdr.status = -ENOENT;
	assert_int_equal(ipc_reply_check(&req, &msg, len, len, 0), 0);
	msg.hdr.status = 1;
	assert_int_equal(ipc_reply_check(&req, &msg, len, len, 0), -EPROTO);
	make(IPC_DEVICE_GET, len, 9);
	msg.hdr.flags = IPC_UNANSWERED;
	assert_int_equal(ipc_reply_check(&req, &msg, len, len, 0), -EPROTO);
	make(IPC_DEVICE_GET, len, 8);
	assert_int_equal(ipc_reply_check(&req, &msg, len, len, 0), -EPROTO);
	make(IPC_CONNECT_PEER, len, 9);
	assert_int_equal(ipc_reply_check(&req, &msg, len, len, 0), -EPROTO);
	make(IPC_TYPE_COUNT, len, 9);
	assert_int_equal(ipc_reply_check(&req, &msg, len, len, 0), -EPROTO);
	/* The header alone is sufficient for an error reply, not for a success. */
	make(IPC_DEVICE_GET, sizeof(struct ipc_hdr), 9);
	assert_int_equal(ipc_reply_check(&req, &msg, sizeof(struct ipc_hdr), len, 0), -EPROTO);
	msg.hdr.status = -ENOENT;
	assert_int_equal(ipc_reply_check(&req, &msg, sizeof(struct ipc_hdr), len, 0), 0);
}

static void ipc_reply_check_wrong_descriptor_count_fails(void **state)
{
	const struct ipc_hdr req = {.type = IPC_SEGMENT, .seq = 9};
	uint32_t len = sizeof(struct ipc_reply);

	(void)state;
	make(IPC_SEGMENT, len, 9);
	assert_int_equal(ipc_reply_check(&req, &msg, len, len, 1), 0);
	assert_int_equal(ipc_reply_check(&req, &msg, len, len, 0), -EPROTO);
	assert_int_equal(ipc_reply_check(&req, &msg, len, len, FDPASS_LOST), 0);
	msg.hdr.status = -EINVAL;
	assert_int_equal(ipc_reply_check(&req, &msg, len, len, 0), 0);
	assert_int_equal(ipc_reply_check(&req, &msg, len, len, 1), -EPROTO);
}

static void ipc_request_check_shorter_than_header_fails(void **state)
{
	const struct ipc_hdr req = {.type = IPC_HELLO, .seq = 1};

	(void)state;
	for (size_t len = 0; len < sizeof(struct ipc_hdr); len++) {
		make(IPC_HELLO, (uint32_t)len, 1);
		assert_int_equal(ipc_request_check(&msg, len, 0), -EPROTO);
		assert_int_equal(ipc_push_check(&msg, len, 0), -EPROTO);
		assert_int_equal(ipc_reply_check(&req, &msg, len, len, 0), -EPROTO);
	}
}

static void ipc_request_check_unknown_type_fails(void **state)
{
	static const uint32_t types[] = {0, IPC_TYPE_COUNT, IPC_TYPE_COUNT + 1, UINT16_MAX};

	(void)state;
	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
		for (uint32_t len = sizeof(struct ipc_hdr); len < 1200; len++) {
			make(types[i], len, 0);
			assert_int_equal(ipc_request_check(&msg, len, 0), -EPROTO);
			assert_int_equal(ipc_push_check(&msg, len, 0), -EPROTO);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ipc_type_info_every_type_is_described),
		cmocka_unit_test(ipc_request_check_wrong_length_or_content_fails),
		cmocka_unit_test(ipc_push_check_wrong_length_fails),
		cmocka_unit_test(ipc_reply_check_wrong_length_fails),
		cmocka_unit_test(ipc_reply_check_wrong_descriptor_count_fails),
		cmocka_unit_test(ipc_request_check_shorter_than_header_fails),
		cmocka_unit_test(ipc_request_check_unknown_type_fails),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
