/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_IPC_CLIENT_H
#define USRDMA_IPC_CLIENT_H

#include <pthread.h>
#include <stdbool.h>
#include <sys/types.h>

#include "ipc/msg.h"
#include "ipc/queue.h"

/*
 * A client's connection to the daemon for requests and replies. Owned by the library that opened
 * it; `lock` serializes the calls of all threads. After the daemon closed the connection or
 * violated the protocol, every call returns -ENODEV. In the child of a fork() the library calls
 * ipc_client_forget(), which closes the child's copy of the socket and sends nothing.
 */
struct ipc_client {
	pthread_mutex_t lock;
	int fd; /* -1: not connected */
	/* CONTROL: the probe page of the client's user (base/probe_page.h); -1: not received */
	int page_fd;
	enum ipc_role role;
	/* Of the daemon, from the kernel, also if ipc_client_open() failed after connecting. */
	/* 0: no daemon accepted, or it has no id in the PID namespace of this process */
	pid_t daemon_pid;
	uid_t daemon_uid;
	bool is_daemon_elsewhere; /* the daemon is in another PID namespace, and ends with it */
	uint32_t seq;
	struct ipc_hello_reply hello;
	struct ipc_queue queue; /* requests of ipc_send_in_order() that were not sent yet */
};

/*
 * Connects to the daemon of this network namespace, starts the daemon if none is running, and sends
 * HELLO with `role`. -EACCES: the daemon runs neither as root nor as the caller's uid (one message
 * is logged); -EPROTO: the daemon has another protocol version; -ENOENT: the daemon program was not
 * found. Blocks until the daemon replies.
 */
int ipc_client_open(struct ipc_client *client, enum ipc_role role)
	__attribute__((warn_unused_result));
void ipc_client_close(struct ipc_client *client);
void ipc_client_forget(struct ipc_client *client);

/*
 * Sends one request and waits for the reply. `req` starts with a struct ipc_hdr whose type the
 * caller has set; this call sets flags, len, seq and status. The message carries the nfds
 * descriptors of `fds`, which remain the caller's. The reply must be reply_len bytes long; an error
 * reply may consist of the header only. Returns the status of the reply (0 or -errno), or -ENODEV
 * if the connection to the daemon is lost.
 */
int ipc_call(struct ipc_client *client, void *req, uint32_t req_len, const int *fds, int nfds,
	     void *reply, uint32_t reply_len) __attribute__((warn_unused_result));

/* Whether the connection to the daemon is lost: -ENODEV of ipc_call() can also be the daemon's. */
bool ipc_client_is_lost(struct ipc_client *client);

/*
 * As ipc_call(), for a request whose reply carries a descriptor, which is stored in *passed if 0 is
 * returned. -EMFILE: this process could not receive the descriptor.
 */
int ipc_call_fd(struct ipc_client *client, void *req, uint32_t req_len, const int *fds, int nfds,
		void *reply, uint32_t reply_len, int *passed) __attribute__((warn_unused_result));

/*
 * Sends one request without a reply (IPC_UNANSWERED), of a type that permits this. Blocks while the
 * socket's send buffer is full. 0; -ENODEV if the connection to the daemon is lost; or -errno.
 */
int ipc_send_request(struct ipc_client *client, void *req, uint32_t req_len)
	__attribute__((warn_unused_result));

/*
 * As ipc_send_request(), but never blocks. -EAGAIN: another thread uses the connection, or its send
 * buffer is full; nothing was sent.
 */
int ipc_try_send_request(struct ipc_client *client, void *req, uint32_t req_len)
	__attribute__((warn_unused_result));

/*
 * Sends one request without a reply in order: after all requests that were made before, and before
 * every request that any thread makes later. Never blocks. The request has at most IPC_QUEUED_MAX
 * bytes. `memory`, allocated by malloc(), is freed by this call or later, also on failure. 0: sent,
 * or the connection to the daemon is lost. -EAGAIN: the request is in the queue, because another
 * thread uses the connection or its send buffer is full. The request is sent by that thread after
 * its own request, by the next request of any thread, or by ipc_flush(). -EINVAL: a request of this
 * type must have a reply.
 */
int ipc_send_in_order(struct ipc_client *client, const void *req, uint32_t req_len,
		      struct ipc_queued *memory) __attribute__((warn_unused_result));

/* Sends the queued requests without blocking. 0: the queue is empty; -EAGAIN: as above. */
int ipc_flush(struct ipc_client *client) __attribute__((warn_unused_result));

/*
 * Reports to the user, once for each process, why other hosts cannot be reached. `wire_errno` is
 * that of the HELLO reply; 0: nothing is reported.
 */
void ipc_explain_wire(uint32_t wire_errno);

/*
 * Receives one push from `fd` (an engine's push socket or a CM channel). Never blocks with
 * dont_wait, else blocks unless the descriptor is O_NONBLOCK. Received descriptors (at most
 * IPC_FDS_MAX, close-on-exec) are stored in fds and their number in *nfds; FDPASS_LOST: this
 * process could not receive them. Returns the length of the message, which has been checked;
 * -EAGAIN; -EINTR; -ENODEV at the end of the stream; or -EPROTO for a malformed message, whose
 * descriptors are closed.
 */
int ipc_recv(int fd, bool dont_wait, void *msg, uint32_t msg_max, int *fds, int *nfds)
	__attribute__((warn_unused_result));

/* Sends one message with descriptors; never blocks, never raises SIGPIPE. 0, -EAGAIN, or -errno. */
int ipc_send(int fd, const void *msg, uint32_t len, const int *fds, int nfds)
	__attribute__((warn_unused_result));

#endif
