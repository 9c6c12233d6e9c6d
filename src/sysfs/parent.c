/* SPDX-License-Identifier: BSD-2-Clause */
#include "sysfs/parent.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/util.h"
#include "profile/link_rate.h"
#include "sysfs/write.h"

#define VIRTUAL "sys/devices/virtual"
#define BUSES	"/sys/devices/pci"
#define LINKS	"/sys/bus/pci/devices/"

/*
 * PCI domains from here on are those of the tree. UCX reads 16 bits of a domain. The devices of the
 * view's list have the first domain; those of interfaces without an entry have the others, so that
 * a new device does not change the bus of another one.
 */
#define DOMAIN_FIRST  0xf000u
#define DOMAINS_OTHER 0xffeu
#define BUSES_USED    255u /* 1 to 255: bus 0 is that of real functions in domains of their own */
#define DOMAIN_DIGITS 4
#define BUS_DIGITS    2

#define CLASS_ETHERNET 0x020000u

#define TEXT_BYTES 4096
#define WORD_BITS  32u /* of a group of digits in local_cpus */

static void pci_bus_of(const struct ipc_device_reply *info, const struct view_device *seen,
		       unsigned int *domain, unsigned int *bus)
{
	if (seen->order < VIEW_ORDER_UNNAMED) {
		*domain = DOMAIN_FIRST;
		*bus = 1 + seen->order;
		return;
	}
	*domain = DOMAIN_FIRST + 1 + info->dev_id / BUSES_USED % DOMAINS_OTHER;
	*bus = 1 + info->dev_id % BUSES_USED;
}

/* Reads the first line of a file. Returns whether there is one. */
static bool parent_read(char *text, size_t bytes, const char *format, const char *interface,
			const char *name)
{
	char path[NAME_MAX];
	ssize_t len = -1;
	int fd;

	snprintf(path, sizeof(path), format, interface, name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd >= 0) {
		len = read(fd, text, bytes - 1);
		close(fd);
	}
	text[len > 0 ? len : 0] = '\0';
	text[strcspn(text, "\n")] = '\0';
	return text[0];
}

/*
 * Whether /sys shows this interface: it may belong to another network namespace, with an interface
 * of the same name.
 */
static bool parent_sees(const struct ipc_device_reply *info)
{
	char text[TEXT_BYTES];

	return parent_read(text, sizeof(text), "/sys/class/net/%s/%s", info->name, "ifindex") &&
	       strtoul(text, NULL, 10) == info->dev_id;
}

/*
 * An attribute of the interface's device, or of the device above: a virtio device has those of its
 * PCI function.
 */
static bool parent_read_real(const struct ipc_device_reply *info, const char *name, char *text,
			     size_t bytes)
{
	return parent_sees(info) &&
	       (parent_read(text, bytes, "/sys/class/net/%s/device/%s", info->name, name) ||
		parent_read(text, bytes, "/sys/class/net/%s/device/../%s", info->name, name));
}

/* All processors, as the kernel prints a mask: groups of 32 bits from the highest one on. */
static void all_cpus(char *text, size_t bytes)
{
	long count = sysconf(_SC_NPROCESSORS_CONF);
	unsigned int left = count > 0 && count < TEXT_BYTES ? (unsigned int)count : 1;
	unsigned int top = (left - 1) % WORD_BITS + 1;
	size_t used = (size_t)snprintf(text, bytes, "%" PRIx32, UINT32_MAX >> (WORD_BITS - top));

	for (left -= top; left && used < bytes; left -= WORD_BITS)
		used += (size_t)snprintf(text + used, bytes - used, ",%08" PRIx32, UINT32_MAX);
}

static void add_locality(int *ret, int at, const struct ipc_device_reply *info)
{
	char text[TEXT_BYTES];

	write_attribute(ret, at, "numa_node", "%s",
			parent_read_real(info, "numa_node", text, sizeof(text)) ? text : "-1");
	if (!parent_read_real(info, "local_cpus", text, sizeof(text)))
		all_cpus(text, sizeof(text));
	write_attribute(ret, at, "local_cpus", "%s", text);
	if (parent_read_real(info, "local_cpulist", text, sizeof(text)))
		write_attribute(ret, at, "local_cpulist", "%s", text);
	else
		write_attribute(ret, at, "local_cpulist", "0-%ld",
				sysconf(_SC_NPROCESSORS_CONF) - 1);
}

/*
 * The slowest link of 16 lanes whose rate is not below that of the port (PCI Express generations 3
 * to 6).
 */
static void add_link(int *ret, int at, const struct ipc_device_reply *info,
		     const struct profile *profile)
{
	static const struct {
		uint32_t mbps;
		const char *speed;
	} links[] = {
		{126000, "8.0 GT/s PCIe"},
		{252000, "16.0 GT/s PCIe"},
		{504000, "32.0 GT/s PCIe"},
		{UINT32_MAX, "64.0 GT/s PCIe"},
	};
	uint32_t mbps = link_rate_of(profile, info->speed_mbps).mbps;
	size_t i = 0;

	while (links[i].mbps < mbps)
		i++;
	write_attribute(ret, at, "current_link_speed", "%s", links[i].speed);
	write_attribute(ret, at, "max_link_speed", "%s", links[i].speed);
	write_attribute(ret, at, "current_link_width", "16");
	write_attribute(ret, at, "max_link_width", "16");
}

static void add_ids(int *ret, int at, const char *function, const struct profile *profile)
{
	unsigned int vendor = (unsigned int)profile_value(profile, PROFILE_PCI_VENDOR, 0);
	unsigned int device = (unsigned int)profile_value(profile, PROFILE_PCI_DEVICE, 0);

	write_attribute(ret, at, "class", "0x%06x", CLASS_ETHERNET);
	write_attribute(ret, at, "vendor", "0x%04x", vendor);
	write_attribute(ret, at, "device", "0x%04x", device);
	write_attribute(ret, at, "subsystem_vendor", "0x%04x", vendor);
	write_attribute(ret, at, "subsystem_device", "0x%04x", device);
	write_attribute(ret, at, "revision", "0x00");
	write_attribute(ret, at, "uevent",
			"PCI_CLASS=%X\nPCI_ID=%04X:%04X\nPCI_SUBSYS_ID=%04X:%04X\nPCI_SLOT_NAME=%s",
			CLASS_ETHERNET, vendor, device, vendor, device, function);
}

int parent_add_net(int at, const char *interface)
{
	char link[NAME_MAX], target[NAME_MAX];
	int ret = write_directory(at, "net");

	snprintf(link, sizeof(link), "net/%s", interface);
	snprintf(target, sizeof(target), "/sys/class/net/%s", interface);
	return ret ? ret : write_link(target, at, link);
}

/* Adds the PCI function of an adapter. */
static int add_function(int root_fd, const struct ipc_device_reply *info,
			const struct view_device *seen, struct parent *parent)
{
	char function[16], link[NAME_MAX], target[NAME_MAX];
	unsigned int domain, bus;
	int ret = 0, fd;

	pci_bus_of(info, seen, &domain, &bus);
	snprintf(function, sizeof(function), "%04x:%02x:00.0", domain & 0xffff, bus & 0xff);
	snprintf(parent->directory, sizeof(parent->directory), "%s%04x:%02x/%s", &BUSES[1], domain,
		 bus, function);
	snprintf(parent->device, sizeof(parent->device), "../../../%s", function);
	parent->up = "../../../../..";
	fd = write_open_directory(root_fd, parent->directory);
	if (fd < 0)
		return fd;
	add_ids(&ret, fd, function, seen->profile);
	add_link(&ret, fd, info, seen->profile);
	add_locality(&ret, fd, info);
	if (!ret)
		ret = write_link("../../../bus/pci", fd, "subsystem");
	if (!ret)
		ret = parent_add_net(fd, info->name);
	close(fd);
	snprintf(link, sizeof(link), "%s%s", &LINKS[1], function);
	snprintf(target, sizeof(target), "../../..%s", parent->directory + strlen("sys"));
	return ret ? ret : write_link(target, root_fd, link);
}

/*
 * Adds what the link `device` of a virtual device names. NCCL overwrites characters of the last
 * four of its path and takes equal results for one adapter, so the part that is unique is not the
 * last one.
 */
static int add_virtual(int root_fd, const struct ipc_device_reply *info,
		       const struct view_device *seen, struct parent *parent)
{
	char path[NAME_MAX];
	int ret, fd;

	snprintf(parent->directory, sizeof(parent->directory), VIRTUAL);
	parent->up = "../../../..";
	snprintf(path, sizeof(path), "/sys/class/net/%s/device", info->name);
	/* Several devices of one interface need a device each. */
	if (!seen->rail && parent_sees(info) && realpath(path, parent->device))
		return 0;
	snprintf(parent->device, sizeof(parent->device), "../../usrdma/%s/port", seen->name);
	snprintf(path, sizeof(path), VIRTUAL "/usrdma/%s/port", seen->name);
	fd = write_open_directory(root_fd, path);
	if (fd < 0)
		return fd;
	ret = parent_add_net(fd, info->name);
	close(fd);
	return ret;
}

int parent_add(int root_fd, const struct ipc_device_reply *info, const struct view_device *seen,
	       struct parent *parent)
{
	if (profile_value(seen->profile, PROFILE_PCI_VENDOR, 0))
		return add_function(root_fd, info, seen, parent);
	return add_virtual(root_fd, info, seen, parent);
}

/* The length of "f000:01" at the beginning of text, if it is a domain and a bus of the tree. */
static size_t bus_length(const char *text)
{
	static const char digits[] = "0123456789abcdef";

	if (text[0] != 'f' || strspn(text, digits) != DOMAIN_DIGITS || text[DOMAIN_DIGITS] != ':' ||
	    strspn(text + DOMAIN_DIGITS + 1, digits) != BUS_DIGITS)
		return 0;
	return DOMAIN_DIGITS + 1 + BUS_DIGITS;
}

size_t parent_pci_length(const char *path)
{
	static const struct {
		const char *before, *after;
	} kinds[] = {{BUSES, ""}, {LINKS, ":00.0"}};

	for (size_t i = 0; i < COUNT(kinds); i++) {
		size_t before = strlen(kinds[i].before), after = strlen(kinds[i].after), bus;

		if (strncmp(path, kinds[i].before, before) != 0)
			continue;
		bus = bus_length(path + before);
		if (!bus || strncmp(path + before + bus, kinds[i].after, after) != 0)
			return 0;
		before += bus + after;
		return path[before] == '/' || path[before] == '\0' ? before : 0;
	}
	return 0;
}
