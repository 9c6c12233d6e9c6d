/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_RSOCKET_STREAM_IOMAP_H
#define USRDMA_RSOCKET_STREAM_IOMAP_H

#include "rsocket/stream.h"

/*
 * Memory that one side of a stream opens to the other's riowrite(). Who opens it writes an entry
 * into the other's table, in front of the data that it sends next; who writes into it looks the
 * offset up among the entries that it was told of.
 */

/* Room for the entries that the peer may tell of. Locked, as is all here. */
int stream_iomap_open(struct stream *stream) __attribute__((warn_unused_result));
void stream_iomap_free(struct stream *stream);

/* The peer has written entry `index`. */
void stream_iomap_learn(struct stream *stream, uint32_t index);

/* Whether there is anything that the peer has yet to be told, and telling it. */
bool stream_iomap_is_pending(const struct stream *stream);
int stream_iomap_tell(struct stream *stream, int flags, uint64_t deadline_ns)
	__attribute__((warn_unused_result));

/* The public calls without their convention. */
int stream_riomap(struct rsock *sock, void *buf, size_t len, int prot, off_t *offset)
	__attribute__((warn_unused_result));
int stream_riounmap(struct rsock *sock, void *buf, size_t len) __attribute__((warn_unused_result));
ssize_t stream_riowrite(struct rsock *sock, const void *buf, size_t count, off_t offset, int flags);

#endif
