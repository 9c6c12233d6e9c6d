/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Replaces libFuzzer if the compiler does not support it: runs one fuzz target with every file of
 * its corpus and with a fixed number of mutations of these files. The seed is an argument and is
 * printed, so that a crash can be reproduced.
 *
 *	fuzz-<name> <corpus directory> [seed [rounds]]
 */
#include <dirent.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define INPUT_MAX_BYTES	 4096
#define CORPUS_MAX_FILES 256

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/*
 * One input of the corpus; exists from load_corpus() to the end of the process. The process has one
 * thread.
 */
struct input {
	uint8_t bytes[INPUT_MAX_BYTES];
	size_t len_bytes;
};

static struct input corpus[CORPUS_MAX_FILES];
static size_t corpus_count;
static uint64_t random_state;

/* xorshift64*. A seed must produce the same inputs on every machine. */
static uint64_t next_random(void)
{
	random_state ^= random_state >> 12;
	random_state ^= random_state << 25;
	random_state ^= random_state >> 27;
	return random_state * UINT64_C(2685821657736338717);
}

static size_t random_below(size_t bound)
{
	return (size_t)(next_random() % bound);
}

static void load_file(const char *dir, const char *name)
{
	struct input *in = &corpus[corpus_count];
	char path[4096];
	FILE *file;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	file = fopen(path, "rb");
	if (!file)
		return;
	in->len_bytes = fread(in->bytes, 1, sizeof(in->bytes), file);
	fclose(file);
	corpus_count++;
}

static void load_corpus(const char *path)
{
	struct dirent *entry;
	DIR *dir = opendir(path);

	while (dir && corpus_count < CORPUS_MAX_FILES - 1 && (entry = readdir(dir))) {
		if (entry->d_name[0] != '.')
			load_file(path, entry->d_name);
	}
	if (dir)
		closedir(dir);
	/* The empty input is always included, so that the corpus is not empty. */
	corpus[corpus_count++].len_bytes = 0;
}

static void mutate(struct input *in)
{
	static const uint8_t edges[] = {0x00, 0x01, 0x7f, 0x80, 0xfe, 0xff};
	size_t edits = 1 + random_below(8);

	if (random_below(4) == 0)
		in->len_bytes = random_below(in->len_bytes + 1);
	else if (random_below(4) == 0 || in->len_bytes == 0) {
		size_t longer = in->len_bytes + 1 + random_below(300);

		if (longer > sizeof(in->bytes))
			longer = sizeof(in->bytes);
		while (in->len_bytes < longer)
			in->bytes[in->len_bytes++] = (uint8_t)next_random();
	}
	while (edits-- && in->len_bytes) {
		size_t at = random_below(in->len_bytes);

		if (random_below(2))
			in->bytes[at] = edges[random_below(sizeof(edges))];
		else
			in->bytes[at] ^= (uint8_t)(1u << random_below(8));
	}
}

/*
 * Copies the input to the heap with its exact size, so that AddressSanitizer detects any read
 * beyond its end.
 */
static void run_one(const struct input *in)
{
	uint8_t *copy = malloc(in->len_bytes ? in->len_bytes : 1);

	if (!copy)
		abort();
	memcpy(copy, in->bytes, in->len_bytes);
	LLVMFuzzerTestOneInput(copy, in->len_bytes);
	free(copy);
}

int main(int argc, char **argv)
{
	static struct input scratch;
	uint64_t seed = argc > 2 ? strtoull(argv[2], NULL, 0) : 1;
	uint64_t rounds = argc > 3 ? strtoull(argv[3], NULL, 0) : 20000;

	if (argc < 2) {
		fprintf(stderr, "usage: %s <corpus directory> [seed [rounds]]\n", argv[0]);
		return 2;
	}
	load_corpus(argv[1]);
	for (size_t i = 0; i < corpus_count; i++)
		run_one(&corpus[i]);
	printf("# seed %" PRIu64 ", %" PRIu64 " rounds, %zu kept inputs\n", seed, rounds,
	       corpus_count - 1);
	random_state = seed ? seed : 1;
	for (uint64_t i = 0; i < rounds; i++) {
		scratch = corpus[random_below(corpus_count)];
		mutate(&scratch);
		run_one(&scratch);
	}
	printf("1..1\nok 1 - %zu kept inputs and %" PRIu64 " mutations\n", corpus_count - 1,
	       rounds);
	return 0;
}
