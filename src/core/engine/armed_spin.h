/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_CORE_ENGINE_ARMED_SPIN_H
#define USRDMA_CORE_ENGINE_ARMED_SPIN_H

#include <stdint.h>

/*
 * An application that waits for its completion channel with poll(2) or epoll_wait(2) arms the CQ
 * with ibv_req_notify_cq(), and polls it until it is empty, so that it misses no completion. Its
 * thread is then about to sleep. This last poll spins (docs/adr/0065): it runs the transports again
 * and again for a short time, as a thread does in ibv_get_cq_event() before it sleeps
 * (core/engine/engine_serve.c). It does not spin if the thread has another event to process that
 * the library knows of.
 */

struct cq;

/*
 * The number of the calling thread in engine_serve.events_for. Two threads may have the same one:
 * each then spins less. 0 is that of no thread: the events of a channel of which none was taken are
 * not examined.
 */
uint8_t armed_spin_taker(void);

/* The calling thread has taken an event: it may spin once before it takes the next one. */
void armed_spin_event_taken(void);

/* The CQ was armed: the next poll that finds it empty may spin. cq.lock held. */
void armed_spin_cq_armed(struct cq *cq);

/*
 * To be called by a poll of an empty CQ for which armed_spin_cq_armed() was called: runs the
 * transports until the CQ has a completion, there is an event for this thread, or the time is over.
 * Takes and releases engine.lock.
 */
void armed_spin_run(struct cq *cq);

#endif
