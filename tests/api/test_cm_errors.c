/* SPDX-License-Identifier: BSD-2-Clause */
/* Errnos documented in rdma_cma.h and rdma_verbs.h that no other test of the rdma_cm covers. */
#include "child.h"
#include "cm_fixture.h"
#include "host.h"
#include "impostor.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#define MEMBERSHIPS_MAX 1024
#define PRIVILEGED	7
#define LONG_BYTES	(1 << 20) /* more than any QP's max_inline_data */

static struct sockaddr *sa(struct sockaddr_storage *addr)
{
	return (struct sockaddr *)addr;
}

static void rdma_create_event_channel_without_descriptor_fails_with_emfile(void **state)
{
	struct rdma_event_channel *channel = cm_channel();
	struct rlimit limit, none;

	(void)state;
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
	none = limit;
	none.rlim_cur = 0;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
	assert_null_errno(rdma_create_event_channel(), EMFILE);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
	rdma_destroy_event_channel(channel);
}

static void rdma_bind_addr_privileged_port_fails_with_eacces(void **state)
{
	struct rdma_event_channel *channel = cm_channel();
	struct sockaddr_storage addr = cm_loopback(PRIVILEGED);
	struct rdma_cm_id *id = cm_id(channel);

	(void)state;
	if (geteuid() == 0)
		skip();
	assert_minus1_errno(rdma_bind_addr(id, sa(&addr)), EACCES);
	assert_int_equal(rdma_destroy_id(id), 0);
	rdma_destroy_event_channel(channel);
}

static void rdma_listen_used_port_fails_with_eaddrinuse(void **state)
{
	struct rdma_event_channel *channel = cm_channel();
	struct sockaddr_storage addr = cm_loopback(0);
	struct rdma_cm_id *ids[2];
	int yes = 1;

	(void)state;
	for (int i = 0; i < 2; i++) {
		ids[i] = cm_id(channel);
		assert_int_equal(rdma_set_option(ids[i], RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR,
						 &yes, sizeof(yes)),
				 0);
		assert_int_equal(rdma_bind_addr(ids[i], sa(&addr)), 0);
		cm_set_port(&addr, rdma_get_src_port(ids[i]));
	}
	assert_int_equal(rdma_listen(ids[0], 1), 0);
	assert_minus1_errno(rdma_listen(ids[1], 1), EADDRINUSE);
	for (int i = 0; i < 2; i++)
		assert_int_equal(rdma_destroy_id(ids[i]), 0);
	rdma_destroy_event_channel(channel);
}

static void rdma_getaddrinfo_unknown_name_fails(void **state)
{
	struct rdma_addrinfo hints = {.ai_flags = RAI_NUMERICHOST};
	struct rdma_event_channel *channel = cm_channel();
	struct rdma_cm_id *id = cm_id(channel);
	struct rdma_addrinfo *res = NULL;

	(void)state;
	assert_minus1_errno(rdma_getaddrinfo(NULL, NULL, NULL, &res), EINVAL);
	assert_minus1_errno(rdma_getaddrinfo("127.0.0.1", NULL, NULL, NULL), EINVAL);
	assert_minus1_errno(rdma_resolve_addrinfo(id, NULL, NULL, NULL), EINVAL);
	errno = 0;
	assert_int_equal(rdma_getaddrinfo("nobody", NULL, &hints, &res), EAI_NONAME);
	assert_int_equal(errno, ENOENT);
	assert_int_equal(rdma_getaddrinfo("127.0.0.1", "no-such-service", &hints, &res),
			 EAI_SERVICE);
	hints.ai_family = AF_UNIX;
	assert_int_equal(rdma_getaddrinfo("127.0.0.1", NULL, &hints, &res), EAI_FAMILY);
	assert_int_equal(errno, EAFNOSUPPORT);
	hints.ai_family = 0;
	hints.ai_qp_type = IBV_QPT_UD;
	hints.ai_port_space = RDMA_PS_TCP;
	assert_int_equal(rdma_getaddrinfo("127.0.0.1", NULL, &hints, &res), EAI_SOCKTYPE);
	assert_int_equal(errno, EINVAL);
	hints = (struct rdma_addrinfo){.ai_flags = 1 << 30};
	errno = 0;
	assert_int_equal(rdma_getaddrinfo("127.0.0.1", NULL, &hints, &res), EAI_BADFLAGS);
	assert_int_equal(errno, EINVAL);
	hints.ai_flags = RAI_SA;
	errno = 0;
	assert_int_equal(rdma_getaddrinfo("127.0.0.1", NULL, &hints, &res), EAI_SYSTEM);
	assert_int_equal(errno, EOPNOTSUPP);
	assert_minus1_errno(rdma_resolve_addrinfo(id, "127.0.0.1", NULL, &hints), EOPNOTSUPP);
	assert_null(res);
	assert_int_equal(rdma_destroy_id(id), 0);
	rdma_destroy_event_channel(channel);
}

static void on_signal(int number)
{
	(void)number;
}

/* Calls a blocking function and interrupts it by signals until one arrives while it is blocked. */
static void is_interrupted(void *(*call)(void *arg), void *arg)
{
	struct sigaction action = {.sa_handler = on_signal};
	pthread_t thread;
	void *result;

	assert_int_equal(sigaction(SIGUSR1, &action, NULL), 0);
	assert_int_equal(pthread_create(&thread, NULL, call, arg), 0);
	do {
		pthread_kill(thread, SIGUSR1);
		sched_yield();
	} while (pthread_tryjoin_np(thread, &result));
	assert_non_null(result);
}

static void *get_request(void *listener)
{
	struct rdma_cm_id *id;

	return (void *)(intptr_t)refuses_minus1(rdma_get_request(listener, &id), EINTR);
}

static void rdma_get_request_nonblocking_fails_with_eagain(void **state)
{
	struct sockaddr_storage addr = cm_loopback(0);
	struct rdma_cm_id *listener, *id;

	(void)state;
	assert_int_equal(rdma_create_id(NULL, &listener, NULL, RDMA_PS_TCP), 0);
	assert_int_equal(rdma_bind_addr(listener, sa(&addr)), 0);
	assert_int_equal(rdma_listen(listener, 1), 0);
	is_interrupted(get_request, listener);
	assert_int_equal(fcntl(listener->channel->fd, F_SETFL, O_NONBLOCK), 0);
	assert_minus1_errno(rdma_get_request(listener, &id), EAGAIN);
	assert_int_equal(rdma_destroy_id(listener), 0);
}

static struct sockaddr_storage group(uint8_t last)
{
	struct sockaddr_storage addr = cm_loopback(0);

	((struct sockaddr_in *)&addr)->sin_addr.s_addr = htonl(0xef4e0500u | last);
	return addr;
}

static struct rdma_cm_id *datagram_id(struct rdma_event_channel *channel)
{
	struct sockaddr_storage addr = cm_loopback(0);
	struct rdma_cm_id *id;

	assert_int_equal(rdma_create_id(channel, &id, NULL, RDMA_PS_UDP), 0);
	assert_int_equal(rdma_bind_addr(id, sa(&addr)), 0);
	return id;
}

static void rdma_join_multicast_invalid_group_fails(void **state)
{
	struct rdma_event_channel *channel = cm_channel();
	struct sockaddr_storage addr = group(1), unix_addr = {.ss_family = AF_UNIX};
	struct rdma_cm_join_mc_attr_ex attr = {
		.comp_mask = RDMA_CM_JOIN_MC_ATTR_ADDRESS | RDMA_CM_JOIN_MC_ATTR_JOIN_FLAGS,
		.join_flags = RDMA_MC_JOIN_FLAG_RESERVED,
		.addr = sa(&addr),
	};
	struct rdma_cm_id *id = datagram_id(channel);

	(void)state;
	assert_minus1_errno(rdma_join_multicast_ex(id, &attr, NULL), EINVAL);
	attr.join_flags = RDMA_MC_JOIN_FLAG_FULLMEMBER;
	attr.comp_mask = RDMA_CM_JOIN_MC_ATTR_ADDRESS;
	assert_minus1_errno(rdma_join_multicast_ex(id, &attr, NULL), EINVAL);
	attr.comp_mask = RDMA_CM_JOIN_MC_ATTR_JOIN_FLAGS;
	assert_minus1_errno(rdma_join_multicast_ex(id, &attr, NULL), EINVAL);
	attr.comp_mask = RDMA_CM_JOIN_MC_ATTR_RESERVED;
	assert_minus1_errno(rdma_join_multicast_ex(id, &attr, NULL), ENOTSUP);
	assert_minus1_errno(rdma_join_multicast(id, sa(&unix_addr), NULL), EINVAL);
	assert_minus1_errno(rdma_leave_multicast(id, sa(&unix_addr)), EINVAL);
	assert_minus1_errno(rdma_leave_multicast(id, sa(&addr)), EADDRNOTAVAIL);
	for (int i = 0; i < MEMBERSHIPS_MAX; i++)
		assert_int_equal(rdma_join_multicast(id, sa(&addr), NULL), 0);
	assert_minus1_errno(rdma_join_multicast(id, sa(&addr), NULL), EDQUOT);
	assert_int_equal(rdma_destroy_id(id), 0);
	rdma_destroy_event_channel(channel);
}

/* One work request of each kind, and the receives for them. */
static char buf[LONG_BYTES];
/* The MR is not used before the request is posted, and none of these requests is posted. */
static struct ibv_mr any_mr = {.addr = buf, .length = sizeof(buf)};

static int post(struct rdma_cm_id *id, int kind, int pieces, uint32_t bytes, int flags)
{
	struct ibv_sge sges[64] = {{.addr = (uintptr_t)buf, .length = bytes}};

	for (int i = 1; i < pieces; i++)
		sges[i] = sges[0];
	switch (kind) {
	case 0:
		return rdma_post_sendv(id, NULL, sges, pieces, flags);
	case 1:
		return rdma_post_writev(id, NULL, sges, pieces, flags, 0, 0);
	case 2:
		return rdma_post_readv(id, NULL, sges, pieces, flags, 0, 0);
	case 3:
		return rdma_post_send(id, NULL, buf, bytes, &any_mr, flags);
	case 4:
		return rdma_post_write(id, NULL, buf, bytes, &any_mr, flags, 0, 0);
	case 5:
		return rdma_post_read(id, NULL, buf, bytes, &any_mr, flags, 0, 0);
	case 6:
		return rdma_post_recvv(id, NULL, sges, pieces);
	default:
		return rdma_post_recv(id, NULL, buf, bytes, &any_mr);
	}
}

#define FIRST_RECV  6
#define WITH_PIECES 3 /* number of functions that send; FIRST_RECV also */

static void set_state(struct ibv_qp *qp, enum ibv_qp_state state)
{
	struct ibv_qp_attr attr = {.qp_state = state};

	assert_int_equal(ibv_modify_qp(qp, &attr, IBV_QP_STATE), 0);
}

static void rdma_post_sendv_invalid_wr_fails(void **state)
{
	struct ibv_sge sge = {.addr = (uintptr_t)buf, .length = 8};
	struct rdma_cm_id *id;
	struct ends ends;

	(void)state;
	ends_listen(&ends, NULL, 1);
	ends_resolve(&ends);
	ends_create_qp(ends.active);
	id = ends.active;
	assert_minus1_errno(rdma_post_sendv(id, NULL, &sge, 1, 0), EINVAL);
	assert_minus1_errno(rdma_post_writev(id, NULL, &sge, 1, 0, 0, 0), EINVAL);
	assert_minus1_errno(rdma_post_readv(id, NULL, &sge, 1, 0, 0, 0), EINVAL);
	assert_minus1_errno(rdma_post_send(id, NULL, buf, 8, &any_mr, 0), EINVAL);
	assert_minus1_errno(rdma_post_write(id, NULL, buf, 8, &any_mr, 0, 0, 0), EINVAL);
	assert_minus1_errno(rdma_post_read(id, NULL, buf, 8, &any_mr, 0, 0, 0), EINVAL);
	set_state(id->qp, IBV_QPS_RESET);
	assert_minus1_errno(rdma_post_recvv(id, NULL, &sge, 1), EINVAL);
	assert_minus1_errno(rdma_post_recv(id, NULL, buf, 8, &any_mr), EINVAL);
	ends_close(&ends);

	ends_open(&ends, NULL);
	for (int kind = 0; kind < FIRST_RECV; kind++)
		assert_minus1_errno(post(ends.active, kind, 1, LONG_BYTES, IBV_SEND_INLINE),
				    EINVAL);
	for (int kind = 0; kind < WITH_PIECES; kind++)
		assert_minus1_errno(post(ends.active, kind, 64, 8, 0), EINVAL);
	assert_minus1_errno(post(ends.active, FIRST_RECV, 64, 8, 0), EINVAL);
	ends_close(&ends);
}

/* SENDs without a receive stay outstanding, so the send queue becomes full. */
static void rdma_post_sendv_full_queue_fails_with_enomem(void **state)
{
	struct ibv_sge sge = {.addr = (uintptr_t)buf, .length = 8};
	struct rdma_cm_id *id;
	struct ends ends;
	int posted = 0;

	(void)state;
	ends_open(&ends, NULL);
	id = ends.active;
	while (!rdma_post_sendv(id, NULL, NULL, 0, 0))
		assert_true(++posted < 100000);
	assert_minus1_errno(rdma_post_sendv(id, NULL, &sge, 1, 0), ENOMEM);
	assert_minus1_errno(rdma_post_writev(id, NULL, &sge, 1, 0, 0, 0), ENOMEM);
	assert_minus1_errno(rdma_post_readv(id, NULL, &sge, 1, 0, 0, 0), ENOMEM);
	assert_minus1_errno(rdma_post_send(id, NULL, buf, 8, &any_mr, 0), ENOMEM);
	assert_minus1_errno(rdma_post_write(id, NULL, buf, 8, &any_mr, 0, 0, 0), ENOMEM);
	assert_minus1_errno(rdma_post_read(id, NULL, buf, 8, &any_mr, 0, 0, 0), ENOMEM);
	posted = 0;
	while (!rdma_post_recvv(id, NULL, NULL, 0))
		assert_true(++posted < 100000);
	assert_minus1_errno(rdma_post_recvv(id, NULL, &sge, 1), ENOMEM);
	assert_minus1_errno(rdma_post_recv(id, NULL, buf, 8, &any_mr), ENOMEM);
	ends_close(&ends);
}

/* The id is the parent's. */
static bool no_datagram_is_posted(void *arg)
{
	struct rdma_cm_id *id = arg;
	struct ibv_ah ah = {.context = id->verbs, .pd = id->pd};

	return refuses_minus1(rdma_post_ud_send(id, NULL, buf, 8, &any_mr, 0, &ah, 2), EIO);
}

static void rdma_post_ud_send_invalid_wr_fails(void **state)
{
	struct ibv_ah_attr attr = {.is_global = 1, .port_num = 1};
	struct ibv_ah *ah;
	struct ends ends;
	int posted = 0;

	(void)state;
	cm_ps = RDMA_PS_UDP;
	ends_listen(&ends, NULL, 1);
	ends_resolve(&ends);
	cm_ps = RDMA_PS_TCP;
	ends_create_qp(ends.active);
	assert_int_equal(ibv_query_gid(ends.active->verbs, 1, 0, &attr.grh.dgid), 0);
	ah = ibv_create_ah(ends.active->pd, &attr);
	assert_non_null(ah);
	assert_minus1_errno(rdma_post_ud_send(ends.active, NULL, buf, LONG_BYTES, &any_mr,
					      IBV_SEND_INLINE, ah, 2),
			    EINVAL);
	child_agrees(no_datagram_is_posted, ends.active);
	/* In SQD no work request leaves the queue. */
	set_state(ends.active->qp, IBV_QPS_SQD);
	while (!rdma_post_ud_send(ends.active, NULL, buf, 8, &any_mr, IBV_SEND_INLINE, ah, 2))
		assert_true(++posted < 100000);
	assert_minus1_errno(rdma_post_ud_send(ends.active, NULL, buf, 8, &any_mr, 0, ah, 2),
			    ENOMEM);
	set_state(ends.active->qp, IBV_QPS_RESET);
	assert_minus1_errno(rdma_post_ud_send(ends.active, NULL, buf, 8, &any_mr, 0, ah, 2),
			    EINVAL);
	assert_int_equal(ibv_destroy_ah(ah), 0);
	ends_close(&ends);
}

static void *get_recv_comp(void *id)
{
	struct ibv_wc wc;

	return (void *)(intptr_t)refuses_minus1(rdma_get_recv_comp(id, &wc), EINTR);
}

static void *get_send_comp(void *id)
{
	struct ibv_wc wc;

	return (void *)(intptr_t)refuses_minus1(rdma_get_send_comp(id, &wc), EINTR);
}

static void rdma_get_send_comp_nonblocking_fails_with_eagain(void **state)
{
	struct ends ends;
	struct ibv_wc wc;

	(void)state;
	ends_open(&ends, NULL);
	is_interrupted(get_recv_comp, ends.active);
	is_interrupted(get_send_comp, ends.active);
	assert_int_equal(fcntl(ends.active->recv_cq_channel->fd, F_SETFL, O_NONBLOCK), 0);
	assert_int_equal(fcntl(ends.active->send_cq_channel->fd, F_SETFL, O_NONBLOCK), 0);
	assert_minus1_errno(rdma_get_recv_comp(ends.active, &wc), EAGAIN);
	assert_minus1_errno(rdma_get_send_comp(ends.active, &wc), EAGAIN);
	ends_close(&ends);
}

static bool the_queues_stay_the_parents(void *arg)
{
	struct ibv_sge sge = {.addr = (uintptr_t)buf, .length = 8};
	struct rdma_cm_id *id = arg;
	struct ibv_wc wc;

	return refuses_minus1(rdma_post_sendv(id, NULL, &sge, 1, 0), EIO) &&
	       refuses_minus1(rdma_post_writev(id, NULL, &sge, 1, 0, 0, 0), EIO) &&
	       refuses_minus1(rdma_post_readv(id, NULL, &sge, 1, 0, 0, 0), EIO) &&
	       refuses_minus1(rdma_post_recvv(id, NULL, &sge, 1), EIO) &&
	       refuses_minus1(rdma_post_send(id, NULL, buf, 8, &any_mr, 0), EIO) &&
	       refuses_minus1(rdma_post_write(id, NULL, buf, 8, &any_mr, 0, 0, 0), EIO) &&
	       refuses_minus1(rdma_post_read(id, NULL, buf, 8, &any_mr, 0, 0, 0), EIO) &&
	       refuses_minus1(rdma_post_recv(id, NULL, buf, 8, &any_mr), EIO) &&
	       refuses_minus1(rdma_get_recv_comp(id, &wc), EIO) &&
	       refuses_minus1(rdma_get_send_comp(id, &wc), EIO) &&
	       refuses_null(rdma_reg_msgs(id, buf, 8), EIO) &&
	       refuses_null(rdma_reg_read(id, buf, 8), EIO) &&
	       refuses_null(rdma_reg_write(id, buf, 8), EIO);
}

static void rdma_post_sendv_in_forked_child_fails(void **state)
{
	struct ends ends;

	(void)state;
	ends_open(&ends, NULL);
	child_agrees(the_queues_stay_the_parents, ends.active);
	ends_close(&ends);
}

static void rdma_reg_msgs_invalid_memory_fails(void **state)
{
	void *unmapped = (void *)(uintptr_t)4096;
	void *at_the_end = (void *)(UINTPTR_MAX - 4);
	struct ends ends;

	(void)state;
	ends_listen(&ends, NULL, 1);
	ends_resolve(&ends);
	assert_null_errno(rdma_reg_msgs(ends.active, unmapped, 8), EFAULT);
	assert_null_errno(rdma_reg_read(ends.active, unmapped, 8), EFAULT);
	assert_null_errno(rdma_reg_write(ends.active, unmapped, 8), EFAULT);
	assert_null_errno(rdma_reg_msgs(ends.active, at_the_end, 8), EINVAL);
	assert_null_errno(rdma_reg_read(ends.active, at_the_end, 8), EINVAL);
	assert_null_errno(rdma_reg_write(ends.active, at_the_end, 8), EINVAL);
	ends_close(&ends);
}

/* Every call that uses the daemon, on ids in every state that a child can inherit. */
static bool no_id_is_the_childs(void *arg)
{
	struct ends *ends = arg;
	struct sockaddr_storage addr = cm_loopback(0), many = group(3);
	struct rdma_conn_param param = {.qp_num = 1};
	struct rdma_cm_id *id = ends->active, *made;
	int yes = 1;

	return refuses_minus1(rdma_create_id(ends->client, &made, NULL, RDMA_PS_TCP), ENODEV) &&
	       refuses_minus1(rdma_bind_addr(ends->passive, sa(&addr)), ENODEV) &&
	       refuses_minus1(rdma_resolve_addr(ends->passive, NULL, sa(&addr), 1000), ENODEV) &&
	       refuses_minus1(rdma_resolve_route(id, 1000), ENODEV) &&
	       refuses_minus1(rdma_listen(ends->listener, 1), ENODEV) &&
	       refuses_minus1(rdma_connect(id, &param), ENODEV) &&
	       refuses_minus1(rdma_accept(id, &param), ENODEV) &&
	       refuses_minus1(rdma_reject(id, NULL, 0), ENODEV) &&
	       refuses_minus1(rdma_establish(id), ENODEV) &&
	       refuses_minus1(rdma_notify(id, IBV_EVENT_COMM_EST), ENODEV) &&
	       refuses_minus1(rdma_disconnect(id), ENODEV) &&
	       refuses_minus1(rdma_set_option(ends->passive, RDMA_OPTION_ID,
					      RDMA_OPTION_ID_REUSEADDR, &yes, sizeof(yes)),
			      ENODEV) &&
	       refuses_minus1(rdma_migrate_id(id, ends->server), ENODEV) &&
	       refuses_minus1(rdma_write_cm_event(id, RDMA_CM_EVENT_USER, 0, 0), ENODEV) &&
	       refuses_minus1(rdma_resolve_addrinfo(ends->passive, "127.0.0.1", NULL, NULL),
			      ENODEV) &&
	       refuses_minus1(rdma_join_multicast(id, sa(&many), NULL), ENODEV) &&
	       refuses_minus1(rdma_leave_multicast(id, sa(&many)), ENODEV);
}

static void rdma_bind_addr_in_forked_child_fails(void **state)
{
	struct ends ends;

	(void)state;
	ends_listen(&ends, NULL, 1);
	ends_resolve(&ends);
	ends.passive = cm_id(ends.server);
	child_agrees(no_id_is_the_childs, &ends);
	ends_close(&ends);
}

/*
 * In a child without a session. The daemon belongs to another user, or has reached its limit of
 * sessions.
 */
static bool is_turned_away(void *status)
{
	struct rdma_cm_id *id;

	if (*(int *)status == -EACCES)
		return refuses_null(rdma_create_event_channel(), EACCES) &&
		       refuses_minus1(rdma_create_id(NULL, &id, NULL, RDMA_PS_TCP), EACCES) &&
		       refuses_null(rdma_get_devices(NULL), EACCES);
	return refuses_null(rdma_create_event_channel(), EDQUOT) &&
	       refuses_minus1(rdma_create_id(NULL, &id, NULL, RDMA_PS_TCP), EDQUOT) &&
	       refuses_null(rdma_get_devices(NULL), EDQUOT);
}

static void rdma_create_event_channel_rejected_by_daemon_fails(void **state)
{
	struct rdma_event_channel *channel = cm_channel();
	int statuses[] = {-EACCES, -EDQUOT};
	struct impostor impostor;

	(void)state;
	host_kill_daemon();
	impostor_start(&impostor, statuses[0]);
	child_agrees(is_turned_away, &statuses[0]);
	impostor.status = statuses[1];
	child_agrees(is_turned_away, &statuses[1]);
	impostor_stop(&impostor);
	rdma_destroy_event_channel(channel);
}

/* Must be the last case: later calls use another daemon. */
static void rdma_join_multicast_dead_daemon_fails_with_enodev(void **state)
{
	struct rdma_event_channel *channel = cm_channel();
	struct sockaddr_storage addr = group(1), other = group(2);
	struct rdma_cm_id *id = datagram_id(channel);
	struct ibv_mr *mr;
	struct ends ends;

	(void)state;
	ends_listen(&ends, NULL, 1);
	ends_resolve(&ends);
	assert_int_equal(rdma_join_multicast(id, sa(&addr), NULL), 0);
	host_kill_daemon();
	assert_minus1_errno(rdma_join_multicast(id, sa(&other), NULL), ENODEV);
	assert_minus1_errno(rdma_leave_multicast(id, sa(&addr)), ENODEV);
	cm_skip_to(ends.client, RDMA_CM_EVENT_DEVICE_REMOVAL);
	while ((mr = rdma_reg_msgs(ends.active, buf, 8)))
		assert_int_equal(rdma_dereg_mr(mr), 0);
	assert_int_equal(errno, EIO);
	assert_null_errno(rdma_reg_read(ends.active, buf, 8), EIO);
	assert_null_errno(rdma_reg_write(ends.active, buf, 8), EIO);
	assert_int_equal(rdma_destroy_id(id), 0);
	rdma_destroy_event_channel(channel);
	ends_close(&ends);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rdma_create_event_channel_without_descriptor_fails_with_emfile),
		cmocka_unit_test(rdma_bind_addr_privileged_port_fails_with_eacces),
		cmocka_unit_test(rdma_listen_used_port_fails_with_eaddrinuse),
		cmocka_unit_test(rdma_getaddrinfo_unknown_name_fails),
		cmocka_unit_test(rdma_get_request_nonblocking_fails_with_eagain),
		cmocka_unit_test(rdma_join_multicast_invalid_group_fails),
		cmocka_unit_test(rdma_post_sendv_invalid_wr_fails),
		cmocka_unit_test(rdma_post_sendv_full_queue_fails_with_enomem),
		cmocka_unit_test(rdma_post_ud_send_invalid_wr_fails),
		cmocka_unit_test(rdma_get_send_comp_nonblocking_fails_with_eagain),
		cmocka_unit_test(rdma_post_sendv_in_forked_child_fails),
		cmocka_unit_test(rdma_reg_msgs_invalid_memory_fails),
		cmocka_unit_test(rdma_bind_addr_in_forked_child_fails),
		cmocka_unit_test(rdma_join_multicast_dead_daemon_fails_with_enodev),
		cmocka_unit_test(rdma_create_event_channel_rejected_by_daemon_fails),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
