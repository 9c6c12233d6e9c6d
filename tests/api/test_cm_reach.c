/* SPDX-License-Identifier: BSD-2-Clause */
/* Peers that are not reached, or say nothing. What the network says of hosts without usrdma: tests/programs/reach.py. */
#include "cm_fixture.h"
#include "host.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define OWN	   "10.77.0.1"
#define NEIGHBOUR  "10.77.0.77"
#define ROCE_PORT  4791
#define TIMEOUT_MS 10000
#define PATIENCE_S "1"

static struct sockaddr *sa(struct sockaddr_storage *addr)
{
	return (struct sockaddr *)addr;
}

static struct sockaddr_storage address(const char *text)
{
	struct sockaddr_storage addr = cm_loopback(4711);

	assert_int_equal(inet_pton(AF_INET, text, &((struct sockaddr_in *)&addr)->sin_addr), 1);
	return addr;
}

static struct rdma_cm_id *sync_id(enum rdma_port_space ps)
{
	struct rdma_cm_id *id;

	assert_int_equal(rdma_create_id(NULL, &id, NULL, ps), 0);
	return id;
}

/*
 * Without the port that RoCEv2 packets come in by there is no way to any other host. It has to be gone before we have
 * it.
 */
static void a_route_error_says_why(void **state)
{
	struct sockaddr_in6 name = {.sin6_family = AF_INET6, .sin6_port = htons(ROCE_PORT)};
	struct ibv_path_data path = {
		.flags = IBV_PATH_FLAG_GMP | IBV_PATH_FLAG_PRIMARY | IBV_PATH_FLAG_BIDIRECTIONAL,
		.path = {.mtu = IBV_MTU_256, .pkey = 0xffff},
	};
	struct sockaddr_storage far = address(NEIGHBOUR);
	int holder = socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct rdma_event_channel *channel;
	struct rdma_cm_id *id;

	(void)state;
	host_needed();
	assert_int_equal(bind(holder, (struct sockaddr *)&name, sizeof(name)), 0);
	channel = cm_channel();
	id = cm_id(channel);
	assert_int_equal(rdma_resolve_addr(id, NULL, sa(&far), TIMEOUT_MS), 0);
	cm_pass(channel, id, RDMA_CM_EVENT_ADDR_RESOLVED);
	path.path.sgid = id->route.addr.addr.ibaddr.sgid;
	path.path.dgid = id->route.addr.addr.ibaddr.dgid;
	assert_minus1_errno(rdma_set_option(id, RDMA_OPTION_IB, RDMA_OPTION_IB_PATH, &path,
					    sizeof(path)),
			    EHOSTUNREACH);
	assert_int_equal(rdma_resolve_route(id, TIMEOUT_MS), 0);
	cm_fail(channel, RDMA_CM_EVENT_ROUTE_ERROR, -EHOSTUNREACH);
	assert_minus1_errno(rdma_connect(id, &(struct rdma_conn_param){.retry_count = 1}), EINVAL);
	assert_int_equal(rdma_destroy_id(id), 0);
	rdma_destroy_event_channel(channel);

	id = sync_id(RDMA_PS_TCP);
	assert_int_equal(rdma_resolve_addr(id, NULL, sa(&far), TIMEOUT_MS), 0);
	assert_minus1_errno(rdma_resolve_route(id, TIMEOUT_MS), EHOSTUNREACH);
	assert_int_equal(id->event->event, RDMA_CM_EVENT_ROUTE_ERROR);
	assert_int_equal(rdma_destroy_id(id), 0);
	close(holder);
	/* The next one has the port. */
	host_kill_daemon();
}

static void connect_fails(struct rdma_cm_id *id, struct sockaddr_storage *dst, int error)
{
	struct rdma_conn_param param = {.qp_num = 0};

	assert_int_equal(rdma_resolve_addr(id, NULL, sa(dst), TIMEOUT_MS), 0);
	assert_int_equal(rdma_resolve_route(id, TIMEOUT_MS), 0);
	ends_create_qp(id);
	assert_minus1_errno(rdma_connect(id, &param), error);
	assert_int_equal(id->event->event, RDMA_CM_EVENT_UNREACHABLE);
	assert_int_equal(id->event->status, -error);
	rdma_destroy_ep(id);
}

/* A neighbour that was there a moment ago, as far as this host knows. */
static void a_silent_host_is_unreachable(void **state)
{
	struct sockaddr_storage far = address(NEIGHBOUR);

	(void)state;
	host_needed();
	host_ip("neigh add " NEIGHBOUR " lladdr 02:00:00:00:00:77 dev own0 nud permanent");
	connect_fails(sync_id(RDMA_PS_TCP), &far, ETIMEDOUT);
	connect_fails(sync_id(RDMA_PS_UDP), &far, ETIMEDOUT);
	host_ip("neigh del " NEIGHBOUR " dev own0");
}

/* The address that both sides use goes, and with it the way from one to the other. */
#define PASSING "10.77.0.5"

static struct sockaddr_storage address_comes(void)
{
	struct sockaddr_storage addr = address(PASSING);
	struct rdma_cm_id *id = sync_id(RDMA_PS_TCP);

	host_ip("addr add " PASSING "/24 dev own0");
	/* The daemon hears of it some time later than the kernel. */
	while (rdma_bind_addr(id, sa(&addr)))
		assert_int_equal(errno, EADDRNOTAVAIL);
	assert_int_equal(rdma_destroy_id(id), 0);
	cm_set_port(&addr, 0);
	return addr;
}

static void address_goes(struct ends *ends)
{
	host_ip("addr del " PASSING "/24 dev own0");
	cm_pass(ends->client, ends->active, RDMA_CM_EVENT_ADDR_CHANGE);
	cm_skip_to(ends->server, RDMA_CM_EVENT_ADDR_CHANGE);
	cm_skip_to(ends->server, RDMA_CM_EVENT_ADDR_CHANGE);
}

static void an_acceptance_that_reaches_nobody(void **state)
{
	struct rdma_conn_param param = {.retry_count = 7};
	struct sockaddr_storage addr;
	struct ends ends;

	(void)state;
	host_needed();
	addr = address_comes();
	ends_listen(&ends, &addr, 1);
	ends_resolve(&ends);
	ends_create_qp(ends.active);
	ends_request(&ends, NULL);
	address_goes(&ends);
	ends_create_qp(ends.passive);
	param.qp_num = ends.passive->qp->qp_num;
	rdma_destroy_qp(ends.passive);
	assert_int_equal(rdma_accept(ends.passive, &param), 0);
	cm_fail(ends.server, RDMA_CM_EVENT_UNREACHABLE, -ETIMEDOUT);
	/* And the one who asked waits in vain, a minute if it asked again while there was a way: an MRA told it so. */
	ends_close(&ends);
}

static void an_end_that_nobody_confirms(void **state)
{
	struct sockaddr_storage addr;
	struct ends ends;

	(void)state;
	host_needed();
	addr = address_comes();
	ends_open(&ends, &addr);
	address_goes(&ends);
	assert_int_equal(rdma_disconnect(ends.active), 0);
	cm_fail(ends.client, RDMA_CM_EVENT_DISCONNECTED, -ETIMEDOUT);
	ends_close(&ends);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_route_error_says_why),
		cmocka_unit_test(a_silent_host_is_unreachable),
		cmocka_unit_test(an_acceptance_that_reaches_nobody),
		cmocka_unit_test(an_end_that_nobody_confirms),
	};

	/* Read once, by the first connect. */
	setenv("USRDMA_CM_TIMEOUT", PATIENCE_S, 1);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
