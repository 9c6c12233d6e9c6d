/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_RSOCKET_STREAM_IOMAP_H
#define USRDMA_RSOCKET_STREAM_IOMAP_H

#include "rsocket/stream.h"

/*
 * Memory that one side of a stream exposes to riowrite() of the other side. The exposing side
 * writes an entry into the peer's table before it sends the next data. The writing side looks the
 * offset up in the entries that it received.
 */

/*
 * Allocates the table of the entries that the peer may send. All functions here except the
 * stream_rio*() calls are locked.
 */
int stream_iomap_open(struct stream *stream) __attribute__((warn_unused_result));
void stream_iomap_free(struct stream *stream);

/* The peer has written entry `index`. */
void stream_iomap_learn(struct stream *stream, uint32_t index);

/* Whether entries have not been sent to the peer yet; stream_iomap_notify() sends them. */
bool stream_iomap_is_pending(const struct stream *stream);
int stream_iomap_notify(struct stream *stream, int flags, uint64_t deadline_ns)
	__attribute__((warn_unused_result));

/* The public calls without the conversion of the result. */
int stream_riomap(struct rsock *sock, void *buf, size_t len, int prot, off_t *offset)
	__attribute__((warn_unused_result));
int stream_riounmap(struct rsock *sock, void *buf, size_t len) __attribute__((warn_unused_result));
ssize_t stream_riowrite(struct rsock *sock, const void *buf, size_t count, off_t offset, int flags);

#endif
