/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/probe.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/types.h>

#include "base/fault.h"
#include "base/log.h"
#include "base/syscalls.h"
#include "base/trace.h"

#define WHY_BYTES      128
#define FILE_BYTES_MAX (64 * 1024)

_Atomic uint32_t probe_mask;

/* Returns the contents of a file, which the caller frees. NULL and errno on failure. */
static char *read_rules(const char *path)
{
	int fd = sys_open(path, O_RDONLY | O_CLOEXEC);
	ssize_t len = fd < 0 ? -errno : -ENOMEM;
	char *text = fd < 0 ? NULL : malloc(FILE_BYTES_MAX + 1);

	if (text)
		len = sys_read_all(fd, text, FILE_BYTES_MAX + 1);
	if (len > FILE_BYTES_MAX)
		len = -EFBIG;
	if (fd >= 0)
		sys_close(fd);
	if (len >= 0) {
		text[len] = '\0';
		return text;
	}
	free(text);
	errno = (int)-len;
	return NULL;
}

static void init_faults(const char *variable, const char *value, const char *rules)
{
	char why[WHY_BYTES];

	if (fault_configure(rules, why, sizeof(why)))
		log_user("invalid %s '%s': %s; no fault is injected", variable, value, why);
	else
		log_info("fault injection is on: %s", value);
}

/*
 * secure_getenv(): the user of a set-user-ID program must not be able to inject faults into it, or
 * have it read a file.
 */
static void init_faults_from_environment(void)
{
	const char *rules = secure_getenv("USRDMA_FAULT");
	const char *path = secure_getenv("USRDMA_FAULTS");
	char *text;

	if (rules && *rules) {
		init_faults("USRDMA_FAULT", rules, rules);
		return;
	}
	if (!path || !*path)
		return;
	text = read_rules(path);
	if (text)
		init_faults("USRDMA_FAULTS", path, text);
	else
		log_user("cannot read USRDMA_FAULTS '%s': %m; no fault is injected", path);
	free(text);
}

static void init_once(void)
{
	if (log_is_on(LOG_LEVEL_TRACE))
		trace_text_open();
	init_faults_from_environment();
}

void probe_init(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, init_once);
}
