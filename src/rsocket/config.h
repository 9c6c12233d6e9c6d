/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_RSOCKET_CONFIG_H
#define USRDMA_RSOCKET_CONFIG_H

#include <stdint.h>

/* Where an administrator says what rsockets begin with (rsocket(7)): one file, one number. */
#define RSOCK_CONFIG_DIR "/etc/rdma/rsocket"

/* What a queue may be, here and at the peer: a 16-bit number counts its messages. */
#define RSOCK_QUEUE_MIN	 16
#define RSOCK_QUEUE_MAX	 0xfffe
#define RSOCK_INLINE_MAX 0xfffe
/* A ring is cut into halves, so it is even; below this a sender that finds room waits for more. */
#define RSOCK_RING_MIN	     4096
#define RSOCK_RING_MAX	     (1u << 30)
#define RSOCK_ROOM_LOW	     2048
#define RSOCK_POLL_US_MAX    1000000u
#define RSOCK_WAKE_UP_MS_MIN 1
#define RSOCK_WAKE_UP_MS_MAX 3600000

/* The sizes of one rsocket, taken from the defaults when it is made and changed by its options. */
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
	uint32_t polling_us; /* how long to look before sleeping */
	uint32_t wake_up_ms; /* how long rpoll() sleeps at most before it looks again */
};

/* Reads the files of a directory; what is absent or no number stays at its default. */
void rsock_config_read(const char *dir, struct rsock_config *config);

/* The process's, read at the first call. */
const struct rsock_config *rsock_config(void);

#endif
