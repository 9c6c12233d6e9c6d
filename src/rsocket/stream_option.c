/* SPDX-License-Identifier: BSD-2-Clause */
#include <endian.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "rsocket/stream.h"

/* MTU that is reported while the path is unknown, in bytes. */
#define MTU_UNKNOWN 2048

/* Sets an option of level RDMA_OPTION_ID. */
static int stream_set_id_option(struct stream *stream, int name, const void *value, size_t bytes)
{
	char copy[sizeof(int)];

	memcpy(copy, value, bytes);
	return rdma_set_option(stream->id, RDMA_OPTION_ID, name, copy, bytes) ? -errno : 0;
}

static int set_early(struct stream *stream, int name, int value)
{
	return stream->phase == STREAM_IDLE ?
		       stream_set_id_option(stream, name, &value, sizeof(value)) :
		       0;
}

/* A bound wildcard address cannot be changed to IPv6 only. */
static int set_v6only(struct stream *stream, int value)
{
	if (stream->sock.domain != AF_INET6)
		return -ENOPROTOOPT;
	if (stream->phase != STREAM_IDLE)
		return -EINVAL;
	return stream_set_id_option(stream, RDMA_OPTION_ID_AFONLY, &value, sizeof(value));
}

static int set_tos(struct stream *stream, int value)
{
	uint8_t tos = (uint8_t)value;

	if (value < 0)
		return 0;
	if (value > UINT8_MAX)
		return -EINVAL;
	return stream->phase <= STREAM_BOUND ?
		       stream_set_id_option(stream, RDMA_OPTION_ID_TOS, &tos, sizeof(tos)) :
		       0;
}

void stream_apply_options(struct stream *stream)
{
	const int *ints = stream->sock.options.ints;
	int ret = 0;

	if (ints[OPTION_REUSEADDR])
		ret = set_early(stream, RDMA_OPTION_ID_REUSEADDR, 1);
	if (!ret && ints[OPTION_V6ONLY])
		ret = set_v6only(stream, 1);
	if (!ret && ints[OPTION_TOS])
		ret = set_tos(stream, ints[OPTION_TOS]);
	if (!ret && ints[OPTION_TCLASS])
		ret = set_tos(stream, ints[OPTION_TCLASS]);
	if (ret)
		log_warn("rsocket %d was created again without some of its options: %s",
			 stream->sock.fd, strerror(-ret));
}

static int set_route(struct stream *stream, const void *value, socklen_t bytes)
{
	void *copy;

	if (!bytes || bytes % sizeof(struct ibv_path_data))
		return -EINVAL;
	copy = malloc(bytes);
	if (!copy)
		return -ENOMEM;
	memcpy(copy, value, bytes);
	free(stream->route);
	stream->route = copy;
	stream->route_bytes = bytes;
	return 0;
}

static int set_keepidle(struct stream *stream, int seconds)
{
	stream->sock.options.ints[OPTION_KEEPIDLE] = seconds;
	return stream->sock.options.ints[OPTION_KEEPALIVE] ? stream_set_keepalive(stream, true) : 0;
}

/* Options of the queue pair cannot change after the queue pair may have been created. */
static bool is_too_late(const struct stream *stream, enum rsock_option option)
{
	return option >= OPTION_SQSIZE && stream->phase > STREAM_LISTENING;
}

int stream_set_option(struct rsock *sock, enum rsock_option option, const void *value,
		      socklen_t bytes)
{
	struct stream *stream = stream_of(sock);
	int number = 0;

	if (is_too_late(stream, option))
		return -EINVAL;
	if (option == OPTION_ROUTE)
		return set_route(stream, value, bytes);
	if (option == OPTION_CONGESTION)
		return 0;
	memcpy(&number, value, sizeof(number));
	switch (option) {
	case OPTION_REUSEADDR:
		return set_early(stream, RDMA_OPTION_ID_REUSEADDR, number);
	case OPTION_V6ONLY:
		return set_v6only(stream, number);
	case OPTION_TOS:
	case OPTION_TCLASS:
		return set_tos(stream, number);
	case OPTION_KEEPALIVE:
		return stream_set_keepalive(stream, number);
	case OPTION_KEEPIDLE:
		return set_keepidle(stream, number);
	default:
		return 0;
	}
}

static int mtu_of(const struct stream *stream)
{
	const struct rdma_route *route = &stream->id->route;

	return route->num_paths && route->path_rec ? 1 << (7 + route->path_rec->mtu) : MTU_UNKNOWN;
}

static void get_info(const struct stream *stream, void *value, socklen_t *bytes)
{
	struct tcp_info info = {
		.tcpi_state = stream->phase == STREAM_CONNECTED ? TCP_ESTABLISHED :
			      stream->phase == STREAM_LISTENING ? TCP_LISTEN :
								  TCP_CLOSE,
		.tcpi_snd_mss = (uint32_t)mtu_of(stream),
		.tcpi_rcv_mss = (uint32_t)mtu_of(stream),
		.tcpi_snd_cwnd = stream->sock.sizes.sq_entries,
	};

	option_reply(value, bytes, &info, sizeof(info));
}

/* A path record in wire format; known values have the selector "exactly". */
#define EXACTLY (2 << 6)

static void pack_path(const struct ibv_sa_path_rec *record, struct ibv_path_data *data)
{
	memset(data, 0, sizeof(*data));
	data->flags = IBV_PATH_FLAG_PRIMARY | IBV_PATH_FLAG_GMP | IBV_PATH_FLAG_BIDIRECTIONAL;
	data->path.dgid = record->dgid;
	data->path.sgid = record->sgid;
	data->path.dlid = record->dlid;
	data->path.slid = record->slid;
	data->path.flowlabel_hoplimit = htobe32(be32toh(record->flow_label) << 8 |
						record->hop_limit);
	data->path.tclass = record->traffic_class;
	data->path.reversible_numpath = (uint8_t)((record->reversible ? 1 << 7 : 0) | 1);
	data->path.pkey = record->pkey;
	data->path.qosclass_sl = htobe16(record->sl);
	data->path.mtu = (uint8_t)(record->mtu | EXACTLY);
	data->path.rate = (uint8_t)(record->rate | EXACTLY);
	data->path.packetlifetime = (uint8_t)(record->packet_life_time | EXACTLY);
	data->path.preference = record->preference;
}

/* The value that was set, until it is used; then the paths of the id. */
static int get_route(const struct stream *stream, void *value, socklen_t *bytes)
{
	const struct rdma_route *route = &stream->id->route;
	struct ibv_path_data data;
	socklen_t given = 0;

	if (stream->route) {
		if (*bytes < stream->route_bytes)
			return -EINVAL;
		option_reply(value, bytes, stream->route, stream->route_bytes);
		return 0;
	}
	if (*bytes < sizeof(data))
		return -EINVAL;
	for (int i = 0; i < route->num_paths && *bytes - given >= sizeof(data); i++) {
		pack_path(&route->path_rec[i], &data);
		memcpy((char *)value + given, &data, sizeof(data));
		given += (socklen_t)sizeof(data);
	}
	*bytes = given;
	return 0;
}

int stream_get_option(struct rsock *sock, enum rsock_option option, void *value, socklen_t *bytes)
{
	static const char congestion[] = "rdma";
	struct stream *stream = stream_of(sock);
	int number;

	switch (option) {
	case OPTION_ROUTE:
		return get_route(stream, value, bytes);
	case OPTION_INFO:
		get_info(stream, value, bytes);
		return 0;
	case OPTION_CONGESTION:
		option_reply(value, bytes, congestion, sizeof(congestion));
		return 0;
	case OPTION_MAXSEG:
		number = mtu_of(stream);
		break;
	case OPTION_KEEPIDLE:
		number = stream_keepalive_s(stream);
		break;
	case OPTION_RCVBUF:
	case OPTION_SNDBUF:
		/* Before a connection exists, the stored value is reported. */
		if (!stream->rx.ring_bytes)
			return -ENOTSUP;
		number = (int)(option == OPTION_RCVBUF ? stream->rx.ring_bytes :
							 stream->tx.ring_bytes);
		break;
	case OPTION_ACCEPTCONN:
		number = stream->phase == STREAM_LISTENING;
		break;
	default:
		return -ENOTSUP;
	}
	option_reply(value, bytes, &number, sizeof(number));
	return 0;
}
