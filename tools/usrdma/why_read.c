/* SPDX-License-Identifier: BSD-2-Clause */
/* Reads the failures that the daemon has stored. */
#include "why.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/printable.h"
#include "ipc/client.h"

/* The daemon stores 1,000 failures. */
#define READ_MAX 4096

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

bool why_fetch(struct why_list *list)
{
	struct ipc_client client;
	int error = ipc_client_open(&client, IPC_ROLE_CONTROL);

	if (error == -EPROTO)
		return false; /* ipc_client_open() has printed both releases. */
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
