/* SPDX-License-Identifier: BSD-2-Clause */
#include "roce/cc.h"

#include <stdio.h>
#include <string.h>

#include "base/util.h"
#include "wire/psn.h"

/*
 * Space that a packet uses in a socket's receive buffer besides its payload: headers and the
 * kernel's accounting.
 */
#define PACKET_OVERHEAD_BYTES 256u

static const struct cc_ops *const algorithms[] = {&cc_westwood, &cc_newreno};

const struct cc_ops *cc_find(const char *name)
{
	for (size_t i = 0; i < COUNT(algorithms); i++) {
		if (!strcmp(algorithms[i]->name, name))
			return algorithms[i];
	}
	return NULL;
}

void cc_list_names(char *to, unsigned int bytes)
{
	size_t used = 0;

	for (size_t i = 0; i < COUNT(algorithms) && used < bytes; i++)
		used += (size_t)snprintf(to + used, bytes - used, "%s%s", i ? ", " : "",
					 algorithms[i]->name);
}

void cc_init(struct cc *cc, const struct cc_ops *ops)
{
	*cc = (struct cc){
		.ops = ops,
		.cwnd_pkts = CC_INITIAL_PKTS,
		.ssthresh_pkts = CC_MAX_PKTS,
	};
}

void cc_on_rtt_sample(struct cc *cc, uint64_t rtt_ns)
{
	if (cc->ops->on_rtt_sample)
		cc->ops->on_rtt_sample(cc, rtt_ns);
}

uint32_t cc_max_cwnd_pkts(uint32_t rx_bytes, uint32_t mtu_bytes)
{
	uint32_t pkts = rx_bytes / (mtu_bytes + PACKET_OVERHEAD_BYTES);

	if (!rx_bytes || pkts > CC_MAX_PKTS)
		return CC_MAX_PKTS;
	return pkts < CC_MIN_PKTS ? CC_MIN_PKTS : pkts;
}

void cc_reduce_to(struct cc *cc, uint32_t pkts, uint32_t floor_pkts)
{
	if (pkts < floor_pkts)
		pkts = floor_pkts;
	if (cc->cwnd_pkts > pkts)
		cc->cwnd_pkts = pkts;
}

bool cc_enter_recovery(struct cc *cc, const struct cc_conn *conn, uint32_t percent,
		       uint32_t floor_pkts)
{
	if (cc->is_in_recovery)
		return false;
	cc->is_in_recovery = true;
	/*
	 * With nothing in flight the period ends with the next acknowledged packet: each further
	 * CNP is of the same period.
	 */
	cc->recovery_end_psn = conn->una_psn == conn->max_psn ? psn_add(conn->max_psn, 1) :
								conn->max_psn;
	cc_reduce_to(cc, cc->cwnd_pkts * percent / 100, floor_pkts);
	cc->ssthresh_pkts = cc->cwnd_pkts;
	cc->acked_pkts = 0;
	return true;
}

void cc_update_recovery(struct cc *cc, const struct cc_conn *conn)
{
	if (cc->is_in_recovery && !psn_is_before(conn->una_psn, cc->recovery_end_psn))
		cc->is_in_recovery = false;
}

void cc_grow(struct cc *cc, uint32_t acked_pkts, uint32_t gain_pkts, uint32_t limit_pkts)
{
	if (cc->cwnd_pkts >= limit_pkts)
		return;
	if (cc->cwnd_pkts < cc->ssthresh_pkts) {
		cc->cwnd_pkts += acked_pkts;
	} else {
		cc->acked_pkts += acked_pkts;
		if (cc->acked_pkts >= cc->cwnd_pkts) {
			cc->acked_pkts = 0;
			cc->cwnd_pkts += gain_pkts;
		}
	}
	if (cc->cwnd_pkts > limit_pkts)
		cc->cwnd_pkts = limit_pkts;
}
