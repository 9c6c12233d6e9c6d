/* SPDX-License-Identifier: BSD-2-Clause */
#include <stdlib.h>
#include <string.h>

#include "roce/qp.h"

/*
 * Requests that came ahead of a gap. The requester is told of the gap and will send them again, so they could be
 * dropped, and a NIC does. They are kept instead, unexecuted, and have their turn when the gap is filled; what is sent
 * again of them then is a duplicate, acknowledged as one. To the requester it looks as if its packets had been late,
 * not lost: an ACK for more than it had begun to send again is what it also sees when ACKs were lost before (IBA 1.x
 * §9.7.5.1).
 */

/* For all QPs of the process together. */
#define KEPT_BYTES_MAX ((size_t)16 << 20)

static size_t bytes_of(const struct packet *packet)
{
	return sizeof(struct kept_packet) + packet->payload_bytes;
}

static struct kept_packet **slot_of(const struct roce_qp *rqp, uint32_t psn)
{
	return &rqp->rx.kept[psn % KEPT_PSNS];
}

void kept_free(struct roce_qp *rqp, struct kept_packet *kept)
{
	rqp->roce->kept_bytes -= bytes_of(&kept->packet);
	free(kept);
}

static struct kept_packet *take(struct roce_qp *rqp, uint32_t psn)
{
	struct kept_packet *kept = *slot_of(rqp, psn);

	*slot_of(rqp, psn) = NULL;
	rqp->rx.kept_count--;
	return kept;
}

/* One whose PSN has been passed: a READ took it as a response's. */
static void drop_passed(struct roce_qp *rqp, uint32_t psn)
{
	const struct kept_packet *kept = *slot_of(rqp, psn);

	if (kept && psn_is_before(kept->packet.psn, rqp->rx.psn))
		kept_free(rqp, take(rqp, psn));
}

static bool has_room(struct roce_qp *rqp, const struct packet *packet)
{
	if (psn_sub(packet->psn, rqp->rx.psn) >= KEPT_PSNS ||
	    rqp->roce->kept_bytes + bytes_of(packet) > KEPT_BYTES_MAX)
		return false;
	if (!rqp->rx.kept)
		rqp->rx.kept = calloc(KEPT_PSNS, sizeof(struct kept_packet *));
	if (!rqp->rx.kept)
		return false;
	drop_passed(rqp, packet->psn);
	return !*slot_of(rqp, packet->psn);
}

void kept_add(struct roce_qp *rqp, const struct packet *packet)
{
	struct kept_packet *kept;

	if (!has_room(rqp, packet))
		return;
	kept = malloc(bytes_of(packet));
	if (!kept)
		return;
	kept->packet = *packet;
	kept->packet.payload = kept->payload;
	if (packet->payload_bytes)
		memcpy(kept->payload, packet->payload, packet->payload_bytes);
	*slot_of(rqp, packet->psn) = kept;
	rqp->rx.kept_count++;
	rqp->roce->kept_bytes += bytes_of(packet);
	roce_count(rqp->roce, ROCE_KEPT);
}

struct kept_packet *kept_take(struct roce_qp *rqp)
{
	const struct kept_packet *kept;

	if (!rqp->rx.kept_count)
		return NULL;
	kept = *slot_of(rqp, rqp->rx.psn);
	return kept && kept->packet.psn == rqp->rx.psn ? take(rqp, rqp->rx.psn) : NULL;
}

bool kept_has_later(struct roce_qp *rqp)
{
	for (uint32_t i = 0; i < KEPT_PSNS && rqp->rx.kept_count; i++)
		drop_passed(rqp, i);
	return rqp->rx.kept_count > 0;
}

void kept_drop_all(struct roce_qp *rqp)
{
	for (uint32_t i = 0; i < KEPT_PSNS && rqp->rx.kept_count; i++) {
		if (*slot_of(rqp, i))
			kept_free(rqp, take(rqp, i));
	}
}
