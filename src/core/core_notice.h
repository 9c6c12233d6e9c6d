/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_CORE_CORE_NOTICE_H
#define USRDMA_CORE_CORE_NOTICE_H

struct engine;

/* What concerns the objects of all modules: some notices of the daemon, and its loss. */

/*
 * Removes all handlers of notices and registers those of the core. 0 or -errno. engine.lock held.
 */
int core_notices_open(struct engine *engine) __attribute__((warn_unused_result));

/*
 * The daemon connection is lost: peers can no longer be connected or supervised. All QPs enter ERR,
 * and the contexts receive IBV_EVENT_DEVICE_FATAL. engine.lock held.
 */
void core_lose_daemon(struct engine *engine);

#endif
