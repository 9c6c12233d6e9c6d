/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/failure_warn.h"

#include "base/clock.h"
#include "core/engine.h"
#include "core/failure.h"

/* One RNR NAK with timer code 0 causes a wait of 655 ms, which is reported. */
#define RNR_WARNING_NS (CLOCK_NS_PER_S / 2)

void failure_warn_rnr(struct qp *qp, uint32_t naks, uint64_t waited_ns, unsigned int timer_code)
{
	struct ipc_failure failure;
	struct engine *engine;

	if (waited_ns < RNR_WARNING_NS || !failure_is_first(qp, IPC_REASON_RNR_WAIT))
		return;
	engine = failure_begin(qp, IPC_FAILURE_WARNING, &failure);
	if (!engine)
		return;
	failure.reason = IPC_REASON_RNR_WAIT;
	failure.numbers[0] = naks;
	failure.numbers[1] = waited_ns;
	failure.min_rnr_timer = (uint8_t)timer_code;
	failure_send(engine, &failure);
}
