/* SPDX-License-Identifier: BSD-2-Clause */

/*
 * The private interface between libibverbs and its drivers, node IBVERBS_PRIVATE_34.
 *
 * A program may load a provider library of the system by its path instead of the one in
 * src/providers. That library needs these names. Its drivers never match, because the process has
 * only the device of this library. Therefore only three names are used: the registration of
 * drivers, called by their constructors; ibv_query_gid_type(), called by ibv_devinfo and pyverbs;
 * and the flag, which is read through the loader's copy. The other calls return that the operation
 * is not supported. They do not read their arguments, hence the (void): in every calling convention
 * of Linux the caller removes the arguments.
 */

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "base/symver.h"
#include "core/compat.h"

/* Whether objects of a removed device may be destroyed with success. Read by drivers. */
EXPORTED extern bool verbs_allow_disassociate_destroy;
bool verbs_allow_disassociate_destroy;

/* Returns a positive errno, as most of the interface does. */
#define REFUSED(name)              \
	EXPORTED int name(void);   \
	int name(void)             \
	{                          \
		return EOPNOTSUPP; \
	}

/* Returns -1 and sets errno. */
#define REFUSED_BY_ERRNO(name)      \
	EXPORTED int name(void);    \
	int name(void)              \
	{                           \
		errno = EOPNOTSUPP; \
		return -1;          \
	}

/* Returns NULL and sets errno. */
#define REFUSED_BY_NULL(name)       \
	EXPORTED void *name(void);  \
	void *name(void)            \
	{                           \
		errno = EOPNOTSUPP; \
		return NULL;        \
	}

/* Has no return value, or is never called because a call above refused to create its object. */
#define IGNORED(name)             \
	EXPORTED void name(void); \
	void name(void)           \
	{                         \
	}

/* Drivers, contexts, logging. */
IGNORED(verbs_register_driver_34)
IGNORED(__verbs_log)
IGNORED(verbs_set_ops)
IGNORED(verbs_uninit_context)
IGNORED(verbs_init_cq)
REFUSED_BY_NULL(_verbs_init_and_alloc_context)
REFUSED_BY_NULL(verbs_open_device)
REFUSED_BY_ERRNO(ibv_read_ibdev_sysfs_file)
REFUSED(execute_ioctl)
REFUSED(ibv_cmd_get_context)
REFUSED(ibv_cmd_query_context)
REFUSED(ibv_cmd_query_device_any)
REFUSED(ibv_cmd_query_port)

/* Protection domains, memory, windows, device memory. */
REFUSED(ibv_cmd_alloc_pd)
REFUSED(ibv_cmd_dealloc_pd)
REFUSED(ibv_cmd_reg_mr)
REFUSED(ibv_cmd_rereg_mr)
REFUSED(ibv_cmd_dereg_mr)
REFUSED(ibv_cmd_query_mr)
REFUSED(ibv_cmd_advise_mr)
REFUSED(ibv_cmd_reg_dmabuf_mr)
REFUSED(ibv_cmd_alloc_mw)
REFUSED(ibv_cmd_dealloc_mw)
REFUSED(ibv_cmd_alloc_dm)
REFUSED(ibv_cmd_free_dm)
REFUSED(ibv_cmd_reg_dm_mr)

/* Completion queues. */
REFUSED(ibv_cmd_create_cq)
REFUSED(ibv_cmd_create_cq_ex)
REFUSED(ibv_cmd_modify_cq)
REFUSED(ibv_cmd_resize_cq)
REFUSED(ibv_cmd_destroy_cq)
REFUSED(ibv_cmd_req_notify_cq)
REFUSED_BY_ERRNO(ibv_cmd_poll_cq)

/* Queue pairs, shared receive queues, work queues. */
REFUSED(ibv_cmd_create_qp)
REFUSED(ibv_cmd_create_qp_ex)
REFUSED(ibv_cmd_create_qp_ex2)
REFUSED(ibv_cmd_open_qp)
REFUSED(ibv_cmd_query_qp)
REFUSED(ibv_cmd_modify_qp)
REFUSED(ibv_cmd_modify_qp_ex)
REFUSED(ibv_cmd_destroy_qp)
REFUSED(ibv_cmd_post_send)
REFUSED(ibv_cmd_post_recv)
REFUSED(ibv_cmd_post_srq_recv)
REFUSED(ibv_cmd_create_srq)
REFUSED(ibv_cmd_create_srq_ex)
REFUSED(ibv_cmd_modify_srq)
REFUSED(ibv_cmd_query_srq)
REFUSED(ibv_cmd_destroy_srq)
REFUSED(ibv_cmd_open_xrcd)
REFUSED(ibv_cmd_close_xrcd)
REFUSED(ibv_cmd_create_wq)
REFUSED(ibv_cmd_modify_wq)
REFUSED(ibv_cmd_destroy_wq)
REFUSED(ibv_cmd_create_rwq_ind_table)
REFUSED(ibv_cmd_destroy_rwq_ind_table)

/* Address handles, multicast, flows, counters. */
REFUSED(ibv_cmd_create_ah)
REFUSED(ibv_cmd_destroy_ah)
REFUSED(ibv_cmd_attach_mcast)
REFUSED(ibv_cmd_detach_mcast)
REFUSED(ibv_cmd_create_flow)
REFUSED(ibv_cmd_destroy_flow)
REFUSED(ibv_cmd_create_flow_action_esp)
REFUSED(ibv_cmd_modify_flow_action_esp)
REFUSED(ibv_cmd_destroy_flow_action)
REFUSED(ibv_cmd_create_counters)
REFUSED(ibv_cmd_destroy_counters)
REFUSED(ibv_cmd_read_counters)

/*
 * The number of attributes of a command buffer: the caller's only. The result is the size of an
 * array that the caller fills, so it must not be smaller than the number of the caller's
 * attributes.
 */
EXPORTED unsigned int __ioctl_final_num_attrs(unsigned int num_attrs, void *link);
unsigned int __ioctl_final_num_attrs(unsigned int num_attrs, void *link)
{
	(void)link;
	return num_attrs;
}

int ibv_query_gid_type(struct ibv_context *context, uint8_t port_num, unsigned int index,
		       enum ibv_gid_type_sysfs *type)
{
	struct ibv_gid_entry entry;
	int err;

	memset(&entry, 0, sizeof(entry));
	err = _ibv_query_gid_ex(context, port_num, index, &entry, 0, sizeof(entry));
	if (err && err != ENODATA) {
		errno = err;
		return -1;
	}
	if (!err && entry.gid_type == IBV_GID_TYPE_ROCE_V2)
		*type = IBV_GID_TYPE_SYSFS_ROCE_V2;
	else
		*type = IBV_GID_TYPE_SYSFS_IB_ROCE_V1;
	return 0;
}
