/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/device/query.h"

#include <endian.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fault.h"
#include "config.h"
#include "core/device/device.h"
#include "core/device/mcast.h"
#include "core/engine/engine.h"
#include "core/object/opcode.h"
#include "core/report/call_failed.h"
#include "profile/gid_layout.h"
#include "profile/link_rate.h"
#include "profile/view.h"

/*
 * The vendor ID of this implementation: not an OUI, and different from the vendor ID of every
 * rdma-core provider.
 */
#define VENDOR_ID	    0xffffffu
#define VENDOR_PART_ID	    1u
#define PKEY_DEFAULT	    0xffffu
#define PKEY_TABLE_LEN	    1
#define PORT_COUNT	    1
#define CLOCK_KHZ	    1000000 /* completion timestamps are in nanoseconds */
#define PHYS_STATE_DISABLED 3
#define PHYS_STATE_LINK_UP  5
#define VIOLATIONS_MAX	    0xffffu /* IBA 1.x §14.2.5.6: 16-bit counters that saturate */
#define MAX_AHS		    INT_MAX /* limited only by memory */

/*
 * Size of struct ibv_port_attr in applications built before rdma-core v13: up to and including
 * `flags`.
 */
#define PORT_ATTR_COMPAT_BYTES offsetof(struct ibv_port_attr, port_cap_flags2)

/* Returns the current device data; -EIO in a child after fork(). */
static int context_info(struct ibv_context *ibcontext, struct ipc_device_reply *info)
{
	struct context *context = to_context(ibcontext);

	if (context->engine->is_orphan)
		return -EIO;
	device_refresh(context->engine, context->device);
	device_info(context->device, info);
	return 0;
}

static int query_limit(const struct profile *profile, enum profile_value value, uint64_t own)
{
	return (int)profile_limit(profile, value, own);
}

static void fill_object_limits(const struct profile *profile, struct ibv_device_attr *attr)
{
	attr->max_qp = query_limit(profile, PROFILE_MAX_QP, MAX_QPS);
	attr->max_cq = query_limit(profile, PROFILE_MAX_CQ, MAX_CQS);
	attr->max_mr = query_limit(profile, PROFILE_MAX_MR, MAX_MRS);
	attr->max_mw = query_limit(profile, PROFILE_MAX_MW, MAX_MWS);
	attr->max_pd = query_limit(profile, PROFILE_MAX_PD, MAX_PDS);
	attr->max_mcast_grp = query_limit(profile, PROFILE_MAX_MCAST_GRP, MAX_MCAST_GROUPS);
	attr->max_mcast_qp_attach = query_limit(profile, PROFILE_MAX_MCAST_QP_ATTACH,
						MAX_MCAST_GROUP_QPS);
	attr->max_total_mcast_qp_attach = query_limit(profile, PROFILE_MAX_TOTAL_MCAST_QP_ATTACH,
						      MAX_MCAST_ATTACHED);
	attr->max_ah = query_limit(profile, PROFILE_MAX_AH, MAX_AHS);
	attr->max_srq = query_limit(profile, PROFILE_MAX_SRQ, MAX_SRQS);
}

static void fill_queue_limits(const struct profile *profile, struct ibv_device_attr *attr)
{
	attr->max_qp_wr = query_limit(profile, PROFILE_MAX_QP_WR, MAX_QP_WR);
	attr->max_sge = query_limit(profile, PROFILE_MAX_SGE, MAX_SGE);
	attr->max_sge_rd = query_limit(profile, PROFILE_MAX_SGE_RD, MAX_SGE);
	attr->max_cqe = query_limit(profile, PROFILE_MAX_CQE, MAX_CQE);
	attr->max_qp_rd_atom = query_limit(profile, PROFILE_MAX_QP_RD_ATOM, MAX_RD_ATOMIC);
	attr->max_qp_init_rd_atom = query_limit(profile, PROFILE_MAX_QP_INIT_RD_ATOM,
						MAX_RD_ATOMIC);
	attr->max_res_rd_atom = query_limit(profile, PROFILE_MAX_RES_RD_ATOM,
					    (uint64_t)MAX_RD_ATOMIC * MAX_QPS);
	attr->max_srq_wr = query_limit(profile, PROFILE_MAX_SRQ_WR, MAX_SRQ_WR);
	attr->max_srq_sge = query_limit(profile, PROFILE_MAX_SRQ_SGE, MAX_SGE);
}

static void fill_device_attr(const struct device *device, const struct ipc_device_reply *info,
			     struct ibv_device_attr *attr)
{
	const struct profile *profile = device->profile;

	memset(attr, 0, sizeof(*attr));
	snprintf(attr->fw_ver, sizeof(attr->fw_ver), "%s",
		 profile && profile->fw_ver ? profile->fw_ver : USRDMA_VERSION);
	attr->node_guid = htobe64(view_guid(info->node_guid, device->rail));
	attr->sys_image_guid = attr->node_guid;
	attr->max_mr_size = profile_limit(profile, PROFILE_MAX_MR_SIZE, MAX_MR_BYTES);
	/* All page sizes from the system's page size upward. */
	attr->page_size_cap = ~((uint64_t)sysconf(_SC_PAGESIZE) - 1);
	attr->vendor_id = (uint32_t)profile_value(profile, PROFILE_VENDOR_ID, VENDOR_ID);
	attr->vendor_part_id = (uint32_t)profile_value(profile, PROFILE_VENDOR_PART_ID,
						       VENDOR_PART_ID);
	attr->hw_ver = (uint32_t)profile_value(profile, PROFILE_HW_VER, 0);
	attr->device_cap_flags = IBV_DEVICE_CURR_QP_STATE_MOD | IBV_DEVICE_PORT_ACTIVE_EVENT |
				 IBV_DEVICE_SYS_IMAGE_GUID | IBV_DEVICE_RC_RNR_NAK_GEN |
				 IBV_DEVICE_BAD_PKEY_CNTR | IBV_DEVICE_BAD_QKEY_CNTR |
				 IBV_DEVICE_SRQ_RESIZE | IBV_DEVICE_MEM_WINDOW | IBV_DEVICE_XRC |
				 IBV_DEVICE_MEM_WINDOW_TYPE_2A | IBV_DEVICE_MEM_MGT_EXTENSIONS;
	fill_object_limits(profile, attr);
	if (!attr->max_srq)
		attr->device_cap_flags &= ~(unsigned int)(IBV_DEVICE_SRQ_RESIZE | IBV_DEVICE_XRC);
	fill_queue_limits(profile, attr);
	attr->atomic_cap = (enum ibv_atomic_cap)profile_value(profile, PROFILE_ATOMIC_CAP,
							      ATOMIC_CAP);
	attr->max_pkeys = PKEY_TABLE_LEN;
	attr->local_ca_ack_delay = (uint8_t)profile_value(profile, PROFILE_LOCAL_CA_ACK_DELAY, 0);
	attr->phys_port_cnt = PORT_COUNT;
}

static void query_capabilities(struct context *context, struct ibv_device_attr *attr)
{
	struct ipc_device_reply info;

	if (!context->engine->is_orphan)
		device_refresh(context->engine, context->device);
	device_info(context->device, &info);
	fill_device_attr(context->device, &info, attr);
}

/* The capabilities are constant, so the call also succeeds in a child after fork(). */
int ibv_query_device(struct ibv_context *ibcontext, struct ibv_device_attr *attr)
{
	if (fault_call_fails(__func__))
		return errno;
	query_capabilities(to_context(ibcontext), attr);
	return 0;
}

/* Memory is never pinned, so every operation supports on-demand paging. */
static void fill_odp_caps(struct ibv_device_attr_ex *attr)
{
	const uint32_t receives = IBV_ODP_SUPPORT_RECV | IBV_ODP_SUPPORT_SRQ_RECV;

	attr->odp_caps.general_caps = IBV_ODP_SUPPORT | IBV_ODP_SUPPORT_IMPLICIT;
	attr->odp_caps.per_transport_caps.rc_odp_caps = wr_odp_caps(IBV_QPT_RC) | receives;
	attr->odp_caps.per_transport_caps.uc_odp_caps = wr_odp_caps(IBV_QPT_UC) | receives;
	attr->odp_caps.per_transport_caps.ud_odp_caps = wr_odp_caps(IBV_QPT_UD) | receives;
	attr->xrc_odp_caps = wr_odp_caps(IBV_QPT_XRC_SEND) | receives;
}

int query_device_ex(struct ibv_context *context, const struct ibv_query_device_ex_input *input,
		    struct ibv_device_attr_ex *attr, size_t attr_bytes)
{
	struct ibv_device_attr_ex full = {0};

	if (fault_call_fails("ibv_query_device_ex"))
		return errno;
	if (input && input->comp_mask)
		return EINVAL;
	if (attr_bytes < sizeof(full.orig_attr))
		return EINVAL;
	query_capabilities(to_context(context), &full.orig_attr);
	fill_odp_caps(&full);
	full.cq_mod_caps.max_cq_count = UINT16_MAX;
	full.cq_mod_caps.max_cq_period = UINT16_MAX;
	full.max_dm_size = MAX_DM_BYTES;
	full.completion_timestamp_mask = UINT64_MAX;
	full.hca_core_clock = CLOCK_KHZ;
	full.device_cap_flags_ex = full.orig_attr.device_cap_flags | wr_device_caps_ex();
	full.phys_port_cnt_ex = PORT_COUNT;
	/* Fields that only a newer caller has are set to 0. */
	memset(attr, 0, attr_bytes);
	memcpy(attr, &full, attr_bytes < sizeof(full) ? attr_bytes : sizeof(full));
	return 0;
}

static void fill_port_attr(struct device *device, const struct ipc_device_reply *info,
			   struct ibv_port_attr *attr)
{
	bool is_up = info->flags & IPC_DEVICE_UP;
	struct link_rate rate;

	memset(attr, 0, sizeof(*attr));
	attr->state = is_up ? IBV_PORT_ACTIVE : IBV_PORT_DOWN;
	attr->phys_state = is_up ? PHYS_STATE_LINK_UP : PHYS_STATE_DISABLED;
	attr->max_mtu = IBV_MTU_4096;
	attr->active_mtu = device_active_mtu(device);
	attr->gid_tbl_len = (int)device_gid_table_len(device);
	attr->port_cap_flags = IBV_PORT_CM_SUP | IBV_PORT_IP_BASED_GIDS;
	attr->max_msg_sz = MAX_MSG_BYTES;
	attr->pkey_tbl_len = PKEY_TABLE_LEN;
	attr->max_vl_num = 1;
	attr->link_layer = info->link_layer;
	attr->flags = IBV_QPF_GRH_REQUIRED;
	rate = link_rate_of(device->profile, info->speed_mbps);
	attr->active_width = rate.width;
	attr->active_speed = rate.speed;
}

static uint32_t violations(uint64_t count)
{
	return count < VIOLATIONS_MAX ? (uint32_t)count : VIOLATIONS_MAX;
}

/*
 * Counts the packets with a wrong P_Key or Q_Key that this process received, not those of other
 * processes.
 */
static void fill_violations(struct engine *engine, struct ibv_port_attr *attr)
{
	engine_lock(engine);
	attr->bad_pkey_cntr = violations(engine->pkey_violations);
	attr->qkey_viol_cntr = violations(engine->datagrams.qkey_violations);
	engine_unlock(engine);
}

int query_port(struct ibv_context *context, uint8_t port_num, struct ibv_port_attr *attr,
	       size_t attr_bytes)
{
	struct ipc_device_reply info;
	struct ibv_port_attr full;
	int ret;

	if (fault_call_fails("ibv_query_port"))
		return errno;
	ret = port_num == 1 ? context_info(context, &info) : -EINVAL;
	if (ret)
		return call_result(to_context(context), "ibv_query_port", ret);
	fill_port_attr(to_context(context)->device, &info, &full);
	fill_violations(to_context(context)->engine, &full);
	memset(attr, 0, attr_bytes);
	memcpy(attr, &full, attr_bytes < sizeof(full) ? attr_bytes : sizeof(full));
	return 0;
}

/*
 * The exported symbol serves applications built before struct ibv_port_attr grew; in verbs.h a
 * macro hides it.
 */
int(ibv_query_port)(struct ibv_context *context, uint8_t port_num,
		    struct _compat_ibv_port_attr *attr)
{
	return query_port(context, port_num, (struct ibv_port_attr *)attr, PORT_ATTR_COMPAT_BYTES);
}

int ibv_query_port_speed(struct ibv_context *context, uint32_t port_num, uint64_t *port_speed)
{
	struct ipc_device_reply info;
	int ret;

	if (fault_call_fails(__func__))
		return errno;
	if (port_num != 1)
		return EINVAL;
	ret = context_info(context, &info);
	if (ret)
		return -ret;
	/* In units of 100 Mbit/s. */
	*port_speed = link_rate_of(to_context(context)->device->profile, info.speed_mbps).mbps /
		      100;
	return 0;
}

static void fill_gid_entry(const struct ipc_gid *gid, uint32_t index, uint32_t gid_type,
			   struct ibv_gid_entry *entry)
{
	memcpy(entry->gid.raw, gid->raw, sizeof(entry->gid.raw));
	entry->gid_index = index;
	entry->port_num = 1;
	entry->gid_type = gid_type;
	entry->ndev_ifindex = gid->ifindex;
}

static int gid_at(struct ibv_context *ibcontext, uint32_t port_num, uint32_t index,
		  struct ipc_gid *gid)
{
	struct context *context = to_context(ibcontext);

	if (context->engine->is_orphan)
		return -EIO;
	if (port_num != 1)
		return -EINVAL;
	device_refresh(context->engine, context->device);
	return device_gid(context->device, index, gid);
}

int ibv_query_gid(struct ibv_context *context, uint8_t port_num, int index, union ibv_gid *gid)
{
	struct ipc_gid entry = {0};
	int ret;

	if (fault_call_fails(__func__))
		return -1;
	ret = gid_at(context, port_num, index < 0 ? UINT32_MAX : (uint32_t)index, &entry);
	/* An empty entry is reported as the zero GID, not as an error. */
	if (ret == -ENODATA) {
		memset(gid->raw, 0, sizeof(gid->raw));
		return 0;
	}
	if (ret) {
		errno = -ret;
		return -1;
	}
	memcpy(gid->raw, entry.raw, sizeof(gid->raw));
	return 0;
}

int _ibv_query_gid_ex(struct ibv_context *context, uint32_t port_num, uint32_t gid_index,
		      struct ibv_gid_entry *entry, uint32_t flags, size_t entry_size)
{
	struct ipc_gid gid;
	int ret;

	if (fault_call_fails("ibv_query_gid_ex"))
		return errno;
	if (flags || entry_size < sizeof(*entry))
		return EINVAL;
	ret = gid_at(context, port_num, gid_index, &gid);
	if (ret)
		return -ret;
	memset(entry, 0, entry_size);
	fill_gid_entry(&gid, gid_index, device_gid_type(to_context(context)->device, gid_index),
		       entry);
	return 0;
}

ssize_t _ibv_query_gid_table(struct ibv_context *context, struct ibv_gid_entry *entries,
			     size_t max_entries, uint32_t flags, size_t entry_size)
{
	struct device *device = to_context(context)->device;
	enum gid_layout layout = profile_gid_layout(device->profile);
	struct ipc_device_reply info;
	uint8_t *at = (uint8_t *)entries;
	size_t count = 0;
	int ret;

	if (fault_call_fails("ibv_query_gid_table"))
		return -errno;
	if (flags || entry_size < sizeof(*entries))
		return -EINVAL;
	ret = context_info(context, &info);
	if (ret)
		return ret;
	for (uint32_t i = 0; i < device_gid_table_len(device); i++) {
		int source = gid_layout_source(layout, &info, i);

		if (source < 0)
			continue;
		if (count == max_entries)
			return -EINVAL;
		memset(at, 0, entry_size);
		fill_gid_entry(&info.gids[source], i, gid_layout_type(layout, i, info.gid_type),
			       (struct ibv_gid_entry *)(void *)at);
		at += entry_size;
		count++;
	}
	return (ssize_t)count;
}

int ibv_query_pkey(struct ibv_context *context, uint8_t port_num, int index, __be16 *pkey)
{
	if (fault_call_fails(__func__))
		return -1;
	if (to_context(context)->engine->is_orphan) {
		errno = EIO;
		return -1;
	}
	if (port_num != 1 || index < 0 || index >= PKEY_TABLE_LEN) {
		errno = EINVAL;
		return -1;
	}
	*pkey = htobe16(PKEY_DEFAULT);
	return 0;
}

int ibv_get_pkey_index(struct ibv_context *context, uint8_t port_num, __be16 pkey)
{
	__be16 entry;

	if (fault_call_fails(__func__))
		return -1;
	for (int i = 0; i < PKEY_TABLE_LEN; i++) {
		if (ibv_query_pkey(context, port_num, i, &entry))
			return -1;
		if (entry == pkey)
			return i;
	}
	errno = ENOENT;
	return -1;
}

int query_rt_values(struct ibv_context *context, struct ibv_values_ex *values)
{
	uint32_t wanted = values->comp_mask;

	if (fault_call_fails("ibv_query_rt_values_ex"))
		return errno;
	if (to_context(context)->engine->is_orphan)
		return EIO;
	values->comp_mask = 0;
	if (!(wanted & IBV_VALUES_MASK_RAW_CLOCK))
		return wanted ? EINVAL : 0;
	/*
	 * In the unit of completion timestamps. Applications expect the whole value in tv_nsec, as
	 * device ticks.
	 */
	values->raw_clock.tv_sec = 0;
	values->raw_clock.tv_nsec = (long)clock_now_ns();
	values->comp_mask = IBV_VALUES_MASK_RAW_CLOCK;
	return 0;
}

/*
 * Returns 0: data are usually copied in ascending order of addresses, but not on every data path.
 */
int ibv_query_qp_data_in_order(struct ibv_qp *qp, enum ibv_wr_opcode op, uint32_t flags)
{
	(void)qp;
	(void)op;
	(void)flags;
	return 0;
}
