/* SPDX-License-Identifier: BSD-2-Clause */

/*
 * libionic.so.1: the direct verbs of AMD Pensando's network adapters, grouped by symbol version. No
 * device of this implementation is such a device: every call fails as in rdma-core for a device of
 * another vendor. See providers/providers.h.
 */

#include "providers/providers.h"

/* IONIC_1.0 */
PROVIDER_INT(ionic_dv_ctx_get_udma_count, 0)
PROVIDER_INT(ionic_dv_ctx_get_udma_mask, 0)
PROVIDER_INT(ionic_dv_pd_get_udma_mask, 0)
PROVIDER_INT(ionic_dv_pd_set_rqcmb, EPERM)
PROVIDER_INT(ionic_dv_pd_set_sqcmb, EPERM)
PROVIDER_INT(ionic_dv_pd_set_udma_mask, EPERM)
