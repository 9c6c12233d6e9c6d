/* SPDX-License-Identifier: BSD-2-Clause */
/* Whether `usrdma enable` has given all programs the libraries, and whether its files agree. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "doctor.h"
#include "enable.h"

#define DISABLE "usrdma disable"

/* The conf.d file of the dynamic loader names the directory `dir`. */
static void check_conf(struct doctor *doctor, const char *dir)
{
	char file[PATH_MAX], path[PATH_MAX] = "";
	int ret;

	if (snprintf(file, sizeof(file), "%s/libibverbs.so.1", dir) >= (int)sizeof(file) ||
	    access(file, R_OK)) {
		doctor_say(
			doctor, DOCTOR_PROBLEM, DISABLE,
			"enabled: %s names the directory %s, which has no libibverbs.so.1 any more",
			ENABLE_CONF, dir);
		return;
	}
	ret = enable_cache_find(NULL, "libibverbs.so.1", path);
	if (ret && ret != -ENOENT)
		doctor_say(
			doctor, DOCTOR_WARNING, "ldconfig -p",
			"enabled: %s names %s, but the cache of the dynamic loader cannot be read",
			ENABLE_CONF, dir);
	else if (strcmp(path, file) != 0)
		doctor_say(
			doctor, DOCTOR_PROBLEM, "ldconfig",
			"enabled: %s names %s, but programs load %s: ldconfig has not run since, or another file "
			"precedes this one",
			ENABLE_CONF, dir, *path ? path : "no libibverbs.so.1");
	else
		doctor_say(doctor, DOCTOR_OK, NULL,
			   "enabled: all programs of this machine use the libraries of %s", dir);
}

void doctor_check_enabled(struct doctor *doctor)
{
	struct enable_state state;

	enable_state_read(&state);
	if (state.is_conf_ours)
		check_conf(doctor, state.dir);
	else if (state.has_conf)
		doctor_say(doctor, DOCTOR_WARNING, "rm " ENABLE_CONF "; ldconfig",
			   "enabled: %s has another content than 'usrdma enable' writes",
			   ENABLE_CONF);
	if (!*state.preload)
		return;
	if (access(state.preload, R_OK))
		doctor_say(
			doctor, DOCTOR_PROBLEM, DISABLE,
			"enabled: %s names %s, which does not exist: each program prints an error message when it starts",
			ENABLE_PRELOAD, state.preload);
	else if (!state.is_conf_ours)
		doctor_say(
			doctor, DOCTOR_WARNING, "usrdma enable --sysfs",
			"enabled: %s shows the devices in /sys, but programs do not load the libraries",
			ENABLE_PRELOAD);
	else
		doctor_say(doctor, DOCTOR_OK, NULL,
			   "enabled: all programs find the devices in /sys");
}
