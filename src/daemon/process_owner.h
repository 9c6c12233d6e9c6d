/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_DAEMON_PROCESS_OWNER_H
#define USRDMA_DAEMON_PROCESS_OWNER_H

#include <stdbool.h>
#include <sys/types.h>

/*
 * Whether the real, effective, saved and file system user IDs of a process are this user's. False
 * if it cannot be read. Calls only functions that are safe after fork() in a process with threads.
 */
bool process_owner_is(pid_t pid, uid_t uid);

#endif
