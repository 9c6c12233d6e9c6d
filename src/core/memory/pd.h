/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_CORE_MEMORY_PD_H
#define USRDMA_CORE_MEMORY_PD_H

#include "core/object/objects.h"

/* An object of a protection domain was destroyed. engine.lock held. */
void pd_put(struct pd *pd);

#endif
