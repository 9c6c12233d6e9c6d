/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_CORE_MEMORY_DOMAIN_H
#define USRDMA_CORE_MEMORY_DOMAIN_H

#include <stddef.h>

#include "core/object/objects.h"

/*
 * Thread domains and parent domains. A thread domain is the application's promise that only one
 * thread uses the objects created in it. Its QPs belong to one of the shards other than 0
 * (core/engine/shard.h). A parent domain refers to a protection domain and can contain the
 * application's allocator for queues.
 */

struct ibv_td *td_alloc(struct ibv_context *context, struct ibv_td_init_attr *attr);
int td_dealloc(struct ibv_td *td);
struct ibv_pd *parent_domain_alloc(struct ibv_context *context,
				   struct ibv_parent_domain_init_attr *attr);
/* ibv_dealloc_pd() of a parent domain: releases its PD and thread domain. engine.lock held. */
void parent_domain_release(struct pd *pd);
/* The shard of the QPs of a thread domain. */
uint32_t td_shard(struct ibv_td *td);

/* resource_type of the application's allocator (ibv_alloc_parent_domain()). */
enum queue_kind {
	QUEUE_SEND = 1,
	QUEUE_RECV,
	QUEUE_SRQ,
};

/*
 * Allocates zeroed memory for a queue. *owner is the PD whose allocator allocated it, or NULL.
 * Returns NULL if there is no memory. Called without engine.lock, because it calls the application.
 */
void *queue_memory_alloc(struct pd *pd, size_t bytes, enum queue_kind kind, struct pd **owner);
void queue_memory_free(struct pd *owner, void *memory, size_t bytes, enum queue_kind kind);

#endif
