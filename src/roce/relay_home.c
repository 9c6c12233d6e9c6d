/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "core/device.h"
#include "core/qp.h"
#include "roce/relay.h"

/* An owner that says nothing for so long is stopped, or very slow. */
#define SILENCE_NS (UINT64_C(100) * CLOCK_NS_PER_MS)

/* The process that made the QP: where each of its requests is to be executed, and what the others say of theirs. */

static bool is_in(const relay_slots slots, uint32_t slot)
{
	return slots[slot / 64] >> slot % 64 & 1;
}

static void put_in(relay_slots slots, uint32_t slot)
{
	slots[slot / 64] |= UINT64_C(1) << slot % 64;
}

static void take_out(relay_slots slots, uint32_t slot)
{
	slots[slot / 64] &= ~(UINT64_C(1) << slot % 64);
}

int relay_home_open(struct roce_qp *rqp)
{
	struct relay_home *home = calloc(1, sizeof(*home));

	if (!home)
		return -ENOMEM;
	home->rqp = rqp;
	list_init(&home->wait.node);
	list_add_tail(&home->node, &rqp->roce->relay.homes);
	rqp->rx.home = home;
	return 0;
}

/* Nobody executes or answers anything of the QP's any more. */
static void detach_all(struct roce_qp *rqp)
{
	const struct relay_msg msg = {.kind = RELAY_DETACH, .qpn = rqp->qp->qpn};
	struct relay_home *home = rqp->rx.home;

	for (uint32_t slot = 0; slot < RELAY_SLOTS; slot++) {
		if (is_in(home->attached, slot))
			relay_say_surely(rqp->roce, slot, &msg);
	}
	memset(home->attached, 0, sizeof(home->attached));
	memset(home->told, 0, sizeof(home->told));
}

/*
 * Where a request was refused, those before it may have to be answered again by who executed them: else the requester does
 * not come to the refusal.
 */
void relay_home_halt(struct roce_qp *rqp)
{
	struct relay_home *home = rqp->rx.home;

	list_del(&home->wait.node);
	home->done = home->sent;
	home->is_inside = false;
	home->is_parked = false;
	home->owes_excuse = false;
	if (rqp->rx.fatal == VERDICT_ACCEPTED)
		detach_all(rqp);
}

void relay_home_close(struct roce_qp *rqp)
{
	relay_home_halt(rqp);
	detach_all(rqp);
	list_del(&rqp->rx.home->node);
	free(rqp->rx.home);
	rqp->rx.home = NULL;
}

void relay_home_changed(struct roce_qp *rqp)
{
	memset(rqp->rx.home->told, 0, sizeof(rqp->rx.home->told));
}

/* Has the owner know the QP as it is now. 0 or -errno, as relay_say(). */
static int attach(struct roce_qp *rqp, uint32_t slot)
{
	const struct relay_msg msg = {.kind = RELAY_ATTACH, .qpn = rqp->qp->qpn};
	const struct ibv_qp_attr *attr = &rqp->qp->attr;
	const struct ibv_global_route *route = &attr->ah_attr.grh;
	struct relay_attach what = {
		.domain_id = rqp->qp->xrc_domain->id,
		.dev_id = rqp->qp->context->device->info.dev_id,
		.remote_qpn = attr->dest_qp_num,
		.path_mtu = attr->path_mtu,
		.access = attr->qp_access_flags,
		.max_dest_rd_atomic = attr->max_dest_rd_atomic,
		.min_rnr_timer = attr->min_rnr_timer,
		.flow_label = route->flow_label,
		.traffic_class = route->traffic_class,
		.hop_limit = route->hop_limit,
	};
	struct iovec piece = {.iov_base = &what, .iov_len = sizeof(what)};
	struct ipc_gid gid;
	int ret = device_gid(rqp->qp->context->device, route->sgid_index, &gid);

	if (ret)
		return ret;
	memcpy(what.local_gid, gid.raw, sizeof(what.local_gid));
	memcpy(what.remote_gid, route->dgid.raw, sizeof(what.remote_gid));
	/* Perhaps the end of the one that had the number before, or of this one's life before. */
	if (!relay_pay(rqp->roce, slot)) {
		relay_wait_for(rqp, &rqp->rx.home->wait, slot);
		return -EAGAIN;
	}
	ret = relay_say(rqp, &rqp->rx.home->wait, slot, &msg, &piece, 1);
	if (ret)
		return ret;
	put_in(rqp->rx.home->attached, slot);
	put_in(rqp->rx.home->told, slot);
	return 0;
}

/* The packet as it came, but for its ICRC, which was right. Without room: -EAGAIN, and nobody waits for some. */
static int say_packet(struct roce_qp *rqp, uint32_t slot, const struct relay_msg *msg,
		      const struct packet *packet)
{
	uint8_t hdr[PACKET_HDR_MAX], trailer[PACKET_TRAILER_MAX];
	struct iovec pieces[] = {
		{.iov_base = hdr, .iov_len = packet_build_headers(packet, hdr)},
		{.iov_base = (void *)(uintptr_t)packet->payload, .iov_len = packet->payload_bytes},
		{.iov_base = trailer,
		 .iov_len = packet_build_trailer(packet->payload_bytes, 0, trailer)},
	};

	return relay_send(rqp->roce->engine, slot, msg, pieces, 3);
}

/*
 * Whether the home owes nothing and its answers have left, so that an owner may speak. If they have not, the QP has another
 * turn when the link has room.
 */
static bool may_let_go(struct roce_qp *rqp)
{
	rqp->rx.owes_nak = VERDICT_ACCEPTED;
	rqp->rx.home->owes_excuse = false;
	if (rqp->rx.jobs_tail != rqp->rx.jobs_head || rqp->rx.owes_ack) {
		if (!answer_run(rqp) || rqp->rx.jobs_tail != rqp->rx.jobs_head) {
			answer_owe(rqp);
			return false;
		}
		batch_flush(rqp->roce);
	}
	if (!rqp->roce->batch.is_held)
		return true;
	answer_owe(rqp);
	return false;
}

static int begin_run(struct roce_qp *rqp, uint32_t slot)
{
	struct relay_home *home = rqp->rx.home;

	if (!may_let_go(rqp))
		return -EAGAIN;
	if (!is_in(home->told, slot)) {
		int ret = attach(rqp, slot);

		if (ret)
			return ret;
	}
	home->run++;
	home->owner = slot;
	home->first_psn = rqp->rx.psn;
	home->done_psn = rqp->rx.psn;
	return 0;
}

static uint32_t psn_after(const struct roce_qp *rqp, const struct packet *packet)
{
	bool is_possible = packet->dma_length_bytes <= MAX_MSG_BYTES;

	if (packet->info->is_read && is_possible)
		return psn_add(packet->psn, psns_of_bytes(rqp, packet->dma_length_bytes));
	return psn_next(packet->psn);
}

static bool is_message(const struct opcode_info *info)
{
	return !info->is_read && !opcode_has_own_answer(info);
}

static enum verdict pass_on(struct roce_qp *rqp, uint32_t slot, const struct packet *packet)
{
	struct relay_home *home = rqp->rx.home;
	int ret = relay_is_settled(home) ? begin_run(rqp, slot) : 0;
	const struct relay_msg msg = {
		.kind = RELAY_REQUEST,
		.qpn = rqp->qp->qpn,
		.run = home->run,
		.serial = home->sent + 1,
		.psn = packet->psn,
		.msn = rqp->rx.msn,
	};

	if (!ret) {
		ret = say_packet(rqp, slot, &msg, packet);
		if (ret == -EAGAIN)
			relay_wait_for(rqp, &home->wait, slot);
	}
	if (ret)
		return ret == -EAGAIN ? VERDICT_PARKED : VERDICT_SRQ;
	if (relay_is_settled(home))
		home->moved_ns = rqp->roce->now_ns;
	home->sent++;
	home->is_parked = false;
	home->is_inside = is_message(packet->info) && !opcode_ends_message(packet->info);
	rqp->rx.psn = psn_after(rqp, packet);
	roce_count(rqp->roce, ROCE_RELAYED);
	return VERDICT_RELAYED;
}

/* A message is executed where it began, whatever its later packets name: there it is found wrong if they differ. */
static uint32_t owner_of(const struct roce_qp *rqp, const struct packet *packet)
{
	const struct relay_home *home = rqp->rx.home;

	if (home->is_inside)
		return home->owner;
	return rqp->rx.is_inside ? rqp->roce->engine->slot : relay_slot_of(packet->xrc_srqn);
}

static void park(struct roce_qp *rqp, const struct packet *packet)
{
	struct relay_home *home = rqp->rx.home;

	home->is_parked = true;
	/* One that tries again has waited since it came. */
	if (!relay_is_settled(home) || home->parked_psn == packet->psn)
		return;
	home->parked_psn = packet->psn;
	home->moved_ns = rqp->roce->now_ns;
}

enum verdict relay_route(struct roce_qp *rqp, const struct packet *packet)
{
	struct relay_home *home = rqp->rx.home;
	uint32_t slot = owner_of(rqp, packet);

	if (!relay_is_settled(home) && slot != home->owner) {
		park(rqp, packet);
		return VERDICT_PARKED;
	}
	if (slot == rqp->roce->engine->slot) {
		home->is_parked = false;
		return VERDICT_ACCEPTED;
	}
	park(rqp, packet);
	return pass_on(rqp, slot, packet);
}

uint32_t relay_awaited_psn(const struct roce_qp *rqp)
{
	const struct relay_home *home = rqp->rx.home;

	return relay_is_settled(home) ? rqp->rx.psn : home->done_psn;
}

void relay_home_excuse(struct roce_qp *rqp, const struct packet *packet)
{
	struct relay_home *home = rqp->rx.home;

	if ((relay_is_settled(home) && !home->is_parked) ||
	    psn_is_after(packet->psn, rqp->rx.psn) ||
	    rqp->roce->now_ns - home->moved_ns < SILENCE_NS)
		return;
	home->owes_excuse = true;
	answer_owe(rqp);
}

bool relay_is_foreign(const struct roce_qp *rqp, const struct packet *packet)
{
	return rqp->rx.home && packet->info->has_xrceth &&
	       relay_slot_of(packet->xrc_srqn) != rqp->roce->engine->slot;
}

enum verdict relay_replay(struct roce_qp *rqp, const struct packet *packet)
{
	uint32_t slot = relay_slot_of(packet->xrc_srqn);
	const struct relay_msg msg = {
		.kind = RELAY_REPLAY,
		.qpn = rqp->qp->qpn,
		.run = rqp->rx.home->run,
		.psn = packet->psn,
		.msn = rqp->rx.msn,
	};

	/* Not beyond what was asked for in turn. */
	if (psn_is_after(psn_after(rqp, packet), rqp->rx.psn) ||
	    !is_in(rqp->rx.home->attached, slot) || say_packet(rqp, slot, &msg, packet))
		return VERDICT_STALE;
	return VERDICT_REPLAY;
}

void relay_learn(struct roce_qp *rqp, const struct packet *packet)
{
	if (!psn_is_before(packet->psn, rqp->rx.psn) &&
	    psn_is_before(packet->psn, rqp->rx.home->lost_psn))
		rqp->rx.psn = packet->psn;
}

/* What had to wait for the run's end may go on. */
static void end_run(struct roce_qp *rqp)
{
	struct relay_home *home = rqp->rx.home;

	home->done = home->sent;
	home->owes_excuse = false;
	if (rqp->rx.owes_ack || rqp->rx.owes_nak != VERDICT_ACCEPTED)
		answer_owe(rqp);
	if (home->is_parked)
		roce_responder_resume(rqp);
}

/* The owner turned the requester away, and told it so: it will come again from there. */
static void take_not_ready(struct roce_qp *rqp, const struct relay_msg *msg)
{
	struct relay_home *home = rqp->rx.home;

	rqp->rx.psn = msg->psn;
	rqp->rx.has_nakd = true;
	kept_drop_all(rqp);
	home->is_inside = msg->is_inside;
	home->is_parked = false;
	end_run(rqp);
}

static void fail(struct roce_qp *rqp, uint32_t psn, enum verdict verdict)
{
	rqp->rx.psn = psn;
	rqp->rx.home->done = rqp->rx.home->sent;
	roce_responder_refuse(rqp, verdict);
}

/* Whether the owner speaks of what it was given. */
static bool is_of_run(const struct roce_qp *rqp, const struct relay_msg *msg)
{
	const struct relay_home *home = rqp->rx.home;

	return msg->run == home->run && msg->serial - home->done - 1 < home->sent - home->done &&
	       !psn_is_before(msg->psn, home->first_psn) && !psn_is_after(msg->psn, rqp->rx.psn) &&
	       msg->psn <= PSN_MASK && msg->verdict < VERDICT_COUNT;
}

void relay_home_report(struct roce *roce, uint32_t slot, const struct relay_msg *msg)
{
	struct qp *qp = qp_find(roce->engine, msg->qpn);
	struct roce_qp *rqp;

	if (!qp || qp->transport != &roce_transport || !roce_qp_of(qp)->rx.home)
		return;
	rqp = roce_qp_of(qp);
	if (rqp->rx.home->owner != slot || !is_of_run(rqp, msg))
		return;
	rqp->rx.msn = msg->msn & PSN_MASK;
	rqp->rx.home->moved_ns = roce->now_ns;
	if (verdict_row((enum verdict)msg->verdict)->errs_qp) {
		fail(rqp, msg->psn, (enum verdict)msg->verdict);
		return;
	}
	if (msg->verdict == VERDICT_RNR) {
		take_not_ready(rqp, msg);
		return;
	}
	rqp->rx.home->done = msg->serial;
	rqp->rx.home->done_psn = msg->psn;
	if (relay_is_settled(rqp->rx.home))
		end_run(rqp);
}

void relay_home_room(struct roce_qp *rqp)
{
	if (rqp->rx.home->is_parked)
		roce_responder_resume(rqp);
}

/* What it had of the QP's is lost, and whether the requester was told is not known. */
static void lose_owner(struct roce_qp *rqp)
{
	rqp->rx.home->lost_psn = rqp->rx.psn;
	fail(rqp, rqp->rx.home->done_psn, VERDICT_OWNER);
}

void relay_home_gone(struct roce *roce, uint32_t slot)
{
	struct relay_home *home, *tmp;

	list_for_each_entry_safe(home, tmp, &roce->relay.homes, node) {
		bool has_some = !relay_is_settled(home) || home->is_inside;

		take_out(home->attached, slot);
		take_out(home->told, slot);
		if (has_some && home->owner == slot)
			lose_owner(home->rqp);
	}
}
