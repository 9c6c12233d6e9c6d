/* SPDX-License-Identifier: BSD-2-Clause */

/*
 * libmlx4.so.1: the direct verbs of NVIDIA ConnectX-3, grouped by symbol version. No device of this
 * implementation is such a device: every call fails as in rdma-core for a device of another vendor.
 * See providers/providers.h.
 */

#include "providers/providers.h"

/* MLX4_1.0 */
PROVIDER_NULL(mlx4dv_create_qp)
PROVIDER_INT(mlx4dv_init_obj, EOPNOTSUPP)
PROVIDER_INT(mlx4dv_query_device, EOPNOTSUPP)
PROVIDER_INT(mlx4dv_set_context_attr, EOPNOTSUPP)
