/* SPDX-License-Identifier: BSD-2-Clause */
#include "port_holder.h"

#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "report.h"

#define LINE_BYTES 512

/* Returns the inode of a UDP socket on port 4791; 0: none that this file lists. */
static unsigned long port_inode(const char *path)
{
	char line[LINE_BYTES];
	FILE *file = fopen(path, "re");
	unsigned long found = 0;

	while (file && !found && fgets(line, sizeof(line), file)) {
		unsigned long inode;
		unsigned int port;

		if (sscanf(line, " %*[^:]: %*[^:]:%x %*s %*s %*s %*s %*s %*s %*s %lu", &port,
			   &inode) == 2 &&
		    port == ROCE_PORT)
			found = inode;
	}
	if (file)
		fclose(file);
	return found;
}

static bool process_has_socket(const char *pid, unsigned long inode)
{
	char path[PATH_MAX], target[64], wanted[64];
	const struct dirent *entry;
	bool found = false;
	DIR *dir;

	snprintf(wanted, sizeof(wanted), "socket:[%lu]", inode);
	snprintf(path, sizeof(path), "/proc/%s/fd", pid);
	dir = opendir(path);
	while (dir && !found && (entry = readdir(dir))) {
		ssize_t n;

		snprintf(path, sizeof(path), "/proc/%s/fd/%s", pid, entry->d_name);
		n = readlink(path, target, sizeof(target) - 1);
		target[n > 0 ? n : 0] = '\0';
		found = strcmp(target, wanted) == 0;
	}
	if (dir)
		closedir(dir);
	return found;
}

/* Describes the process that has the socket with this inode, as far as this user may see it. */
static void describe_holder(unsigned long inode, char *text, size_t size)
{
	const struct dirent *entry;
	DIR *dir = opendir("/proc");

	snprintf(text, size, "a process of another user, or the kernel");
	while (dir && inode && (entry = readdir(dir))) {
		char path[PATH_MAX], name[32];

		if (entry->d_name[0] < '1' || entry->d_name[0] > '9' ||
		    !process_has_socket(entry->d_name, inode))
			continue;
		snprintf(path, sizeof(path), "/proc/%s/comm", entry->d_name);
		snprintf(text, size, "%s, pid %.16s",
			 file_first_line(path, name, sizeof(name)) ? name : "?", entry->d_name);
		break;
	}
	if (dir)
		closedir(dir);
}

bool port_holder_describe(char *text, size_t size)
{
	unsigned long inode = port_inode("/proc/net/udp");

	if (!inode)
		inode = port_inode("/proc/net/udp6");
	if (inode)
		describe_holder(inode, text, size);
	return inode;
}
