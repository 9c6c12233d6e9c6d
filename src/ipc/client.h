/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_IPC_CLIENT_H
#define USRDMA_IPC_CLIENT_H

#include <pthread.h>
#include <stdbool.h>

#include "ipc/msg.h"

/*
 * A client's connection to the daemon, for requests and their answers. Owned by the library that made it; `lock`
 * lets any thread call. Dead once the daemon went away or broke the protocol: every call then answers -ENODEV.
 * After fork() the child must ipc_client_forget() it, which closes its copy of the socket and tells nobody.
 */
struct ipc_client {
	pthread_mutex_t lock;
	int fd; /* -1: dead or never connected */
	uint32_t seq;
	struct ipc_hello_reply hello;
};

/*
 * Connects to this network namespace's daemon, starting it if there is none, and says HELLO as `role`. Checks that
 * the daemon is root's or our own uid's: -EACCES and one line through the log if it is somebody else's; -EPROTO for
 * another version; -ENOENT if the daemon program cannot be found. Blocks until the daemon answers.
 */
int ipc_client_open(struct ipc_client *client, enum ipc_role role)
	__attribute__((warn_unused_result));
void ipc_client_close(struct ipc_client *client);
void ipc_client_forget(struct ipc_client *client);

/*
 * Sends one request and waits for its answer. `req` starts with a struct ipc_hdr whose type the caller set; len, seq
 * and status are filled in here. fds (nfds of them, borrowed) travel along. The answer must be exactly reply_len bytes
 * unless its status is an error, then the header alone may come. Returns the answer's status (0 or -errno), or
 * -ENODEV if the daemon is gone.
 */
int ipc_call(struct ipc_client *client, void *req, uint32_t req_len, const int *fds, int nfds,
	     void *reply, uint32_t reply_len) __attribute__((warn_unused_result));

/*
 * Sends one request that gets no answer, of a type that may go without. Blocks while the daemon has more of this client's
 * to read than its socket holds. 0; -ENODEV if the daemon is gone; or -errno.
 */
int ipc_tell(struct ipc_client *client, void *req, uint32_t req_len)
	__attribute__((warn_unused_result));

/*
 * Somebody wants to reach another host and there is no way: has the user know why, once in this process. `wire_errno` is
 * HELLO's.
 */
void ipc_explain_wire(uint32_t wire_errno);

/*
 * Receives one push from `fd` (a notice socket or a CM channel), following the fd's own O_NONBLOCK unless dont_wait.
 * Received descriptors (at most IPC_FDS_MAX, close-on-exec) go to fds and their number to *nfds. Returns the
 * message's length, its header already checked against it; -EAGAIN; -EINTR; -ENODEV at the end of the stream;
 * -EPROTO for a malformed message (its descriptors are closed).
 */
int ipc_recv(int fd, bool dont_wait, void *msg, uint32_t msg_max, int *fds, int *nfds)
	__attribute__((warn_unused_result));

/* Sends one message with descriptors; never blocks, never raises SIGPIPE. 0, -EAGAIN, or -errno. */
int ipc_send(int fd, const void *msg, uint32_t len, const int *fds, int nfds)
	__attribute__((warn_unused_result));

#endif
