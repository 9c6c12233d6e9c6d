/* SPDX-License-Identifier: BSD-2-Clause */

/* Mapping of a file that a peer has open or mapped. The peer is this process. */

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/vma.h"
#include "descriptors.h"
#include "local/peer_file.h"

#define BYTES 65536u

static bool can_shrink;

static struct peer_file by_descriptor(int fd)
{
	struct stat st;

	assert_int_equal(fstat(fd, &st), 0);
	return (struct peer_file){
		.pid = getpid(),
		.tid = getpid(),
		.fd = fd,
		.dev = st.st_dev,
		.ino = st.st_ino,
		.bytes = (uint64_t)st.st_size,
	};
}

static struct peer_file by_mapping(const void *at)
{
	struct vma vma;

	assert_int_equal(vma_find((uintptr_t)at, 1, &vma), 0);
	return (struct peer_file){
		.pid = getpid(),
		.tid = getpid(),
		.fd = -1,
		.start = vma.start,
		.end = vma.end,
		.dev = vma.dev,
		.ino = vma.ino,
		.bytes = vma.offset + (vma.end - vma.start),
	};
}

static uint8_t *map_shared(int fd, size_t bytes)
{
	uint8_t *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
			   MAP_SHARED | (fd < 0 ? MAP_ANONYMOUS : 0), fd, 0);

	assert_ptr_not_equal(at, MAP_FAILED);
	return at;
}

/* Both mappings are of one file. */
static void assert_same(uint8_t *at, uint8_t *base)
{
	assert_non_null(base);
	assert_ptr_not_equal(at, base);
	base[100] = 0x5a;
	assert_int_equal(at[100], 0x5a);
	at[200] = 0x33;
	assert_int_equal(base[200], 0x33);
}

static void check_memfd(unsigned int flags, int seals, bool expected)
{
	int fd = memfd_create("object", flags);
	struct peer_file file;
	uint8_t *at, *base;

	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, BYTES), 0);
	if (seals)
		assert_int_equal(fcntl(fd, F_ADD_SEALS, seals), 0);
	at = map_shared(fd, BYTES);
	file = by_descriptor(fd);
	base = peer_file_map(&file, &can_shrink);
	assert_same(at, base);
	assert_int_equal(can_shrink, expected);
	munmap(base, BYTES);
	munmap(at, BYTES);
	close(fd);
}

static void peer_file_memfd_can_shrink_unless_sealed(void **state)
{
	(void)state;
	check_memfd(MFD_CLOEXEC, 0, true);
	check_memfd(MFD_CLOEXEC | MFD_ALLOW_SEALING, F_SEAL_GROW, true);
	check_memfd(MFD_CLOEXEC | MFD_ALLOW_SEALING, F_SEAL_SHRINK, false);
}

/* The peer's process may open the file by its descriptor only. */
static void peer_file_without_permissions_is_mapped(void **state)
{
	int fd = memfd_create("object", MFD_CLOEXEC);
	struct peer_file file;
	uint8_t *at, *base;

	(void)state;
	assert_int_equal(ftruncate(fd, BYTES), 0);
	assert_int_equal(fchmod(fd, 0), 0);
	at = map_shared(fd, BYTES);
	file = by_descriptor(fd);
	base = peer_file_map(&file, &can_shrink);
	assert_same(at, base);
	munmap(base, BYTES);
	munmap(at, BYTES);
	close(fd);
}

static void check_named(const char *directory, size_t bytes)
{
	char path[64];
	uint8_t *at, *base;
	struct peer_file file;
	int fd;

	snprintf(path, sizeof(path), "%s/object-XXXXXX", directory);
	fd = mkstemp(path);
	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, (off_t)bytes), 0);
	at = map_shared(fd, bytes);
	close(fd);
	file = by_mapping(at);
	base = peer_file_map(&file, &can_shrink);
	/* Some file systems have another device number in the list of mappings. */
	if (base || !strcmp(directory, "/dev/shm")) {
		assert_same(at, base);
		assert_true(can_shrink);
		munmap(base, file.bytes);
	}
	assert_int_equal(unlink(path), 0);
	/* Without its name, only privileged processes can open the file. */
	base = peer_file_map(&file, &can_shrink);
	if (base) {
		assert_same(at, base);
		munmap(base, file.bytes);
	}
	munmap(at, bytes);
}

static void peer_file_closed_file_is_mapped(void **state)
{
	(void)state;
	check_named("/dev/shm", BYTES);
	check_named("/dev/shm", BYTES - 100);
	check_named("/tmp", BYTES);
}

static void peer_file_anonymous_memory_is_mapped_if_permitted(void **state)
{
	uint8_t *at = map_shared(-1, BYTES);
	struct peer_file file = by_mapping(at);
	uint8_t *base = peer_file_map(&file, &can_shrink);

	(void)state;
	if (base) {
		assert_same(at, base);
		munmap(base, BYTES);
	} else {
		print_message("not permitted\n");
	}
	munmap(at, BYTES);
}

static void peer_file_other_file_is_not_mapped(void **state)
{
	int fd = memfd_create("object", MFD_CLOEXEC), other = memfd_create("other", MFD_CLOEXEC);
	int ends[2];
	struct peer_file file;

	(void)state;
	assert_int_equal(ftruncate(fd, BYTES) | ftruncate(other, BYTES), 0);
	assert_int_equal(pipe(ends), 0);
	file = by_descriptor(fd);
	file.fd = other;
	assert_null(peer_file_map(&file, &can_shrink));
	file.fd = ends[0];
	assert_null(peer_file_map(&file, &can_shrink));
	file.fd = 9999;
	assert_null(peer_file_map(&file, &can_shrink));
	file = by_descriptor(ends[1]);
	file.bytes = 4096;
	assert_null(peer_file_map(&file, &can_shrink));
	/* Larger than the file. */
	file = by_descriptor(fd);
	file.bytes = BYTES + 1;
	assert_null(peer_file_map(&file, &can_shrink));
	file = by_descriptor(fd);
	file.fd = -1;
	file.start = 0x1000;
	file.end = 0x2000;
	assert_null(peer_file_map(&file, &can_shrink));
	close(fd);
	close(other);
	close(ends[0]);
	close(ends[1]);
}

/* munmap(2) fails for a part of a huge page. */
static void peer_file_part_of_huge_page_is_not_mapped(void **state)
{
	int fd = memfd_create("object", MFD_CLOEXEC | MFD_HUGETLB);
	struct peer_file file;
	struct stat st;
	uint8_t *base;

	(void)state;
	if (fd < 0 || fstat(fd, &st) || ftruncate(fd, st.st_blksize)) {
		print_message("no huge pages\n");
		return;
	}
	file = by_descriptor(fd);
	file.bytes = 4096;
	assert_null(peer_file_map(&file, &can_shrink));
	file.bytes = (uint64_t)st.st_blksize;
	base = peer_file_map(&file, &can_shrink);
	assert_non_null(base);
	assert_true(can_shrink);
	assert_int_equal(munmap(base, file.bytes), 0);
	close(fd);
}

/* Whether another process could lock the file. */
static bool is_lockable(int fd)
{
	int status;
	pid_t pid = fork();

	if (!pid) {
		struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};

		_exit(fcntl(fd, F_GETLK, &lock) || lock.l_type == F_UNLCK);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return WEXITSTATUS(status);
}

/* close(2) of any descriptor of a file releases the locks of the process. */
static void peer_file_locks_and_descriptors_remain(void **state)
{
	int fd = memfd_create("object", MFD_CLOEXEC);
	struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
	int before = count_descriptors();
	struct peer_file file;
	uint8_t *base;

	(void)state;
	assert_int_equal(ftruncate(fd, BYTES), 0);
	assert_int_equal(fcntl(fd, F_SETLK, &lock), 0);
	assert_false(is_lockable(fd));
	file = by_descriptor(fd);
	base = peer_file_map(&file, &can_shrink);
	assert_non_null(base);
	assert_false(is_lockable(fd));
	assert_int_equal(count_descriptors(), before);
	munmap(base, BYTES);
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(peer_file_memfd_can_shrink_unless_sealed),
		cmocka_unit_test(peer_file_without_permissions_is_mapped),
		cmocka_unit_test(peer_file_closed_file_is_mapped),
		cmocka_unit_test(peer_file_anonymous_memory_is_mapped_if_permitted),
		cmocka_unit_test(peer_file_other_file_is_not_mapped),
		cmocka_unit_test(peer_file_part_of_huge_page_is_not_mapped),
		cmocka_unit_test(peer_file_locks_and_descriptors_remain),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
