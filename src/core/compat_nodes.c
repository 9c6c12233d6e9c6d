/* SPDX-License-Identifier: BSD-2-Clause */

/*
 * Calls that programs import at a private version node of libibverbs, once for each node of a
 * release of rdma-core, and for those of future releases (ADR 0028).
 *
 * Private nodes contain the interface between libibverbs and its drivers. rdma-core renames its
 * node when that interface changes. Programs use two calls at these nodes: ibv_devinfo and pyverbs
 * call ibv_query_gid_type(), and since v57 the public ibv_wr_opcode_str() is there. The default
 * versions, ibv_query_gid_type at IBVERBS_PRIVATE_34 and ibv_wr_opcode_str at IBVERBS_PRIVATE_64,
 * are in libibverbs.map.
 */

#include <infiniband/verbs.h>

#include "base/symver.h"
#include "core/compat.h"

#define GID_TYPE_AT(node)                                                                \
	VERSIONED(int, ibv_query_gid_type_##node,                                        \
		  (struct ibv_context * context, uint8_t port_num, unsigned int index,   \
		   enum ibv_gid_type_sysfs *type),                                       \
		  "ibv_query_gid_type@IBVERBS_PRIVATE_" #node)                           \
	int ibv_query_gid_type_##node(struct ibv_context *context, uint8_t port_num,     \
				      unsigned int index, enum ibv_gid_type_sysfs *type) \
	{                                                                                \
		return ibv_query_gid_type(context, port_num, index, type);               \
	}

#define OPCODE_STR_AT(node)                                                            \
	VERSIONED(const char *, ibv_wr_opcode_str_##node, (enum ibv_wr_opcode opcode), \
		  "ibv_wr_opcode_str@IBVERBS_PRIVATE_" #node)                          \
	const char *ibv_wr_opcode_str_##node(enum ibv_wr_opcode opcode)                \
	{                                                                              \
		return ibv_wr_opcode_str(opcode);                                      \
	}

#define BOTH_AT(node)     \
	GID_TYPE_AT(node) \
	OPCODE_STR_AT(node)

/* Releases without ibv_wr_opcode_str(). */
GID_TYPE_AT(22)
GID_TYPE_AT(25)
GID_TYPE_AT(33)

/* This node has the default version of ibv_wr_opcode_str(). */
GID_TYPE_AT(64)

BOTH_AT(57)
BOTH_AT(59)
BOTH_AT(65)

/* Future releases. A node is named after the release that introduces it. */
BOTH_AT(66)
BOTH_AT(67)
BOTH_AT(68)
BOTH_AT(69)
BOTH_AT(70)
BOTH_AT(71)
BOTH_AT(72)
BOTH_AT(73)
BOTH_AT(74)
BOTH_AT(75)
BOTH_AT(76)
BOTH_AT(77)
BOTH_AT(78)
BOTH_AT(79)
BOTH_AT(80)
