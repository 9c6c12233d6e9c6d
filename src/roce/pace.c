/* SPDX-License-Identifier: BSD-2-Clause */
#include "roce/pace.h"

#include <string.h>

void pace_init(struct pace *pace, uint32_t window_pkts)
{
	uint32_t limited = window_pkts < PACE_WINDOW_MAX_PKTS ? window_pkts : PACE_WINDOW_MAX_PKTS;

	memset(pace, 0, sizeof(*pace));
	pace->window_pkts = limited < PACE_ASKS ? PACE_ASKS : limited - limited % PACE_ASKS;
}

static void pace_time_out(struct pace *pace)
{
	pace->timeouts++;
	if (pace->state == PACE_UNKNOWN || pace->timeouts >= PACE_TIMEOUTS)
		pace->state = PACE_FREE;
	pace->acked_pkts = pace->sent_pkts;
	pace->blocked_ns = 0;
}

bool pace_may_send(struct pace *pace, uint64_t now_ns, uint64_t *retry_ns)
{
	if (pace->state == PACE_FREE || pace->sent_pkts - pace->acked_pkts < pace->window_pkts)
		return true;
	if (!pace->blocked_ns)
		pace->blocked_ns = now_ns ? now_ns : 1;
	*retry_ns = pace->blocked_ns + PACE_TIMEOUT_NS;
	if (now_ns < *retry_ns)
		return false;
	pace_time_out(pace);
	return true;
}

bool pace_on_send(struct pace *pace, uint32_t psn)
{
	pace->sent_pkts++;
	pace->blocked_ns = 0;
	if (pace->sent_pkts % (pace->window_pkts / PACE_ASKS))
		return false;
	if (pace->asks_head - pace->asks_tail == PACE_ASKS)
		pace->asks_tail++;
	pace->asks[pace->asks_head % PACE_ASKS].psn = psn;
	pace->asks[pace->asks_head++ % PACE_ASKS].sent_pkts = pace->sent_pkts;
	return true;
}

bool pace_on_ack(struct pace *pace, uint32_t psn)
{
	for (uint32_t i = pace->asks_tail; i != pace->asks_head; i++) {
		uint32_t sent_pkts = pace->asks[i % PACE_ASKS].sent_pkts;

		if (pace->asks[i % PACE_ASKS].psn != psn)
			continue;
		/* After a timeout, acked_pkts may be beyond this packet. */
		if ((int32_t)(sent_pkts - pace->acked_pkts) > 0)
			pace->acked_pkts = sent_pkts;
		pace->asks_tail = i + 1;
		pace->state = PACE_WINDOW;
		pace->timeouts = 0;
		pace->blocked_ns = 0;
		return true;
	}
	return false;
}
