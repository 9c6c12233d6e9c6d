/* SPDX-License-Identifier: BSD-2-Clause */
#include "sysfs/gid_table.h"

#include <errno.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/util.h"
#include "profile/gid_layout.h"
#include "sysfs/write.h"

#define LENGTHS	   "gid_tables"
#define PORT	   "/ports/1/"
#define TEXT_BYTES 64
#define PATH_BYTES 256 /* of the root, and a name of a device */

/*
 * The kernel reports EINVAL for each read of this file, because a loopback interface has no speed.
 */
#define UNREADABLE "/sys/class/net/lo/speed"

/*
 * Files of the tree that the files of empty entries are other names of: a zero GID, and a link to
 * UNREADABLE.
 */
#define ZERO_GID "zero_gid"
#define NO_VALUE "no_value"

static const struct {
	const char *directory;
	const char *empty;
} kinds[] = {{"gids", ZERO_GID}, {"gid_attrs/types", NO_VALUE}, {"gid_attrs/ndevs", NO_VALUE}};

/*
 * The texts of Linux for the types of a GID. A type that the table does not have is shown as
 * "unknown".
 */
static const char *const gid_types[] = {
	[IBV_GID_TYPE_IB] = "IB/RoCE v1",
	[IBV_GID_TYPE_ROCE_V1] = "IB/RoCE v1",
	[IBV_GID_TYPE_ROCE_V2] = "RoCE v2",
};

static const char *gid_type_text(uint8_t type)
{
	return type < COUNT(gid_types) && gid_types[type] ? gid_types[type] : "unknown";
}

static void gid_attribute(int *ret, int at, const char *name, const uint8_t raw[16])
{
	write_attribute(ret, at, name,
			"%02x%02x:%02x%02x:%02x%02x:%02x%02x:%02x%02x:%02x%02x:%02x%02x:%02x%02x",
			raw[0], raw[1], raw[2], raw[3], raw[4], raw[5], raw[6], raw[7], raw[8],
			raw[9], raw[10], raw[11], raw[12], raw[13], raw[14], raw[15]);
}

static int add_length(int root_fd, const char *device, uint32_t length)
{
	static const uint8_t zero[16];
	char path[NAME_MAX];
	int ret = write_directory(root_fd, LENGTHS);

	snprintf(path, sizeof(path), LENGTHS "/%s", device);
	write_attribute(&ret, root_fd, path, "%u", length);
	if (!ret && faccessat(root_fd, ZERO_GID, F_OK, 0))
		gid_attribute(&ret, root_fd, ZERO_GID, zero);
	return ret ? ret : write_link(UNREADABLE, root_fd, NO_VALUE);
}

int gid_table_add(int root_fd, int port_fd, const struct ipc_device_reply *info,
		  const struct view_device *seen)
{
	enum gid_layout layout = profile_gid_layout(seen->profile);
	uint32_t length = (uint32_t)profile_limit(seen->profile, PROFILE_GID_TBL_LEN, IPC_GIDS_MAX);
	int ret = add_length(root_fd, seen->name, length);

	for (size_t i = 0; i < COUNT(kinds) && !ret; i++)
		ret = write_directories(port_fd, kinds[i].directory);
	for (uint32_t i = 0; i < length && !ret; i++) {
		int source = gid_layout_source(layout, info, i);
		char path[TEXT_BYTES];

		if (source < 0)
			continue;
		snprintf(path, sizeof(path), "gids/%u", i);
		gid_attribute(&ret, port_fd, path, info->gids[source].raw);
		snprintf(path, sizeof(path), "gid_attrs/types/%u", i);
		write_attribute(&ret, port_fd, path, "%s",
				gid_type_text(gid_layout_type(layout, i, info->gid_type)));
		snprintf(path, sizeof(path), "gid_attrs/ndevs/%u", i);
		write_attribute(&ret, port_fd, path, "%s", info->name);
	}
	return ret;
}

/*
 * The length of the table of the device whose name is the last component before `end`; 0: no such
 * device.
 */
static unsigned int length_of(const char *path, size_t root_bytes, const char *end)
{
	char file[PATH_BYTES], text[TEXT_BYTES];
	const char *name = end;
	ssize_t len;
	int fd;

	while (name > path && name[-1] != '/')
		name--;
	if (snprintf(file, sizeof(file), "%.*s/" LENGTHS "/%.*s", (int)root_bytes, path,
		     (int)(end - name), name) >= (int)sizeof(file))
		return 0;
	fd = open(file, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0)
		return 0;
	len = read(fd, text, sizeof(text) - 1);
	close(fd);
	text[len > 0 ? len : 0] = '\0';
	return (unsigned int)strtoul(text, NULL, 10);
}

/* Whether the text is the number of an entry of a table with this length. */
static bool is_entry(const char *text, unsigned int length)
{
	size_t digits = strspn(text, "0123456789");

	return digits && digits < 6 && !text[digits] && (text[0] != '0' || digits == 1) &&
	       strtoul(text, NULL, 10) < length;
}

/*
 * Adds the files of empty entries. The last file is added last: if it exists, the directory is
 * complete. If not all can be added, a program does not see the others in the directory, but can
 * read them by their paths.
 */
static void add_empty(const char *path, const char *empty, unsigned int length)
{
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	char name[TEXT_BYTES];
	struct stat status;
	int ret = 0;

	if (fd < 0)
		return;
	snprintf(name, sizeof(name), "%u", length - 1);
	if (fstatat(fd, name, &status, AT_SYMLINK_NOFOLLOW)) {
		for (unsigned int i = 0; i < length && !ret; i++) {
			snprintf(name, sizeof(name), "%u", i);
			ret = write_name(AT_FDCWD, empty, fd, name);
		}
	}
	close(fd);
}

void gid_table_redirect(char path[PATH_MAX], size_t root_bytes)
{
	char *port = strstr(path + root_bytes, PORT);
	char empty[PATH_BYTES];
	unsigned int length;
	const char *rest;
	size_t i = 0;

	if (!port)
		return;
	rest = port + strlen(PORT);
	while (i < COUNT(kinds) &&
	       strncmp(rest, kinds[i].directory, strlen(kinds[i].directory)) != 0)
		i++;
	if (i == COUNT(kinds))
		return;
	rest += strlen(kinds[i].directory);
	length = length_of(path, root_bytes, port);
	if (!length || (*rest && *rest != '/'))
		return;
	snprintf(empty, sizeof(empty), "%.*s/%s", (int)root_bytes, path, kinds[i].empty);
	rest += strspn(rest, "/");
	if (!*rest)
		add_empty(path, empty, length);
	else if (is_entry(rest, length) && access(path, F_OK))
		snprintf(path, PATH_MAX, "%s", empty);
}
