/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_SYSFS_WRITE_H
#define USRDMA_SYSFS_WRITE_H

#include <stdint.h>

/*
 * Creates the directories, files and symbolic links of the tree (sysfs/tree.h). All return 0 or
 * -errno.
 */

/* Creates a directory, and with write_directories() also those above it. Succeeds if it exists. */
int write_directory(int at, const char *name) __attribute__((warn_unused_result));
int write_directories(int at, const char *path) __attribute__((warn_unused_result));

/* Creates a directory and those above it, and opens it. Returns the descriptor or -errno. */
int write_open_directory(int at, const char *path) __attribute__((warn_unused_result));

/* Creates a symbolic link. Succeeds if the name exists. */
int write_link(const char *target, int at, const char *name) __attribute__((warn_unused_result));

/*
 * Gives a file another name (linkat(2)), for files with equal content: a new file takes much longer
 * on some file systems. Succeeds if the name exists.
 */
int write_name(int from, const char *file, int at, const char *name)
	__attribute__((warn_unused_result));

/*
 * Writes one attribute: text and a newline, as in sysfs. Does nothing if *ret is already an error,
 * which it sets.
 */
void write_attribute(int *ret, int at, const char *name, const char *format, ...)
	__attribute__((format(printf, 4, 5)));

#endif
