/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_BASE_USER_COPY_H
#define USRDMA_BASE_USER_COPY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

/*
 * All accesses of the library to application memory. `user` is the application's memory: registered
 * memory, or the inline data of a work request. A function returns false if a page of it cannot be
 * accessed (docs/adr/0072). A part of the bytes may be copied then.
 *
 * An aligned word of 2, 4 or 8 bytes that is completely in the range is loaded or stored by one
 * access, and each byte is accessed once. A thread that reads such a word therefore reads its old
 * or its new value, as with an adapter, and a value that this thread stores after it has read the
 * new value is not overwritten. memcpy() gives no such guarantee: C libraries copy both ends of a
 * short block by accesses that overlap.
 *
 * The other range is memory of the library. The ranges do not overlap.
 */

bool user_copy_from(void *to, const void *user, size_t bytes) __attribute__((warn_unused_result));
bool user_copy_to(void *user, const void *from, size_t bytes) __attribute__((warn_unused_result));

/*
 * As user_copy_to(). The last aligned word of the destination is stored last, with release order: a
 * thread that reads the new value of that word also reads all other bytes and the caller's earlier
 * copies.
 */
bool user_copy_to_ordered(void *user, const void *from, size_t bytes)
	__attribute__((warn_unused_result));

/* Copies the pieces to successive memory of the library. */
bool user_gather(void *to, const struct iovec *pieces, int count)
	__attribute__((warn_unused_result));

/* Copies successive memory of the library to the pieces. */
bool user_scatter(const struct iovec *pieces, int count, const void *from)
	__attribute__((warn_unused_result));

/*
 * As user_gather() for the first pieces that fit into `bytes` bytes. Bytes that cannot be read are
 * zeros. Returns the number of bytes.
 */
size_t user_gather_readable(void *to, const struct iovec *pieces, int count, size_t bytes);

/* Sequentially consistent operations on an aligned word. *original is its value before. */
bool user_exchange(uint64_t *user, uint64_t value, uint64_t *original)
	__attribute__((warn_unused_result));
bool user_fetch_add(uint64_t *user, uint64_t add, uint64_t *original)
	__attribute__((warn_unused_result));
bool user_compare_swap(uint64_t *user, uint64_t compare, uint64_t swap, uint64_t *original)
	__attribute__((warn_unused_result));

/*
 * The size of the last aligned word of the range [end - bytes, end): 8, 4, 2 or 1 bytes. bytes is
 * not 0.
 */
static inline size_t user_last_word_bytes(uintptr_t end, size_t bytes)
{
	size_t word_bytes = sizeof(uint64_t);

	while (word_bytes > bytes || end % word_bytes)
		word_bytes /= 2;
	return word_bytes;
}

#endif
