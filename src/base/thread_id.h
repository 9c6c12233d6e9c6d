/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_BASE_THREAD_ID_H
#define USRDMA_BASE_THREAD_ID_H

#include <sys/types.h>

/* gettid(2) of the calling thread. Only the first call of a thread makes a system call. */
pid_t thread_id(void);

/* To be called in the child of a fork(): its thread has a new id. */
void thread_id_forget(void);

#endif
