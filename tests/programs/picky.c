/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A server that rejects every request without the expected private data, and a client that sends
 * this data.
 *
 *	picky server ADDRESS PORT tcp|udp	serves until it is killed
 *	picky client ADDRESS PORT tcp|udp	ends with status 0 once it was accepted
 */
#include <stdbool.h>
#include <string.h>

#include "endpoint.h"

static const char friendly[] = "friend";

static struct rdma_addrinfo *look_up(const char *address, const char *port, const char *space,
				     int flags)
{
	struct rdma_addrinfo hints = {.ai_flags = flags};
	struct rdma_addrinfo *info;

	hints.ai_port_space = !strcmp(space, "udp") ? RDMA_PS_UDP : RDMA_PS_TCP;
	if (rdma_getaddrinfo(address, port, &hints, &info))
		die("no address %s", address);
	return info;
}

static void create_qp(struct rdma_cm_id *id)
{
	struct ibv_qp_init_attr attr = {
		.cap = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1},
		.qp_type = id->qp_type,
	};

	if (rdma_create_qp(id, NULL, &attr))
		die("rdma_create_qp: %m");
}

static bool is_friend(const struct rdma_cm_event *event)
{
	/* Both kinds of parameters begin with the private data fields. */
	const struct rdma_conn_param *param = &event->param.conn;

	return param->private_data_len >= sizeof(friendly) &&
	       !memcmp(param->private_data, friendly, sizeof(friendly));
}

/* Destroys the objects of a request or a connection after its event has been acknowledged. */
static void end(struct rdma_cm_event *event)
{
	struct rdma_cm_id *id = event->id;

	rdma_ack_cm_event(event);
	rdma_destroy_qp(id);
	rdma_destroy_id(id);
}

static void on_request(struct rdma_cm_event *event)
{
	struct rdma_cm_id *id = event->id;

	if (!is_friend(event)) {
		/* The connection may have ended already. */
		(void)rdma_reject(id, NULL, 0);
		end(event);
		return;
	}
	create_qp(id);
	rdma_ack_cm_event(event);
	if (rdma_accept(id, NULL))
		die("rdma_accept: %m");
	say("accepted");
}

static void serve(const char *address, const char *port, const char *space)
{
	struct rdma_addrinfo *info = look_up(address, port, space, RAI_PASSIVE);
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct rdma_cm_event *event;
	struct rdma_cm_id *listener;

	if (!channel ||
	    rdma_create_id(channel, &listener, NULL, (enum rdma_port_space)info->ai_port_space) ||
	    rdma_bind_addr(listener, info->ai_src_addr) || rdma_listen(listener, 64))
		die("cannot listen: %m");
	rdma_freeaddrinfo(info);
	for (;;) {
		if (rdma_get_cm_event(channel, &event))
			die("rdma_get_cm_event: %m");
		if (event->event == RDMA_CM_EVENT_CONNECT_REQUEST)
			on_request(event);
		else if (event->event == RDMA_CM_EVENT_ESTABLISHED ||
			 event->event == RDMA_CM_EVENT_TIMEWAIT_EXIT)
			rdma_ack_cm_event(event);
		else
			end(event);
	}
}

static void be_a_friend(const char *address, const char *port, const char *space)
{
	struct rdma_conn_param param = {
		.private_data = friendly,
		.private_data_len = sizeof(friendly),
	};
	struct rdma_addrinfo *info = look_up(address, port, space, 0);
	struct rdma_cm_id *id;

	if (rdma_create_ep(&id, info, NULL, NULL))
		die("rdma_create_ep: %m");
	rdma_freeaddrinfo(info);
	create_qp(id);
	if (rdma_connect(id, &param))
		die("not connected: %s, status %d",
		    id->event ? rdma_event_str(id->event->event) : "no event",
		    id->event ? id->event->status : 0);
	say("connected");
	rdma_destroy_ep(id);
}

int main(int argc, char **argv)
{
	if (argc != 5)
		die("picky server|client ADDRESS PORT tcp|udp");
	if (!strcmp(argv[1], "server"))
		serve(argv[2], argv[3], argv[4]);
	else
		be_a_friend(argv[2], argv[3], argv[4]);
	return 0;
}
