/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_LOCAL_CHANNEL_COPY_H
#define USRDMA_LOCAL_CHANNEL_COPY_H

#include <stdint.h>

struct doorbell;
struct peer;

/*
 * Copies of the descriptors of the peers' completion channels, to which direct wake-ups add units
 * (channel_wake.h). A process requests the descriptor of a channel by its number
 * (CELL_CHANNEL_REQUEST). The owner passes it through the socket of the doorbells. Only between
 * processes of the same user.
 */

/* The message with the descriptor. The message of a doorbell is one byte. */
struct channel_answer {
	uint32_t channel;
};

/* Has no effect if the FIFO has no space. */
void channel_copy_request(struct peer *peer, uint32_t channel);

/* The owner's side: sends the descriptor, if the channel exists. engine.lock held. */
void channel_copy_answer(struct peer *peer, uint32_t channel);

/* Takes over the descriptor that a peer sent. engine.lock held. */
void channel_copy_take(struct peer *main, uint32_t channel, int fd);

/* A new reference to the copy; NULL: no copy. */
struct doorbell *channel_copy_find(struct peer *peer, uint32_t channel);

/* The peer of shard 0 ends. engine.lock held. */
void channel_copies_close(struct peer *main);

/* In the child of a fork(): closes the copies. */
void channel_copies_disown(struct peer *main);

#endif
