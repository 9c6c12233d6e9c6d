/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <infiniband/verbs.h>
#include <string.h>

#include "base/librdmacm_calls.h"
#include "fake_daemon.h"

/*
 * The functions of libibverbs that the rdma_cm needs: one device, and queue pairs that record their
 * transitions.
 */
static struct ibv_device device;
static struct ibv_context context = {.device = &device};
static struct ibv_pd pd = {.context = &context};
static struct ibv_cq cq = {.context = &context};
static struct ibv_comp_channel comp_channel = {.context = &context};
static struct ibv_srq srq = {.context = &context};
static struct ibv_qp qp;
static char moves[64];
static unsigned failing_states; /* bits (1 << enum ibv_qp_state) */

const char *fake_qp_moves(void)
{
	static char seen[sizeof(moves)];

	memcpy(seen, moves, sizeof(moves));
	memset(moves, 0, sizeof(moves));
	return seen;
}

void fake_qp_fail(int state)
{
	failing_states |= 1u << state;
}

struct ibv_device **ibv_get_device_list(int *num_devices)
{
	static struct ibv_device *list[] = {&device, NULL};

	*num_devices = 1;
	return list;
}

void usrdma_catch_up(struct ibv_context *of)
{
	(void)of;
}

void ibv_free_device_list(struct ibv_device **list)
{
	(void)list;
}

uint32_t usrdma_device_id(struct ibv_device *dev)
{
	(void)dev;
	return FAKE_DEV_ID;
}

const char *ibv_get_device_name(struct ibv_device *dev)
{
	(void)dev;
	return "fake";
}

struct ibv_context *ibv_open_device(struct ibv_device *dev)
{
	(void)dev;
	return &context;
}

int ibv_close_device(struct ibv_context *ctx)
{
	(void)ctx;
	return 0;
}

/* Each entry has the type RoCE v2. */
int _ibv_query_gid_ex(struct ibv_context *ctx, uint32_t port_num, uint32_t gid_index,
		      struct ibv_gid_entry *entry, uint32_t flags, size_t entry_size)
{
	(void)ctx;
	(void)flags;
	memset(entry, 0, entry_size);
	entry->port_num = port_num;
	entry->gid_index = gid_index;
	entry->gid_type = IBV_GID_TYPE_ROCE_V2;
	return 0;
}

int ibv_query_device(struct ibv_context *ctx, struct ibv_device_attr *attr)
{
	(void)ctx;
	memset(attr, 0, sizeof(*attr));
	attr->max_qp_rd_atom = 16;
	attr->max_qp_init_rd_atom = 1000;
	return 0;
}

struct ibv_pd *ibv_alloc_pd(struct ibv_context *ctx)
{
	(void)ctx;
	return &pd;
}

struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *ctx)
{
	(void)ctx;
	return &comp_channel;
}

int ibv_destroy_comp_channel(struct ibv_comp_channel *channel)
{
	(void)channel;
	return 0;
}

struct ibv_cq *ibv_create_cq(struct ibv_context *ctx, int cqe, void *cq_context,
			     struct ibv_comp_channel *channel, int comp_vector)
{
	(void)ctx;
	(void)comp_vector;
	cq.cqe = cqe;
	cq.cq_context = cq_context;
	cq.channel = channel;
	return &cq;
}

int ibv_destroy_cq(struct ibv_cq *destroyed)
{
	(void)destroyed;
	return 0;
}

struct ibv_qp *ibv_create_qp(struct ibv_pd *qp_pd, struct ibv_qp_init_attr *attr)
{
	qp = (struct ibv_qp){
		.context = &context, .pd = qp_pd, .qp_num = 42, .qp_type = attr->qp_type};
	return &qp;
}

int usrdma_modify_qp(struct ibv_qp *modified, const struct ibv_qp_attr *attr, int attr_mask)
{
	static const char letters[] = {
		[IBV_QPS_INIT] = 'I', [IBV_QPS_RTR] = 'R', [IBV_QPS_RTS] = 'S', [IBV_QPS_ERR] = 'E'};

	(void)attr_mask;
	if (failing_states & 1u << attr->qp_state) {
		failing_states &= ~(1u << attr->qp_state);
		return EIO;
	}
	modified->state = attr->qp_state;
	moves[strlen(moves)] = letters[attr->qp_state];
	return 0;
}

/* The library uses it only for transitions that cannot wait for the kernel. */
int ibv_modify_qp(struct ibv_qp *modified, struct ibv_qp_attr *attr, int attr_mask)
{
	if (attr_mask & IBV_QP_AV)
		return EWOULDBLOCK;
	return usrdma_modify_qp(modified, attr, attr_mask);
}

static int mcast_error;
static struct fake_mcast mcast;

struct fake_mcast fake_mcast_calls(void)
{
	struct fake_mcast seen = mcast;

	mcast = (struct fake_mcast){0};
	return seen;
}

void fake_mcast_fail(int error)
{
	mcast_error = error;
}

int ibv_attach_mcast(struct ibv_qp *attached, const union ibv_gid *gid, uint16_t lid)
{
	int ret = mcast_error;

	(void)lid;
	mcast_error = 0;
	if (ret)
		return ret;
	mcast.attached++;
	mcast.qp = attached;
	mcast.group = *gid;
	return 0;
}

int ibv_detach_mcast(struct ibv_qp *detached, const union ibv_gid *gid, uint16_t lid)
{
	(void)lid;
	mcast.detached++;
	mcast.qp = detached;
	mcast.group = *gid;
	return 0;
}

int ibv_destroy_qp(struct ibv_qp *destroyed)
{
	(void)destroyed;
	return 0;
}

struct ibv_srq *ibv_create_srq(struct ibv_pd *srq_pd, struct ibv_srq_init_attr *attr)
{
	(void)srq_pd;
	(void)attr;
	return &srq;
}

int ibv_query_srq(struct ibv_srq *queried, struct ibv_srq_attr *attr)
{
	(void)queried;
	*attr = (struct ibv_srq_attr){.max_wr = 100};
	return 0;
}

int ibv_destroy_srq(struct ibv_srq *destroyed)
{
	(void)destroyed;
	return 0;
}
