/* SPDX-License-Identifier: BSD-2-Clause */
#include "roce/cc.h"

/*
 * NewReno as in RFC 9002 §7, counted in packets: slow start up to ssthresh, then one packet per
 * round trip; half the window after a loss or a congestion mark, once per recovery period; the
 * minimum window after a timeout. Each loss counts as congestion. This algorithm is for comparison
 * with cc_westwood.c, and a simple example of an algorithm.
 */
#define LOSS_REDUCTION_PERCENT 50u
#define GAIN_PKTS	       1u

static void newreno_on_ack(struct cc *cc, const struct cc_conn *conn, uint32_t acked_pkts)
{
	cc_update_recovery(cc, conn);
	if (!cc->is_in_recovery)
		cc_grow(cc, acked_pkts, GAIN_PKTS, conn->max_cwnd_pkts);
}

static void newreno_reduce(struct cc *cc, const struct cc_conn *conn)
{
	cc_enter_recovery(cc, conn, LOSS_REDUCTION_PERCENT, CC_MIN_PKTS);
}

static void newreno_on_ecn(struct cc *cc, const struct cc_conn *conn)
{
	cc_enter_recovery(cc, conn, LOSS_REDUCTION_PERCENT, CC_MIN_MARKED_PKTS);
}

/* Persistent congestion (RFC 9002 §7.6.2): slow start restarts at once. */
static void newreno_on_rto(struct cc *cc, const struct cc_conn *conn)
{
	cc_enter_recovery(cc, conn, LOSS_REDUCTION_PERCENT, CC_MIN_PKTS);
	cc_reduce_to(cc, 0, CC_MIN_PKTS);
	cc->is_in_recovery = false;
}

const struct cc_ops cc_newreno = {
	.name = "newreno",
	.on_ack = newreno_on_ack,
	.on_loss = newreno_reduce,
	.on_rto = newreno_on_rto,
	.on_ecn = newreno_on_ecn,
};
