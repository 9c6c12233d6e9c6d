/* SPDX-License-Identifier: BSD-2-Clause */
#include <arpa/inet.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "fixture.h"
#include "host.h"

/*
 * Calls with an address vector succeed only if the kernel has a route to the destination and the
 * link-layer address of the next hop. The other end of own0 replies to no ARP request and no
 * neighbour solicitation.
 */

#define NO_ROUTE4    "192.0.2.1"
#define NO_ROUTE6    "2001:db8::1"
#define ABSENT4	     "10.77.0.66"
#define ABSENT6	     "fd77::66"
#define ABSENT_LOCAL "fe80::66"
#define NEIGHBOUR4   "10.77.0.77"
#define NEIGHBOUR6   "fd77::77"
/* Not used by other tests: a resolution that began earlier would end earlier. */
#define SILENT	     "10.77.0.67"
#define BLOCKED	     "203.0.113.1"
#define NEIGHBOUR_IS " lladdr 02:00:00:00:00:77 dev own0 nud permanent"

static struct api api;

static void address(union ibv_gid *gid, const char *text)
{
	char mapped[INET6_ADDRSTRLEN + 8];

	snprintf(mapped, sizeof(mapped), strchr(text, ':') ? "%s" : "::ffff:%s", text);
	assert_int_equal(inet_pton(AF_INET6, mapped, gid), 1);
}

static int index_of(const char *text)
{
	union ibv_gid wanted, gid;

	address(&wanted, text);
	for (int i = 0; i < 16; i++) {
		if (!ibv_query_gid(api.ctx, 1, i, &gid) && !memcmp(&gid, &wanted, sizeof(gid)))
			return i;
	}
	fail();
	return -1;
}

/* A path from own0's address of the family. GID index 0 is the link-local GID. */
static struct ibv_ah_attr path_to(const char *text)
{
	struct ibv_ah_attr attr = {.is_global = 1, .port_num = 1, .grh = {.hop_limit = 1}};

	address(&attr.grh.dgid, text);
	if (!strchr(text, ':'))
		attr.grh.sgid_index = (uint8_t)index_of("10.77.0.1");
	else if (strncmp(text, "fe80:", 5) != 0)
		attr.grh.sgid_index = (uint8_t)index_of("fd77::1");
	return attr;
}

static void succeeds(const char *text)
{
	struct ibv_ah_attr attr = path_to(text);
	struct ibv_ah *ah = ibv_create_ah(api.pd, &attr);

	assert_non_null(ah);
	assert_int_equal(ibv_destroy_ah(ah), 0);
}

static bool means_no_neighbour(int error)
{
	return error == ETIMEDOUT || error == EHOSTUNREACH;
}

/*
 * The kernel's resolution may have begun before the call, so that it ends before the call's
 * timeout.
 */
static void has_no_neighbour(const char *text)
{
	struct ibv_ah_attr attr = path_to(text);

	errno = 0;
	assert_null(ibv_create_ah(api.pd, &attr));
	assert_true(means_no_neighbour(errno));
}

static void ibv_create_ah_without_route_fails_with_enetunreach(void **state)
{
	struct ibv_ah_attr attr = path_to(NO_ROUTE4);

	(void)state;
	assert_null_errno(ibv_create_ah(api.pd, &attr), ENETUNREACH);
	attr = path_to(NO_ROUTE6);
	assert_null_errno(ibv_create_ah(api.pd, &attr), ENETUNREACH);
	host_needed();
	host_ip("route add unreachable " BLOCKED "/32");
	attr = path_to(BLOCKED);
	assert_null_errno(ibv_create_ah(api.pd, &attr), EHOSTUNREACH);
	host_ip("route del unreachable " BLOCKED "/32");
}

static void ibv_create_ah_without_neighbour_fails_after_resolution(void **state)
{
	struct ibv_ah_attr attr = path_to(SILENT);

	(void)state;
	assert_null_errno(ibv_create_ah(api.pd, &attr), ETIMEDOUT);
	has_no_neighbour(ABSENT4);
	has_no_neighbour(ABSENT6);
	has_no_neighbour(ABSENT_LOCAL);
}

static void ibv_create_ah_to_known_neighbour_succeeds(void **state)
{
	(void)state;
	host_needed();
	host_ip("neigh replace " NEIGHBOUR4 NEIGHBOUR_IS);
	host_ip("neigh replace " NEIGHBOUR6 NEIGHBOUR_IS);
	host_ip("neigh replace fe80::77" NEIGHBOUR_IS);
	host_ip("route add 10.99.0.0/24 via " NEIGHBOUR4);
	succeeds(NEIGHBOUR4);
	succeeds(NEIGHBOUR6);
	succeeds("fe80::77");
	succeeds("10.99.0.1");
	host_ip("route del 10.99.0.0/24");
	host_ip("neigh del " NEIGHBOUR4 " dev own0");
	host_ip("neigh del " NEIGHBOUR6 " dev own0");
	host_ip("neigh del fe80::77 dev own0");
}

static void ibv_create_ah_to_own_address_or_group_needs_no_neighbour(void **state)
{
	struct ibv_ah_attr attr = path_to("fe80::1");
	struct ibv_ah *ah;

	(void)state;
	succeeds("10.77.0.1");
	succeeds("fd77::1");
	succeeds("127.0.0.1");
	succeeds("::1");
	succeeds("239.77.0.9");
	succeeds("ff12::1:7");
	attr.grh.dgid = api.gid;
	ah = ibv_create_ah(api.pd, &attr);
	assert_non_null(ah);
	assert_int_equal(ibv_destroy_ah(ah), 0);
}

/*
 * A received datagram with this sender: the GRH area of the buffer contains the IPv4 header (IBA
 * A17).
 */
static void received_from(const char *sender, struct ibv_wc *wc, struct ibv_grh *grh)
{
	uint8_t *header = (uint8_t *)grh + 20;

	memset(wc, 0, sizeof(*wc));
	memset(grh, 0, sizeof(*grh));
	wc->wc_flags = IBV_WC_GRH;
	header[0] = 0x45;
	assert_int_equal(inet_pton(AF_INET, sender, header + 12), 1);
	assert_int_equal(inet_pton(AF_INET, "10.77.0.1", header + 16), 1);
}

static void ibv_create_ah_from_wc_resolves_the_sender(void **state)
{
	struct ibv_ah_attr attr;
	struct ibv_grh grh;
	struct ibv_wc wc;
	struct ibv_ah *ah;

	(void)state;
	received_from(NO_ROUTE4, &wc, &grh);
	assert_int_equal(ibv_init_ah_from_wc(api.ctx, 1, &wc, &grh, &attr), 0);
	assert_null_errno(ibv_create_ah_from_wc(api.pd, &wc, &grh, 1), ENETUNREACH);
	received_from(ABSENT4, &wc, &grh);
	assert_int_equal(ibv_init_ah_from_wc(api.ctx, 1, &wc, &grh, &attr), 0);
	errno = 0;
	assert_null(ibv_create_ah_from_wc(api.pd, &wc, &grh, 1));
	assert_true(means_no_neighbour(errno));
	received_from("10.77.0.1", &wc, &grh);
	ah = ibv_create_ah_from_wc(api.pd, &wc, &grh, 1);
	assert_non_null(ah);
	assert_int_equal(ibv_destroy_ah(ah), 0);
}

/* INIT to RTR, or SQD to SQD. */
static int set_path(struct ibv_qp *qp, const char *text)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = 0x8002,
		.max_dest_rd_atomic = 4,
		.min_rnr_timer = 1,
		.ah_attr = path_to(text),
	};
	int mask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;

	if (qp_state(qp) == IBV_QPS_SQD)
		mask = IBV_QP_AV;
	else if (qp->qp_type == IBV_QPT_RC)
		mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
	return ibv_modify_qp(qp, &attr, mask);
}

static void ibv_modify_qp_to_rtr_resolves_the_peer(void **state)
{
	static const enum ibv_qp_type types[] = {IBV_QPT_RC, IBV_QPT_UC};

	(void)state;
	for (int i = 0; i < 2; i++) {
		struct pair_options options = {.type = types[i], .stays_unconnected = true};
		struct pair pair;
		struct ibv_qp *qp;

		pair_open(&pair, &api, &options);
		qp = pair.a.qp;
		assert_int_equal(qp_to_init(qp, IBV_ACCESS_REMOTE_WRITE), 0);
		assert_int_equal(set_path(qp, NO_ROUTE4), ENETUNREACH);
		assert_int_equal(set_path(qp, NO_ROUTE6), ENETUNREACH);
		assert_true(means_no_neighbour(set_path(qp, ABSENT4)));
		assert_int_equal(qp_state(qp), IBV_QPS_INIT);
		assert_int_equal(set_path(qp, "10.77.0.1"), 0);
		assert_int_equal(qp_state(qp), IBV_QPS_RTR);
		pair_close(&pair);
	}
}

static void ibv_modify_qp_in_sqd_resolves_the_peer(void **state)
{
	struct pair_options options = {.stays_unconnected = true};
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_SQD};
	struct pair pair;
	struct ibv_qp *qp;

	(void)state;
	host_needed();
	host_ip("neigh replace " NEIGHBOUR4 NEIGHBOUR_IS);
	pair_open(&pair, &api, &options);
	qp = pair.a.qp;
	assert_int_equal(qp_to_init(qp, IBV_ACCESS_REMOTE_WRITE), 0);
	assert_int_equal(set_path(qp, NEIGHBOUR4), 0);
	assert_int_equal(qp_to_rts(qp, 1, 1), 0);
	assert_int_equal(ibv_modify_qp(qp, &attr, IBV_QP_STATE), 0);
	assert_int_equal(qp_state(qp), IBV_QPS_SQD);
	assert_int_equal(set_path(qp, NEIGHBOUR4), 0);
	assert_int_equal(set_path(qp, "10.77.0.1"), EOPNOTSUPP);
	assert_int_equal(set_path(qp, NO_ROUTE4), ENETUNREACH);
	assert_true(means_no_neighbour(set_path(qp, ABSENT4)));
	host_ip("neigh del " NEIGHBOUR4 " dev own0");
	assert_true(means_no_neighbour(set_path(qp, NEIGHBOUR4)));
	assert_int_equal(qp_state(qp), IBV_QPS_SQD);
	pair_close(&pair);
}

/* After a transition to RTR with path_to(), whose hop limit is 1. */
static uint8_t hop_limit_to(const char *text)
{
	struct pair_options options = {.stays_unconnected = true};
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;
	struct pair pair;

	pair_open(&pair, &api, &options);
	assert_int_equal(qp_to_init(pair.a.qp, IBV_ACCESS_REMOTE_WRITE), 0);
	assert_int_equal(set_path(pair.a.qp, text), 0);
	assert_int_equal(ibv_query_qp(pair.a.qp, &attr, IBV_QP_AV, &init), 0);
	pair_close(&pair);
	return attr.ah_attr.grh.hop_limit;
}

static void ibv_modify_qp_uses_hop_limit_of_route(void **state)
{
	(void)state;
	host_needed();
	assert_int_equal(hop_limit_to("10.77.0.1"), 64);
	host_ip("neigh replace " NEIGHBOUR4 NEIGHBOUR_IS);
	host_ip("neigh replace " NEIGHBOUR6 NEIGHBOUR_IS);
	assert_int_equal(hop_limit_to(NEIGHBOUR4), 64);
	assert_int_equal(hop_limit_to(NEIGHBOUR6), 64);
	host_ip("route add " NEIGHBOUR4 "/32 dev own0 hoplimit 33");
	host_ip("-6 route add " NEIGHBOUR6 "/128 dev own0 hoplimit 21");
	assert_int_equal(hop_limit_to(NEIGHBOUR4), 33);
	assert_int_equal(hop_limit_to(NEIGHBOUR6), 21);
	host_ip("route del " NEIGHBOUR4 "/32 dev own0");
	host_ip("-6 route del " NEIGHBOUR6 "/128 dev own0");
	host_ip("neigh del " NEIGHBOUR4 " dev own0");
	host_ip("neigh del " NEIGHBOUR6 " dev own0");
}

/* A thread that creates address handles to an absent neighbour, one after the other. */
struct prober {
	pthread_t thread;
	atomic_uint began; /* calls */
	atomic_uint ended;
	atomic_bool is_over;
	atomic_int last_errno;
};

static void *probe(void *arg)
{
	struct prober *prober = arg;
	struct ibv_ah_attr attr = path_to(ABSENT4);

	while (!atomic_load(&prober->is_over)) {
		atomic_fetch_add(&prober->began, 1);
		if (ibv_create_ah(api.pd, &attr))
			break;
		atomic_store(&prober->last_errno, errno);
		atomic_fetch_add(&prober->ended, 1);
	}
	return NULL;
}

/* The other thread waits for the kernel during all of these calls at least once. */
static void ibv_create_ah_does_not_delay_other_calls(void **state)
{
	struct pair_options options = {.type = IBV_QPT_RC};
	struct prober prober = {.began = 0};
	struct pair pair;
	unsigned int call;

	(void)state;
	assert_int_equal(pthread_create(&prober.thread, NULL, probe, &prober), 0);
	do {
		while ((call = atomic_load(&prober.began)) == atomic_load(&prober.ended))
			sched_yield();
		succeeds("10.77.0.1");
		pair_open(&pair, &api, &options);
		pair_close(&pair);
	} while (call != atomic_load(&prober.ended) + 1 || call != atomic_load(&prober.began));
	atomic_store(&prober.is_over, true);
	assert_int_equal(pthread_join(prober.thread, NULL), 0);
	assert_int_equal(atomic_load(&prober.began), atomic_load(&prober.ended));
	assert_true(means_no_neighbour(atomic_load(&prober.last_errno)));
}

static void ibv_create_ah_fails_with_eio_if_daemon_ends(void **state)
{
	struct prober prober = {.began = 0};

	(void)state;
	assert_int_equal(pthread_create(&prober.thread, NULL, probe, &prober), 0);
	while (!atomic_load(&prober.began))
		sched_yield();
	host_kill_daemon();
	while (atomic_load(&prober.last_errno) != EIO)
		sched_yield();
	atomic_store(&prober.is_over, true);
	assert_int_equal(pthread_join(prober.thread, NULL), 0);
	assert_int_equal(ibv_dealloc_pd(api.pd), 0);
	assert_int_equal(ibv_close_device(api.ctx), 0);
	api_open(&api);
}

static int reach_setup(void **state)
{
	(void)state;
	api_open(&api);
	return 0;
}

static int reach_teardown(void **state)
{
	(void)state;
	api_close(&api);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ibv_create_ah_without_route_fails_with_enetunreach),
		cmocka_unit_test(ibv_create_ah_without_neighbour_fails_after_resolution),
		cmocka_unit_test(ibv_create_ah_to_known_neighbour_succeeds),
		cmocka_unit_test(ibv_create_ah_to_own_address_or_group_needs_no_neighbour),
		cmocka_unit_test(ibv_create_ah_from_wc_resolves_the_sender),
		cmocka_unit_test(ibv_modify_qp_to_rtr_resolves_the_peer),
		cmocka_unit_test(ibv_modify_qp_in_sqd_resolves_the_peer),
		cmocka_unit_test(ibv_modify_qp_uses_hop_limit_of_route),
		cmocka_unit_test(ibv_create_ah_does_not_delay_other_calls),
		cmocka_unit_test(ibv_create_ah_fails_with_eio_if_daemon_ends),
	};

	return cmocka_run_group_tests(tests, reach_setup, reach_teardown);
}
