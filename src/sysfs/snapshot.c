/* SPDX-License-Identifier: BSD-2-Clause */
#include "sysfs/snapshot.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/util.h"
#include "sysfs/counters.h"
#include "sysfs/gid_table.h"

#define CLASS "sys/class/infiniband"

/* Writes the path of a directory of the device's port. Returns whether it is short enough. */
static bool port_path(char path[PATH_MAX], const char *root, const char *device,
		      const char *directory)
{
	return snprintf(path, PATH_MAX, "%s/" CLASS "/%s/ports/1/%s", root, device, directory) <
	       PATH_MAX;
}

static int snapshot_device(const char *root, const char *device, bool has_counters)
{
	static const char *const tables[] = {"gids", "gid_attrs/types", "gid_attrs/ndevs"};
	static const char *const counters[] = {"counters", "hw_counters"};
	char path[PATH_MAX];

	for (size_t i = 0; i < COUNT(tables); i++) {
		if (!port_path(path, root, device, tables[i]))
			return -ENAMETOOLONG;
		gid_table_redirect(path, strlen(root));
	}
	for (size_t i = 0; has_counters && i < COUNT(counters); i++) {
		if (!port_path(path, root, device, counters[i]))
			return -ENAMETOOLONG;
		counters_refresh(path, strlen(root));
	}
	return 0;
}

static int snapshot_complete(const char *root, bool has_counters)
{
	char path[PATH_MAX];
	struct dirent *entry;
	DIR *class;
	int ret = 0;

	if (snprintf(path, sizeof(path), "%s/" CLASS, root) >= (int)sizeof(path))
		return -ENAMETOOLONG;
	class = opendir(path);
	if (!class)
		return -errno;
	while (!ret && (entry = readdir(class))) {
		if (entry->d_name[0] != '.')
			ret = snapshot_device(root, entry->d_name, has_counters);
	}
	closedir(class);
	return ret;
}

int snapshot_write(const char *root, const struct device_list *list, bool has_counters)
{
	int root_fd = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	mode_t mask;
	int ret;

	if (root_fd < 0)
		return -errno;
	mask = umask(0022);
	ret = devices_build(root_fd, list);
	if (!ret)
		ret = snapshot_complete(root, has_counters);
	umask(mask);
	close(root_fd);
	return ret;
}
