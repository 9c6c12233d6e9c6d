/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_BASE_RESTARTS_H
#define USRDMA_BASE_RESTARTS_H

#include <stdbool.h>

/*
 * Whether the kernel would restart a system call after a signal: all handlers of this process were
 * installed with SA_RESTART. For calls that wait with poll(2) or epoll_wait(2), which are never
 * restarted. Which handler was called is not known; a program that has a handler without SA_RESTART
 * has to expect EINTR.
 */
bool wait_restarts(void);

/*
 * Whether this process has a handler of a signal that interrupts a wait. Without one, the kernel
 * restarts poll(2) and select(2), but not epoll_wait(2): after SIGCONT, and when a child ends
 * during a fork() of glibc 2.41, which blocks all signals in its thread only.
 */
bool wait_has_handler(void);

#endif
