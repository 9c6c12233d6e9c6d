/* SPDX-License-Identifier: BSD-2-Clause */
#include <endian.h>
#include <errno.h>
#include <infiniband/sa.h>
#include <string.h>

#include "base/hash.h"
#include "daemon/cma_priv.h"

/* Paths between two addresses, determined here or set by the application. */

/*
 * 4.096 us * 2^16 = 268 ms. No packet takes that long within one host. But timewait is twice this
 * time, and programs expect the TIMEWAIT_EXIT event some time after the disconnect, not at once.
 */
#define LOCAL_PACKET_LIFE_TIME 16
#define HOP_LIMIT	       64
#define FLOW_LABEL_MASK	       0xfffffu

static const struct {
	uint32_t mbps;
	uint8_t rate;
} rates[] = {
	{2500, IBV_RATE_2_5_GBPS},   {5000, IBV_RATE_5_GBPS},	  {10000, IBV_RATE_10_GBPS},
	{14000, IBV_RATE_14_GBPS},   {20000, IBV_RATE_20_GBPS},	  {25000, IBV_RATE_25_GBPS},
	{40000, IBV_RATE_40_GBPS},   {50000, IBV_RATE_50_GBPS},	  {100000, IBV_RATE_100_GBPS},
	{200000, IBV_RATE_200_GBPS}, {400000, IBV_RATE_400_GBPS},
};

/*
 * The highest IBV_RATE that the interface reaches; the lowest for a slower interface or an unknown
 * speed.
 */
static uint8_t rate_of(const struct netdev *dev)
{
	uint8_t rate = IBV_RATE_2_5_GBPS;

	for (size_t i = 0; i < sizeof(rates) / sizeof(rates[0]); i++) {
		if (dev->speed_mbps >= rates[i].mbps)
			rate = rates[i].rate;
	}
	return rate;
}

/* An ACK timeout is twice the packet life time (IBA 1.x §12.7.34). 0 is no timeout. */
uint8_t cma_path_life_time(uint8_t ack_timeout, uint8_t without)
{
	return ack_timeout ? (uint8_t)(ack_timeout - 1) : without;
}

void cma_path_fill(struct cma_id *id, const struct netdev *dev, uint8_t mtu)
{
	struct ipc_cm_route *route = &id->route;

	route->has_path = 1;
	/*
	 * One flow label for each connection lets routers distribute connections over paths (RFC
	 * 6437 §2).
	 */
	route->flow_label = (uint32_t)hash_mix(id->handle, id->cma->counters.requests) &
			    FLOW_LABEL_MASK;
	route->pkey = dev->transport->pkey;
	route->mtu = mtu;
	/* The passive side has resolved no address. */
	if (!route->hop_limit)
		route->hop_limit = HOP_LIMIT;
	route->traffic_class = id->has_tos ? id->tos : 0;
	route->rate = rate_of(dev);
	route->packet_life_time = cma_path_life_time(id->ack_timeout, LOCAL_PACKET_LIFE_TIME);
}

/*
 * The MTU of a peer on another host is unknown here. If the REQ's path MTU exceeds the MTU of the
 * peer's device, rdma_accept() fails at the peer.
 */
static int cma_path_find_path(struct cma_id *id)
{
	const struct netdev *dev = netdev_by_id(id->route.dev_id);
	const struct netdev *peer = netdev_by_gid(id->route.dgid, NULL);
	uint8_t mtu;

	if (!dev)
		return -ENODEV;
	if (!id->cm || !id->cm->ops->reaches(id->cm, id->route.dgid)) {
		cma_because(id->cma, IPC_REASON_CM_NO_PORT, 0, 0);
		return -EHOSTUNREACH;
	}
	mtu = netdev_path_mtu(dev);
	if (peer && netdev_path_mtu(peer) < mtu)
		mtu = netdev_path_mtu(peer);
	cma_path_fill(id, dev, mtu);
	return 0;
}

int cma_resolve_route(struct cma_id *id)
{
	int ret = cma_path_find_path(id);

	if (ret) {
		cma_event_status(id, RDMA_CM_EVENT_ROUTE_ERROR, ret);
		return 0;
	}
	id->state = CMA_ROUTE_RESOLVED;
	cma_event_status(id, RDMA_CM_EVENT_ROUTE_RESOLVED, 0);
	return 0;
}

/* Fields of a path record in wire format (IBA 1.x §15.2.5.16). */
#define RECORD_VALUE	   0x3f /* the value bits; the selector is above */
#define RECORD_LABEL_SHIFT 8
#define RECORD_HOPS	   0xff
#define RECORD_SL	   0x0f
#define LIFE_TIME_MAX	   30 /* the ACK timeout is one more and has 5 bits in a REQ */

/* Whether a path record matches this id's GIDs and its interface's capabilities. */
static bool is_possible(const struct cma_id *id, const struct netdev *dev,
			const struct ibv_path_record *record)
{
	uint8_t mtu = record->mtu & RECORD_VALUE;
	uint8_t rate = record->rate & RECORD_VALUE;

	if (memcmp(record->sgid.raw, id->route.sgid, GID_BYTES) != 0 ||
	    memcmp(record->dgid.raw, id->route.dgid, GID_BYTES) != 0)
		return false;
	return mtu >= IBV_MTU_256 && mtu <= netdev_path_mtu(dev) && rate != 1 &&
	       rate <= IBV_RATE_1200_GBPS && be16toh(record->pkey) == dev->transport->pkey &&
	       (record->packetlifetime & RECORD_VALUE) <= LIFE_TIME_MAX;
}

/*
 * Copies a record in wire format. RoCE has no LIDs. Hop limit 0 and rate 0 mean unspecified, as
 * within one subnet.
 */
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
	ret = cma_path_find_path(id);
	if (ret)
		return ret;
	take_record(&id->route, record);
	id->state = CMA_ROUTE_RESOLVED;
	cma_event_status(id, RDMA_CM_EVENT_ROUTE_RESOLVED, 0);
	return 0;
}
