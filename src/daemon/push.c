/* SPDX-License-Identifier: BSD-2-Clause */
#include "daemon/push.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemon/reserve.h"
#include "ipc/client.h"

/* A queued message. The list of its push owns it and its descriptors. */
struct pending {
	struct list_head node;
	uint32_t len;
	uid_t uid; /* the user to whom the closing of the descriptors is accounted */
	int nfds;
	int fds[IPC_FDS_MAX];
	uint8_t bytes[];
};

void push_init(struct push *push, uv_loop_t *loop, struct closer *closer,
	       bool (*may_keep)(struct push *push, int fd), void (*on_failed)(struct push *push),
	       void (*on_closed)(struct push *push))
{
	*push = (struct push){.loop = loop,
			      .closer = closer,
			      .fd = -1,
			      .may_keep = may_keep,
			      .on_failed = on_failed,
			      .on_closed = on_closed};
	list_init(&push->pending);
}

int push_socketpair(int *ours, int *client_end)
{
	int ends[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends))
		return -errno;
	if (reserve_holds(ends[0]) || reserve_holds(ends[1])) {
		close(ends[0]);
		close(ends[1]);
		return -EMFILE;
	}
	/*
	 * The client's sends fail, so the daemon's end contains no message (and no descriptor) when
	 * it is closed.
	 */
	shutdown(ends[0], SHUT_RD);
	*ours = ends[0];
	*client_end = ends[1];
	return 0;
}

int push_open(struct push *push, int *client_end)
{
	int fd = -1, error;

	if (push->has_poll)
		return -EEXIST;
	error = push_socketpair(&fd, client_end);
	if (error)
		return error;
	if (push->fd >= 0)
		close(push->fd);
	push->fd = fd;
	push->is_open = true;
	return 0;
}

static void pending_free(struct push *push, struct pending *pending)
{
	list_del(&pending->node);
	push->pending_count--;
	push->fd_count -= (uint32_t)pending->nfds;
	for (int i = 0; i < pending->nfds; i++)
		closer_add(push->closer, pending->uid, pending->fds[i]);
	free(pending);
}

static void push_on_writable(uv_poll_t *poll, int status, int events)
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

/* push_on_writable() is called when the socket has buffer space. */
static int push_wait_writable(struct push *push)
{
	if (!push->has_poll) {
		int error = uv_poll_init(push->loop, &push->poll, push->fd);

		if (error)
			return error;
		push->has_poll = true;
	}
	return uv_poll_start(&push->poll, UV_WRITABLE, push_on_writable);
}

static int enqueue(struct push *push, const void *msg, uint32_t len, const int *fds, int nfds,
		   uid_t uid)
{
	struct pending *pending;
	int error;

	if (push->pending_count >= (nfds ? PUSH_PENDING_MAX : PUSH_PENDING_ALL_MAX))
		return -ENOBUFS;
	pending = malloc(sizeof(*pending) + len);
	if (!pending)
		return -ENOMEM;
	pending->len = len;
	pending->uid = uid;
	pending->nfds = 0;
	memcpy(pending->bytes, msg, len);
	list_add_tail(&pending->node, &push->pending);
	push->pending_count++;
	for (int i = 0; i < nfds; i++) {
		int copy = fcntl(fds[i], F_DUPFD_CLOEXEC, 0);

		if (copy < 0) {
			error = -errno;
			goto err_pending;
		}
		pending->fds[pending->nfds++] = copy;
		push->fd_count++;
		error = -EMFILE;
		if (!push->may_keep(push, copy))
			goto err_pending;
	}
	error = push_wait_writable(push);
	if (!error)
		return 0;

err_pending:
	pending_free(push, pending);
	return error;
}

int push_send(struct push *push, const void *msg, uint32_t len, const int *fds, int nfds, uid_t uid)
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
	return enqueue(push, msg, len, fds, nfds, uid);
}

static void push_on_poll_closed(uv_handle_t *handle)
{
	struct push *push = container_of(handle, struct push, poll);

	push->on_closed(push);
}

void push_close(struct push *push)
{
	struct pending *pending, *next;

	list_for_each_entry_safe(pending, next, &push->pending, node)
		pending_free(push, pending);
	if (push->has_poll)
		uv_close((uv_handle_t *)&push->poll, push_on_poll_closed);
	close(push->fd);
	push->fd = -1;
	push->is_open = false;
	if (!push->has_poll)
		push->on_closed(push);
}
