/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Linux's CM MADs: every field has the value that tshark reports (tests/golden/cm.fields), and
 * building the parsed message gives the same bytes.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "pcap.h"
#include "wire/cm_msg.h"
#include "wire/print.h"

static const char *const captures[] = {
	"cmtime.pcap",	 "rdma_client.pcap", "reject.pcap",  "rping4.pcap",  "rping6.pcap",
	"ucmatose.pcap", "udaddy.pcap",	     "unreach.pcap", "write_R.pcap",
};

static struct pcap_mad mads[PCAP_MADS_MAX];

static void cm_msg_build_captured_mad_is_identical(void **state)
{
	int total = 0;

	(void)state;
	for (size_t i = 0; i < sizeof(captures) / sizeof(captures[0]); i++) {
		int count = pcap_read_mads(captures[i], mads);

		assert_true(count > 0);
		for (int m = 0; m < count; m++) {
			uint8_t again[MAD_BYTES];
			struct cm_msg msg;

			assert_int_equal(cm_msg_parse(&msg, mads[m].bytes, MAD_BYTES), 0);
			cm_msg_build(&msg, again);
			assert_memory_equal(again, mads[m].bytes, MAD_BYTES);
			total++;
		}
	}
	/*
	 * The number of MADs in the captures; without this check a reader that finds none would
	 * pass.
	 */
	assert_int_equal(total, 65);
}

static const struct cm_field *field_named(enum cm_msg_type type, const char *name)
{
	const struct cm_field *fields;
	size_t count;

	fields = cm_msg_fields(type, &count);
	for (size_t i = 0; i < count; i++) {
		if (strcmp(fields[i].name, name) == 0)
			return &fields[i];
	}
	return NULL;
}

static void to_hex(const uint8_t *bytes, size_t len, char *out)
{
	for (size_t i = 0; i < len; i++)
		sprintf(out + 2 * i, "%02x", bytes[i]);
}

/* The IP addressing header before a REQ's private data; tshark shows IPv4 addresses as such. */
static void check_ip(const struct cm_req *req, const char *name, const char *want)
{
	struct cm_ip_hdr ip;
	char text[33] = "";

	assert_int_equal(cm_ip_hdr_parse(&ip, req->private_data), 0);
	if (strcmp(name, "ip.version") == 0) {
		assert_int_equal(ip.ip_version, strtoull(want, NULL, 16));
	} else if (strcmp(name, "ip.src_port") == 0) {
		assert_int_equal(ip.src_port, strtoull(want, NULL, 16));
	} else {
		const uint8_t *addr = strcmp(name, "ip.src") == 0 ? ip.src : ip.dst;
		size_t skip = ip.ip_version == 4 ? 12 : 0;

		to_hex(addr + skip, 16 - skip, text);
		assert_string_equal(text, want + 2 * skip);
	}
}

static void check_field(const struct cm_msg *msg, const char *name, const char *want)
{
	const struct cm_field *field;

	if (strcmp(name, "tid") == 0) {
		assert_int_equal(msg->tid, strtoull(want, NULL, 16));
		return;
	}
	if (strncmp(name, "ip.", 3) == 0) {
		check_ip(&msg->req, name, want);
		return;
	}
	field = field_named(msg->type, name);
	assert_non_null(field);
	if (field->format == CM_FORMAT_GID || field->format == CM_FORMAT_BYTES) {
		char text[2 * MAD_BYTES + 1] = "";

		to_hex((const uint8_t *)&msg->req + field->offset, field->size_bytes, text);
		assert_string_equal(text, want);
	} else {
		assert_int_equal(cm_field_get(field, &msg->req), strtoull(want, NULL, 16));
	}
}

static const uint8_t *mad_of_frame(int count, unsigned frame)
{
	for (int m = 0; m < count; m++) {
		if (mads[m].frame == frame)
			return mads[m].bytes;
	}
	return NULL;
}

static void cm_msg_parse_captured_mad_matches_tshark(void **state)
{
	char line[1024], capture[64], open[64] = "", message[16], name[64], want[512];
	int checked = 0, count = 0;
	unsigned frame;
	FILE *file;

	(void)state;
	file = pcap_open_golden("cm.fields");
	assert_non_null(file);
	while (fgets(line, sizeof(line), file)) {
		const uint8_t *mad;
		struct cm_msg msg;

		assert_int_equal(sscanf(line, "%63s %u %15s %63s %511s", capture, &frame, message,
					name, want),
				 5);
		if (strcmp(capture, open) != 0) {
			count = pcap_read_mads(capture, mads);
			strcpy(open, capture);
		}
		mad = mad_of_frame(count, frame);
		assert_non_null(mad);
		assert_int_equal(cm_msg_parse(&msg, mad, MAD_BYTES), 0);
		assert_string_equal(cm_msg_name(msg.type), message);
		check_field(&msg, name, want);
		checked++;
	}
	fclose(file);
	assert_int_equal(checked, 1058);
}

/*
 * tshark does not dissect SIDR messages; the values are those of udaddy's arguments, checked
 * manually.
 */
static void cm_msg_parse_captured_sidr_has_known_values(void **state)
{
	struct sockaddr_storage src, dst;
	struct cm_ip_hdr ip;
	struct cm_msg msg;

	(void)state;
	assert_int_equal(pcap_read_mads("udaddy.pcap", mads), 2);
	assert_int_equal(cm_msg_parse(&msg, mads[0].bytes, MAD_BYTES), 0);
	assert_int_equal(msg.type, CM_MSG_SIDR_REQ);
	assert_int_equal(msg.sidr_req.request_id, 0x98a0804d);
	assert_int_equal(msg.sidr_req.pkey, 0xffff);
	assert_int_equal(msg.sidr_req.service_id, 0x01111c06);
	assert_int_equal(cm_ip_hdr_parse(&ip, msg.sidr_req.private_data), 0);
	cm_ip_hdr_addrs(&ip, (uint16_t)msg.sidr_req.service_id, &src, &dst);
	assert_int_equal(src.ss_family, AF_INET);
	assert_int_equal(ntohs(((struct sockaddr_in *)&src)->sin_port), 0xe30c);
	assert_int_equal(ntohl(((struct sockaddr_in *)&src)->sin_addr.s_addr), 0x0a4d0003);
	assert_int_equal(ntohs(((struct sockaddr_in *)&dst)->sin_port), 7174);
	assert_int_equal(ntohl(((struct sockaddr_in *)&dst)->sin_addr.s_addr), 0x0a4d0002);

	assert_int_equal(cm_msg_parse(&msg, mads[1].bytes, MAD_BYTES), 0);
	assert_int_equal(msg.type, CM_MSG_SIDR_REP);
	assert_int_equal(msg.sidr_rep.request_id, 0x98a0804d);
	assert_int_equal(msg.sidr_rep.status, CM_SIDR_VALID);
	assert_int_equal(msg.sidr_rep.qpn, 0x16);
	assert_int_equal(msg.sidr_rep.service_id, 0x01111c06);
	assert_int_equal(msg.sidr_rep.qkey, 0x01234567);
}

static void print_mad_captured_mad_matches_reference(void **state)
{
	char line[PRINT_MAD_MAX];

	(void)state;
	assert_int_equal(pcap_read_mads("reject.pcap", mads), 2);
	print_mad(line, sizeof(line), mads[0].bytes, MAD_BYTES);
	assert_string_equal(
		line,
		"cm req tid 0x24d80a092 local_comm_id 0x92a0804d service_id 0x1061c06 local_ca_guid "
		"0x505400fffe770003 local_qpn 0x2b responder_resources 1 initiator_depth 1 "
		"remote_cm_response_timeout 20 starting_psn 6252798 local_cm_response_timeout 20 "
		"retry_count 7 pkey 0xffff path_mtu 3 rnr_retry_count 7 max_cm_retries 15 "
		"primary.local_lid 65535 primary.remote_lid 65535 primary.local_gid 10.77.0.3 "
		"primary.remote_gid 10.77.0.2 primary.flow_label 0xc1c69 primary.hop_limit 64 "
		"primary.local_ack_timeout 19 private_data 36 bytes");
	print_mad(line, sizeof(line), mads[1].bytes, MAD_BYTES);
	assert_string_equal(line, "cm rej tid 0x24d80a092 remote_comm_id 0x92a0804d reason 8 "
				  "(no listener)");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(cm_msg_build_captured_mad_is_identical),
		cmocka_unit_test(cm_msg_parse_captured_mad_matches_tshark),
		cmocka_unit_test(cm_msg_parse_captured_sidr_has_known_values),
		cmocka_unit_test(print_mad_captured_mad_matches_reference),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
