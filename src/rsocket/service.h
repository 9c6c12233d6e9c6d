/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_RSOCKET_SERVICE_H
#define USRDMA_RSOCKET_SERVICE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "base/timer.h"

/*
 * Work that must proceed while no application thread is in a call: accepting connections of
 * listeners, completing connections that were started, and sending keepalives. One thread for each
 * process does it. The thread is started with the first item and sleeps while there is no work.
 *
 * The item is embedded in the object that it serves; the owner removes it before it frees the
 * object. The service thread calls fn without any lock when the descriptor is readable or the
 * deadline has passed.
 */
struct service_item {
	void (*fn)(struct service_item *item);
	int fd; /* -1: no descriptor */
	struct timer timer;
	struct list_head due; /* the deadline has passed and fn has not been called */
	uint64_t handle;      /* 0: not registered */
};

void service_item_init(struct service_item *item, void (*fn)(struct service_item *item));

/*
 * Registers the item and, if fd is not -1, watches the descriptor. 0 or -errno. An item that is
 * registered already is not changed.
 */
int service_add(struct service_item *item, int fd) __attribute__((warn_unused_result));

/* Sets the time of the next call of fn; TIMER_NEVER_NS: cancels it. */
void service_set_deadline(struct service_item *item, uint64_t deadline_ns);

/* Enables or disables watching of the descriptor. Disabled while fn cannot process the events. */
void service_set_watching(struct service_item *item, bool is_watched);

/*
 * Unregisters the item. After the return fn neither runs nor is called again. Has no effect if the
 * item is not registered. Must not be called with a lock that fn takes. Within the item's own fn it
 * returns without waiting.
 */
void service_remove(struct service_item *item);

/* fork() handlers. The parent holds the lock during fork(). The child has no service thread. */
void service_before_fork(void);
void service_after_fork_in_parent(void);
void service_after_fork_in_child(void);

#endif
