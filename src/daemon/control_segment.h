/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_DAEMON_CONTROL_SEGMENT_H
#define USRDMA_DAEMON_CONTROL_SEGMENT_H

#include <json-c/json.h>
#include <stdbool.h>
#include <stdint.h>

/*
 * Maximum number of QPs, and of MRs, of one process that a report lists. The reported counts
 * include all of them.
 */
#define CONTROL_LISTED_MAX 20000
/*
 * Maximum number of QPs and MRs in a report: processes write the entries and must not exhaust the
 * daemon's memory.
 */
#define CONTROL_LISTED_ALL_MAX 262144

/*
 * Reads a process's segment (ipc/segment.h) in batches. pread() is used instead of a mapping, so
 * that reading does not allocate the segment's pages. The process writes the segment, so its
 * contents are not trusted.
 */
struct control_segment {
	int fd; /* -1: not open */
	uint32_t qps;
	uint32_t mrs;
	uint32_t next;	/* index of the next entry of the current table */
	uint32_t count; /* valid entries of the current table so far */
	uint32_t *room; /* owned by the reader: number of QPs and MRs that may still be listed */
};

/*
 * Begins to read the segment through a duplicate of fd. False: it is not a segment of this slot, or
 * fd cannot be duplicated.
 */
bool control_segment_open(struct control_segment *segment, int fd, uint64_t segment_bytes,
			  uint32_t slot);
/* Returns the duplicate, which the caller must close; -1: not open. */
int control_segment_release(struct control_segment *segment);

/*
 * Each returns an array of the next QPs or MRs; NULL after the last. Call control_segment_rewind()
 * between the QPs and the MRs. After the last, segment->count is the number of all valid entries.
 * Entries beyond CONTROL_LISTED_MAX or beyond *room are counted and not listed.
 */
json_object *control_segment_qps(struct control_segment *segment);
void control_segment_rewind(struct control_segment *segment);
json_object *control_segment_mrs(struct control_segment *segment);

#endif
