/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_RSOCKET_SPIN_H
#define USRDMA_RSOCKET_SPIN_H

#include <stdbool.h>
#include <stdint.h>

/*
 * How long a call polls before its thread sleeps. At least the configured time (`polling_time` of rsocket(7)); a thread whose last
 * waits ended soon polls for about as long as a wake-up takes. After polls without success, only some waits poll longer, as in
 * ibv_get_cq_event() (docs/adr/0045).
 */
struct spin {
	uint64_t start_ns;
	uint64_t limit_ns;
	bool is_long;
};

/* Begins a wait of this thread. */
void spin_begin(struct spin *spin, uint64_t now_ns);

/* After a look without success: whether to look again. */
bool spin_continue(const struct spin *spin, uint64_t now_ns);

/* The wait has ended while it polled. Not called if spin_continue() returned false. */
void spin_succeed(const struct spin *spin);

#endif
