/* SPDX-License-Identifier: BSD-2-Clause */
#include "arena/vmas.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "base/syscalls.h"

#define FLAGS_NAME "VmFlags:"

static bool flag_is_set(const char *flags, const char *flag)
{
	const char *found = strstr(flags, flag);

	return found && found[-1] == ' ' && (found[2] == ' ' || !found[2]);
}

bool vmas_line(struct vma_item *item, const char *line)
{
	unsigned long start, end, ino;
	unsigned int dev_major, dev_minor;
	char perms[5];

	if (!strncmp(line, FLAGS_NAME, sizeof(FLAGS_NAME) - 1)) {
		item->is_not_dumped = flag_is_set(line, "dd");
		item->is_huge = flag_is_set(line, "hg");
		item->is_never_huge = flag_is_set(line, "nh");
		return item->end;
	}
	if (sscanf(line, "%lx-%lx %4s %*x %x:%x %lu", &start, &end, perms, &dev_major, &dev_minor,
		   &ino) != 6)
		return false;
	*item = (struct vma_item){
		.start = start,
		.end = end,
		.prot = (perms[0] == 'r' ? PROT_READ : 0) | (perms[1] == 'w' ? PROT_WRITE : 0) |
			(perms[2] == 'x' ? PROT_EXEC : 0),
		.is_shared = perms[3] == 's',
		.dev_major = dev_major,
		.dev_minor = dev_minor,
		.ino = ino,
	};
	return false;
}

/*
 * Passes complete lines to vmas_line(). Returns the number of bytes of the incomplete line at the
 * end.
 */
static size_t lines_take(char *text, size_t bytes, struct vma_item *item,
			 void (*found)(const struct vma_item *, void *), void *context)
{
	char *line = text, *end;

	while ((end = memchr(line, '\n', bytes - (size_t)(line - text)))) {
		*end = '\0';
		if (vmas_line(item, line)) {
			found(item, context);
			item->end = 0;
		}
		line = end + 1;
	}
	bytes -= (size_t)(line - text);
	memmove(text, line, bytes);
	return bytes;
}

int vmas_each(void (*found)(const struct vma_item *item, void *context), void *context)
{
	struct vma_item item = {0};
	char text[8192];
	size_t filled = 0;
	ssize_t got;
	int fd = sys_open("/proc/self/smaps", O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return -errno;
	for (;;) {
		got = sys_read(fd, text + filled, sizeof(text) - filled);
		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			break;
		filled = lines_take(text, filled + (size_t)got, &item, found, context);
	}
	got = got < 0 ? -errno : 0;
	sys_close(fd);
	return (int)got;
}
