/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_DAEMON_CONTROL_SEGMENT_H
#define USRDMA_DAEMON_CONTROL_SEGMENT_H

#include <json-c/json.h>
#include <stdbool.h>
#include <stdint.h>

/* How many QPs and how many MRs of one process a report lists; the counts beside them tell of all. */
#define CONTROL_LISTED_MAX 20000
/* … and of all together: what they write into their segments must not fill the machine's memory. */
#define CONTROL_LISTED_ALL_MAX 262144

/*
 * What a process's segment (ipc/segment.h) says of it, piece by piece. The segment is read, not mapped, so that looking at it
 * takes it no memory; what stands in it is the process's own word.
 */
struct control_segment {
	int fd; /* -1: none */
	uint32_t qps;
	uint32_t mrs;
	uint32_t next;	/* entry of the table that is being read */
	uint32_t count; /* entries of it that mean something, so far */
	uint32_t *room; /* the reader's: how many may still be listed */
};

/* A copy of fd is read from then on. False: it is no segment of this slot's. */
bool control_segment_open(struct control_segment *segment, int fd, uint64_t segment_bytes,
			  uint32_t slot);
void control_segment_close(struct control_segment *segment);

/*
 * An array of some more QPs, or, after a rewind, MRs; NULL after the last. By then segment->count is how many there are: of
 * all, while no more than CONTROL_LISTED_MAX are listed, nor more than there is room for.
 */
json_object *control_segment_qps(struct control_segment *segment);
void control_segment_rewind(struct control_segment *segment);
json_object *control_segment_mrs(struct control_segment *segment);

#endif
