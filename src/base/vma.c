/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/vma.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/syscalls.h"

/* From linux/fs.h. Definitions of our own, because older headers lack them. */
struct procmap_query_arg {
	uint64_t size;
	uint64_t query_flags;
	uint64_t query_addr;
	uint64_t vma_start;
	uint64_t vma_end;
	uint64_t vma_flags;
	uint64_t vma_page_size;
	uint64_t vma_offset;
	uint64_t inode;
	uint32_t dev_major;
	uint32_t dev_minor;
	uint32_t vma_name_size;
	uint32_t build_id_size;
	uint64_t vma_name_addr;
	uint64_t build_id_addr;
};

#define PROCMAP_QUERY_CALL _IOWR('f', 17, struct procmap_query_arg)

enum {
	QUERY_READABLE = 1,
	QUERY_WRITABLE = 2,
	QUERY_SHARED = 8,
	QUERY_COVERING_OR_NEXT = 16,
};

struct pagemap_region {
	uint64_t start;
	uint64_t end;
	uint64_t categories;
};

struct pagemap_scan_arg {
	uint64_t size;
	uint64_t flags;
	uint64_t start;
	uint64_t end;
	uint64_t walk_end;
	uint64_t vec;
	uint64_t vec_len;
	uint64_t max_pages;
	uint64_t category_inverted;
	uint64_t category_mask;
	uint64_t category_anyof_mask;
	uint64_t return_mask;
};

#define PAGEMAP_SCAN_CALL _IOWR('f', 16, struct pagemap_scan_arg)
#define PAGEMAP_IS_GUARD  (UINT64_C(1) << 8)

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
		.is_readable = flags[0] == 'r',
		.is_writable = flags[1] == 'w',
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

/*
 * The first mapping that ends behind the address. 0; -ENOENT: no such mapping; other -errno: the
 * kernel has no such call.
 */
static int query(int maps_fd, uintptr_t addr, struct vma *vma)
{
	struct procmap_query_arg arg = {
		.size = sizeof(arg),
		.query_flags = QUERY_COVERING_OR_NEXT,
		.query_addr = addr,
	};

	if (ioctl(maps_fd, PROCMAP_QUERY_CALL, &arg))
		return -errno;
	*vma = (struct vma){
		.start = arg.vma_start,
		.end = arg.vma_end,
		.offset = arg.vma_offset,
		.dev = arg.inode ? makedev(arg.dev_major, arg.dev_minor) : 0,
		.ino = arg.inode,
		.is_shared = arg.vma_flags & QUERY_SHARED,
		.is_readable = arg.vma_flags & QUERY_READABLE,
		.is_writable = arg.vma_flags & QUERY_WRITABLE,
	};
	return 0;
}

/* 0; -errno: the kernel has no such call, and visit() was not called. */
static int query_each(int maps_fd, uintptr_t addr, uintptr_t last,
		      bool (*visit)(const struct vma *vma, void *arg), void *arg)
{
	struct vma vma;
	int ret;

	for (;;) {
		ret = query(maps_fd, addr, &vma);
		if (ret)
			return ret == -ENOENT ? 0 : ret;
		if (vma.start > last || !visit(&vma, arg) || vma.end > last)
			return 0;
		addr = vma.end;
	}
}

static int parse_each(int maps_fd, uintptr_t addr, uintptr_t last,
		      bool (*visit)(const struct vma *vma, void *arg), void *arg)
{
	struct lines lines = {.fd = maps_fd};
	char line[LINE_BYTES];
	struct vma vma;

	while (next_line(&lines, line)) {
		if (!vma_parse(line, &vma))
			return -EPROTO;
		if (vma.end <= addr)
			continue;
		vma.name[0] = '\0';
		if (vma.start > last || !visit(&vma, arg))
			break;
	}
	return 0;
}

int vma_each(uintptr_t addr, uint64_t length, bool (*visit)(const struct vma *vma, void *arg),
	     void *arg)
{
	uintptr_t last = addr + length - 1;
	int saved = errno;
	int fd, ret;

	if (!length || last < addr)
		return -EINVAL;
	fd = sys_open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
	if (fd < 0) {
		ret = -errno;
	} else {
		ret = query_each(fd, addr, last, visit, arg);
		if (ret)
			ret = parse_each(fd, addr, last, visit, arg);
		sys_close(fd);
	}
	errno = saved;
	return ret;
}

bool vma_has_guard_page(uintptr_t addr, uint64_t length)
{
	uintptr_t page_mask = ~((uintptr_t)sysconf(_SC_PAGESIZE) - 1);
	struct pagemap_region found;
	struct pagemap_scan_arg scan = {
		.size = sizeof(scan),
		.start = addr & page_mask,
		.end = (addr + length + ~page_mask) & page_mask,
		.vec = (uintptr_t)&found,
		.vec_len = 1,
		.max_pages = 1,
		.category_mask = PAGEMAP_IS_GUARD,
		.return_mask = PAGEMAP_IS_GUARD,
	};
	int saved = errno;
	int fd = sys_open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
	bool has_guard;

	has_guard = fd >= 0 && ioctl(fd, PAGEMAP_SCAN_CALL, &scan) > 0;
	if (fd >= 0)
		sys_close(fd);
	errno = saved;
	return has_guard;
}
