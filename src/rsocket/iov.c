/* SPDX-License-Identifier: BSD-2-Clause */
#include "rsocket/iov.h"

#include <errno.h>
#include <limits.h>

#include "base/librdmacm_calls.h"

int iov_bytes(const struct iovec *iov, int count, size_t *bytes)
{
	*bytes = 0;
	if (count < 0 || count > IOV_MAX)
		return -EINVAL;
	if (count && !iov)
		return -EFAULT;
	for (int i = 0; i < count; i++) {
		if (iov[i].iov_len > SSIZE_MAX - *bytes)
			return -EINVAL;
		*bytes += iov[i].iov_len;
	}
	return 0;
}

/* Skips empty buffers; returns the remaining length of the first other buffer. */
static size_t left_of_first(struct iov_cursor *cursor)
{
	while (cursor->count && cursor->offset == cursor->iov->iov_len) {
		cursor->iov++;
		cursor->count--;
		cursor->offset = 0;
	}
	return cursor->count ? cursor->iov->iov_len - cursor->offset : 0;
}

static uint8_t *iov_place(const struct iov_cursor *cursor)
{
	return (uint8_t *)cursor->iov->iov_base + cursor->offset;
}

const void *iov_together(struct iov_cursor *cursor, size_t bytes)
{
	return bytes && left_of_first(cursor) >= bytes ? iov_place(cursor) : NULL;
}

/* Returns the next contiguous piece of at most `bytes` bytes and advances the cursor behind it. */
static size_t next_piece(struct iov_cursor *cursor, size_t bytes, uint8_t **piece)
{
	size_t left = left_of_first(cursor);

	if (left > bytes)
		left = bytes;
	if (left)
		*piece = iov_place(cursor);
	cursor->offset += left;
	return left;
}

void iov_skip(struct iov_cursor *cursor, size_t bytes)
{
	uint8_t *piece;
	size_t done;

	while (bytes && (done = next_piece(cursor, bytes, &piece)))
		bytes -= done;
}

int iov_read(struct iov_cursor *cursor, void *to, size_t bytes)
{
	uint8_t *at = to, *piece;
	size_t done;

	while (bytes && (done = next_piece(cursor, bytes, &piece))) {
		if (!usrdma_copy_from_user(at, piece, done))
			return -EFAULT;
		at += done;
		bytes -= done;
	}
	return 0;
}

int iov_write(struct iov_cursor *cursor, const void *from, size_t bytes)
{
	const uint8_t *at = from;
	uint8_t *piece;
	size_t done;

	while (bytes && (done = next_piece(cursor, bytes, &piece))) {
		if (!usrdma_copy_to_user(piece, at, done))
			return -EFAULT;
		at += done;
		bytes -= done;
	}
	return 0;
}
