/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Sends connection requests at a fixed rate: each is a valid REQ (or SIDR_REQ) of a new connection,
 * sent by a socket of this program. It uses internal headers, because the library never sends such
 * requests.
 *
 *	flood SOURCE DESTINATION PORT tcp|udp SECONDS REQUESTS_A_SECOND
 */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#include "base/clock.h"
#include "wire/cm_msg.h"
#include "wire/gid.h"
#include "wire/icrc.h"
#include "wire/packet.h"

#define PS_TCP 0x0106ull
#define PS_UDP 0x0111ull
#define BATCH  32

#define FLOOD_GUID 0xf100d

struct flood {
	int fd;
	struct icrc_flow flow;
	struct sockaddr_storage to;
	struct cm_ip_hdr ip;
	uint64_t service_id;
	uint32_t number;
	uint8_t sgid[GID_BYTES];
	uint8_t dgid[GID_BYTES];
};

static void die(const char *what)
{
	perror(what);
	exit(EXIT_FAILURE);
}

static socklen_t address(struct sockaddr_storage *out, const char *text, uint16_t port)
{
	struct sockaddr_in6 *sin6 = (struct sockaddr_in6 *)out;
	struct sockaddr_in *sin = (struct sockaddr_in *)out;

	memset(out, 0, sizeof(*out));
	if (inet_pton(AF_INET, text, &sin->sin_addr) == 1) {
		sin->sin_family = AF_INET;
		sin->sin_port = htons(port);
		return sizeof(*sin);
	}
	if (inet_pton(AF_INET6, text, &sin6->sin6_addr) != 1)
		die(text);
	sin6->sin6_family = AF_INET6;
	sin6->sin6_port = htons(port);
	return sizeof(*sin6);
}

/* A socket whose packets have IPv4 identification 0, as the ICRC assumes. */
static uint16_t open_socket(struct flood *flood, const char *source)
{
	struct sockaddr_storage from;
	socklen_t len = address(&from, source, 0);
	bool is_ipv4 = from.ss_family == AF_INET;
	int discover = is_ipv4 ? IP_PMTUDISC_DO : IPV6_PMTUDISC_DO;

	flood->fd = socket(from.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (flood->fd < 0 || bind(flood->fd, (struct sockaddr *)&from, len))
		die("socket");
	if (setsockopt(flood->fd, is_ipv4 ? IPPROTO_IP : IPPROTO_IPV6,
		       is_ipv4 ? IP_MTU_DISCOVER : IPV6_MTU_DISCOVER, &discover, sizeof(discover)))
		die("setsockopt");
	if (getsockname(flood->fd, (struct sockaddr *)&from, &len))
		die("getsockname");
	gid_from_sockaddr(flood->sgid, (struct sockaddr *)&from);
	return is_ipv4 ? ntohs(((struct sockaddr_in *)&from)->sin_port) :
			 ntohs(((struct sockaddr_in6 *)&from)->sin6_port);
}

static void fill_req(const struct flood *flood, struct cm_msg *msg)
{
	struct cm_req *req = &msg->req;

	msg->type = CM_MSG_REQ;
	req->local_comm_id = flood->number;
	req->service_id = flood->service_id;
	req->local_ca_guid = FLOOD_GUID;
	req->local_qpn = flood->number & 0xffffff;
	req->local_cm_response_timeout = 20;
	req->remote_cm_response_timeout = 20;
	req->max_cm_retries = 15;
	req->path_mtu = 3;
	req->primary.local_ack_timeout = 18;
	memcpy(req->primary.local_gid, flood->sgid, GID_BYTES);
	memcpy(req->primary.remote_gid, flood->dgid, GID_BYTES);
	cm_ip_hdr_build(&flood->ip, req->private_data);
}

static void fill_sidr_req(const struct flood *flood, struct cm_msg *msg)
{
	msg->type = CM_MSG_SIDR_REQ;
	msg->sidr_req.request_id = flood->number;
	msg->sidr_req.pkey = MAD_PKEY;
	msg->sidr_req.service_id = flood->service_id;
	cm_ip_hdr_build(&flood->ip, msg->sidr_req.private_data);
}

/* Makes one packet: headers, MAD, ICRC. Returns its length. */
static size_t make(struct flood *flood, uint8_t *bytes)
{
	const struct packet packet = {
		.opcode = OPCODE(UD, SEND_ONLY),
		.is_migrated = true,
		.pkey = PACKET_PKEY_DEFAULT,
		.dest_qpn = MAD_QPN,
		.qkey = MAD_QKEY,
		.src_qpn = MAD_QPN,
	};
	struct cm_msg msg = {0};
	struct iovec piece;
	size_t len;

	flood->number++;
	msg.tid = flood->number;
	if (flood->service_id >> 16 == PS_TCP)
		fill_req(flood, &msg);
	else
		fill_sidr_req(flood, &msg);
	len = packet_build_headers(&packet, bytes);
	cm_msg_build(&msg, bytes + len);
	len += MAD_BYTES;
	piece = (struct iovec){bytes, len};
	icrc_store(bytes + len, icrc_compute(&flood->flow, 0, &piece, 1));
	return len + ICRC_BYTES;
}

static void send_batch(struct flood *flood)
{
	static uint8_t bytes[BATCH][PACKET_HDR_MAX + MAD_BYTES + ICRC_BYTES];
	struct mmsghdr msgs[BATCH] = {0};
	struct iovec iov[BATCH];

	for (int i = 0; i < BATCH; i++) {
		iov[i].iov_base = bytes[i];
		iov[i].iov_len = make(flood, bytes[i]);
		msgs[i].msg_hdr.msg_iov = &iov[i];
		msgs[i].msg_hdr.msg_iovlen = 1;
		msgs[i].msg_hdr.msg_name = &flood->to;
		msgs[i].msg_hdr.msg_namelen = sizeof(flood->to);
	}
	/* A packet that could not be sent is skipped. */
	if (sendmmsg(flood->fd, msgs, BATCH, 0) < 0 && errno != ENOBUFS && errno != ECONNREFUSED)
		die("sendmmsg");
}

int main(int argc, char **argv)
{
	struct flood flood = {0};
	uint64_t start_ns, end_ns, batch_ns;
	uint16_t port, src_port;
	unsigned batches = 0;

	if (argc != 7) {
		fprintf(stderr, "flood SOURCE DESTINATION PORT tcp|udp SECONDS RATE\n");
		return EXIT_FAILURE;
	}
	port = (uint16_t)strtoul(argv[3], NULL, 10);
	src_port = open_socket(&flood, argv[1]);
	(void)address(&flood.to, argv[2], PACKET_UDP_PORT);
	gid_from_sockaddr(flood.dgid, (struct sockaddr *)&flood.to);
	flood.service_id = (!strcmp(argv[4], "udp") ? PS_UDP : PS_TCP) << 16 | port;
	flood.ip = (struct cm_ip_hdr){.ip_version = gid_is_ipv4(flood.dgid) ? 4 : 6, .src_port = 1};
	memcpy(flood.ip.src, flood.sgid, GID_BYTES);
	memcpy(flood.ip.dst, flood.dgid, GID_BYTES);
	icrc_flow_init(&flood.flow, flood.sgid, flood.dgid, src_port, PACKET_UDP_PORT);
	icrc_flow_set_dont_fragment(&flood.flow, true);

	batch_ns = BATCH * CLOCK_NS_PER_S / strtoul(argv[6], NULL, 10);
	start_ns = clock_now_ns();
	end_ns = start_ns + strtoul(argv[5], NULL, 10) * CLOCK_NS_PER_S;
	while (clock_now_ns() < end_ns) {
		uint64_t due_ns = start_ns + ++batches * batch_ns;
		struct timespec due = {
			.tv_sec = (time_t)(due_ns / CLOCK_NS_PER_S),
			.tv_nsec = (long)(due_ns % CLOCK_NS_PER_S),
		};

		send_batch(&flood);
		clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &due, NULL);
	}
	printf("%u requests\n", batches * BATCH);
	return EXIT_SUCCESS;
}
