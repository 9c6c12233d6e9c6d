/* SPDX-License-Identifier: BSD-2-Clause */
#include "daemon/push.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fdpass.h"
#include "ipc/client.h"

/* A message that waits. Owned by its push's list, with its descriptors. */
struct pending {
	struct list_head node;
	uint32_t len;
	int nfds;
	int fds[IPC_FDS_MAX];
	uint8_t bytes[];
};

void push_init(struct push *push, void (*on_failed)(struct push *push),
	       void (*on_closed)(struct push *push))
{
	*push = (struct push){.fd = -1, .on_failed = on_failed, .on_closed = on_closed};
	list_init(&push->pending);
}

static bool is_seqpacket(int fd)
{
	int type, domain;
	socklen_t len = sizeof(int);

	if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &len) < 0 || type != SOCK_SEQPACKET)
		return false;
	len = sizeof(int);
	return getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &len) == 0 && domain == AF_UNIX;
}

int push_open(struct push *push, uv_loop_t *loop, int fd)
{
	int error;

	if (!is_seqpacket(fd))
		return -EINVAL;
	error = uv_poll_init(loop, &push->poll, fd);
	if (error)
		return error;
	push->fd = fd;
	push->is_open = true;
	return 0;
}

static void pending_free(struct push *push, struct pending *pending)
{
	list_del(&pending->node);
	push->pending_count--;
	fdpass_close(pending->fds, pending->nfds);
	free(pending);
}

static void on_writable(uv_poll_t *poll, int status, int events)
{
	struct push *push = container_of(poll, struct push, poll);
	struct pending *pending, *next;

	(void)events;
	list_for_each_entry_safe(pending, next, &push->pending, node) {
		int error = status ? status :
				     ipc_send(push->fd, pending->bytes, pending->len, pending->fds,
					      pending->nfds);

		if (error == -EAGAIN)
			return;
		if (error) {
			uv_poll_stop(poll);
			push->on_failed(push);
			return;
		}
		pending_free(push, pending);
	}
	uv_poll_stop(poll);
}

static int enqueue(struct push *push, const void *msg, uint32_t len, const int *fds, int nfds)
{
	struct pending *pending;

	if (push->pending_count >= (nfds ? PUSH_PENDING_MAX : PUSH_PENDING_ALL_MAX))
		return -ENOBUFS;
	pending = malloc(sizeof(*pending) + len);
	if (!pending)
		return -ENOMEM;
	pending->len = len;
	pending->nfds = 0;
	memcpy(pending->bytes, msg, len);
	list_add_tail(&pending->node, &push->pending);
	push->pending_count++;
	for (int i = 0; i < nfds; i++) {
		int copy = fcntl(fds[i], F_DUPFD_CLOEXEC, 0);

		if (copy < 0) {
			int error = -errno;

			pending_free(push, pending);
			return error;
		}
		pending->fds[pending->nfds++] = copy;
	}
	return uv_poll_start(&push->poll, UV_WRITABLE, on_writable);
}

int push_send(struct push *push, const void *msg, uint32_t len, const int *fds, int nfds)
{
	int error;

	if (!push->is_open)
		return -ENOTCONN;
	if (nfds > IPC_FDS_MAX)
		return -EINVAL;
	if (list_is_empty(&push->pending)) {
		error = ipc_send(push->fd, msg, len, fds, nfds);
		if (error != -EAGAIN)
			return error;
	}
	return enqueue(push, msg, len, fds, nfds);
}

static void on_poll_closed(uv_handle_t *handle)
{
	struct push *push = container_of(handle, struct push, poll);

	push->on_closed(push);
}

void push_close(struct push *push)
{
	struct pending *pending, *next;

	list_for_each_entry_safe(pending, next, &push->pending, node)
		pending_free(push, pending);
	uv_close((uv_handle_t *)&push->poll, on_poll_closed);
	close(push->fd);
	push->fd = -1;
	push->is_open = false;
}
