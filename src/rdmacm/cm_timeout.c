/* SPDX-License-Identifier: BSD-2-Clause */
#include "rdmacm/cm_timeout.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/log.h"

#define CM_TIMEOUT_MAX_S 300
#define MS_PER_S	 1000

static uint32_t cm_timeout_ms;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void read_environment(void)
{
	const char *text = secure_getenv("USRDMA_CM_TIMEOUT");
	unsigned long seconds;
	char *end;

	if (!text || !*text)
		return;
	seconds = strtoul(text, &end, 10);
	if (*end || seconds < 1 || seconds > CM_TIMEOUT_MAX_S) {
		log_user(
			"invalid USRDMA_CM_TIMEOUT '%s' (a number of seconds from 1 to %d); using 8",
			text, CM_TIMEOUT_MAX_S);
		return;
	}
	cm_timeout_ms = (uint32_t)seconds * MS_PER_S;
}

uint32_t rcm_cm_timeout_ms(void)
{
	pthread_once(&once, read_environment);
	return cm_timeout_ms;
}
