/* SPDX-License-Identifier: BSD-2-Clause */
/* rdma_set_option(): every level and name, its effect, and its errors. */
#include "cm_fixture.h"

#include <endian.h>
#include <errno.h>
#include <infiniband/sa.h>
#include <stdlib.h>
#include <string.h>

#define EXACTLY (2 << 6)
#define SERVES	(IBV_PATH_FLAG_GMP | IBV_PATH_FLAG_PRIMARY | IBV_PATH_FLAG_BIDIRECTIONAL)

static struct sockaddr *sa(struct sockaddr_storage *addr)
{
	return (struct sockaddr *)addr;
}

static int set_byte(struct rdma_cm_id *id, int name, uint8_t value)
{
	return rdma_set_option(id, RDMA_OPTION_ID, name, &value, sizeof(value));
}

static int set_int(struct rdma_cm_id *id, int name, int value)
{
	return rdma_set_option(id, RDMA_OPTION_ID, name, &value, sizeof(value));
}

static void rdma_set_option_invalid_option_fails(void **state)
{
	static const struct {
		int name;
		size_t bytes;
	} options[] = {
		{RDMA_OPTION_ID_TOS, 1},
		{RDMA_OPTION_ID_REUSEADDR, sizeof(int)},
		{RDMA_OPTION_ID_AFONLY, sizeof(int)},
		{RDMA_OPTION_ID_ACK_TIMEOUT, 1},
	};
	struct rdma_event_channel *channel = cm_channel();
	struct rdma_cm_id *id = cm_id(channel);
	uint8_t value[128] = {0};

	(void)state;
	for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++) {
		for (size_t bytes = 0; bytes <= sizeof(value); bytes++) {
			if (bytes == options[i].bytes)
				continue;
			assert_minus1_errno(rdma_set_option(id, RDMA_OPTION_ID, options[i].name,
							    value, bytes),
					    EINVAL);
		}
		assert_minus1_errno(rdma_set_option(id, RDMA_OPTION_ID, options[i].name, NULL,
						    options[i].bytes),
				    EINVAL);
		assert_minus1_errno(rdma_set_option(NULL, RDMA_OPTION_ID, options[i].name, value,
						    options[i].bytes),
				    EINVAL);
		assert_int_equal(rdma_set_option(id, RDMA_OPTION_ID, options[i].name, value,
						 options[i].bytes),
				 0);
	}
	assert_minus1_errno(rdma_set_option(id, RDMA_OPTION_ID, -1, value, 1), ENOSYS);
	assert_minus1_errno(rdma_set_option(id, RDMA_OPTION_ID, 4, value, 1), ENOSYS);
	assert_minus1_errno(rdma_set_option(id, RDMA_OPTION_IB, 0, value, 1), ENOSYS);
	assert_minus1_errno(rdma_set_option(id, RDMA_OPTION_IB, 2, value, 1), ENOSYS);
	assert_minus1_errno(rdma_set_option(id, -1, 0, value, 1), ENOSYS);
	assert_minus1_errno(rdma_set_option(id, 2, 0, value, 1), ENOSYS);
	assert_int_equal(rdma_destroy_id(id), 0);
	rdma_destroy_event_channel(channel);
}

static struct ibv_qp_attr qp_attr(struct rdma_cm_id *id)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	assert_int_equal(ibv_query_qp(id->qp, &attr, IBV_QP_AV | IBV_QP_TIMEOUT, &init), 0);
	return attr;
}

static void rdma_set_option_tos_is_in_path(void **state)
{
	struct ends ends;

	(void)state;
	ends_listen(&ends, NULL, 1);
	ends.active = cm_id(ends.client);
	assert_int_equal(set_byte(ends.active, RDMA_OPTION_ID_TOS, 0x28), 0);
	assert_int_equal(rdma_resolve_addr(ends.active, NULL, sa(&ends.addr), 1000), 0);
	cm_pass(ends.client, ends.active, RDMA_CM_EVENT_ADDR_RESOLVED);
	assert_int_equal(rdma_resolve_route(ends.active, 1000), 0);
	cm_pass(ends.client, ends.active, RDMA_CM_EVENT_ROUTE_RESOLVED);
	assert_int_equal(ends.active->route.path_rec->traffic_class, 0x28);
	ends_create_qp(ends.active);
	ends_request(&ends, NULL);
	ends_create_qp(ends.passive);
	ends_establish(&ends);
	assert_int_equal(qp_attr(ends.active).ah_attr.grh.traffic_class, 0x28);
	assert_int_equal(qp_attr(ends.passive).ah_attr.grh.traffic_class, 0x28);
	ends_close(&ends);
}

static void rdma_set_option_ack_timeout_is_used_by_qp(void **state)
{
	struct ends ends;

	(void)state;
	ends_listen(&ends, NULL, 1);
	ends_resolve(&ends);
	assert_minus1_errno(set_byte(ends.active, RDMA_OPTION_ID_ACK_TIMEOUT, 32), EINVAL);
	assert_minus1_errno(set_byte(ends.active, RDMA_OPTION_ID_ACK_TIMEOUT, 255), EINVAL);
	assert_int_equal(set_byte(ends.active, RDMA_OPTION_ID_ACK_TIMEOUT, 31), 0);
	assert_int_equal(set_byte(ends.active, RDMA_OPTION_ID_ACK_TIMEOUT, 19), 0);
	ends_create_qp(ends.active);
	ends_request(&ends, NULL);
	ends_create_qp(ends.passive);
	ends_establish(&ends);
	assert_int_equal(qp_attr(ends.active).timeout, 19);
	ends_close(&ends);
}

/* A datagram QP has no ACK timeout. Linux refuses the option, too. */
static void rdma_set_option_ack_timeout_of_datagram_id_fails(void **state)
{
	struct rdma_event_channel *channel = cm_channel();
	struct rdma_cm_id *id;

	(void)state;
	assert_int_equal(rdma_create_id(channel, &id, NULL, RDMA_PS_UDP), 0);
	assert_minus1_errno(set_byte(id, RDMA_OPTION_ID_ACK_TIMEOUT, 19), EINVAL);
	assert_int_equal(set_byte(id, RDMA_OPTION_ID_TOS, 19), 0);
	assert_int_equal(rdma_destroy_id(id), 0);
	rdma_destroy_event_channel(channel);
}

/* As on Linux, REUSEADDR may be set until the id listens. */
static void rdma_set_option_reuseaddr_before_listen_succeeds(void **state)
{
	struct rdma_event_channel *channel = cm_channel();
	struct sockaddr_storage addr = cm_loopback(7);
	struct rdma_cm_id *id = cm_id(channel);

	(void)state;
	assert_int_equal(rdma_resolve_addr(id, NULL, sa(&addr), 1000), 0);
	cm_pass(channel, id, RDMA_CM_EVENT_ADDR_RESOLVED);
	assert_int_equal(set_int(id, RDMA_OPTION_ID_REUSEADDR, 1), 0);
	assert_int_equal(rdma_destroy_id(id), 0);
	rdma_destroy_event_channel(channel);
}

static void rdma_set_option_reuseaddr_needs_both_ids(void **state)
{
	struct rdma_event_channel *channel = cm_channel();
	struct sockaddr_storage addr = cm_loopback(0);
	struct rdma_cm_id *ids[3];

	(void)state;
	for (int i = 0; i < 2; i++) {
		ids[i] = cm_id(channel);
		assert_int_equal(set_int(ids[i], RDMA_OPTION_ID_REUSEADDR, 1), 0);
		assert_int_equal(rdma_bind_addr(ids[i], sa(&addr)), 0);
		cm_set_port(&addr, rdma_get_src_port(ids[i]));
	}
	ids[2] = cm_id(channel);
	assert_minus1_errno(rdma_bind_addr(ids[2], sa(&addr)), EADDRINUSE);
	/* The option cannot be cleared. */
	assert_minus1_errno(set_int(ids[0], RDMA_OPTION_ID_REUSEADDR, 0), EINVAL);
	assert_int_equal(rdma_listen(ids[0], 1), 0);
	assert_minus1_errno(set_int(ids[0], RDMA_OPTION_ID_REUSEADDR, 1), EINVAL);
	for (int i = 0; i < 3; i++)
		assert_int_equal(rdma_destroy_id(ids[i]), 0);
	rdma_destroy_event_channel(channel);
}

static void rdma_set_option_afonly_permits_other_family(void **state)
{
	struct rdma_event_channel *channel = cm_channel();
	struct sockaddr_storage any6 = {.ss_family = AF_INET6}, any4 = {.ss_family = AF_INET};
	struct rdma_cm_id *six = cm_id(channel), *four = cm_id(channel);

	(void)state;
	assert_int_equal(rdma_bind_addr(six, sa(&any6)), 0);
	cm_set_port(&any4, rdma_get_src_port(six));
	assert_minus1_errno(rdma_bind_addr(four, sa(&any4)), EADDRINUSE);
	assert_int_equal(rdma_destroy_id(six), 0);

	six = cm_id(channel);
	assert_int_equal(set_int(six, RDMA_OPTION_ID_AFONLY, 1), 0);
	cm_set_port(&any6, 0);
	assert_int_equal(rdma_bind_addr(six, sa(&any6)), 0);
	cm_set_port(&any4, rdma_get_src_port(six));
	assert_int_equal(rdma_bind_addr(four, sa(&any4)), 0);
	assert_int_equal(rdma_listen(six, 1), 0);
	assert_minus1_errno(set_int(six, RDMA_OPTION_ID_AFONLY, 0), EINVAL);
	assert_int_equal(rdma_destroy_id(six), 0);
	assert_int_equal(rdma_destroy_id(four), 0);
	rdma_destroy_event_channel(channel);
}

/*
 * Whether a listener at this wildcard address gets a request for this address; -1: the option is
 * not set.
 */
static bool accepts_from(sa_family_t family, int family_only, const struct sockaddr_storage *addr)
{
	struct sockaddr_storage any = {.ss_family = family};
	struct rdma_cm_event *event;
	struct ends ends = {.server = cm_channel(), .client = cm_channel()};
	bool is_heard;

	ends.listener = cm_id(ends.server);
	if (family_only >= 0)
		assert_int_equal(set_int(ends.listener, RDMA_OPTION_ID_AFONLY, family_only), 0);
	assert_int_equal(rdma_bind_addr(ends.listener, sa(&any)), 0);
	assert_int_equal(rdma_listen(ends.listener, 1), 0);
	ends.addr = *addr;
	cm_set_port(&ends.addr, rdma_get_src_port(ends.listener));
	ends_resolve(&ends);
	ends_create_qp(ends.active);
	assert_int_equal(rdma_connect(ends.active, NULL), 0);
	while (!cm_readable(ends.server, 10) && !cm_readable(ends.client, 0))
		;
	is_heard = cm_readable(ends.server, 0);
	if (is_heard) {
		ends.request = cm_get(ends.server, RDMA_CM_EVENT_CONNECT_REQUEST);
		ends.passive = ends.request->id;
	} else {
		event = cm_get(ends.client, RDMA_CM_EVENT_REJECTED);
		assert_int_equal(event->status, 8);
		assert_int_equal(rdma_ack_cm_event(event), 0);
	}
	ends_close(&ends);
	return is_heard;
}

static void rdma_set_option_afonly_restricts_wildcard_listener(void **state)
{
	struct sockaddr_storage addrs[CM_ADDRS_MAX];

	(void)state;
	assert_true(cm_addrs(addrs) >= CM_LOOPBACKS);
	assert_true(accepts_from(AF_INET, -1, &addrs[0]));
	assert_false(accepts_from(AF_INET, -1, &addrs[1]));
	assert_true(accepts_from(AF_INET, 0, &addrs[1]));
	assert_true(accepts_from(AF_INET6, -1, &addrs[0]));
	assert_true(accepts_from(AF_INET6, -1, &addrs[1]));
	assert_false(accepts_from(AF_INET6, 1, &addrs[0]));
	assert_true(accepts_from(AF_INET6, 1, &addrs[1]));
}

/* A path record from the id's source to its resolved destination. */
static struct ibv_path_data path_of(const struct rdma_cm_id *id)
{
	struct ibv_path_data data = {
		.flags = SERVES,
		.path =
			{
				.sgid = id->route.addr.addr.ibaddr.sgid,
				.dgid = id->route.addr.addr.ibaddr.dgid,
				.flowlabel_hoplimit = htobe32(0x54321 << 8 | 33),
				.tclass = 0x18,
				.reversible_numpath = IBV_PATH_RECORD_REVERSIBLE | 1,
				.pkey = htobe16(0xffff),
				.qosclass_sl = htobe16(3),
				.mtu = EXACTLY | IBV_MTU_512,
				.rate = EXACTLY | IBV_RATE_10_GBPS,
				.packetlifetime = EXACTLY | 17,
			},
	};

	return data;
}

static int set_paths(struct rdma_cm_id *id, const struct ibv_path_data *paths, size_t count)
{
	return rdma_set_option(id, RDMA_OPTION_IB, RDMA_OPTION_IB_PATH, (void *)paths,
			       count * sizeof(*paths));
}

static void resolve_addr(struct ends *ends)
{
	ends_listen(ends, NULL, 4);
	ends->active = cm_id(ends->client);
	assert_int_equal(rdma_resolve_addr(ends->active, NULL, sa(&ends->addr), 1000), 0);
	cm_pass(ends->client, ends->active, RDMA_CM_EVENT_ADDR_RESOLVED);
}

static void rdma_set_option_ib_path_replaces_route(void **state)
{
	struct ibv_path_data paths[3];
	const struct ibv_sa_path_rec *record;
	struct ibv_qp_attr attr;
	struct ends ends;

	(void)state;
	resolve_addr(&ends);
	for (int i = 0; i < 3; i++)
		paths[i] = path_of(ends.active);
	/* The first path is outbound only; of the other two the first one is used. */
	paths[0].flags = IBV_PATH_FLAG_PRIMARY | IBV_PATH_FLAG_OUTBOUND;
	paths[0].path.tclass = 0x44;
	paths[2].path.tclass = 0x48;
	assert_int_equal(set_paths(ends.active, paths, 3), 0);
	cm_pass(ends.client, ends.active, RDMA_CM_EVENT_ROUTE_RESOLVED);
	assert_int_equal(ends.active->route.num_paths, 1);
	record = ends.active->route.path_rec;
	assert_int_equal(be32toh(record->flow_label), 0x54321);
	assert_int_equal(record->hop_limit, 33);
	assert_int_equal(record->traffic_class, 0x18);
	assert_int_equal(record->sl, 3);
	assert_int_equal(record->mtu, IBV_MTU_512);
	assert_int_equal(record->rate, IBV_RATE_10_GBPS);
	assert_int_equal(record->packet_life_time, 17);
	assert_int_equal(record->pkey, 0xffff);
	/* The route has been resolved already. */
	assert_minus1_errno(rdma_resolve_route(ends.active, 1000), EINVAL);
	assert_minus1_errno(set_paths(ends.active, paths, 3), EINVAL);

	ends_create_qp(ends.active);
	ends_request(&ends, NULL);
	ends_create_qp(ends.passive);
	ends_establish(&ends);
	attr = qp_attr(ends.active);
	assert_int_equal(attr.path_mtu, IBV_MTU_512);
	assert_int_equal(attr.ah_attr.grh.flow_label, 0x54321);
	/*
	 * ibv_modify_qp() replaces the hop limit of the path record, 33, by that of the kernel's
	 * route.
	 */
	assert_int_equal(attr.ah_attr.grh.hop_limit, 64);
	assert_int_equal(attr.ah_attr.grh.traffic_class, 0x18);
	assert_int_equal(attr.ah_attr.sl, 3);
	assert_int_equal(attr.timeout, 18);
	assert_int_equal(qp_attr(ends.passive).path_mtu, IBV_MTU_512);
	ends_close(&ends);
}

static void rdma_set_option_ib_path_default_members_are_filled(void **state)
{
	struct ibv_path_data path;
	struct ends ends;

	(void)state;
	resolve_addr(&ends);
	path = path_of(ends.active);
	path.path.flowlabel_hoplimit = 0;
	path.path.rate = 0;
	assert_int_equal(set_paths(ends.active, &path, 1), 0);
	cm_pass(ends.client, ends.active, RDMA_CM_EVENT_ROUTE_RESOLVED);
	assert_int_equal(ends.active->route.path_rec->hop_limit, 64);
	assert_int_not_equal(ends.active->route.path_rec->rate, 0);
	assert_int_equal(ends.active->route.path_rec->flow_label, 0);
	ends_close(&ends);
}

static void refuse(struct rdma_cm_id *id, const struct ibv_path_data *path)
{
	assert_minus1_errno(set_paths(id, path, 1), EINVAL);
}

static void rdma_set_option_invalid_ib_path_fails(void **state)
{
	struct ibv_path_data good, bad;
	struct rdma_cm_id *unresolved;
	struct ends ends;

	(void)state;
	resolve_addr(&ends);
	good = path_of(ends.active);
	for (size_t bytes = 0; bytes < sizeof(good); bytes++)
		assert_minus1_errno(rdma_set_option(ends.active, RDMA_OPTION_IB,
						    RDMA_OPTION_IB_PATH, &good, bytes),
				    EINVAL);
	assert_minus1_errno(rdma_set_option(ends.active, RDMA_OPTION_IB, RDMA_OPTION_IB_PATH, NULL,
					    sizeof(good)),
			    EINVAL);
	unresolved = cm_id(ends.client);
	refuse(unresolved, &good);
	assert_int_equal(rdma_destroy_id(unresolved), 0);
	refuse(ends.listener, &good);

	bad = good, bad.flags = SERVES & ~(uint32_t)IBV_PATH_FLAG_GMP, refuse(ends.active, &bad);
	bad = good, bad.flags |= IBV_PATH_FLAG_ALTERNATE, refuse(ends.active, &bad);
	bad = good, bad.path.sgid.raw[15] ^= 2, refuse(ends.active, &bad);
	bad = good, bad.path.dgid.raw[15] ^= 2, refuse(ends.active, &bad);
	bad = good, bad.path.mtu = EXACTLY, refuse(ends.active, &bad);
	bad = good, bad.path.mtu = EXACTLY | (IBV_MTU_4096 + 1), refuse(ends.active, &bad);
	bad = good, bad.path.rate = EXACTLY | 1, refuse(ends.active, &bad);
	bad = good, bad.path.rate = EXACTLY | 0x3f, refuse(ends.active, &bad);
	bad = good, bad.path.packetlifetime = EXACTLY | 31, refuse(ends.active, &bad);
	bad = good, bad.path.pkey = htobe16(0x8001), refuse(ends.active, &bad);
	/* The failed calls changed nothing. */
	assert_int_equal(rdma_resolve_route(ends.active, 1000), 0);
	cm_pass(ends.client, ends.active, RDMA_CM_EVENT_ROUTE_RESOLVED);
	ends_close(&ends);
}

/* The path's MTU exceeds that of the interface. */
static void rdma_set_option_ib_path_mtu_above_interface_fails(void **state)
{
	struct sockaddr_storage addrs[CM_ADDRS_MAX];
	struct ibv_path_data path;
	struct rdma_cm_id *id;
	struct ends ends;

	(void)state;
	if (cm_addrs(addrs) <= CM_LOOPBACKS)
		skip();
	ends_listen(&ends, &addrs[CM_LOOPBACKS], 1);
	id = cm_id(ends.client);
	assert_int_equal(rdma_resolve_addr(id, sa(&addrs[CM_LOOPBACKS]), sa(&ends.addr), 1000), 0);
	cm_pass(ends.client, id, RDMA_CM_EVENT_ADDR_RESOLVED);
	ends_resolve(&ends);
	path = path_of(id);
	if (ends.active->route.path_rec->mtu < IBV_MTU_4096) {
		path.path.mtu = (uint8_t)(EXACTLY | (ends.active->route.path_rec->mtu + 1));
		refuse(id, &path);
	}
	path.path.mtu = (uint8_t)(EXACTLY | ends.active->route.path_rec->mtu);
	assert_int_equal(set_paths(id, &path, 1), 0);
	cm_pass(ends.client, id, RDMA_CM_EVENT_ROUTE_RESOLVED);
	assert_int_equal(rdma_destroy_id(id), 0);
	ends_close(&ends);
}

/* rdma_create_ep() uses the path in the address information. */
static void rdma_create_ep_uses_path_of_addrinfo(void **state)
{
	struct rdma_addrinfo hints = {.ai_port_space = RDMA_PS_TCP};
	struct ibv_path_data path;
	struct rdma_addrinfo *info;
	struct rdma_cm_id *id;
	struct ends ends;

	(void)state;
	resolve_addr(&ends);
	path = path_of(ends.active);
	hints.ai_dst_addr = sa(&ends.addr);
	hints.ai_dst_len = sizeof(struct sockaddr_in);
	assert_int_equal(rdma_getaddrinfo(NULL, NULL, &hints, &info), 0);
	info->ai_route_len = sizeof(path);
	info->ai_route = malloc(sizeof(path));
	assert_non_null(info->ai_route);
	memcpy(info->ai_route, &path, sizeof(path));
	assert_int_equal(rdma_create_ep(&id, info, NULL, NULL), 0);
	assert_int_equal(id->route.num_paths, 1);
	assert_int_equal(id->route.path_rec->hop_limit, 33);
	rdma_destroy_ep(id);
	path.flags = 0;
	memcpy(info->ai_route, &path, sizeof(path));
	assert_minus1_errno(rdma_create_ep(&id, info, NULL, NULL), EINVAL);
	rdma_freeaddrinfo(info);
	ends_close(&ends);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rdma_set_option_invalid_option_fails),
		cmocka_unit_test(rdma_set_option_tos_is_in_path),
		cmocka_unit_test(rdma_set_option_ack_timeout_is_used_by_qp),
		cmocka_unit_test(rdma_set_option_ack_timeout_of_datagram_id_fails),
		cmocka_unit_test(rdma_set_option_reuseaddr_before_listen_succeeds),
		cmocka_unit_test(rdma_set_option_reuseaddr_needs_both_ids),
		cmocka_unit_test(rdma_set_option_afonly_permits_other_family),
		cmocka_unit_test(rdma_set_option_afonly_restricts_wildcard_listener),
		cmocka_unit_test(rdma_set_option_ib_path_replaces_route),
		cmocka_unit_test(rdma_set_option_ib_path_default_members_are_filled),
		cmocka_unit_test(rdma_set_option_invalid_ib_path_fails),
		cmocka_unit_test(rdma_set_option_ib_path_mtu_above_interface_fails),
		cmocka_unit_test(rdma_create_ep_uses_path_of_addrinfo),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
