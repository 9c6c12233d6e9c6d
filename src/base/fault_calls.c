/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/fault_names.h"

#include <stddef.h>
#include <string.h>

/*
 * The public calls that pass the point call. tests/abi/faults.py compares them with the sources and
 * the manual.
 */
static const char *const calls[] = {
	"ibv_advise_mr",
	"ibv_alloc_buf",
	"ibv_alloc_dm",
	"ibv_alloc_mw",
	"ibv_alloc_null_mr",
	"ibv_alloc_parent_domain",
	"ibv_alloc_pd",
	"ibv_alloc_td",
	"ibv_attach_mcast",
	"ibv_bind_mw",
	"ibv_close_device",
	"ibv_close_xrcd",
	"ibv_create_ah",
	"ibv_create_ah_from_wc",
	"ibv_create_comp_channel",
	"ibv_create_comp_cntr",
	"ibv_create_cq",
	"ibv_create_cq_ex",
	"ibv_create_qp",
	"ibv_create_qp_ex",
	"ibv_create_srq",
	"ibv_create_srq_ex",
	"ibv_dealloc_mw",
	"ibv_dealloc_pd",
	"ibv_dealloc_td",
	"ibv_dereg_mr",
	"ibv_destroy_ah",
	"ibv_destroy_comp_channel",
	"ibv_destroy_comp_cntr",
	"ibv_destroy_cq",
	"ibv_destroy_qp",
	"ibv_destroy_srq",
	"ibv_detach_mcast",
	"ibv_free_dm",
	"ibv_get_async_event",
	"ibv_get_cq_event",
	"ibv_get_device_list",
	"ibv_get_pkey_index",
	"ibv_get_srq_num",
	"ibv_import_device",
	"ibv_import_dm",
	"ibv_import_mr",
	"ibv_import_pd",
	"ibv_inc_comp_cntr",
	"ibv_inc_err_comp_cntr",
	"ibv_init_ah_from_wc",
	"ibv_modify_cq",
	"ibv_modify_qp",
	"ibv_modify_srq",
	"ibv_open_device",
	"ibv_open_qp",
	"ibv_open_xrcd",
	"ibv_post_recv",
	"ibv_post_send",
	"ibv_post_srq_recv",
	"ibv_qp_attach_comp_cntr",
	"ibv_query_device",
	"ibv_query_device_ex",
	"ibv_query_gid",
	"ibv_query_gid_ex",
	"ibv_query_gid_table",
	"ibv_query_pkey",
	"ibv_query_port",
	"ibv_query_port_speed",
	"ibv_query_qp",
	"ibv_query_rt_values_ex",
	"ibv_query_srq",
	"ibv_read_comp_cntr",
	"ibv_read_err_comp_cntr",
	"ibv_reg_buf_mr",
	"ibv_reg_dm_mr",
	"ibv_reg_dmabuf_mr",
	"ibv_reg_mr",
	"ibv_req_notify_cq",
	"ibv_rereg_mr",
	"ibv_resize_cq",
	"ibv_set_comp_cntr",
	"ibv_set_err_comp_cntr",
	"rdma_accept",
	"rdma_ack_cm_event",
	"rdma_bind_addr",
	"rdma_connect",
	"rdma_create_ep",
	"rdma_create_event_channel",
	"rdma_create_id",
	"rdma_create_qp",
	"rdma_create_qp_ex",
	"rdma_create_srq",
	"rdma_create_srq_ex",
	"rdma_destroy_id",
	"rdma_disconnect",
	"rdma_establish",
	"rdma_get_cm_event",
	"rdma_get_devices",
	"rdma_get_remote_ece",
	"rdma_get_request",
	"rdma_getaddrinfo",
	"rdma_init_qp_attr",
	"rdma_join_multicast",
	"rdma_join_multicast_ex",
	"rdma_leave_multicast",
	"rdma_listen",
	"rdma_migrate_id",
	"rdma_notify",
	"rdma_query_addrinfo",
	"rdma_reject",
	"rdma_reject_ece",
	"rdma_resolve_addr",
	"rdma_resolve_addrinfo",
	"rdma_resolve_route",
	"rdma_set_local_ece",
	"rdma_set_option",
	"rdma_write_cm_event",
};

bool fault_call_is_known(const char *name)
{
	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
		if (strcmp(calls[i], name) == 0)
			return true;
	}
	return false;
}

bool fault_call_is(const char *name, const char *call)
{
	size_t len = strlen(name);

	return strncmp(call, name, len) == 0 && (!call[len] || strcmp(call + len, "_ex") == 0);
}
