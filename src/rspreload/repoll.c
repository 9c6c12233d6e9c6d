/* SPDX-License-Identifier: BSD-2-Clause */
#include "rspreload/repoll.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stddef.h>

static struct repoll_calls found;

static void repoll_look_up(void)
{
	*(void **)&found.create = dlsym(RTLD_DEFAULT, "repoll_create");
	*(void **)&found.ctl = dlsym(RTLD_DEFAULT, "repoll_ctl");
	*(void **)&found.wait = dlsym(RTLD_DEFAULT, "repoll_wait");
}

const struct repoll_calls *repoll_calls(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, repoll_look_up);
	return found.create && found.ctl && found.wait ? &found : NULL;
}
