/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_DAEMON_REQUEST_H
#define USRDMA_DAEMON_REQUEST_H

#include <stdalign.h>
#include <stdbool.h>
#include <stdint.h>

#include "daemon/session.h"
#include "ipc/msg.h"

/* The buffer of a request or reply, aligned for all structs. */
union message {
	struct ipc_hdr hdr;
	struct ipc_hello hello;
	struct ipc_hello_reply hello_reply;
	struct ipc_version_reply version_reply;
	alignas(16) uint8_t bytes[IPC_MSG_MAX];
};

/* The request that is being served. A handler that keeps a descriptor replaces it in fds by -1. */
struct request {
	union message *msg;
	int *fds;
	int nfds;
	bool is_cut;	      /* not all of its descriptors could be received */
	union message *reply; /* zeroed */
	int reply_fd;	      /* sent with the reply and then closed; -1: none */
};

/*
 * Serves a request whose size, reserved fields, role and number of descriptors were checked. The
 * status of the reply: 0 or -errno.
 */
typedef int request_handler(struct session *session, struct request *request);

/* The handler of a type; NULL: cma_request() serves it. */
request_handler *request_handler_of(uint32_t type);

#endif
