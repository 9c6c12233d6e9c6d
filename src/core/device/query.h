/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_CORE_DEVICE_QUERY_H
#define USRDMA_CORE_DEVICE_QUERY_H

#include <infiniband/verbs.h>

/*
 * Provider entry points of the inline queries of verbs.h, called through verbs_context. They write
 * no more bytes than the size of the caller's structure.
 */
int query_device_ex(struct ibv_context *context, const struct ibv_query_device_ex_input *input,
		    struct ibv_device_attr_ex *attr, size_t attr_bytes);
int query_port(struct ibv_context *context, uint8_t port_num, struct ibv_port_attr *attr,
	       size_t attr_bytes);
int query_rt_values(struct ibv_context *context, struct ibv_values_ex *values);

#endif
