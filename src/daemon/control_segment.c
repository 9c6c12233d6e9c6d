/* SPDX-License-Identifier: BSD-2-Clause */
#include "daemon/control_segment.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/util.h"
#include "daemon/control_counters.h"
#include "ipc/segment.h"

/* Number of entries that one read returns. */
#define BATCH 256

/*
 * Names of enum ibv_qp_state and enum ibv_qp_type, whose values are part of the ABI. This module
 * does not include verbs.h.
 */
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
	uint64_t word = atomic_load_explicit(&entry->word, memory_order_relaxed);
	uint32_t state = segment_qp_state(word);
	json_object *qp = json_object_new_object();
	char gid[INET6_ADDRSTRLEN];

	add_hex(qp, "qpn", segment_qp_qpn(word));
	json_object_object_add(qp, "type",
			       json_object_new_string(NAME_OF(type_names, entry->type)));
	json_object_object_add(qp, "state", json_object_new_string(NAME_OF(state_names, state)));
	json_object_object_add(qp, "dev_id", json_object_new_uint64(entry->dev_id));
	if (memchr(entry->transport, '\0', sizeof(entry->transport)) &&
	    control_is_word(entry->transport))
		json_object_object_add(qp, "transport", json_object_new_string(entry->transport));
	if (entry->remote_qpn) {
		inet_ntop(AF_INET6, entry->remote_gid, gid, sizeof(gid));
		add_hex(qp, "peer_qpn", entry->remote_qpn);
		json_object_object_add(qp, "peer_gid", json_object_new_string(gid));
	}
	return qp;
}

/*
 * Adds a CQ's number of completions that were not polled, and its size. The place may have any
 * value.
 */
static void add_cq(json_object *qp, int fd, const char *pending_key, const char *size_key,
		   uint32_t place)
{
	struct segment_cq cq;

	if (place - 1 >= SEGMENT_CQS ||
	    !read_at(fd, &cq, sizeof(cq),
		     offsetof(struct segment, cqs.entries) + (place - 1) * sizeof(cq)))
		return;
	json_object_object_add(qp, pending_key, json_object_new_uint64(cq.pending));
	json_object_object_add(qp, size_key, json_object_new_uint64(cq.capacity));
}

static void report_usage(json_object *qp, int fd, const struct segment_qp_usage *usage)
{
	const struct {
		const char *key;
		uint64_t value;
	} numbers[] = {
		{"messages_sent", usage->sent_messages},
		{"bytes_sent", usage->sent_bytes},
		{"messages_received", usage->received_messages},
		{"bytes_received", usage->received_bytes},
		{"retries", usage->retries},
		{"rnr_naks", usage->rnr_naks},
		{"send_failures", usage->failed},
		{"outstanding", usage->posted - usage->sent_messages - usage->failed},
	};

	for (size_t i = 0; i < COUNT(numbers); i++)
		json_object_object_add(qp, numbers[i].key,
				       json_object_new_uint64(numbers[i].value));
	add_cq(qp, fd, "send_cq_pending", "send_cq_size", usage->send_cq);
	add_cq(qp, fd, "recv_cq_pending", "recv_cq_size", usage->recv_cq);
}

static json_object *report_mr(const struct segment_mr *entry)
{
	json_object *mr = json_object_new_object();

	add_hex(mr, "rkey",
		segment_mr_rkey(atomic_load_explicit(&entry->word, memory_order_relaxed)));
	add_hex(mr, "addr", entry->addr);
	add_hex(mr, "iova", entry->iova);
	json_object_object_add(mr, "length_bytes", json_object_new_uint64(entry->length_bytes));
	add_hex(mr, "access", entry->access);
	return mr;
}

bool control_segment_open(struct control_segment *segment, int fd, uint64_t segment_bytes,
			  uint32_t slot)
{
	static struct segment_hdr hdr;

	*segment = (struct control_segment){.fd = -1};
	if (segment_bytes < SEGMENT_BYTES || !read_at(fd, &hdr, sizeof(hdr), 0))
		return false;
	if (hdr.magic != SEGMENT_MAGIC || hdr.version != SEGMENT_VERSION || hdr.slot != slot)
		return false;
	segment->fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	segment->qps = atomic_load_explicit(&hdr.qps_end, memory_order_relaxed);
	segment->mrs = atomic_load_explicit(&hdr.mrs_end, memory_order_relaxed);
	if (segment->qps > SEGMENT_QPS)
		segment->qps = SEGMENT_QPS;
	if (segment->mrs > SEGMENT_MRS)
		segment->mrs = SEGMENT_MRS;
	return segment->fd >= 0;
}

int control_segment_release(struct control_segment *segment)
{
	int fd = segment->fd;

	segment->fd = -1;
	return fd;
}

/* Skips holes of the memfd: a process can store a wrong number of used entries. */
static void skip_hole(struct control_segment *segment, size_t entry_bytes, uint64_t offset,
		      uint32_t end)
{
	off_t data = lseek(segment->fd, (off_t)(offset + (uint64_t)segment->next * entry_bytes),
			   SEEK_DATA);
	uint64_t next = data < 0 ? end : ((uint64_t)data - offset) / entry_bytes;

	if (next > segment->next)
		segment->next = next < end ? (uint32_t)next : end;
}

/*
 * Reads the next entries of a table with `end` entries at file offset `offset`. Returns their
 * number; 0 after the last.
 */
static uint32_t read_batch(struct control_segment *segment, void *batch, size_t entry_bytes,
			   uint64_t offset, uint32_t end)
{
	uint32_t left, wanted;

	skip_hole(segment, entry_bytes, offset, end);
	left = end - segment->next;
	wanted = left < BATCH ? left : BATCH;
	if (!wanted || !read_at(segment->fd, batch, wanted * entry_bytes,
				offset + (uint64_t)segment->next * entry_bytes))
		return 0;
	segment->next += wanted;
	return wanted;
}

/* Counts an entry. Returns whether it may also be listed. */
static bool may_list(struct control_segment *segment)
{
	if (segment->count++ >= CONTROL_LISTED_MAX || !*segment->room)
		return false;
	--*segment->room;
	return true;
}

json_object *control_segment_qps(struct control_segment *segment)
{
	struct segment_qp batch[BATCH];
	struct segment_qp_usage usage[BATCH];
	uint32_t got = read_batch(segment, batch, sizeof(batch[0]), offsetof(struct segment, qps),
				  segment->qps);
	uint64_t first = segment->next - got;
	json_object *list = got ? json_object_new_array() : NULL;
	bool has_usage = got &&
			 read_at(segment->fd, usage, got * sizeof(usage[0]),
				 offsetof(struct segment, qp_usage) + first * sizeof(usage[0]));

	for (uint32_t i = 0; i < got; i++) {
		if (!segment_qp_qpn(atomic_load_explicit(&batch[i].word, memory_order_relaxed)))
			continue;
		if (!may_list(segment))
			continue;
		json_object_array_add(list, report_qp(&batch[i]));
		if (has_usage)
			report_usage(json_object_array_get_idx(list,
							       json_object_array_length(list) - 1),
				     segment->fd, &usage[i]);
	}
	return list;
}

void control_segment_rewind(struct control_segment *segment)
{
	segment->next = 0;
	segment->count = 0;
}

json_object *control_segment_mrs(struct control_segment *segment)
{
	struct segment_mr batch[BATCH];
	uint32_t got = read_batch(segment, batch, sizeof(batch[0]), offsetof(struct segment, mrs),
				  segment->mrs);
	json_object *list = got ? json_object_new_array() : NULL;

	for (uint32_t i = 0; i < got; i++) {
		if (!segment_mr_rkey(atomic_load_explicit(&batch[i].word, memory_order_relaxed)))
			continue;
		if (may_list(segment))
			json_object_array_add(list, report_mr(&batch[i]));
	}
	return list;
}
