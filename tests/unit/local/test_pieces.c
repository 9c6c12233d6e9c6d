/* SPDX-License-Identifier: BSD-2-Clause */

/*
 * The division of an access into pieces that keep aligned words whole: all addresses, lengths and
 * SGE boundaries.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "local/pieces.h"

#define BYTES_MAX 40u
#define IOVS	  2

static uint8_t memory[64];

/* Two elements whose bytes follow each other, the second one after `first` bytes. */
static int make_iov(struct iovec iov[IOVS], uint32_t at, uint32_t first, uint32_t bytes)
{
	uint8_t *begin = memory + at % 8;

	iov[0] = (struct iovec){begin, first ? first : bytes};
	iov[1] = (struct iovec){begin + first, bytes - first};
	return first ? 2 : 1;
}

/*
 * Every aligned word of 2, 4 and 8 bytes in [at, at + bytes) is in one piece, and the pieces follow
 * each other.
 */
static void check_pieces(const struct iovec *pieces, int count, uint32_t at, uint32_t bytes,
			 bool is_last_apart)
{
	uint32_t done = 0;

	for (int i = 0; i < count; i++) {
		uint32_t begin = at + done, end = begin + (uint32_t)pieces[i].iov_len;

		assert_ptr_equal(pieces[i].iov_base, memory + at % 8 + done);
		assert_true(end > begin);
		if (end < at + bytes && end % 8)
			assert_true(end / 8 == at / 8 || end / 8 == (at + bytes) / 8);
		for (uint32_t word = 2; word <= 8; word *= 2) {
			uint32_t cut = end / word * word;

			assert_true(end % word == 0 || cut < at || cut + word > at + bytes);
		}
		/*
		 * The kernel keeps the words of a piece whole if the piece is one word or begins at
		 * a multiple of 8.
		 */
		assert_true(begin % 8 == 0 || (end - begin <= 4 && begin % (end - begin) == 0));
		assert_true(begin % 8 || (end - begin) % 8 == 0 || end - begin <= 4);
		done = end - at;
	}
	assert_int_equal(done, bytes);
	if (is_last_apart)
		assert_true(pieces[count - 1].iov_len <= 8);
}

static void pieces_split_keeps_words_whole(void **state)
{
	struct iovec iov[IOVS], pieces[IOVS + PIECES_EXTRA];

	(void)state;
	for (uint32_t at = 0; at < 8; at++) {
		for (uint32_t bytes = 1; bytes <= BYTES_MAX; bytes++) {
			for (uint32_t first = 0; first < bytes; first++) {
				int n = make_iov(iov, at, first, bytes);

				if (first && (at + first) % 8)
					continue;
				for (int apart = 0; apart < 2; apart++) {
					int count = pieces_split(iov, n, at, apart, pieces);

					assert_true(count <= n + PIECES_EXTRA);
					check_pieces(pieces, count, at, bytes, apart);
				}
			}
		}
	}
}

static void pieces_fitting_ends_at_words(void **state)
{
	struct iovec iov[IOVS];

	(void)state;
	for (uint32_t at = 0; at < 8; at++) {
		for (uint32_t first = 1; first < BYTES_MAX; first++) {
			int n = make_iov(iov, at, first, BYTES_MAX);
			uint32_t whole = pieces_fitting(iov, 1, at, first, true);
			uint32_t part = pieces_fitting(iov, n, at, BYTES_MAX, true);

			assert_int_equal(whole, first);
			if ((at + first) % 8 == 0) {
				assert_int_equal(part, BYTES_MAX);
				continue;
			}
			assert_true(part <= first && (!part || (at + part) % 8 == 0));
			assert_true(first - part < 8);
			n = pieces_cut(iov, n, part);
			assert_int_equal(n, part ? 1 : 0);
			assert_true(!part || iov[0].iov_len == part);
		}
	}
}

static void pieces_fitting_different_alignment_does_not_fit(void **state)
{
	struct iovec iov = {memory, 16};

	(void)state;
	assert_int_equal(pieces_fitting(&iov, 1, 4, 16, true), 0);
	assert_int_equal(pieces_fitting(&iov, 1, 4, 16, false), 16);
	assert_int_equal(pieces_fitting(&iov, 1, 4, 40, false), 12);
}

static void pieces_have_short_word_finds_words_of_2_and_4_bytes(void **state)
{
	(void)state;
	assert_false(pieces_have_short_word(0, 0));
	assert_false(pieces_have_short_word(3, 1));
	assert_false(pieces_have_short_word(8, 8));
	assert_false(pieces_have_short_word(7, 10));
	assert_false(pieces_have_short_word(5, 1));
	assert_true(pieces_have_short_word(2, 2));
	assert_true(pieces_have_short_word(4, 4));
	assert_true(pieces_have_short_word(1, 3));
	assert_true(pieces_have_short_word(8, 12));
	assert_true(pieces_have_short_word(4, 12));
	assert_true(pieces_have_short_word(8, 8 + 2));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(pieces_split_keeps_words_whole),
		cmocka_unit_test(pieces_fitting_ends_at_words),
		cmocka_unit_test(pieces_fitting_different_alignment_does_not_fit),
		cmocka_unit_test(pieces_have_short_word_finds_words_of_2_and_4_bytes),
	};

	return cmocka_run_group_tests_name("pieces", tests, NULL, NULL);
}
