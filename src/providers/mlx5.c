/* SPDX-License-Identifier: BSD-2-Clause */

/*
 * libmlx5.so.1: the direct verbs of NVIDIA ConnectX-4 and later, grouped by symbol version. No
 * device of this implementation is such a device: every call fails as in rdma-core for a device of
 * another vendor. See providers/providers.h.
 */

#include "providers/providers.h"

/* MLX5_1.0 */
PROVIDER_INT(mlx5dv_init_obj, EOPNOTSUPP)
PROVIDER_INT(mlx5dv_query_device, EOPNOTSUPP)

/* MLX5_1.1 */
PROVIDER_NULL(mlx5dv_create_cq)

/* MLX5_1.2 */
PROVIDER_INT(mlx5dv_set_context_attr, EOPNOTSUPP)

/* MLX5_1.3 */
PROVIDER_NULL(mlx5dv_create_qp)
PROVIDER_NULL(mlx5dv_create_wq)

/* MLX5_1.4 */
PROVIDER_INT(mlx5dv_get_clock_info, EOPNOTSUPP)

/* MLX5_1.5 */
PROVIDER_NULL(mlx5dv_create_flow_action_esp)

/* MLX5_1.6 */
PROVIDER_NULL(mlx5dv_create_flow)
PROVIDER_NULL(mlx5dv_create_flow_matcher)
PROVIDER_INT(mlx5dv_destroy_flow_matcher, EOPNOTSUPP)

/* MLX5_1.7 */
PROVIDER_NULL(mlx5dv_create_flow_action_modify_header)
PROVIDER_NULL(mlx5dv_create_flow_action_packet_reformat)
PROVIDER_NULL(mlx5dv_devx_alloc_uar)
PROVIDER_VOID(mlx5dv_devx_free_uar)
PROVIDER_INT(mlx5dv_devx_general_cmd, EOPNOTSUPP)
PROVIDER_NULL(mlx5dv_devx_obj_create)
PROVIDER_INT(mlx5dv_devx_obj_destroy, EOPNOTSUPP)
PROVIDER_INT(mlx5dv_devx_obj_modify, EOPNOTSUPP)
PROVIDER_INT(mlx5dv_devx_obj_query, EOPNOTSUPP)
PROVIDER_INT(mlx5dv_devx_query_eqn, EOPNOTSUPP)
PROVIDER_INT(mlx5dv_devx_umem_dereg, EOPNOTSUPP)
PROVIDER_NULL(mlx5dv_devx_umem_reg)
PROVIDER_NULL(mlx5dv_open_device)

/* MLX5_1.8 */
PROVIDER_INT(mlx5dv_devx_cq_modify, EOPNOTSUPP)
PROVIDER_INT(mlx5dv_devx_cq_query, EOPNOTSUPP)
PROVIDER_INT(mlx5dv_devx_ind_tbl_modify, EOPNOTSUPP)
PROVIDER_INT(mlx5dv_devx_ind_tbl_query, EOPNOTSUPP)
PROVIDER_INT(mlx5dv_devx_qp_modify, EOPNOTSUPP)
PROVIDER_INT(mlx5dv_devx_qp_query, EOPNOTSUPP)
PROVIDER_INT(mlx5dv_devx_srq_modify, EOPNOTSUPP)
PROVIDER_INT(mlx5dv_devx_srq_query, EOPNOTSUPP)
PROVIDER_INT(mlx5dv_devx_wq_modify, EOPNOTSUPP)
PROVIDER_INT(mlx5dv_devx_wq_query, EOPNOTSUPP)
PROVIDER_INT(mlx5dv_is_supported, 0)

/* MLX5_1.9 */
PROVIDER_NULL(mlx5dv_devx_create_cmd_comp)
PROVIDER_VOID(mlx5dv_devx_destroy_cmd_comp)
PROVIDER_INT(mlx5dv_devx_get_async_cmd_comp, EOPNOTSUPP)
PROVIDER_INT(mlx5dv_devx_obj_query_async, EOPNOTSUPP)

/* MLX5_1.10 */
PROVIDER_NULL(mlx5dv_alloc_dm)
PROVIDER_NULL(mlx5dv_create_mkey)
PROVIDER_INT(mlx5dv_destroy_mkey, EOPNOTSUPP)
PROVIDER_NULL(mlx5dv_dr_action_create_dest_ibv_qp)
PROVIDER_NULL(mlx5dv_dr_action_create_dest_table)
PROVIDER_NULL(mlx5dv_dr_action_create_dest_vport)
PROVIDER_NULL(mlx5dv_dr_action_create_drop)
PROVIDER_NULL(mlx5dv_dr_action_create_flow_counter)
PROVIDER_NULL(mlx5dv_dr_action_create_modify_header)
PROVIDER_NULL(mlx5dv_dr_action_create_packet_reformat)
PROVIDER_NULL(mlx5dv_dr_action_create_tag)
PROVIDER_INT(mlx5dv_dr_action_destroy, EOPNOTSUPP)
PROVIDER_NULL(mlx5dv_dr_domain_create)
PROVIDER_INT(mlx5dv_dr_domain_destroy, EOPNOTSUPP)
PROVIDER_INT(mlx5dv_dr_domain_sync, EOPNOTSUPP)
PROVIDER_NULL(mlx5dv_dr_matcher_create)
PROVIDER_INT(mlx5dv_dr_matcher_destroy, EOPNOTSUPP)
PROVIDER_NULL(mlx5dv_dr_rule_create)
PROVIDER_INT(mlx5dv_dr_rule_destroy, EOPNOTSUPP)
PROVIDER_NULL(mlx5dv_dr_table_create)
PROVIDER_INT(mlx5dv_dr_table_destroy, EOPNOTSUPP)
PROVIDER_NULL(mlx5dv_qp_ex_from_ibv_qp_ex)

/* MLX5_1.11 */
PROVIDER_NULL(mlx5dv_devx_create_event_channel)
PROVIDER_VOID(mlx5dv_devx_destroy_event_channel)
PROVIDER_MINUS_ONE(mlx5dv_devx_get_event)
PROVIDER_INT(mlx5dv_devx_subscribe_devx_event, EOPNOTSUPP)
PROVIDER_INT(mlx5dv_devx_subscribe_devx_event_fd, EOPNOTSUPP)

/* MLX5_1.12 */
PROVIDER_NULL(mlx5dv_alloc_var)
PROVIDER_NULL(mlx5dv_dr_action_create_flow_meter)
PROVIDER_INT(mlx5dv_dr_action_modify_flow_meter, EOPNOTSUPP)
PROVIDER_INT(mlx5dv_dump_dr_domain, EOPNOTSUPP)
PROVIDER_INT(mlx5dv_dump_dr_matcher, EOPNOTSUPP)
PROVIDER_INT(mlx5dv_dump_dr_rule, EOPNOTSUPP)
PROVIDER_INT(mlx5dv_dump_dr_table, EOPNOTSUPP)
PROVIDER_VOID(mlx5dv_free_var)

/* MLX5_1.13 */
PROVIDER_NULL(mlx5dv_pp_alloc)
PROVIDER_VOID(mlx5dv_pp_free)

/* MLX5_1.14 */
PROVIDER_NULL(mlx5dv_dr_action_create_default_miss)
PROVIDER_VOID(mlx5dv_dr_domain_set_reclaim_device_memory)
PROVIDER_INT(mlx5dv_modify_qp_lag_port, EOPNOTSUPP)
PROVIDER_INT(mlx5dv_query_qp_lag_port, EOPNOTSUPP)

/* MLX5_1.15 */
PROVIDER_NULL(mlx5dv_dr_action_create_dest_devx_tir)

/* MLX5_1.16 */
PROVIDER_NULL(mlx5dv_dr_action_create_dest_array)
PROVIDER_NULL(mlx5dv_dr_action_create_flow_sampler)

/* MLX5_1.17 */
PROVIDER_NULL(mlx5dv_dr_action_create_aso)
PROVIDER_NULL(mlx5dv_dr_action_create_pop_vlan)
PROVIDER_NULL(mlx5dv_dr_action_create_push_vlan)
PROVIDER_INT(mlx5dv_dr_action_modify_aso, EOPNOTSUPP)
PROVIDER_INT(mlx5dv_modify_qp_sched_elem, EOPNOTSUPP)
PROVIDER_INT(mlx5dv_modify_qp_udp_sport, EOPNOTSUPP)
PROVIDER_NULL(mlx5dv_sched_leaf_create)
PROVIDER_INT(mlx5dv_sched_leaf_destroy, EOPNOTSUPP)
PROVIDER_INT(mlx5dv_sched_leaf_modify, EOPNOTSUPP)
PROVIDER_NULL(mlx5dv_sched_node_create)
PROVIDER_INT(mlx5dv_sched_node_destroy, EOPNOTSUPP)
PROVIDER_INT(mlx5dv_sched_node_modify, EOPNOTSUPP)

/* MLX5_1.18 */
PROVIDER_INT(mlx5dv_reserved_qpn_alloc, EOPNOTSUPP)
PROVIDER_INT(mlx5dv_reserved_qpn_dealloc, EOPNOTSUPP)

/* MLX5_1.19 */
PROVIDER_INT(_mlx5dv_query_port, EOPNOTSUPP)
PROVIDER_NULL(mlx5dv_devx_umem_reg_ex)
PROVIDER_NULL(mlx5dv_dm_map_op_addr)

/* MLX5_1.20 */
PROVIDER_INT(_mlx5dv_mkey_check, EOPNOTSUPP)
PROVIDER_VOID(mlx5dv_dr_domain_allow_duplicate_rules)
PROVIDER_INT(mlx5dv_map_ah_to_qp, EOPNOTSUPP)
PROVIDER_INT(mlx5dv_qp_cancel_posted_send_wrs, EOPNOTSUPP)

/* MLX5_1.21 */
PROVIDER_INT(mlx5dv_crypto_login, EOPNOTSUPP)
PROVIDER_INT(mlx5dv_crypto_login_query_state, EOPNOTSUPP)
PROVIDER_INT(mlx5dv_crypto_logout, EOPNOTSUPP)
PROVIDER_INT(mlx5dv_dci_stream_id_reset, EOPNOTSUPP)
PROVIDER_NULL(mlx5dv_dek_create)
PROVIDER_INT(mlx5dv_dek_destroy, EOPNOTSUPP)
PROVIDER_INT(mlx5dv_dek_query, EOPNOTSUPP)
PROVIDER_NULL(mlx5dv_dr_action_create_dest_ib_port)
PROVIDER_INT(mlx5dv_dr_matcher_set_layout, EOPNOTSUPP)
PROVIDER_NULL(mlx5dv_get_vfio_device_list)
PROVIDER_MINUS_ONE(mlx5dv_vfio_get_events_fd)
PROVIDER_INT(mlx5dv_vfio_process_events, EOPNOTSUPP)

/* MLX5_1.22 */
PROVIDER_INT(mlx5dv_dr_aso_other_domain_link, EOPNOTSUPP)
PROVIDER_INT(mlx5dv_dr_aso_other_domain_unlink, EOPNOTSUPP)

/* MLX5_1.23 */
PROVIDER_NULL(mlx5dv_devx_alloc_msi_vector)
PROVIDER_NULL(mlx5dv_devx_create_eq)
PROVIDER_INT(mlx5dv_devx_destroy_eq, EOPNOTSUPP)
PROVIDER_INT(mlx5dv_devx_free_msi_vector, EOPNOTSUPP)

/* MLX5_1.24 */
PROVIDER_NULL(mlx5dv_create_steering_anchor)
PROVIDER_NULL(mlx5dv_crypto_login_create)
PROVIDER_INT(mlx5dv_crypto_login_destroy, EOPNOTSUPP)
PROVIDER_INT(mlx5dv_crypto_login_query, EOPNOTSUPP)
PROVIDER_INT(mlx5dv_destroy_steering_anchor, EOPNOTSUPP)
PROVIDER_NULL(mlx5dv_dr_action_create_dest_root_table)

/* MLX5_1.25 */
PROVIDER_INT(mlx5dv_get_data_direct_sysfs_path, EOPNOTSUPP)
PROVIDER_NULL(mlx5dv_reg_dmabuf_mr)

/* MLX5_1.25.1 */
PROVIDER_NULL(__mlx5dv_create_flow)

/* MLX5_1.26 */
PROVIDER_MINUS_ONE(mlx5dv_devx_uar_export_dmabuf_fd)

/* MLX5_1.27 */
PROVIDER_INT(mlx5dv_devx_obj_export, EOPNOTSUPP)
PROVIDER_NULL(mlx5dv_devx_obj_import)
PROVIDER_VOID(mlx5dv_devx_obj_unimport)
PROVIDER_INT(mlx5dv_devx_umem_export, EOPNOTSUPP)
PROVIDER_NULL(mlx5dv_devx_umem_import)
PROVIDER_VOID(mlx5dv_devx_umem_unimport)
PROVIDER_INT(mlx5dv_var_export, EOPNOTSUPP)
PROVIDER_NULL(mlx5dv_var_import)
PROVIDER_VOID(mlx5dv_var_unimport)

/* No object can be exported, so the attributes of every exported object have size 0. */
EXPORTED void _mlx5dv_get_export_sizes(void *sizes, size_t sizes_len);
void _mlx5dv_get_export_sizes(void *sizes, size_t sizes_len)
{
	memset(sizes, 0, sizes_len);
}

/* Programs built with rdma-core v14 reference the symbol version MLX5_1.0 of mlx5dv_init_obj(). */
VERSIONED(int, mlx5dv_init_obj_1_0, (void), "mlx5dv_init_obj@MLX5_1.0")
int mlx5dv_init_obj_1_0(void)
{
	return EOPNOTSUPP;
}
