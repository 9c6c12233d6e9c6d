/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/ah.h"

#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/context.h"
#include "core/device.h"

#define SL_MAX	       15
#define FLOW_LABEL_MAX 0xfffffu
#define HOP_LIMIT_MAX  0xff

/* How RFC 3513 §2.5.5 writes an IPv4 address into the last 4 of a GID's 16 bytes. */
static const uint8_t ipv4_mapped[12] = {[10] = 0xff, [11] = 0xff};

int ah_attr_check(struct device *device, const struct ibv_ah_attr *attr)
{
	struct ipc_gid gid;

	if (!attr->is_global || attr->port_num != 1 || attr->sl > SL_MAX ||
	    attr->grh.flow_label > FLOW_LABEL_MAX)
		return -EINVAL;
	return device_gid(device, attr->grh.sgid_index, &gid) ? -EINVAL : 0;
}

static int ah_add(struct engine *engine, struct ah *ah)
{
	int ret = engine_usable(engine);

	if (!ret)
		ah->pd->users++;
	return ret;
}

struct ibv_ah *ibv_create_ah(struct ibv_pd *ibpd, struct ibv_ah_attr *attr)
{
	struct pd *pd = to_pd(ibpd);
	struct engine *engine = pd->context->engine;
	struct ah *ah;
	int ret;

	device_refresh(engine, pd->context->device);
	ret = ah_attr_check(pd->context->device, attr);
	if (ret)
		goto err_attr;
	ah = calloc(1, sizeof(*ah));
	if (!ah)
		return NULL;
	ah->pub.context = ibpd->context;
	ah->pub.pd = ibpd;
	ah->pd = pd;
	ah->attr = *attr;
	engine_lock(engine);
	ret = ah_add(engine, ah);
	engine_unlock(engine);
	if (!ret)
		return &ah->pub;
	free(ah);
err_attr:
	errno = -ret;
	return NULL;
}

int ibv_destroy_ah(struct ibv_ah *ibah)
{
	struct ah *ah = to_ah(ibah);
	struct engine *engine = ah->pd->context->engine;

	engine_lock(engine);
	ah->pd->users--;
	engine_unlock(engine);
	free(ah);
	return 0;
}

/*
 * The GIDs of a received header. Over RoCEv2 on IPv4 the 40 bytes of a GRH end with the 20 of the IP header (IBA A17
 * (RoCEv2)); an IPv6 header is a GRH but for its name.
 */
static void grh_gids(const struct ibv_grh *grh, union ibv_gid *from, union ibv_gid *to,
		     struct ibv_global_route *route)
{
	enum {
		VERSION_SHIFT = 28,
		CLASS_SHIFT = 20,
		IPV6 = 6,
		IPV4_AT = 20,
		TOS = 1,
		TTL = 8,
		SRC = 12,
		DST = 16
	};
	uint32_t version_tclass_flow = be32toh(grh->version_tclass_flow);
	const uint8_t *ipv4 = (const uint8_t *)grh + IPV4_AT;

	if (version_tclass_flow >> VERSION_SHIFT == IPV6) {
		*from = grh->sgid;
		*to = grh->dgid;
		route->flow_label = version_tclass_flow & FLOW_LABEL_MAX;
		route->traffic_class = (uint8_t)(version_tclass_flow >> CLASS_SHIFT);
		return;
	}
	memcpy(from->raw, ipv4_mapped, sizeof(ipv4_mapped));
	memcpy(from->raw + sizeof(ipv4_mapped), ipv4 + SRC, 4);
	memcpy(to->raw, ipv4_mapped, sizeof(ipv4_mapped));
	memcpy(to->raw + sizeof(ipv4_mapped), ipv4 + DST, 4);
	route->flow_label = 0;
	route->traffic_class = ipv4[TOS];
}

static int gid_index(struct device *device, const union ibv_gid *gid, uint8_t *index)
{
	struct ipc_gid entry;

	for (uint32_t i = 0; i < GID_TABLE_LEN; i++) {
		if (!device_gid(device, i, &entry) &&
		    !memcmp(entry.raw, gid->raw, sizeof(entry.raw))) {
			*index = (uint8_t)i;
			return 0;
		}
	}
	return -ENOENT;
}

static int init_from_wc(struct context *context, uint8_t port_num, const struct ibv_wc *wc,
			const struct ibv_grh *grh, struct ibv_ah_attr *attr)
{
	union ibv_gid to;

	if (context->engine->is_orphan)
		return -EIO;
	/* Without its header a datagram does not say where it came from. */
	if (port_num != 1 || !(wc->wc_flags & IBV_WC_GRH))
		return -EINVAL;
	memset(attr, 0, sizeof(*attr));
	attr->is_global = 1;
	attr->port_num = port_num;
	attr->sl = wc->sl;
	attr->src_path_bits = wc->dlid_path_bits;
	attr->grh.hop_limit = HOP_LIMIT_MAX;
	grh_gids(grh, &attr->grh.dgid, &to, &attr->grh);
	device_refresh(context->engine, context->device);
	return gid_index(context->device, &to, &attr->grh.sgid_index);
}

int ibv_init_ah_from_wc(struct ibv_context *context, uint8_t port_num, struct ibv_wc *wc,
			struct ibv_grh *grh, struct ibv_ah_attr *attr)
{
	int ret = init_from_wc(to_context(context), port_num, wc, grh, attr);

	if (!ret)
		return 0;
	errno = -ret;
	return -1;
}

struct ibv_ah *ibv_create_ah_from_wc(struct ibv_pd *pd, struct ibv_wc *wc, struct ibv_grh *grh,
				     uint8_t port_num)
{
	struct ibv_ah_attr attr;

	return ibv_init_ah_from_wc(pd->context, port_num, wc, grh, &attr) ?
		       NULL :
		       ibv_create_ah(pd, &attr);
}

/*
 * Frames are built by the machine's own IP stack, which finds the neighbour itself; no caller needs its address, and
 * there is none to be had without asking the network.
 */
int ibv_resolve_eth_l2_from_gid(struct ibv_context *context, struct ibv_ah_attr *attr,
				uint8_t eth_mac[ETHERNET_LL_SIZE], uint16_t *vid)
{
	(void)context;
	(void)attr;
	(void)eth_mac;
	(void)vid;
	return EOPNOTSUPP;
}

/* Multicast groups are for datagram QPs only (ibv_attach_mcast(3)), and the device says that it has none. */

int ibv_attach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid)
{
	(void)gid;
	(void)lid;
	return qp->qp_type == IBV_QPT_UD ? EOPNOTSUPP : EINVAL;
}

int ibv_detach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid)
{
	return ibv_attach_mcast(qp, gid, lid);
}
