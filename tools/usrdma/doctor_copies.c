/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Programs that are linked with a private copy of libibverbs, as the libraries of Python wheels are
 * (ADR 0074).
 */
#include <ctype.h>
#include <dirent.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "doctor.h"
#include "places.h"
#include "report.h"

/* auditwheel inserts a hash into the name: libibverbs-1a2b3c4d.so.1. */
#define COPY_PREFIX "/libibverbs-"

/* What a process has mapped. */
struct mapped {
	char copy[PATH_MAX]; /* the private copy; empty: none */
	bool has_ours;	     /* also usrdma's libibverbs */
};

static bool maps_read(const char *pid, const char *ours, struct mapped *mapped)
{
	char path[64], *line = NULL;
	size_t room = 0;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%.16s/maps", pid);
	file = fopen(path, "re");
	if (!file)
		return false;
	*mapped = (struct mapped){0};
	while (getline(&line, &room, file) >= 0) {
		char *name = strchr(line, '/');
		char *base = name ? strrchr(name, '/') : NULL;

		if (!name)
			continue;
		name[strcspn(name, "\n")] = '\0';
		if (!strncmp(base, COPY_PREFIX, strlen(COPY_PREFIX)))
			snprintf(mapped->copy, sizeof(mapped->copy), "%s", name);
		mapped->has_ours |= !strcmp(name, ours);
	}
	free(line);
	fclose(file);
	return mapped->copy[0];
}

/* The daemon serves one network namespace. */
static bool is_in_this_namespace(const char *pid)
{
	char path[64], own[64] = "", other[64] = "";

	snprintf(path, sizeof(path), "/proc/%.16s/ns/net", pid);
	return readlink("/proc/self/ns/net", own, sizeof(own) - 1) > 0 &&
	       readlink(path, other, sizeof(other) - 1) > 0 && !strcmp(own, other);
}

static bool is_reported(const struct doctor *doctor, const char *pid)
{
	json_object *processes = doctor->report ?
					 json_object_object_get(doctor->report, "processes") :
					 NULL;
	size_t count = report_length(processes);

	for (size_t i = 0; i < count; i++) {
		if (!strcmp(text_of(json_object_array_get_idx(processes, i), "pid"), pid))
			return true;
	}
	return false;
}

/* Our library has the same symbols and versions, so that a link can replace the copy. */
static void copy_say(struct doctor *doctor, const char *pid, const struct mapped *mapped,
		     const char *ours)
{
	char *mend = NULL;

	if (!mapped->has_ours) {
		doctor_say(doctor, DOCTOR_WARNING, "start the program with usrdma run",
			   "pid %s uses %s, a private copy of libibverbs", pid, mapped->copy);
		return;
	}
	if (asprintf(&mend, "ln -sf %s %s", ours, mapped->copy) < 0)
		mend = NULL;
	doctor_say(
		doctor, DOCTOR_WARNING, mend,
		"pid %s has %s, a private copy of libibverbs, and has opened no device of usrdma: if the copy is loaded "
		"with RTLD_DEEPBIND, the program uses it and not the library that usrdma run preloads",
		pid, mapped->copy);
	free(mend);
}

void doctor_check_copies(struct doctor *doctor)
{
	char dir[PATH_MAX], path[PATH_MAX], ours[PATH_MAX];
	struct mapped *mapped = malloc(sizeof(*mapped));
	DIR *proc = opendir("/proc");
	struct dirent *entry;

	if (!mapped || !proc || !place_find(PLACE_LIBRARIES, dir) ||
	    snprintf(path, sizeof(path), "%s/libibverbs.so.1", dir) >= (int)sizeof(path) ||
	    !realpath(path, ours))
		goto out;
	while ((entry = readdir(proc))) {
		const char *pid = entry->d_name;

		if (isdigit((unsigned char)*pid) && is_in_this_namespace(pid) &&
		    maps_read(pid, ours, mapped) && !is_reported(doctor, pid))
			copy_say(doctor, pid, mapped, ours);
	}
out:
	if (proc)
		closedir(proc);
	free(mapped);
}
