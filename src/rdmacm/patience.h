/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_RDMACM_PATIENCE_H
#define USRDMA_RDMACM_PATIENCE_H

#include <stdint.h>

/*
 * How long a peer may say nothing before it is UNREACHABLE: what the environment variable USRDMA_CM_TIMEOUT says in
 * seconds, from 1 to 300. 0 leaves it to the daemon.
 */
uint32_t rcm_patience_ms(void);

#endif
