/* SPDX-License-Identifier: BSD-2-Clause */
#include "local/pieces.h"

#include <stddef.h>

#include "base/util.h"

#define WORD_BYTES 8u

/* The largest aligned word of at most `bytes` bytes that begins at the address. bytes is not 0. */
static uint32_t word_at(uint64_t at, uint32_t bytes)
{
	uint32_t word_bytes = WORD_BYTES;

	while (word_bytes > bytes || at % word_bytes)
		word_bytes /= 2;
	return word_bytes;
}

uint32_t pieces_fitting(const struct iovec *iov, int n, uint64_t at, uint32_t left,
			bool wants_same_alignment)
{
	uint32_t bytes = 0;

	for (int i = 0; i < n; i++) {
		uint64_t address = (uintptr_t)iov[i].iov_base, end;

		if (wants_same_alignment && (address ^ (at + bytes)) % WORD_BYTES)
			break;
		bytes += (uint32_t)iov[i].iov_len;
		end = at + bytes;
		if (bytes != left && end % WORD_BYTES)
			return bytes - min_u32(bytes, end % WORD_BYTES);
	}
	return bytes;
}

int pieces_cut(struct iovec *iov, int n, uint32_t bytes)
{
	int kept = 0;

	for (; kept < n && bytes; kept++) {
		if (iov[kept].iov_len > bytes)
			iov[kept].iov_len = bytes;
		bytes -= (uint32_t)iov[kept].iov_len;
	}
	return kept;
}

int pieces_split(const struct iovec *iov, int n, uint64_t at, bool is_last_apart,
		 struct iovec *pieces)
{
	uint32_t left = 0, done = 0;
	int count = 0;

	for (int i = 0; i < n; i++)
		left += (uint32_t)iov[i].iov_len;
	for (int i = 0; i < n;) {
		uint32_t room = (uint32_t)iov[i].iov_len - done, take;
		uint32_t words = left - left % WORD_BYTES;

		if (is_last_apart && words == left && left > WORD_BYTES)
			words -= WORD_BYTES;
		take = at % WORD_BYTES || left < WORD_BYTES ? word_at(at, left) : words;
		take = min_u32(take, room);
		pieces[count++] = (struct iovec){.iov_base = (uint8_t *)iov[i].iov_base + done,
						 .iov_len = take};
		at += take;
		left -= take;
		done += take;
		if (done == iov[i].iov_len) {
			done = 0;
			i++;
		}
	}
	return count;
}

bool pieces_have_short_word(uint64_t at, uint32_t bytes)
{
	while (bytes && at % WORD_BYTES) {
		uint32_t word_bytes = word_at(at, bytes);

		if (word_bytes == 2 || word_bytes == 4)
			return true;
		at += word_bytes;
		bytes -= word_bytes;
	}
	return bytes & (2 | 4);
}
