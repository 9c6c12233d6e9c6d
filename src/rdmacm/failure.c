/* SPDX-License-Identifier: BSD-2-Clause */
#include "rdmacm/failure.h"

#include <errno.h>
#include <string.h>
#include <time.h>

#include "base/log.h"
#include "ipc/msg_failure.h"

void rcm_failure_unacked(struct rcm_id *id, const char *call, uint32_t events, uint32_t event)
{
	struct timespec now;
	struct ipc_failure failure = {
		.hdr.type = IPC_FAILURE,
		.kind = IPC_FAILURE_WARNING,
		.reason = IPC_REASON_UNACKED,
		.event = event,
		.qpn = atomic_load_explicit(&id->qpn, memory_order_relaxed),
		.numbers = {events},
	};

	clock_gettime(CLOCK_REALTIME, &now);
	failure.time_ns = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
	memcpy(failure.call, call, strnlen(call, sizeof(failure.call) - 1));
	memcpy(failure.program, program_invocation_short_name,
	       strnlen(program_invocation_short_name, sizeof(failure.program) - 1));
	/* A warning that cannot be sent now is dropped: the caller has logged it, too. */
	if (ipc_try_send_request(&id->session->client, &failure, sizeof(failure)))
		log_debug("the warning about %s is not stored", call);
}
