/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_BASE_VMA_H
#define USRDMA_BASE_VMA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * The mappings of this process (proc_pid_maps(5)): which memory object is mapped at an address, and
 * with which protection.
 */

#define VMA_NAME_BYTES 64

struct vma {
	uint64_t start;
	uint64_t end;	 /* the first address after the mapping */
	uint64_t offset; /* of `start` in the object, bytes */
	uint64_t dev;	 /* the object, as st_dev and st_ino of stat(2); both 0: anonymous memory */
	uint64_t ino;
	bool is_shared; /* MAP_SHARED */
	bool is_readable;
	bool is_writable;
	char name[VMA_NAME_BYTES]; /* the beginning of the path; empty: none. NUL-terminated */
};

/*
 * Parses one line of /proc/<pid>/maps, NUL-terminated, with or without the line feed. false:
 * malformed.
 */
bool vma_parse(const char *line, struct vma *vma) __attribute__((warn_unused_result));

/*
 * Finds the object that backs the memory [addr, addr + length) of this process. Several mappings
 * are one result if they are adjacent and refer to successive parts of one shared object: `start`,
 * `offset` and `name` are those of the first one, and `end` is at or after the end of the range.
 * Reads /proc/self/maps, which takes longer if the process has many mappings. 0; -ENOENT: the range
 * is not mapped, or is not backed by one object; other -errno: the file cannot be read.
 */
int vma_find(uintptr_t addr, size_t length, struct vma *vma) __attribute__((warn_unused_result));

/*
 * Calls visit() for each mapping that has a part of [addr, addr + length), in the order of their
 * addresses, until it returns false. `name` is empty. Asks the kernel for each mapping
 * (PROCMAP_QUERY, Linux 6.11), or reads /proc/self/maps. 0; -errno: neither can be read.
 */
int vma_each(uintptr_t addr, uint64_t length, bool (*visit)(const struct vma *vma, void *arg),
	     void *arg) __attribute__((warn_unused_result));

/*
 * Whether the range has a guard page (MADV_GUARD_INSTALL of madvise(2), Linux 6.13). false, too, if
 * the kernel does not report them (before Linux 6.16) or without /proc. Takes about a millisecond
 * for each gigabyte of pages of 4 KiB that are present.
 */
bool vma_has_guard_page(uintptr_t addr, uint64_t length);

#endif
