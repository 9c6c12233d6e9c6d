/* SPDX-License-Identifier: BSD-2-Clause */

/*
 * The non-default symbol versions of libibverbs.
 *
 * Programs linked in 2006 called `name@IBVERBS_1.0`. The structures of that interface differ from
 * those of IBVERBS_1.1; a library that supports both must wrap every object. No program still in
 * use imports one of these versions. They exist to complete the export list, and behave like the
 * 1.1 call of the same name, with 1.1 structures.
 *
 * Each is a function of its own that calls the 1.1 function, because the assembler can assign a
 * version only to a symbol of the same object. The parentheses around the name prevent the
 * expansion of the macros of verbs.h.
 */

#include <infiniband/verbs.h>

#include "base/symver.h"
#include "core/compat.h"

#define COMPAT_1_0(type, name, parameters, arguments)                 \
	VERSIONED(type, name##_1_0, parameters, #name "@IBVERBS_1.0") \
	type name##_1_0 parameters                                    \
	{                                                             \
		return (name)arguments;                               \
	}

/* clang-format would lay out the parameter lists as expressions. */
/* clang-format off */

/* Devices. */
COMPAT_1_0(struct ibv_device **, ibv_get_device_list, (int *count), (count))
COMPAT_1_0(void, ibv_free_device_list, (struct ibv_device **list), (list))
COMPAT_1_0(const char *, ibv_get_device_name, (struct ibv_device *device), (device))
COMPAT_1_0(__be64, ibv_get_device_guid, (struct ibv_device *device), (device))
COMPAT_1_0(struct ibv_context *, ibv_open_device, (struct ibv_device *device), (device))
COMPAT_1_0(int, ibv_close_device, (struct ibv_context *context), (context))
COMPAT_1_0(int, ibv_get_async_event,
	   (struct ibv_context *context, struct ibv_async_event *event), (context, event))
COMPAT_1_0(void, ibv_ack_async_event, (struct ibv_async_event *event), (event))
COMPAT_1_0(int, ibv_query_device,
	   (struct ibv_context *context, struct ibv_device_attr *attr), (context, attr))
COMPAT_1_0(int, ibv_query_port,
	   (struct ibv_context *context, uint8_t port_num, struct _compat_ibv_port_attr *attr),
	   (context, port_num, attr))
COMPAT_1_0(int, ibv_query_gid,
	   (struct ibv_context *context, uint8_t port_num, int index, union ibv_gid *gid),
	   (context, port_num, index, gid))
COMPAT_1_0(int, ibv_query_pkey,
	   (struct ibv_context *context, uint8_t port_num, int index, __be16 *pkey),
	   (context, port_num, index, pkey))

/* Protection domains, memory, address handles, multicast. */
COMPAT_1_0(struct ibv_pd *, ibv_alloc_pd, (struct ibv_context *context), (context))
COMPAT_1_0(int, ibv_dealloc_pd, (struct ibv_pd *pd), (pd))
COMPAT_1_0(struct ibv_mr *, ibv_reg_mr,
	   (struct ibv_pd *pd, void *addr, size_t length, int access), (pd, addr, length, access))
COMPAT_1_0(int, ibv_dereg_mr, (struct ibv_mr *mr), (mr))
COMPAT_1_0(struct ibv_ah *, ibv_create_ah, (struct ibv_pd *pd, struct ibv_ah_attr *attr),
	   (pd, attr))
COMPAT_1_0(int, ibv_destroy_ah, (struct ibv_ah *ah), (ah))
COMPAT_1_0(int, ibv_attach_mcast,
	   (struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid), (qp, gid, lid))
COMPAT_1_0(int, ibv_detach_mcast,
	   (struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid), (qp, gid, lid))

/* Completion queues. */
COMPAT_1_0(struct ibv_cq *, ibv_create_cq,
	   (struct ibv_context *context, int cqe, void *cq_context,
	    struct ibv_comp_channel *channel, int comp_vector),
	   (context, cqe, cq_context, channel, comp_vector))
COMPAT_1_0(int, ibv_resize_cq, (struct ibv_cq *cq, int cqe), (cq, cqe))
COMPAT_1_0(int, ibv_destroy_cq, (struct ibv_cq *cq), (cq))
COMPAT_1_0(int, ibv_get_cq_event,
	   (struct ibv_comp_channel *channel, struct ibv_cq **cq, void **cq_context),
	   (channel, cq, cq_context))
COMPAT_1_0(void, ibv_ack_cq_events, (struct ibv_cq *cq, unsigned int count), (cq, count))

/* Shared receive queues. */
COMPAT_1_0(struct ibv_srq *, ibv_create_srq,
	   (struct ibv_pd *pd, struct ibv_srq_init_attr *init_attr), (pd, init_attr))
COMPAT_1_0(int, ibv_modify_srq,
	   (struct ibv_srq *srq, struct ibv_srq_attr *attr, int attr_mask), (srq, attr, attr_mask))
COMPAT_1_0(int, ibv_query_srq, (struct ibv_srq *srq, struct ibv_srq_attr *attr), (srq, attr))
COMPAT_1_0(int, ibv_destroy_srq, (struct ibv_srq *srq), (srq))

/* Queue pairs. */
COMPAT_1_0(struct ibv_qp *, ibv_create_qp,
	   (struct ibv_pd *pd, struct ibv_qp_init_attr *init_attr), (pd, init_attr))
COMPAT_1_0(int, ibv_query_qp,
	   (struct ibv_qp *qp, struct ibv_qp_attr *attr, int attr_mask,
	    struct ibv_qp_init_attr *init_attr),
	   (qp, attr, attr_mask, init_attr))
COMPAT_1_0(int, ibv_modify_qp, (struct ibv_qp *qp, struct ibv_qp_attr *attr, int attr_mask),
	   (qp, attr, attr_mask))
COMPAT_1_0(int, ibv_destroy_qp, (struct ibv_qp *qp), (qp))

/*
 * Drivers registered with this call in early versions. There is only one device, so the
 * registration has no effect.
 */
VERSIONED(void, ibv_register_driver_1_1, (const char *name, void *init),
	  "ibv_register_driver@IBVERBS_1.1")
void ibv_register_driver_1_1(const char *name, void *init)
{
	(void)name;
	(void)init;
}
