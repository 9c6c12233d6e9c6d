/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <rdma/rdma_cma.h>
#include <string.h>

#include "rdmacm/id.h"
#include "rdmacm/public.h"

/* The options of an id that can be set, and the one length that each takes. */
static const size_t id_option_bytes[] = {
	[RDMA_OPTION_ID_TOS] = sizeof(uint8_t),
	[RDMA_OPTION_ID_REUSEADDR] = sizeof(int),
	[RDMA_OPTION_ID_AFONLY] = sizeof(int),
	[RDMA_OPTION_ID_ACK_TIMEOUT] = sizeof(uint8_t),
};

#define ID_OPTIONS (int)(sizeof(id_option_bytes) / sizeof(id_option_bytes[0]))

/*
 * A path record is for a subnet manager's fabric: the route of an Ethernet device is its IP route.
 */
static int check_ib_option(int name, size_t bytes)
{
	if (name != RDMA_OPTION_IB_PATH)
		return -ENOSYS;
	if (!bytes || bytes % sizeof(struct ibv_path_data))
		return -EINVAL;
	return -EOPNOTSUPP;
}

static int check_option(int level, int name, const void *value, size_t bytes)
{
	if (level == RDMA_OPTION_IB)
		return check_ib_option(name, bytes);
	if (level != RDMA_OPTION_ID || name < 0 || name >= ID_OPTIONS)
		return -ENOSYS;
	return value && bytes == id_option_bytes[name] ? 0 : -EINVAL;
}

static int set_option(struct rcm_id *id, int level, int name, const void *value, size_t bytes)
{
	struct ipc_cm_set_option req = {
		.hdr.type = IPC_CM_SET_OPTION,
		.id = id->handle,
		.level = (uint32_t)level,
		.name = (uint32_t)name,
		.value_len = (uint32_t)bytes,
	};
	int ret = check_option(level, name, value, bytes);

	if (ret)
		return ret;
	memcpy(req.value, value, bytes);
	return rcm_id_request(id, &req, sizeof(req));
}

int rdma_set_option(struct rdma_cm_id *id, int level, int optname, void *optval, size_t optlen)
{
	if (!id)
		return rcm_public_result(-EINVAL);
	return rcm_public_result(set_option(rcm_id_of(id), level, optname, optval, optlen));
}
