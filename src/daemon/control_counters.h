/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_DAEMON_CONTROL_COUNTERS_H
#define USRDMA_DAEMON_CONTROL_COUNTERS_H

#include <json-c/json.h>
#include <stdbool.h>
#include <stdint.h>

/*
 * Counters as `usrdma status` prints them: an object of groups ("roce"), each an object of numbers
 * by name ("packets_sent"). Adding to a counter that does not exist creates it.
 */

/*
 * Maximum number of groups, and of names in a group: processes choose the names of their counters.
 */
#define CONTROL_GROUPS_MAX 16
#define CONTROL_NAMES_MAX  128

/* Adds value to a counter. Blanks and punctuation in `words` become underscores. */
void control_counters_add(json_object *to, const char *group, const char *words, uint64_t value);

/* Adds all counters of `from`. */
void control_counters_sum(json_object *to, json_object *from);

/*
 * Whether the text, which a process has chosen, consists of lowercase letters, digits and
 * underscores only.
 */
bool control_is_word(const char *text);

/*
 * Adds the counters in a process's segment (ipc/segment.h). Entries with an invalid name are
 * ignored.
 */
void control_counters_read(json_object *to, int segment_fd, uint64_t segment_bytes);

#endif
