/* SPDX-License-Identifier: BSD-2-Clause */

/*
 * libefa.so.1: the direct verbs of the Elastic Fabric Adapter, grouped by symbol version. No device
 * of this implementation is such a device: every call fails as in rdma-core for a device of another
 * vendor. See providers/providers.h.
 */

#include "providers/providers.h"

/* EFA_1.0 */
PROVIDER_NULL(efadv_create_driver_qp)

/* EFA_1.1 */
PROVIDER_NULL(efadv_create_qp_ex)
PROVIDER_INT(efadv_query_ah, EOPNOTSUPP)
PROVIDER_INT(efadv_query_device, EOPNOTSUPP)

/* EFA_1.2 */
PROVIDER_NULL(efadv_cq_from_ibv_cq_ex)
PROVIDER_NULL(efadv_create_cq)

/* EFA_1.3 */
PROVIDER_INT(efadv_query_mr, EOPNOTSUPP)

/* EFA_1.4 */
PROVIDER_INT(efadv_query_cq, EOPNOTSUPP)
PROVIDER_INT(efadv_query_qp_wqs, EOPNOTSUPP)

/* EFA_1.5 */
PROVIDER_INT(efadv_get_max_rq_depth, -EOPNOTSUPP)
PROVIDER_INT(efadv_get_max_sq_depth, -EOPNOTSUPP)

/* EFA_1.6 */
PROVIDER_NULL(efadv_qp_from_ibv_qp_ex)

/* EFA_1.7 */
PROVIDER_NULL(efadv_create_comp_cntr)
