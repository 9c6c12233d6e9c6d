/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_DAEMON_CONTROL_SEGMENT_H
#define USRDMA_DAEMON_CONTROL_SEGMENT_H

#include <json-c/json.h>
#include <stdint.h>

/* How many QPs and how many MRs of one process a report lists; the counts beside them tell of all. */
#define CONTROL_LISTED_MAX 20000

/*
 * Adds what a process's segment (ipc/segment.h) says of it to the report: "qps", "qp_count", "mrs", "mr_count",
 * "counters". The segment is read, not mapped, so that looking at it takes it no memory; what stands in it is the
 * process's own word.
 */
void control_report_segment(json_object *process, int fd, uint64_t segment_bytes, uint32_t slot);

#endif
