/* SPDX-License-Identifier: BSD-2-Clause */
#include "ipc/client.h"

#include <errno.h>
#include <pthread.h>
#include <stddef.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/fdpass.h"
#include "base/log.h"
#include "ipc/spawn.h"

/*
 * How often a connection is tried again: a daemon that is just leaving hangs up on whoever came in its last moment, and
 * the one started in its place can lose its name to yet another. Each round needs such a coincidence anew.
 */
#define OPEN_ATTEMPTS 16

/* Connects to the daemon's name: a socket, -ECONNREFUSED if nobody listens, or -errno. */
static int connect_once(void)
{
	struct sockaddr_un addr = {.sun_family = AF_UNIX};
	socklen_t len =
		(socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + sizeof(IPC_NAME) - 1);
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return -errno;
	/* An abstract name: it starts with a NUL and has no terminator. */
	memcpy(addr.sun_path + 1, IPC_NAME, sizeof(IPC_NAME) - 1);
	while (connect(fd, (struct sockaddr *)&addr, len) < 0) {
		int error = errno;

		if (error == EINTR)
			continue;
		close(fd);
		return -error;
	}
	return fd;
}

/* Whether the daemon's uid is one to trust with this process's memory. */
static int peer_check(int fd, enum ipc_role role)
{
	struct ucred cred;
	socklen_t len = sizeof(cred);
	uid_t own = geteuid();

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) < 0)
		return -errno;
	if (cred.uid == 0 || cred.uid == own)
		return 0;
	/* root may look at anybody's daemon: `usrdma status` hands it nothing but a file to write into. */
	if (role == IPC_ROLE_CONTROL && own == 0)
		return 0;
	log_user(
		"the RDMA daemon of this machine (pid %ld) belongs to uid %u and serves only that user: "
		"enable the system service (systemctl enable --now usrdmad) or stop that daemon",
		(long)cred.pid, (unsigned int)cred.uid);
	return -EACCES;
}

static void client_die(struct ipc_client *client)
{
	if (client->fd >= 0)
		close(client->fd);
	client->fd = -1;
}

/*
 * Receives the answer to req; -EPROTO for anything else, -ENODEV at the end of the stream. A daemon that hung up may
 * have left word why; the kernel then tells the hang-up first, once.
 */
static int reply_receive(int fd, const struct ipc_hdr *req, void *reply, uint32_t reply_len)
{
	bool was_reset = false;
	ssize_t len;
	int nfds;

	for (;;) {
		len = fdpass_recv(fd, reply, reply_len, NULL, 0, &nfds, 0);
		if (len == -ECONNRESET && !was_reset)
			was_reset = true;
		else if (len != -EINTR)
			break;
	}
	if (len == 0)
		return -ENODEV;
	if (len < 0)
		return (int)len;
	return ipc_reply_check(req, reply, (size_t)len, reply_len);
}

/* client->lock held, or the client not yet shared. */
static int send_locked(struct ipc_client *client, void *req, uint32_t req_len, uint16_t flags,
		       const int *fds, int nfds)
{
	struct ipc_hdr *hdr = req;
	int error;

	hdr->flags = flags;
	hdr->seq = ++client->seq;
	hdr->status = 0;
	hdr->len = req_len;
	do {
		error = fdpass_send(client->fd, req, req_len, fds, nfds, 0);
	} while (error == -EINTR);
	return error;
}

static int lose_daemon(struct ipc_client *client, const struct ipc_hdr *req, int error)
{
	errno = -error;
	log_warn("lost the daemon during %s: %m", ipc_type_info(req->type)->name);
	client_die(client);
	return -ENODEV;
}

/* Of a send. What else the kernel would not send (a bad descriptor, no memory) says nothing about the daemon. */
static bool is_hang_up(int error)
{
	return error == -EPIPE || error == -ECONNRESET;
}

/* client->lock held, or the client not yet shared. */
static int call_locked(struct ipc_client *client, void *req, uint32_t req_len, const int *fds,
		       int nfds, void *reply, uint32_t reply_len)
{
	int error;

	if (client->fd < 0)
		return -ENODEV;
	error = send_locked(client, req, req_len, 0, fds, nfds);
	if (error && !is_hang_up(error))
		return error;
	error = reply_receive(client->fd, req, reply, reply_len);
	return error ? lose_daemon(client, req, error) : ((struct ipc_hdr *)reply)->status;
}

/* client->lock held. */
static int tell_locked(struct ipc_client *client, void *req, uint32_t req_len)
{
	int error;

	if (client->fd < 0)
		return -ENODEV;
	error = send_locked(client, req, req_len, IPC_UNANSWERED, NULL, 0);
	return is_hang_up(error) ? lose_daemon(client, req, error) : error;
}

int ipc_call(struct ipc_client *client, void *req, uint32_t req_len, const int *fds, int nfds,
	     void *reply, uint32_t reply_len)
{
	struct ipc_hdr *hdr = req;
	const struct ipc_type_info *info = ipc_type_info(hdr->type);
	int cancel_state, status;

	if (!info || info->request_bytes != req_len || info->reply_bytes != reply_len ||
	    info->request_fds != nfds)
		return -EINVAL;

	/* A thread cancelled between request and answer would leave the answer to the next caller. */
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state);
	pthread_mutex_lock(&client->lock);
	status = call_locked(client, req, req_len, fds, nfds, reply, reply_len);
	pthread_mutex_unlock(&client->lock);
	pthread_setcancelstate(cancel_state, NULL);
	return status;
}

int ipc_tell(struct ipc_client *client, void *req, uint32_t req_len)
{
	struct ipc_hdr *hdr = req;
	const struct ipc_type_info *info = ipc_type_info(hdr->type);
	int cancel_state, error;

	if (!info || info->request_bytes != req_len || !info->may_be_unanswered)
		return -EINVAL;
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state);
	pthread_mutex_lock(&client->lock);
	error = tell_locked(client, req, req_len);
	pthread_mutex_unlock(&client->lock);
	pthread_setcancelstate(cancel_state, NULL);
	return error;
}

/* Says HELLO on client->fd. -EAGAIN: the daemon was just leaving. */
static int hello(struct ipc_client *client, enum ipc_role role)
{
	struct ipc_hello request = {
		.hdr.type = IPC_HELLO,
		.magic = IPC_MAGIC,
		.version = IPC_VERSION,
		.role = role,
	};
	int error = call_locked(client, &request, sizeof(request), NULL, 0, &client->hello,
				sizeof(client->hello));

	if (error == -EPROTO)
		log_user("the running usrdmad speaks another protocol version than this library "
			 "(%d): end the programs that use it, or restart it",
			 IPC_VERSION);
	else if (error == -ENOSPC || error == -EDQUOT)
		log_user("usrdmad has no place left for this program: as many %s",
			 error == -EDQUOT ? "of this user's use it as may" : "use it as it serves");
	return error == -ENODEV ? -EAGAIN : error;
}

/* The program would say no more than that it finds no device. */
static void explain_spawn(int error)
{
	if (error == -ENODEV)
		log_user(
			"no RDMA devices: usrdmad was started and ended at once; run 'usrdmad --foreground' to see why");
	else
		log_user(
			"no RDMA devices: usrdmad cannot be started (USRDMA_LOG=error says which): %s",
			strerror(-error));
}

/* -EAGAIN: the next attempt may find a daemon. */
static int open_once(struct ipc_client *client, enum ipc_role role)
{
	int error;

	client->fd = connect_once();
	if (client->fd < 0) {
		error = client->fd;
		client->fd = -1;
		if (error != -ECONNREFUSED)
			return error;
		error = ipc_daemon_spawn();
		if (error && role != IPC_ROLE_CONTROL)
			explain_spawn(error);
		return error ? error : -EAGAIN;
	}
	error = peer_check(client->fd, role);
	if (!error)
		error = hello(client, role);
	if (error)
		client_die(client);
	return error;
}

int ipc_client_open(struct ipc_client *client, enum ipc_role role)
{
	int cancel_state, error = -EAGAIN;

	*client = (struct ipc_client){.fd = -1};
	pthread_mutex_init(&client->lock, NULL);
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state);
	for (int attempt = 0; attempt < OPEN_ATTEMPTS && error == -EAGAIN; attempt++)
		error = open_once(client, role);
	pthread_setcancelstate(cancel_state, NULL);
	return error == -EAGAIN ? -ENODEV : error;
}

void ipc_client_close(struct ipc_client *client)
{
	pthread_mutex_lock(&client->lock);
	client_die(client);
	pthread_mutex_unlock(&client->lock);
	pthread_mutex_destroy(&client->lock);
}

void ipc_client_forget(struct ipc_client *client)
{
	/* Another thread of the parent may have held the lock when fork() copied it. */
	pthread_mutex_init(&client->lock, NULL);
	client_die(client);
}

void ipc_explain_wire(uint32_t wire_errno)
{
	static atomic_flag is_explained = ATOMIC_FLAG_INIT;

	if (!wire_errno || atomic_flag_test_and_set(&is_explained))
		return;
	if (wire_errno == EADDRINUSE)
		log_user(
			"other hosts cannot be reached: UDP port 4791 of this machine is taken, by "
			"the kernel's rxe perhaps ('rdma link show' lists it, 'rdma link delete NAME' ends "
			"it); programs started afterwards can");
	else
		log_user("other hosts cannot be reached: UDP port 4791: %s",
			 strerror((int)wire_errno));
}

int ipc_recv(int fd, bool dont_wait, void *msg, uint32_t msg_max, int *fds, int *nfds)
{
	ssize_t len = fdpass_recv(fd, msg, msg_max, fds, IPC_FDS_MAX, nfds,
				  dont_wait ? MSG_DONTWAIT : 0);

	if (len == 0 || len == -ECONNRESET)
		return -ENODEV;
	if (len == -EMSGSIZE)
		return -EPROTO;
	if (len < 0)
		return (int)len;
	if (ipc_push_check(msg, (size_t)len, *nfds)) {
		fdpass_close(fds, *nfds);
		*nfds = 0;
		return -EPROTO;
	}
	return (int)len;
}

int ipc_send(int fd, const void *msg, uint32_t len, const int *fds, int nfds)
{
	return fdpass_send(fd, msg, len, fds, nfds, MSG_DONTWAIT);
}
