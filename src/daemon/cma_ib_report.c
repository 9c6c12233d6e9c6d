/* SPDX-License-Identifier: BSD-2-Clause */
#include <stdio.h>

#include "daemon/cma_ib.h"
#include "daemon/control_counters.h"

/* The counters of the InfiniBand CM and of QP1 in the report of `usrdma status`. */

#define REASON_BYTES 64

static json_object *describe_mads(const uint64_t counts[CM_MSG_COUNT])
{
	json_object *out = json_object_new_object();

	for (unsigned i = 0; i < CM_MSG_COUNT; i++) {
		if (counts[i])
			json_object_object_add(out, cm_msg_name((enum cm_msg_type)i),
					       json_object_new_uint64(counts[i]));
	}
	return out;
}

static void count_wire(json_object *to, const struct gsi_wire_counters *counters)
{
	char words[REASON_BYTES];

	for (unsigned i = 0; i < GSI_WIRE_COUNTER_COUNT; i++)
		control_counters_add(to, "gsi", gsi_wire_counter_name((enum gsi_wire_counter)i),
				     counters->counts[i]);
	for (unsigned i = PACKET_OK + 1; i < PACKET_REASON_COUNT; i++) {
		snprintf(words, sizeof(words), "malformed: %s",
			 packet_reason_name((enum packet_reason)i));
		control_counters_add(to, "gsi", words, counters->malformed[i]);
	}
}

static void count_gsi(json_object *to, const struct gsi *gsi)
{
	control_counters_add(to, "gsi", "mads looped", gsi->looped);
	control_counters_add(to, "gsi", "dropped: queue full", gsi->dropped);
	if (gsi->wire)
		count_wire(to, gsi_wire_counters(gsi->wire));
}

static void count_cm(json_object *to, const struct cm_counters *cm)
{
	char words[REASON_BYTES];

	control_counters_add(to, "cm", "messages resent", cm->resent);
	control_counters_add(to, "cm", "messages unsent", cm->unsent);
	control_counters_add(to, "cm", "requests turned away", cm->turned_away);
	control_counters_add(to, "cm", "connections shortened", cm->shortened);
	control_counters_add(to, "cm", "challenges sent", cm->challenges);
	control_counters_add(to, "cm", "address challenges sent", cm->address_challenges);
	control_counters_add(to, "cm", "messages withheld", cm->withheld);
	control_counters_add(to, "cm", "requests unreachable", cm->unreachable);
	control_counters_add(to, "cm", "dropped: stray", cm->strays);
	for (unsigned i = CM_FAULT_NONE + 1; i < CM_FAULT_COUNT; i++) {
		snprintf(words, sizeof(words), "malformed: %s",
			 cm_msg_fault_name((enum cm_msg_fault)i));
		control_counters_add(to, "cm", words, cm->malformed[i]);
	}
}

void cma_ib_report(const struct cma_cm *base, json_object *out, json_object *counters)
{
	const struct cma_ib *ib = cma_ib_of(base);
	const struct cm_counters *cm = cm_counters(ib->cm);

	json_object_object_add(out, "cm_connections",
			       json_object_new_uint64(cm_conn_count(ib->cm)));
	json_object_object_add(out, "cm_resolutions",
			       json_object_new_uint64(cm_sidr_count(ib->cm)));
	json_object_object_add(out, "mads_sent", describe_mads(cm->sent));
	json_object_object_add(out, "mads_received", describe_mads(cm->received));
	count_gsi(counters, &ib->gsi);
	count_cm(counters, cm);
}
