/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/device/ah.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/fault.h"
#include "core/device/device.h"
#include "core/device/path.h"
#include "core/engine/engine.h"
#include "core/engine/lock_check.h"
#include "core/engine/transport.h"
#include "core/memory/pd.h"
#include "core/report/call_failed.h"
#include "wire/grh.h"

#define SL_MAX	      15
#define HOP_LIMIT_MAX 0xff

static int refuse(struct ah_refusal *refusal, enum ipc_failure_reason reason, uint64_t first,
		  uint64_t second)
{
	*refusal = (struct ah_refusal){reason, {first, second}};
	return -EINVAL;
}

int ah_attr_check(struct device *device, const struct ibv_ah_attr *attr, struct ipc_gid *source,
		  struct ah_refusal *refusal)
{
	const struct ibv_global_route *grh = &attr->grh;

	if (!attr->is_global)
		return refuse(refusal, IPC_REASON_NO_GRH, 0, 0);
	if (attr->port_num != 1)
		return refuse(refusal, IPC_REASON_PORT, attr->port_num, 1);
	if (device_gid(device, grh->sgid_index, source))
		return refuse(refusal, IPC_REASON_SGID_INDEX, grh->sgid_index, 0);
	if (gid_is_ipv4(source->raw) != gid_is_ipv4(grh->dgid.raw))
		return refuse(refusal, IPC_REASON_GID_FAMILY, gid_is_ipv4(source->raw),
			      grh->sgid_index);
	if (attr->sl > SL_MAX)
		return refuse(refusal, IPC_REASON_NONE, 0, 0);
	return 0;
}

void ah_get(struct ah *ah)
{
	engine_assert_locked(to_context(ah->pub.context)->engine);
	ah->users++;
}

void ah_put(struct ah *ah)
{
	engine_assert_locked(to_context(ah->pub.context)->engine);
	if (--ah->users)
		return;
	/*
	 * A fork()ed child shares sockets with its parent: only the child's copy of the handle is
	 * freed.
	 */
	if (ah->transport && ah->transport->ah_close && !ah->engine->is_orphan)
		ah->transport->ah_close(ah);
	free(ah);
}

/* Passes the address handle to the first transport that accepts it. */
static int ah_open(struct ah *ah)
{
	int ret = -EOPNOTSUPP;

	for (int i = 0; transports[i] && ret == -EOPNOTSUPP; i++) {
		if (!transports[i]->ah_open || !transport_is_chosen(ah->engine, transports[i]))
			continue;
		ret = transports[i]->ah_open(ah);
		if (!ret)
			ah->transport = transports[i];
	}
	if (ret == -EOPNOTSUPP)
		transport_explain(ah->engine);
	return ret;
}

static int ah_add(struct ah *ah)
{
	int ret = engine_usable(ah->engine);

	if (!ret)
		ret = ah_open(ah);
	if (!ret)
		ah->pd->users++;
	return ret;
}

static struct ah *ah_new(struct pd *pd, const struct ibv_ah_attr *attr, const struct ipc_gid *local)
{
	struct ah *ah = calloc(1, sizeof(*ah));

	if (!ah)
		return NULL;
	ah->pub.context = pd->pub.context;
	ah->pub.pd = &pd->pub;
	ah->pd = pd;
	ah->pd_id = pd->id;
	ah->engine = pd->context->engine;
	ah->attr = *attr;
	/* Only 20 bits are significant; programs set all ones, or a hash of 32 bits. */
	ah->attr.grh.flow_label &= GRH_FLOW_LABEL_MAX;
	memcpy(ah->local_gid, local->raw, sizeof(ah->local_gid));
	ah->ifindex = local->ifindex;
	ah->users = 1;
	return ah;
}

struct ibv_ah *ibv_create_ah(struct ibv_pd *ibpd, struct ibv_ah_attr *attr)
{
	struct pd *pd = to_pd(ibpd);
	struct engine *engine = pd->context->engine;
	struct ah_refusal refusal = {IPC_REASON_NONE, {0, 0}};
	struct ibv_ah_attr resolved;
	struct ipc_gid local;
	struct ah *ah;
	int ret;

	device_refresh(engine, pd->context->device);
	ret = fault_call("ibv_create_ah");
	if (!ret)
		ret = ah_attr_check(pd->context->device, attr, &local, &refusal);
	if (ret)
		goto err_attr;
	resolved = *attr;
	ret = transports_open_path(engine, pd->context->device, &resolved, &local, 0, false);
	if (ret == -EIO)
		goto err_attr;
	if (ret)
		goto err_path;
	ah = ah_new(pd, &resolved, &local);
	if (!ah)
		return NULL;
	engine_lock(engine);
	ret = ah_add(ah);
	engine_unlock(engine);
	if (!ret)
		return &ah->pub;
	free(ah);
err_attr:
	call_failed_because(pd->context, "ibv_create_ah", ret, refusal.reason, refusal.numbers[0],
			    refusal.numbers[1]);
	errno = -ret;
	return NULL;

err_path:
	call_failed_unreachable(pd->context, "ibv_create_ah", ret, &local, &attr->grh.dgid);
	errno = -ret;
	return NULL;
}

int ibv_destroy_ah(struct ibv_ah *ibah)
{
	struct ah *ah = to_ah(ibah);
	struct engine *engine = ah->engine;

	if (fault_call_fails(__func__))
		return errno;
	engine_lock(engine);
	pd_put(ah->pd);
	ah_put(ah);
	engine_unlock(engine);
	return 0;
}

static int init_from_wc(struct context *context, uint8_t port_num, const struct ibv_wc *wc,
			const struct ibv_grh *grh, struct ibv_ah_attr *attr)
{
	struct grh header;
	int index;

	if (context->engine->is_orphan)
		return -EIO;
	/* Without the GRH, the source of the datagram is unknown. */
	if (port_num != 1 || !(wc->wc_flags & IBV_WC_GRH) ||
	    grh_parse(&header, (const uint8_t *)grh))
		return -EINVAL;
	memset(attr, 0, sizeof(*attr));
	attr->is_global = 1;
	attr->port_num = port_num;
	attr->sl = wc->sl;
	attr->src_path_bits = wc->dlid_path_bits;
	attr->grh.hop_limit = HOP_LIMIT_MAX;
	attr->grh.flow_label = header.flow_label;
	attr->grh.traffic_class = header.traffic_class;
	memcpy(attr->grh.dgid.raw, header.src_gid, GID_BYTES);
	device_refresh(context->engine, context->device);
	index = device_gid_index(context->device, header.dst_gid);
	if (index < 0)
		return -ENOENT;
	attr->grh.sgid_index = (uint8_t)index;
	return 0;
}

int ibv_init_ah_from_wc(struct ibv_context *context, uint8_t port_num, struct ibv_wc *wc,
			struct ibv_grh *grh, struct ibv_ah_attr *attr)
{
	int ret;

	if (fault_call_fails(__func__))
		return -1;
	ret = init_from_wc(to_context(context), port_num, wc, grh, attr);
	if (!ret)
		return 0;
	errno = -ret;
	return -1;
}

struct ibv_ah *ibv_create_ah_from_wc(struct ibv_pd *pd, struct ibv_wc *wc, struct ibv_grh *grh,
				     uint8_t port_num)
{
	struct ibv_ah_attr attr;

	if (fault_call_fails(__func__))
		return NULL;
	return ibv_init_ah_from_wc(pd->context, port_num, wc, grh, &attr) ?
		       NULL :
		       ibv_create_ah(pd, &attr);
}

/* The kernel's IP stack builds the frames, so callers do not need the MAC address. */
int ibv_resolve_eth_l2_from_gid(struct ibv_context *context, struct ibv_ah_attr *attr,
				uint8_t eth_mac[ETHERNET_LL_SIZE], uint16_t *vid)
{
	(void)context;
	(void)attr;
	(void)eth_mac;
	(void)vid;
	return EOPNOTSUPP;
}
