/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <rdma/rdma_cma.h>
#include <string.h>

#include "base/util.h"
#include "rdmacm/id.h"
#include "rdmacm/public.h"

/* The supported options of an id and the required length of each value in bytes. */
static const size_t id_option_bytes[] = {
	[RDMA_OPTION_ID_TOS] = sizeof(uint8_t),
	[RDMA_OPTION_ID_REUSEADDR] = sizeof(int),
	[RDMA_OPTION_ID_AFONLY] = sizeof(int),
	[RDMA_OPTION_ID_ACK_TIMEOUT] = sizeof(uint8_t),
};

#define ID_OPTIONS (int)COUNT(id_option_bytes)

/*
 * The flags of a usable path: for CM messages and data, in both directions. As in Linux, the flags
 * must be exactly these.
 */
#define PATH_FLAGS (IBV_PATH_FLAG_GMP | IBV_PATH_FLAG_PRIMARY | IBV_PATH_FLAG_BIDIRECTIONAL)

static int set_value(struct rcm_id *id, int level, int name, const void *value, size_t bytes)
{
	struct ipc_cm_set_option req = {
		.hdr.type = IPC_CM_SET_OPTION,
		.id = id->handle,
		.level = (uint32_t)level,
		.name = (uint32_t)name,
		.value_len = (uint32_t)bytes,
	};

	memcpy(req.value, value, bytes);
	return rcm_id_request(id, &req, sizeof(req));
}

/* Uses the first path with the required flags. */
static int rdmacm_option_set_path(struct rcm_id *id, const void *value, size_t bytes)
{
	struct ibv_path_data path;

	if (!value || !bytes || bytes % sizeof(path))
		return -EINVAL;
	for (size_t at = 0; at < bytes; at += sizeof(path)) {
		memcpy(&path, (const char *)value + at, sizeof(path));
		if (path.flags == PATH_FLAGS)
			return set_value(id, RDMA_OPTION_IB, RDMA_OPTION_IB_PATH, &path.path,
					 sizeof(path.path));
	}
	return -EINVAL;
}

/*
 * The option is for the local QP only, as with Linux. It takes effect when the QP moves to RTS: on
 * the active side when the REP arrives, on the passive side in rdma_accept(). If the route is
 * resolved later, the path and the REQ have the value, too.
 */
static void rdmacm_option_store_ack_timeout(struct rcm_id *id, uint8_t timeout)
{
	id->ack_timeout = timeout;
	id->has_ack_timeout = true;
}

static int set_option(struct rcm_id *id, int level, int name, const void *value, size_t bytes)
{
	int ret;

	if (level == RDMA_OPTION_IB && name == RDMA_OPTION_IB_PATH)
		return rdmacm_option_set_path(id, value, bytes);
	if (level != RDMA_OPTION_ID || name < 0 || name >= ID_OPTIONS)
		return -ENOSYS;
	if (!value || bytes != id_option_bytes[name])
		return -EINVAL;
	ret = set_value(id, level, name, value, bytes);
	if (!ret && name == RDMA_OPTION_ID_ACK_TIMEOUT)
		rdmacm_option_store_ack_timeout(id, *(const uint8_t *)value);
	return ret;
}

int rdma_set_option(struct rdma_cm_id *id, int level, int optname, void *optval, size_t optlen)
{
	if (!id)
		return rcm_public_result(-EINVAL);
	return rcm_public_call(set_option(rcm_id_of(id), level, optname, optval, optlen));
}
