/* SPDX-License-Identifier: BSD-2-Clause */
/* The QPs of the shared-memory transport in a trace, and the PSNs of their messages. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/list.h"
#include "base/util.h"
#include "local/ring.h"
#include "synth_private.h"
#include "wire/psn.h"

#define DEFAULT_MTU_BYTES 1024u

static uint64_t flow_hash(uint32_t qpn)
{
	return hash_mix(1, qpn);
}

struct flow *flow_find(struct synth *synth, uint32_t qpn)
{
	struct hash_node *node;

	hash_for_each(node, &synth->flows, flow_hash(qpn))
	{
		struct flow *flow = container_of(node, struct flow, node);

		if (flow->qpn == qpn)
			return flow;
	}
	return NULL;
}

/* The addresses of a QP whose path is unknown: those of its peer, or loopback addresses. */
static void guess_path(struct synth *synth, struct flow *flow)
{
	static const uint8_t loopback[GID_BYTES] = {[10] = 0xff, [11] = 0xff, 127, 0, 0, 1};
	const struct flow *peer = flow_find(synth, flow->remote_qpn);

	if (peer && peer->has_path) {
		memcpy(flow->local_gid, peer->remote_gid, GID_BYTES);
		memcpy(flow->remote_gid, peer->local_gid, GID_BYTES);
		flow->mtu_bytes = peer->mtu_bytes;
		flow->qp_type = peer->qp_type;
		return;
	}
	memcpy(flow->local_gid, loopback, GID_BYTES);
	memcpy(flow->remote_gid, loopback, GID_BYTES);
}

struct flow *flow_get(struct synth *synth, uint32_t qpn, uint32_t remote_qpn)
{
	struct flow *flow = flow_find(synth, qpn);

	if (flow)
		return flow;
	if (synth->flow_count >= FLOWS_MAX)
		return NULL;
	flow = calloc(1, sizeof(*flow));
	if (!flow)
		return NULL;
	flow->qpn = qpn;
	flow->remote_qpn = remote_qpn;
	flow->mtu_bytes = DEFAULT_MTU_BYTES;
	flow->hop_limit = 64;
	flow->response_ssn = UINT32_MAX;
	guess_path(synth, flow);
	hash_add(&synth->flows, &flow->node, flow_hash(qpn));
	synth->flow_count++;
	return flow;
}

void flow_set_owner(struct flow *flow, const struct trace_record *record)
{
	flow->is_traced = true;
	if (flow->pid == record->pid)
		return;
	flow->pid = record->pid;
	snprintf(flow->program, sizeof(flow->program), "%s", record->program);
	snprintf(flow->device, sizeof(flow->device), "%s", record->device);
}

void flow_set_path(struct flow *flow, const struct trace_qp_path *path)
{
	bool has_one_family = gid_is_ipv4(path->local_gid) == gid_is_ipv4(path->remote_gid);

	flow->remote_qpn = path->remote_qpn;
	flow->has_path = has_one_family;
	if (has_one_family) {
		memcpy(flow->local_gid, path->local_gid, GID_BYTES);
		memcpy(flow->remote_gid, path->remote_gid, GID_BYTES);
	}
	if (path->mtu_bytes >= 256 && path->mtu_bytes <= PACKET_PAYLOAD_MAX)
		flow->mtu_bytes = path->mtu_bytes;
	flow->qp_type = path->qp_type;
	flow->traffic_class = path->traffic_class;
	flow->hop_limit = path->hop_limit ? path->hop_limit : 64;
	if (flow->is_numbered)
		return;
	flow->next_psn = path->sq_psn & PSN_MASK;
	flow->first_ssn = ring_first_ssn(flow->next_psn);
	flow->has_first_ssn = true;
}

void flow_remove(struct synth *synth, uint32_t qpn)
{
	struct flow *flow = flow_find(synth, qpn);

	if (!flow)
		return;
	hash_del(&synth->flows, &flow->node);
	synth->flow_count--;
	free(flow);
}

void flow_remove_all(struct synth *synth)
{
	for (uint32_t i = 0; i <= synth->flows.mask; i++) {
		while (synth->flows.buckets[i]) {
			struct flow *flow = container_of(synth->flows.buckets[i], struct flow,
							 node);

			hash_del(&synth->flows, &flow->node);
			free(flow);
		}
	}
}

uint32_t flow_packets_of(const struct flow *flow, uint32_t length_bytes)
{
	/* 64 bits: the length is an arbitrary number. */
	uint64_t packets = ((uint64_t)length_bytes + flow->mtu_bytes - 1) / flow->mtu_bytes;

	return packets ? (uint32_t)packets : 1;
}

static struct flow_message flow_number(struct flow *flow, uint32_t packets)
{
	struct flow_message message = {
		.psn = flow->next_psn,
		.packets = packets,
		.msn = ++flow->msn & PSN_MASK,
	};

	flow->is_numbered = true;
	flow->next_psn = psn_add(flow->next_psn, packets);
	return message;
}

struct flow_message *flow_message_of(struct flow *flow, uint32_t ssn)
{
	struct flow_message *message = &flow->messages[ssn % FLOW_MESSAGES];

	return message->packets && message->ssn == ssn ? message : NULL;
}

struct flow_message *flow_begin(struct flow *flow, uint32_t ssn, uint32_t packets,
				uint32_t length_bytes)
{
	struct flow_message *message = flow_message_of(flow, ssn);

	if (message && message->length_bytes == length_bytes)
		return message;
	/* A trace that began after the QP: each message before is counted as one packet. */
	if (!flow->is_numbered && flow->has_first_ssn) {
		flow->next_psn = psn_add(flow->next_psn, ssn - flow->first_ssn);
		flow->msn = ssn - flow->first_ssn;
	}
	message = &flow->messages[ssn % FLOW_MESSAGES];
	*message = flow_number(flow, packets);
	message->ssn = ssn;
	message->length_bytes = length_bytes;
	return message;
}

struct flow_message flow_begin_unnumbered(struct flow *flow, uint32_t packets)
{
	return flow_number(flow, packets);
}
