/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_RSOCKET_OPTION_H
#define USRDMA_RSOCKET_OPTION_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

struct rsock;

/* The options of rsockets. The table in option.c maps them to level and name. */
enum rsock_option {
	OPTION_REUSEADDR,
	OPTION_KEEPALIVE,
	OPTION_OOBINLINE,
	OPTION_LINGER,
	OPTION_RCVBUF,
	OPTION_SNDBUF,
	OPTION_RCVTIMEO,
	OPTION_SNDTIMEO,
	OPTION_RCVLOWAT,
	OPTION_PRIORITY,
	OPTION_BROADCAST,
	OPTION_DONTROUTE,
	OPTION_BUSY_POLL,
	OPTION_ERROR,
	OPTION_TYPE,
	OPTION_DOMAIN,
	OPTION_PROTOCOL,
	OPTION_ACCEPTCONN,

	OPTION_NODELAY,
	OPTION_CORK,
	OPTION_QUICKACK,
	OPTION_DEFER_ACCEPT,
	OPTION_USER_TIMEOUT,
	OPTION_LINGER2,
	OPTION_WINDOW_CLAMP,
	OPTION_FASTOPEN,
	OPTION_NOTSENT_LOWAT,
	OPTION_SYNCNT,
	OPTION_MAXSEG,
	OPTION_KEEPIDLE,
	OPTION_KEEPINTVL,
	OPTION_KEEPCNT,
	OPTION_CONGESTION,
	OPTION_INFO,

	OPTION_TOS,
	OPTION_BIND_ADDRESS_NO_PORT,
	OPTION_V6ONLY,
	OPTION_TCLASS,

	OPTION_SQSIZE,
	OPTION_RQSIZE,
	OPTION_INLINE,
	OPTION_IOMAPSIZE,
	OPTION_ROUTE,

	OPTION_COUNT
};

/* The option values of an rsocket, guarded by its lock. */
struct option_values {
	int ints[OPTION_COUNT];
	struct linger linger;
	uint64_t receive_timeout_ns; /* 0: no timeout */
	uint64_t send_timeout_ns;
};

void option_values_init(struct option_values *values);

/* rsetsockopt() and rgetsockopt() without the conversion of the result: 0 or -errno. */
int option_set(struct rsock *sock, int level, int name, const void *value, socklen_t bytes)
	__attribute__((warn_unused_result));
int option_get(struct rsock *sock, int level, int name, void *value, socklen_t *bytes)
	__attribute__((warn_unused_result));

/*
 * Copies at most *bytes bytes of a value to the application's buffer; *bytes is set to the number
 * of copied bytes.
 */
void option_reply(void *value, socklen_t *bytes, const void *response, socklen_t response_bytes);

#endif
