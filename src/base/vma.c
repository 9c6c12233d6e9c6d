/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/vma.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/sysmacros.h>

#include "base/syscalls.h"

/* Longer than the part of a line before the path. The rest of a longer line is skipped. */
#define LINE_BYTES 256

bool vma_parse(const char *line, struct vma *vma)
{
	unsigned long start, end, offset, ino;
	unsigned int major_number, minor_number;
	char flags[5];
	int used = 0;
	size_t length;

	if (sscanf(line, "%lx-%lx %4s %lx %x:%x %lu %n", &start, &end, flags, &offset,
		   &major_number, &minor_number, &ino, &used) != 7 ||
	    !used || end <= start || strlen(flags) != 4)
		return false;
	*vma = (struct vma){
		.start = start,
		.end = end,
		.offset = offset,
		.dev = makedev(major_number, minor_number),
		.ino = ino,
		.is_shared = flags[3] == 's',
	};
	length = strcspn(line + used, "\n");
	if (length >= sizeof(vma->name))
		length = sizeof(vma->name) - 1;
	memcpy(vma->name, line + used, length);
	return true;
}

/* Lines of a file. A line that is longer than the buffer is cut off. */
struct lines {
	int fd;
	char bytes[4096];
	size_t filled;
	size_t used;
};

/* The next byte; -1: end of the file or error. */
static int next_byte(struct lines *lines)
{
	if (lines->used == lines->filled) {
		ssize_t got = sys_read(lines->fd, lines->bytes, sizeof(lines->bytes));

		if (got <= 0)
			return -1;
		lines->filled = (size_t)got;
		lines->used = 0;
	}
	return (uint8_t)lines->bytes[lines->used++];
}

static bool next_line(struct lines *lines, char line[LINE_BYTES])
{
	size_t at = 0;
	int byte = next_byte(lines);

	if (byte < 0)
		return false;
	for (; byte >= 0 && byte != '\n'; byte = next_byte(lines)) {
		if (at < LINE_BYTES - 1)
			line[at++] = (char)byte;
	}
	line[at] = '\0';
	return true;
}

/* Whether `next` continues the object of `vma` where that mapping ends. */
static bool continues(const struct vma *vma, const struct vma *next)
{
	return next->start == vma->end && next->is_shared == vma->is_shared && vma->is_shared &&
	       next->dev == vma->dev && next->ino == vma->ino &&
	       next->offset == vma->offset + (vma->end - vma->start);
}

static int find_in(struct lines *lines, uintptr_t addr, size_t length, struct vma *vma)
{
	uint64_t end = (uint64_t)addr + length;
	char line[LINE_BYTES];
	bool is_inside = false;
	struct vma next;

	while (next_line(lines, line)) {
		if (!vma_parse(line, &next))
			return -EPROTO;
		if (next.end <= addr)
			continue;
		if (!is_inside) {
			if (next.start > addr)
				return -ENOENT;
			*vma = next;
		} else if (continues(vma, &next)) {
			vma->end = next.end;
		} else {
			return -ENOENT;
		}
		is_inside = true;
		if (vma->end >= end)
			return 0;
	}
	return -ENOENT;
}

int vma_find(uintptr_t addr, size_t length, struct vma *vma)
{
	struct lines lines = {.fd = sys_open("/proc/self/maps", O_RDONLY | O_CLOEXEC)};
	int ret;

	if (lines.fd < 0)
		return -errno;
	ret = find_in(&lines, addr, length, vma);
	sys_close(lines.fd);
	return ret;
}
