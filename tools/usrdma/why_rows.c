/* SPDX-License-Identifier: BSD-2-Clause */
/* The rows of an incident below its cause, as usrdma why and usrdma report show them. */
#include "why.h"

#include <stdlib.h>
#include <time.h>

#define NS_PER_S  UINT64_C(1000000000)
#define NS_PER_MS UINT64_C(1000000)

/* One call of why_each_row(). A row is written to `out`, which collects it in `text`. */
struct why_rows {
	why_row_fn *row;
	void *ctx;
	FILE *out;
	char *text;
	size_t bytes;
};

static FILE *row_begin(struct why_rows *rows)
{
	rows->out = open_memstream(&rows->text, &rows->bytes);
	return rows->out;
}

static void row_end(struct why_rows *rows, const char *name)
{
	if (fclose(rows->out) == 0)
		rows->row(rows->ctx, name, rows->text);
	free(rows->text);
}

static void why_write_time(FILE *out, uint64_t time_ns)
{
	time_t seconds = (time_t)(time_ns / NS_PER_S);
	struct tm broken_down;
	char text[32] = "?";

	if (localtime_r(&seconds, &broken_down))
		strftime(text, sizeof(text), "%Y-%m-%d %H:%M:%S", &broken_down);
	fprintf(out, "%s.%03u", text, (unsigned int)(time_ns % NS_PER_S / NS_PER_MS));
}

static void fault_row(struct why_rows *rows, const struct ipc_failure *fault)
{
	if (!fault || !row_begin(rows))
		return;
	why_write_fault(rows->out, fault);
	row_end(rows, "fault");
}

static void place_rows(struct why_rows *rows, const struct why_list *list,
		       const struct why_failure *cause)
{
	if (row_begin(rows)) {
		why_write_time(rows->out, cause->is.time_ns);
		row_end(rows, "when");
	}
	if (row_begin(rows)) {
		why_write_process(rows->out, list, cause);
		row_end(rows, "where");
	}
	if (row_begin(rows)) {
		why_write_seen(rows->out, cause);
		row_end(rows, "seen");
	}
}

static void then_rows(struct why_rows *rows, const struct why_list *list, size_t root)
{
	for (size_t i = 0; i < list->count; i++) {
		const struct why_failure *failure = &list->failures[i];

		if (i == root || why_root(list, i) != root || !row_begin(rows))
			continue;
		fprintf(rows->out, "%s (pid %d): ", failure->is.program, failure->is.pid);
		why_write_seen(rows->out, failure);
		row_end(rows, "then");
	}
}

static void note_rows(struct why_rows *rows, const struct why_failure *cause)
{
	if (cause->is.dropped && row_begin(rows)) {
		fprintf(rows->out,
			"the process had %u more failures just before, which were not stored",
			cause->is.dropped);
		row_end(rows, "note");
	}
	if (cause->repeats && row_begin(rows)) {
		fprintf(rows->out,
			"earlier calls that failed for the same reason: %zu, the first at ",
			cause->repeats);
		why_write_time(rows->out, cause->since_ns);
		fputs("; --all shows them", rows->out);
		row_end(rows, "note");
	}
}

void why_each_row(const struct why_list *list, size_t root, why_row_fn *row, void *ctx)
{
	const struct why_failure *cause = &list->failures[root];
	const char *advice = why_advice(list, root);
	struct why_rows rows = {.row = row, .ctx = ctx};

	fault_row(&rows, why_fault(list, root));
	place_rows(&rows, list, cause);
	then_rows(&rows, list, root);
	note_rows(&rows, cause);
	if (advice && row_begin(&rows)) {
		why_write_advice(rows.out, &cause->is, advice);
		row_end(&rows, "do");
	}
}
