/* SPDX-License-Identifier: BSD-2-Clause */
#include "ipc/client.h"

#include <errno.h>
#include <pthread.h>
#include <stddef.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/fdpass.h"
#include "base/checks.h"
#include "base/log.h"
#include "base/syscalls.h"
#include "base/trace_ring.h"
#include "ipc/daemon_end.h"
#include "ipc/explain.h"
#include "ipc/known_uid.h"
#include "ipc/probe.h"
#include "ipc/spawn.h"

/*
 * Attempts to connect. A daemon that is exiting closes the connections that it has not accepted,
 * and a newly started daemon can lose the socket name to another one. Each retry requires such a
 * race again.
 */
#define OPEN_ATTEMPTS 16

/* Maximum time in which a daemon of another protocol version that has no clients ends. */
#define OUTDATED_WAIT_MS 1000

/*
 * client->fd is cleared first: the child of a fork() in between must not close another file that
 * has this number by then.
 */
static void client_die(struct ipc_client *client)
{
	int fd = client->fd;

	client->fd = -1;
	if (fd >= 0)
		sys_close(fd);
}

/*
 * Connects client->fd to the daemon's socket name. -ECONNREFUSED: no process listens; or -errno.
 * client->fd is set before connect() blocks, so that the child of a fork() can close its copy.
 */
static int connect_once(struct ipc_client *client)
{
	struct sockaddr_un addr = {.sun_family = AF_UNIX};
	socklen_t len =
		(socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + sizeof(IPC_NAME) - 1);

	client->fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (client->fd < 0)
		return -errno;
	/* An abstract socket name starts with a NUL byte and has no terminator. */
	memcpy(addr.sun_path + 1, IPC_NAME, sizeof(IPC_NAME) - 1);
	while (sys_connect(client->fd, (struct sockaddr *)&addr, len) < 0) {
		int error = errno;

		if (error == EINTR)
			continue;
		client_die(client);
		return -error;
	}
	return 0;
}

/*
 * Checks that the daemon, which gets access to this process's memory, runs as root or as this user.
 * Stores who the daemon is, which cannot be determined any more after its end. 0 or -errno.
 */
static int peer_check(struct ipc_client *client, enum ipc_role role)
{
	struct ucred cred;
	socklen_t len = sizeof(cred);
	uid_t own = geteuid();
	bool is_known;

	if (getsockopt(client->fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) < 0)
		return -errno;
	client->daemon_pid = cred.pid;
	client->daemon_uid = cred.uid;
	client->is_daemon_elsewhere = ipc_is_in_other_pid_namespace(cred.pid);
	if (cred.uid == 0)
		return 0;
	is_known = known_uid(cred.uid);
	if (cred.uid == own && is_known)
		return 0;
	/*
	 * `usrdma status` of root may query the daemon of any user: it exposes no memory of its
	 * process to the daemon.
	 */
	if (role == IPC_ROLE_CONTROL && own == 0)
		return 0;
	if (is_known)
		ipc_explain_other_user(&cred);
	else
		ipc_explain_unknown_user(&cred, access("/proc/self/uid_map", R_OK) ? errno : 0);
	return -EACCES;
}

/*
 * Receives the reply to req. -EPROTO: another message; -ENODEV: end of the stream. If the daemon
 * sent an error reply and closed the connection, the kernel may report ECONNRESET once before the
 * reply can be read.
 */
static int reply_receive(int fd, const struct ipc_hdr *req, void *reply, uint32_t reply_len,
			 int *passed, int *nfds)
{
	int passed_max = ipc_type_info(req->type)->reply_fds;
	bool was_reset = false;
	ssize_t len;

	for (;;) {
		len = fdpass_recv(fd, reply, reply_len, passed, passed_max, nfds, 0);
		if (len == -ECONNRESET && !was_reset)
			was_reset = true;
		else if (len != -EINTR)
			break;
	}
	if (len == 0)
		return -ENODEV;
	if (len < 0)
		return (int)len;
	if (!ipc_reply_check(req, reply, (size_t)len, reply_len, *nfds))
		return 0;
	fdpass_close(passed, *nfds);
	return -EPROTO;
}

/* Called with client->lock held. */
static int client_send_locked(struct ipc_client *client, void *req, uint32_t req_len,
			      uint16_t flags, const int *fds, int nfds, int send_flags)
{
	struct ipc_hdr *hdr = req;
	int error;

	mutex_assert_locked(&client->lock);
	hdr->flags = flags;
	hdr->seq = ++client->seq;
	hdr->status = 0;
	hdr->len = req_len;
	trace_ipc(TRACE_IPC_REQUEST, req);
	do {
		error = fdpass_send(client->fd, req, req_len, fds, nfds, send_flags);
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

/*
 * Whether an error of a send means that the daemon closed the connection. Other errors (bad
 * descriptor, no memory) do not.
 */
static bool is_hang_up(int error)
{
	return error == -EPIPE || error == -ECONNRESET;
}

/* Called with client->lock held. */
static int send_locked(struct ipc_client *client, void *req, uint32_t req_len, int send_flags)
{
	int error;

	mutex_assert_locked(&client->lock);
	if (client->fd < 0)
		return -ENODEV;
	error = client_send_locked(client, req, req_len, IPC_UNANSWERED, NULL, 0, send_flags);
	return is_hang_up(error) ? lose_daemon(client, req, error) : error;
}

/* Whether a send may succeed later. All other errors mean that the connection is unusable. */
static bool is_send_shortage(int error)
{
	return error == -EAGAIN || error == -ENOMEM || error == -ENOBUFS;
}

/*
 * Sends the queued requests. Called with client->lock held. 0: the queue is empty; or the error of
 * a shortage.
 */
static int queue_send_locked(struct ipc_client *client, int send_flags)
{
	struct ipc_queued *head;

	mutex_assert_locked(&client->lock);
	while ((head = ipc_queue_head(&client->queue))) {
		int error = send_locked(client, &head->msg, head->bytes, send_flags);

		if (is_send_shortage(error))
			return error;
		ipc_queue_pop(&client->queue);
	}
	return 0;
}

/* As ipc_flush(). Called with cancellation disabled. */
static int queue_try_send(struct ipc_client *client)
{
	int error = 0;

	/*
	 * The loop: a request may be queued after the last look at the queue and before the lock is
	 * released.
	 */
	while (!error && ipc_queue_head(&client->queue)) {
		if (pthread_mutex_trylock(&client->lock))
			return -EAGAIN;
		error = queue_send_locked(client, MSG_DONTWAIT);
		pthread_mutex_unlock(&client->lock);
	}
	return error ? -EAGAIN : 0;
}

/*
 * Releases client->lock, which is held, and sends the requests that were queued because it was
 * held.
 */
static void client_unlock(struct ipc_client *client)
{
	mutex_assert_locked(&client->lock);
	pthread_mutex_unlock(&client->lock);
	(void)queue_try_send(client);
}

/* Called with client->lock held. */
static int call_locked(struct ipc_client *client, void *req, uint32_t req_len, const int *fds,
		       int nfds, void *reply, uint32_t reply_len, int *passed)
{
	int error, passed_count;

	mutex_assert_locked(&client->lock);
	if (client->fd < 0)
		return -ENODEV;
	error = queue_send_locked(client, 0);
	if (error)
		return error;
	error = client_send_locked(client, req, req_len, 0, fds, nfds, 0);
	if (error && !is_hang_up(error))
		return error;
	error = reply_receive(client->fd, req, reply, reply_len, passed, &passed_count);
	if (error)
		return lose_daemon(client, req, error);
	trace_ipc(TRACE_IPC_REPLY, reply);
	error = ((struct ipc_hdr *)reply)->status;
	return passed_count == FDPASS_LOST && !error ? -EMFILE : error;
}

/*
 * The daemon cannot notify a CM client, which has no thread: the client looks at the page before
 * each request.
 */
static void take_ring_locked(struct ipc_client *client)
{
	struct ipc_trace_ring req = {.hdr.type = IPC_TRACE_RING};
	struct ipc_reply reply;
	int ring;

	mutex_assert_locked(&client->lock);
	if (call_locked(client, &req, sizeof(req), NULL, 0, &reply, sizeof(reply), &ring)) {
		probe_ring_refused();
		return;
	}
	if (probe_attach_ring(ring))
		probe_ring_refused();
	sys_close(ring);
}

int ipc_call_fd(struct ipc_client *client, void *req, uint32_t req_len, const int *fds, int nfds,
		void *reply, uint32_t reply_len, int *passed)
{
	struct ipc_hdr *hdr = req;
	const struct ipc_type_info *info = ipc_type_info(hdr->type);
	int cancel_state, status;

	if (!info || info->request_bytes != req_len || info->reply_bytes != reply_len ||
	    info->request_fds != nfds || info->reply_fds > (passed ? 1 : 0))
		return -EINVAL;
	probe_refresh();
	status = ipc_fault();
	if (status)
		return status;

	/*
	 * If a thread were cancelled between request and reply, the next caller would receive that
	 * reply.
	 */
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state);
	pthread_mutex_lock(&client->lock);
	if (client->role == IPC_ROLE_CM && probe_wants_ring())
		take_ring_locked(client);
	status = call_locked(client, req, req_len, fds, nfds, reply, reply_len, passed);
	client_unlock(client);
	pthread_setcancelstate(cancel_state, NULL);
	return status;
}

int ipc_call(struct ipc_client *client, void *req, uint32_t req_len, const int *fds, int nfds,
	     void *reply, uint32_t reply_len)
{
	return ipc_call_fd(client, req, req_len, fds, nfds, reply, reply_len, NULL);
}

bool ipc_client_is_lost(struct ipc_client *client)
{
	int cancel_state;
	bool is_lost;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state);
	pthread_mutex_lock(&client->lock);
	is_lost = client->fd < 0;
	client_unlock(client);
	pthread_setcancelstate(cancel_state, NULL);
	return is_lost;
}

static bool may_be_unanswered(const struct ipc_hdr *hdr, uint32_t req_len)
{
	const struct ipc_type_info *info = ipc_type_info(hdr->type);

	return info && info->request_bytes == req_len && info->may_be_unanswered;
}

int ipc_send_request(struct ipc_client *client, void *req, uint32_t req_len)
{
	int cancel_state, error;

	if (!may_be_unanswered(req, req_len))
		return -EINVAL;
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state);
	pthread_mutex_lock(&client->lock);
	error = queue_send_locked(client, 0);
	if (!error)
		error = send_locked(client, req, req_len, 0);
	client_unlock(client);
	pthread_setcancelstate(cancel_state, NULL);
	return error;
}

int ipc_try_send_request(struct ipc_client *client, void *req, uint32_t req_len)
{
	int cancel_state, error = -EAGAIN;

	if (!may_be_unanswered(req, req_len))
		return -EINVAL;
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state);
	if (!pthread_mutex_trylock(&client->lock)) {
		error = queue_send_locked(client, MSG_DONTWAIT);
		if (!error)
			error = send_locked(client, req, req_len, MSG_DONTWAIT);
		client_unlock(client);
	}
	pthread_setcancelstate(cancel_state, NULL);
	return error;
}

int ipc_flush(struct ipc_client *client)
{
	int cancel_state, error;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state);
	error = queue_try_send(client);
	pthread_setcancelstate(cancel_state, NULL);
	return error;
}

int ipc_send_in_order(struct ipc_client *client, const void *req, uint32_t req_len,
		      struct ipc_queued *memory)
{
	if (!may_be_unanswered(req, req_len) || req_len > IPC_QUEUED_MAX) {
		free(memory);
		return -EINVAL;
	}
	memcpy(memory->msg.bytes, req, req_len);
	memory->bytes = req_len;
	ipc_queue_push(&client->queue, memory);
	return ipc_flush(client);
}

/* The command reads the page, but its own process is not traced. */
static void take_probe_page(struct ipc_client *client, int page, enum ipc_role role)
{
	int error;

	if (role == IPC_ROLE_CONTROL) {
		client->page_fd = page;
		return;
	}
	error = probe_attach(page);
	if (error)
		log_warn("this process cannot be traced: %s", strerror(-error));
	sys_close(page);
}

/* Sends HELLO on client->fd and receives the reply. -EAGAIN: the daemon exited. */
static int client_hello(struct ipc_client *client, enum ipc_role role)
{
	struct ipc_hello request = {
		.hdr.type = IPC_HELLO,
		.magic = IPC_MAGIC,
		.version = IPC_VERSION,
		.role = role,
	};
	int page = -1;
	int error;

	pthread_mutex_lock(&client->lock);
	error = call_locked(client, &request, sizeof(request), NULL, 0, &client->hello,
			    sizeof(client->hello), &page);
	pthread_mutex_unlock(&client->lock);
	/*
	 * Without a free descriptor the client works, but cannot be traced. A daemon without one
	 * cannot serve it.
	 */
	if (error == -EMFILE && client->hello.hdr.status == 0)
		error = 0;
	else if (!error)
		take_probe_page(client, page, role);
	ipc_explain_limit(error);
	return error == -ENODEV ? -EAGAIN : error;
}

/* 0 or -errno; -EAGAIN: a daemon was started or exited, the caller retries. */
static int open_once(struct ipc_client *client, enum ipc_role role)
{
	struct ipc_version_reply other;
	int error = connect_once(client);

	if (error) {
		if (error != -ECONNREFUSED)
			return error;
		error = ipc_daemon_spawn();
		if (error && role != IPC_ROLE_CONTROL)
			ipc_explain_spawn(error);
		return error ? error : -EAGAIN;
	}
	error = peer_check(client, role);
	if (!error)
		error = client_hello(client, role);
	if (error)
		client_die(client);
	if (error != -EPROTO)
		return error;
	memcpy(&other, &client->hello, sizeof(other));
	/* Without clients a daemon of another version ends after it has refused one. */
	if (ipc_daemon_ends(client->daemon_pid, OUTDATED_WAIT_MS))
		return -EAGAIN;
	ipc_explain_version(client->daemon_pid, &other);
	return error;
}

int ipc_client_open(struct ipc_client *client, enum ipc_role role)
{
	int cancel_state, error = -EAGAIN;

	probe_init();
	*client = (struct ipc_client){.fd = -1, .page_fd = -1, .role = role};
	pthread_mutex_init(&client->lock, NULL);
	ipc_queue_init(&client->queue);
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
	if (client->page_fd >= 0)
		sys_close(client->page_fd);
	client->page_fd = -1;
	/* Frees the queued requests: they belong to the connection. */
	(void)queue_send_locked(client, MSG_DONTWAIT);
	pthread_mutex_unlock(&client->lock);
	pthread_mutex_destroy(&client->lock);
	ipc_queue_fini(&client->queue);
}

void ipc_client_forget(struct ipc_client *client)
{
	/*
	 * Other threads of the parent may have held the locks at the time of the fork(). free() is
	 * not async-signal-safe: the queued requests, which the parent sends, stay allocated.
	 */
	pthread_mutex_init(&client->lock, NULL);
	ipc_queue_init(&client->queue);
	client_die(client);
}

void ipc_explain_wire(uint32_t wire_errno)
{
	static atomic_flag is_explained = ATOMIC_FLAG_INIT;

	if (!wire_errno || atomic_flag_test_and_set(&is_explained))
		return;
	if (wire_errno == EADDRINUSE)
		log_user(
			"other hosts cannot be reached: UDP port 4791 of this machine is in use, possibly by "
			"the kernel's rxe ('rdma link show' lists it, 'rdma link delete NAME' removes it); "
			"restart the program afterwards");
	else
		log_user(
			"other hosts cannot be reached: UDP port 4791: %s; 'usrdma doctor' names the cause",
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
	trace_ipc(TRACE_IPC_NOTICE, msg);
	return (int)len;
}

int ipc_send(int fd, const void *msg, uint32_t len, const int *fds, int nfds)
{
	return fdpass_send(fd, msg, len, fds, nfds, MSG_DONTWAIT);
}
