/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_TOOLS_TOP_ROWS_H
#define USRDMA_TOOLS_TOP_ROWS_H

#include <json-c/json.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * The rows of `usrdma top` for queue pairs and for devices. A device's numbers are the sums of its
 * queue pairs.
 */

enum top_rate {
	TOP_SENT,
	TOP_SENT_BYTES,
	TOP_RECEIVED,
	TOP_RECEIVED_BYTES,
	TOP_RETRIES,
	TOP_RNR_NAKS,
	TOP_RATE_COUNT
};

struct top_row {
	uint64_t pid; /* 0: a device */
	uint64_t qpn;
	uint64_t dev_id;
	char name[32]; /* of the program or the device */
	char device[32];
	char type[12];
	char state[8];
	char transport[16];
	uint64_t counts[TOP_RATE_COUNT];
	double rates[TOP_RATE_COUNT];
	uint64_t outstanding;
	uint64_t cq_pending; /* of the fuller one of its two CQs */
	uint64_t cq_size;
	uint64_t qps; /* of a device */
};

struct top_rows {
	struct top_row *rows;
	size_t count;
	size_t room;
};

/* Removes all rows; the memory is kept. */
void top_rows_clear(struct top_rows *rows);

/* Adds the queue pairs of one process of the daemon's report. false: no memory. */
bool top_rows_add_qps(struct top_rows *rows, json_object *process, uint64_t pid,
		      const char *program, json_object *devices);

/* Appends copies of rows. false: no memory. */
bool top_rows_append(struct top_rows *rows, const struct top_rows *from);

/* Computes the rates since the former rows. */
void top_rows_compare(struct top_rows *rows, const struct top_rows *former, double passed_s);

/* Replaces the rows of queue pairs by one row for each device. */
void top_rows_sum_devices(struct top_rows *rows);

/* Returns whether `key` selects a column, and then *column. */
bool top_rows_sort_key(char key, int *column);
const char *top_rows_title(int column);

void top_rows_sort(struct top_rows *rows, int column);
/*
 * Prints at most max_rows rows, in lines of `width` characters (0: any length) that contain the
 * column `kept`.
 */
void top_rows_print(const struct top_rows *rows, size_t max_rows, bool is_devices, int width,
		    int kept);
json_object *top_rows_json(const struct top_rows *rows, bool is_devices);

#endif
