/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/fdpass.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

union control_buffer {
	struct cmsghdr align;
	char bytes[CMSG_SPACE(sizeof(int) * FDPASS_MAX)];
};

int fdpass_send(int sock, const void *data, size_t len, const int *fds, int nfds, int flags)
{
	struct iovec iov = {.iov_base = (void *)data, .iov_len = len};
	struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};
	union control_buffer control;

	if (nfds < 0 || nfds > FDPASS_MAX)
		return -EINVAL;
	if (nfds > 0) {
		size_t fd_bytes = sizeof(int) * (size_t)nfds;
		struct cmsghdr *cmsg;

		memset(&control, 0, sizeof(control));
		msg.msg_control = control.bytes;
		msg.msg_controllen = CMSG_SPACE(fd_bytes);
		cmsg = CMSG_FIRSTHDR(&msg);
		cmsg->cmsg_level = SOL_SOCKET;
		cmsg->cmsg_type = SCM_RIGHTS;
		cmsg->cmsg_len = CMSG_LEN(fd_bytes);
		memcpy(CMSG_DATA(cmsg), fds, fd_bytes);
	}

	ssize_t sent = sendmsg(sock, &msg, flags | MSG_NOSIGNAL);

	if (sent < 0)
		return -errno;
	return (size_t)sent == len ? 0 : -EMSGSIZE;
}

void fdpass_close(const int *fds, int nfds)
{
	static const struct linger none = {.l_onoff = 0};

	for (int i = 0; i < nfds; i++) {
		if (fds[i] < 0)
			continue;
		/* Fails on what is no socket, and that is as good. */
		(void)setsockopt(fds[i], SOL_SOCKET, SO_LINGER, &none, sizeof(none));
		close(fds[i]);
	}
}

/* Takes every descriptor out of the message: at most FDPASS_MAX, which is what the buffer holds. */
static int collect(struct msghdr *msg, int *fds)
{
	int count = 0;

	for (struct cmsghdr *cmsg = CMSG_FIRSTHDR(msg); cmsg; cmsg = CMSG_NXTHDR(msg, cmsg)) {
		if (cmsg->cmsg_level != SOL_SOCKET || cmsg->cmsg_type != SCM_RIGHTS)
			continue;

		size_t bytes = cmsg->cmsg_len - CMSG_LEN(0);

		memcpy(fds + count, CMSG_DATA(cmsg), bytes);
		count += (int)(bytes / sizeof(int));
	}
	return count;
}

ssize_t fdpass_recv(int sock, void *data, size_t max, int *fds, int fds_max, int *nfds, int flags)
{
	/* A control buffer's padding can make room for one descriptor more than it was sized for. */
	int all[FDPASS_MAX + 1];
	union control_buffer control;
	struct iovec iov = {.iov_base = data, .iov_len = max};
	struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};
	ssize_t len;
	int count;

	*nfds = 0;
	msg.msg_control = control.bytes;
	msg.msg_controllen = sizeof(control.bytes);
	len = recvmsg(sock, &msg, flags | MSG_CMSG_CLOEXEC);
	if (len < 0)
		return -errno;

	count = collect(&msg, all);
	/* An empty message looks like the end of the stream, where nobody expects descriptors. */
	if ((msg.msg_flags & MSG_CTRUNC) || count > fds_max || (len == 0 && count > 0)) {
		fdpass_close(all, count);
		return -EPROTO;
	}
	if (msg.msg_flags & MSG_TRUNC) {
		fdpass_close(all, count);
		return -EMSGSIZE;
	}
	if (count > 0)
		memcpy(fds, all, sizeof(int) * (size_t)count);
	*nfds = count;
	return len;
}
