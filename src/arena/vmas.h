/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_ARENA_VMAS_H
#define USRDMA_ARENA_VMAS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* One mapping of this process, as in proc_pid_smaps(5). */
struct vma_item {
	uintptr_t start;
	uintptr_t end;
	int prot; /* PROT_* */
	bool is_shared;
	bool is_not_dumped;	/* VmFlags "dd": MADV_DONTDUMP */
	bool is_huge;		/* "hg": MADV_HUGEPAGE */
	bool is_never_huge;	/* "nh": MADV_NOHUGEPAGE */
	unsigned int dev_major; /* of the file system */
	unsigned int dev_minor;
	uint64_t ino;
};

/*
 * Calls `found` for each mapping of this process in ascending order. `found` may replace the
 * mapping. The function does not call the allocator. 0; -errno: /proc/self/smaps cannot be read.
 */
int vmas_each(void (*found)(const struct vma_item *item, void *context), void *context)
	__attribute__((warn_unused_result));

/*
 * Parses one line of /proc/self/smaps, NUL-terminated: the first line of a mapping initialises
 * *item, the line "VmFlags:" sets its flags and is the last line. Returns whether the line was the
 * last one of a mapping.
 */
bool vmas_line(struct vma_item *item, const char *line);

#endif
