/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/thread_id.h"

#include <unistd.h>

static __thread pid_t known_id;

pid_t thread_id(void)
{
	if (!known_id)
		known_id = gettid();
	return known_id;
}

void thread_id_forget(void)
{
	known_id = 0;
}
