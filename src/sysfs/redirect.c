/* SPDX-License-Identifier: BSD-2-Clause */
#include "sysfs/redirect.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/checks.h"
#include "base/log.h"
#include "base/util.h"
#include "sysfs/counters.h"
#include "sysfs/devices.h"
#include "sysfs/gid_table.h"
#include "sysfs/parent.h"
#include "sysfs/tree.h"

/*
 * The trees of all processes are in the first of these directories that is writable: containers
 * often have a read-only /tmp. If the lock of a tree is free, its process has exited.
 */
static const char *const trees[] = {"/tmp", "/dev/shm", "/var/tmp"};
#define TREES_BYTES  sizeof("/dev/shm")
#define TREE_PREFIX  "usrdma-sys."
#define TREE_PATTERN TREE_PREFIX "XXXXXX"
/* Prefix of a tree that is not locked yet; sweep() ignores it. */
#define NEW_PREFIX "usrdma-new."
#define LOCK_NAME  "lock"

/*
 * The time for which device data of the daemon are cached: a program reads dozens of files of one
 * device in sequence.
 */
#define FRESH_NS 100000000ull

/*
 * The tree of this process, guarded by `lock`. When the devices have changed, a new generation is
 * built beside the previous one. The previous generation is kept, because another thread may be
 * reading it. A child after fork() creates its own tree.
 */
static struct {
	pthread_mutex_t lock;
	pid_t owner;
	int lock_fd;
	const char *parent; /* of `trees` */
	char path[TREES_BYTES + sizeof("/" TREE_PATTERN)];
	unsigned int generation; /* 0: none yet */
	uint64_t fresh_until_ns;
	uint64_t fingerprint;
} tree = {.lock = PTHREAD_MUTEX_INITIALIZER, .lock_fd = -1};

/* Removes a tree if its lock is free: a process that was killed could not remove its tree. */
static void remove_if_left(int trees_fd, const char *name)
{
	char path[NAME_MAX + sizeof("/" LOCK_NAME)];
	int fd;

	snprintf(path, sizeof(path), "%s/" LOCK_NAME, name);
	fd = openat(trees_fd, path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0)
		return;
	if (!flock(fd, LOCK_EX | LOCK_NB))
		tree_remove(trees_fd, name);
	close(fd);
}

static int redirect_is_ours(const struct dirent *entry)
{
	return !strncmp(entry->d_name, TREE_PREFIX, sizeof(TREE_PREFIX) - 1);
}

static void sweep(const char *parent)
{
	struct dirent **names;
	int n = scandir(parent, &names, redirect_is_ours, NULL);
	int trees_fd = open(parent, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	for (int i = 0; i < n; i++) {
		struct stat stat_;

		if (trees_fd >= 0 &&
		    !fstatat(trees_fd, names[i]->d_name, &stat_, AT_SYMLINK_NOFOLLOW) &&
		    stat_.st_uid == geteuid())
			remove_if_left(trees_fd, names[i]->d_name);
		free(names[i]);
	}
	if (n >= 0)
		free(names);
	if (trees_fd >= 0)
		close(trees_fd);
}

static void log_without_tree(const char *places, int error)
{
	static atomic_bool is_logged;

	/* `usrdma run --mount` provides the files. access() of this library would take the lock. */
	if (!syscall(SYS_faccessat, AT_FDCWD, "/sys/class/infiniband", F_OK))
		return;
	if (!atomic_exchange(&is_logged, true))
		log_user(
			"programs do not find RDMA devices in /sys: cannot create files in %s: %s; "
			"give the container a writable /tmp (--tmpfs /tmp)",
			places, strerror(-error));
}

static int home_make_in(const char *parent)
{
	char path[sizeof(tree.path)];
	char lock[sizeof(path) + sizeof("/" LOCK_NAME)];
	int fd, ret;

	sweep(parent);
	snprintf(path, sizeof(path), "%s/" NEW_PREFIX "XXXXXX", parent);
	if (!mkdtemp(path))
		return -errno;
	snprintf(tree.path, sizeof(tree.path), "%s/" TREE_PREFIX "%s", parent,
		 path + strlen(parent) + strlen("/" NEW_PREFIX));
	snprintf(lock, sizeof(lock), "%s/" LOCK_NAME, path);
	fd = open(lock, O_RDWR | O_CREAT | O_CLOEXEC | O_EXCL, 0600);
	if (fd < 0 || flock(fd, LOCK_EX) || chmod(path, 0755) || rename(path, tree.path))
		goto err_made;
	tree.parent = parent;
	tree.lock_fd = fd;
	tree.owner = getpid();
	tree.generation = 0;
	tree.fresh_until_ns = 0;
	return 0;

err_made:
	ret = -errno;
	if (fd >= 0)
		close(fd);
	(void)unlink(lock);
	(void)rmdir(path);
	return ret;
}

/* Creates the directory of this process and locks its lock file until the process exits. */
static int home_make(void)
{
	int ret = -ENOENT;

	/*
	 * In a child after fork() this is a copy of the parent's descriptor, which would keep the
	 * parent's lock.
	 */
	if (tree.lock_fd >= 0)
		close(tree.lock_fd);
	tree.lock_fd = -1;
	for (size_t i = 0; i < COUNT(trees); i++) {
		ret = home_make_in(trees[i]);
		if (!ret)
			return 0;
	}
	log_without_tree("/tmp, /dev/shm and /var/tmp", ret);
	return ret;
}

static void generation_name(char *name, size_t bytes, unsigned int generation)
{
	snprintf(name, bytes, "%u", generation);
}

static int generation_build(int home_fd, const struct device_list *list)
{
	char name[16];
	int fd, ret;

	generation_name(name, sizeof(name), tree.generation + 1);
	if (mkdirat(home_fd, name, 0755))
		return -errno;
	fd = openat(home_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	ret = devices_build(fd, list);
	close(fd);
	return ret;
}

static int generation_make(const struct device_list *list)
{
	int home_fd = open(tree.path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	mode_t mask;
	char name[16];
	int ret;

	if (home_fd < 0)
		return -errno;
	mask = umask(0022);
	ret = generation_build(home_fd, list);
	umask(mask);
	if (!ret) {
		tree.generation++;
		tree.fingerprint = list->fingerprint;
		if (tree.generation > 2) {
			generation_name(name, sizeof(name), tree.generation - 2);
			tree_remove(home_fd, name);
		}
	}
	close(home_fd);
	return ret;
}

/* Ensures that the tree exists and that its data are at most FRESH_NS old. tree.lock held. */
static int redirect_refresh(void)
{
	struct device_list list = {0};
	int ret = 0;

	mutex_assert_locked(&tree.lock);
	if (tree.owner != getpid())
		ret = home_make();
	if (ret || clock_now_ns() < tree.fresh_until_ns)
		return ret;
	ret = devices_get(&list);
	if (!ret && (!tree.generation || list.fingerprint != tree.fingerprint)) {
		ret = generation_make(&list);
		if (ret)
			log_without_tree(tree.parent, ret);
	}
	free(list.items);
	if (!ret)
		tree.fresh_until_ns = clock_now_ns() + FRESH_NS;
	return ret;
}

/* In a child after fork() another thread of the parent may have held the lock. */
static void redirect_start_clean_after_fork(void)
{
	pthread_mutex_init(&tree.lock, NULL);
}

static void __attribute__((constructor)) watch_forks(void)
{
	pthread_atfork(NULL, NULL, redirect_start_clean_after_fork);
}

static void __attribute__((destructor)) leave(void)
{
	int trees_fd;

	if (tree.owner != getpid())
		return;
	trees_fd = open(tree.parent, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (trees_fd < 0)
		return;
	tree_remove(trees_fd, tree.path + strlen(tree.parent) + 1);
	close(trees_fd);
}

static bool redirect_is_at_or_below(const char *path, const char *place)
{
	size_t len = strlen(place);

	return !strncmp(path, place, len) && (path[len] == '/' || path[len] == '\0');
}

static bool is_in_places(const char *path)
{
	for (size_t i = 0; tree_places[i]; i++) {
		if (redirect_is_at_or_below(path, tree_places[i]))
			return true;
	}
	return false;
}

/*
 * Writes the path in the tree, whose root has the length *root_bytes. If pci_length is not 0, the
 * first part of the path, with this length, is that of a PCI function, which may be one of the
 * kernel. Returns whether the path is one of the tree. tree.lock held.
 */
static bool path_in_tree(const char *path, size_t pci_length, char where[PATH_MAX],
			 size_t *root_bytes)
{
	int len = snprintf(where, PATH_MAX, "%s/%u", tree.path, tree.generation);
	struct stat status;
	bool is_there = true;

	mutex_assert_locked(&tree.lock);
	*root_bytes = (size_t)len;
	if (strlen(path) >= PATH_MAX - *root_bytes)
		return false;
	memcpy(where + *root_bytes, path, strlen(path) + 1);
	if (pci_length) {
		char *end = where + *root_bytes + pci_length;

		*end = '\0';
		is_there = !lstat(where, &status);
		*end = path[pci_length];
	}
	return is_there;
}

/*
 * With /etc/ld.so.preload (ADR 0084) also set-user-ID programs have this library. Their user, who
 * may name a path, must not make them create files or start a daemon.
 */
static bool is_privileged(void)
{
	return getauxval(AT_SECURE);
}

const char *redirect_path(const char *path, char where[PATH_MAX])
{
	int errno_before = errno;
	size_t pci_length = path ? parent_pci_length(path) : 0;
	bool is_changed = false;
	size_t root_bytes;

	if (!path || (!pci_length && !is_in_places(path)) || is_privileged())
		return path;
	pthread_mutex_lock(&tree.lock);
	if (!redirect_refresh())
		is_changed = path_in_tree(path, pci_length, where, &root_bytes);
	if (is_changed) {
		gid_table_redirect(where, root_bytes);
		counters_refresh(where, root_bytes);
	}
	pthread_mutex_unlock(&tree.lock);
	errno = errno_before;
	return is_changed ? where : path;
}

char *redirect_result(char *path)
{
	char *end = path ? strstr(path, "/" TREE_PREFIX) : NULL;

	if (!end || strlen(end) <= strlen("/" TREE_PATTERN))
		return path;
	end += strlen("/" TREE_PATTERN);
	end += strspn(end, "/0123456789") - 1;
	if (redirect_is_at_or_below(end, "/sys") || redirect_is_at_or_below(end, "/dev"))
		memmove(path, end, strlen(end) + 1);
	return path;
}
