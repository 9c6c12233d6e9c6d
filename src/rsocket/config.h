/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_RSOCKET_CONFIG_H
#define USRDMA_RSOCKET_CONFIG_H

#include <stdint.h>

/* Directory of the rsocket defaults (rsocket(7)). Each file contains one number. */
#define RSOCK_CONFIG_DIR "/etc/rdma/rsocket"

/* Limits of a queue, at both sides. The protocol counts messages in 16 bits. */
#define RSOCK_QUEUE_MIN	 16
#define RSOCK_QUEUE_MAX	 0xfffe
#define RSOCK_INLINE_MAX 0xfffe
/*
 * A ring consists of two halves, so its size is even. A sender that found no space waits until
 * RSOCK_ROOM_LOW bytes are free.
 */
#define RSOCK_RING_MIN	     4096
#define RSOCK_RING_MAX	     (1u << 30)
#define RSOCK_ROOM_LOW	     2048
#define RSOCK_POLL_US_MAX    1000000u
#define RSOCK_WAKE_UP_MS_MIN 1
#define RSOCK_WAKE_UP_MS_MAX 3600000

/*
 * Sizes of one rsocket: initialised from the defaults when the rsocket is created, changed by
 * socket options.
 */
struct rsock_sizes {
	uint32_t receive_bytes;
	uint32_t send_bytes;
	uint16_t sq_entries;
	uint16_t rq_entries;
	uint16_t inline_bytes;
	uint16_t iomap_entries;
};

struct rsock_config {
	struct rsock_sizes sizes;
	uint32_t polling_us; /* duration of busy polling before a thread sleeps */
	uint32_t wake_up_ms; /* maximum time that rpoll() sleeps before it polls again */
};

/*
 * Reads the files of a directory. A file that is missing or does not contain a number leaves the
 * default in force.
 */
void rsock_config_read(const char *dir, struct rsock_config *config);

/* The configuration of the process, read at the first call. */
const struct rsock_config *rsock_config(void);

#endif
