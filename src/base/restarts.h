/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_BASE_RESTARTS_H
#define USRDMA_BASE_RESTARTS_H

#include <stdbool.h>

/*
 * Whether the kernel would restart a system call after a signal: all handlers of this process were installed with
 * SA_RESTART. For calls that wait with poll(2) or epoll_wait(2), which are never restarted. Which handler was called is not known; a program that has
 * a handler without SA_RESTART has to expect EINTR.
 */
bool wait_restarts(void);

#endif
