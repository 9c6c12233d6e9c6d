/* SPDX-License-Identifier: BSD-2-Clause */
#include "rdmacm/patience.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/log.h"

#define PATIENCE_MAX_S 300
#define MS_PER_S       1000

static uint32_t patience_ms;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void read_environment(void)
{
	const char *text = secure_getenv("USRDMA_CM_TIMEOUT");
	unsigned long seconds;
	char *end;

	if (!text || !*text)
		return;
	seconds = strtoul(text, &end, 10);
	if (*end || seconds < 1 || seconds > PATIENCE_MAX_S) {
		log_user(
			"USRDMA_CM_TIMEOUT=%s: that is no number of seconds from 1 to %d, so 8 it is",
			text, PATIENCE_MAX_S);
		return;
	}
	patience_ms = (uint32_t)seconds * MS_PER_S;
}

uint32_t rcm_patience_ms(void)
{
	pthread_once(&once, read_environment);
	return patience_ms;
}
