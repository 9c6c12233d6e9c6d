/* SPDX-License-Identifier: BSD-2-Clause */
/* usrdma enable, usrdma disable: usrdma for all programs of a machine or image. */
#include "enable.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "commands.h"
#include "config.h"
#include "places.h"
#include "run_variables.h"

/* Characters that separate words, or begin a comment, in the files of the dynamic loader. */
#define RESERVED " \t\r\n\v\f#=:;,"

struct enable_request {
	const char *command;
	const char *root; /* NULL: this machine */
	bool is_forced;
	bool has_sysfs;
	char dir[PATH_MAX]; /* of the libraries, below the root */
};

static const struct option enable_options[] = {
	{"root", required_argument, NULL, 'r'},
	{"force", no_argument, NULL, 'f'},
	{"sysfs", no_argument, NULL, 's'},
	{NULL, 0, NULL, 0},
};

static const struct option disable_options[] = {
	{"root", required_argument, NULL, 'r'},
	{NULL, 0, NULL, 0},
};

/* 0, or the exit status after an error message. */
static int enable_parse(struct enable_request *request, int argc, char **argv,
			const struct option *options)
{
	int option;

	*request = (struct enable_request){.command = argv[0]};
	optind = 0;
	opterr = 0;
	while ((option = getopt_long(argc, argv, "+", options, NULL)) != -1) {
		if (option == 'r')
			request->root = optarg;
		else if (option == 'f')
			request->is_forced = true;
		else if (option == 's')
			request->has_sysfs = true;
		else
			break;
	}
	if (option != -1 || optind < argc) {
		fprintf(stderr,
			"usrdma: %s: unknown option or argument, or an option without a value: '%s'; try 'usrdma %s --help'\n",
			argv[0], argv[option != -1 ? optind - 1 : optind], argv[0]);
		return EXIT_USAGE;
	}
	if (geteuid() != 0) {
		fprintf(stderr,
			"usrdma: %s: only root can change the libraries of all programs; run it with "
			"sudo, or use 'usrdma run' or 'usrdma env' for programs of this user\n",
			argv[0]);
		return EXIT_FAILURE;
	}
	return 0;
}

/*
 * Determines the directory of the libraries: that of this command, or in an image the configured
 * one. Returns whether there is one; *is_built: it is that of a build tree.
 */
static bool enable_find_dir(struct enable_request *request, bool *is_built)
{
	char own[PATH_MAX], root[PATH_MAX];
	bool has_own = place_find(PLACE_LIBRARIES, own);
	size_t len = 0;

	*is_built = has_own && place_is_built(PLACE_LIBRARIES);
	if (request->root) {
		if (!realpath(request->root, root)) {
			fprintf(stderr, "usrdma: %s: %s: %m\n", request->command, request->root);
			return false;
		}
		len = strcmp(root, "/") ? strlen(root) : 0;
		if (!has_own || strncmp(own, root, len) != 0 || own[len] != '/') {
			snprintf(own, sizeof(own), "%s", USRDMA_INSTALLED_LIBDIR);
			*is_built = false;
			len = 0;
		}
	} else if (!has_own) {
		fputs("usrdma: the libraries are not installed beside this command; run 'make install' as root\n",
		      stderr);
		return false;
	}
	memcpy(request->dir, own + len, strlen(own + len) + 1);
	return true;
}

/* Whether the file in /etc/ld.so.conf.d can be written and has an effect. */
static bool enable_conf_is_free(const struct enable_state *state)
{
	if (state->conf_error) {
		fprintf(stderr, "usrdma: enable: %s: %s; remove the file\n", ENABLE_CONF,
			strerror(-state->conf_error));
		return false;
	}
	if (state->has_conf && !state->is_conf_ours) {
		fprintf(stderr,
			"usrdma: enable: %s has another content than 'usrdma enable' writes; remove the file\n",
			ENABLE_CONF);
		return false;
	}
	if (!enable_conf_is_included()) {
		fputs("usrdma: enable: /etc/ld.so.conf does not include the files of /etc/ld.so.conf.d; "
		      "add the line 'include /etc/ld.so.conf.d/*.conf'\n",
		      stderr);
		return false;
	}
	return true;
}

static bool enable_dir_is_usable(struct enable_request *request)
{
	char real[PATH_MAX];

	if (!realpath(request->dir, real)) {
		fprintf(stderr,
			"usrdma: enable: %s%s: %m; install usrdma there as root, for example with 'make install'\n",
			request->root ? request->root : "", request->dir);
		return false;
	}
	if (strpbrk(real, RESERVED)) {
		fprintf(stderr,
			"usrdma: enable: the path of the libraries, '%s', has a character that the "
			"dynamic loader does not permit in its files; install usrdma in another directory\n",
			real);
		return false;
	}
	memcpy(request->dir, real, strlen(real) + 1);
	return enable_is_trusted(request->dir);
}

static int enable_failed(const char *path, int error)
{
	fprintf(stderr, "usrdma: cannot change %s: %s\n", path, strerror(-error));
	return EXIT_FAILURE;
}

/* Another installation may have enabled itself before: its line is replaced. */
static int enable_preload_write(const struct enable_request *request,
				const struct enable_state *state)
{
	char path[PATH_MAX];
	int ret = 0;

	if (snprintf(path, sizeof(path), "%s/" PRELOAD_SYSFS_NAME, request->dir) >=
	    (int)sizeof(path))
		return -ENAMETOOLONG;
	if (!request->has_sysfs && !*state->preload)
		return 0;
	if (*state->preload && strcmp(state->preload, path) != 0)
		ret = enable_preload_remove(state->preload);
	return ret ? ret : enable_preload_add(path);
}

/* Runs below the root directory of the image. */
static int enable_write(void *arg)
{
	struct enable_request *request = arg;
	struct enable_state state;
	int ret;

	enable_state_read(&state);
	if (!enable_conf_is_free(&state) || !enable_dir_is_usable(request))
		return EXIT_FAILURE;
	ret = strcmp(state.dir, request->dir) ? enable_conf_write(request->dir) : 0;
	if (ret)
		return enable_failed(ENABLE_CONF, ret);
	ret = state.preload_error ? state.preload_error : enable_preload_write(request, &state);
	if (ret)
		return enable_failed(ENABLE_PRELOAD, ret);
	printf("programs load libibverbs and librdmacm from %s (%s)\n", request->dir, ENABLE_CONF);
	if (request->has_sysfs || *state.preload)
		printf("programs find the devices in /sys (%s)\n", ENABLE_PRELOAD);
	else
		puts("programs that search /sys for devices need 'usrdma enable --sysfs' or 'usrdma run'");
	return EXIT_SUCCESS;
}

static bool enable_is_refused(const struct enable_request *request, bool is_built)
{
	char name[NAME_MAX + 1];

	if (is_built) {
		fputs("usrdma: enable: this command is in a build tree: processes of root would load "
		      "libraries that the next build replaces; run 'make install' as root, and then the "
		      "installed command\n",
		      stderr);
		return true;
	}
	/* An image is for other machines. */
	if (request->root || request->is_forced || !enable_find_adapter(name))
		return false;
	fprintf(stderr,
		"usrdma: enable: this machine has the RDMA device '%s' in /sys/class/infiniband, which no "
		"program could use any more; use 'usrdma run' for single programs, or --force\n",
		name);
	return true;
}

/* Whether the dynamic loader finds the library where the file names it. */
static int enable_verify(const char *root)
{
	char path[PATH_MAX] = "another directory";
	struct enable_state state;
	size_t len;

	/* In an image, the file is not read again: `ldconfig -r` has succeeded. */
	if (root)
		return EXIT_SUCCESS;
	enable_state_read(&state);
	len = strlen(state.dir);
	if (!enable_cache_find(NULL, "libibverbs.so.1", path) && len &&
	    !strncmp(path, state.dir, len) && path[len] == '/')
		return EXIT_SUCCESS;
	fprintf(stderr,
		"usrdma: enable: programs still load libibverbs.so.1 from '%s': a file of "
		"/etc/ld.so.conf.d or a line of /etc/ld.so.conf precedes %s\n",
		path, ENABLE_CONF);
	return EXIT_FAILURE;
}

int command_enable(int argc, char **argv)
{
	struct enable_request request;
	int status = enable_parse(&request, argc, argv, enable_options);
	bool is_built;

	if (status)
		return status;
	if (!enable_find_dir(&request, &is_built) || enable_is_refused(&request, is_built))
		return EXIT_FAILURE;
	status = enable_in_root(request.root, enable_write, &request);
	if (!status)
		status = enable_run_ldconfig(request.root);
	return status ? status : enable_verify(request.root);
}

/* Removes the library of this directory. Another one was not written by `usrdma enable`. */
static int disable_preload(const struct enable_state *state, bool *is_left)
{
	size_t len = strlen(state->dir);
	int ret = state->preload_error;

	if (ret || !*state->preload)
		return ret ? enable_failed(ENABLE_PRELOAD, ret) : EXIT_SUCCESS;
	if (len && !strncmp(state->preload, state->dir, len) &&
	    !strcmp(state->preload + len, "/" PRELOAD_SYSFS_NAME)) {
		ret = enable_preload_remove(state->preload);
		if (ret)
			return enable_failed(ENABLE_PRELOAD, ret);
		printf("removed %s from %s\n", state->preload, ENABLE_PRELOAD);
		return EXIT_SUCCESS;
	}
	*is_left = true;
	fprintf(stderr,
		"usrdma: disable: left %s in %s: %s does not name its directory, so that 'usrdma enable' "
		"may not have written it; remove the line\n",
		state->preload, ENABLE_PRELOAD, ENABLE_CONF);
	return EXIT_SUCCESS;
}

/* Runs below the root directory of the image. */
static int disable_remove(void *arg)
{
	struct enable_state state;
	bool is_left = false;
	int status;

	(void)arg;
	enable_state_read(&state);
	if (!state.has_conf && !*state.preload && !state.preload_error) {
		puts("not enabled");
		return EXIT_SUCCESS;
	}
	/* The library that all programs load first: its directory may be removed next. */
	status = disable_preload(&state, &is_left);
	if (status)
		return status;
	if (state.is_conf_ours) {
		if (unlink(ENABLE_CONF))
			return enable_failed(ENABLE_CONF, -errno);
		printf("removed %s\n", ENABLE_CONF);
	} else if (state.has_conf) {
		is_left = true;
		fprintf(stderr,
			"usrdma: disable: left %s: it was changed after 'usrdma enable' wrote it; remove "
			"it if programs are to load the libraries of the system again\n",
			ENABLE_CONF);
	}
	return is_left ? EXIT_FAILURE : EXIT_SUCCESS;
}

int command_disable(int argc, char **argv)
{
	struct enable_request request;
	int status = enable_parse(&request, argc, argv, disable_options);
	int ldconfig_status;

	if (status)
		return status;
	status = enable_in_root(request.root, disable_remove, &request);
	ldconfig_status = enable_run_ldconfig(request.root);
	return status ? status : ldconfig_status;
}
