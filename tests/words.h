/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_TESTS_WORDS_H
#define USRDMA_TESTS_WORDS_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * A litmus test of copies that keep aligned words whole. All bytes of a block are equal, and have
 * another value after each copy. The bytes of each aligned word of 2, 4 and 8 bytes in the block
 * are therefore equal: otherwise the word is torn.
 */

/* The largest aligned word that begins at the address and is in the block. bytes is not 0. */
static inline size_t words_next(const uint8_t *at, size_t bytes)
{
	size_t word_bytes = 8;

	while (word_bytes > bytes || (uintptr_t)at % word_bytes)
		word_bytes /= 2;
	return word_bytes;
}

static inline uint64_t words_load(const uint8_t *at, size_t bytes)
{
	const void *word = at;

	switch (bytes) {
	case 8:
		return __atomic_load_n((const uint64_t *)word, __ATOMIC_RELAXED);
	case 4:
		return __atomic_load_n((const uint32_t *)word, __ATOMIC_RELAXED);
	case 2:
		return __atomic_load_n((const uint16_t *)word, __ATOMIC_RELAXED);
	default:
		return __atomic_load_n(at, __ATOMIC_RELAXED);
	}
}

static inline uint64_t words_uniform(uint8_t value, size_t bytes)
{
	return value * (UINT64_C(0x0101010101010101) >> (8 - bytes) * 8);
}

/* Loads all words of the block once. Returns the number of torn words. */
static inline size_t words_count_torn(const uint8_t *at, size_t bytes)
{
	size_t torn = 0, done, word_bytes;

	for (done = 0; done < bytes; done += word_bytes) {
		uint64_t word;

		word_bytes = words_next(at + done, bytes - done);
		word = words_load(at + done, word_bytes);
		torn += word != words_uniform((uint8_t)word, word_bytes);
	}
	return torn;
}

/* Stores all words of the block once, each one by one store. */
static inline void words_store(uint8_t *at, size_t bytes, uint8_t value)
{
	size_t done, word_bytes;

	for (done = 0; done < bytes; done += word_bytes) {
		void *word = at + done;
		uint64_t uniform;

		word_bytes = words_next(at + done, bytes - done);
		uniform = words_uniform(value, word_bytes);
		if (word_bytes == 8)
			__atomic_store_n((uint64_t *)word, uniform, __ATOMIC_RELAXED);
		else if (word_bytes == 4)
			__atomic_store_n((uint32_t *)word, (uint32_t)uniform, __ATOMIC_RELAXED);
		else if (word_bytes == 2)
			__atomic_store_n((uint16_t *)word, (uint16_t)uniform, __ATOMIC_RELAXED);
		else
			__atomic_store_n(at + done, value, __ATOMIC_RELAXED);
	}
}

struct words_block {
	uint8_t *at;
	size_t bytes;
};

/*
 * A thread that loads or stores the words of the block that the test copies to or from. The test
 * chooses the next block without waiting for the thread: the bytes of every block are equal at
 * first.
 */
struct words_thread {
	const struct words_block *_Atomic block;
	bool is_storing;
	atomic_bool is_over;
	size_t torn;
	pthread_t thread;
};

static inline void *words_run(void *arg)
{
	struct words_thread *words = arg;
	uint8_t value = 0;

	while (!words->is_over) {
		const struct words_block *block = words->block;

		if (words->is_storing)
			words_store(block->at, block->bytes, ++value);
		else
			words->torn += words_count_torn(block->at, block->bytes);
	}
	return NULL;
}

/* Returns 0, or the error of pthread_create(). */
static inline int words_begin(struct words_thread *words, const struct words_block *block,
			      bool is_storing)
{
	*words = (struct words_thread){.is_storing = is_storing};
	words->block = block;
	return pthread_create(&words->thread, NULL, words_run, words);
}

/* Returns the number of torn words that the thread has read. */
static inline size_t words_end(struct words_thread *words)
{
	words->is_over = true;
	pthread_join(words->thread, NULL);
	return words->torn;
}

#endif
