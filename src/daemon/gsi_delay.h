/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_DAEMON_GSI_DELAY_H
#define USRDMA_DAEMON_GSI_DELAY_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/list.h"
#include "cm/cm.h"

struct gsi;

/* MADs that a fault rule delays. Part of struct gsi; one thread. */
struct gsi_delay {
	struct list_head queue; /* by the time of delivery */
};

/*
 * Limit of delayed MADs for the rules of each user, and for those of the daemon's user. Further
 * MADs are dropped and the sender retransmits them.
 */
#define GSI_DELAYED_MAX 1024u

void gsi_delay_init(struct gsi_delay *delay);
void gsi_delay_fini(struct gsi_delay *delay);

/*
 * Stores a copy of the MAD until due_ns. is_received: it is then passed to the CM; otherwise it is
 * sent. uid: the user whose rule delays it.
 */
void gsi_delay_add(struct gsi_delay *delay, const struct cm_path *path, const void *mad,
		   bool is_received, uid_t uid, uint64_t due_ns);

/* When to call gsi_delay_run() next; TIMER_NEVER_NS: no MAD is delayed. */
uint64_t gsi_delay_next(const struct gsi_delay *delay);

/* Sends and delivers the MADs that are due. */
void gsi_delay_run(struct gsi *gsi, struct cm *cm, uint64_t now_ns);

#endif
