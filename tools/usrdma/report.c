/* SPDX-License-Identifier: BSD-2-Clause */
#include "report.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ipc/client.h"

/*
 * Reads the daemon's report piece by piece into the parser. Returns the report; NULL: failure, the
 * cause was printed.
 */
static json_object *report_read(struct ipc_client *client, json_tokener *parser)
{
	static struct ipc_status_reply reply;
	json_object *report = NULL;
	int error;

	do {
		struct ipc_status request = {.hdr.type = IPC_STATUS};

		error = ipc_call(client, &request, sizeof(request), NULL, 0, &reply, sizeof(reply));
		if (error) {
			fprintf(stderr, "usrdma: the daemon could not report: %s\n",
				strerror(-error));
			return NULL;
		}
		if (reply.bytes > 0 && reply.bytes <= sizeof(reply.text) && !report)
			report = json_tokener_parse_ex(parser, reply.text, (int)reply.bytes);
	} while (reply.more);
	if (!report)
		fputs("usrdma: the daemon's report cannot be read\n", stderr);
	return report;
}

json_object *report_ask_daemon(struct report_daemon *daemon)
{
	json_tokener *parser;
	json_object *report = NULL;
	struct ipc_client client;
	int error = ipc_client_open(&client, IPC_ROLE_CONTROL);

	*daemon = (struct report_daemon){error, client.daemon_pid, client.daemon_uid};
	if (error == -ENOENT) {
		fputs("usrdma: the daemon program, usrdmad, is not installed beside this one\n",
		      stderr);
		return NULL;
	}
	/* The library has reported a daemon of another release. */
	if (error == -EPROTO)
		return NULL;
	if (error) {
		fprintf(stderr, "usrdma: no daemon to ask: %s\n", strerror(-error));
		return NULL;
	}
	parser = json_tokener_new();
	if (parser)
		report = report_read(&client, parser);
	else
		fprintf(stderr, "usrdma: %s\n", strerror(ENOMEM));
	json_tokener_free(parser);
	ipc_client_close(&client);
	if (!report)
		daemon->error = -EIO;
	return report;
}

json_object *report_ask(void)
{
	struct report_daemon daemon;

	return report_ask_daemon(&daemon);
}

const char *text_of(json_object *object, const char *key)
{
	const char *text = json_object_get_string(json_object_object_get(object, key));

	return text ? text : "?";
}

uint64_t number_of(json_object *object, const char *key)
{
	return json_object_get_uint64(json_object_object_get(object, key));
}

uint64_t report_qpn(json_object *qp, const char *key)
{
	return strtoull(text_of(qp, key), NULL, 16);
}

const char *report_counter_title(const char *key)
{
	static const struct {
		const char *key, *title;
	} titles[] = {
		{"datagrams_without_a_way_out", "ud_sends_dropped"},
		{"dropped_response_to_nothing", "dropped_response_without_request"},
	};

	for (size_t i = 0; i < sizeof(titles) / sizeof(titles[0]); i++) {
		if (strcmp(titles[i].key, key) == 0)
			return titles[i].title;
	}
	return key;
}

size_t report_length(json_object *list)
{
	return json_object_is_type(list, json_type_array) ? json_object_array_length(list) : 0;
}

json_object *report_object(json_object *object)
{
	static json_object *empty;

	if (json_object_is_type(object, json_type_object))
		return object;
	if (!empty)
		empty = json_object_new_object();
	return empty;
}

const char *report_plural(size_t count)
{
	return count == 1 ? "" : "s";
}

bool report_program(uint64_t pid, char program[REPORT_PROGRAM_BYTES])
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%" PRIu64 "/comm", pid);
	return file_first_line(path, program, REPORT_PROGRAM_BYTES);
}

char *file_first_line(const char *path, char *text, int size)
{
	FILE *file = fopen(path, "re");
	char *got = file ? fgets(text, size, file) : NULL;

	if (got)
		text[strcspn(text, "\n")] = '\0';
	if (file)
		fclose(file);
	return got;
}
