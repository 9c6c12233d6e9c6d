/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TOOLS_USRDMA_RUN_MOUNT_H
#define TOOLS_USRDMA_RUN_MOUNT_H

/*
 * Moves this process into a mount namespace of its own, in which /sys and /dev have the files of
 * the devices, for static programs and programs that make system calls without the C library (ADR
 * 0084). Without CAP_SYS_ADMIN the process gets a user namespace, too. Returns 0, or the exit
 * status after an error message.
 */
int run_mount_enter(void);

#endif
