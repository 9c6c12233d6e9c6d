/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/fdpass.h"
#include "base/syscalls.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#ifndef SO_PASSRIGHTS
#define SO_PASSRIGHTS 83
#endif

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

		memset(&control, 0, CMSG_SPACE(fd_bytes));
		msg.msg_control = control.bytes;
		msg.msg_controllen = CMSG_SPACE(fd_bytes);
		cmsg = CMSG_FIRSTHDR(&msg);
		cmsg->cmsg_level = SOL_SOCKET;
		cmsg->cmsg_type = SCM_RIGHTS;
		cmsg->cmsg_len = CMSG_LEN(fd_bytes);
		memcpy(CMSG_DATA(cmsg), fds, fd_bytes);
	}

	ssize_t sent = sys_sendmsg(sock, &msg, flags | MSG_NOSIGNAL);

	if (sent < 0)
		return -errno;
	return (size_t)sent == len ? 0 : -EMSGSIZE;
}

void fdpass_close(const int *fds, int nfds)
{
	for (int i = 0; i < nfds; i++) {
		if (fds[i] >= 0)
			sys_close(fds[i]);
	}
}

/* Copies all descriptors of the message to fds. The control buffer limits their number. */
static int fdpass_collect(struct msghdr *msg, int *fds)
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

ssize_t fdpass_recv_all(int sock, void *data, size_t max, int fds[FDPASS_MAX], int *nfds,
			bool *is_cut, int flags)
{
	/*
	 * The padding of the control buffer has space for one more descriptor than FDPASS_MAX,
	 * although no message has so many.
	 */
	int all[FDPASS_MAX + 1];
	union control_buffer control;
	struct iovec iov = {.iov_base = data, .iov_len = max};
	struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};
	ssize_t len;

	*nfds = 0;
	*is_cut = false;
	msg.msg_control = control.bytes;
	msg.msg_controllen = sizeof(control.bytes);
	len = sys_recvmsg(sock, &msg, flags | MSG_CMSG_CLOEXEC);
	if (len < 0)
		return -errno;
	*nfds = fdpass_collect(&msg, all);
	if (*nfds > 0)
		memcpy(fds, all, sizeof(int) * (size_t)*nfds);
	*is_cut = msg.msg_flags & MSG_CTRUNC;
	/*
	 * The caller cannot distinguish an empty message from the end of the stream, which has no
	 * descriptors.
	 */
	if (len == 0 && (*nfds > 0 || *is_cut))
		return -EPROTO;
	return msg.msg_flags & MSG_TRUNC ? -EMSGSIZE : len;
}

ssize_t fdpass_recv(int sock, void *data, size_t max, int *fds, int fds_max, int *nfds, int flags)
{
	int all[FDPASS_MAX];
	bool is_cut;
	ssize_t len = fdpass_recv_all(sock, data, max, all, nfds, &is_cut, flags);

	if (len >= 0 && *nfds > fds_max)
		len = -EPROTO;
	if (len < 0 || is_cut) {
		fdpass_close(all, *nfds);
		*nfds = len >= 0 ? FDPASS_LOST : 0;
		return len;
	}
	if (*nfds > 0)
		memcpy(fds, all, sizeof(int) * (size_t)*nfds);
	return len;
}

bool fdpass_refuse(int sock)
{
	int is_passed = 0;

	return setsockopt(sock, SOL_SOCKET, SO_PASSRIGHTS, &is_passed, sizeof(is_passed)) == 0;
}

bool fdpass_is_refused(int sock)
{
	int is_passed = 1;
	socklen_t len = sizeof(is_passed);

	return getsockopt(sock, SOL_SOCKET, SO_PASSRIGHTS, &is_passed, &len) == 0 && !is_passed;
}

bool fdpass_has_fds(int sock)
{
	struct msghdr msg = {0};

	/*
	 * With MSG_PEEK the kernel gives copies of the descriptors, for which there is no space,
	 * and the queue keeps them.
	 */
	return sys_recvmsg(sock, &msg, MSG_PEEK | MSG_DONTWAIT) >= 0 && msg.msg_flags & MSG_CTRUNC;
}
