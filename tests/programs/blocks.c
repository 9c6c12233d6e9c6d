/* SPDX-License-Identifier: BSD-2-Clause */

/*
 * blocks [--arena] CASE: checks what a program may expect of aligned memory, with the C library's
 * allocator, and with --arena under `usrdma run`. Exit status 0: as expected.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "blocks.h"

#define ROUNDS 2000

bool has_arena;
static void *(*arena_keep)(const void *, size_t, int *, uint64_t *);
static void (*arena_unkeep)(void *);

void *keep(const void *memory, size_t bytes)
{
	uint64_t offset;
	int fd;

	return has_arena ? arena_keep(memory, bytes, &fd, &offset) : NULL;
}

void unkeep(void *kept)
{
	if (kept)
		arena_unkeep(kept);
}

bool is_shared(const void *memory, size_t bytes, bool expected)
{
	uint64_t offset;
	struct stat stat_;
	void *kept;
	int fd;

	if (!has_arena)
		return expected;
	kept = arena_keep(memory, bytes, &fd, &offset);
	if (!kept)
		return false;
	arena_unkeep(kept);
	return !fstat(fd, &stat_) && (uint64_t)stat_.st_size >= offset + bytes;
}

char *block_new(size_t bytes)
{
	void *memory;

	CHECK(!posix_memalign(&memory, PAGE, bytes));
	CHECK((uintptr_t)memory % PAGE == 0);
	CHECK(is_shared(memory, bytes, true));
	return memory;
}

bool is_filled(const char *memory, char value, size_t bytes)
{
	for (size_t i = 0; i < bytes; i++)
		if (memory[i] != value)
			return false;
	return true;
}

int child_status(pid_t child)
{
	int status;

	while (waitpid(child, &status, 0) < 0)
		CHECK(errno == EINTR);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 256 + WTERMSIG(status);
}

static void functions(void)
{
	const size_t sizes[] = {1, 100, PAGE, PAGE + 1, 10 * PAGE, 3 * MEGA};
	void *memory = &memory;

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		void *all[] = {memalign(PAGE, sizes[i]), aligned_alloc(PAGE, sizes[i]),
			       valloc(sizes[i]), pvalloc(sizes[i]), memalign(MEGA, sizes[i])};

		for (size_t j = 0; j < sizeof(all) / sizeof(all[0]); j++) {
			CHECK(all[j] && (uintptr_t)all[j] % PAGE == 0);
			CHECK(malloc_usable_size(all[j]) >= sizes[i]);
			CHECK(is_shared(all[j], sizes[i], true));
			memset(all[j], (int)j, sizes[i]);
		}
		CHECK((uintptr_t)all[4] % MEGA == 0);
		for (size_t j = 0; j < sizeof(all) / sizeof(all[0]); j++) {
			CHECK(is_filled(all[j], (char)j, sizes[i]));
			free(all[j]);
		}
	}
	CHECK(malloc_usable_size(NULL) == 0);
	free(NULL);
	CHECK(posix_memalign(&memory, 3, 100) == EINVAL);
	CHECK(posix_memalign(&memory, 24, BLOCK) == EINVAL);
	CHECK(posix_memalign(&memory, 0, BLOCK) == EINVAL);
	CHECK(posix_memalign(&memory, PAGE, SIZE_MAX - 100) == ENOMEM);
	CHECK(posix_memalign(&memory, PAGE, (size_t)1 << 46) == ENOMEM);
	CHECK(memory == &memory);
	errno = 0;
	CHECK(!memalign(PAGE, SIZE_MAX / 2) && errno == ENOMEM);
	CHECK(!posix_memalign(&memory, 64, 100) && !is_shared(memory, 100, false));
	free(memory);
	CHECK(!posix_memalign(&memory, PAGE, 0));
	free(memory);
	CHECK((memory = memalign(64, PAGE)) && is_shared(memory, PAGE, true));
	errno = EXDEV;
	free(memory);
	CHECK(errno == EXDEV);
}

static void resize(void)
{
	size_t sizes[] = {BLOCK, 3 * BLOCK, 10, 5 * MEGA, PAGE, 2 * PAGE + 5, 700};
	volatile size_t too_many = SIZE_MAX / 2;
	char *memory = block_new(100);
	size_t had = 100;

	memset(memory, 7, had);
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		memory = realloc(memory, sizes[i]);
		CHECK(memory && malloc_usable_size(memory) >= sizes[i]);
		CHECK(is_filled(memory, 7, had < sizes[i] ? had : sizes[i]));
		memset(memory, 7, sizes[i]);
		had = sizes[i];
	}
	CHECK(!realloc(memory, SIZE_MAX / 2) && is_filled(memory, 7, had));
	CHECK(!reallocarray(memory, too_many, 3) && is_filled(memory, 7, had));
	CHECK((memory = reallocarray(memory, 3, PAGE)) && is_filled(memory, 7, 700));
	free(memory);
	/* The C library resizes a buffer of the program. */
	memory = block_new(PAGE);
	had = PAGE;
	CHECK(getdelim(&memory, &had, '\n', fopen("/proc/self/smaps", "re")) > 0);
	free(memory);
}

/* Threads pass blocks to each other. */
#define SLOTS 64
static _Atomic(char *) slots[SLOTS];

static void *exchange(void *seed_of)
{
	unsigned int seed = *(unsigned int *)seed_of;

	for (int i = 0; i < ROUNDS; i++) {
		size_t pages = (size_t)rand_r(&seed) % 40 + 1;
		char *memory = memalign(PAGE, pages * PAGE), *old;

		CHECK(memory && is_shared(memory, pages * PAGE, true));
		memset(memory, (char)pages, pages * PAGE);
		old = atomic_exchange(&slots[rand_r(&seed) % SLOTS], memory);
		if (!old)
			continue;
		CHECK(is_filled(old, old[0], (size_t)old[0] * PAGE));
		free(old);
	}
	return NULL;
}

static void threads(void)
{
	unsigned int seeds[] = {1, 2, 3, 4};
	pthread_t ids[4];

	for (int i = 0; i < 4; i++)
		CHECK(!pthread_create(&ids[i], NULL, exchange, &seeds[i]));
	/* The children check and free the blocks of all threads. */
	for (int i = 0; i < 20; i++) {
		pid_t child = fork();

		CHECK(child >= 0);
		if (!child) {
			for (int j = 0; j < SLOTS; j++)
				free(atomic_load(&slots[j]));
			block_new(BLOCK)[0] = 1;
			_exit(0);
		}
		CHECK(child_status(child) == 0);
	}
	for (int i = 0; i < 4; i++)
		pthread_join(ids[i], NULL);
	for (int i = 0; i < SLOTS; i++)
		free(slots[i]);
}

static size_t status_kb(const char *name)
{
	FILE *file = fopen("/proc/self/status", "re");
	char line[256];
	size_t kb = 0;

	CHECK(file);
	while (fgets(line, sizeof(line), file))
		if (!strncmp(line, name, strlen(name)))
			kb = strtoul(line + strlen(name) + 1, NULL, 10);
	fclose(file);
	return kb;
}

static void limit(int resource, rlim_t value)
{
	struct rlimit now;

	CHECK(!getrlimit((__rlimit_resource_t)resource, &now));
	now.rlim_cur = value;
	CHECK(!setrlimit((__rlimit_resource_t)resource, &now));
}

static rlim_t limit_of(int resource)
{
	struct rlimit now;

	CHECK(!getrlimit((__rlimit_resource_t)resource, &now));
	return now.rlim_cur;
}

static void address_space(void)
{
	char *memory = block_new(256 * MEGA);
	rlim_t now;

	memset(memory, 1, 256 * MEGA);
	CHECK(status_kb("VmRSS:") > 256 * 1024);
	free(memory);
	CHECK(status_kb("VmRSS:") < 64 * 1024);
	now = (rlim_t)status_kb("VmSize:") * 1024;
	limit(RLIMIT_AS, now + 128 * MEGA);
	CHECK((memory = memalign(PAGE, 64 * MEGA)));
	memset(memory, 1, 64 * MEGA);
	errno = 0;
	CHECK(!memalign(PAGE, 256 * MEGA) && errno == ENOMEM);
	free(memory);
	CHECK(mmap(NULL, 100 * MEGA, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) !=
	      MAP_FAILED);
}

static void data_limit(void)
{
	char *memory = block_new(8 * MEGA);
	pid_t child;

	memset(memory, 3, 8 * MEGA);
	limit(RLIMIT_DATA, (rlim_t)status_kb("VmData:") * 1024 + 128 * MEGA);
	CHECK(memalign(PAGE, 64 * MEGA));
	CHECK(!memalign(PAGE, 256 * MEGA) && errno == ENOMEM);
	/* fork() does not depend on the limit. */
	limit(RLIMIT_DATA, MEGA);
	child = fork();
	CHECK(child >= 0);
	if (!child) {
		CHECK(is_filled(memory, 3, 8 * MEGA) && limit_of(RLIMIT_DATA) == MEGA);
		_exit(0);
	}
	CHECK(child_status(child) == 0);
}

/* A file larger than the limit would end the process with SIGXFSZ. */
static void file_size(void)
{
	char *memory;

	limit(RLIMIT_FSIZE, MEGA);
	CHECK((memory = memalign(PAGE, BLOCK)));
	memset(memory, 1, BLOCK);
	free(memory);
}

/* fork() needs no free descriptor number. */
static void descriptors(void)
{
	char *memory = block_new(BLOCK), *other = block_new(BLOCK);

	CHECK(!mprotect(other, PAGE, PROT_READ));
	limit(RLIMIT_NOFILE, 64);
	while (dup(0) >= 0)
		;
	CHECK(errno == EMFILE);
	memset(memory, 3, BLOCK);
	for (int i = 0; i < 3; i++) {
		pid_t child = fork();

		CHECK(child >= 0);
		if (!child) {
			CHECK(is_filled(memory, 3, BLOCK) && is_filled(other, 0, BLOCK));
			memset(memory, 4, BLOCK);
			memset(other + PAGE, 4, BLOCK - PAGE);
			_exit(0);
		}
		CHECK(child_status(child) == 0);
		CHECK(is_filled(memory, 3, BLOCK) && is_filled(other, 0, BLOCK));
	}
}

/* The program closes all descriptors and uses the number for a file. */
static void closed(void)
{
	char *memory = block_new(BLOCK), *changed = block_new(BLOCK);
	char path[] = "/tmp/blocks.XXXXXX", text[8] = "";
	int file = mkstemp(path), fd = -1;
	uint64_t offset;
	pid_t child;

	memset(memory, 3, BLOCK);
	memset(changed, 3, BLOCK);
	CHECK(!mprotect(changed, BLOCK, PROT_READ));
	CHECK(!mprotect(changed, BLOCK, PROT_READ | PROT_WRITE));
	CHECK(!has_arena || arena_keep(memory, 1, &fd, &offset));
	if (has_arena)
		CHECK(dup2(file, fd) == fd);
	CHECK(!madvise(changed, PAGE, MADV_DONTNEED) && is_filled(changed, 0, PAGE));
	free(changed);
	CHECK(!unlink(path) && pwrite(file, "content", 8, 0) == 8);
	CHECK(!has_arena || !arena_keep(memory, 1, &fd, &offset));
	for (int i = 0; i < 20; i++) {
		char *more = memalign(PAGE, BLOCK * (size_t)(i + 1));

		memset(more, 5, BLOCK);
		CHECK(!madvise(more, PAGE, MADV_DONTNEED) && is_filled(more, 0, PAGE));
		CHECK(!madvise(memory, PAGE, MADV_DONTNEED) && is_filled(memory, 0, PAGE));
		memset(memory, 3, PAGE);
		child = fork();
		if (!child) {
			CHECK(is_filled(memory, 3, BLOCK));
			memset(memory, 4, BLOCK);
			free(memory);
			_exit(fcntl(file, F_GETFD) != 0);
		}
		CHECK(child_status(child) == 0 && is_filled(memory, 3, BLOCK));
		if (i % 2)
			free(more);
	}
	free(memory);
	CHECK(pread(file, text, 8, 0) == 8 && !strcmp(text, "content"));
	CHECK(lseek(file, 0, SEEK_END) == 8);
}

/* The kernel has one mapping for all blocks. */
static void mappings(void)
{
	char *first = block_new(PAGE), line[4096];
	unsigned int found = 0;
	FILE *file;

	for (int i = 0; i < 20000; i++)
		first = block_new(PAGE);
	file = fopen("/proc/self/maps", "re");
	CHECK(file && first);
	while (fgets(line, sizeof(line), file))
		found += strstr(line, "memfd:usrdma-arena") != NULL;
	CHECK(found == has_arena);
}

/*
 * Unless USRDMA_SHARE=on, the blocks in the arena have a bound, because fork() copies them at once.
 */
static void bound(void)
{
	const char *value = getenv("USRDMA_SHARE");
	bool is_unbound = value && !strcmp(value, "on");
	char *most = block_new(255 * MEGA), *more = memalign(PAGE, 2 * MEGA);

	CHECK(more && is_shared(more, 2 * MEGA, is_unbound) == is_unbound);
	memset(more, 1, 2 * MEGA);
	free(most);
	CHECK((more = realloc(more, 4 * MEGA)) && is_filled(more, 1, 2 * MEGA));
	free(more);
	free(block_new(2 * MEGA));
}

/* What another library allocates: the process has no arena, but works. */
static void other_allocator(void)
{
	char *memory = memalign(PAGE, BLOCK);

	CHECK(memory && !is_shared(memory, BLOCK, false));
	memset(memory, 1, BLOCK);
	CHECK((memory = realloc(memory, 3 * BLOCK)) && is_filled(memory, 1, BLOCK));
	CHECK(malloc_usable_size(memory) >= 3 * BLOCK);
	free(memory);
}

static const struct {
	const char *name;
	void (*run)(void);
} cases[] = {
	{"functions", functions},
	{"resize", resize},
	{"threads", threads},
	{"forks", forks},
	{"writers", writers},
	{"snapshot", snapshot},
	{"advice", advice},
	{"protection", protection},
	{"registered", registered},
	{"stale", stale},
	{"address_space", address_space},
	{"data_limit", data_limit},
	{"file_size", file_size},
	{"descriptors", descriptors},
	{"closed", closed},
	{"mappings", mappings},
	{"other_allocator", other_allocator},
	{"bound", bound},
	{"orphan", orphan},
	{"fragments", fragments},
	{"stacks", stacks},
	{"cloned", cloned},
	{"handlers", handlers},
	{"remap", remap},
	{"wiped", wiped},
	{"rooted", rooted},
};

int main(int argc, char **argv)
{
	has_arena = argc > 1 && !strcmp(argv[1], "--arena");
	*(void **)&arena_keep = dlsym(RTLD_DEFAULT, "usrdma_arena_keep");
	*(void **)&arena_unkeep = dlsym(RTLD_DEFAULT, "usrdma_arena_unkeep");
	CHECK(!has_arena || arena_keep);
	for (size_t i = 0; argc > 1 && i < sizeof(cases) / sizeof(cases[0]); i++) {
		if (strcmp(cases[i].name, argv[argc - 1]))
			continue;
		cases[i].run();
		return 0;
	}
	fputs("usage: blocks [--arena] CASE\n", stderr);
	return 2;
}
