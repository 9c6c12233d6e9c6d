/* SPDX-License-Identifier: BSD-2-Clause */
#include <infiniband/verbs.h>

#include "base/util.h"
#include "daemon/netdev.h"
#include "wire/mad.h"

/*
 * What Linux reserves for the path MTU of the rdma_cm: GRH or IPv6, UDP, BTH, XRCETH, AtomicETH,
 * ICRC (IBA A17 (RoCEv2)).
 */
#define ROCE_HEADER_BYTES (40 + 8 + 12 + 4 + 28 + 4)

const struct netdev_transport netdev_roce_v2 = {
	.node_type = IBV_NODE_CA,
	.transport_type = IBV_TRANSPORT_IB,
	.link_layer = IBV_LINK_LAYER_ETHERNET,
	.gid_type = IBV_GID_TYPE_ROCE_V2,
	.pkey = MAD_PKEY,
	.header_bytes = ROCE_HEADER_BYTES,
};

uint8_t netdev_path_mtu(const struct netdev *dev)
{
	uint32_t header_bytes = dev->transport->header_bytes;
	uint32_t limit = dev->mtu_limit_bytes ? dev->mtu_limit_bytes : dev->mtu_bytes;
	uint32_t bytes = min_u32(limit, dev->mtu_bytes);
	uint32_t room = bytes > header_bytes ? bytes - header_bytes : 0;
	uint8_t mtu = IBV_MTU_4096;

	while (mtu > IBV_MTU_256 && room < 128u << mtu)
		mtu--;
	return mtu;
}
