/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/probe.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/fault.h"
#include "base/log.h"
#include "base/trace.h"

#define WHY_BYTES 128

_Atomic uint32_t probe_mask;

static void init_faults(void)
{
	/* secure_getenv(): the user of a set-user-ID program must not be able to inject faults into it. */
	const char *rules = secure_getenv("USRDMA_FAULT");
	char why[WHY_BYTES];

	if (!rules || !*rules)
		return;
	if (fault_configure(rules, why, sizeof(why)))
		log_user("invalid USRDMA_FAULT '%s': %s; no fault is injected", rules, why);
	else
		log_info("fault injection is on: %s", rules);
}

static void init_once(void)
{
	if (log_is_on(LOG_LEVEL_TRACE))
		trace_text_open();
	init_faults();
}

void probe_init(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, init_once);
}
