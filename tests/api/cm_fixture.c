/* SPDX-License-Identifier: BSD-2-Clause */
#include "cm_fixture.h"

#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

#define PATIENCE_MS 40000
#define TIMEOUT_MS  10000

enum rdma_port_space cm_ps = RDMA_PS_TCP;

static struct sockaddr *sa(struct sockaddr_storage *addr)
{
	return (struct sockaddr *)addr;
}

void cm_set_port(struct sockaddr_storage *addr, __be16 port)
{
	if (addr->ss_family == AF_INET)
		((struct sockaddr_in *)addr)->sin_port = port;
	else
		((struct sockaddr_in6 *)addr)->sin6_port = port;
}

struct sockaddr_storage cm_loopback(uint16_t port)
{
	struct sockaddr_storage addr = {0};
	struct sockaddr_in *sin = (struct sockaddr_in *)&addr;

	sin->sin_family = AF_INET;
	sin->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	sin->sin_port = htons(port);
	return addr;
}

/* Whether the address belongs to one interface and needs no scope ID. */
static bool is_plain(const struct ifaddrs *ifa, int family)
{
	if (!ifa->ifa_addr || ifa->ifa_addr->sa_family != family ||
	    !(ifa->ifa_flags & IFF_RUNNING) || ifa->ifa_flags & IFF_LOOPBACK)
		return false;
	return family == AF_INET ||
	       !IN6_IS_ADDR_LINKLOCAL(&((struct sockaddr_in6 *)(void *)ifa->ifa_addr)->sin6_addr);
}

static size_t add_own(struct sockaddr_storage *addrs, const struct ifaddrs *list, int family)
{
	for (const struct ifaddrs *ifa = list; ifa; ifa = ifa->ifa_next) {
		if (!is_plain(ifa, family))
			continue;
		memset(addrs, 0, sizeof(*addrs));
		memcpy(addrs, ifa->ifa_addr,
		       family == AF_INET ? sizeof(struct sockaddr_in) :
					   sizeof(struct sockaddr_in6));
		return 1;
	}
	return 0;
}

size_t cm_addrs(struct sockaddr_storage *addrs)
{
	struct sockaddr_in6 *sin6 = (struct sockaddr_in6 *)&addrs[1];
	struct ifaddrs *list;
	size_t count = 2;

	addrs[0] = cm_loopback(0);
	memset(&addrs[1], 0, sizeof(addrs[1]));
	sin6->sin6_family = AF_INET6;
	sin6->sin6_addr = in6addr_loopback;
	assert_int_equal(getifaddrs(&list), 0);
	count += add_own(&addrs[count], list, AF_INET);
	count += add_own(&addrs[count], list, AF_INET6);
	freeifaddrs(list);
	return count;
}

struct rdma_event_channel *cm_channel(void)
{
	struct rdma_event_channel *channel = rdma_create_event_channel();

	assert_non_null(channel);
	return channel;
}

struct rdma_cm_id *cm_id(struct rdma_event_channel *channel)
{
	struct rdma_cm_id *id = NULL;

	assert_int_equal(rdma_create_id(channel, &id, NULL, cm_ps), 0);
	return id;
}

bool cm_readable(const struct rdma_event_channel *channel, int timeout_ms)
{
	struct pollfd pollfd = {.fd = channel->fd, .events = POLLIN};
	int count = poll(&pollfd, 1, timeout_ms);

	assert_true(count >= 0);
	return count > 0;
}

struct rdma_cm_event *cm_get(struct rdma_event_channel *channel, enum rdma_cm_event_type type)
{
	struct rdma_cm_event *event = NULL;

	if (!cm_readable(channel, PATIENCE_MS))
		fail_msg("no %s", rdma_event_str(type));
	assert_int_equal(rdma_get_cm_event(channel, &event), 0);
	if (event->event != type)
		fail_msg("%s (status %d), not %s", rdma_event_str(event->event), event->status,
			 rdma_event_str(type));
	return event;
}

void cm_pass(struct rdma_event_channel *channel, struct rdma_cm_id *id,
	     enum rdma_cm_event_type type)
{
	struct rdma_cm_event *event = cm_get(channel, type);

	assert_ptr_equal(event->id, id);
	assert_int_equal(event->status, 0);
	assert_int_equal(rdma_ack_cm_event(event), 0);
}

void cm_fail(struct rdma_event_channel *channel, enum rdma_cm_event_type type, int status)
{
	struct rdma_cm_event *event = cm_get(channel, type);

	assert_int_equal(event->status, status);
	assert_int_equal(rdma_ack_cm_event(event), 0);
}

void cm_skip_to(struct rdma_event_channel *channel, enum rdma_cm_event_type type)
{
	enum rdma_cm_event_type seen;

	do {
		struct rdma_cm_event *event;

		if (!cm_readable(channel, PATIENCE_MS))
			fail_msg("no %s", rdma_event_str(type));
		assert_int_equal(rdma_get_cm_event(channel, &event), 0);
		seen = event->event;
		assert_int_equal(rdma_ack_cm_event(event), 0);
	} while (seen != type);
}

void ends_listen(struct ends *ends, const struct sockaddr_storage *addr, int backlog)
{
	memset(ends, 0, sizeof(*ends));
	ends->addr = addr ? *addr : cm_loopback(0);
	ends->server = cm_channel();
	ends->client = cm_channel();
	ends->listener = cm_id(ends->server);
	assert_int_equal(rdma_bind_addr(ends->listener, sa(&ends->addr)), 0);
	assert_int_equal(rdma_listen(ends->listener, backlog), 0);
	assert_int_not_equal(rdma_get_src_port(ends->listener), 0);
	cm_set_port(&ends->addr, rdma_get_src_port(ends->listener));
}

void ends_resolve(struct ends *ends)
{
	ends->active = cm_id(ends->client);
	assert_int_equal(rdma_resolve_addr(ends->active, NULL, sa(&ends->addr), TIMEOUT_MS), 0);
	cm_pass(ends->client, ends->active, RDMA_CM_EVENT_ADDR_RESOLVED);
	assert_int_equal(rdma_resolve_route(ends->active, TIMEOUT_MS), 0);
	cm_pass(ends->client, ends->active, RDMA_CM_EVENT_ROUTE_RESOLVED);
}

void ends_create_qp(struct rdma_cm_id *id)
{
	struct ibv_qp_init_attr attr = {
		.cap = {.max_send_wr = 8, .max_recv_wr = 8, .max_send_sge = 1, .max_recv_sge = 1},
		.qp_type = id->qp_type,
		.sq_sig_all = 1,
	};

	assert_int_equal(rdma_create_qp(id, NULL, &attr), 0);
	assert_non_null(id->qp);
}

void ends_request(struct ends *ends, struct rdma_conn_param *param)
{
	assert_int_equal(rdma_connect(ends->active, param), 0);
	ends->request = cm_get(ends->server, RDMA_CM_EVENT_CONNECT_REQUEST);
	ends->passive = ends->request->id;
	assert_ptr_equal(ends->request->listen_id, ends->listener);
}

void ends_establish(struct ends *ends)
{
	assert_int_equal(rdma_accept(ends->passive, NULL), 0);
	assert_int_equal(rdma_ack_cm_event(ends->request), 0);
	ends->request = NULL;
	cm_pass(ends->client, ends->active, RDMA_CM_EVENT_ESTABLISHED);
	cm_pass(ends->server, ends->passive, RDMA_CM_EVENT_ESTABLISHED);
}

void ends_open(struct ends *ends, const struct sockaddr_storage *addr)
{
	ends_listen(ends, addr, 8);
	ends_resolve(ends);
	ends_create_qp(ends->active);
	ends_request(ends, NULL);
	ends_create_qp(ends->passive);
	ends_establish(ends);
}

static void id_close(struct rdma_cm_id *id)
{
	if (!id)
		return;
	rdma_destroy_qp(id);
	assert_int_equal(rdma_destroy_id(id), 0);
}

void ends_close(struct ends *ends)
{
	id_close(ends->active);
	id_close(ends->passive);
	if (ends->request)
		assert_int_equal(rdma_ack_cm_event(ends->request), 0);
	id_close(ends->listener);
	rdma_destroy_event_channel(ends->client);
	rdma_destroy_event_channel(ends->server);
	memset(ends, 0, sizeof(*ends));
}

enum ibv_qp_state cm_qp_state(struct rdma_cm_id *id)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	assert_int_equal(ibv_query_qp(id->qp, &attr, IBV_QP_STATE, &init), 0);
	return attr.qp_state;
}
