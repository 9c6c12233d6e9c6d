/* SPDX-License-Identifier: BSD-2-Clause */
#include "sysfs/tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <inttypes.h>
#include <limits.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/util.h"
#include "config.h"
#include "profile/gid_layout.h"
#include "profile/link_rate.h"

#define DIRECTORY_MODE 0755
#define FILE_MODE      0644

#define TEXT_BYTES 128

/* Device numbers of uverbs devices on Linux and ABI versions: programs may compare them, but cannot open such a device. */
#define UVERBS_MAJOR	 231
#define UVERBS_MINOR	 192
#define UVERBS_CLASS_ABI 6
#define UVERBS_ABI	 1

/* Rate of one lane at the lowest link speed (IBA 1.x §14.2.5.6). */
#define LOWEST_MBPS 2500
#define MBPS_A_GBPS 1000

/* The port capabilities that ibv_query_port() reports: IBV_PORT_CM_SUP and IBV_PORT_IP_BASED_GIDS. */
#define PORT_CAPABILITIES 0x04010000u

static int make_directory(int at, const char *name)
{
	if (mkdirat(at, name, DIRECTORY_MODE) && errno != EEXIST)
		return -errno;
	return 0;
}

/* Creates a directory and opens it. Returns the descriptor or -errno. */
static int open_directory(int at, const char *name)
{
	int ret = make_directory(at, name);

	if (ret)
		return ret;
	ret = openat(at, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	return ret < 0 ? -errno : ret;
}

static int write_file(int at, const char *name, const char *text)
{
	size_t len = strlen(text);
	int fd = openat(at, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, FILE_MODE);
	int ret = 0;

	if (fd < 0)
		return -errno;
	if (write(fd, text, len) != (ssize_t)len)
		ret = errno ? -errno : -EIO;
	close(fd);
	return ret;
}

/* Writes one attribute: text and a newline, as in sysfs. Does nothing if *ret is already an error. */
static void attribute(int *ret, int at, const char *name, const char *format, ...)
	__attribute__((format(printf, 4, 5)));

static void attribute(int *ret, int at, const char *name, const char *format, ...)
{
	char text[TEXT_BYTES];
	va_list args;
	int len;

	if (*ret)
		return;
	va_start(args, format);
	len = vsnprintf(text, sizeof(text) - 1, format, args);
	va_end(args);
	if (len < 0 || (size_t)len >= sizeof(text) - 1) {
		*ret = -ENAMETOOLONG;
		return;
	}
	memcpy(text + len, "\n", 2);
	*ret = write_file(at, name, text);
}

/*
 * Programs check that a device node is a character device with read and write permission. /dev/null is one that always
 * exists.
 */
static int make_node(int at, const char *name)
{
	return symlinkat("/dev/null", at, name) && errno != EEXIST ? -errno : 0;
}

int tree_begin(int root_fd)
{
	int ret = make_directory(root_fd, "infiniband");
	int fd;

	if (!ret)
		ret = make_directory(root_fd, "dev");
	if (!ret)
		ret = make_node(root_fd, "dev/rdma_cm");
	if (ret)
		return ret;
	fd = open_directory(root_fd, "infiniband_verbs");
	if (fd < 0)
		return fd;
	attribute(&ret, fd, "abi_version", "%d", UVERBS_CLASS_ABI);
	close(fd);
	return ret;
}

static void guid_attribute(int *ret, int at, const char *name, uint64_t guid)
{
	attribute(ret, at, name, "%04x:%04x:%04x:%04x", (unsigned)(guid >> 48) & 0xffff,
		  (unsigned)(guid >> 32) & 0xffff, (unsigned)(guid >> 16) & 0xffff,
		  (unsigned)guid & 0xffff);
}

static bool is_file_name(const char *name, size_t bytes)
{
	size_t len = strnlen(name, bytes);

	return len > 0 && len < bytes && !strchr(name, '/') && strcmp(name, ".") &&
	       strcmp(name, "..");
}

/* The texts of Linux for the types of a device. A type that the table does not have is shown as "unknown". */
static const char *const node_types[] = {
	[IBV_NODE_CA] = "1: CA",
	[IBV_NODE_RNIC] = "4: RNIC",
};
static const char *const link_layers[] = {
	[IBV_LINK_LAYER_INFINIBAND] = "InfiniBand",
	[IBV_LINK_LAYER_ETHERNET] = "Ethernet",
};
static const char *const gid_types[] = {
	[IBV_GID_TYPE_IB] = "IB/RoCE v1",
	[IBV_GID_TYPE_ROCE_V1] = "IB/RoCE v1",
	[IBV_GID_TYPE_ROCE_V2] = "RoCE v2",
};

static const char *type_text(const char *const texts[], size_t count, uint8_t type)
{
	return type < count && texts[type] ? texts[type] : "unknown";
}

/* Adds every valid GID under its index: the GID, its type and its interface. */
static int add_gids(int port_fd, const struct ipc_device_reply *info,
		    const struct view_device *seen)
{
	static const char *const directories[] = {"gids", "gid_attrs", "gid_attrs/types",
						  "gid_attrs/ndevs"};
	enum gid_layout layout = profile_gid_layout(seen->profile);
	uint32_t count = (uint32_t)profile_limit(seen->profile, PROFILE_GID_TBL_LEN,
						 gid_layout_count(layout, info));
	int ret = 0;

	for (size_t i = 0; i < COUNT(directories) && !ret; i++)
		ret = make_directory(port_fd, directories[i]);
	for (uint32_t i = 0; i < count && !ret; i++) {
		int source = gid_layout_source(layout, info, i);
		const uint8_t *raw;
		char path[TEXT_BYTES];

		if (source < 0)
			continue;
		raw = info->gids[source].raw;
		snprintf(path, sizeof(path), "gids/%u", i);
		attribute(&ret, port_fd, path,
			  "%02x%02x:%02x%02x:%02x%02x:%02x%02x:%02x%02x:%02x%02x:%02x%02x:%02x%02x",
			  raw[0], raw[1], raw[2], raw[3], raw[4], raw[5], raw[6], raw[7], raw[8],
			  raw[9], raw[10], raw[11], raw[12], raw[13], raw[14], raw[15]);
		snprintf(path, sizeof(path), "gid_attrs/types/%u", i);
		attribute(&ret, port_fd, path, "%s",
			  type_text(gid_types, COUNT(gid_types),
				    gid_layout_type(layout, i, info->gid_type)));
		snprintf(path, sizeof(path), "gid_attrs/ndevs/%u", i);
		attribute(&ret, port_fd, path, "%s", info->name);
	}
	return ret;
}

static int add_port(int device_fd, const struct ipc_device_reply *info,
		    const struct view_device *seen)
{
	bool is_up = info->flags & IPC_DEVICE_UP;
	struct link_rate rate = link_rate_of(seen->profile, info->speed_mbps);
	uint32_t mbps = rate.mbps < LOWEST_MBPS ? LOWEST_MBPS : rate.mbps;
	int ret = make_directory(device_fd, "ports");
	int fd;

	if (ret)
		return ret;
	fd = open_directory(device_fd, "ports/1");
	if (fd < 0)
		return fd;
	attribute(&ret, fd, "state", is_up ? "4: ACTIVE" : "1: DOWN");
	attribute(&ret, fd, "phys_state", is_up ? "5: LinkUp" : "3: Disabled");
	attribute(&ret, fd, "rate", "%u%s Gb/sec (%uX)", mbps / MBPS_A_GBPS,
		  mbps % MBPS_A_GBPS == MBPS_A_GBPS / 2 ? ".5" : "", rate.lanes);
	attribute(&ret, fd, "link_layer", "%s",
		  type_text(link_layers, COUNT(link_layers), info->link_layer));
	attribute(&ret, fd, "cap_mask", "0x%08x", PORT_CAPABILITIES);
	attribute(&ret, fd, "lid", "0x0");
	attribute(&ret, fd, "sm_lid", "0x0");
	attribute(&ret, fd, "sm_sl", "0");
	attribute(&ret, fd, "lid_mask_count", "0");
	if (!ret)
		ret = make_directory(fd, "pkeys");
	attribute(&ret, fd, "pkeys/0", "0xffff");
	if (!ret)
		ret = add_gids(fd, info, seen);
	close(fd);
	return ret;
}

/* The PCI ids of an adapter, if the profile is that of one. */
static void pci_attributes(int *ret, int device_fd, const struct profile *profile)
{
	uint64_t vendor = profile_value(profile, PROFILE_PCI_VENDOR, 0);

	if (!vendor)
		return;
	attribute(ret, device_fd, "device/vendor", "0x%04" PRIx64, vendor);
	attribute(ret, device_fd, "device/device", "0x%04" PRIx64,
		  profile_value(profile, PROFILE_PCI_DEVICE, 0));
}

/* Adds device/net/<interface>, from which programs determine the interface of a device. */
static int add_interface(int device_fd, const char *name, const struct profile *profile)
{
	char link[PATH_MAX], target[PATH_MAX];
	int ret = make_directory(device_fd, "device");

	if (!ret)
		ret = make_directory(device_fd, "device/net");
	if (ret)
		return ret;
	pci_attributes(&ret, device_fd, profile);
	if (ret)
		return ret;
	snprintf(link, sizeof(link), "device/net/%s", name);
	snprintf(target, sizeof(target), "/sys/class/net/%s", name);
	return symlinkat(target, device_fd, link) && errno != EEXIST ? -errno : 0;
}

static int add_verbs(int root_fd, const struct ipc_device_reply *info,
		     const struct view_device *seen)
{
	uint32_t index = view_index(info->dev_id, seen->rail);
	char path[TEXT_BYTES];
	int ret, fd;

	snprintf(path, sizeof(path), "dev/uverbs%u", index);
	ret = make_node(root_fd, path);
	if (ret)
		return ret;
	snprintf(path, sizeof(path), "infiniband_verbs/uverbs%u", index);
	fd = open_directory(root_fd, path);
	if (fd < 0)
		return fd;
	attribute(&ret, fd, "ibdev", "%s", seen->name);
	attribute(&ret, fd, "abi_version", "%d", UVERBS_ABI);
	attribute(&ret, fd, "dev", "%d:%u", UVERBS_MAJOR, UVERBS_MINOR + index);
	close(fd);
	return ret;
}

int tree_add_device(int root_fd, const struct ipc_device_reply *info,
		    const struct view_device *seen)
{
	const struct profile *profile = seen->profile;
	char path[VIEW_NAME_BYTES + TEXT_BYTES];
	int ret = 0, fd;

	if (!is_file_name(info->name, sizeof(info->name)) ||
	    !is_file_name(seen->name, VIEW_NAME_BYTES))
		return -EINVAL;
	snprintf(path, sizeof(path), "infiniband/%s", seen->name);
	fd = open_directory(root_fd, path);
	if (fd < 0)
		return fd;
	attribute(&ret, fd, "node_type", "%s",
		  type_text(node_types, COUNT(node_types), info->node_type));
	attribute(&ret, fd, "node_desc", "usrdma");
	attribute(&ret, fd, "fw_ver", "%s",
		  profile && profile->fw_ver ? profile->fw_ver : USRDMA_VERSION);
	if (profile && profile->ca_type)
		attribute(&ret, fd, "hca_type", "%s", profile->ca_type);
	if (profile && profile->values[PROFILE_HW_VER] != PROFILE_UNSET)
		attribute(&ret, fd, "hw_rev", "%" PRIx64, profile->values[PROFILE_HW_VER]);
	guid_attribute(&ret, fd, "node_guid", view_guid(info->node_guid, seen->rail));
	guid_attribute(&ret, fd, "sys_image_guid", info->node_guid);
	if (!ret)
		ret = add_port(fd, info, seen);
	if (!ret)
		ret = add_interface(fd, info->name, profile);
	close(fd);
	return ret ? ret : add_verbs(root_fd, info, seen);
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
