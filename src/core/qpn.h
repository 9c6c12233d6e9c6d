/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_CORE_QPN_H
#define USRDMA_CORE_QPN_H

#include <stdint.h>

struct engine;

/* Returns the number of the next QP. Requires a free number; engine.lock held. */
uint32_t qpn_choose(struct engine *engine);

#endif
