/* SPDX-License-Identifier: BSD-2-Clause */
/* usrdma report: one HTML file for a bug report. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "../commands.h"
#include "html.h"
#include "redact.h"
#include "sections.h"

#define REPORT_FILE "usrdma-report.html"

static const char usage[] =
	"usrdma: usage: usrdma report [-o FILE] [--trace FILE [--payload]] [--redact]\n";

/* Writes the page into memory. NULL: failure, the cause was printed. The caller frees it. */
static char *page_make(const struct bug_report *report)
{
	char *page = NULL;
	size_t bytes;
	FILE *out = open_memstream(&page, &bytes);
	int error;

	if (!out) {
		perror("usrdma");
		return NULL;
	}
	html_head(out, "usrdma report");
	page_summary(out, report);
	section_failures(out, report);
	section_doctor(out, report);
	section_faults(out, report);
	error = section_trace(out, report);
	section_processes(out, report);
	section_connections(out, report);
	section_devices(out, report);
	section_counters(out, report);
	section_profile(out, report);
	section_system(out, report);
	section_content(out, report);
	fputs("</main>\n</body>\n</html>\n", out);
	if (fclose(out) && !error) {
		error = -ENOMEM;
		fprintf(stderr, "usrdma: %s\n", strerror(ENOMEM));
	}
	if (!error)
		return page;
	free(page);
	return NULL;
}

static int page_write(FILE *out, const char *page, bool is_redacted)
{
	struct redact_names names;

	if (!is_redacted)
		return fputs(page, out) < 0 ? -errno : 0;
	redact_names(&names);
	return redact_page(out, page, &names);
}

/* 0, or -errno after a message. */
static int page_store(const char *path, const char *page, bool is_redacted)
{
	bool is_stdout = strcmp(path, "-") == 0;
	FILE *out = is_stdout ? stdout : fopen(path, "we");
	int error = out ? page_write(out, page, is_redacted) : -errno;

	if (out && ferror(out) && !error)
		error = -EIO;
	/* main() flushes standard output and reports its errors. */
	if (out && !is_stdout && fclose(out) && !error)
		error = -errno;
	if (error)
		fprintf(stderr, "usrdma: cannot write '%s': %s\n", path, strerror(-error));
	else if (!is_stdout)
		printf("%s\n", path);
	return error;
}

static bool parse_options(int argc, char **argv, struct bug_report *report, const char **path)
{
	for (int i = 1; i < argc; i++) {
		if (strcmp(argv[i], "-o") == 0 && i + 1 < argc)
			*path = argv[++i];
		else if (strcmp(argv[i], "--trace") == 0 && i + 1 < argc)
			report->trace_path = argv[++i];
		else if (strcmp(argv[i], "--payload") == 0)
			report->has_payload = true;
		else if (strcmp(argv[i], "--redact") == 0)
			report->is_redacted = true;
		else
			return false;
	}
	return true;
}

/* Whether the options agree; otherwise the cause is printed. */
static bool check_options(const struct bug_report *report)
{
	if (report->has_payload && !report->trace_path)
		fputs("usrdma: --payload needs --trace FILE, whose payload it adds\n", stderr);
	else if (report->has_payload && report->is_redacted)
		fputs("usrdma: --payload and --redact exclude each other: addresses in a capture file are not replaced\n",
		      stderr);
	else
		return true;
	return false;
}

int command_report(int argc, char **argv)
{
	struct bug_report report = {0};
	const char *path = REPORT_FILE;
	char *page;
	int error = -EINVAL;

	if (!parse_options(argc, argv, &report, &path)) {
		fputs(usage, stderr);
		return EXIT_USAGE;
	}
	if (!check_options(&report))
		return EXIT_USAGE;
	bug_report_collect(&report);
	page = page_make(&report);
	if (page)
		error = page_store(path, page, report.is_redacted);
	free(page);
	bug_report_free(&report);
	return error ? EXIT_FAILURE : EXIT_SUCCESS;
}
