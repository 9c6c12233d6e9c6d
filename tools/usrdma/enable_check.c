/* SPDX-License-Identifier: BSD-2-Clause */
/* What `usrdma enable` checks before it changes a machine. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "config.h"
#include "enable.h"
#include "run_variables.h"

#define CLASS	    "/sys/class/infiniband"
#define DAEMON_NAME "usrdmad"

/* What node_desc of a device of usrdma contains (sysfs/tree.c). */
#define OWN_DESCRIPTION "usrdma\n"

static bool trust_refuse(const char *path, const char *why)
{
	fprintf(stderr,
		"usrdma: enable: %s %s: processes of root would load libraries that another user can "
		"change, or programs of other users could not load them; install usrdma as root in a "
		"directory such as /usr or /usr/local\n",
		path, why);
	return false;
}

/* A file or directory that only root can change and all users can read. */
static bool trust_component(const char *path)
{
	struct stat status;
	char why[64];

	if (lstat(path, &status)) {
		fprintf(stderr, "usrdma: enable: %s: %m\n", path);
		return false;
	}
	if (status.st_uid != 0) {
		snprintf(why, sizeof(why), "belongs to uid %u", status.st_uid);
		return trust_refuse(path, why);
	}
	if (status.st_mode & S_IWOTH)
		return trust_refuse(path, "can be changed by all users");
	if (status.st_mode & S_IWGRP) {
		snprintf(why, sizeof(why), "can be changed by group %u", status.st_gid);
		return trust_refuse(path, why);
	}
	if (S_ISDIR(status.st_mode) && !(status.st_mode & S_IXOTH))
		return trust_refuse(path, "cannot be entered by all users");
	if (!S_ISDIR(status.st_mode) && !(status.st_mode & S_IROTH))
		return trust_refuse(path, "cannot be read by all users");
	return true;
}

/* The same for the path, which has no links, and all directories above it. */
static bool trust_path(const char *path)
{
	char part[PATH_MAX];

	if (!trust_component("/"))
		return false;
	snprintf(part, sizeof(part), "%s", path);
	for (char *slash = strchr(part + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
		*slash = '\0';
		if (!trust_component(part))
			return false;
		*slash = '/';
	}
	return trust_component(part);
}

/* Links of the directory may lead to another one. */
static bool trust_target(const char *dir, const char *name)
{
	char path[PATH_MAX], real[PATH_MAX];

	if (snprintf(path, sizeof(path), "%s/%s", dir, name) >= (int)sizeof(path) ||
	    !realpath(path, real)) {
		fprintf(stderr, "usrdma: enable: %s/%s: %m\n", dir, name);
		return false;
	}
	return trust_path(real);
}

/* Whether the file does not exist, or is trusted; counts those that exist. */
static bool trust_if_there(const char *dir, const char *name, unsigned int *count)
{
	char path[PATH_MAX];

	if (snprintf(path, sizeof(path), "%s/%s", dir, name) >= (int)sizeof(path) ||
	    access(path, F_OK))
		return true;
	(*count)++;
	return trust_target(dir, name);
}

/*
 * The daemon, which the libraries start with the rights of the program: each path where they search
 * it (ipc/spawn.c).
 */
static bool trust_daemon(const char *dir)
{
	unsigned int count = 0;
	char above[PATH_MAX];
	char *slash;

	snprintf(above, sizeof(above), "%s", dir);
	while ((slash = strrchr(above, '/'))) {
		*slash = '\0';
		if (!trust_if_there(above, DAEMON_NAME, &count) ||
		    !trust_if_there(above, "libexec/usrdma/" DAEMON_NAME, &count))
			return false;
	}
	if (!trust_if_there("", &USRDMA_INSTALLED_DAEMON[1], &count))
		return false;
	if (!count)
		fprintf(stderr,
			"usrdma: enable: the daemon, " USRDMA_INSTALLED_DAEMON
			", does not exist; install usrdma completely, for example with 'make install'\n");
	return count > 0;
}

bool enable_is_trusted(const char *dir)
{
	static const char *const needed[] = {"libibverbs.so.1", "librdmacm.so.1",
					     PRELOAD_SYSFS_NAME};
	bool is_trusted = trust_path(dir);
	struct dirent *entry;
	DIR *open_dir;

	for (size_t i = 0; is_trusted && i < sizeof(needed) / sizeof(needed[0]); i++)
		is_trusted = trust_target(dir, needed[i]);
	open_dir = is_trusted ? opendir(dir) : NULL;
	while (open_dir && is_trusted && (entry = readdir(open_dir))) {
		if (entry->d_name[0] != '.')
			is_trusted = trust_target(dir, entry->d_name);
	}
	if (open_dir)
		closedir(open_dir);
	return is_trusted && open_dir && trust_daemon(dir);
}

/*
 * System calls: if this process has the preloaded library, the C library's functions show its own
 * devices.
 */
static int kernel_open(int at, const char *path, int flags)
{
	return (int)syscall(SYS_openat, at, path, O_RDONLY | O_CLOEXEC | flags);
}

/* In the namespace of `usrdma run --mount` the files are those of usrdma. */
static bool is_own_device(int class_fd, const char *name)
{
	char path[NAME_MAX + sizeof("/node_desc")], text[sizeof(OWN_DESCRIPTION)] = "";
	int fd;

	snprintf(path, sizeof(path), "%s/node_desc", name);
	fd = kernel_open(class_fd, path, 0);
	if (fd < 0)
		return false;
	if (read(fd, text, sizeof(text) - 1) < 0)
		text[0] = '\0';
	close(fd);
	return !strcmp(text, OWN_DESCRIPTION);
}

bool enable_find_adapter(char name[NAME_MAX + 1])
{
	int fd = kernel_open(AT_FDCWD, CLASS, O_DIRECTORY);
	DIR *class = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *entry;
	bool is_found = false;

	while (class && !is_found && (entry = readdir(class))) {
		if (entry->d_name[0] == '.' || is_own_device(fd, entry->d_name))
			continue;
		snprintf(name, NAME_MAX + 1, "%s", entry->d_name);
		is_found = true;
	}
	if (class)
		closedir(class);
	return is_found;
}
