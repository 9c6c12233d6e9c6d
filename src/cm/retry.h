/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_CM_RETRY_H
#define USRDMA_CM_RETRY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/timer.h"
#include "wire/cm_msg.h"

struct cm;
struct cm_path;
struct cm_validation;

/*
 * A request MAD that is repeated until a response arrives, max_retries are used up or timeout_ns is
 * over. Embedded in the connection or resolution that waits. Its owner sets timeout_ns before
 * cm_retry_start(), checks cm_retry_is_over() in the timer callback, and calls cm_retry_stop()
 * before it frees itself.
 */
struct cm_retry {
	struct timer timer;
	uint8_t response_timeout; /* 4.096 us * 2^n: the peer's time for one response */
	/* the same before the first repetition; 0: derived from response_timeout */
	uint8_t first_timeout;
	uint8_t max_retries;
	uint64_t timeout_ns;		  /* in total, from cm_retry_start() on */
	struct cm_validation *validation; /* of the peer's address; NULL: no limit */

	/* of the current request */
	enum cm_msg_type type;
	uint8_t mad[MAD_BYTES];
	uint64_t wait_ns; /* the next wait */
	uint64_t give_up_ns;
	uint8_t left; /* repetitions */
	/*
	 * number of transmissions, including those in response to repeated messages of the peer; 0:
	 * withheld
	 */
	uint32_t sent;
	int error; /* why the request failed: -ETIMEDOUT, or the error of cm_callbacks.send */
};

void cm_retry_init(struct cm_retry *retry, void (*on_timer)(struct timer *timer, uint64_t now_ns));

/*
 * Configures few and late repetitions, for a request whose repetition the receiver may take for a
 * new request. They are enough to recover from lost datagrams.
 */
void cm_retry_seldom(struct cm_retry *retry, uint64_t timeout_ns);

/*
 * Sends the message, or withholds it while the peer's address is not validated. A withheld message
 * is sent at a repetition for which credit is left, or by cm_retry_send_withheld(). While it is
 * withheld, no repetition is used up.
 */
void cm_retry_start(struct cm_retry *retry, struct cm *cm, const struct cm_path *path,
		    const struct cm_msg *msg, uint64_t now_ns);

/* To be called when the timer expires: repeats the message and waits longer than before. */
void cm_retry_again(struct cm_retry *retry, struct cm *cm, const struct cm_path *path,
		    uint64_t now_ns);

/* Repeats the message at once; the timer is not changed. */
void cm_retry_repeat(struct cm_retry *retry, struct cm *cm, const struct cm_path *path,
		     uint64_t now_ns);

/* Sends the message if it was withheld. The waits begin again; timeout_ns does not. */
void cm_retry_send_withheld(struct cm_retry *retry, struct cm *cm, const struct cm_path *path,
			    uint64_t now_ns);

/*
 * To be called when an MRA arrives: restarts the count of repetitions, and timeout_ns from the end
 * of service_timeout on. The message is repeated after again_timeout, if that is shorter.
 */
void cm_retry_wait(struct cm_retry *retry, struct cm *cm, uint8_t service_timeout,
		   uint8_t again_timeout, uint64_t now_ns);
void cm_retry_stop(struct cm_retry *retry, struct cm *cm);
bool cm_retry_is_over(const struct cm_retry *retry, uint64_t now_ns);

#endif
