/* SPDX-License-Identifier: BSD-2-Clause */
#include "ipc/queue.h"

#include <stdlib.h>

void ipc_queue_init(struct ipc_queue *queue)
{
	pthread_mutex_init(&queue->lock, NULL);
	queue->first = NULL;
	queue->last = NULL;
}

void ipc_queue_fini(struct ipc_queue *queue)
{
	pthread_mutex_destroy(&queue->lock);
}

void ipc_queue_push(struct ipc_queue *queue, struct ipc_queued *queued)
{
	queued->next = NULL;
	pthread_mutex_lock(&queue->lock);
	if (queue->last)
		queue->last->next = queued;
	else
		queue->first = queued;
	queue->last = queued;
	pthread_mutex_unlock(&queue->lock);
}

struct ipc_queued *ipc_queue_head(struct ipc_queue *queue)
{
	struct ipc_queued *head;

	pthread_mutex_lock(&queue->lock);
	head = queue->first;
	pthread_mutex_unlock(&queue->lock);
	return head;
}

void ipc_queue_pop(struct ipc_queue *queue)
{
	struct ipc_queued *head;

	pthread_mutex_lock(&queue->lock);
	head = queue->first;
	queue->first = head->next;
	if (!head->next)
		queue->last = NULL;
	pthread_mutex_unlock(&queue->lock);
	free(head);
}
