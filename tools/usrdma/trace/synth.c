/* SPDX-License-Identifier: BSD-2-Clause */
#include "synth.h"

#include <infiniband/verbs.h>
#include <stdlib.h>
#include <string.h>

#include "synth_private.h"
#include "wire/mad.h"
#include "wire/psn.h"

struct synth *synth_open(void)
{
	struct synth *synth = calloc(1, sizeof(*synth));

	if (synth && hash_init(&synth->flows)) {
		free(synth);
		return NULL;
	}
	return synth;
}

void synth_close(struct synth *synth)
{
	if (!synth)
		return;
	flow_remove_all(synth);
	hash_fini(&synth->flows);
	free(synth);
}

/*
 * The hash of a packet or MAD with its direction; equal at the sender and at the receiver. Not 0.
 */
static uint64_t packet_hash(const struct trace_packet *packet, bool is_sent)
{
	const uint8_t *src = is_sent ? packet->local_gid : packet->remote_gid;
	const uint8_t *dst = is_sent ? packet->remote_gid : packet->local_gid;
	uint64_t hash = packet->wire_bytes, word;

	for (size_t i = 0; i < GID_BYTES; i += sizeof(word)) {
		memcpy(&word, src + i, sizeof(word));
		hash = hash_mix(hash, word);
		memcpy(&word, dst + i, sizeof(word));
		hash = hash_mix(hash, word);
	}
	for (size_t i = 0; i + sizeof(word) <= packet->captured_bytes; i += sizeof(word)) {
		memcpy(&word, packet->bytes + i, sizeof(word));
		hash = hash_mix(hash, word);
	}
	return hash | 1;
}

/* Whether the receiver's event repeats a packet of the trace. */
static bool is_repetition(struct synth *synth, const struct trace_packet *packet, bool is_sent)
{
	uint64_t hash = packet_hash(packet, is_sent);
	uint64_t *slot = &synth->recent[(hash >> 1) % SYNTH_RECENT];

	if (is_sent) {
		*slot = hash;
		return false;
	}
	if (*slot != hash)
		return false;
	*slot = 0;
	return true;
}

static int put_network_packet(struct synth *synth, const struct trace_record *record)
{
	const struct trace_packet *packet = &record->event.packet;
	struct trace_record copy = *record;

	if (packet->captured_bytes > sizeof(packet->bytes) ||
	    packet->captured_bytes > packet->wire_bytes || packet->captured_bytes < BTH_BYTES ||
	    gid_is_ipv4(packet->local_gid) != gid_is_ipv4(packet->remote_gid) ||
	    is_repetition(synth, packet, record->event.type == TRACE_PACKET_SENT))
		return 0;
	return synth->put(synth->ctx, &copy, NULL);
}

static int put_mad(struct synth *synth, const struct trace_record *record)
{
	bool is_sent = record->event.type == TRACE_MAD_SENT;
	const struct trace_packet *mad = &record->event.packet;
	struct packet packet = {
		.opcode = OPCODE(UD, SEND_ONLY),
		.dest_qpn = MAD_QPN,
		.src_qpn = MAD_QPN,
		.qkey = MAD_QKEY,
	};

	if (mad->captured_bytes != MAD_BYTES ||
	    gid_is_ipv4(mad->local_gid) != gid_is_ipv4(mad->remote_gid) ||
	    is_repetition(synth, mad, is_sent))
		return 0;
	packet.psn = synth->mad_psn;
	synth->mad_psn = psn_next(synth->mad_psn);
	return synth_emit_datagram(synth, is_sent ? record : NULL,
				   is_sent ? mad->local_gid : mad->remote_gid,
				   is_sent ? mad->remote_gid : mad->local_gid, mad->traffic_class,
				   mad->hop_limit, &packet,
				   (struct synth_payload){mad->bytes, MAD_BYTES, MAD_BYTES});
}

static void take_path(struct synth *synth, const struct trace_record *record)
{
	const struct trace_qp_path *path = &record->event.qp_path;
	struct flow *flow;

	if (path->qp_type != IBV_QPT_RC && path->qp_type != IBV_QPT_UC)
		return;
	flow = flow_get(synth, record->event.qpn, path->remote_qpn);
	if (!flow)
		return;
	flow_set_owner(flow, record);
	flow_set_path(flow, path);
}

int synth_put(struct synth *synth, const struct trace_record *record, synth_put_packet *put,
	      void *ctx)
{
	const struct trace_event *event = &record->event;

	synth->record = record;
	synth->put = put;
	synth->ctx = ctx;
	switch (event->type) {
	case TRACE_PACKET_SENT:
	case TRACE_PACKET_RECEIVED:
		return put_network_packet(synth, record);
	case TRACE_MAD_SENT:
	case TRACE_MAD_RECEIVED:
		return put_mad(synth, record);
	case TRACE_FIFO_SENT:
	case TRACE_FIFO_RECEIVED:
		return synth_fifo(synth, record);
	case TRACE_ONE_SIDED:
		return synth_one_sided(synth, record);
	case TRACE_QP_PATH:
		take_path(synth, record);
		return 0;
	case TRACE_QP_STATE:
		if (event->state.to == IBV_QPS_RESET)
			flow_remove(synth, event->qpn);
		return 0;
	default:
		return 0;
	}
}

static int filter_packet_put(void *ctx, const struct trace_record *packet, const char *note)
{
	struct synth_filter *filter = ctx;

	(void)note;
	return filter->next.put(filter->next.ctx, packet);
}

static int synth_filter_put(void *ctx, const struct trace_record *record)
{
	struct synth_filter *filter = ctx;

	switch (record->event.type) {
	case TRACE_FIFO_SENT:
	case TRACE_FIFO_RECEIVED:
	case TRACE_ONE_SIDED:
		return synth_put(filter->synth, record, filter_packet_put, filter);
	case TRACE_QP_PATH:
	case TRACE_QP_STATE:
		(void)synth_put(filter->synth, record, filter_packet_put, filter);
		break;
	default:
		break;
	}
	return filter->next.put(filter->next.ctx, record);
}

static int synth_filter_end(void *ctx)
{
	struct synth_filter *filter = ctx;

	return filter->next.end(filter->next.ctx);
}

struct trace_out synth_filter_out(struct synth_filter *filter)
{
	return (struct trace_out){.put = synth_filter_put, .end = synth_filter_end, .ctx = filter};
}
