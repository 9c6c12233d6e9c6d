/* SPDX-License-Identifier: BSD-2-Clause */
#include "view_mount.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sysfs/tree.h"

/*
 * No process can create a directory in sysfs, and an ordinary user cannot in /dev. Where a
 * directory of the kernel lacks an entry of the view, an empty file system is mounted on it, and
 * the kernel's entries are mounted in it one by one. Their content is that of the kernel also
 * afterwards, and relative links such as /sys/class/net/lo lead to the same files. Only entries
 * that the kernel adds later to such a directory itself are missing.
 */

struct view_dir {
	const char *view; /* root of the tree */
	const char *path; /* in the tree and of the kernel */
	char *what;	  /* see view_mount() */
};

static int view_failed(const struct view_dir *dir, const char *entry, int error)
{
	if (snprintf(dir->what, PATH_MAX, "%s%s%s", dir->path, *entry ? "/" : "", entry) >=
	    PATH_MAX)
		return -ENAMETOOLONG;
	return error;
}

static bool is_dots(const char *name)
{
	return !strcmp(name, ".") || !strcmp(name, "..");
}

static bool is_place(const char *path)
{
	for (size_t i = 0; tree_places[i]; i++) {
		if (!strcmp(path, tree_places[i]))
			return true;
	}
	return false;
}

int view_mount_empty(const char *path)
{
	return mount("usrdma", path, "tmpfs", MS_NOSUID | MS_NOEXEC, "mode=755") ? -errno : 0;
}

static int link_copy(int from_fd, const char *name, int to_fd)
{
	char target[PATH_MAX];
	ssize_t len = readlinkat(from_fd, name, target, sizeof(target) - 1);

	if (len < 0)
		return -errno;
	target[len] = '\0';
	return symlinkat(target, to_fd, name) ? -errno : 0;
}

/* Creates a directory or a file on which the one that `status` describes can be mounted. */
static int point_make(int to_fd, const char *name, const struct stat *status)
{
	int fd;

	if (S_ISDIR(status->st_mode))
		return mkdirat(to_fd, name, 0755) ? -errno : 0;
	fd = openat(to_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
	if (fd < 0)
		return -errno;
	close(fd);
	return 0;
}

/*
 * Adds an entry of the directory from_fd to the directory to_fd, which has the path dir->path: a
 * link as a copy, others as mounts. The current directory is from_fd.
 */
static int entry_add(const struct view_dir *dir, int from_fd, int to_fd, const char *name)
{
	char target[PATH_MAX];
	struct stat status;
	int ret;

	if (snprintf(target, sizeof(target), "%s/%s", dir->path, name) >= (int)sizeof(target))
		return -ENAMETOOLONG;
	/* The kernel may have removed it since the directory was read. */
	if (fstatat(from_fd, name, &status, AT_SYMLINK_NOFOLLOW))
		return errno == ENOENT ? 0 : -errno;
	if (S_ISLNK(status.st_mode))
		return link_copy(from_fd, name, to_fd);
	ret = point_make(to_fd, name, &status);
	if (!ret && mount(name, target, NULL, MS_BIND | MS_REC, NULL))
		ret = errno == ENOENT ? 0 : -errno;
	return ret;
}

/*
 * Adds the entries of the directory from_fd that do not exist in to_fd. Entries that only the
 * view provides are not added from the kernel's directory.
 */
static int entries_add(const struct view_dir *dir, int from_fd, int to_fd, bool is_kernel)
{
	int fd = openat(from_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *from = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *entry;
	int ret = 0;

	if (!from)
		return -errno;
	if (fchdir(from_fd))
		ret = -errno;
	while (!ret && (entry = readdir(from))) {
		char path[PATH_MAX];

		if (is_dots(entry->d_name) ||
		    !faccessat(to_fd, entry->d_name, F_OK, AT_SYMLINK_NOFOLLOW))
			continue;
		snprintf(path, sizeof(path), "%s/%s", dir->path, entry->d_name);
		if (is_kernel && is_place(path))
			continue;
		ret = entry_add(dir, from_fd, to_fd, entry->d_name);
		if (ret)
			ret = view_failed(dir, entry->d_name, ret);
	}
	closedir(from);
	return ret;
}

/* Replaces the directory of the kernel by one with the same entries and those of the view. */
static int dir_replace(const struct view_dir *dir, int view_fd)
{
	int kernel_fd = open(dir->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int new_fd = -1, ret;

	if (kernel_fd < 0)
		return view_failed(dir, "", -errno);
	ret = view_mount_empty(dir->path);
	if (!ret) {
		new_fd = open(dir->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		ret = new_fd < 0 ? -errno : 0;
	}
	if (ret)
		ret = view_failed(dir, "", ret);
	if (!ret)
		ret = entries_add(dir, kernel_fd, new_fd, true);
	if (!ret)
		ret = entries_add(dir, view_fd, new_fd, false);
	if (new_fd >= 0)
		close(new_fd);
	close(kernel_fd);
	return ret;
}

/* Whether the view has an entry that the kernel's directory lacks or that replaces the kernel's. */
static bool dir_differs(const struct view_dir *dir, int view_fd, int kernel_fd)
{
	int fd = openat(view_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *view = fd < 0 ? NULL : fdopendir(fd);
	bool differs = false;
	struct dirent *entry;

	while (view && !differs && (entry = readdir(view))) {
		char path[PATH_MAX];

		snprintf(path, sizeof(path), "%s/%s", dir->path, entry->d_name);
		differs = !is_dots(entry->d_name) &&
			  (is_place(path) ||
			   faccessat(kernel_fd, entry->d_name, F_OK, AT_SYMLINK_NOFOLLOW) != 0);
	}
	if (view)
		closedir(view);
	return differs;
}

static int dir_mount(const struct view_dir *dir);

/* Continues with the directories that both have. */
static int children_mount(const struct view_dir *dir, int view_fd)
{
	int fd = openat(view_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *view = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *entry;
	int ret = 0;

	if (!view)
		return view_failed(dir, "", -errno);
	while (!ret && (entry = readdir(view))) {
		char path[PATH_MAX];
		struct view_dir child = {dir->view, path, dir->what};
		struct stat status;

		if (is_dots(entry->d_name) ||
		    fstatat(view_fd, entry->d_name, &status, AT_SYMLINK_NOFOLLOW) ||
		    !S_ISDIR(status.st_mode))
			continue;
		if (snprintf(path, sizeof(path), "%s/%s", dir->path, entry->d_name) >=
		    (int)sizeof(path))
			ret = -ENAMETOOLONG;
		else if (!is_place(path) && !access(path, F_OK))
			ret = dir_mount(&child);
	}
	closedir(view);
	return ret;
}

/* Mounts the entries of the view at and below a directory that the kernel has. */
static int dir_mount(const struct view_dir *dir)
{
	char path[PATH_MAX];
	int view_fd, kernel_fd, ret;
	bool differs;

	if (snprintf(path, sizeof(path), "%s%s", dir->view, dir->path) >= (int)sizeof(path))
		return -ENAMETOOLONG;
	view_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	kernel_fd = open(dir->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	ret = view_fd < 0 || kernel_fd < 0 ? view_failed(dir, "", -errno) : 0;
	differs = !ret && dir_differs(dir, view_fd, kernel_fd);
	if (kernel_fd >= 0)
		close(kernel_fd);
	/* The mounts below are part of what dir_replace() mounts in the new directory. */
	if (!ret)
		ret = children_mount(dir, view_fd);
	if (!ret && differs)
		ret = dir_replace(dir, view_fd);
	if (view_fd >= 0)
		close(view_fd);
	return ret;
}

int view_mount(const char *view, const char *name, char *what)
{
	char path[NAME_MAX];

	snprintf(path, sizeof(path), "/%s", name);
	return dir_mount(&(struct view_dir){view, path, what});
}
