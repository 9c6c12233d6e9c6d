/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_TOOL_TRACE_SYNTH_PRIVATE_H
#define USRDMA_TOOL_TRACE_SYNTH_PRIVATE_H

#include <stdbool.h>

#include "base/hash.h"
#include "synth.h"
#include "wire/gid.h"
#include "wire/packet.h"

#define FLOW_MESSAGES	1024u /* power of 2 */
#define FLOWS_MAX	4096u
#define FLOW_NAME_BYTES 32

/* The packets of a request. Responses refer to it by its message number. */
struct flow_message {
	uint32_t ssn;
	uint32_t psn;
	uint32_t packets; /* PSNs; 0: unused */
	uint32_t msn;
	uint32_t length_bytes;
};

/*
 * A QP of the shared-memory transport as requester. In synth.flows; freed when the QP is reset, or
 * with the synth.
 */
struct flow {
	struct hash_node node;
	uint32_t qpn;
	uint32_t remote_qpn;
	uint8_t local_gid[GID_BYTES];
	uint8_t remote_gid[GID_BYTES];
	uint32_t mtu_bytes;
	uint8_t qp_type;
	uint8_t traffic_class;
	uint8_t hop_limit;
	bool has_path;
	bool is_traced;	  /* the owner's events are in the trace: the peer's events repeat them */
	bool is_numbered; /* next_psn is valid */
	uint32_t next_psn;
	uint32_t first_ssn; /* of the QP's first message; valid if has_first_ssn */
	bool has_first_ssn;
	uint32_t msn;
	/*
	 * The request whose elements are being sent, and the READ response that is being received.
	 */
	struct flow_message *request;
	uint32_t request_done;
	uint32_t response_ssn;
	uint32_t response_done;
	/* The first bytes of a WRITE with immediate whose data was written before its element. */
	uint16_t placed_bytes;
	uint8_t placed[TRACE_PAYLOAD_BYTES];
	/* The owner. */
	uint32_t pid;
	char program[FLOW_NAME_BYTES];
	char device[FLOW_NAME_BYTES];
	struct flow_message messages[FLOW_MESSAGES];
};

/*
 * Recently sent packets and MADs, by the hash of their bytes. A received packet that is among them
 * is a repetition.
 */
#define SYNTH_RECENT 4096u

struct synth {
	struct hash flows;
	uint32_t flow_count;
	uint64_t recent[SYNTH_RECENT];
	uint32_t mad_psn;
	/* During synth_put(). */
	const struct trace_record *record;
	synth_put_packet *put;
	void *ctx;
};

/* flow.c */
struct flow *flow_find(struct synth *synth, uint32_t qpn);
/* As flow_find(); creates the flow. NULL: FLOWS_MAX, or no memory. */
struct flow *flow_get(struct synth *synth, uint32_t qpn, uint32_t remote_qpn);
void flow_set_owner(struct flow *flow, const struct trace_record *record);
void flow_set_path(struct flow *flow, const struct trace_qp_path *path);
void flow_remove(struct synth *synth, uint32_t qpn);
void flow_remove_all(struct synth *synth);
uint32_t flow_packets_of(const struct flow *flow, uint32_t length_bytes);
/* Assigns PSNs to a message with that number; a retransmitted message keeps its PSNs. */
struct flow_message *flow_begin(struct flow *flow, uint32_t ssn, uint32_t packets,
				uint32_t length_bytes);
/* Assigns PSNs to a message without number: a one-sided operation. */
struct flow_message flow_begin_unnumbered(struct flow *flow, uint32_t packets);
/* NULL: not in the trace. */
struct flow_message *flow_message_of(struct flow *flow, uint32_t ssn);

/* synth_packet.c: the payload of a packet as far as it is known. */
struct synth_payload {
	const uint8_t *bytes;
	uint32_t known_bytes;
	uint32_t bytes_total;
};

/*
 * Passes one packet to synth.put. It is sent by the requester of the flow, or to it if is_response.
 * The members of `packet` that the BTH needs, except the QPN, are set.
 */
int synth_emit(struct synth *synth, const struct flow *flow, bool is_response,
	       struct packet *packet, struct synth_payload payload, const char *note);
/* The same for a datagram, whose addresses are not those of a flow. */
int synth_emit_datagram(struct synth *synth, const struct trace_record *sender,
			const uint8_t src_gid[GID_BYTES], const uint8_t dst_gid[GID_BYTES],
			uint8_t traffic_class, uint8_t hop_limit, struct packet *packet,
			struct synth_payload payload);

/* synth_local.c */
int synth_fifo(struct synth *synth, const struct trace_record *record);
int synth_one_sided(struct synth *synth, const struct trace_record *record);

#endif
