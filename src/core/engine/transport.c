/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/engine/transport.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "core/engine/engine.h"

#define NAMES_BYTES 64

static void complain(const char *wanted)
{
	static atomic_flag has_complained = ATOMIC_FLAG_INIT;
	char names[NAMES_BYTES] = "";

	if (atomic_flag_test_and_set(&has_complained))
		return;
	for (size_t i = 0; transports[i]; i++) {
		size_t used = strlen(names);

		snprintf(names + used, sizeof(names) - used, "%s%s", used ? " or " : "",
			 transports[i]->name);
	}
	log_user("invalid USRDMA_TRANSPORT '%s': no RDMA devices; use %s", wanted, names);
}

int transport_choose(struct engine *engine)
{
	const char *wanted = secure_getenv("USRDMA_TRANSPORT");

	engine->only_transport = NULL;
	if (!wanted || !*wanted)
		return 0;
	for (size_t i = 0; transports[i]; i++) {
		if (!strcmp(wanted, transports[i]->name))
			engine->only_transport = transports[i];
	}
	if (engine->only_transport)
		return 0;
	complain(wanted);
	return -EINVAL;
}

void transport_explain(const struct engine *engine)
{
	static atomic_flag is_explained = ATOMIC_FLAG_INIT;

	if (!engine->only_transport || engine->client.hello.wire_errno)
		ipc_explain_wire(engine->client.hello.wire_errno);
	else if (!atomic_flag_test_and_set(&is_explained))
		log_user("USRDMA_TRANSPORT=%s: this transport does not reach the peer",
			 engine->only_transport->name);
}

bool transport_is_chosen(const struct engine *engine, const struct transport *transport)
{
	return !engine->only_transport || engine->only_transport == transport;
}
