/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_RSOCKET_SERVICE_H
#define USRDMA_RSOCKET_SERVICE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "base/timer.h"

/*
 * What must go on while the application is elsewhere: listeners accept, connections that were begun
 * are completed, quiet peers are asked whether they live. One thread a process does it; it starts
 * with the first item and sleeps while nothing happens.
 *
 * Embedded in the object that it serves, which removes it before it dies. fn runs in the service's
 * thread without any lock, when the descriptor is readable or the deadline has come.
 */
struct service_item {
	void (*fn)(struct service_item *item);
	int fd; /* -1: none */
	struct timer timer;
	struct list_head due; /* the timer is due and fn has not been called */
	uint64_t handle;      /* 0: not with the service */
};

void service_item_init(struct service_item *item, void (*fn)(struct service_item *item));

/*
 * Has the service look after the item: after its descriptor, if it is not -1. 0 or -errno. An item
 * that is there already stays as it is.
 */
int service_add(struct service_item *item, int fd) __attribute__((warn_unused_result));

/* When fn is to be called next for the time; TIMER_NEVER_NS: no more. */
void service_set_deadline(struct service_item *item, uint64_t deadline_ns);

/* Whether its descriptor is listened to: no, while fn could not take what is there. */
void service_set_hearing(struct service_item *item, bool hears);

/*
 * Ends it; afterwards fn does not run and will not. Harmless if it is not there. Must not be called
 * with a lock that fn takes. Within its own fn it returns at once.
 */
void service_remove(struct service_item *item);

/* In the child of a fork(), which has no such thread. */
void service_after_fork(void);

#endif
