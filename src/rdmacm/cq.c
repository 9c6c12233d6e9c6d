/* SPDX-License-Identifier: BSD-2-Clause */
#include "rdmacm/cq.h"

#include <errno.h>
#include <string.h>

#include "base/log.h"

int rcm_cq_create(struct rcm_id *id, uint32_t entries, struct ibv_comp_channel **channel,
		  struct ibv_cq **cq)
{
	int ret;

	*channel = ibv_create_comp_channel(id->pub.verbs);
	if (!*channel)
		return errno ? -errno : -ENOMEM;
	*cq = ibv_create_cq(id->pub.verbs, (int)entries, &id->pub, *channel, 0);
	if (*cq)
		return 0;
	ret = errno ? -errno : -ENOMEM;
	ibv_destroy_comp_channel(*channel);
	*channel = NULL;
	return ret;
}

static void destroy(struct ibv_comp_channel **channel, struct ibv_cq **cq)
{
	int ret = 0;

	if (*cq)
		ret = ibv_destroy_cq(*cq);
	if (!ret && *channel)
		ret = ibv_destroy_comp_channel(*channel);
	if (ret)
		log_warn("cannot destroy a completion queue of an id: %s", strerror(ret));
	*cq = NULL;
	*channel = NULL;
}

void rcm_recv_cq_destroy(struct rcm_id *id)
{
	destroy(&id->pub.recv_cq_channel, &id->pub.recv_cq);
	id->srq_has_recv_cq = false;
}

void rcm_cqs_destroy(struct rcm_id *id)
{
	if (!id->srq_has_recv_cq)
		rcm_recv_cq_destroy(id);
	destroy(&id->pub.send_cq_channel, &id->pub.send_cq);
}
