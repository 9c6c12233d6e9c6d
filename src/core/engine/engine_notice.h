/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_CORE_ENGINE_ENGINE_NOTICE_H
#define USRDMA_CORE_ENGINE_ENGINE_NOTICE_H

#include <stdint.h>

#include "ipc/msg.h"

struct engine;

/* Notices: messages that the daemon sends to an engine without a request ("pushes", ipc/msg.h). */

/* Maximum size of a notice with a handler. */
#define NOTICE_BYTES_MAX 256

/* Owned by the engine, one for each type of notice. */
struct notice_handler {
	/*
	 * Processes a notice whose size and number of descriptors ipc_push_check() has checked.
	 * Owns fds. nfds is FDPASS_LOST if this process had no descriptor left; this was logged.
	 * engine.lock held. Does not block.
	 */
	void (*take)(struct engine *engine, const struct ipc_hdr *notice, const int *fds, int nfds);
	/* the service that is not available if the descriptors are lost, for the log message */
	const char *what;
};

/*
 * The connection of the notices, and their handlers. Part of struct engine; guarded by engine.lock,
 * except new_fd.
 */
struct engine_notices {
	int fd;	    /* receives the notices; -1: not connected */
	int new_fd; /* during the start, so that the child of a fork() closes its copy; -1: none */
	uint64_t watch; /* handle of the watch of `fd`; 0: not watched */
	struct notice_handler handlers[IPC_TYPE_COUNT]; /* by type */
	uint64_t *dropped;				/* counter of notices without a handler */
	uint64_t dropped_unshown;
};

/* Removes all handlers. engine.lock held. */
void engine_notices_clear(struct engine *engine);

/*
 * Registers the counter of dropped notices; to be called when a transport has opened the segment.
 * engine.lock held.
 */
void engine_notices_register_counter(struct engine *engine);

/*
 * Registers the handler of a type, until the engine is closed. A module calls this in open().
 * `what` may be NULL for a type without descriptors. 0; -EEXIST: the type has a handler; -EINVAL:
 * not a type of notice, or too long. engine.lock held.
 */
int engine_on_notice(struct engine *engine, uint16_t type,
		     void (*take)(struct engine *engine, const struct ipc_hdr *notice,
				  const int *fds, int nfds),
		     const char *what) __attribute__((warn_unused_result));

/*
 * Passes one notice to the handler of its type. A notice without a handler is counted, and its
 * descriptors are closed. engine.lock held.
 */
void engine_dispatch_notice(struct engine *engine, const struct ipc_hdr *notice, const int *fds,
			    int nfds);

/* Watches notices.fd. 0 or -errno. engine.lock held. */
int engine_watch_notices(struct engine *engine) __attribute__((warn_unused_result));

/*
 * Receives the daemon's notices and passes them to their handlers. engine.lock held. Never blocks.
 */
void engine_take_notices(struct engine *engine);

/*
 * Sends a request for a verbs call and waits for the reply: ipc_call(), with one descriptor or
 * none (fd < 0). 0, the daemon's -errno, or -EIO if the connection to the daemon is lost: the
 * engine may be usable still, because the engine thread has not received the end of the notices
 * yet. Called without engine.lock.
 */
int engine_call(struct engine *engine, void *request, uint32_t bytes, int fd, void *reply,
		uint32_t reply_bytes) __attribute__((warn_unused_result));

/*
 * Requests a connection to the process that owns a slot (connect peer) and waits for the daemon's
 * reply. Called without engine.lock, so that a daemon that does not reply delays only the caller.
 * 0, the daemon's -errno (CONNECT_PEER in ipc/msg.h), or -EIO as engine_call().
 */
int engine_connect_peer(struct engine *engine, uint32_t slot) __attribute__((warn_unused_result));

#endif
