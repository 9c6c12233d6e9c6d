/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the daemon reports of itself, the devices and the programs, and which libraries programs
 * load.
 */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "config.h"
#include "doctor.h"
#include "enable.h"
#include "places.h"
#include "report.h"

/*
 * The smallest MTU of an interface whose port has an active MTU of 1024: the headers of IPv6, UDP
 * and RoCEv2 take 92 bytes.
 */
#define MTU_OF_1024 (1024 + 92)

/* Why no daemon serves this user. */
static void say_not_served(struct doctor *doctor)
{
	const struct report_daemon *daemon = &doctor->daemon;
	char mend[160];

	if (daemon->error == -EACCES && daemon->uid == geteuid()) {
		doctor_say(
			doctor, DOCTOR_PROBLEM, "unshare --map-user, newuidmap, or root's daemon",
			"the daemon (pid %ld) may belong to a user that this user namespace does not map",
			(long)daemon->pid);
	} else if (daemon->error == -EACCES) {
		snprintf(
			mend, sizeof(mend),
			"%skill %ld; systemctl enable --now usrdmad.socket, whose daemon serves all users",
			geteuid() == 0 ? "" : "ask root to run: ", (long)daemon->pid);
		doctor_say(doctor, DOCTOR_PROBLEM, mend,
			   "the daemon belongs to uid %u and serves only that user (pid %ld)",
			   (unsigned int)daemon->uid, (long)daemon->pid);
	} else if (daemon->error == -EPROTO) {
		doctor_say(
			doctor, DOCTOR_PROBLEM,
			"stop the programs that use the daemon, or run systemctl restart usrdmad",
			"the daemon (pid %ld) is of another release than this command",
			(long)daemon->pid);
	} else if (daemon->error == -EMFILE) {
		doctor_say(
			doctor, DOCTOR_PROBLEM,
			"stop the programs, so that the daemon ends, and start them with a larger limit of open files (ulimit -Hn)",
			"the daemon or this command has no free descriptor: %s", strerror(EMFILE));
	} else if (daemon->error == -ENOENT) {
		doctor_say(doctor, DOCTOR_PROBLEM, "make install",
			   "the daemon program, usrdmad, is not installed beside this command");
	} else {
		doctor_say(doctor, DOCTOR_PROBLEM, "usrdmad --foreground", "no daemon answers: %s",
			   strerror(-daemon->error));
	}
}

void doctor_check_daemon(struct doctor *doctor)
{
	json_object *daemon;
	const char *version;

	if (!doctor->report) {
		say_not_served(doctor);
		return;
	}
	daemon = json_object_object_get(doctor->report, "daemon");
	version = text_of(daemon, "version");
	if (strcmp(version, USRDMA_VERSION) != 0)
		doctor_say(doctor, DOCTOR_WARNING,
			   "stop the programs, and the daemon ends after the last one",
			   "the daemon, pid %s, has version %s, this command %s",
			   text_of(daemon, "pid"), version, USRDMA_VERSION);
	else
		doctor_say(doctor, DOCTOR_OK, NULL, "daemon: pid %s, uid %s, version %s",
			   text_of(daemon, "pid"), text_of(daemon, "uid"), version);
}

void doctor_check_devices(struct doctor *doctor)
{
	json_object *devices = json_object_object_get(doctor->report, "devices");
	size_t count = report_length(devices);

	if (count == 0)
		doctor_say(doctor, DOCTOR_PROBLEM, "ip link set lo up",
			   "no device: no interface is up and has an address");
	for (size_t i = 0; i < count; i++) {
		json_object *device = json_object_array_get_idx(devices, i);
		const char *name = text_of(device, "name");
		uint64_t mtu = number_of(device, "mtu_bytes");

		if (strcmp(text_of(device, "state"), "ACTIVE") != 0)
			doctor_say(doctor, DOCTOR_WARNING, "ip link set NAME up",
				   "device %s: the interface is down", name);
		else if (mtu < MTU_OF_1024)
			doctor_say(doctor, DOCTOR_WARNING, "ip link set NAME mtu 1500",
				   "device %s: MTU %llu is too small for a path MTU of 1024", name,
				   (unsigned long long)mtu);
		else
			doctor_say(doctor, DOCTOR_OK, NULL, "device %s: MTU %llu", name,
				   (unsigned long long)mtu);
	}
}

/* Writes the first directory of LD_LIBRARY_PATH that has a libibverbs.so.1. Returns dir or NULL. */
static char *first_library_dir(char *dir)
{
	const char *path = getenv("LD_LIBRARY_PATH");

	while (path && *path) {
		size_t len = strcspn(path, ":");
		char file[PATH_MAX];

		snprintf(dir, PATH_MAX, "%.*s", (int)len, path);
		if (len &&
		    snprintf(file, sizeof(file), "%s/libibverbs.so.1", dir) < (int)sizeof(file) &&
		    access(file, R_OK) == 0)
			return dir;
		path += len + (path[len] == ':');
	}
	return NULL;
}

void doctor_check_libraries(struct doctor *doctor)
{
	char ours[PATH_MAX], found[PATH_MAX], real[PATH_MAX], ours_real[PATH_MAX];
	const char *first = first_library_dir(found);
	struct enable_state enabled;

	if (!place_find(PLACE_LIBRARIES, ours) || !realpath(ours, ours_real)) {
		doctor_say(doctor, DOCTOR_PROBLEM, "make install",
			   "the libraries of usrdma are not installed beside this command");
		return;
	}
	enable_state_read(&enabled);
	if (!first && enabled.is_conf_ours)
		doctor_say(doctor, DOCTOR_OK, NULL, "libraries: %s", ours_real);
	else if (!first)
		doctor_say(doctor, DOCTOR_OK, NULL,
			   "libraries: %s. Programs use them if 'usrdma run' starts them",
			   ours_real);
	else if (realpath(first, real) && strcmp(real, ours_real) == 0)
		doctor_say(doctor, DOCTOR_OK, NULL, "libraries: programs of this shell use %s",
			   ours_real);
	else
		doctor_say(doctor, DOCTOR_WARNING,
			   "unset LD_LIBRARY_PATH, or start programs with usrdma run",
			   "LD_LIBRARY_PATH has another libibverbs first, in %s", found);
}

/* A process that this user may not inspect is not compared. */
static int differs(const char *pid, const char *kind)
{
	char path[64], own[64], other[64];
	ssize_t own_len, other_len;

	snprintf(path, sizeof(path), "/proc/self/ns/%s", kind);
	own_len = readlink(path, own, sizeof(own));
	snprintf(path, sizeof(path), "/proc/%.16s/ns/%s", pid, kind);
	other_len = readlink(path, other, sizeof(other));
	return own_len > 0 && other_len > 0 &&
	       (own_len != other_len || memcmp(own, other, (size_t)own_len) != 0);
}

void doctor_check_namespaces(struct doctor *doctor)
{
	static const char *const kinds[] = {"pid", "user"};
	json_object *processes = json_object_object_get(doctor->report, "processes");
	size_t count = report_length(processes);

	for (size_t i = 0; i < count; i++) {
		const char *pid = text_of(json_object_array_get_idx(processes, i), "pid");

		for (size_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++) {
			if (differs(pid, kinds[k]))
				doctor_say(
					doctor, DOCTOR_WARNING,
					"start both containers with the same --pid and --userns",
					"pid %s is in another %s namespace: it and the programs here cannot both access the other's "
					"memory, and RDMA READ and WRITE may be copied by both processes",
					pid, kinds[k]);
		}
	}
}
