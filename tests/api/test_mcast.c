/* SPDX-License-Identifier: BSD-2-Clause */
/* Multicast by the verbs alone: QPs in groups, and which QPs receive a datagram to a group. */
#include "fixture.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define QKEY	      0x1ee7u
#define MULTICAST_QPN 0xffffffu
#define GRH_BYTES     40
#define BYTES	      1000
#define RECVS	      4
#define MANY	      60

/* The device's GIDs by family: index 1 is IPv4. */
#define GID_IPV4 1

/* A UD QP with a buffer: one half for sends, one for receives. */
struct end {
	struct api *api;
	struct ibv_qp *qp;
	struct ibv_cq *cq;
	struct ibv_mr *mr;
	uint8_t *buf;
};

static struct ibv_sge half(const struct end *end, bool is_receive, uint32_t bytes)
{
	return (struct ibv_sge){(uintptr_t)end->buf + (is_receive ? SIDE_BUF_BYTES / 2 : 0), bytes,
				end->mr->lkey};
}

static void to_rts(struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = QKEY};

	assert_int_equal(ibv_modify_qp(qp, &attr,
				       IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
					       IBV_QP_QKEY),
			 0);
	attr.qp_state = IBV_QPS_RTR;
	assert_int_equal(ibv_modify_qp(qp, &attr, IBV_QP_STATE), 0);
	attr.qp_state = IBV_QPS_RTS;
	assert_int_equal(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN), 0);
}

static void receive_one(struct end *end)
{
	struct ibv_sge sge = half(end, true, GRH_BYTES + BYTES);
	struct ibv_recv_wr wr = {.wr_id = 2, .sg_list = &sge, .num_sge = 1}, *bad;

	assert_int_equal(ibv_post_recv(end->qp, &wr, &bad), 0);
}

static void end_open(struct end *end, struct api *api, uint32_t create_flags)
{
	struct ibv_qp_init_attr_ex attr = {
		.cap = {.max_send_wr = 4,
			.max_recv_wr = RECVS,
			.max_send_sge = 1,
			.max_recv_sge = 1},
		.qp_type = IBV_QPT_UD,
		.sq_sig_all = 1,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_CREATE_FLAGS,
		.pd = api->pd,
		.create_flags = create_flags,
	};

	end->api = api;
	end->buf = aligned_alloc(4096, SIDE_BUF_BYTES);
	assert_non_null(end->buf);
	end->mr = ibv_reg_mr(api->pd, end->buf, SIDE_BUF_BYTES, IBV_ACCESS_LOCAL_WRITE);
	assert_non_null(end->mr);
	end->cq = ibv_create_cq(api->ctx, 16, NULL, NULL, 0);
	assert_non_null(end->cq);
	attr.send_cq = end->cq;
	attr.recv_cq = end->cq;
	end->qp = ibv_create_qp_ex(api->ctx, &attr);
	assert_non_null(end->qp);
	to_rts(end->qp);
	for (int i = 0; i < RECVS; i++)
		receive_one(end);
}

static void end_close(struct end *end)
{
	assert_int_equal(ibv_destroy_qp(end->qp), 0);
	assert_int_equal(ibv_destroy_cq(end->cq), 0);
	assert_int_equal(ibv_dereg_mr(end->mr), 0);
	free(end->buf);
}

static union ibv_gid group_of(bool is_ipv4, uint8_t number)
{
	static const union ibv_gid ipv4 = {.raw = {[10] = 0xff, 0xff, 239, 77, 1}};
	static const union ibv_gid ipv6 = {.raw = {0xff, 0x0e, [13] = 0x77}};
	union ibv_gid gid = is_ipv4 ? ipv4 : ipv6;

	gid.raw[15] = number;
	return gid;
}

/* The lowest GID index of the family. */
static uint8_t gid_index(struct api *api, bool is_ipv4)
{
	union ibv_gid gid;

	if (is_ipv4)
		return GID_IPV4;
	for (uint8_t i = 0; i < 16; i++) {
		if (!ibv_query_gid(api->ctx, 1, i, &gid) && gid.raw[0] == 0xfd)
			return i;
	}
	fail_msg("the device has no IPv6 address");
	return 0;
}

static void send_marked(struct end *end, const union ibv_gid *group, bool is_ipv4, uint32_t qkey,
			uint32_t mark)
{
	struct ibv_ah_attr ah_attr = {
		.is_global = 1,
		.port_num = 1,
		.grh = {.dgid = *group, .sgid_index = gid_index(end->api, is_ipv4), .hop_limit = 1},
	};
	struct ibv_ah *ah = ibv_create_ah(end->api->pd, &ah_attr);
	struct ibv_sge sge = half(end, false, BYTES);
	struct ibv_send_wr wr = {.wr_id = 1,
				 .sg_list = &sge,
				 .num_sge = 1,
				 .opcode = IBV_WR_SEND_WITH_IMM,
				 .imm_data = htonl(mark)};
	struct ibv_send_wr *bad;

	assert_non_null(ah);
	fill_pattern(end->buf, BYTES, (uint8_t)mark);
	wr.wr.ud.ah = ah;
	wr.wr.ud.remote_qpn = MULTICAST_QPN;
	wr.wr.ud.remote_qkey = qkey;
	assert_int_equal(ibv_post_send(end->qp, &wr, &bad), 0);
	assert_int_equal(ibv_destroy_ah(ah), 0);
	wc_expect(end->cq, 1, IBV_WC_SUCCESS);
}

/* Checks the destination in the GRH of the receive. */
static void check_header(const struct end *end, const union ibv_gid *group, bool is_ipv4)
{
	const uint8_t *header = end->buf + SIDE_BUF_BYTES / 2;

	if (is_ipv4)
		assert_memory_equal(header + GRH_BYTES - 4, group->raw + 12, 4);
	else
		assert_memory_equal(header + GRH_BYTES - 16, group->raw, 16);
}

static void expect(struct end *end, const struct end *from, const union ibv_gid *group,
		   bool is_ipv4, uint32_t mark)
{
	struct ibv_wc wc = wc_expect(end->cq, 2, IBV_WC_SUCCESS);
	uint8_t wanted[BYTES];

	assert_int_equal(ntohl(wc.imm_data), mark);
	assert_int_equal(wc.src_qp, from->qp->qp_num);
	assert_int_equal(wc.qp_num, end->qp->qp_num);
	assert_int_equal(wc.byte_len, GRH_BYTES + BYTES);
	assert_true(wc.wc_flags & IBV_WC_GRH);
	assert_true(wc.wc_flags & IBV_WC_WITH_IMM);
	check_header(end, group, is_ipv4);
	fill_pattern(wanted, BYTES, (uint8_t)mark);
	assert_memory_equal(end->buf + SIDE_BUF_BYTES / 2 + GRH_BYTES, wanted, BYTES);
	receive_one(end);
}

static void members_hear(struct api *api, bool is_ipv4)
{
	union ibv_gid group = group_of(is_ipv4, 1), other = group_of(is_ipv4, 2);
	struct end sender, a, b;

	end_open(&sender, api, 0);
	end_open(&a, api, 0);
	end_open(&b, api, 0);
	assert_int_equal(ibv_attach_mcast(a.qp, &group, 0), 0);
	assert_int_equal(ibv_attach_mcast(b.qp, &group, 0), 0);
	assert_int_equal(ibv_attach_mcast(b.qp, &other, 0), 0);
	send_marked(&sender, &group, is_ipv4, QKEY, 1);
	expect(&a, &sender, &group, is_ipv4, 1);
	expect(&b, &sender, &group, is_ipv4, 1);
	/* A wrong Q_Key, another group; the next datagram shows that neither was delivered. */
	send_marked(&sender, &group, is_ipv4, QKEY + 1, 2);
	send_marked(&sender, &other, is_ipv4, QKEY, 3);
	expect(&b, &sender, &other, is_ipv4, 3);
	assert_int_equal(ibv_detach_mcast(b.qp, &group, 0), 0);
	send_marked(&sender, &group, is_ipv4, QKEY, 4);
	expect(&a, &sender, &group, is_ipv4, 4);
	send_marked(&sender, &other, is_ipv4, QKEY, 5);
	expect(&b, &sender, &other, is_ipv4, 5);
	wc_none(a.cq);
	wc_none(b.cq);
	wc_none(sender.cq);
	assert_int_equal(ibv_detach_mcast(a.qp, &group, 0), 0);
	assert_int_equal(ibv_detach_mcast(b.qp, &other, 0), 0);
	end_close(&a);
	end_close(&b);
	end_close(&sender);
}

static void ibv_attach_mcast_ipv4_group_receives(void **state)
{
	members_hear(*state, true);
}

static void ibv_attach_mcast_ipv6_group_receives(void **state)
{
	members_hear(*state, false);
}

static void ibv_attach_mcast_sender_receives_its_own_datagrams(void **state)
{
	union ibv_gid group = group_of(true, 3);
	struct end open, quiet;

	end_open(&open, *state, 0);
	end_open(&quiet, *state, IBV_QP_CREATE_BLOCK_SELF_MCAST_LB);
	assert_int_equal(ibv_attach_mcast(open.qp, &group, 0), 0);
	assert_int_equal(ibv_attach_mcast(quiet.qp, &group, 0), 0);
	send_marked(&quiet, &group, true, QKEY, 1);
	expect(&open, &quiet, &group, true, 1);
	wc_none(quiet.cq);
	send_marked(&open, &group, true, QKEY, 2);
	expect(&open, &open, &group, true, 2);
	expect(&quiet, &open, &group, true, 2);
	assert_int_equal(ibv_detach_mcast(open.qp, &group, 0), 0);
	assert_int_equal(ibv_detach_mcast(quiet.qp, &group, 0), 0);
	end_close(&open);
	end_close(&quiet);
}

/* More groups than the kernel permits for one socket. */
static void ibv_attach_mcast_above_kernel_limit_of_socket_succeeds(void **state)
{
	struct end end;

	end_open(&end, *state, 0);
	for (uint8_t i = 0; i < MANY; i++) {
		union ibv_gid group = group_of(true, i);

		assert_int_equal(ibv_attach_mcast(end.qp, &group, 0), 0);
	}
	for (uint8_t i = 0; i < MANY; i++) {
		union ibv_gid group = group_of(true, i);

		send_marked(&end, &group, true, QKEY, i);
		expect(&end, &end, &group, true, i);
	}
	for (uint8_t i = 0; i < MANY; i++) {
		union ibv_gid group = group_of(true, i);

		assert_int_equal(ibv_detach_mcast(end.qp, &group, 0), 0);
	}
	end_close(&end);
}

static void open_loopback(struct api *api)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	int at = 0;

	while (list[at] && strcmp(ibv_get_device_name(list[at]), "lo") != 0)
		at++;
	assert_non_null(list[at]);
	api->ctx = ibv_open_device(list[at]);
	assert_non_null(api->ctx);
	ibv_free_device_list(list);
	api->pd = ibv_alloc_pd(api->ctx);
	assert_non_null(api->pd);
}

/* The same address on two interfaces is two groups. */
static void ibv_attach_mcast_two_interfaces_have_separate_groups(void **state)
{
	union ibv_gid group = group_of(true, 4);
	struct api lo;
	struct end here, there;

	open_loopback(&lo);
	end_open(&here, *state, 0);
	end_open(&there, &lo, 0);
	assert_int_equal(ibv_attach_mcast(here.qp, &group, 0), 0);
	assert_int_equal(ibv_attach_mcast(there.qp, &group, 0), 0);
	send_marked(&here, &group, true, QKEY, 1);
	expect(&here, &here, &group, true, 1);
	send_marked(&there, &group, true, QKEY, 2);
	expect(&there, &there, &group, true, 2);
	wc_none(here.cq);
	wc_none(there.cq);
	assert_int_equal(ibv_detach_mcast(here.qp, &group, 0), 0);
	assert_int_equal(ibv_detach_mcast(there.qp, &group, 0), 0);
	end_close(&here);
	end_close(&there);
	assert_int_equal(ibv_dealloc_pd(lo.pd), 0);
	assert_int_equal(ibv_close_device(lo.ctx), 0);
}

static void ibv_attach_mcast_invalid_argument_fails(void **state)
{
	struct api *api = *state;
	union ibv_gid group = group_of(true, 5);
	struct ibv_device_attr attr;
	struct pair rc;
	struct end end;

	end_open(&end, api, 0);
	pair_open(&rc, api, &(struct pair_options){0});
	assert_int_equal(ibv_attach_mcast(rc.a.qp, &group, 0), EINVAL);
	assert_int_equal(ibv_attach_mcast(end.qp, &api->gid, 0), EINVAL);
	assert_int_equal(ibv_detach_mcast(end.qp, &group, 0), EINVAL);
	assert_int_equal(ibv_attach_mcast(end.qp, &group, 0), 0);
	assert_int_equal(ibv_attach_mcast(end.qp, &group, 0), 0);
	assert_int_equal(ibv_destroy_qp(end.qp), EBUSY);
	assert_int_equal(ibv_detach_mcast(end.qp, &group, 0), 0);
	assert_int_equal(ibv_detach_mcast(end.qp, &group, 0), EINVAL);
	assert_int_equal(ibv_query_device(api->ctx, &attr), 0);
	assert_true(attr.max_mcast_grp >= MANY);
	assert_true(attr.max_mcast_qp_attach > 0);
	assert_true(attr.max_total_mcast_qp_attach > 0);
	pair_close(&rc);
	end_close(&end);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ibv_attach_mcast_ipv4_group_receives),
		cmocka_unit_test(ibv_attach_mcast_ipv6_group_receives),
		cmocka_unit_test(ibv_attach_mcast_sender_receives_its_own_datagrams),
		cmocka_unit_test(ibv_attach_mcast_above_kernel_limit_of_socket_succeeds),
		cmocka_unit_test(ibv_attach_mcast_two_interfaces_have_separate_groups),
		cmocka_unit_test(ibv_attach_mcast_invalid_argument_fails),
	};

	return cmocka_run_group_tests_name("mcast", tests, api_setup, api_teardown);
}
