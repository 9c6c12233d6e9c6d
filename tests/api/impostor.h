/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_TESTS_API_IMPOSTOR_H
#define USRDMA_TESTS_API_IMPOSTOR_H

#include <pthread.h>
#include <stdatomic.h>

/*
 * Somebody at the daemon's name who turns everybody away: a thread that answers each client's first request with `status`
 * (-errno). Nobody may have the name meanwhile.
 */
struct impostor {
	int listener;
	atomic_int status;
	pthread_t thread;
};

void impostor_start(struct impostor *impostor, int status);
void impostor_stop(struct impostor *impostor);

#endif
