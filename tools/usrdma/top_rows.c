/* SPDX-License-Identifier: BSD-2-Clause */
#include "top_rows.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/printable.h"
#include "report.h"
#include "top_table.h"

/* Columns after the rates. */
enum { COLUMN_OUTSTANDING = TOP_RATE_COUNT, COLUMN_CQ, COLUMN_END };

static const struct {
	const char *key; /* of the counter in the daemon's report */
	const char *json_key;
	const char *title;
	char sort_key;
	double unit; /* of the table */
} columns[COLUMN_END] = {
	[TOP_SENT] = {"messages_sent", "messages_sent_per_second", "SENT/s", 's', 1},
	[TOP_SENT_BYTES] = {"bytes_sent", "bytes_sent_per_second", "OUT MB/s", 'b', 1e6},
	[TOP_RECEIVED] = {"messages_received", "messages_received_per_second", "RECEIVED/s", 'r',
			  1},
	[TOP_RECEIVED_BYTES] = {"bytes_received", "bytes_received_per_second", "IN MB/s", 'i', 1e6},
	[TOP_RETRIES] = {"retries", "retries_per_second", "RETRIES/s", 't', 1},
	[TOP_RNR_NAKS] = {"rnr_naks", "rnr_naks_per_second", "RNR/s", 'n', 1},
	[COLUMN_OUTSTANDING] = {"outstanding", "outstanding", "PENDING", 'o', 1},
	[COLUMN_CQ] = {"", "", "CQ", 'c', 1},
};

static int sort_column;

void top_rows_clear(struct top_rows *rows)
{
	rows->count = 0;
}

static struct top_row *add_row(struct top_rows *rows)
{
	if (rows->count == rows->room) {
		size_t room = rows->room ? 2 * rows->room : 64;
		struct top_row *grown = realloc(rows->rows, room * sizeof(*grown));

		if (!grown)
			return NULL;
		rows->rows = grown;
		rows->room = room;
	}
	memset(&rows->rows[rows->count], 0, sizeof(rows->rows[0]));
	return &rows->rows[rows->count++];
}

static void copy_text(char *to, size_t bytes, const char *from)
{
	snprintf(to, bytes, "%s", from);
	printable_string(to);
}

static void name_device(struct top_row *row, json_object *devices)
{
	size_t count = report_length(devices);

	snprintf(row->device, sizeof(row->device), "%" PRIu64, row->dev_id);
	for (size_t i = 0; i < count; i++) {
		json_object *device = json_object_array_get_idx(devices, i);

		if (number_of(device, "dev_id") == row->dev_id)
			copy_text(row->device, sizeof(row->device), text_of(device, "name"));
	}
}

/* Keeps the CQ that is fuller in proportion to its size. */
static void keep_cq(struct top_row *row, uint64_t pending, uint64_t size)
{
	if (size == 0 || (row->cq_size && pending * row->cq_size <= row->cq_pending * size))
		return;
	row->cq_pending = pending;
	row->cq_size = size;
}

bool top_rows_add_qps(struct top_rows *rows, json_object *process, uint64_t pid,
		      const char *program, json_object *devices)
{
	json_object *qps = json_object_object_get(process, "qps");
	size_t count = report_length(qps);

	for (size_t i = 0; i < count; i++) {
		json_object *qp = json_object_array_get_idx(qps, i);
		struct top_row *row = add_row(rows);

		if (!row)
			return false;
		row->pid = pid;
		row->qpn = strtoull(text_of(qp, "qpn"), NULL, 16);
		row->dev_id = number_of(qp, "dev_id");
		snprintf(row->name, sizeof(row->name), "%s", program);
		copy_text(row->type, sizeof(row->type), text_of(qp, "type"));
		copy_text(row->state, sizeof(row->state), text_of(qp, "state"));
		if (json_object_object_get(qp, "transport"))
			copy_text(row->transport, sizeof(row->transport), text_of(qp, "transport"));
		name_device(row, devices);
		for (int c = 0; c < TOP_RATE_COUNT; c++)
			row->counts[c] = number_of(qp, columns[c].key);
		row->outstanding = number_of(qp, "outstanding");
		keep_cq(row, number_of(qp, "send_cq_pending"), number_of(qp, "send_cq_size"));
		keep_cq(row, number_of(qp, "recv_cq_pending"), number_of(qp, "recv_cq_size"));
	}
	return true;
}

bool top_rows_append(struct top_rows *rows, const struct top_rows *from)
{
	for (size_t i = 0; i < from->count; i++) {
		struct top_row *row = add_row(rows);

		if (!row)
			return false;
		*row = from->rows[i];
	}
	return true;
}

void top_rows_compare(struct top_rows *rows, const struct top_rows *former, double passed_s)
{
	for (size_t i = 0; i < rows->count; i++) {
		struct top_row *row = &rows->rows[i];
		const struct top_row *before = NULL;

		for (size_t j = 0; j < former->count && !before; j++) {
			if (former->rows[j].pid == row->pid && former->rows[j].qpn == row->qpn)
				before = &former->rows[j];
		}
		/* Smaller than before: another QP has the number now. */
		for (int c = 0; before && c < TOP_RATE_COUNT; c++) {
			if (row->counts[c] >= before->counts[c])
				row->rates[c] = (double)(row->counts[c] - before->counts[c]) /
						passed_s;
		}
	}
}

static struct top_row *device_row(struct top_rows *rows, size_t count, const struct top_row *qp)
{
	for (size_t i = 0; i < count; i++) {
		if (rows->rows[i].dev_id == qp->dev_id)
			return &rows->rows[i];
	}
	return NULL;
}

void top_rows_sum_devices(struct top_rows *rows)
{
	size_t count = 0;

	for (size_t i = 0; i < rows->count; i++) {
		struct top_row qp = rows->rows[i];
		struct top_row *device = device_row(rows, count, &qp);

		if (!device) {
			device = &rows->rows[count++];
			*device = (struct top_row){.dev_id = qp.dev_id};
			snprintf(device->name, sizeof(device->name), "%s", qp.device);
		}
		device->qps++;
		device->outstanding += qp.outstanding;
		for (int c = 0; c < TOP_RATE_COUNT; c++)
			device->rates[c] += qp.rates[c];
		keep_cq(device, qp.cq_pending, qp.cq_size);
	}
	rows->count = count;
}

bool top_rows_sort_key(char key, int *column)
{
	for (int c = 0; c < COLUMN_END; c++) {
		if (columns[c].sort_key == key) {
			*column = c;
			return true;
		}
	}
	return false;
}

const char *top_rows_title(int column)
{
	return columns[column].title;
}

static double sort_value(const struct top_row *row)
{
	if (sort_column == COLUMN_OUTSTANDING)
		return (double)row->outstanding;
	if (sort_column == COLUMN_CQ)
		return row->cq_size ? (double)row->cq_pending / (double)row->cq_size : 0;
	return row->rates[sort_column];
}

static int compare_rows(const void *a, const void *b)
{
	const struct top_row *x = a, *y = b;
	double left = sort_value(x), right = sort_value(y);

	if (left != right)
		return left < right ? 1 : -1;
	if (x->pid != y->pid)
		return x->pid < y->pid ? -1 : 1;
	return (x->qpn > y->qpn) - (x->qpn < y->qpn);
}

void top_rows_sort(struct top_rows *rows, int column)
{
	sort_column = column;
	if (rows->count)
		qsort(rows->rows, rows->count, sizeof(rows->rows[0]), compare_rows);
}

/* The cells of a row: these, then those of `columns`. */
enum { CELL_PID, CELL_PROGRAM, CELL_QPN, CELL_TYPE, CELL_STATE, CELL_DEVICE, CELLS_OF_QP };
enum { CELL_NAME, CELL_QPS, CELLS_OF_DEVICE };

static const struct top_column qp_cells[CELLS_OF_QP] = {
	[CELL_PID] = {"PID", "PID", 8, 8, TOP_KEEP, false},
	[CELL_PROGRAM] = {"PROGRAM", "PROGRAM", 15, 12, 9, true},
	[CELL_QPN] = {"QPN", "QPN", 9, 9, TOP_KEEP, true},
	[CELL_TYPE] = {"TYPE", "TYPE", 8, 8, 2, true},
	[CELL_STATE] = {"STATE", "STATE", 5, 5, 6, true},
	[CELL_DEVICE] = {"DEVICE", "DEVICE", 9, 9, 3, true},
};

static const struct top_column device_cells[CELLS_OF_DEVICE] = {
	[CELL_NAME] = {"DEVICE", "DEVICE", 15, 15, TOP_KEEP, true},
	[CELL_QPS] = {"QPS", "QPS", 6, 6, 2, false},
};

static const struct top_column rate_cells[COLUMN_END] = {
	[TOP_SENT] = {"SENT/s", "SENT/s", 10, 8, 12, false},
	[TOP_SENT_BYTES] = {"OUT MB/s", "OUT MB/s", 10, 8, 11, false},
	[TOP_RECEIVED] = {"RECEIVED/s", "RECV/s", 10, 8, 7, false},
	[TOP_RECEIVED_BYTES] = {"IN MB/s", "IN MB/s", 10, 8, 8, false},
	[TOP_RETRIES] = {"RETRIES/s", "RETRY/s", 10, 8, 5, false},
	[TOP_RNR_NAKS] = {"RNR/s", "RNR/s", 10, 8, 4, false},
	[COLUMN_OUTSTANDING] = {"PENDING", "PENDING", 8, 8, 3, false},
	[COLUMN_CQ] = {"CQ", "CQ", 13, 13, 1, false},
};

static void write_row(const struct top_fit *fit, const struct top_row *row, bool is_devices,
		      top_cell *cells)
{
	int first = is_devices ? CELLS_OF_DEVICE : CELLS_OF_QP;

	if (is_devices) {
		snprintf(cells[CELL_NAME], TOP_CELL_BYTES, "%s", row->name);
		snprintf(cells[CELL_QPS], TOP_CELL_BYTES, "%" PRIu64, row->qps);
	} else {
		snprintf(cells[CELL_PID], TOP_CELL_BYTES, "%" PRIu64, row->pid);
		snprintf(cells[CELL_PROGRAM], TOP_CELL_BYTES, "%s", row->name);
		snprintf(cells[CELL_QPN], TOP_CELL_BYTES, "0x%06" PRIx64, row->qpn);
		snprintf(cells[CELL_TYPE], TOP_CELL_BYTES, "%s", row->type);
		snprintf(cells[CELL_STATE], TOP_CELL_BYTES, "%s", row->state);
		snprintf(cells[CELL_DEVICE], TOP_CELL_BYTES, "%s", row->device);
	}
	for (int c = 0; c < TOP_RATE_COUNT; c++)
		top_table_number(fit, first + c, cells[first + c], row->rates[c] / columns[c].unit,
				 columns[c].unit > 1 ? 1 : 0);
	snprintf(cells[first + COLUMN_OUTSTANDING], TOP_CELL_BYTES, "%" PRIu64, row->outstanding);
	snprintf(cells[first + COLUMN_CQ], TOP_CELL_BYTES, "%" PRIu64 "/%" PRIu64, row->cq_pending,
		 row->cq_size);
}

void top_rows_print(const struct top_rows *rows, size_t max_rows, bool is_devices, int width,
		    int kept)
{
	int first = is_devices ? CELLS_OF_DEVICE : CELLS_OF_QP;
	struct top_column all[CELLS_OF_QP + COLUMN_END];
	top_cell cells[CELLS_OF_QP + COLUMN_END];
	struct top_fit fit;

	memcpy(all, is_devices ? device_cells : qp_cells, (size_t)first * sizeof(all[0]));
	memcpy(all + first, rate_cells, sizeof(rate_cells));
	top_table_fit(&fit, all, first + COLUMN_END, width, first + kept);
	top_table_print_head(&fit);
	for (size_t i = 0; i < rows->count && i < max_rows; i++) {
		write_row(&fit, &rows->rows[i], is_devices, cells);
		top_table_print_row(&fit, cells);
	}
}

static void add_text(json_object *to, const char *key, const char *value)
{
	json_object_object_add(to, key, json_object_new_string(value));
}

static void add_number(json_object *to, const char *key, uint64_t value)
{
	json_object_object_add(to, key, json_object_new_uint64(value));
}

json_object *top_rows_json(const struct top_rows *rows, bool is_devices)
{
	json_object *list = json_object_new_array();

	for (size_t i = 0; i < rows->count; i++) {
		const struct top_row *row = &rows->rows[i];
		json_object *object = json_object_new_object();

		if (is_devices) {
			add_text(object, "device", row->name);
			add_number(object, "qps", row->qps);
		} else {
			add_number(object, "pid", row->pid);
			add_text(object, "program", row->name);
			add_number(object, "qpn", row->qpn);
			add_text(object, "type", row->type);
			add_text(object, "state", row->state);
			add_text(object, "device", row->device);
			add_text(object, "transport", row->transport);
		}
		for (int c = 0; c < TOP_RATE_COUNT; c++)
			add_number(object, columns[c].json_key, (uint64_t)(row->rates[c] + 0.5));
		add_number(object, "outstanding", row->outstanding);
		add_number(object, "cq_pending", row->cq_pending);
		add_number(object, "cq_size", row->cq_size);
		json_object_array_add(list, object);
	}
	return list;
}
