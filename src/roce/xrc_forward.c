/* SPDX-License-Identifier: BSD-2-Clause */
#include "roce/xrc_forward.h"

/*
 * The user of core/qp/xrc_forward.h: passes its messages to the XRC target QPs and executors of
 * this process.
 */

int roce_xrc_open(struct roce_xrc *xrc)
{
	list_init(&xrc->targets);
	list_init(&xrc->executor_list);
	return hash_init(&xrc->executors);
}

void roce_xrc_close(struct roce_xrc *xrc)
{
	hash_fini(&xrc->executors);
}

static void roce_xrc_receive(struct engine *engine, uint32_t slot,
			     const struct xrc_forward_msg *msg)
{
	struct roce *roce = roce_of(engine);

	roce_look_at_clock(roce);
	switch (msg->type) {
	case XRC_FORWARD_ATTACH:
		xrc_executor_attach(roce, slot, msg);
		break;
	case XRC_FORWARD_REQUEST:
	case XRC_FORWARD_REPLAY:
		xrc_executor_request(roce, slot, msg);
		break;
	case XRC_FORWARD_DETACH:
		xrc_executor_detach(roce, msg);
		break;
	case XRC_FORWARD_REPORT:
		xrc_target_take_report(roce, slot, msg);
		break;
	default:
		break;
	}
}

static void roce_xrc_peer_exited(struct engine *engine, uint32_t slot)
{
	struct roce *roce = roce_of(engine);

	roce_look_at_clock(roce);
	xrc_executor_peer_exited(roce, slot);
	xrc_target_peer_exited(roce, slot);
}

const struct xrc_forward_user roce_xrc_forward = {
	.receive = roce_xrc_receive,
	.peer_exited = roce_xrc_peer_exited,
	.domain_closed = xrc_executor_domain_closed,
};
