/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/query.h"

#include <endian.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "config.h"
#include "core/context.h"
#include "core/device.h"
#include "core/mcast.h"
#include "core/opcode.h"

/* The vendor ID of this implementation: not an OUI, and different from the vendor ID of every rdma-core provider. */
#define VENDOR_ID	    0xffffffu
#define VENDOR_PART_ID	    1u
#define PKEY_DEFAULT	    0xffffu
#define PKEY_TABLE_LEN	    1
#define PORT_COUNT	    1
#define CLOCK_KHZ	    1000000 /* completion timestamps are in nanoseconds */
#define SPEED_UNKNOWN_MBPS  10000   /* used if the interface reports no speed */
#define PHYS_STATE_DISABLED 3
#define PHYS_STATE_LINK_UP  5
#define VIOLATIONS_MAX	    0xffffu /* IBA 1.x §14.2.5.6: 16-bit counters that saturate */
#define MAX_AHS		    INT_MAX /* limited only by memory */

/* Size of struct ibv_port_attr in applications built before rdma-core v13: up to and including `flags`. */
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

static void fill_device_attr(const struct ipc_device_reply *info, struct ibv_device_attr *attr)
{
	memset(attr, 0, sizeof(*attr));
	snprintf(attr->fw_ver, sizeof(attr->fw_ver), "%s", USRDMA_VERSION);
	attr->node_guid = htobe64(info->node_guid);
	attr->sys_image_guid = attr->node_guid;
	attr->max_mr_size = MAX_MR_BYTES;
	/* All page sizes from the system's page size upward. */
	attr->page_size_cap = ~((uint64_t)sysconf(_SC_PAGESIZE) - 1);
	attr->vendor_id = VENDOR_ID;
	attr->vendor_part_id = VENDOR_PART_ID;
	attr->max_qp = MAX_QPS;
	attr->max_qp_wr = MAX_QP_WR;
	attr->device_cap_flags = IBV_DEVICE_CURR_QP_STATE_MOD | IBV_DEVICE_PORT_ACTIVE_EVENT |
				 IBV_DEVICE_SYS_IMAGE_GUID | IBV_DEVICE_RC_RNR_NAK_GEN |
				 IBV_DEVICE_BAD_PKEY_CNTR | IBV_DEVICE_BAD_QKEY_CNTR |
				 IBV_DEVICE_SRQ_RESIZE | IBV_DEVICE_MEM_WINDOW | IBV_DEVICE_XRC |
				 IBV_DEVICE_MEM_WINDOW_TYPE_2A | IBV_DEVICE_MEM_MGT_EXTENSIONS;
	attr->max_sge = MAX_SGE;
	attr->max_sge_rd = MAX_SGE;
	attr->max_cq = MAX_CQS;
	attr->max_cqe = MAX_CQE;
	attr->max_mr = MAX_MRS;
	attr->max_mw = MAX_MWS;
	attr->max_pd = MAX_PDS;
	attr->max_qp_rd_atom = MAX_RD_ATOMIC;
	attr->max_qp_init_rd_atom = MAX_RD_ATOMIC;
	attr->max_res_rd_atom = (int)(MAX_RD_ATOMIC * MAX_QPS);
	/* Executed by CPU atomic instructions, therefore atomic with respect to every thread of the host. */
	attr->atomic_cap = IBV_ATOMIC_GLOB;
	attr->max_mcast_grp = MAX_MCAST_GROUPS;
	attr->max_mcast_qp_attach = MAX_MCAST_GROUP_QPS;
	attr->max_total_mcast_qp_attach = MAX_MCAST_ATTACHED;
	attr->max_ah = MAX_AHS;
	attr->max_srq = MAX_SRQS;
	attr->max_srq_wr = MAX_SRQ_WR;
	attr->max_srq_sge = MAX_SGE;
	attr->max_pkeys = PKEY_TABLE_LEN;
	attr->phys_port_cnt = PORT_COUNT;
}

/* The capabilities are constant, so the call also succeeds in a child after fork(). */
int ibv_query_device(struct ibv_context *ibcontext, struct ibv_device_attr *attr)
{
	struct context *context = to_context(ibcontext);
	struct ipc_device_reply info;

	if (!context->engine->is_orphan)
		device_refresh(context->engine, context->device);
	device_info(context->device, &info);
	fill_device_attr(&info, attr);
	return 0;
}

/* Memory is never pinned, so every operation supports on-demand paging. */
static void fill_odp_caps(struct ibv_device_attr_ex *attr)
{
	const uint32_t datagram = IBV_ODP_SUPPORT_SEND | IBV_ODP_SUPPORT_RECV |
				  IBV_ODP_SUPPORT_SRQ_RECV;
	const uint32_t reliable = datagram | IBV_ODP_SUPPORT_WRITE | IBV_ODP_SUPPORT_READ |
				  IBV_ODP_SUPPORT_ATOMIC;

	attr->odp_caps.general_caps = IBV_ODP_SUPPORT | IBV_ODP_SUPPORT_IMPLICIT;
	attr->odp_caps.per_transport_caps.rc_odp_caps = reliable;
	attr->odp_caps.per_transport_caps.uc_odp_caps = datagram | IBV_ODP_SUPPORT_WRITE;
	attr->odp_caps.per_transport_caps.ud_odp_caps = datagram;
	attr->odp_caps.per_transport_caps.rc_odp_caps |= IBV_ODP_SUPPORT_FLUSH |
							 IBV_ODP_SUPPORT_ATOMIC_WRITE;
	attr->xrc_odp_caps = reliable;
}

int query_device_ex(struct ibv_context *context, const struct ibv_query_device_ex_input *input,
		    struct ibv_device_attr_ex *attr, size_t attr_bytes)
{
	struct ibv_device_attr_ex full = {0};
	int ret;

	if (input && input->comp_mask)
		return EINVAL;
	if (attr_bytes < sizeof(full.orig_attr))
		return EINVAL;
	ret = ibv_query_device(context, &full.orig_attr);
	if (ret)
		return ret;
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

static uint32_t speed_mbps(const struct ipc_device_reply *info)
{
	return info->speed_mbps ? info->speed_mbps : SPEED_UNKNOWN_MBPS;
}

/* Selects the highest width and speed whose rate does not exceed the rate of the interface. */
static void fill_port_speed(const struct ipc_device_reply *info, struct ibv_port_attr *attr)
{
	/* IBA 1.x §14.2.5.6: LinkWidthActive (1: 1x, 2: 4x) and LinkSpeedActive. */
	static const struct {
		uint32_t mbps;
		uint8_t width;
		uint8_t speed;
	} rates[] = {
		{400000, 2, 128}, {200000, 2, 64}, {100000, 2, 32}, {50000, 1, 64},
		{40000, 2, 4},	  {25000, 1, 32},  {10000, 1, 4},   {0, 1, 1},
	};
	uint32_t mbps = speed_mbps(info);
	size_t i = 0;

	while (mbps < rates[i].mbps)
		i++;
	attr->active_width = rates[i].width;
	attr->active_speed = rates[i].speed;
}

static void fill_port_attr(struct device *device, const struct ipc_device_reply *info,
			   struct ibv_port_attr *attr)
{
	bool is_up = info->flags & IPC_DEVICE_UP;

	memset(attr, 0, sizeof(*attr));
	attr->state = is_up ? IBV_PORT_ACTIVE : IBV_PORT_DOWN;
	attr->phys_state = is_up ? PHYS_STATE_LINK_UP : PHYS_STATE_DISABLED;
	attr->max_mtu = IBV_MTU_4096;
	attr->active_mtu = device_active_mtu(device);
	attr->gid_tbl_len = GID_TABLE_LEN;
	attr->port_cap_flags = IBV_PORT_CM_SUP | IBV_PORT_IP_BASED_GIDS;
	attr->max_msg_sz = MAX_MSG_BYTES;
	attr->pkey_tbl_len = PKEY_TABLE_LEN;
	attr->max_vl_num = 1;
	attr->link_layer = info->link_layer;
	attr->flags = IBV_QPF_GRH_REQUIRED;
	fill_port_speed(info, attr);
}

static uint32_t violations(uint64_t count)
{
	return count < VIOLATIONS_MAX ? (uint32_t)count : VIOLATIONS_MAX;
}

/* Counts the packets with a wrong P_Key or Q_Key that this process received, not those of other processes. */
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

	if (port_num != 1)
		return EINVAL;
	ret = context_info(context, &info);
	if (ret)
		return -ret;
	fill_port_attr(to_context(context)->device, &info, &full);
	fill_violations(to_context(context)->engine, &full);
	memset(attr, 0, attr_bytes);
	memcpy(attr, &full, attr_bytes < sizeof(full) ? attr_bytes : sizeof(full));
	return 0;
}

/* The exported symbol serves applications built before struct ibv_port_attr grew; in verbs.h a macro hides it. */
int(ibv_query_port)(struct ibv_context *context, uint8_t port_num,
		    struct _compat_ibv_port_attr *attr)
{
	return query_port(context, port_num, (struct ibv_port_attr *)attr, PORT_ATTR_COMPAT_BYTES);
}

int ibv_query_port_speed(struct ibv_context *context, uint32_t port_num, uint64_t *port_speed)
{
	struct ipc_device_reply info;
	int ret;

	if (port_num != 1)
		return EINVAL;
	ret = context_info(context, &info);
	if (ret)
		return -ret;
	/* In units of 100 Mbit/s. */
	*port_speed = speed_mbps(&info) / 100;
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
	int ret = gid_at(context, port_num, index < 0 ? UINT32_MAX : (uint32_t)index, &entry);

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

	if (flags || entry_size < sizeof(*entry))
		return EINVAL;
	ret = gid_at(context, port_num, gid_index, &gid);
	if (ret)
		return -ret;
	memset(entry, 0, entry_size);
	fill_gid_entry(&gid, gid_index, device_gid_type(to_context(context)->device), entry);
	return 0;
}

ssize_t _ibv_query_gid_table(struct ibv_context *context, struct ibv_gid_entry *entries,
			     size_t max_entries, uint32_t flags, size_t entry_size)
{
	struct ipc_device_reply info;
	uint8_t *at = (uint8_t *)entries;
	size_t count = 0;
	int ret;

	if (flags || entry_size < sizeof(*entries))
		return -EINVAL;
	ret = context_info(context, &info);
	if (ret)
		return ret;
	for (uint32_t i = 0; i < info.gid_count; i++) {
		if (!info.gids[i].is_valid)
			continue;
		if (count == max_entries)
			return -EINVAL;
		memset(at, 0, entry_size);
		fill_gid_entry(&info.gids[i], i, info.gid_type, (struct ibv_gid_entry *)(void *)at);
		at += entry_size;
		count++;
	}
	return (ssize_t)count;
}

int ibv_query_pkey(struct ibv_context *context, uint8_t port_num, int index, __be16 *pkey)
{
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

	if (to_context(context)->engine->is_orphan)
		return EIO;
	values->comp_mask = 0;
	if (!(wanted & IBV_VALUES_MASK_RAW_CLOCK))
		return wanted ? EINVAL : 0;
	/* In the unit of completion timestamps. Applications expect the whole value in tv_nsec, as device ticks. */
	values->raw_clock.tv_sec = 0;
	values->raw_clock.tv_nsec = (long)clock_now_ns();
	values->comp_mask = IBV_VALUES_MASK_RAW_CLOCK;
	return 0;
}

/* Returns 0: data are usually copied in ascending order of addresses, but not on every data path. */
int ibv_query_qp_data_in_order(struct ibv_qp *qp, enum ibv_wr_opcode op, uint32_t flags)
{
	(void)qp;
	(void)op;
	(void)flags;
	return 0;
}
