/* SPDX-License-Identifier: BSD-2-Clause */
#include "places.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "config.h"

#define HOLDS_MAX 3

/* A directory of this project, identified by files in it. */
struct place {
	const char *built;     /* path below the build directory, if this program is in it */
	const char *installed; /* the configured absolute path; the prefix may have been moved */
	const char *holds[HOLDS_MAX];
};

static const struct place places[] = {
	[PLACE_LIBRARIES] = {"lib",
			     USRDMA_INSTALLED_LIBDIR,
			     {"libibverbs.so.1", "librdmacm.so.1", "libusrdma-sysfs.so"}},
	[PLACE_TOOLS] = {"tools", USRDMA_INSTALLED_LIBDIR "/bin", {"cm-reach"}},
	[PLACE_MANUAL] = {"man", USRDMA_INSTALLED_MANDIR, {"man7/usrdma.7"}},
	[PLACE_SCENARIOS] = {"share/usrdma/scenarios",
			     USRDMA_INSTALLED_SCENARIODIR,
			     {"loss-1-percent.rules"}},
	[PLACE_WIRESHARK] = {"share/usrdma/wireshark",
			     USRDMA_INSTALLED_WIRESHARKDIR,
			     {"heuristic_protos", "preferences"}},
};

/* Whether own/below is the directory; if so, writes its real path into dir. */
static bool candidate(const struct place *place, const char *own, const char *below, char *dir)
{
	char path[PATH_MAX];
	int len;

	for (int i = 0; i < HOLDS_MAX && place->holds[i]; i++) {
		len = snprintf(path, sizeof(path), "%s/%s/%s", own, below, place->holds[i]);
		if (len < 0 || (size_t)len >= sizeof(path) || access(path, R_OK) != 0)
			return false;
	}
	len = snprintf(path, sizeof(path), "%s/%s", own, below);
	return len > 0 && (size_t)len < sizeof(path) && realpath(path, dir);
}

/* Once: a caller may look for several places. */
static void report_no_proc(void)
{
	static bool is_reported;

	if (!is_reported)
		fputs("usrdma: /proc/self/exe cannot be read, so that this program does not find its files beside it; mount /proc\n",
		      stderr);
	is_reported = true;
}

/* The path of this program; "": /proc is missing. It is read once. */
static const char *own_path(void)
{
	static char path[PATH_MAX];
	static bool is_read;

	if (!is_read && !realpath("/proc/self/exe", path))
		path[0] = '\0';
	is_read = true;
	return path;
}

void places_remember(void)
{
	own_path();
}

bool place_is_built(enum place_name name)
{
	char own[PATH_MAX], dir[PATH_MAX];
	char *slash;

	strcpy(own, own_path());
	slash = strrchr(own, '/');
	if (!slash)
		return false;
	*slash = '\0';
	return candidate(&places[name], own, places[name].built, dir);
}

bool place_find(enum place_name name, char *dir)
{
	const struct place *place = &places[name];
	char own[PATH_MAX];
	char *slash;

	strcpy(own, own_path());
	slash = strrchr(own, '/');
	if (!slash) {
		if (candidate(place, "", place->installed, dir))
			return true;
		report_no_proc();
		return false;
	}
	*slash = '\0';
	if (candidate(place, own, place->built, dir))
		return true;
	slash = strrchr(own, '/');
	if (slash)
		*slash = '\0';
	for (const char *below = place->installed; below; below = strchr(below, '/')) {
		below++;
		if (candidate(place, own, below, dir))
			return true;
	}
	return candidate(place, "", place->installed, dir);
}
