/* SPDX-License-Identifier: BSD-2-Clause */

/*
 * libmana.so.1: the direct verbs of the Microsoft Azure Network Adapter, grouped by symbol version.
 * No device of this implementation is such a device: every call fails as in rdma-core for a device
 * of another vendor. See providers/providers.h.
 */

#include "providers/providers.h"

/* MANA_1.0 */
PROVIDER_INT(manadv_init_obj, EOPNOTSUPP)
PROVIDER_INT(manadv_set_context_attr, EOPNOTSUPP)

/* MANA_1.1 */
PROVIDER_NULL(manadv_alloc_pd)
