/* SPDX-License-Identifier: BSD-2-Clause */
/* Reads and writes the two files of `usrdma enable`. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "enable.h"
#include "run_variables.h"

#define CONF_HEAD "# Written by 'usrdma enable'. 'usrdma disable' removes this file.\n"

/* Larger files are not those of a dynamic loader. */
#define FILE_BYTES_MAX 65536

#define LOADER_CONF "/etc/ld.so.conf"

/* ld.so(8) splits /etc/ld.so.preload at these characters. */
#define SEPARATORS " \t\r\n:"

/*
 * Reads a regular file. The caller frees the text. NULL and *error 0: no such file. Links are not
 * followed: a file that a link names is not one that this command wrote.
 */
static char *text_read(const char *path, int *error)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	size_t used = 0;
	struct stat status;
	ssize_t len;
	char *text;

	*error = fd < 0 && errno != ENOENT ? -errno : 0;
	if (fd < 0)
		return NULL;
	text = malloc(FILE_BYTES_MAX + 1);
	if (!text)
		*error = -ENOMEM;
	else if (fstat(fd, &status) || !S_ISREG(status.st_mode))
		*error = -EINVAL;
	while (!*error && used <= FILE_BYTES_MAX) {
		len = read(fd, text + used, FILE_BYTES_MAX + 1 - used);
		if (len < 0)
			*error = -errno;
		if (len <= 0)
			break;
		used += (size_t)len;
	}
	close(fd);
	if (!*error && used > FILE_BYTES_MAX)
		*error = -EFBIG;
	if (*error) {
		free(text);
		return NULL;
	}
	text[used] = '\0';
	return text;
}

static int all_write(int fd, const char *text)
{
	size_t len = strlen(text);

	while (len > 0) {
		ssize_t done = write(fd, text, len);

		if (done < 0)
			return -errno;
		text += done;
		len -= (size_t)done;
	}
	return fsync(fd) ? -errno : 0;
}

/*
 * Replaces the file in one step: programs that start at this moment read the old text or the new
 * one. Keeps its owner and mode.
 */
static int text_write(const char *path, const char *text)
{
	struct stat status = {.st_mode = 0644};
	char new_path[PATH_MAX];
	int fd, ret;

	if (lstat(path, &status) && errno != ENOENT)
		return -errno;
	if (snprintf(new_path, sizeof(new_path), "%s.usrdma-XXXXXX", path) >= (int)sizeof(new_path))
		return -ENAMETOOLONG;
	fd = mkostemp(new_path, O_CLOEXEC);
	if (fd < 0)
		return -errno;
	ret = all_write(fd, text);
	if (!ret && (fchown(fd, status.st_uid, status.st_gid) ||
		     fchmod(fd, status.st_mode & 07777) || rename(new_path, path)))
		ret = -errno;
	close(fd);
	if (ret)
		(void)unlink(new_path);
	return ret;
}

/* Writes the directory that the text names. Returns whether `usrdma enable` writes such a text. */
static bool conf_parse(const char *text, char dir[PATH_MAX])
{
	size_t len;

	if (strncmp(text, CONF_HEAD, strlen(CONF_HEAD)) != 0)
		return false;
	text += strlen(CONF_HEAD);
	len = strcspn(text, "\n");
	if (text[0] != '/' || strcmp(text + len, "\n") != 0 || len >= PATH_MAX)
		return false;
	memcpy(dir, text, len);
	dir[len] = '\0';
	return true;
}

/* The next path at or after `text`, and its length; 0: none. # begins a comment. */
static size_t path_next(const char **text)
{
	*text += strspn(*text, SEPARATORS);
	while (**text == '#') {
		*text += strcspn(*text, "\n");
		*text += strspn(*text, SEPARATORS);
	}
	return strcspn(*text, SEPARATORS "#");
}

/* Whether the path, which is not terminated, is one of the library in any directory. */
static bool is_sysfs_library(const char *path, size_t len)
{
	static const char name[] = "/" PRELOAD_SYSFS_NAME;

	return len >= strlen(name) && len < PATH_MAX &&
	       !strncmp(path + len - strlen(name), name, strlen(name));
}

void enable_state_read(struct enable_state *state)
{
	char *text;
	size_t len;

	memset(state, 0, sizeof(*state));
	text = text_read(ENABLE_CONF, &state->conf_error);
	state->has_conf = text || state->conf_error;
	state->is_conf_ours = text && conf_parse(text, state->dir);
	free(text);
	text = text_read(ENABLE_PRELOAD, &state->preload_error);
	for (const char *at = text; at && (len = path_next(&at)) > 0; at += len) {
		if (!is_sysfs_library(at, len))
			continue;
		memcpy(state->preload, at, len);
		state->preload[len] = '\0';
		break;
	}
	free(text);
}

int enable_conf_write(const char *dir)
{
	char *text;
	int ret;

	if (asprintf(&text, CONF_HEAD "%s\n", dir) < 0)
		return -ENOMEM;
	ret = text_write(ENABLE_CONF, text);
	free(text);
	return ret;
}

/* The place of the path in the text; NULL: it is not there. */
static char *path_find(char *text, const char *path)
{
	const char *at = text;
	size_t len;

	for (; (len = path_next(&at)) > 0; at += len) {
		if (len == strlen(path) && !strncmp(at, path, len))
			return text + (at - text);
	}
	return NULL;
}

int enable_preload_add(const char *path)
{
	int ret;
	char *text = text_read(ENABLE_PRELOAD, &ret);
	char *longer = NULL;
	bool has_end;

	if (ret || (text && path_find(text, path))) {
		free(text);
		return ret;
	}
	has_end = !text || !*text || text[strlen(text) - 1] == '\n';
	if (asprintf(&longer, "%s%s%s\n", text ? text : "", has_end ? "" : "\n", path) < 0)
		ret = -ENOMEM;
	else
		ret = text_write(ENABLE_PRELOAD, longer);
	free(longer);
	free(text);
	return ret;
}

int enable_preload_remove(const char *path)
{
	int ret;
	char *text = text_read(ENABLE_PRELOAD, &ret);
	char *at = text ? path_find(text, path) : NULL;
	char *end;

	if (!at) {
		free(text);
		return ret;
	}
	end = at + strlen(path);
	/* The whole line, if it has nothing else. */
	if ((at == text || at[-1] == '\n') && *end == '\n')
		end++;
	memmove(at, end, strlen(end) + 1);
	if (text[strspn(text, " \t\r\n")])
		ret = text_write(ENABLE_PRELOAD, text);
	else
		ret = unlink(ENABLE_PRELOAD) ? -errno : 0;
	free(text);
	return ret;
}

bool enable_conf_is_included(void)
{
	FILE *file = fopen(LOADER_CONF, "re");
	char *line = NULL;
	bool is_included = false;
	size_t room = 0;

	while (file && !is_included && getline(&line, &room, file) >= 0) {
		const char *at = line + strspn(line, " \t");

		is_included = !strncmp(at, "include", strlen("include")) &&
			      strstr(at, "ld.so.conf.d/*.conf");
	}
	free(line);
	if (file)
		fclose(file);
	return is_included;
}
