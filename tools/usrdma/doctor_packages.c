/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Packages of the system that cannot use the devices, and messages of programs that do not load the
 * libraries of usrdma.
 */
#include <glob.h>
#include <limits.h>
#include <linux/netlink.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "doctor.h"

#define UCX_LIBRARY "libuct.so.0"

/* Whether a file matches the pattern. Copies the directory of the first one if dir is not NULL. */
static bool packages_find(const char *pattern, char *dir)
{
	glob_t found;
	bool is_found = glob(pattern, 0, NULL, &found) == 0;

	if (is_found && dir) {
		snprintf(dir, PATH_MAX, "%s", found.gl_pathv[0]);
		*strrchr(dir, '/') = '\0';
	}
	globfree(&found);
	return is_found;
}

/*
 * Finds a library as the dynamic linker does: in LD_LIBRARY_PATH, then in the directories of the
 * system.
 */
static bool packages_library_dir(const char *library, char *dir)
{
	static const char *const systems[] = {"/usr/local/lib", "/usr/lib/*", "/usr/lib64",
					      "/usr/lib"};
	const char *path = getenv("LD_LIBRARY_PATH");
	char pattern[PATH_MAX];

	while (path && *path) {
		size_t len = strcspn(path, ":");

		if (len && len < sizeof(pattern) &&
		    snprintf(pattern, sizeof(pattern), "%.*s/%s", (int)len, path, library) <
			    (int)sizeof(pattern) &&
		    access(pattern, R_OK) == 0) {
			snprintf(dir, PATH_MAX, "%.*s", (int)len, path);
			return true;
		}
		path += len + (path[len] == ':');
	}
	for (size_t i = 0; i < sizeof(systems) / sizeof(systems[0]); i++) {
		snprintf(pattern, sizeof(pattern), "%s/%s", systems[i], library);
		if (packages_find(pattern, dir))
			return true;
	}
	return false;
}

/* UCX loads its transports from the directory ucx beside its libraries. */
static void check_ucx(struct doctor *doctor)
{
	char dir[PATH_MAX], pattern[PATH_MAX + 32];

	if (!packages_library_dir(UCX_LIBRARY, dir))
		return;
	snprintf(pattern, sizeof(pattern), "%s/ucx/libuct_ib.so*", dir);
	if (packages_find(pattern, NULL))
		doctor_say(doctor, DOCTOR_OK, NULL, "UCX in %s has the verbs transport", dir);
	else
		doctor_say(
			doctor, DOCTOR_WARNING,
			"a UCX that is built with verbs; Open MPI without UCX: mpirun --mca pml cm --mca mtl ofi",
			"UCX in %s has no verbs transport (ucx/libuct_ib.so): programs over UCX do not use RDMA",
			dir);
}

/* Whether the kernel has RDMA. */
static bool has_kernel_rdma(void)
{
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_RDMA);

	if (fd < 0)
		return false;
	close(fd);
	return true;
}

static void check_rdma_tool(struct doctor *doctor)
{
	if (packages_find("/usr/*bin/rdma", NULL) || packages_find("/sbin/rdma", NULL))
		doctor_say(
			doctor, DOCTOR_OK, NULL,
			"rdma(8) lists the kernel's devices only: 'Failed to open NETLINK_RDMA socket' means that the "
			"kernel has none; 'usrdma status' lists those of usrdma");
}

static void check_rdma_core(struct doctor *doctor)
{
	char dir[PATH_MAX];

	if (packages_find("/usr/lib/*/librdmacm.so.1", dir) ||
	    packages_find("/usr/lib64/librdmacm.so.1", dir))
		doctor_say(
			doctor, DOCTOR_OK, NULL,
			"rdma-core in %s: programs that load it report 'Function not implemented', 'No such device' "
			"or, for rdma_getaddrinfo(), 'Bad value for ai_flags'; start them with 'usrdma run'",
			dir);
}

void doctor_check_packages(struct doctor *doctor)
{
	check_ucx(doctor);
	if (has_kernel_rdma())
		return;
	check_rdma_tool(doctor);
	check_rdma_core(doctor);
}
