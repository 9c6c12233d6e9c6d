/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_IPC_QUEUE_H
#define USRDMA_IPC_QUEUE_H

#include <pthread.h>
#include <stdint.h>

#include "ipc/msg.h"

/* Maximum size of a queued request. */
#define IPC_QUEUED_MAX 48

/* A request without a reply that was not sent yet. Allocated by malloc(). */
struct ipc_queued {
	struct ipc_queued *next;
	uint32_t bytes;
	union {
		struct ipc_hdr hdr;
		uint8_t bytes[IPC_QUEUED_MAX];
	} msg;
};

/*
 * The queued requests of a client, oldest first. `lock` guards the list and is never held while
 * waiting.
 */
struct ipc_queue {
	pthread_mutex_t lock;
	struct ipc_queued *first;
	struct ipc_queued *last;
};

void ipc_queue_init(struct ipc_queue *queue);
/* The queue must be empty. */
void ipc_queue_fini(struct ipc_queue *queue);

void ipc_queue_push(struct ipc_queue *queue, struct ipc_queued *queued);

/* NULL: the queue is empty. */
struct ipc_queued *ipc_queue_head(struct ipc_queue *queue);

/* Removes and frees the head. One thread at a time may remove entries. */
void ipc_queue_pop(struct ipc_queue *queue);

#endif
