/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_BASE_PROCFS_H
#define USRDMA_BASE_PROCFS_H

#include <stdbool.h>

/*
 * Whether /proc belongs to the PID namespace of this process. In a new PID namespace whose creator
 * has not mounted /proc, as that of pasta(1), /proc/PID is another process.
 */
bool procfs_is_ours(void);

#endif
