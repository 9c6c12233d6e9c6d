/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A statically linked program: no preloaded library changes its calls. Prints each device of
 * /sys/class/infiniband with the state of its port, its GID 0, and the directory of the device.
 */
#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CLASS "/sys/class/infiniband"

static void file_print(const char *device, const char *name)
{
	char path[PATH_MAX], line[256] = "?\n";
	FILE *file;

	snprintf(path, sizeof(path), CLASS "/%s/%s", device, name);
	file = fopen(path, "r");
	if (file && !fgets(line, sizeof(line), file))
		strcpy(line, "?\n");
	if (file)
		fclose(file);
	printf("%s %s %s", device, name, line);
}

int main(void)
{
	DIR *class = opendir(CLASS);
	struct dirent *entry;

	if (!class) {
		perror(CLASS);
		return EXIT_FAILURE;
	}
	while ((entry = readdir(class))) {
		char path[PATH_MAX], real[PATH_MAX];

		if (entry->d_name[0] == '.')
			continue;
		file_print(entry->d_name, "ports/1/state");
		file_print(entry->d_name, "ports/1/gids/0");
		file_print(entry->d_name, "ports/1/counters/port_xmit_packets");
		snprintf(path, sizeof(path), CLASS "/%s", entry->d_name);
		printf("%s is %s\n", entry->d_name, realpath(path, real) ? real : "?");
	}
	closedir(class);
	return EXIT_SUCCESS;
}
