/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/barrier.h"

#include <errno.h>
#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/*
 * membarrier(2) may begin to fail after the registration, if the program installs a seccomp filter.
 * After this time, the store buffers of the other processors are empty, and loads that were
 * performed early belong to instructions that have ended: both takes less than a microsecond. No
 * architecture guarantees a bound, so this is an assumption about processors.
 */
#define DRAIN_NS 20000000

atomic_bool barrier_has_threads;
atomic_bool barrier_has_processes;

/*
 * Stores of threads that found barrier_has_threads may not be visible. Set before
 * barrier_has_threads is set, and cleared after the drain that follows its end.
 */
static atomic_bool may_be_light;

static int membarrier(int command)
{
	return (int)syscall(SYS_membarrier, command, 0, 0);
}

void barrier_register(void)
{
	int saved = errno;

	if (!membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED)) {
		atomic_store(&may_be_light, true);
		atomic_store(&barrier_has_threads, true);
	} else {
		atomic_store(&barrier_has_threads, false);
	}
	atomic_store(&barrier_has_processes, !membarrier(MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED));
	errno = saved;
}

static void barrier_drain(void)
{
	const struct timespec drain = {.tv_nsec = DRAIN_NS};

	syscall(SYS_nanosleep, &drain, NULL);
}

void barrier_threads(void)
{
	int saved = errno;

	if (membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED)) {
		atomic_store(&barrier_has_threads, false);
		barrier_drain();
		atomic_store(&may_be_light, false);
	}
	errno = saved;
}

void barrier_threads_if_light(void)
{
	if (atomic_load(&may_be_light))
		barrier_threads();
}

void barrier_processes(void)
{
	int saved = errno;

	if (membarrier(MEMBARRIER_CMD_GLOBAL_EXPEDITED)) {
		atomic_store(&barrier_has_processes, false);
		barrier_drain();
	}
	errno = saved;
}
