/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Enhanced connection establishment (ECE) between two programs: each offers vendor options; an
 * unknown vendor is rejected. The programs manage their queue pairs without the rdma_cm, as a
 * vendor's software does.
 *
 *	ece server ADDRESS PORT
 *		accepts every known vendor with its own options, until an unknown vendor connects
 *	ece client ADDRESS PORT VENDOR
 *		prints the result
 */
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "endpoint.h"

#define STRANGER       0x00dead
#define SERVER_VENDOR  0x010203
#define SERVER_OPTIONS 0x10
#define CLIENT_OPTIONS 0xfedcba98u
#define TIMEOUT_MS     5000

static struct rdma_cm_event *next(struct rdma_event_channel *channel)
{
	struct rdma_cm_event *event;

	if (rdma_get_cm_event(channel, &event))
		die("rdma_get_cm_event: %s", strerror(errno));
	return event;
}

static void expect(struct rdma_event_channel *channel, enum rdma_cm_event_type wanted)
{
	struct rdma_cm_event *event = next(channel);

	if (event->event != wanted)
		die("%s with status %d", rdma_event_str(event->event), event->status);
	rdma_ack_cm_event(event);
}

/* Creates a QP and detaches it from the id; sets the parameters for connecting with such a QP. */
static struct ibv_qp *own_qp(struct rdma_cm_id *id, struct rdma_conn_param *param)
{
	struct ibv_qp_init_attr attr = {
		.cap = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1},
		.qp_type = IBV_QPT_RC,
	};
	struct ibv_qp *qp;

	if (rdma_create_qp(id, NULL, &attr))
		die("rdma_create_qp: %s", strerror(errno));
	qp = id->qp;
	id->qp = NULL;
	*param = (struct rdma_conn_param){.retry_count = 7, .qp_num = qp->qp_num};
	return qp;
}

static void offer(struct rdma_cm_id *id, uint32_t vendor_id, uint32_t options)
{
	struct ibv_ece ece = {.vendor_id = vendor_id, .options = options};

	if (rdma_set_local_ece(id, &ece))
		die("rdma_set_local_ece: %s", strerror(errno));
}

static struct ibv_ece offered(struct rdma_cm_id *id)
{
	struct ibv_ece ece = {0};

	if (rdma_get_remote_ece(id, &ece))
		die("rdma_get_remote_ece: %s", strerror(errno));
	return ece;
}

static void end(struct rdma_cm_id *id, struct ibv_qp *qp)
{
	id->qp = qp;
	rdma_destroy_qp(id);
	rdma_destroy_id(id);
}

static void accept_friend(struct rdma_event_channel *channel, struct rdma_cm_id *id)
{
	struct rdma_conn_param param;
	struct ibv_qp *qp = own_qp(id, &param);

	offer(id, SERVER_VENDOR, SERVER_OPTIONS);
	if (rdma_accept(id, &param))
		die("rdma_accept: %s", strerror(errno));
	expect(channel, RDMA_CM_EVENT_ESTABLISHED);
	expect(channel, RDMA_CM_EVENT_DISCONNECTED);
	end(id, qp);
}

/* Returns whether the request had an unknown vendor. */
static bool serve(struct rdma_event_channel *channel)
{
	struct rdma_cm_event *event = next(channel);
	struct rdma_cm_id *id = event->id;
	struct ibv_ece ece;

	if (event->event == RDMA_CM_EVENT_TIMEWAIT_EXIT) {
		rdma_ack_cm_event(event);
		return false;
	}
	if (event->event != RDMA_CM_EVENT_CONNECT_REQUEST)
		die("%s with status %d", rdma_event_str(event->event), event->status);
	rdma_ack_cm_event(event);
	ece = offered(id);
	say("asked by %06x %08x", ece.vendor_id, ece.options);
	if (ece.vendor_id != STRANGER) {
		accept_friend(channel, id);
		return false;
	}
	if (rdma_reject_ece(id, NULL, 0))
		die("rdma_reject_ece: %s", strerror(errno));
	rdma_destroy_id(id);
	return true;
}

static struct rdma_cm_id *resolve(const char *address, const char *port)
{
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct rdma_addrinfo hints = {.ai_port_space = RDMA_PS_TCP}, *info;
	struct rdma_cm_id *id;

	if (!channel || rdma_getaddrinfo(address, port, &hints, &info) ||
	    rdma_create_id(channel, &id, NULL, RDMA_PS_TCP) ||
	    rdma_resolve_addr(id, NULL, info->ai_dst_addr, TIMEOUT_MS))
		die("no way to %s: %s", address, strerror(errno));
	rdma_freeaddrinfo(info);
	expect(channel, RDMA_CM_EVENT_ADDR_RESOLVED);
	if (rdma_resolve_route(id, TIMEOUT_MS))
		die("rdma_resolve_route: %s", strerror(errno));
	expect(channel, RDMA_CM_EVENT_ROUTE_RESOLVED);
	return id;
}

static void ask(struct rdma_cm_id *id, uint32_t vendor_id)
{
	struct rdma_conn_param param;
	struct ibv_qp *qp = own_qp(id, &param);
	struct rdma_cm_event *event;
	struct ibv_ece ece;

	offer(id, vendor_id, CLIENT_OPTIONS);
	if (rdma_connect(id, &param))
		die("rdma_connect: %s", strerror(errno));
	event = next(id->channel);
	if (event->event == RDMA_CM_EVENT_REJECTED) {
		say("rejected for reason %d", event->status);
		rdma_ack_cm_event(event);
	} else if (event->event == RDMA_CM_EVENT_CONNECT_RESPONSE) {
		rdma_ack_cm_event(event);
		ece = offered(id);
		say("answered by %06x %08x", ece.vendor_id, ece.options);
		if (rdma_establish(id) || rdma_disconnect(id))
			die("the connection: %s", strerror(errno));
		expect(id->channel, RDMA_CM_EVENT_DISCONNECTED);
	} else {
		die("%s with status %d", rdma_event_str(event->event), event->status);
	}
	end(id, qp);
}

int main(int argc, char **argv)
{
	if (argc == 4 && !strcmp(argv[1], "server")) {
		struct rdma_cm_id *listener = endpoint_listen(argv[2], argv[3]);

		while (!serve(listener->channel))
			;
		rdma_destroy_id(listener);
	} else if (argc == 5 && !strcmp(argv[1], "client")) {
		ask(resolve(argv[2], argv[3]), (uint32_t)strtoul(argv[4], NULL, 0));
	} else {
		die("usage: ece server ADDRESS PORT | ece client ADDRESS PORT VENDOR");
	}
	return 0;
}
