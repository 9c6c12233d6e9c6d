/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_DAEMON_GSI_PROBE_H
#define USRDMA_DAEMON_GSI_PROBE_H

#include "base/fault.h"
#include "base/trace.h"
#include "daemon/gsi.h"

/* Trace and fault points of the MADs between communication managers, on this host and on others. */

/* Called while tracing or fault injection is enabled. */
PROBE_COLD int gsi_probe_send(struct gsi *gsi, const struct cm_path *path, const void *mad);
PROBE_COLD void gsi_probe_receive(struct gsi *gsi, struct cm *cm, const struct cm_path *path,
				  const void *mad, size_t len, uint64_t now_ns);

/* Sends a MAD that a rule has delayed. If it cannot be sent any more, it is lost. */
PROBE_COLD void gsi_probe_send_late(struct gsi *gsi, const struct cm_path *path, const void *mad);

/* cm_receive() with the fault point mad.receive and the trace point "mad received". */
static inline void gsi_receive(struct gsi *gsi, struct cm *cm, const struct cm_path *path,
			       const void *mad, size_t len, uint64_t now_ns)
{
	if (probe_is_on(PROBE_TRACE | PROBE_FAULT))
		gsi_probe_receive(gsi, cm, path, mad, len, now_ns);
	else
		cm_receive(cm, path, mad, len, now_ns);
}

#endif
