/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/core_notice.h"

#include <string.h>

#include "base/log.h"
#include "base/probe.h"
#include "base/syscalls.h"
#include "base/trace_ring.h"
#include "core/device/async.h"
#include "core/device/device.h"
#include "core/engine/engine.h"
#include "core/engine/lock_check.h"
#include "core/engine/qp_table.h"
#include "core/engine/transport.h"
#include "core/queue/moderation.h"
#include "core/queue/qp_error.h"
#include "core/report/failure_event.h"
#include "core/report/probe.h"

void core_lose_daemon(struct engine *engine)
{
	struct context *context;
	uint32_t cursor = 0;
	struct qp *qp;

	engine_assert_locked(engine);
	if (engine->is_fatal)
		return;
	log_warn("the daemon has exited: all devices of this process fail");
	engine->is_fatal = true;
	engine_progress_do(engine, progress_daemon_lost(&engine->progress));
	failure_daemon_ended(engine);
	moderation_flush(engine);
	for (size_t i = 0; transports[i]; i++) {
		if (transports[i]->daemon_lost)
			transports[i]->daemon_lost(engine);
	}
	while ((qp = qp_table_next(&engine->tables.qps, &cursor)))
		qp_enter_error(qp, QP_NO_EVENT);
	list_for_each_entry(context, &engine->tables.contexts, node)
		async_device_fatal(context);
	xrc_remote_end(&engine->xrc_remote);
	av_calls_end(engine);
}

static void take_device_notice(struct engine *engine, const struct ipc_hdr *notice, const int *fds,
			       int nfds)
{
	(void)fds;
	(void)nfds;
	device_notice(engine, (const struct ipc_device_notice *)(const void *)notice);
}

/* The daemon changed what is traced or which faults are injected. */
static void take_probes(struct engine *engine, const struct ipc_hdr *notice, const int *fds,
			int nfds)
{
	int error;

	(void)notice;
	probe_refresh();
	if (nfds == 1) {
		error = probe_attach_ring(fds[0]);
		if (error)
			log_warn("this process cannot be traced: %s", strerror(-error));
		sys_close(fds[0]);
	}
	/* Events that follow refer to these paths. */
	if (trace_is_on())
		probe_emit_paths(engine);
}

int core_notices_open(struct engine *engine)
{
	int ret;

	engine_assert_locked(engine);
	engine_notices_clear(engine);
	ret = engine_on_notice(engine, IPC_DEVICE_NOTICE, take_device_notice, NULL);
	if (!ret)
		ret = av_calls_open(engine);
	return ret ? ret : engine_on_notice(engine, IPC_PROBES, take_probes, "tracing");
}
