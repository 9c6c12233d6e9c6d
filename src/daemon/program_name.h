/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_DAEMON_PROGRAM_NAME_H
#define USRDMA_DAEMON_PROGRAM_NAME_H

#include <sys/types.h>

/* Linux truncates the name to 15 characters. */
#define PROGRAM_NAME_BYTES 16

/*
 * Reads the name of a process from /proc/PID/comm. "": the process has ended. "process": /proc
 * belongs to another PID namespace, where the PID is that of another process.
 */
void program_name_read(pid_t pid, char name[PROGRAM_NAME_BYTES]);

#endif
