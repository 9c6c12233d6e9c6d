/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_RSOCKET_IOV_H
#define USRDMA_RSOCKET_IOV_H

#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

/* A place in an array of buffers; what is before it is done. */
struct iov_cursor {
	const struct iovec *iov;
	int count;
	size_t offset; /* within iov[0] */
};

/* Bytes of all buffers. -EINVAL: more than a call can tell, or a count that cannot be. */
int iov_bytes(const struct iovec *iov, int count, size_t *bytes)
	__attribute__((warn_unused_result));

/* Where the next bytes lie, if that many lie together; else NULL. */
const void *iov_together(struct iov_cursor *cursor, size_t bytes);

/* The cursor moves on by `bytes`, which the buffers have. */
void iov_skip(struct iov_cursor *cursor, size_t bytes);
void iov_read(struct iov_cursor *cursor, void *to, size_t bytes);
void iov_write(struct iov_cursor *cursor, const void *from, size_t bytes);

#endif
