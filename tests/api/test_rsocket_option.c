/* SPDX-License-Identifier: BSD-2-Clause */
#include "rsocket_fixture.h"

#include <infiniband/sa.h>

#define EXACTLY (2 << 6) /* the selector "exactly" of a value in a path record */

/*
 * Options on real rsockets: the options with an effect, and when they can no longer be set.
 * Accepted values are tested in the unit tests.
 */

static struct streams streams;

static int open_streams(void **state)
{
	(void)state;
	streams_open(&streams);
	return 0;
}

static int close_streams(void **state)
{
	(void)state;
	streams_close(&streams);
	return 0;
}

static void rgetsockopt_new_stream_has_defaults(void **state)
{
	int fd = rs_stream(AF_INET);

	(void)state;
	assert_int_equal(rs_get(fd, SOL_SOCKET, SO_TYPE), SOCK_STREAM);
	assert_int_equal(rs_get(fd, SOL_SOCKET, SO_DOMAIN), AF_INET);
	assert_int_equal(rs_get(fd, SOL_SOCKET, SO_PROTOCOL), IPPROTO_TCP);
	assert_int_equal(rs_get(fd, SOL_SOCKET, SO_ACCEPTCONN), 0);
	assert_int_equal(rs_get(fd, SOL_SOCKET, SO_ERROR), 0);
	assert_int_equal(rs_get(fd, SOL_SOCKET, SO_KEEPALIVE), 0);
	assert_int_equal(rs_get(fd, IPPROTO_TCP, TCP_NODELAY), 0);
	assert_int_equal(rs_get(fd, IPPROTO_TCP, TCP_MAXSEG), 2048);
	assert_true(rs_get(fd, IPPROTO_TCP, TCP_KEEPIDLE) > 0);
	assert_int_equal(rs_get(fd, SOL_RDMA, RDMA_IOMAPSIZE), 0);
	rs_close(fd);
}

/* The attributes of the queue pair cannot be changed and are returned. */
static void rsetsockopt_sizes_after_connect_fail(void **state)
{
	static const int names[] = {RDMA_SQSIZE, RDMA_RQSIZE, RDMA_INLINE, RDMA_IOMAPSIZE};
	int value = 20;

	(void)state;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		assert_minus1_errno(rsetsockopt(streams.active, SOL_RDMA, names[i], &value,
						sizeof(value)),
				    EINVAL);
	assert_int_equal(rs_get(streams.active, SOL_RDMA, RDMA_SQSIZE), 384);
	/* SO_SNDBUF and SO_RCVBUF are hints: reading returns the real size. */
	value = rs_get(streams.active, SOL_SOCKET, SO_RCVBUF);
	rs_set(streams.active, SOL_SOCKET, SO_RCVBUF, 1 << 20);
	assert_int_equal(rs_get(streams.active, SOL_SOCKET, SO_RCVBUF), value);
	value = rs_get(streams.active, SOL_SOCKET, SO_SNDBUF);
	rs_set(streams.active, SOL_SOCKET, SO_SNDBUF, 1 << 20);
	assert_int_equal(rs_get(streams.active, SOL_SOCKET, SO_SNDBUF), value);
	rs_set(streams.active, IPPROTO_IP, IP_TOS, 8);
	rs_send_pattern(streams.active, 100, 1);
	rs_receive_pattern(streams.passive, 100, 1);
}

static void rsetsockopt_queue_sizes_are_limited_by_device(void **state)
{
	struct streams wide;

	(void)state;
	wide.addr = rs_addr("127.0.0.1", 0);
	wide.addr_bytes = sizeof(struct sockaddr_in);
	wide.listener = rs_listen(&wide.addr, 1);
	wide.active = rs_stream(AF_INET);
	rs_set(wide.active, SOL_RDMA, RDMA_SQSIZE, 65000);
	rs_set(wide.active, SOL_RDMA, RDMA_RQSIZE, 65000);
	rs_set(wide.active, SOL_RDMA, RDMA_INLINE, 65000);
	assert_int_equal(rconnect(wide.active, rs_sa(&wide.addr), wide.addr_bytes), 0);
	assert_true(rs_get(wide.active, SOL_RDMA, RDMA_SQSIZE) <= 65000);
	assert_true(rs_get(wide.active, SOL_RDMA, RDMA_INLINE) < 65000);
	wide.passive = rs_accept(wide.listener);
	rs_send_pattern(wide.active, 100000, 1);
	rs_receive_pattern(wide.passive, 100000, 1);
	streams_close(&wide);
}

static void rgetsockopt_path_returns_mtu_and_hops(void **state)
{
	struct tcp_info info;
	socklen_t bytes = sizeof(info);
	char name[16];

	(void)state;
	assert_true(rs_get(streams.active, IPPROTO_TCP, TCP_MAXSEG) >= 256);
	assert_int_equal(rgetsockopt(streams.active, IPPROTO_TCP, TCP_INFO, &info, &bytes), 0);
	assert_int_equal(bytes, sizeof(info));
	assert_int_equal(info.tcpi_state, TCP_ESTABLISHED);
	assert_int_equal(info.tcpi_snd_cwnd, 384);
	bytes = sizeof(info);
	assert_int_equal(rgetsockopt(streams.listener, IPPROTO_TCP, TCP_INFO, &info, &bytes), 0);
	assert_int_equal(info.tcpi_state, TCP_LISTEN);
	bytes = sizeof(name);
	assert_int_equal(rgetsockopt(streams.active, IPPROTO_TCP, TCP_CONGESTION, name, &bytes), 0);
	assert_string_equal(name, "rdma");
	assert_int_equal(rsetsockopt(streams.active, IPPROTO_TCP, TCP_CONGESTION, "cubic", 5), 0);
}

static void rsetsockopt_rdma_route_is_stored(void **state)
{
	struct ibv_path_data paths[2];
	socklen_t bytes = sizeof(paths);
	int fd = rs_stream(AF_INET);

	(void)state;
	assert_int_equal(rgetsockopt(streams.active, SOL_RDMA, RDMA_ROUTE, paths, &bytes), 0);
	assert_int_equal(bytes, sizeof(paths[0]));
	assert_true(paths[0].flags & IBV_PATH_FLAG_PRIMARY);
	assert_int_not_equal(paths[0].path.mtu, 0);
	bytes = 4;
	assert_minus1_errno(rgetsockopt(streams.active, SOL_RDMA, RDMA_ROUTE, paths, &bytes),
			    EINVAL);
	assert_minus1_errno(
		rsetsockopt(streams.active, SOL_RDMA, RDMA_ROUTE, paths, sizeof(paths[0])), EINVAL);
	assert_minus1_errno(rsetsockopt(fd, SOL_RDMA, RDMA_ROUTE, paths, 5), EINVAL);
	assert_int_equal(rsetsockopt(fd, SOL_RDMA, RDMA_ROUTE, paths, sizeof(paths[0])), 0);
	bytes = sizeof(paths);
	assert_int_equal(rgetsockopt(fd, SOL_RDMA, RDMA_ROUTE, &paths[1], &bytes), 0);
	assert_int_equal(bytes, sizeof(paths[0]));
	assert_memory_equal(&paths[0], &paths[1], sizeof(paths[0]));
	bytes = 4;
	assert_minus1_errno(rgetsockopt(fd, SOL_RDMA, RDMA_ROUTE, paths, &bytes), EINVAL);
	rs_close(fd);
}

/* The resolved path of a stream's id, with an MTU of 512 bytes and another hop limit. */
static struct ibv_path_data narrow_path(void)
{
	struct ibv_path_data path;
	socklen_t bytes = sizeof(path);

	assert_int_equal(rgetsockopt(streams.active, SOL_RDMA, RDMA_ROUTE, &path, &bytes), 0);
	path.path.mtu = EXACTLY | IBV_MTU_512;
	path.path.flowlabel_hoplimit = htonl(33);
	return path;
}

static void rconnect_uses_given_route(void **state)
{
	struct ibv_path_data path = narrow_path(), taken;
	socklen_t bytes = sizeof(taken);
	int fd = rs_stream(AF_INET), served;

	(void)state;
	assert_int_not_equal(rs_get(streams.active, IPPROTO_TCP, TCP_MAXSEG), 512);
	assert_int_equal(rsetsockopt(fd, SOL_RDMA, RDMA_ROUTE, &path, sizeof(path)), 0);
	assert_int_equal(rconnect(fd, rs_sa(&streams.addr), streams.addr_bytes), 0);
	served = rs_accept(streams.listener);
	assert_int_equal(rs_get(fd, IPPROTO_TCP, TCP_MAXSEG), 512);
	assert_int_equal(rgetsockopt(fd, SOL_RDMA, RDMA_ROUTE, &taken, &bytes), 0);
	assert_int_equal(taken.path.mtu, path.path.mtu);
	assert_int_equal(taken.path.flowlabel_hoplimit, path.path.flowlabel_hoplimit);
	rs_send_pattern(fd, 100000, 1);
	rs_receive_pattern(served, 100000, 1);
	rs_send_pattern(served, 100000, 2);
	rs_receive_pattern(fd, 100000, 2);
	rs_close(fd);
	rs_close(served);
}

/* The route is checked when it is used, and used once. */
static void rconnect_route_to_other_host_fails(void **state)
{
	struct ibv_path_data path = narrow_path();
	int fd = rs_stream(AF_INET), served;

	(void)state;
	path.path.dgid.raw[15] ^= 1;
	assert_int_equal(rsetsockopt(fd, SOL_RDMA, RDMA_ROUTE, &path, sizeof(path)), 0);
	assert_minus1_errno(rconnect(fd, rs_sa(&streams.addr), streams.addr_bytes), EINVAL);
	assert_int_equal(rconnect(fd, rs_sa(&streams.addr), streams.addr_bytes), 0);
	served = rs_accept(streams.listener);
	assert_int_not_equal(rs_get(fd, IPPROTO_TCP, TCP_MAXSEG), 512);
	rs_close(fd);
	rs_close(served);
}

/* An idle peer that is alive answers keepalive probes; the flag and the time are stored. */
static void rsetsockopt_keepalive_keeps_idle_connection(void **state)
{
	(void)state;
	rs_set(streams.active, IPPROTO_TCP, TCP_KEEPIDLE, 1);
	rs_set(streams.active, SOL_SOCKET, SO_KEEPALIVE, 1);
	assert_int_equal(rs_get(streams.active, SOL_SOCKET, SO_KEEPALIVE), 1);
	assert_int_equal(rs_get(streams.active, IPPROTO_TCP, TCP_KEEPIDLE), 1);
	assert_int_equal(rs_look(streams.passive, POLLIN), 0);
	/* No event occurs here while the peer continues. */
	{
		struct pollfd pollfd = {.fd = streams.passive, .events = POLLIN};

		assert_int_equal(rpoll(&pollfd, 1, 2500), 0);
	}
	rs_send_pattern(streams.passive, 100, 1);
	rs_receive_pattern(streams.active, 100, 1);
	rs_set(streams.active, IPPROTO_TCP, TCP_KEEPIDLE, 100);
	rs_set(streams.active, SOL_SOCKET, SO_KEEPALIVE, 0);
	assert_int_equal(rs_get(streams.active, SOL_SOCKET, SO_KEEPALIVE), 0);
}

static void rsetsockopt_unknown_option_fails(void **state)
{
	int value = 1;
	socklen_t bytes = sizeof(value);

	(void)state;
	assert_minus1_errno(rsetsockopt(streams.active, SOL_SOCKET, SO_BINDTODEVICE, &value, bytes),
			    ENOTSUP);
	assert_minus1_errno(rgetsockopt(streams.active, SOL_RDMA, 99, &value, &bytes), ENOTSUP);
	assert_minus1_errno(rsetsockopt(streams.active, SOL_SOCKET, SO_TYPE, &value, bytes),
			    ENOPROTOOPT);
	assert_minus1_errno(rsetsockopt(streams.active, IPPROTO_IP, IP_TOS, &value, 0), EINVAL);
	assert_minus1_errno(rsetsockopt(streams.active, IPPROTO_IPV6, IPV6_V6ONLY, &value, bytes),
			    ENOPROTOOPT);
	value = 256;
	assert_minus1_errno(rsetsockopt(streams.active, IPPROTO_IP, IP_TOS, &value, bytes), EINVAL);
}

/*
 * bind() decides whether IPv4 peers are accepted. Setting IPV6_V6ONLY later fails, because it could
 * have no effect.
 */
static void rsetsockopt_v6only_after_bind_fails(void **state)
{
	struct sockaddr_storage any = rs_addr("::", 0);
	int fd = rs_stream(AF_INET6);
	int value = 1;

	(void)state;
	assert_int_equal(rbind(fd, rs_sa(&any), rs_addr_bytes(&any)), 0);
	assert_minus1_errno(rsetsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &value, sizeof(value)),
			    EINVAL);
	assert_int_equal(rs_get(fd, IPPROTO_IPV6, IPV6_V6ONLY), 0);
	rs_close(fd);
}

static uint8_t traffic_class_of(int fd)
{
	struct ibv_path_data path;
	socklen_t bytes = sizeof(path);

	assert_int_equal(rgetsockopt(fd, SOL_RDMA, RDMA_ROUTE, &path, &bytes), 0);
	return path.path.tclass;
}

/* The second attempt uses another id, for which all options are set again. */
static void rconnect_second_attempt_keeps_traffic_class(void **state)
{
	struct sockaddr_storage there = rs_addr("::1", 0), nobody = rs_addr("::1", 9);
	int listener = rs_listen(&there, 1), fd = rs_stream(AF_INET6), accepted;

	(void)state;
	rs_set(fd, IPPROTO_IPV6, IPV6_TCLASS, 0x20);
	assert_minus1_errno(rconnect(fd, rs_sa(&nobody), rs_addr_bytes(&nobody)), ECONNREFUSED);
	assert_int_equal(rconnect(fd, rs_sa(&there), rs_addr_bytes(&there)), 0);
	accepted = rs_accept(listener);
	assert_int_equal(traffic_class_of(fd), 0x20);
	rs_close(fd);
	rs_close(accepted);
	rs_close(listener);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, open_streams, close_streams)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rgetsockopt_new_stream_has_defaults),
		CASE(rsetsockopt_sizes_after_connect_fail),
		cmocka_unit_test(rsetsockopt_queue_sizes_are_limited_by_device),
		CASE(rgetsockopt_path_returns_mtu_and_hops),
		CASE(rsetsockopt_rdma_route_is_stored),
		CASE(rconnect_uses_given_route),
		CASE(rconnect_route_to_other_host_fails),
		CASE(rsetsockopt_keepalive_keeps_idle_connection),
		CASE(rsetsockopt_unknown_option_fails),
		cmocka_unit_test(rsetsockopt_v6only_after_bind_fails),
		cmocka_unit_test(rconnect_second_attempt_keeps_traffic_class),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
