/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_TESTS_API_POLLING_H
#define USRDMA_TESTS_API_POLLING_H

#include "link.h"

/* A program that waits for a completion channel with poll(2), and a peer that sends to it. */

/* Longer than an event takes on a busy machine. */
#define POLLING_LONG_MS 60000

struct polling {
	struct link link;
	struct ibv_comp_channel *channel; /* with O_NONBLOCK */
	unsigned int received;
};

/* Connects to the peer, posts receive WRs, and arms the CQ. */
void polling_open(struct polling *polling, struct api *api);
void polling_close(struct polling *polling);

/* Posts one receive WR for a message of up to 64 bytes. */
void polling_post(struct polling *polling);

/* Takes the event of the readable descriptor, arms the CQ, and takes all completions. */
void polling_take_event(struct polling *polling);

/* Waits for one event, and processes it. false: no event in this time. */
bool polling_take(struct polling *polling, int timeout_ms);

/* The same until this number of messages has been received; asserts that each has an event. */
void polling_take_until(struct polling *polling, unsigned int count);

#endif
