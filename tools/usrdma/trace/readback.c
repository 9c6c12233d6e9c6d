/* SPDX-License-Identifier: BSD-2-Clause */
#include "readback.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis.h"
#include "diagram.h"
#include "filter.h"
#include "read.h"

static const char page_head[] =
	"<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>usrdma trace</title>\n"
	"<meta name=\"viewport\" content=\"width=device-width\">\n"
	"<meta name=\"color-scheme\" content=\"light dark\">\n<style>\n"
	"body{margin:24px auto;max-width:1100px;padding:0 12px;"
	"font:14px system-ui,-apple-system,'Segoe UI',Roboto,sans-serif}\n"
	"svg{max-width:100%;height:auto}pre{overflow:auto;font-size:13px;line-height:1.45}\n"
	"</style></head><body>\n";

static bool is_page(const char *path)
{
	size_t len = strlen(path);

	return len > 5 && strcmp(path + len - 5, ".html") == 0;
}

/* The analysis of the connection, below the diagram of a page. */
static int print_page_analysis(FILE *out, const struct trace_diagram *diagram, const char *heading)
{
	struct analysis analysis = {.model = &diagram->model, .source = diagram->source};
	char *text = NULL;
	size_t bytes = 0;
	FILE *memory = open_memstream(&text, &bytes);
	char *line, *rest;

	if (!memory)
		return -ENOMEM;
	analysis_print(memory, &analysis);
	if (fclose(memory)) {
		free(text);
		return -ENOMEM;
	}
	fprintf(out, "<%s>Analysis of all connections</%s>\n<pre>", heading, heading);
	rest = text;
	while ((line = strsep(&rest, "\n"))) {
		xml_text(out, line);
		fputc('\n', out);
	}
	fputs("</pre>\n", out);
	free(text);
	return 0;
}

static int print_diagram(FILE *out, const struct trace_diagram *diagram, uint32_t conn_index)
{
	bool is_inline = is_page(diagram->path);
	int error;

	if (is_inline)
		fputs(page_head, out);
	error = diagram_svg(out, &diagram->model, conn_index, diagram->source, is_inline);
	if (!error && is_inline)
		error = print_page_analysis(out, diagram, "h2");
	if (is_inline)
		fputs("</body></html>\n", out);
	return error;
}

/* Prints its errors. */
static int write_diagram(const struct trace_diagram *diagram)
{
	uint32_t conn_index = diagram_choose(&diagram->model, diagram->qpn);
	FILE *out;
	int error;

	if (conn_index == MODEL_NONE) {
		fprintf(stderr, "usrdma: no diagram: the trace contains no connection%s\n",
			diagram->qpn ? " of this QP" : "");
		return -ENOENT;
	}
	out = fopen(diagram->path, "we");
	if (!out) {
		error = -errno;
		fprintf(stderr, "usrdma: cannot write '%s': %s\n", diagram->path, strerror(errno));
		return error;
	}
	error = print_diagram(out, diagram, conn_index);
	if (ferror(out) && !error)
		error = -EIO;
	if (fclose(out) && !error)
		error = -errno;
	if (error)
		fprintf(stderr, "usrdma: cannot write '%s': %s\n", diagram->path, strerror(-error));
	return error;
}

static int put_to_model(void *ctx, const struct trace_record *record)
{
	struct trace_diagram *diagram = ctx;

	return model_put(&diagram->model, record);
}

static int end_of_model(void *ctx)
{
	struct trace_diagram *diagram = ctx;

	return model_end(&diagram->model);
}

/* `counts`: of the file, or NULL. */
static int print_results(const struct trace_diagram *diagram,
			 const struct trace_read_counts *counts)
{
	struct analysis analysis = {
		.model = &diagram->model,
		.counts = counts,
		.source = diagram->source,
		.qpn = diagram->qpn,
	};
	int error = 0;

	if (diagram->wants_json)
		error = analysis_print_json(stdout, &analysis);
	else if (diagram->wants_analysis)
		analysis_print(stdout, &analysis);
	if (error)
		fprintf(stderr, "usrdma: %s\n", strerror(-error));
	if (!error && diagram->path)
		error = write_diagram(diagram);
	return error;
}

static int end_of_diagram(void *ctx)
{
	struct trace_diagram *diagram = ctx;
	int error = model_end(&diagram->model);

	if (error)
		return error;
	return print_results(diagram, NULL) ? -ECANCELED : 0;
}

/* A consumer that fills the model and calls `end` at the end of the trace. */
static int model_out_open(struct trace_diagram *diagram, int (*end)(void *ctx),
			  struct trace_out *out)
{
	int error = model_open(&diagram->model);

	diagram->filter.synth = error ? NULL : synth_open();
	diagram->filter.next = (struct trace_out){put_to_model, end, diagram};
	*out = synth_filter_out(&diagram->filter);
	return error || diagram->filter.synth ? error : -ENOMEM;
}

int trace_diagram_open(struct trace_diagram *diagram, struct trace_out *out)
{
	return model_out_open(diagram, end_of_diagram, out);
}

void trace_diagram_close(struct trace_diagram *diagram)
{
	synth_close(diagram->filter.synth);
	model_close(&diagram->model);
}

/* The last part of a path. */
static const char *file_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash && slash[1] ? slash + 1 : path;
}

int trace_read_back(const struct trace_options *options, const struct trace_out *also)
{
	struct trace_diagram diagram = {
		.path = options->diagram_path,
		.source = file_name(options->read_path),
		.qpn = options->qpn,
		.wants_analysis = options->wants_analysis || (!also && !options->diagram_path),
		.wants_json = options->wants_json,
	};
	struct trace_tee tee = {.count = 1};
	struct trace_read_counts counts;
	char why[TRACE_WHY_BYTES];
	struct trace_out out;
	int error = model_out_open(&diagram, end_of_model, &tee.outs[0]);

	if (also)
		tee.outs[tee.count++] = *also;
	out = trace_tee_out(&tee);
	if (error)
		snprintf(why, sizeof(why), "%s", strerror(-error));
	else
		error = trace_read_file(options->read_path, &out, &counts, why);
	if (error)
		fprintf(stderr, "usrdma: cannot read '%s': %s\n", options->read_path, why);
	else
		error = print_results(&diagram, &counts);
	trace_diagram_close(&diagram);
	return error ? EXIT_FAILURE : EXIT_SUCCESS;
}

int trace_print_part(FILE *out, const char *path, char why[TRACE_WHY_BYTES])
{
	struct trace_diagram diagram = {.source = file_name(path)};
	struct trace_read_counts counts;
	struct trace_out records;
	uint32_t conn_index;
	int error = model_out_open(&diagram, end_of_model, &records);

	snprintf(why, TRACE_WHY_BYTES, "%s", strerror(ENOMEM));
	if (!error)
		error = trace_read_file(path, &records, &counts, why);
	conn_index = error ? MODEL_NONE : diagram_choose(&diagram.model, 0);
	if (!error && conn_index == MODEL_NONE) {
		snprintf(why, TRACE_WHY_BYTES, "the trace contains no connection");
		error = -ENOENT;
	}
	if (!error)
		error = diagram_svg(out, &diagram.model, conn_index, diagram.source, true);
	if (!error)
		error = print_page_analysis(out, &diagram, "h3");
	trace_diagram_close(&diagram);
	return error;
}
