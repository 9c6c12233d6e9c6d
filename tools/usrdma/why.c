/* SPDX-License-Identifier: BSD-2-Clause */
/* usrdma why: explains the failures that the daemon has stored. */
#include "why.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/printable.h"
#include "colour.h"
#include "commands.h"
#include "ipc/client.h"

#define INCIDENTS_DEFAULT 5
/* The daemon stores 1,000 failures. */
#define READ_MAX  4096
#define NS_PER_S  UINT64_C(1000000000)
#define NS_PER_MS UINT64_C(1000000)

struct why_options {
	uint64_t wanted; /* PID or QPN; 0: any */
	bool has_wanted;
	bool wants_json;
	bool wants_notes;
	bool wants_all;
	size_t last; /* maximum number of incidents; 0: all */
};

static void why_make_printable(char *text, size_t bytes)
{
	text[bytes - 1] = '\0';
	printable_string(text);
}

static int why_append(struct why_list *list, const struct ipc_failure_get_reply *reply)
{
	struct why_failure *more = realloc(list->failures, (list->count + 1) * sizeof(*more));
	struct why_failure *failure;

	if (!more)
		return -ENOMEM;
	list->failures = more;
	failure = &more[list->count++];
	*failure = (struct why_failure){.number = reply->number, .is = reply->failure};
	why_make_printable(failure->is.program, sizeof(failure->is.program));
	why_make_printable(failure->is.device, sizeof(failure->is.device));
	why_make_printable(failure->is.call, sizeof(failure->is.call));
	return 0;
}

/* Reads all failures that the caller may see. 0 or -errno. */
static int why_read(struct ipc_client *client, struct why_list *list)
{
	struct ipc_failure_get request = {.hdr.type = IPC_FAILURE_GET};
	struct ipc_failure_get_reply reply;
	int error;

	do {
		error = ipc_call(client, &request, sizeof(request), NULL, 0, &reply, sizeof(reply));
		if (!error)
			error = why_append(list, &reply);
		request.cursor = reply.number + 1;
		/* Processes may report failures as fast as they are read. */
	} while (!error && list->count < READ_MAX);
	return error == -ENOENT ? 0 : error;
}

static bool why_fetch(struct why_list *list)
{
	struct ipc_client client;
	int error = ipc_client_open(&client, IPC_ROLE_CONTROL);

	if (error == -EPROTO)
		return false;
	if (error) {
		fprintf(stderr, "usrdma: no daemon to ask: %s\n", strerror(-error));
		return false;
	}
	error = why_read(&client, list);
	ipc_client_close(&client);
	if (error)
		fprintf(stderr, "usrdma: the daemon could not report: %s\n", strerror(-error));
	return !error;
}

static void write_time(FILE *out, uint64_t time_ns)
{
	time_t seconds = (time_t)(time_ns / NS_PER_S);
	struct tm broken_down;
	char text[32] = "?";

	if (localtime_r(&seconds, &broken_down))
		strftime(text, sizeof(text), "%Y-%m-%d %H:%M:%S", &broken_down);
	fprintf(out, "%s.%03u", text, (unsigned int)(time_ns % NS_PER_S / NS_PER_MS));
}

static bool matches(const struct why_failure *failure, const struct why_options *options)
{
	return !options->has_wanted || (uint64_t)failure->is.pid == options->wanted ||
	       failure->is.qpn == options->wanted;
}

/* Whether the incident with this first cause is to be shown. */
static bool is_shown(const struct why_list *list, size_t root, const struct why_options *options)
{
	if (list->failures[root].is_repeated)
		return false;
	if ((list->failures[root].is.flags & IPC_FAILURE_NOTE) && !options->wants_notes)
		return false;
	for (size_t i = 0; i < list->count; i++) {
		if (why_root(list, i) == root && matches(&list->failures[i], options))
			return true;
	}
	return false;
}

static bool has_shown(const struct why_list *list, const struct why_options *options)
{
	for (size_t i = 0; i < list->count; i++) {
		if (list->failures[i].cause == i && is_shown(list, i, options))
			return true;
	}
	return false;
}

static void print_text(const struct why_list *list, size_t root)
{
	const struct why_failure *cause = &list->failures[root];
	const char *advice = why_advice(list, root);
	const struct ipc_failure *fault = why_fault(list, root);

	fputs(colour(COLOUR_BOLD), stdout);
	why_write_cause(stdout, list, root);
	fputs(colour(COLOUR_NONE), stdout);
	if (fault) {
		fputs("\n  fault: ", stdout);
		why_write_fault(stdout, fault);
	}
	fputs("\n  when:  ", stdout);
	write_time(stdout, cause->is.time_ns);
	fputs("\n  where: ", stdout);
	why_write_process(stdout, list, cause);
	fputs("\n  seen:  ", stdout);
	why_write_seen(stdout, cause);
	for (size_t i = 0; i < list->count; i++) {
		if (i == root || why_root(list, i) != root)
			continue;
		fprintf(stdout, "\n  then:  %s (pid %d): ", list->failures[i].is.program,
			list->failures[i].is.pid);
		why_write_seen(stdout, &list->failures[i]);
	}
	if (cause->is.dropped)
		fprintf(stdout,
			"\n  note:  the process had %u more failures just before, which were not stored",
			cause->is.dropped);
	if (cause->repeats) {
		fprintf(stdout,
			"\n  note:  earlier calls that failed for the same reason: %zu, the first at ",
			cause->repeats);
		write_time(stdout, cause->since_ns);
		fputs("; --all shows them", stdout);
	}
	if (advice) {
		fputs("\n  do:    ", stdout);
		why_write_advice(stdout, &cause->is, advice);
	}
	puts("\n");
}

typedef void write_fn(FILE *out, const struct why_list *list, size_t index);

static void seen_fn(FILE *out, const struct why_list *list, size_t index)
{
	why_write_seen(out, &list->failures[index]);
}

static void add_written(json_object *object, const char *key, write_fn *write,
			const struct why_list *list, size_t index)
{
	char *text = NULL;
	size_t bytes;
	FILE *out = open_memstream(&text, &bytes);

	if (!out)
		return;
	write(out, list, index);
	fclose(out);
	json_object_object_add(object, key, json_object_new_string(text));
	free(text);
}

static void add_number(json_object *object, const char *key, uint64_t value)
{
	json_object_object_add(object, key, json_object_new_uint64(value));
}

static void fault_fn(FILE *out, const struct why_list *list, size_t index)
{
	why_write_fault(out, why_fault(list, index));
}

static void advice_fn(FILE *out, const struct why_list *list, size_t index)
{
	why_write_advice(out, &list->failures[index].is, why_advice(list, index));
}

static json_object *failure_json(const struct why_list *list, size_t index)
{
	const struct ipc_failure *failure = &list->failures[index].is;
	json_object *object = json_object_new_object();

	add_number(object, "number", list->failures[index].number);
	add_number(object, "time_ns", failure->time_ns);
	add_number(object, "uid", failure->uid);
	add_number(object, "pid", (uint64_t)failure->pid);
	json_object_object_add(object, "program", json_object_new_string(failure->program));
	json_object_object_add(object, "device", json_object_new_string(failure->device));
	add_number(object, "qpn", failure->qpn);
	add_number(object, "peer_qpn", failure->peer_qpn);
	add_number(object, "peer_pid", (uint64_t)failure->peer_pid);
	add_number(object, "wr_id", failure->wr_id);
	add_number(object, "status", failure->status);
	add_number(object, "vendor_err", failure->vendor_err);
	add_number(object, "flushed_sends", failure->flushed_sends);
	add_number(object, "flushed_receives", failure->flushed_receives);
	add_number(object, "dropped", failure->dropped);
	add_written(object, "seen", seen_fn, list, index);
	return object;
}

static void print_json(const struct why_list *list, size_t root)
{
	json_object *object = json_object_new_object(), *then = json_object_new_array();

	add_written(object, "cause", why_write_cause, list, root);
	if (why_fault(list, root))
		add_written(object, "fault", fault_fn, list, root);
	if (why_advice(list, root))
		add_written(object, "do", advice_fn, list, root);
	json_object_object_add(object, "first", failure_json(list, root));
	for (size_t i = 0; i < list->count; i++) {
		if (i != root && why_root(list, i) == root)
			json_object_array_add(then, failure_json(list, i));
	}
	json_object_object_add(object, "then", then);
	puts(json_object_to_json_string_ext(object, JSON_C_TO_STRING_PLAIN |
							    JSON_C_TO_STRING_NOSLASHESCAPE));
	json_object_put(object);
}

/* Prints the newest incident first. */
static void why_print(const struct why_list *list, const struct why_options *options)
{
	size_t shown = 0, hidden = 0;

	for (size_t i = list->count; i-- > 0;) {
		if (list->failures[i].cause != i || !is_shown(list, i, options))
			continue;
		if (options->last && shown == options->last) {
			hidden++;
			continue;
		}
		shown++;
		if (options->wants_json)
			print_json(list, i);
		else
			print_text(list, i);
	}
	if (options->wants_json)
		return;
	if (!shown && options->has_wanted && list->count)
		printf("no failure of %" PRIu64
		       " is stored as a pid or QPN; %zu other%s: usrdma why --all\n",
		       options->wanted, list->count, list->count == 1 ? " is" : "s are");
	else if (!shown)
		puts("no failure is stored");
	if (hidden)
		printf("%zu older: usrdma why --last %zu\n", hidden, shown + hidden);
}

static bool parse_u64(const char *text, uint64_t *value)
{
	char *end;

	errno = 0;
	*value = strtoull(text, &end, 0);
	return !errno && *text >= '0' && *text <= '9' && !*end;
}

/* 0, or the exit status after a message. */
static int why_parse(int argc, char **argv, struct why_options *options)
{
	uint64_t number;

	for (int i = 1; i < argc; i++) {
		if (strcmp(argv[i], "--json") == 0) {
			options->wants_json = true;
		} else if (strcmp(argv[i], "--all") == 0) {
			options->wants_notes = options->wants_all = true;
			options->last = 0;
		} else if (strcmp(argv[i], "--last") == 0 && i + 1 < argc &&
			   parse_u64(argv[i + 1], &number)) {
			options->last = (size_t)number;
			i++;
		} else if (!options->has_wanted && parse_u64(argv[i], &options->wanted)) {
			options->has_wanted = true;
		} else {
			fprintf(stderr,
				"usrdma: invalid argument '%s' of why: expected [PID | QPN] [--last N] "
				"[--all] [--json]\n",
				argv[i]);
			return EXIT_USAGE;
		}
	}
	return 0;
}

int command_why(int argc, char **argv)
{
	struct why_options options = {.last = INCIDENTS_DEFAULT};
	struct why_list list = {0};
	int status = why_parse(argc, argv, &options);

	if (status)
		return status;
	if (!why_fetch(&list)) {
		free(list.failures);
		return EXIT_FAILURE;
	}
	why_join(&list);
	if (!options.wants_json && !options.wants_all)
		why_fold(&list);
	/* If a process or queue pair has no failure, a note may be the explanation. */
	if (options.has_wanted && !has_shown(&list, &options))
		options.wants_notes = true;
	why_print(&list, &options);
	free(list.failures);
	return EXIT_SUCCESS;
}
