/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/report/counters.h"

#include <assert.h>
#include <stdio.h>

#include "roce/roce.h"

#define SHOWN_NAME_BYTES 64

static const char *const counter_names[] = {
	[ROCE_PACKETS_SENT] = "packets sent",
	[ROCE_PACKETS_RESENT] = "packets sent again",
	[ROCE_PACKETS_RECEIVED] = "packets received",
	[ROCE_BACK_PRESSURE] = "waits for the socket",
	[ROCE_TIMEOUTS] = "timeouts",
	[ROCE_DUPLICATES] = "duplicate requests",
	[ROCE_OUT_OF_ORDER] = "out-of-order packets buffered",
	[ROCE_SENT_AHEAD] = "packets sent ahead of others",
	[ROCE_RECEIVED_AHEAD] = "packets buffered that were sent ahead",
	[ROCE_SEQUENCE_NAKS_SENT] = "sequence naks sent",
	[ROCE_SEQUENCE_NAKS_RECEIVED] = "sequence naks received",
	[ROCE_RNR_NAKS_SENT] = "rnr naks sent",
	[ROCE_RNR_NAKS_RECEIVED] = "rnr naks received",
	[ROCE_CONGESTION_MARKS] = "packets marked for congestion",
	[ROCE_CONGESTION_NOTICES] = "congestion notices received",
	[ROCE_QP_ERRORS] = "queue pair errors",
	[ROCE_DROPPED_UNPARSABLE] = "dropped: malformed",
	[ROCE_DROPPED_UNKNOWN_QPN] = "dropped: unknown qpn",
	[ROCE_DROPPED_QP_STATE] = "dropped: queue pair not ready",
	[ROCE_DROPPED_ADDRESS] = "dropped: wrong address",
	[ROCE_DROPPED_PKEY] = "dropped: wrong p_key",
	[ROCE_DROPPED_OPCODE] = "dropped: opcode of another service",
	[ROCE_DROPPED_RESPONSE] = "dropped: response to nothing",
	[ROCE_DROPPED_QKEY] = "dropped: wrong q_key",
	[ROCE_DROPPED_NO_RECV] = "dropped: no receive",
	[ROCE_DROPPED_RECV_TOO_SHORT] = "dropped: receive too short",
	[ROCE_DROPPED_BAD_RECV] = "dropped: bad receive",
	[ROCE_DATAGRAMS_LOST] = "datagrams without a way out",
	[ROCE_DROPPED_SEQUENCE] = "dropped: out of sequence",
	[ROCE_DROPPED_STALE] = "dropped: stale duplicate",
	[ROCE_DROPPED_SIZE] = "dropped: wrong length",
	[ROCE_DROPPED_ACCESS] = "dropped: access not permitted",
	[ROCE_INVALID_NAKS_SENT] = "invalid request naks sent",
	[ROCE_ACCESS_NAKS_SENT] = "remote access naks sent",
	[ROCE_OPERATION_NAKS_SENT] = "remote operation naks sent",
	[ROCE_FATAL_NAKS_RECEIVED] = "fatal naks received",
	[ROCE_BAD_RESPONSES] = "bad responses",
	[ROCE_XRC_FORWARDED] = "xrc requests forwarded",
	[ROCE_XRC_RECEIVED] = "forwarded xrc requests received",
	[ROCE_VENDOR_ACKS_SENT] = "uc and ud window acks sent",
	[ROCE_VENDOR_ACKS_RECEIVED] = "uc and ud window acks received",
	[ROCE_PACE_TIMEOUTS] = "uc and ud window timeouts",
};
static_assert(sizeof(counter_names) / sizeof(counter_names[0]) == ROCE_COUNTER_COUNT,
	      "every counter has its name");

const char *roce_counter_name(enum roce_counter counter)
{
	return (unsigned int)counter < ROCE_COUNTER_COUNT ? counter_names[counter] : "unknown";
}

void roce_open_counters(struct roce *roce)
{
	const char *names[ROCE_ALL_COUNTERS] = {0};
	char causes[PACKET_REASON_COUNT][SHOWN_NAME_BYTES];

	for (int i = 0; i < ROCE_COUNTER_COUNT; i++)
		names[i] = counter_names[i];
	for (int i = PACKET_OK + 1; i < PACKET_REASON_COUNT; i++) {
		snprintf(causes[i], sizeof(causes[i]), "malformed: %s",
			 packet_reason_name((enum packet_reason)i));
		names[ROCE_COUNTER_COUNT + i] = causes[i];
	}
	roce->counters = counters_register(roce->engine, "roce", names, ROCE_ALL_COUNTERS,
					   roce->unshown);
	roce->unparsable = roce->counters + ROCE_COUNTER_COUNT;
}
