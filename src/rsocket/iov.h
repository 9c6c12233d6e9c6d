/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_RSOCKET_IOV_H
#define USRDMA_RSOCKET_IOV_H

#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

/* A position in an array of buffers; the bytes before it are done. */
struct iov_cursor {
	const struct iovec *iov;
	int count;
	size_t offset; /* within iov[0] */
};

/*
 * Total length of all buffers. -EINVAL: the total exceeds SSIZE_MAX, or the count is out of range.
 */
int iov_bytes(const struct iovec *iov, int count, size_t *bytes)
	__attribute__((warn_unused_result));

/* Address of the next bytes if `bytes` bytes are contiguous, else NULL. */
const void *iov_together(struct iov_cursor *cursor, size_t bytes);

/* Advances the cursor by `bytes`, which must not exceed the remaining bytes. */
void iov_skip(struct iov_cursor *cursor, size_t bytes);

/*
 * As iov_skip(), and copies the bytes. -EFAULT: a buffer cannot be accessed; a part of the bytes
 * may be copied.
 */
int iov_read(struct iov_cursor *cursor, void *to, size_t bytes) __attribute__((warn_unused_result));
int iov_write(struct iov_cursor *cursor, const void *from, size_t bytes)
	__attribute__((warn_unused_result));

#endif
