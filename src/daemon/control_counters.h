/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_DAEMON_CONTROL_COUNTERS_H
#define USRDMA_DAEMON_CONTROL_COUNTERS_H

#include <json-c/json.h>
#include <stdint.h>

/*
 * Counters as `usrdma status` shows them: an object of groups ("roce"), each an object of numbers by name
 * ("packets_sent"). Adding to a number that is not there yet makes it.
 */

/* A group takes no more names than this, nor an object more groups: processes name their own. */
#define CONTROL_GROUPS_MAX 16
#define CONTROL_NAMES_MAX  128

/* Blanks and punctuation in `words` become underscores. */
void control_counters_add(json_object *to, const char *group, const char *words, uint64_t value);

/* Adds all that `from` counts. */
void control_counters_sum(json_object *to, json_object *from);

/* Adds what a process counts in its segment (ipc/segment.h); whatever else it wrote there is left out. */
void control_counters_read(json_object *to, int segment_fd, uint64_t segment_bytes);

#endif
