/* SPDX-License-Identifier: BSD-2-Clause */
#include <endian.h>
#include <errno.h>
#include <infiniband/sa.h>
#include <string.h>

#include "base/hash.h"
#include "daemon/cma_priv.h"

/* Paths: what is known of the way between two addresses, found here or given by the application. */

/* Headers around the payload of a packet, at their longest: IPv6, UDP, BTH, RETH with ImmDt, ICRC (IBA A17 (RoCEv2)). */
#define ROCE_HEADER_BYTES (40 + 8 + 12 + 28 + 4)

/* 4.096 us * 2^16 = 268 ms. Within one machine nothing is on its way that long; but timewait is twice that, and a program
 * expects its end some while after it disconnected, not at once. */
#define LOCAL_PACKET_LIFE_TIME 16
#define HOP_LIMIT	       64
#define FLOW_LABEL_MASK	       0xfffffu

uint8_t cma_mtu_of(const struct netdev *dev)
{
	uint32_t room = dev->mtu_bytes > ROCE_HEADER_BYTES ? dev->mtu_bytes - ROCE_HEADER_BYTES : 0;
	uint8_t mtu = IBV_MTU_4096;

	while (mtu > IBV_MTU_256 && room < 128u << mtu)
		mtu--;
	return mtu;
}

static const struct {
	uint32_t mbps;
	uint8_t rate;
} rates[] = {
	{2500, IBV_RATE_2_5_GBPS},   {5000, IBV_RATE_5_GBPS},	  {10000, IBV_RATE_10_GBPS},
	{14000, IBV_RATE_14_GBPS},   {20000, IBV_RATE_20_GBPS},	  {25000, IBV_RATE_25_GBPS},
	{40000, IBV_RATE_40_GBPS},   {50000, IBV_RATE_50_GBPS},	  {100000, IBV_RATE_100_GBPS},
	{200000, IBV_RATE_200_GBPS}, {400000, IBV_RATE_400_GBPS},
};

/* The largest rate the interface has, the smallest there is for a slower or unknown one. */
static uint8_t rate_of(const struct netdev *dev)
{
	uint8_t rate = IBV_RATE_2_5_GBPS;

	for (size_t i = 0; i < sizeof(rates) / sizeof(rates[0]); i++) {
		if (dev->speed_mbps >= rates[i].mbps)
			rate = rates[i].rate;
	}
	return rate;
}

void cma_path_fill(struct cma_id *id, const struct netdev *dev, uint8_t mtu)
{
	struct ipc_cm_route *route = &id->route;

	route->has_path = 1;
	/* One label a connection lets routers spread them (RFC 6437 §2). */
	route->flow_label = (uint32_t)hash_mix(id->handle, id->cma->counters.requests) &
			    FLOW_LABEL_MASK;
	route->pkey = MAD_PKEY;
	route->mtu = mtu;
	route->hop_limit = HOP_LIMIT;
	route->traffic_class = id->has_tos ? id->tos : 0;
	route->rate = rate_of(dev);
	route->packet_life_time = LOCAL_PACKET_LIFE_TIME;
}

/* Of another host's MTU nothing is known here: it answers with its own, and the smaller one counts. */
static int find_path(struct cma_id *id)
{
	const struct netdev *dev = netdev_by_id(id->route.dev_id);
	const struct netdev *peer = netdev_by_gid(id->route.dgid, NULL);
	uint8_t mtu;

	if (!dev)
		return -ENODEV;
	if (!gsi_reaches(&id->cma->gsi, id->route.dgid))
		return -EHOSTUNREACH;
	mtu = cma_mtu_of(dev);
	if (peer && cma_mtu_of(peer) < mtu)
		mtu = cma_mtu_of(peer);
	cma_path_fill(id, dev, mtu);
	return 0;
}

int cma_resolve_route(struct cma_id *id)
{
	int ret = find_path(id);

	if (ret) {
		cma_event_status(id, RDMA_CM_EVENT_ROUTE_ERROR, ret);
		return 0;
	}
	id->state = CMA_ROUTE_RESOLVED;
	cma_event_status(id, RDMA_CM_EVENT_ROUTE_RESOLVED, 0);
	return 0;
}

/* Fields of a path record as it lies on the wire (IBA 1.x §15.2.5.16). */
#define RECORD_VALUE	   0x3f /* below its selector */
#define RECORD_LABEL_SHIFT 8
#define RECORD_HOPS	   0xff
#define RECORD_SL	   0x0f
#define LIFE_TIME_MAX	   30 /* so that an ACK timeout of one more is what a REQ has room for */

/* Whether a record is about this id, and says nothing that its interface cannot do. */
static bool is_possible(const struct cma_id *id, const struct netdev *dev,
			const struct ibv_path_record *record)
{
	uint8_t mtu = record->mtu & RECORD_VALUE;
	uint8_t rate = record->rate & RECORD_VALUE;

	if (memcmp(record->sgid.raw, id->route.sgid, GID_BYTES) != 0 ||
	    memcmp(record->dgid.raw, id->route.dgid, GID_BYTES) != 0)
		return false;
	return mtu >= IBV_MTU_256 && mtu <= cma_mtu_of(dev) && rate != 1 &&
	       rate <= IBV_RATE_1200_GBPS && be16toh(record->pkey) == MAD_PKEY &&
	       (record->packetlifetime & RECORD_VALUE) <= LIFE_TIME_MAX;
}

/* The wire format, of which RoCE has no LIDs. 0 hops and rate 0 are what a subnet of its own has no need to say. */
static void take_record(struct ipc_cm_route *route, const struct ibv_path_record *record)
{
	uint32_t label_and_hops = be32toh(record->flowlabel_hoplimit);
	uint8_t rate = record->rate & RECORD_VALUE;

	route->flow_label = label_and_hops >> RECORD_LABEL_SHIFT & FLOW_LABEL_MASK;
	if (label_and_hops & RECORD_HOPS)
		route->hop_limit = (uint8_t)(label_and_hops & RECORD_HOPS);
	if (rate)
		route->rate = rate;
	route->traffic_class = record->tclass;
	route->sl = (uint8_t)(be16toh(record->qosclass_sl) & RECORD_SL);
	route->mtu = record->mtu & RECORD_VALUE;
	route->packet_life_time = record->packetlifetime & RECORD_VALUE;
}

int cma_set_path(struct cma_id *id, const struct ibv_path_record *record)
{
	const struct netdev *dev = netdev_by_id(id->route.dev_id);
	int ret;

	if (id->state != CMA_ADDR_RESOLVED || !dev || !is_possible(id, dev, record))
		return -EINVAL;
	ret = find_path(id);
	if (ret)
		return ret;
	take_record(&id->route, record);
	id->state = CMA_ROUTE_RESOLVED;
	cma_event_status(id, RDMA_CM_EVENT_ROUTE_RESOLVED, 0);
	return 0;
}
