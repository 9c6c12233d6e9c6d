/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TOOLS_USRDMA_PLACES_H
#define TOOLS_USRDMA_PLACES_H

#include <stdbool.h>

/* Directories that are installed for this program only. */
enum place_name { PLACE_LIBRARIES, PLACE_TOOLS, PLACE_MANUAL, PLACE_SCENARIOS, PLACE_WIRESHARK };

/*
 * Finds a directory and writes its path into dir, which has PATH_MAX bytes. The candidates are, in
 * this order: the build tree of this program; the installation prefix, which may have been moved
 * (each suffix of PREFIX/lib/usrdma that follows a slash is tried below bin/..); the configured
 * path.
 */
bool place_find(enum place_name name, char *dir);

/*
 * To be called before this process changes its mount namespace. The kernel removes the mounts of a
 * namespace that has no process, and /proc/self/exe then has a wrong path if this program is on one
 * of them.
 */
void places_remember(void);

/* Whether place_find() finds the directory in a build tree. */
bool place_is_built(enum place_name name);

#endif /* TOOLS_USRDMA_PLACES_H */
