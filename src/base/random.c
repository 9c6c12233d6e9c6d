/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/random.h"

#include <assert.h>
#include <endian.h>
#include <errno.h>
#include <string.h>

#include "base/syscalls.h"

#define STATE_WORDS   16
#define KEY_WORDS     (RANDOM_KEY_BYTES / 4)
#define NONCE_WORDS   (RANDOM_NONCE_BYTES / 4)
#define DOUBLE_ROUNDS 10

static uint32_t load_le32(const uint8_t *from)
{
	uint32_t word;

	memcpy(&word, from, sizeof(word));
	return le32toh(word);
}

static uint32_t rotate_left(uint32_t word, unsigned int bits)
{
	return word << bits | word >> (32 - bits);
}

static void quarter_round(uint32_t s[STATE_WORDS], unsigned int a, unsigned int b, unsigned int c,
			  unsigned int d)
{
	s[a] += s[b];
	s[d] = rotate_left(s[d] ^ s[a], 16);
	s[c] += s[d];
	s[b] = rotate_left(s[b] ^ s[c], 12);
	s[a] += s[b];
	s[d] = rotate_left(s[d] ^ s[a], 8);
	s[c] += s[d];
	s[b] = rotate_left(s[b] ^ s[c], 7);
}

static void double_round(uint32_t s[STATE_WORDS])
{
	for (unsigned int i = 0; i < 4; i++)
		quarter_round(s, i, 4 + i, 8 + i, 12 + i);
	for (unsigned int i = 0; i < 4; i++)
		quarter_round(s, i, 4 + (i + 1) % 4, 8 + (i + 2) % 4, 12 + (i + 3) % 4);
}

void random_chacha20_block(const uint8_t key[RANDOM_KEY_BYTES], uint32_t counter,
			   const uint8_t nonce[RANDOM_NONCE_BYTES],
			   uint8_t block[RANDOM_BLOCK_BYTES])
{
	/* "expand 32-byte k" */
	uint32_t start[STATE_WORDS] = {0x61707865, 0x3320646e, 0x79622d32, 0x6b206574};
	uint32_t words[STATE_WORDS];

	for (unsigned int i = 0; i < KEY_WORDS; i++)
		start[4 + i] = load_le32(key + (size_t)4 * i);
	start[12] = counter;
	for (unsigned int i = 0; i < NONCE_WORDS; i++)
		start[13 + i] = load_le32(nonce + (size_t)4 * i);
	memcpy(words, start, sizeof(words));
	for (unsigned int i = 0; i < DOUBLE_ROUNDS; i++)
		double_round(words);
	for (unsigned int i = 0; i < STATE_WORDS; i++) {
		uint32_t word = htole32(words[i] + start[i]);

		memcpy(block + (size_t)4 * i, &word, sizeof(word));
	}
}

/* The first bytes of the key stream are the next key (fast key erasure). */
static void refill(struct random *random)
{
	static const uint8_t nonce[RANDOM_NONCE_BYTES];

	for (uint32_t i = 0; i < RANDOM_BUFFER_BLOCKS; i++)
		random_chacha20_block(random->key, i, nonce,
				      random->buffer + (size_t)i * RANDOM_BLOCK_BYTES);
	memcpy(random->key, random->buffer, RANDOM_KEY_BYTES);
	memset(random->buffer, 0, RANDOM_KEY_BYTES);
	random->left = sizeof(random->buffer) - RANDOM_KEY_BYTES;
}

void random_init(struct random *random, const uint8_t key[RANDOM_KEY_BYTES])
{
	memcpy(random->key, key, RANDOM_KEY_BYTES);
	random->left = 0;
}

int random_open(struct random *random)
{
	uint8_t key[RANDOM_KEY_BYTES];
	ssize_t got;

	do {
		got = sys_getrandom(key, sizeof(key));
	} while (got < 0 && errno == EINTR);
	if (got != (ssize_t)sizeof(key))
		return got < 0 ? -errno : -EIO;
	random_init(random, key);
	explicit_bzero(key, sizeof(key));
	return 0;
}

void random_init_repeatable(struct random *random, uint64_t seed)
{
	uint8_t key[RANDOM_KEY_BYTES] = {0};

	memcpy(key, &seed, sizeof(seed));
	random_init(random, key);
}

/* bytes divides the size of the buffer and of the key. */
static void random_take(struct random *random, void *to, uint32_t bytes)
{
	uint8_t *from;

	if (random->left < bytes)
		refill(random);
	from = random->buffer + sizeof(random->buffer) - random->left;
	memcpy(to, from, bytes);
	memset(from, 0, bytes);
	random->left -= bytes;
}

uint32_t random_u32(struct random *random)
{
	uint32_t number;

	random_take(random, &number, sizeof(number));
	return number;
}

uint64_t random_u64(struct random *random)
{
	uint64_t number;

	random_take(random, &number, sizeof(number));
	return number;
}

uint32_t random_below(struct random *random, uint32_t bound)
{
	uint32_t excess, number;

	assert(bound > 0);
	/*
	 * 2^32 % bound. Numbers below it are rejected, because they would make some results more
	 * probable.
	 */
	excess = (uint32_t)(0 - bound) % bound;
	do {
		number = random_u32(random);
	} while (number < excess);
	return number % bound;
}
