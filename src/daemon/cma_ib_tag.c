/* SPDX-License-Identifier: BSD-2-Clause */
#include <string.h>

#include "daemon/cma_ib.h"

/*
 * The processes that connections and MADs belong to: the fault rules of their users apply to them.
 */

static void tag_client(struct cma_client *client, struct cm_tag *tag)
{
	const char *program = cma_program_of(client);

	*tag = (struct cm_tag){.uid = client->peer.uid, .pid = client->peer.pid};
	memcpy(tag->program, program, strnlen(program, sizeof(tag->program) - 1));
}

void cma_ib_tag(struct cma_id *id, struct cm_tag *tag)
{
	tag_client(id->client, tag);
}

/* The listener of a request that has no connection yet. */
static const struct cma_id *listener_of(struct cma_ib *ib, const struct cm_path *path,
					const struct cm_msg *msg)
{
	struct cma_request request;

	if (msg->type == CM_MSG_REQ)
		(void)cma_ib_request_fill(&request, ib, NULL, path, msg->req.service_id,
					  msg->req.private_data);
	else
		(void)cma_ib_request_fill(&request, ib, NULL, path, msg->sidr_req.service_id,
					  msg->sidr_req.private_data);
	return cma_find_listener(&request);
}

bool cma_ib_on_tag(void *ctx, const struct cm_path *path, const struct cm_msg *msg,
		   bool is_received, struct cm_tag *tag)
{
	struct cma_ib *ib = ctx;
	const struct cm_tag *found = cm_tag_of(ib->cm, path, msg, is_received);
	const struct cma_id *listener;

	if (found) {
		*tag = *found;
		return true;
	}
	if (!is_received || (msg->type != CM_MSG_REQ && msg->type != CM_MSG_SIDR_REQ))
		return false;
	listener = listener_of(ib, path, msg);
	if (listener)
		tag_client(listener->client, tag);
	return listener != NULL;
}
