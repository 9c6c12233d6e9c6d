/* SPDX-License-Identifier: BSD-2-Clause */
/* The errno of each call on an id, for each phase of an id that an application can produce. */
#include "cm_fixture.h"

#define ANY_QPN	   0x1234
#define TIMEOUT_MS 10000

/* Each function brings ends->active or ends->passive to a phase and returns that id. */

static struct rdma_cm_id *idle(struct ends *ends)
{
	ends_listen(ends, NULL, 8);
	ends->active = cm_id(ends->client);
	return ends->active;
}

static struct rdma_cm_id *bound(struct ends *ends)
{
	struct sockaddr_storage any_port = cm_loopback(0);
	struct rdma_cm_id *id = idle(ends);

	assert_int_equal(rdma_bind_addr(id, (struct sockaddr *)&any_port), 0);
	return id;
}

static struct rdma_cm_id *listening(struct ends *ends)
{
	struct rdma_cm_id *id = bound(ends);

	assert_int_equal(rdma_listen(id, 1), 0);
	return id;
}

static struct rdma_cm_id *addr_resolved(struct ends *ends)
{
	struct rdma_cm_id *id = idle(ends);

	assert_int_equal(rdma_resolve_addr(id, NULL, (struct sockaddr *)&ends->addr, TIMEOUT_MS),
			 0);
	cm_pass(ends->client, id, RDMA_CM_EVENT_ADDR_RESOLVED);
	return id;
}

static struct rdma_cm_id *route_resolved(struct ends *ends)
{
	struct rdma_cm_id *id = addr_resolved(ends);

	assert_int_equal(rdma_resolve_route(id, TIMEOUT_MS), 0);
	cm_pass(ends->client, id, RDMA_CM_EVENT_ROUTE_RESOLVED);
	return id;
}

static struct rdma_cm_id *connecting(struct ends *ends)
{
	ends_create_qp(route_resolved(ends));
	ends_request(ends, NULL);
	return ends->active;
}

static struct rdma_cm_id *requested(struct ends *ends)
{
	connecting(ends);
	ends_create_qp(ends->passive);
	return ends->passive;
}

static struct rdma_cm_id *rejecting(struct ends *ends)
{
	requested(ends);
	assert_int_equal(rdma_reject(ends->passive, NULL, 0), 0);
	return ends->passive;
}

static struct rdma_cm_id *refused(struct ends *ends)
{
	rejecting(ends);
	cm_fail(ends->client, RDMA_CM_EVENT_REJECTED, 28);
	return ends->active;
}

/* Without a QP, the application completes the connection. */
static struct rdma_cm_id *responded(struct ends *ends)
{
	struct rdma_conn_param param = {.qp_num = ANY_QPN};

	route_resolved(ends);
	ends_request(ends, &param);
	ends_create_qp(ends->passive);
	assert_int_equal(rdma_accept(ends->passive, NULL), 0);
	cm_pass(ends->client, ends->active, RDMA_CM_EVENT_CONNECT_RESPONSE);
	return ends->active;
}

static struct rdma_cm_id *accepted(struct ends *ends)
{
	responded(ends);
	return ends->passive;
}

static struct rdma_cm_id *active(struct ends *ends)
{
	ends_open(ends, NULL);
	return ends->active;
}

static struct rdma_cm_id *passive(struct ends *ends)
{
	ends_open(ends, NULL);
	return ends->passive;
}

/* The peer has disconnected, this side has not. */
static struct rdma_cm_id *disconnected(struct ends *ends)
{
	ends_open(ends, NULL);
	assert_int_equal(rdma_disconnect(ends->active), 0);
	cm_pass(ends->server, ends->passive, RDMA_CM_EVENT_DISCONNECTED);
	return ends->passive;
}

static struct rdma_cm_id *over(struct ends *ends)
{
	disconnected(ends);
	assert_int_equal(rdma_disconnect(ends->passive), 0);
	cm_pass(ends->client, ends->active, RDMA_CM_EVENT_DISCONNECTED);
	return ends->active;
}

static int call_bind(struct rdma_cm_id *id)
{
	struct sockaddr_storage addr = cm_loopback(0);

	return rdma_bind_addr(id, (struct sockaddr *)&addr);
}

static int call_listen(struct rdma_cm_id *id)
{
	return rdma_listen(id, 1);
}

static int call_resolve_addr(struct rdma_cm_id *id)
{
	struct sockaddr_storage addr = cm_loopback(CM_PORT_NOBODY);

	return rdma_resolve_addr(id, NULL, (struct sockaddr *)&addr, TIMEOUT_MS);
}

static int call_resolve_route(struct rdma_cm_id *id)
{
	return rdma_resolve_route(id, TIMEOUT_MS);
}

static int call_connect(struct rdma_cm_id *id)
{
	struct rdma_conn_param param = {.qp_num = ANY_QPN};

	return rdma_connect(id, &param);
}

static int call_accept(struct rdma_cm_id *id)
{
	struct rdma_conn_param param = {.qp_num = ANY_QPN};

	return rdma_accept(id, &param);
}

static int call_reject(struct rdma_cm_id *id)
{
	return rdma_reject(id, NULL, 0);
}

static int call_notify(struct rdma_cm_id *id)
{
	return rdma_notify(id, IBV_EVENT_COMM_EST);
}

static int call_get_request(struct rdma_cm_id *id)
{
	struct rdma_cm_id *request;

	return rdma_get_request(id, &request);
}

enum {
	BIND_ADDR,
	LISTEN,
	RESOLVE_ADDR,
	RESOLVE_ROUTE,
	CONNECT,
	ACCEPT,
	REJECT,
	ESTABLISH,
	NOTIFY,
	DISCONNECT,
	GET_REQUEST,
	CALLS
};

static int (*const calls[CALLS])(struct rdma_cm_id *id) = {
	[BIND_ADDR] = call_bind,
	[LISTEN] = call_listen,
	[RESOLVE_ADDR] = call_resolve_addr,
	[RESOLVE_ROUTE] = call_resolve_route,
	[CONNECT] = call_connect,
	[ACCEPT] = call_accept,
	[REJECT] = call_reject,
	[ESTABLISH] = rdma_establish,
	[NOTIFY] = call_notify,
	[DISCONNECT] = rdma_disconnect,
	[GET_REQUEST] = call_get_request,
};

#define ALLOW(call) (1u << (call))

/*
 * The calls that succeed. The others fail with EINVAL, except that rdma_notify() of a connected id
 * fails with EISCONN.
 */
static const struct {
	const char *name;
	struct rdma_cm_id *(*enter)(struct ends *ends);
	unsigned allowed;
	int notify_errno;
} phases[] = {
	{"idle", idle, ALLOW(BIND_ADDR) | ALLOW(LISTEN) | ALLOW(RESOLVE_ADDR), EINVAL},
	{"bound", bound, ALLOW(LISTEN) | ALLOW(RESOLVE_ADDR), EINVAL},
	{"listening", listening, 0, EINVAL},
	{"address resolved", addr_resolved, ALLOW(RESOLVE_ROUTE), EINVAL},
	{"route resolved", route_resolved, ALLOW(CONNECT), EINVAL},
	{"connecting", connecting, ALLOW(DISCONNECT), EINVAL},
	{"requested", requested, ALLOW(ACCEPT) | ALLOW(REJECT) | ALLOW(DISCONNECT), EINVAL},
	{"rejecting", rejecting, ALLOW(DISCONNECT), EINVAL},
	{"refused", refused, ALLOW(DISCONNECT), EINVAL},
	{"responded", responded, ALLOW(REJECT) | ALLOW(ESTABLISH) | ALLOW(DISCONNECT), EINVAL},
	{"accepted", accepted, ALLOW(NOTIFY) | ALLOW(DISCONNECT), EINVAL},
	{"connected, active", active, ALLOW(DISCONNECT), EISCONN},
	{"connected, passive", passive, ALLOW(DISCONNECT), EISCONN},
	{"disconnected by the peer", disconnected, ALLOW(DISCONNECT), EINVAL},
	{"over", over, ALLOW(DISCONNECT), EINVAL},
};

static int wanted_errno(size_t phase, unsigned call)
{
	if (phases[phase].allowed & ALLOW(call))
		return 0;
	return call == NOTIFY ? phases[phase].notify_errno : EINVAL;
}

static void rdma_cm_calls_have_errno_of_phase(void **state)
{
	bool is_right = true;

	(void)state;
	for (size_t p = 0; p < sizeof(phases) / sizeof(phases[0]); p++) {
		for (unsigned c = 0; c < CALLS; c++) {
			struct ends ends;
			struct rdma_cm_id *id = phases[p].enter(&ends);
			int got = calls[c](id) ? errno : 0;

			if (got != wanted_errno(p, c)) {
				print_error("call %u in phase %s: %d, not %d\n", c, phases[p].name,
					    got, wanted_errno(p, c));
				is_right = false;
			}
			ends_close(&ends);
		}
	}
	assert_true(is_right);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rdma_cm_calls_have_errno_of_phase),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
