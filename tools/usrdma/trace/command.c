/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <limits.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../commands.h"
#include "../places.h"
#include "filter.h"
#include "live.h"
#include "options.h"
#include "pcapng.h"
#include "readback.h"
#include "text.h"

/* The outputs of one run, and the consumers before them. */
struct command {
	struct trace_options options;
	struct trace_text text;
	struct trace_tee tee;
	struct trace_filter filter;
	struct pcapng *pcapng;
	FILE *capture;
	/* gets the records before the filter: a diagram shows both QPs of a connection */
	struct trace_diagram diagram;
	struct trace_tee top;
};

static void tee_add(struct command *command, struct trace_out out)
{
	command->tee.outs[command->tee.count++] = out;
}

static int capture_open(struct command *command)
{
	const char *path = command->options.write_path;
	bool is_stdout = strcmp(path, "-") == 0;

	if (is_stdout && isatty(STDOUT_FILENO)) {
		fputs("usrdma: cannot write the capture to the terminal: use -w FILE, or a pipe to "
		      "tshark -r -\n",
		      stderr);
		return -EINVAL;
	}
	command->capture = is_stdout ? stdout : fopen(path, "we");
	if (!command->capture) {
		fprintf(stderr, "usrdma: cannot write '%s': %s\n", path, strerror(errno));
		return -errno;
	}
	command->pcapng = pcapng_open(command->capture);
	if (!command->pcapng) {
		fputs("usrdma: out of memory\n", stderr);
		return -ENOMEM;
	}
	tee_add(command, pcapng_out(command->pcapng));
	return 0;
}

static void capture_close(struct command *command)
{
	uint64_t records, packets;

	if (command->pcapng) {
		pcapng_counts(command->pcapng, &records, &packets);
		fprintf(stderr, "usrdma: %" PRIu64 " event%s, %" PRIu64 " packet%s\n", records,
			records == 1 ? "" : "s", packets, packets == 1 ? "" : "s");
	}
	pcapng_close(command->pcapng);
	if (command->capture && command->capture != stdout && fclose(command->capture))
		perror("usrdma: capture file");
}

static int outputs_open(struct command *command)
{
	static char buffer[256 * 1024];
	const struct trace_options *options = &command->options;

	/* A live trace flushes it regularly. */
	if (!isatty(STDOUT_FILENO))
		setvbuf(stdout, buffer, _IOFBF, sizeof(buffer));

	if (options->wants_text || (!options->write_path && !options->diagram_path &&
				    !options->read_path && !options->wants_analysis)) {
		command->text = (struct trace_text){.file = stdout,
						    .wants_all = options->wants_all,
						    .wants_packets = options->wants_all ||
								     options->read_path};
		tee_add(command, trace_text_out(&command->text));
	}
	return options->write_path ? capture_open(command) : 0;
}

static int run_live(struct command *command, struct trace_out filtered)
{
	const struct trace_options *options = &command->options;
	struct trace_out out;

	command->top.outs[command->top.count++] = filtered;
	if (options->diagram_path || options->wants_analysis) {
		command->diagram.path = options->diagram_path;
		command->diagram.source = "usrdma trace";
		command->diagram.qpn = options->qpn;
		command->diagram.wants_analysis = options->wants_analysis;
		command->diagram.wants_json = options->wants_json;
		if (trace_diagram_open(&command->diagram,
				       &command->top.outs[command->top.count++])) {
			fputs("usrdma: out of memory\n", stderr);
			return EXIT_FAILURE;
		}
	}
	out = trace_tee_out(&command->top);
	return trace_live(options, &out);
}

/* Prints the directory that `tshark -C` and Wireshark use after it was copied to their profiles. */
static int print_profile(void)
{
	char dir[PATH_MAX];

	if (!place_find(PLACE_WIRESHARK, dir)) {
		fputs("usrdma: the profile for Wireshark is neither beside this program nor "
		      "installed\n",
		      stderr);
		return EXIT_FAILURE;
	}
	puts(dir);
	return EXIT_SUCCESS;
}

int command_trace(int argc, char **argv)
{
	struct command command = {0};
	char why[TRACE_OPTION_WHY_BYTES];
	struct trace_out out;
	int status = EXIT_FAILURE;

	(void)argc;
	if (trace_options_parse(&command.options, argv, why)) {
		fprintf(stderr, "usrdma: trace: %s; try 'usrdma trace --help'\n", why);
		return EXIT_USAGE;
	}
	if (command.options.wants_profile)
		return print_profile();
	/* A reader that has ended, for example head(1), ends this command with EPIPE. */
	signal(SIGPIPE, SIG_IGN);
	command.filter.options = &command.options;
	if (!outputs_open(&command)) {
		command.filter.next = trace_tee_out(&command.tee);
		out = trace_filter_out(&command.filter);
		if (command.options.read_path)
			status = trace_read_back(&command.options, command.tee.count ? &out : NULL);
		else
			status = run_live(&command, out);
	}
	trace_diagram_close(&command.diagram);
	capture_close(&command);
	return status;
}
