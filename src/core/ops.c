/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>

#include "core/device/context.h"
#include "core/device/query.h"
#include "core/memory/advise.h"
#include "core/memory/dm.h"
#include "core/memory/domain.h"
#include "core/memory/mw.h"
#include "core/memory/null_mr.h"
#include "core/qp/qp.h"
#include "core/qp/xrc.h"
#include "core/queue/cq.h"
#include "core/queue/moderation.h"
#include "core/queue/post.h"
#include "core/queue/srq.h"

/*
 * The functions that the inline functions of verbs.h, compiled into applications, call. The inline
 * functions call eight members of ibv_context_ops without a NULL check, so all of these are set.
 * For a NULL in verbs_context some inline functions report EOPNOTSUPP and older ones ENOSYS.
 * Unsupported operations that an application may call therefore have a function that reports
 * EOPNOTSUPP.
 */

static int no_rate_limit(struct ibv_qp *qp, struct ibv_qp_rate_limit_attr *attr)
{
	(void)qp;
	(void)attr;
	return EOPNOTSUPP;
}

static struct ibv_wq *no_wq(struct ibv_context *context, struct ibv_wq_init_attr *attr)
{
	(void)context;
	(void)attr;
	errno = EOPNOTSUPP;
	return NULL;
}

static struct ibv_rwq_ind_table *no_ind_table(struct ibv_context *context,
					      struct ibv_rwq_ind_table_init_attr *attr)
{
	(void)context;
	(void)attr;
	errno = EOPNOTSUPP;
	return NULL;
}

static struct ibv_flow *no_flow(struct ibv_qp *qp, struct ibv_flow_attr *attr)
{
	(void)qp;
	(void)attr;
	errno = EOPNOTSUPP;
	return NULL;
}

static struct ibv_flow_action *no_flow_action(struct ibv_context *context,
					      struct ibv_flow_action_esp_attr *attr)
{
	(void)context;
	(void)attr;
	errno = EOPNOTSUPP;
	return NULL;
}

static struct ibv_counters *no_counters(struct ibv_context *context,
					struct ibv_counters_init_attr *attr)
{
	(void)context;
	(void)attr;
	errno = EOPNOTSUPP;
	return NULL;
}

static int no_srq_ops(struct ibv_srq *srq, struct ibv_ops_wr *op, struct ibv_ops_wr **bad_op)
{
	(void)srq;
	*bad_op = op;
	return EOPNOTSUPP;
}

static int compat_query_port(struct ibv_context *context, uint8_t port_num,
			     struct _compat_ibv_port_attr *attr)
{
	return (ibv_query_port)(context, port_num, attr);
}

static void init_built(struct verbs_context *verbs)
{
	verbs->query_port = query_port;
	verbs->query_rt_values = query_rt_values;
	verbs->query_device_ex = query_device_ex;
	verbs->create_cq_ex = create_cq_ex;
	verbs->modify_cq = modify_cq;
	verbs->create_qp_ex = create_qp_ex;
	verbs->create_srq_ex = create_srq_ex;
	verbs->get_srq_num = get_srq_num;
	verbs->advise_mr = advise_mr;
	verbs->alloc_null_mr = null_mr_alloc;
	verbs->alloc_dm = dm_alloc;
	verbs->free_dm = dm_free;
	verbs->reg_dm_mr = dm_reg_mr;
	verbs->alloc_td = td_alloc;
	verbs->dealloc_td = td_dealloc;
	verbs->alloc_parent_domain = parent_domain_alloc;
	verbs->open_xrcd = xrcd_open;
	verbs->close_xrcd = xrcd_close;
	verbs->open_qp = xrc_open_qp;
}

/*
 * Unsupported operations. The functions that destroy unsupported objects stay NULL: such an object
 * never exists.
 */
static void init_not_built(struct verbs_context *verbs)
{
	verbs->modify_qp_rate_limit = no_rate_limit;
	verbs->create_counters = no_counters;
	verbs->create_flow_action_esp = no_flow_action;
	verbs->ibv_create_flow = no_flow;
	verbs->create_wq = no_wq;
	verbs->create_rwq_ind_table = no_ind_table;
	verbs->post_srq_ops = no_srq_ops;
}

void context_init_ops(struct verbs_context *verbs)
{
	struct ibv_context_ops *ops = &verbs->context.ops;

	ops->_compat_query_device = ibv_query_device;
	ops->_compat_query_port = compat_query_port;
	ops->alloc_mw = mw_alloc;
	ops->bind_mw = mw_bind;
	ops->dealloc_mw = mw_dealloc;
	ops->poll_cq = poll_cq;
	ops->req_notify_cq = req_notify_cq;
	ops->post_srq_recv = post_srq_recv;
	ops->post_send = post_send;
	ops->post_recv = post_recv;
	init_built(verbs);
	init_not_built(verbs);
}
