/* SPDX-License-Identifier: BSD-2-Clause */
#include "rsocket/option.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <rdma/rsocket.h>
#include <string.h>
#include <sys/time.h>

#include "base/clock.h"
#include "base/util.h"
#include "rsocket/socket.h"
#include "rsocket/stream_proto.h"

/* The type of an option's value and how it is handled. */
enum kind {
	KIND_FLAG,   /* an int, stored as 0 or 1 */
	KIND_INT,    /* an int of at least `least`, stored */
	KIND_BUFFER, /* an int; the ring size is set to twice the value */
	KIND_QUEUE,  /* of SOL_RDMA: an int, stored in struct rsock_sizes */
	KIND_LINGER,
	KIND_TIME,
	KIND_FIXED, /* read-only; the value comes from the common part or from get_option */
	KIND_OWN,   /* the type is defined by set_option and get_option */
};

struct row {
	int level;
	int name;
	enum kind kind;
	int least;
};

static const struct row rows[] = {
	[OPTION_REUSEADDR] = {SOL_SOCKET, SO_REUSEADDR, KIND_FLAG, 0},
	[OPTION_KEEPALIVE] = {SOL_SOCKET, SO_KEEPALIVE, KIND_FLAG, 0},
	[OPTION_OOBINLINE] = {SOL_SOCKET, SO_OOBINLINE, KIND_FLAG, 0},
	[OPTION_LINGER] = {SOL_SOCKET, SO_LINGER, KIND_LINGER, 0},
	[OPTION_RCVBUF] = {SOL_SOCKET, SO_RCVBUF, KIND_BUFFER, 0},
	[OPTION_SNDBUF] = {SOL_SOCKET, SO_SNDBUF, KIND_BUFFER, 0},
	[OPTION_RCVTIMEO] = {SOL_SOCKET, SO_RCVTIMEO, KIND_TIME, 0},
	[OPTION_SNDTIMEO] = {SOL_SOCKET, SO_SNDTIMEO, KIND_TIME, 0},
	[OPTION_RCVLOWAT] = {SOL_SOCKET, SO_RCVLOWAT, KIND_INT, 1},
	[OPTION_PRIORITY] = {SOL_SOCKET, SO_PRIORITY, KIND_INT, 0},
	[OPTION_BROADCAST] = {SOL_SOCKET, SO_BROADCAST, KIND_FLAG, 0},
	[OPTION_DONTROUTE] = {SOL_SOCKET, SO_DONTROUTE, KIND_FLAG, 0},
	[OPTION_BUSY_POLL] = {SOL_SOCKET, SO_BUSY_POLL, KIND_INT, 0},
	[OPTION_ERROR] = {SOL_SOCKET, SO_ERROR, KIND_FIXED, 0},
	[OPTION_TYPE] = {SOL_SOCKET, SO_TYPE, KIND_FIXED, 0},
	[OPTION_DOMAIN] = {SOL_SOCKET, SO_DOMAIN, KIND_FIXED, 0},
	[OPTION_PROTOCOL] = {SOL_SOCKET, SO_PROTOCOL, KIND_FIXED, 0},
	[OPTION_ACCEPTCONN] = {SOL_SOCKET, SO_ACCEPTCONN, KIND_FIXED, 0},

	[OPTION_NODELAY] = {IPPROTO_TCP, TCP_NODELAY, KIND_FLAG, 0},
	[OPTION_CORK] = {IPPROTO_TCP, TCP_CORK, KIND_FLAG, 0},
	[OPTION_QUICKACK] = {IPPROTO_TCP, TCP_QUICKACK, KIND_FLAG, 0},
	[OPTION_DEFER_ACCEPT] = {IPPROTO_TCP, TCP_DEFER_ACCEPT, KIND_INT, 0},
	[OPTION_USER_TIMEOUT] = {IPPROTO_TCP, TCP_USER_TIMEOUT, KIND_INT, 0},
	[OPTION_LINGER2] = {IPPROTO_TCP, TCP_LINGER2, KIND_INT, -1},
	[OPTION_WINDOW_CLAMP] = {IPPROTO_TCP, TCP_WINDOW_CLAMP, KIND_INT, 0},
	[OPTION_FASTOPEN] = {IPPROTO_TCP, TCP_FASTOPEN, KIND_INT, 0},
	[OPTION_NOTSENT_LOWAT] = {IPPROTO_TCP, TCP_NOTSENT_LOWAT, KIND_INT, 0},
	[OPTION_SYNCNT] = {IPPROTO_TCP, TCP_SYNCNT, KIND_INT, 1},
	[OPTION_MAXSEG] = {IPPROTO_TCP, TCP_MAXSEG, KIND_INT, 0},
	[OPTION_KEEPIDLE] = {IPPROTO_TCP, TCP_KEEPIDLE, KIND_INT, 1},
	[OPTION_KEEPINTVL] = {IPPROTO_TCP, TCP_KEEPINTVL, KIND_INT, 1},
	[OPTION_KEEPCNT] = {IPPROTO_TCP, TCP_KEEPCNT, KIND_INT, 1},
	[OPTION_CONGESTION] = {IPPROTO_TCP, TCP_CONGESTION, KIND_OWN, 0},
	[OPTION_INFO] = {IPPROTO_TCP, TCP_INFO, KIND_FIXED, 0},

	[OPTION_TOS] = {IPPROTO_IP, IP_TOS, KIND_INT, 0},
	[OPTION_BIND_ADDRESS_NO_PORT] = {IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, KIND_FLAG, 0},
	[OPTION_V6ONLY] = {IPPROTO_IPV6, IPV6_V6ONLY, KIND_FLAG, 0},
	[OPTION_TCLASS] = {IPPROTO_IPV6, IPV6_TCLASS, KIND_INT, -1},

	[OPTION_SQSIZE] = {SOL_RDMA, RDMA_SQSIZE, KIND_QUEUE, 0},
	[OPTION_RQSIZE] = {SOL_RDMA, RDMA_RQSIZE, KIND_QUEUE, 0},
	[OPTION_INLINE] = {SOL_RDMA, RDMA_INLINE, KIND_QUEUE, 0},
	[OPTION_IOMAPSIZE] = {SOL_RDMA, RDMA_IOMAPSIZE, KIND_QUEUE, 0},
	[OPTION_ROUTE] = {SOL_RDMA, RDMA_ROUTE, KIND_OWN, 0},
};
_Static_assert(COUNT(rows) == OPTION_COUNT, "a row for each option");

void option_values_init(struct option_values *values)
{
	memset(values, 0, sizeof(*values));
	values->ints[OPTION_RCVLOWAT] = 1;
	values->ints[OPTION_KEEPINTVL] = 75;
	values->ints[OPTION_KEEPCNT] = 9;
	values->ints[OPTION_SYNCNT] = 6;
	values->ints[OPTION_LINGER2] = 60;
}

static int rsocket_option_find(int level, int name)
{
	for (int i = 0; i < OPTION_COUNT; i++)
		if (rows[i].level == level && rows[i].name == name)
			return i;
	return -1;
}

void option_reply(void *value, socklen_t *bytes, const void *response, socklen_t response_bytes)
{
	if (*bytes > response_bytes)
		*bytes = response_bytes;
	memcpy(value, response, *bytes);
}

static uint32_t between(int64_t value, uint32_t least, uint32_t most)
{
	if (value < (int64_t)least)
		return least;
	return value > (int64_t)most ? most : (uint32_t)value;
}

/*
 * As with TCP, the size is twice the requested value, and reading returns the actual size. The size
 * of a ring is even.
 */
static void set_buffer(struct rsock *sock, enum rsock_option option, int value)
{
	uint32_t bytes = between(2 * (int64_t)value, RSOCK_RING_MIN, RSOCK_RING_MAX);

	if (option == OPTION_RCVBUF)
		sock->sizes.receive_bytes = bytes;
	else
		sock->sizes.send_bytes = bytes;
}

static int set_queue(struct rsock *sock, enum rsock_option option, int value)
{
	struct rsock_sizes *sizes = &sock->sizes;

	if (value < 0)
		return -EINVAL;
	if (option == OPTION_SQSIZE)
		sizes->sq_entries = (uint16_t)between(value, RSOCK_QUEUE_MIN, RSOCK_QUEUE_MAX);
	else if (option == OPTION_RQSIZE)
		sizes->rq_entries = (uint16_t)between(value, RSOCK_QUEUE_MIN, RSOCK_QUEUE_MAX);
	else if (option == OPTION_INLINE)
		sizes->inline_bytes = (uint16_t)between(value, 0, RSOCK_INLINE_MAX);
	else
		sizes->iomap_entries = proto_iomap_round((uint32_t)value);
	return 0;
}

static int queue_value(const struct rsock *sock, enum rsock_option option)
{
	const struct rsock_sizes *sizes = &sock->sizes;

	switch (option) {
	case OPTION_RCVBUF:
		return (int)sizes->receive_bytes;
	case OPTION_SNDBUF:
		return (int)sizes->send_bytes;
	case OPTION_SQSIZE:
		return sizes->sq_entries;
	case OPTION_RQSIZE:
		return sizes->rq_entries;
	case OPTION_INLINE:
		return sizes->inline_bytes;
	default:
		return sizes->iomap_entries;
	}
}

static int set_linger(struct rsock *sock, const void *value, socklen_t bytes)
{
	if (bytes < sizeof(struct linger))
		return -EINVAL;
	memcpy(&sock->options.linger, value, sizeof(struct linger));
	sock->options.linger.l_onoff = !!sock->options.linger.l_onoff;
	return 0;
}

static uint64_t *time_of(struct rsock *sock, enum rsock_option option)
{
	return option == OPTION_RCVTIMEO ? &sock->options.receive_timeout_ns :
					   &sock->options.send_timeout_ns;
}

/*
 * A longer timeout is treated as no timeout. The limit prevents an overflow when the time is added
 * to the clock.
 */
#define TIME_MAX_S (200 * 365 * INT64_C(86400))

/* A negative timeout expires at once; one above TIME_MAX_S means no timeout. */
static uint64_t time_ns_of(const struct timeval *time)
{
	if (time->tv_sec < 0)
		return 1;
	if (time->tv_sec > TIME_MAX_S)
		return 0;
	return (uint64_t)time->tv_sec * CLOCK_NS_PER_S + (uint64_t)time->tv_usec * CLOCK_NS_PER_US;
}

static int set_time(struct rsock *sock, enum rsock_option option, const void *value,
		    socklen_t bytes)
{
	struct timeval time;

	if (bytes < sizeof(time))
		return -EINVAL;
	memcpy(&time, value, sizeof(time));
	if (time.tv_usec < 0 || time.tv_usec >= 1000000)
		return -EDOM;
	*time_of(sock, option) = time_ns_of(&time);
	return 0;
}

static void get_time(struct rsock *sock, enum rsock_option option, void *value, socklen_t *bytes)
{
	uint64_t time_ns = *time_of(sock, option);
	struct timeval time = {
		.tv_sec = (time_t)(time_ns / CLOCK_NS_PER_S),
		.tv_usec = (suseconds_t)(time_ns % CLOCK_NS_PER_S / CLOCK_NS_PER_US),
	};

	option_reply(value, bytes, &time, sizeof(time));
}

/* An option of level IPPROTO_IP may be a single byte (ip(7)). */
static int read_int(const struct row *row, const void *value, socklen_t bytes, int *number)
{
	if (bytes >= sizeof(*number))
		memcpy(number, value, sizeof(*number));
	else if (row->level == IPPROTO_IP && bytes)
		*number = *(const uint8_t *)value;
	else
		return -EINVAL;
	return 0;
}

/* Sets an option of type int: checks, applies and stores the value. */
static int rsocket_option_set_int(struct rsock *sock, enum rsock_option option, const void *value,
				  socklen_t bytes)
{
	const struct row *row = &rows[option];
	int number;
	int ret = read_int(row, value, bytes, &number);

	if (ret)
		return ret;
	if (row->kind == KIND_FLAG)
		number = !!number;
	else if (row->kind == KIND_INT && number < row->least)
		return -EINVAL;
	ret = sock->ops->set_option(sock, option, &number, sizeof(number));
	if (ret)
		return ret;
	if (row->kind == KIND_QUEUE)
		return set_queue(sock, option, number);
	if (row->kind == KIND_BUFFER)
		set_buffer(sock, option, number);
	sock->options.ints[option] = number;
	return 0;
}

static int set_found(struct rsock *sock, enum rsock_option option, const void *value,
		     socklen_t bytes)
{
	switch (rows[option].kind) {
	case KIND_LINGER:
		return set_linger(sock, value, bytes);
	case KIND_TIME:
		return set_time(sock, option, value, bytes);
	case KIND_FIXED:
		return -ENOPROTOOPT;
	case KIND_OWN:
		return sock->ops->set_option(sock, option, value, bytes);
	default:
		return rsocket_option_set_int(sock, option, value, bytes);
	}
}

int option_set(struct rsock *sock, int level, int name, const void *value, socklen_t bytes)
{
	int option = rsocket_option_find(level, name);

	if (sock->ops->pass_set && level != SOL_RDMA) {
		int ret = sock->ops->pass_set(sock, level, name, value, bytes);

		if (ret || option < 0)
			return ret;
	}
	if (option < 0)
		return -ENOTSUP;
	if (!value)
		return -EFAULT;
	return set_found(sock, (enum rsock_option)option, value, bytes);
}

/* Read-only values of all rsockets. */
static int fixed_value(struct rsock *sock, enum rsock_option option)
{
	switch (option) {
	case OPTION_ERROR:
		return -rsock_take_error(sock);
	case OPTION_TYPE:
		return sock->type;
	case OPTION_DOMAIN:
		return sock->domain;
	case OPTION_PROTOCOL:
		return sock->type == SOCK_STREAM ? IPPROTO_TCP : IPPROTO_UDP;
	default:
		return sock->options.ints[option];
	}
}

static int get_found(struct rsock *sock, enum rsock_option option, void *value, socklen_t *bytes)
{
	int number;
	/* A value from get_option takes precedence over the stored value. */
	int ret = sock->ops->get_option(sock, option, value, bytes);

	if (ret != -ENOTSUP)
		return ret;
	switch (rows[option].kind) {
	case KIND_LINGER:
		option_reply(value, bytes, &sock->options.linger, sizeof(struct linger));
		return 0;
	case KIND_TIME:
		get_time(sock, option, value, bytes);
		return 0;
	case KIND_OWN:
		return -ENOTSUP;
	case KIND_BUFFER:
	case KIND_QUEUE:
		number = queue_value(sock, option);
		break;
	case KIND_FIXED:
		number = fixed_value(sock, option);
		break;
	default:
		number = sock->options.ints[option];
		break;
	}
	option_reply(value, bytes, &number, sizeof(number));
	return 0;
}

int option_get(struct rsock *sock, int level, int name, void *value, socklen_t *bytes)
{
	int option = rsocket_option_find(level, name);

	if (!value || !bytes)
		return -EFAULT;
	if (sock->ops->pass_get && level != SOL_RDMA) {
		int ret = sock->ops->pass_get(sock, level, name, value, bytes);

		if (ret <= 0)
			return ret;
	}
	if (option < 0)
		return -ENOTSUP;
	return get_found(sock, (enum rsock_option)option, value, bytes);
}
