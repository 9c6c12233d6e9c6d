/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/engine.h"

void engine_lock_init(struct engine *engine)
{
	pthread_mutexattr_t attr;

	pthread_mutexattr_init(&attr);
	pthread_mutexattr_settype(&attr, PTHREAD_MUTEX_RECURSIVE);
	pthread_mutex_init(&engine->lock, &attr);
	pthread_mutexattr_destroy(&attr);
}
