/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A capture file of another person: `usrdma trace -r` reads it, finds its connections and prints
 * analysis and diagrams. Targets: the readers of pcap and pcapng, the model, the analysis and the
 * diagram of tools/usrdma/trace.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/usrdma/trace/analysis.h"
#include "tools/usrdma/trace/diagram.h"
#include "tools/usrdma/trace/synth.h"

#define DIAGRAMS_MAX 2

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void need(bool is_true)
{
	if (!is_true)
		abort();
}

static int put(void *ctx, const struct trace_record *record)
{
	return model_put(ctx, record);
}

static int end(void *ctx)
{
	return model_end(ctx);
}

static void check_output(const struct model *model, const struct trace_read_counts *counts)
{
	struct analysis analysis = {.model = model, .counts = counts, .source = "fuzz"};
	char *text = NULL;
	size_t bytes = 0;
	FILE *out = open_memstream(&text, &bytes);

	need(out);
	analysis_print(out, &analysis);
	need(analysis_print_json(out, &analysis) == 0);
	for (uint32_t i = 0; i < model->conn_count && i < DIAGRAMS_MAX; i++)
		need(diagram_svg(out, model, i, "fuzz", false) == 0);
	need(fclose(out) == 0);
	if (model->conn_count)
		need(bytes > 7 && strcmp(text + bytes - 7, "</svg>\n") == 0);
	free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct model model;
	struct trace_read_counts counts;
	struct synth_filter filter = {.synth = synth_open(), .next = {put, end, &model}};
	struct trace_out out = synth_filter_out(&filter);
	char why[TRACE_WHY_BYTES];
	FILE *file = size ? fmemopen((void *)(uintptr_t)data, size, "rb") : NULL;

	need(filter.synth && model_open(&model) == 0);
	if (file && trace_read_stream(file, &out, &counts, why) == 0)
		check_output(&model, &counts);
	if (file)
		fclose(file);
	model_close(&model);
	synth_close(filter.synth);
	return 0;
}
