/* SPDX-License-Identifier: BSD-2-Clause */
#include "run_mount.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <unistd.h>

#include "ipc/client.h"
#include "ipc/known_uid.h"
#include "sysfs/devices.h"
#include "sysfs/snapshot.h"
#include "places.h"
#include "view_mount.h"

/*
 * The directory on which the tree is built: it exists wherever sysfs is mounted, and the tree does
 * not need its files. They are visible again before the program starts.
 */
#define STAGING "/sys/kernel"

#define WITHOUT_MOUNT "; without --mount, 'usrdma run' serves all dynamically linked programs"

static int mount_refused(const char *what, const char *object, int error)
{
	const char *mend = "run the command as root, with CAP_SYS_ADMIN; a container needs "
			   "--cap-add SYS_ADMIN, and a security profile that permits mounts";

	if (error == -ENOSPC)
		mend = "the limit of namespaces is reached: sysctl user.max_user_namespaces";
	else if (error == -ENOENT || error == -ENOTDIR)
		mend = "mount sysfs on /sys, and proc on /proc";
	else if (error == -ENOSYS || error == -EINVAL)
		mend = "the kernel lacks user namespaces, or a sandbox does not permit them: run the "
		       "command as root";
	fprintf(stderr, "usrdma: run --mount: cannot %s%s: %s: %s" WITHOUT_MOUNT "\n", what, object,
		strerror(-error), mend);
	return EXIT_FAILURE;
}

static int proc_write(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	size_t len = strlen(text);
	int ret = 0;

	if (fd < 0)
		return -errno;
	if (write(fd, text, len) != (ssize_t)len)
		ret = -errno;
	close(fd);
	return ret;
}

/* Gives the user and the group the ids in the new user namespace that they had outside. */
static int ids_keep(uid_t uid, gid_t gid)
{
	char map[64];
	int ret = proc_write("/proc/self/setgroups", "deny");

	/* Kernels before 3.19 lack the file. */
	if (ret && ret != -ENOENT)
		return ret;
	snprintf(map, sizeof(map), "%u %u 1\n", uid, uid);
	ret = proc_write("/proc/self/uid_map", map);
	if (ret)
		return ret;
	snprintf(map, sizeof(map), "%u %u 1\n", gid, gid);
	return proc_write("/proc/self/gid_map", map);
}

/*
 * In a user namespace that maps one uid, root's daemon cannot be distinguished from a daemon of
 * another user, and neither can the user whose uid is the overflow uid (ipc/known_uid.h). The
 * libraries do not use such a daemon. Returns whether they use this one. Only a message: the
 * program may only read the files.
 */
static bool daemon_is_usable(void)
{
	struct ipc_client client;
	bool is_known;
	uid_t daemon_uid;

	if (ipc_client_open(&client, IPC_ROLE_CONTROL))
		return false;
	daemon_uid = client.daemon_uid;
	is_known = daemon_uid == geteuid() && daemon_uid != known_uid_overflow();
	ipc_client_close(&client);
	if (!is_known)
		fprintf(stderr,
			"usrdma: run --mount: the program finds the devices in /sys, but cannot open "
			"them: it runs in a user namespace, where it cannot verify that the daemon "
			"belongs to uid %u; to open devices, run the command as root\n",
			daemon_uid);
	return is_known;
}

/*
 * Creates the namespaces. *is_usable: whether the daemon can be used there. 0, or the exit status
 * after an error message.
 */
static int namespaces_enter(bool *is_usable)
{
	uid_t uid = geteuid();
	gid_t gid = getegid();
	int ret;

	*is_usable = true;
	places_remember();
	if (!unshare(CLONE_NEWNS))
		return 0;
	*is_usable = daemon_is_usable();
	if (unshare(CLONE_NEWUSER | CLONE_NEWNS))
		return mount_refused("create a user and mount namespace", "", -errno);
	ret = ids_keep(uid, gid);
	return ret ? mount_refused("map the user id in a user namespace", "", ret) : 0;
}

static int view_build(const struct device_list *list, bool has_counters)
{
	char what[PATH_MAX] = "";
	int ret = view_mount_empty(STAGING);

	if (ret)
		return mount_refused("mount a file system on ", STAGING, ret);
	ret = snapshot_write(STAGING, list, has_counters);
	if (ret) {
		fprintf(stderr, "usrdma: run --mount: cannot write the files of the devices: %s\n",
			strerror(-ret));
		return EXIT_FAILURE;
	}
	ret = view_mount(STAGING, "sys", what);
	if (!ret)
		ret = view_mount(STAGING, "dev", what);
	if (ret)
		return mount_refused("mount the files of the devices: ", what, ret);
	if (umount2(STAGING, MNT_DETACH))
		return mount_refused("unmount ", STAGING, -errno);
	return 0;
}

int run_mount_enter(void)
{
	struct device_list list = {0};
	int ret = devices_get(&list);
	bool is_usable;
	int here = -1;

	if (ret) {
		fprintf(stderr, "usrdma: run --mount: no daemon to ask for the devices: %s\n",
			strerror(-ret));
		free(list.items);
		return EXIT_FAILURE;
	}
	ret = namespaces_enter(&is_usable);
	/* The mounts of the machine that are added later are visible, but not the other way. */
	if (!ret && mount(NULL, "/", NULL, MS_SLAVE | MS_REC, NULL))
		ret = mount_refused("separate the mounts from those of the machine", "", -errno);
	if (!ret) {
		here = open(".", O_PATH | O_DIRECTORY | O_CLOEXEC);
		ret = view_build(&list, is_usable);
	}
	free(list.items);
	if (here >= 0) {
		if (!ret && fchdir(here))
			ret = mount_refused("return to the current directory", "", -errno);
		close(here);
	}
	return ret;
}
