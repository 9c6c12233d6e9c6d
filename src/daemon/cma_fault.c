/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>

#include "base/fault.h"
#include "daemon/cma_priv.h"
#include "daemon/fault_user.h"
#include "daemon/user_log.h"

/* The fault point connection, and the connections that rules in processes end. */

static bool is_established(const struct cma_id *id)
{
	enum ipc_failure_reason reason;
	uint64_t numbers[2];

	if (id->state != CMA_CONNECTED || !id->conn || cma_is_datagram(id) || id->is_end_reported ||
	    id->is_cut)
		return false;
	/* The passive side waits for the RTU. */
	return !id->cm->ops->waiting || !id->cm->ops->waiting(id, &reason, numbers);
}

static int cut_connection(struct cma_id *id)
{
	int error;

	id->is_cut = true;
	error = id->cm->ops->disconnect(id);
	if (error)
		return error;
	user_log(USER_LOG_CONNECTION_RULE, LOG_LEVEL_INFO, id->client->peer.uid,
		 "a fault rule ends the connection of QPN 0x%x of %s (pid %ld)", id->qp_num,
		 cma_program_of(id->client), (long)id->client->peer.pid);
	cma_wake(id->cma);
	return 0;
}

static void pass_connection(struct cma_id *id)
{
	const struct netdev *dev = netdev_by_id(id->route.dev_id);
	const char *device = dev ? dev->name : NULL;
	const struct fault_subject subject = {
		.device = device,
		.netdev = device,
		.peer = id->route.dgid,
		.qpn = id->qp_num,
		.qp_type = id->qp_type,
		.pid = id->client->peer.pid,
		.program = cma_program_of(id->client),
	};
	struct fault fault;
	int error;

	if (!fault_user_due(id->client->peer.uid, FAULT_CONNECTION, &subject, &fault))
		return;
	error = cut_connection(id);
	if (error)
		fault_failed(&fault, error);
}

void cma_fault_connections(struct cma_client *client, uint32_t count)
{
	if (!probe_is_on(PROBE_FAULT))
		return;
	while (count-- > 0 && !list_is_empty(&client->ids)) {
		struct cma_id *id = list_first_entry(&client->ids, struct cma_id, node);

		list_move_tail(&id->node, &client->ids);
		if (is_established(id))
			pass_connection(id);
	}
}

int cma_fault_disconnect(struct cma *cma, uid_t uid, uint32_t qpn)
{
	struct cma_id *id;
	uint32_t cursor = 0;

	while ((id = id_table_next(&cma->ids, &cursor))) {
		if (id->qp_num == qpn && id->client->peer.uid == uid && is_established(id))
			return cut_connection(id);
	}
	return -ENOTCONN;
}
