/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_CM_RETRY_H
#define USRDMA_CM_RETRY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/timer.h"
#include "wire/cm_msg.h"

struct cm;
struct cm_path;

/*
 * A MAD that is sent until it is answered, until it has been repeated often enough, or until its sender's patience is over.
 * Embedded in what waits for the answer, which says how patient it is before the first cm_retry_start(), and whose timer
 * callback asks cm_retry_is_over(). Stopped before its owner dies.
 */
struct cm_retry {
	struct timer timer;
	uint8_t response_timeout; /* 4.096 us * 2^n: how long the peer may take for one answer */
	uint8_t first_timeout; /* the same, before the first repetition; 0: as it follows from response_timeout */
	uint8_t max_retries;
	uint64_t patience_ns; /* in all */

	/* of what is under way */
	uint8_t mad[MAD_BYTES];
	uint64_t wait_ns; /* the next wait */
	uint64_t give_up_ns;
	uint8_t left;
	int error; /* why nothing came of it: -ETIMEDOUT, or what the path says */
};

void cm_retry_init(struct cm_retry *retry, void (*on_timer)(struct timer *timer, uint64_t now_ns));

/*
 * For what is better repeated seldom, since it may be taken for new: few and late repetitions, as many as make up for
 * losses.
 */
void cm_retry_seldom(struct cm_retry *retry, uint64_t patience_ns);
void cm_retry_start(struct cm_retry *retry, struct cm *cm, const struct cm_path *path,
		    const struct cm_msg *msg, uint64_t now_ns);

/* The timer ran out: sends again and waits, longer than before. */
void cm_retry_again(struct cm_retry *retry, struct cm *cm, const struct cm_path *path,
		    uint64_t now_ns);

/* Sends again out of turn; the timer runs on. */
void cm_retry_repeat(struct cm_retry *retry, struct cm *cm, const struct cm_path *path);

/*
 * The peer is there and asks for more time: retries begin anew, and patience once it has had that. What waits is
 * repeated all the same after again_timeout, if that is shorter.
 */
void cm_retry_wait(struct cm_retry *retry, struct cm *cm, uint8_t service_timeout,
		   uint8_t again_timeout, uint64_t now_ns);
void cm_retry_stop(struct cm_retry *retry, struct cm *cm);
bool cm_retry_is_over(const struct cm_retry *retry, uint64_t now_ns);

#endif
