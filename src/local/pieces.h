/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_LOCAL_PIECES_H
#define USRDMA_LOCAL_PIECES_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>

/*
 * How the bytes of one access are divided so that aligned words of up to 8 bytes stay whole
 * (docs/memory-safety.md, Words). `at` is always the address of the first byte in the peer's
 * memory. Pure functions.
 */

/* Maximum elements that pieces_split() adds. */
#define PIECES_EXTRA 7

/*
 * The number of bytes from the beginning of the iovec that can be moved without dividing a word:
 * after these bytes, the address in the peer's memory is a multiple of 8, or `left` bytes are
 * moved, the rest of the message. With wants_same_alignment, the addresses of both sides also have
 * the same remainder modulo 8. 0: not even the first word.
 */
uint32_t pieces_fitting(const struct iovec *iov, int n, uint64_t at, uint32_t left,
			bool wants_same_alignment);

/* Removes all but the first `bytes` bytes. Returns the number of elements. */
int pieces_cut(struct iovec *iov, int n, uint32_t bytes);

/*
 * Divides the iovec, whose elements end at multiples of 8 in the peer's memory, with the exception
 * of the last one. Each word of 1, 2 and 4 bytes at the beginning and at the end becomes an
 * element. With is_last_apart, a last word of 8 bytes becomes one, too. Returns the number of
 * elements in `pieces`, at most n + PIECES_EXTRA.
 */
int pieces_split(const struct iovec *iov, int n, uint64_t at, bool is_last_apart,
		 struct iovec *pieces);

/* Whether pieces_split() would make an element of 2 or 4 bytes of `bytes` bytes. */
bool pieces_have_short_word(uint64_t at, uint32_t bytes);

#endif
