/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_TESTS_API_IMPOSTOR_H
#define USRDMA_TESTS_API_IMPOSTOR_H

#include <pthread.h>
#include <stdatomic.h>

/*
 * A false daemon: a thread that is bound to the daemon's socket name and answers each client's
 * first request with `status` (-errno). The name must be free.
 */
struct impostor {
	int listener;
	atomic_int status;
	pthread_t thread;
};

void impostor_start(struct impostor *impostor, int status);
void impostor_stop(struct impostor *impostor);

#endif
