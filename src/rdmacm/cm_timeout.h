/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_RDMACM_CM_TIMEOUT_H
#define USRDMA_RDMACM_CM_TIMEOUT_H

#include <stdint.h>

/*
 * The CM timeout in milliseconds: without a reply of the peer for this time, UNREACHABLE is
 * reported. From the environment variable USRDMA_CM_TIMEOUT (1 to 300 seconds). 0: the daemon's
 * default.
 */
uint32_t rcm_cm_timeout_ms(void);

#endif
