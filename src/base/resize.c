/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/resize.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <time.h>
#include <unistd.h>

#include "base/syscalls.h"

static bool is_pending(int number)
{
	sigset_t pending;

	return !sigpending(&pending) && sigismember(&pending, number);
}

int resize_memory(int fd, uint64_t bytes)
{
	const struct timespec at_once = {0};
	sigset_t limit, before;
	bool was_pending;
	int cancel_state, ret;

	sigemptyset(&limit);
	sigaddset(&limit, SIGXFSZ);
	pthread_sigmask(SIG_BLOCK, &limit, &before);
	was_pending = is_pending(SIGXFSZ);
	ret = ftruncate(fd, (off_t)bytes) ? -errno : 0;
	/*
	 * SIGXFSZ is pending for this thread, which blocks it. It is removed unless it was pending
	 * before.
	 */
	if (ret == -EFBIG && !was_pending) {
		cancel_state = cancel_disable();
		while (sigtimedwait(&limit, NULL, &at_once) < 0 && errno == EINTR)
			;
		cancel_restore(cancel_state);
	}
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return ret;
}
