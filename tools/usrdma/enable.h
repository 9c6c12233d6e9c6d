/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TOOLS_USRDMA_ENABLE_H
#define TOOLS_USRDMA_ENABLE_H

#include <limits.h>
#include <stdbool.h>

/*
 * `usrdma enable` gives all programs of a machine or image the libraries (ADR 0084): a file in
 * /etc/ld.so.conf.d puts their directory before those of the distribution, and with --sysfs a line
 * of /etc/ld.so.preload names the library that shows the devices in /sys. The paths of these
 * functions are those of the machine, or of the image after enable_in_root().
 */

/* The name precedes those of the distributions' files: ldconfig(8) reads them in this order. */
#define ENABLE_CONF    "/etc/ld.so.conf.d/000-usrdma.conf"
#define ENABLE_PRELOAD "/etc/ld.so.preload"

/* What the two files contain. */
struct enable_state {
	int conf_error;		/* -errno: the file exists, and cannot be read */
	bool has_conf;		/* the first file exists */
	bool is_conf_ours;	/* its content is one that `usrdma enable` writes */
	char dir[PATH_MAX];	/* the directory that it names, if is_conf_ours */
	int preload_error;	/* as conf_error, of the second file */
	char preload[PATH_MAX]; /* path of the library in the second file; empty: none */
};

/* Reads the two files. A missing file is no error. */
void enable_state_read(struct enable_state *state);

/* Writes the file in /etc/ld.so.conf.d. 0 or -errno. */
int enable_conf_write(const char *dir) __attribute__((warn_unused_result));

/* Appends the path to /etc/ld.so.preload, or removes it. 0 or -errno. */
int enable_preload_add(const char *path) __attribute__((warn_unused_result));
int enable_preload_remove(const char *path) __attribute__((warn_unused_result));

/* Whether the dynamic loader reads the files of /etc/ld.so.conf.d. */
bool enable_conf_is_included(void);

/*
 * Whether only root can change the libraries in this directory and the daemon, and all users can
 * read them. Prints the reason if not.
 */
bool enable_is_trusted(const char *dir);

/*
 * Whether the kernel has RDMA devices. Writes the name of one. Not with the preloaded library's
 * view.
 */
bool enable_find_adapter(char name[NAME_MAX + 1]);

/*
 * Calls the function in a process whose root directory is `root` (NULL: that of the machine), so
 * that no symbolic link of the image leads out of it. Returns its exit status.
 */
int enable_in_root(const char *root, int (*function)(void *arg), void *arg);

/* Runs ldconfig(8) of this machine for the root. Returns the exit status after an error message. */
int enable_run_ldconfig(const char *root);

/*
 * Writes the path that the dynamic loader's cache has for the library. Returns 0, -ENOENT: none, or
 * another -errno if the cache cannot be read.
 */
int enable_cache_find(const char *root, const char *library, char path[PATH_MAX]);

#endif
