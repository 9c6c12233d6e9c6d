/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_BASE_RANDOM_H
#define USRDMA_BASE_RANDOM_H

#include <stdint.h>

#define RANDOM_KEY_BYTES     32
#define RANDOM_NONCE_BYTES   12
#define RANDOM_BLOCK_BYTES   64
#define RANDOM_BUFFER_BLOCKS 4

/*
 * A cryptographic random number generator: ChaCha20 (RFC 8439 §2.3) with fast key erasure. Each
 * refill of the buffer begins with a new key, and numbers are erased from the buffer when they are
 * returned, so that the memory of a process does not contain numbers that were returned earlier.
 *
 * Owned by the object that embeds it; it has no lock of its own. After fork() both processes would
 * return the same numbers: the owner seeds a new generator in the child.
 */
struct random {
	uint8_t key[RANDOM_KEY_BYTES];
	uint8_t buffer[RANDOM_BUFFER_BLOCKS * RANDOM_BLOCK_BYTES];
	uint32_t left; /* the last bytes of the buffer that were not returned yet */
};

/* Initialises the generator with a key. The same key gives the same numbers. */
void random_init(struct random *random, const uint8_t key[RANDOM_KEY_BYTES]);

/* Initialises the generator with a key from getrandom(2). 0 or -errno. */
int random_open(struct random *random) __attribute__((warn_unused_result));

/*
 * Initialises the generator with a seed, for repeatable simulations only: the seed determines all
 * numbers.
 */
void random_init_repeatable(struct random *random, uint64_t seed);

uint32_t random_u32(struct random *random);
uint64_t random_u64(struct random *random);

/* A uniformly distributed number in [0, bound); bound is at least 1. */
uint32_t random_below(struct random *random, uint32_t bound);

/* One block of the key stream, the function of RFC 8439 §2.3. */
void random_chacha20_block(const uint8_t key[RANDOM_KEY_BYTES], uint32_t counter,
			   const uint8_t nonce[RANDOM_NONCE_BYTES],
			   uint8_t block[RANDOM_BLOCK_BYTES]);

#endif
