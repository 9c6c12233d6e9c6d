/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_CORE_DOMAIN_H
#define USRDMA_CORE_DOMAIN_H

#include <stddef.h>

#include "core/objects.h"

/*
 * Thread domains and parent domains. A thread domain promises that one thread alone uses what is made in it; one lock
 * serves a whole process here, so that the promise changes nothing. A parent domain is a protection domain under
 * another name, with the application's allocator for queues.
 */

struct ibv_td *td_alloc(struct ibv_context *context, struct ibv_td_init_attr *attr);
int td_dealloc(struct ibv_td *td);
struct ibv_pd *parent_domain_alloc(struct ibv_context *context,
				   struct ibv_parent_domain_init_attr *attr);
/* ibv_dealloc_pd of one: what it was made of is free again. engine.lock held. */
void parent_domain_release(struct pd *pd);

/* What an application's allocator is told that it allocates for (ibv_alloc_parent_domain's resource_type). */
enum queue_kind {
	QUEUE_SEND = 1,
	QUEUE_RECV,
	QUEUE_SRQ,
};

/* Memory of a queue, zeroed; whose it is, is remembered in *owner. NULL: there is none. Without engine.lock: calls the
 * application. */
void *queue_memory_alloc(struct pd *pd, size_t bytes, enum queue_kind kind, struct pd **owner);
void queue_memory_free(struct pd *owner, void *memory, size_t bytes, enum queue_kind kind);

#endif
