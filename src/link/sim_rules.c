/* SPDX-License-Identifier: BSD-2-Clause */
#include "link/sim_rules.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/be.h"
#include "base/fault_set.h"
#include "base/log.h"
#include "wire/opcode.h"

#define WHY_BYTES 200
/* In a BTH (IBA 1.x §9.2.1). */
#define DEST_QPN_OFFSET 5

struct sim_rules {
	struct fault_set *set;
};

struct sim_rules *sim_rules_new(const char *text, uint64_t start_ns)
{
	struct sim_rules *rules = calloc(1, sizeof(*rules));
	char why[WHY_BYTES] = "out of memory";
	char *timed = NULL;
	int error = 0;

	if (rules && asprintf(&timed, "start=%" PRIu64 "\n%s", start_ns ? start_ns : 1, text) >= 0)
		rules->set = fault_set_new(timed, 0, why, sizeof(why), &error);
	free(timed);
	if (rules && rules->set)
		return rules;
	log_user("invalid rules of the simulated network: %s", why);
	free(rules);
	return NULL;
}

void sim_rules_free(struct sim_rules *rules)
{
	if (!rules)
		return;
	fault_set_free(rules->set);
	free(rules);
}

/*
 * The local QPN of the sender. The path of an address handle has none: the DETH, which contains it,
 * follows the BTH.
 */
static uint32_t sim_sender_qpn(const struct sim_passage *passage, const struct opcode_info *info)
{
	if (passage->path->local_qpn || !info || !info->has_deth ||
	    passage->len < BTH_BYTES + DETH_BYTES)
		return passage->path->local_qpn;
	return be_load24(passage->bytes + BTH_BYTES + DETH_BYTES - 3);
}

bool sim_rules_decide(struct sim_rules *rules, const struct sim_passage *passage, uint64_t now_ns,
		      struct fault *fault)
{
	const struct opcode_info *info = passage->len >= BTH_BYTES ?
						 opcode_info(passage->bytes[0]) :
						 NULL;
	struct fault_subject subject = {
		.peer = passage->path->remote_gid,
		.qpn = sim_sender_qpn(passage, info),
		.op = opcode_fault_op(info),
		.bytes = (uint32_t)passage->len,
		.now_ns = now_ns ? now_ns : 1, /* 0 would be the real time */
	};
	struct fault_firing firing;
	bool is_due = fault_set_decide(rules->set, FAULT_PACKET_SEND, &subject, false, NULL, fault,
				       &firing);
	struct fault received;

	/*
	 * A packet that is lost is not received. A packet that was changed passes, but is not
	 * changed again.
	 */
	if (is_due && fault->action == FAULT_DROP)
		return true;
	subject.peer = passage->from_gid;
	subject.qpn = passage->len >= BTH_BYTES ? be_load24(passage->bytes + DEST_QPN_OFFSET) : 0;
	if (fault_set_decide(rules->set, FAULT_PACKET_RECEIVE, &subject, is_due, NULL, &received,
			     &firing)) {
		*fault = received;
		is_due = true;
	}
	return is_due;
}
