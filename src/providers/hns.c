/* SPDX-License-Identifier: BSD-2-Clause */

/*
 * libhns.so.1: the direct verbs of HiSilicon's network adapters, grouped by symbol version. No
 * device of this implementation is such a device: every call fails as in rdma-core for a device of
 * another vendor. See providers/providers.h.
 */

#include "providers/providers.h"

/* HNS_1.0 */
PROVIDER_NULL(hnsdv_create_qp)
PROVIDER_INT(hnsdv_is_supported, 0)
PROVIDER_INT(hnsdv_query_device, EOPNOTSUPP)
