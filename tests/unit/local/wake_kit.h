/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TESTS_UNIT_LOCAL_WAKE_KIT_H
#define TESTS_UNIT_LOCAL_WAKE_KIT_H

#include "core/engine/direct_wake.h"
#include "events.h"

/*
 * What the tests of direct wake-ups share: the application of node 1 waits with poll(2) for its
 * completion channel. Node 0 sends.
 */

extern struct events events;

#define RECEIVER (&events.pair.nodes[1])

/*
 * Opens `events`. Afterwards direct wake-ups are on, and node 0 has a copy of the channel's
 * descriptor.
 */
int wake_kit_setup(void **state);
int wake_kit_teardown(void **state);

int channel_fd(void);
bool is_readable(void);
/*
 * Returns whether ibv_get_cq_event() has returned an event. It must do so if the descriptor is
 * readable.
 */
bool get_event(void);
/* Returns the number of completions. */
unsigned int poll_receiver(void);
/* Ends a turn of the engine thread. Returns what it waits for then. */
enum progress_wait rest(void);
/* The application waits with poll(2) from now on. */
void wait_for_channel(void);
/*
 * One message whose sender has no copy of the descriptor yet, or for which direct wake-ups are off.
 */
void send_by_doorbell(void);

#endif
