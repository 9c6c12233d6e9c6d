/* SPDX-License-Identifier: BSD-2-Clause */
#include "sysfs/tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <inttypes.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/util.h"
#include "config.h"
#include "profile/link_rate.h"
#include "sysfs/counters.h"
#include "sysfs/gid_table.h"
#include "sysfs/parent.h"
#include "sysfs/write.h"

/*
 * Device numbers of uverbs devices on Linux and ABI versions: programs may compare them, but cannot
 * open such a device.
 */
#define UVERBS_MAJOR	 231
#define UVERBS_MINOR	 192
#define UVERBS_CLASS_ABI 6
#define UVERBS_ABI	 1

/* Rate of one lane at the lowest link speed (IBA 1.x §14.2.5.6). */
#define LOWEST_MBPS 2500
#define MBPS_A_GBPS 1000

/*
 * The port capabilities that ibv_query_port() reports: IBV_PORT_CM_SUP and IBV_PORT_IP_BASED_GIDS.
 */
#define PORT_CAPABILITIES 0x04010000u

const char *const tree_places[] = {
	"/sys/class/infiniband",
	"/sys/class/infiniband_verbs",
	"/sys/devices/virtual/infiniband",
	"/sys/devices/virtual/infiniband_verbs",
	"/sys/devices/virtual/usrdma",
	"/dev/infiniband",
	NULL,
};

/*
 * Programs check that a device node is a character device with read and write permission. /dev/null
 * is one that always exists.
 */
static int make_node(int at, const char *name)
{
	return write_link("/dev/null", at, name);
}

int tree_begin(int root_fd)
{
	static const char *const directories[] = {
		"sys/class/infiniband",
		"sys/devices/virtual/infiniband",
		"sys/bus/pci/devices",
		"dev/infiniband",
	};
	int ret = 0, fd;

	for (size_t i = 0; i < COUNT(directories) && !ret; i++)
		ret = write_directories(root_fd, directories[i]);
	if (!ret)
		ret = make_node(root_fd, "dev/infiniband/rdma_cm");
	if (ret)
		return ret;
	fd = write_open_directory(root_fd, "sys/class/infiniband_verbs");
	if (fd < 0)
		return fd;
	write_attribute(&ret, fd, "abi_version", "%d", UVERBS_CLASS_ABI);
	close(fd);
	return ret;
}

static void guid_attribute(int *ret, int at, const char *name, uint64_t guid)
{
	write_attribute(ret, at, name, "%04x:%04x:%04x:%04x", (unsigned)(guid >> 48) & 0xffff,
			(unsigned)(guid >> 32) & 0xffff, (unsigned)(guid >> 16) & 0xffff,
			(unsigned)guid & 0xffff);
}

static bool is_file_name(const char *name, size_t bytes)
{
	size_t len = strnlen(name, bytes);

	return len > 0 && len < bytes && !strchr(name, '/') && strcmp(name, ".") &&
	       strcmp(name, "..");
}

/*
 * The texts of Linux for the types of a device. A type that the table does not have is shown as
 * "unknown".
 */
static const char *const node_types[] = {
	[IBV_NODE_CA] = "1: CA",
	[IBV_NODE_RNIC] = "4: RNIC",
};
static const char *const link_layers[] = {
	[IBV_LINK_LAYER_INFINIBAND] = "InfiniBand",
	[IBV_LINK_LAYER_ETHERNET] = "Ethernet",
};

static const char *type_text(const char *const texts[], size_t count, uint8_t type)
{
	return type < count && texts[type] ? texts[type] : "unknown";
}

static void port_attributes(int *ret, int fd, const struct ipc_device_reply *info,
			    const struct profile *profile)
{
	bool is_up = info->flags & IPC_DEVICE_UP;
	struct link_rate rate = link_rate_of(profile, info->speed_mbps);
	uint32_t mbps = rate.mbps < LOWEST_MBPS ? LOWEST_MBPS : rate.mbps;

	write_attribute(ret, fd, "state", is_up ? "4: ACTIVE" : "1: DOWN");
	write_attribute(ret, fd, "phys_state", is_up ? "5: LinkUp" : "3: Disabled");
	write_attribute(ret, fd, "rate", "%u%s Gb/sec (%uX)", mbps / MBPS_A_GBPS,
			mbps % MBPS_A_GBPS == MBPS_A_GBPS / 2 ? ".5" : "", rate.lanes);
	write_attribute(ret, fd, "link_layer", "%s",
			type_text(link_layers, COUNT(link_layers), info->link_layer));
	write_attribute(ret, fd, "cap_mask", "0x%08x", PORT_CAPABILITIES);
	write_attribute(ret, fd, "lid", "0x0");
	write_attribute(ret, fd, "sm_lid", "0x0");
	write_attribute(ret, fd, "sm_sl", "0");
	write_attribute(ret, fd, "lid_mask_count", "0");
	if (!*ret)
		*ret = write_directory(fd, "pkeys");
	write_attribute(ret, fd, "pkeys/0", "0xffff");
}

static int add_port(int root_fd, int device_fd, const struct ipc_device_reply *info,
		    const struct view_device *seen)
{
	int fd = write_open_directory(device_fd, "ports/1");
	int ret = 0;

	if (fd < 0)
		return fd;
	port_attributes(&ret, fd, info, seen->profile);
	if (!ret)
		ret = gid_table_add(root_fd, fd, info, seen);
	if (!ret)
		ret = counters_add(root_fd, fd,
				   &(struct counters_device){.name = seen->name,
							     .dev_id = info->dev_id,
							     .profile = seen->profile});
	if (!ret)
		ret = parent_add_net(fd, info->name);
	close(fd);
	return ret;
}

/*
 * Adds the links of a device and of its class, as Linux has for each device:
 * /sys/class/<class>/<name> is a link also.
 */
static int add_links(int root_fd, int device_fd, const struct parent *parent, const char *class,
		     const char *name)
{
	char path[NAME_MAX], target[PATH_MAX];
	int ret = write_link(parent->device, device_fd, "device");

	snprintf(target, sizeof(target), "%s/class/%s", parent->up, class);
	if (!ret)
		ret = write_link(target, device_fd, "subsystem");
	snprintf(path, sizeof(path), "sys/class/%s/%s", class, name);
	snprintf(target, sizeof(target), "../..%s/%s/%s", parent->directory + strlen("sys"), class,
		 name);
	return ret ? ret : write_link(target, root_fd, path);
}

static int add_verbs(int root_fd, const struct ipc_device_reply *info,
		     const struct view_device *seen, const struct parent *parent)
{
	uint32_t index = view_index(info->dev_id, seen->rail);
	char name[NAME_MAX], path[PATH_MAX];
	int ret, fd;

	snprintf(path, sizeof(path), "dev/infiniband/uverbs%u", index);
	ret = make_node(root_fd, path);
	if (ret)
		return ret;
	snprintf(name, sizeof(name), "uverbs%u", index);
	snprintf(path, sizeof(path), "%s/infiniband_verbs/%s", parent->directory, name);
	fd = write_open_directory(root_fd, path);
	if (fd < 0)
		return fd;
	write_attribute(&ret, fd, "ibdev", "%s", seen->name);
	write_attribute(&ret, fd, "abi_version", "%d", UVERBS_ABI);
	write_attribute(&ret, fd, "dev", "%d:%u", UVERBS_MAJOR, UVERBS_MINOR + index);
	if (!ret)
		ret = add_links(root_fd, fd, parent, "infiniband_verbs", name);
	close(fd);
	return ret;
}

static void device_attributes(int *ret, int fd, const struct ipc_device_reply *info,
			      const struct view_device *seen)
{
	const struct profile *profile = seen->profile;
	uint64_t guid = view_guid(info->node_guid, seen->rail);

	write_attribute(ret, fd, "node_type", "%s",
			type_text(node_types, COUNT(node_types), info->node_type));
	write_attribute(ret, fd, "node_desc", "usrdma");
	write_attribute(ret, fd, "fw_ver", "%s",
			profile && profile->fw_ver ? profile->fw_ver : USRDMA_VERSION);
	if (profile && profile->ca_type)
		write_attribute(ret, fd, "hca_type", "%s", profile->ca_type);
	if (profile && profile->board_id)
		write_attribute(ret, fd, "board_id", "%s", profile->board_id);
	write_attribute(ret, fd, "hw_rev", "%" PRIx64, profile_value(profile, PROFILE_HW_VER, 0));
	write_attribute(ret, fd, "uevent", "NAME=%s", seen->name);
	guid_attribute(ret, fd, "node_guid", guid);
	guid_attribute(ret, fd, "sys_image_guid", guid);
	/* The kernel's rxe has this file. */
	if (!profile_value(profile, PROFILE_PCI_VENDOR, 0))
		write_attribute(ret, fd, "parent", "%s", info->name);
}

int tree_add_device(int root_fd, const struct ipc_device_reply *info,
		    const struct view_device *seen)
{
	struct parent parent;
	char path[PATH_MAX];
	int ret, fd;

	if (!is_file_name(info->name, sizeof(info->name)) ||
	    !is_file_name(seen->name, VIEW_NAME_BYTES))
		return -EINVAL;
	ret = parent_add(root_fd, info, seen, &parent);
	if (ret)
		return ret;
	snprintf(path, sizeof(path), "%s/infiniband/%s", parent.directory, seen->name);
	fd = write_open_directory(root_fd, path);
	if (fd < 0)
		return fd;
	device_attributes(&ret, fd, info, seen);
	if (!ret)
		ret = add_links(root_fd, fd, &parent, "infiniband", seen->name);
	if (!ret)
		ret = add_port(root_fd, fd, info, seen);
	close(fd);
	return ret ? ret : add_verbs(root_fd, info, seen, &parent);
}

static void remove_children(int fd)
{
	DIR *dir = fdopendir(fd);
	struct dirent *entry;

	if (!dir) {
		close(fd);
		return;
	}
	while ((entry = readdir(dir))) {
		if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, ".."))
			continue;
		if (unlinkat(dirfd(dir), entry->d_name, 0) && (errno == EISDIR || errno == EPERM))
			tree_remove(dirfd(dir), entry->d_name);
	}
	closedir(dir);
}

void tree_remove(int parent_fd, const char *name)
{
	int fd = openat(parent_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);

	if (fd >= 0)
		remove_children(fd);
	(void)unlinkat(parent_fd, name, AT_REMOVEDIR);
}
