/* SPDX-License-Identifier: BSD-2-Clause */
#include "daemon/roce_groups.h"

#include <inttypes.h>
#include <linux/sock_diag.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "base/log.h"
#include "link/udp_group.h"

/* The files are made of short lines; a name of an interface is the longest word in them. */
#define LINE_BYTES 256

/* Memberships are memory that the socket is charged for, and the only such memory of one that the daemon made. */
static bool may_be_member(int fd)
{
	uint32_t memory[SK_MEMINFO_VARS] = {0};
	socklen_t len = sizeof(memory);

	if (getsockopt(fd, SOL_SOCKET, SO_MEMINFO, memory, &len))
		return true;
	return memory[SK_MEMINFO_OPTMEM] != 0;
}

static FILE *open_table(const char *path)
{
	FILE *table = fopen(path, "re");

	if (!table)
		log_warn("%s: %m", path);
	return table;
}

/* Each interface's line starts with its number; its groups follow, indented, as the 32 bits lie in memory. */
static void leave_ipv4(int fd, FILE *table)
{
	char line[LINE_BYTES];
	uint32_t ifindex = 0;

	while (fgets(line, sizeof(line), table)) {
		uint8_t gid[GID_BYTES];
		struct in_addr group;

		if (line[0] >= '0' && line[0] <= '9') {
			if (sscanf(line, "%" SCNu32, &ifindex) != 1)
				ifindex = 0;
			continue;
		}
		if (!ifindex || sscanf(line, " %8" SCNx32, &group.s_addr) != 1)
			continue;
		gid_from_ipv4(gid, &group);
		udp_group_leave(fd, ifindex, gid);
	}
}

static bool parse_ipv6(const char *digits, uint8_t gid[GID_BYTES])
{
	for (int i = 0; i < GID_BYTES; i++) {
		if (sscanf(digits + 2 * i, "%2" SCNx8, &gid[i]) != 1)
			return false;
	}
	return true;
}

/* A line each: the interface's number and name, and the group. */
static void leave_ipv6(int fd, FILE *table)
{
	char line[LINE_BYTES];

	while (fgets(line, sizeof(line), table)) {
		char digits[2 * GID_BYTES + 1];
		uint8_t gid[GID_BYTES];
		uint32_t ifindex;

		if (sscanf(line, "%" SCNu32 " %*s %32[0-9a-f]", &ifindex, digits) == 2 &&
		    strlen(digits) == 2 * GID_BYTES && parse_ipv6(digits, gid))
			udp_group_leave(fd, ifindex, gid);
	}
}

void roce_groups_leave(int fd)
{
	static const struct {
		const char *path;
		void (*leave)(int fd, FILE *table);
	} tables[] = {{"/proc/net/igmp", leave_ipv4}, {"/proc/net/igmp6", leave_ipv6}};

	for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]) && may_be_member(fd); i++) {
		FILE *table = open_table(tables[i].path);

		if (!table)
			continue;
		tables[i].leave(fd, table);
		fclose(table);
	}
}
