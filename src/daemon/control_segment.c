/* SPDX-License-Identifier: BSD-2-Clause */
#include "daemon/control_segment.h"

#include <arpa/inet.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "ipc/segment.h"

/* Entries read at once. */
#define BATCH 256

/* enum ibv_qp_state and enum ibv_qp_type, whose numbers are part of the ABI; this room does not see verbs.h. */
static const char *const state_names[] = {"RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR"};
static const char *const type_names[] = {[2] = "RC",	     [3] = "UC",       [4] = "UD",
					 [8] = "RAW_PACKET", [9] = "XRC_SEND", [10] = "XRC_RECV"};

#define NAME_OF(names, value)                                                              \
	((value) < sizeof(names) / sizeof((names)[0]) && (names)[value] ? (names)[value] : \
									  "unknown")

static bool read_at(int fd, void *to, size_t len, uint64_t offset)
{
	return pread(fd, to, len, (off_t)offset) == (ssize_t)len;
}

static void add_hex(json_object *to, const char *key, uint64_t value)
{
	char text[20];

	snprintf(text, sizeof(text), "0x%" PRIx64, value);
	json_object_object_add(to, key, json_object_new_string(text));
}

static json_object *report_qp(const struct segment_qp *entry)
{
	uint32_t state = atomic_load_explicit(&entry->state, memory_order_relaxed);
	json_object *qp = json_object_new_object();
	char gid[INET6_ADDRSTRLEN];

	add_hex(qp, "qpn", atomic_load_explicit(&entry->qpn, memory_order_relaxed));
	json_object_object_add(qp, "type",
			       json_object_new_string(NAME_OF(type_names, entry->type)));
	json_object_object_add(qp, "state", json_object_new_string(NAME_OF(state_names, state)));
	json_object_object_add(qp, "dev_id", json_object_new_uint64(entry->dev_id));
	if (memchr(entry->transport, '\0', sizeof(entry->transport)) && *entry->transport)
		json_object_object_add(qp, "transport", json_object_new_string(entry->transport));
	if (entry->remote_qpn) {
		inet_ntop(AF_INET6, entry->remote_gid, gid, sizeof(gid));
		add_hex(qp, "peer_qpn", entry->remote_qpn);
		json_object_object_add(qp, "peer_gid", json_object_new_string(gid));
	}
	return qp;
}

static json_object *report_mr(const struct segment_mr *entry)
{
	json_object *mr = json_object_new_object();

	add_hex(mr, "rkey", atomic_load_explicit(&entry->rkey, memory_order_relaxed));
	add_hex(mr, "addr", entry->addr);
	add_hex(mr, "iova", entry->iova);
	json_object_object_add(mr, "length_bytes", json_object_new_uint64(entry->length_bytes));
	add_hex(mr, "access", entry->access);
	return mr;
}

static void report_qps(json_object *process, int fd, uint32_t end)
{
	json_object *list = json_object_new_array();
	struct segment_qp batch[BATCH];
	uint64_t count = 0;

	for (uint32_t first = 0; first < end; first += BATCH) {
		uint32_t wanted = end - first < BATCH ? end - first : BATCH;

		if (!read_at(fd, batch, wanted * sizeof(batch[0]),
			     offsetof(struct segment, qps) + (uint64_t)first * sizeof(batch[0])))
			break;
		for (uint32_t i = 0; i < wanted; i++) {
			if (!atomic_load_explicit(&batch[i].qpn, memory_order_relaxed))
				continue;
			if (count++ < CONTROL_LISTED_MAX)
				json_object_array_add(list, report_qp(&batch[i]));
		}
	}
	json_object_object_add(process, "qp_count", json_object_new_uint64(count));
	json_object_object_add(process, "qps", list);
}

static void report_mrs(json_object *process, int fd, uint32_t end)
{
	json_object *list = json_object_new_array();
	struct segment_mr batch[BATCH];
	uint64_t count = 0;

	for (uint32_t first = 0; first < end; first += BATCH) {
		uint32_t wanted = end - first < BATCH ? end - first : BATCH;

		if (!read_at(fd, batch, wanted * sizeof(batch[0]),
			     offsetof(struct segment, mrs) + (uint64_t)first * sizeof(batch[0])))
			break;
		for (uint32_t i = 0; i < wanted; i++) {
			if (!atomic_load_explicit(&batch[i].rkey, memory_order_relaxed))
				continue;
			if (count++ < CONTROL_LISTED_MAX)
				json_object_array_add(list, report_mr(&batch[i]));
		}
	}
	json_object_object_add(process, "mr_count", json_object_new_uint64(count));
	json_object_object_add(process, "mrs", list);
}

void control_report_segment(json_object *process, int fd, uint64_t segment_bytes, uint32_t slot)
{
	static struct segment_hdr hdr;
	uint32_t qps, mrs;

	if (segment_bytes < SEGMENT_BYTES || !read_at(fd, &hdr, sizeof(hdr), 0))
		return;
	if (hdr.magic != SEGMENT_MAGIC || hdr.version != SEGMENT_VERSION || hdr.slot != slot)
		return;
	qps = atomic_load_explicit(&hdr.qps_end, memory_order_relaxed);
	mrs = atomic_load_explicit(&hdr.mrs_end, memory_order_relaxed);
	report_qps(process, fd, qps < SEGMENT_QPS ? qps : SEGMENT_QPS);
	report_mrs(process, fd, mrs < SEGMENT_MRS ? mrs : SEGMENT_MRS);
}
