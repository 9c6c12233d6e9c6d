/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TOOLS_USRDMA_PLACES_H
#define TOOLS_USRDMA_PLACES_H

#include <stdbool.h>

/* The directories that are installed for this program alone. */
enum place_name { PLACE_LIBRARIES, PLACE_TOOLS, PLACE_MANUAL };

/*
 * Finds one, and writes its path into dir, which has room for PATH_MAX bytes: beside this program in the build tree; under
 * the prefix it is installed in, wherever that was moved to (of PREFIX/lib/usrdma, whatever follows a slash is tried below
 * bin/..); where it was configured to be.
 */
bool place_find(enum place_name name, char *dir);

#endif /* TOOLS_USRDMA_PLACES_H */
