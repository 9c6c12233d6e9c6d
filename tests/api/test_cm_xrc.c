/* SPDX-License-Identifier: BSD-2-Clause */
#include "cm_fixture.h"

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>

/*
 * Ids of XRC: a sender and a receiver are connected, and messages name the SRQ to which they are
 * sent.
 */

static struct ibv_qp_init_attr init_attr(enum ibv_qp_type type)
{
	return (struct ibv_qp_init_attr){
		.cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1},
		.qp_type = type,
		.sq_sig_all = 1,
	};
}

static struct rdma_addrinfo *info_of(struct sockaddr_storage *addr, enum rdma_port_space ps,
				     enum ibv_qp_type type, int flags)
{
	struct rdma_addrinfo hints = {
		.ai_flags = flags, .ai_port_space = (int)ps, .ai_qp_type = (int)type};
	struct rdma_addrinfo *info;

	if (flags & RAI_PASSIVE) {
		hints.ai_src_addr = (struct sockaddr *)addr;
		hints.ai_src_len = sizeof(*addr);
	} else {
		hints.ai_dst_addr = (struct sockaddr *)addr;
		hints.ai_dst_len = sizeof(*addr);
	}
	assert_int_equal(rdma_getaddrinfo(NULL, NULL, &hints, &info), 0);
	return info;
}

/*
 * The receiving side, in a thread: receives one message, and passes the number of its SRQ in
 * rdma_accept().
 */
struct receiver {
	struct rdma_cm_id *listener;
	pthread_t thread;
	char text[64];
	bool is_good;
};

/* The QP has no receive queue and no CQ; the SRQ has the CQ. */
static bool make_srq(struct rdma_cm_id *id, __be32 *sent_number)
{
	struct ibv_srq_init_attr_ex attr = {.attr = {.max_wr = 4, .max_sge = 1}};
	uint32_t number;

	/* The default of an id of RDMA_PS_TCP is a basic SRQ. */
	if (id->qp_type == IBV_QPT_RC) {
		attr.comp_mask = IBV_SRQ_INIT_ATTR_TYPE;
		attr.srq_type = IBV_SRQT_XRC;
	}
	if (!id->qp || id->qp->qp_type != IBV_QPT_XRC_RECV || id->send_cq || id->recv_cq || !id->pd)
		return false;
	if (rdma_create_srq_ex(id, &attr) || !id->srq || !id->recv_cq || attr.attr.max_wr < 4)
		return false;
	if (ibv_get_srq_num(id->srq, &number))
		return false;
	*sent_number = htobe32(number);
	return true;
}

static bool receive(struct receiver *receiver, struct rdma_cm_id *id)
{
	struct rdma_conn_param param = {.responder_resources = RDMA_MAX_RESP_RES};
	struct ibv_mr *mr = rdma_reg_msgs(id, receiver->text, sizeof(receiver->text));
	struct ibv_wc wc;
	__be32 number;
	bool is_good;

	is_good = mr && make_srq(id, &number);
	param.private_data = &number;
	param.private_data_len = sizeof(number);
	is_good = is_good &&
		  !rdma_post_recv(id, NULL, receiver->text, sizeof(receiver->text), mr) &&
		  !rdma_accept(id, &param) && rdma_get_recv_comp(id, &wc) == 1 &&
		  wc.status == IBV_WC_SUCCESS && !rdma_disconnect(id);
	if (mr)
		rdma_dereg_mr(mr);
	return is_good;
}

static void *serve(void *arg)
{
	struct receiver *receiver = arg;
	struct rdma_cm_id *id;

	if (rdma_get_request(receiver->listener, &id))
		return NULL;
	receiver->is_good = receive(receiver, id);
	/* The SRQ still completes into the CQ of the id. */
	rdma_destroy_qp(id);
	receiver->is_good = receiver->is_good && id->recv_cq && !id->qp;
	rdma_destroy_srq(id);
	receiver->is_good = receiver->is_good && !id->recv_cq && !id->recv_cq_channel;
	rdma_destroy_ep(id);
	return NULL;
}

static void listen_at(struct receiver *receiver, struct sockaddr_storage *addr)
{
	struct ibv_qp_init_attr attr = init_attr(IBV_QPT_XRC_RECV);
	struct rdma_addrinfo *info = info_of(addr, RDMA_PS_IB, IBV_QPT_XRC_RECV, RAI_PASSIVE);

	assert_int_equal(rdma_create_ep(&receiver->listener, info, NULL, &attr), 0);
	rdma_freeaddrinfo(info);
	assert_int_equal(rdma_listen(receiver->listener, 4), 0);
	cm_set_port(addr, rdma_get_src_port(receiver->listener));
}

static struct rdma_cm_id *open_sender(struct sockaddr_storage *addr, enum ibv_qp_type type)
{
	struct ibv_qp_init_attr attr = init_attr(type);
	struct rdma_addrinfo *info = info_of(addr, RDMA_PS_IB, type, 0);
	struct rdma_cm_id *id;

	assert_int_equal(rdma_create_ep(&id, info, NULL, &attr), 0);
	rdma_freeaddrinfo(info);
	return id;
}

static void send_to_srq(struct rdma_cm_id *id, char *text, size_t length, uint32_t number)
{
	struct ibv_mr *mr = rdma_reg_msgs(id, text, length);
	struct ibv_sge sge = {.addr = (uintptr_t)text, .length = (uint32_t)length};
	struct ibv_send_wr wr = {.sg_list = &sge,
				 .num_sge = 1,
				 .opcode = IBV_WR_SEND,
				 .qp_type.xrc.remote_srqn = number};
	struct ibv_send_wr *bad;
	struct ibv_wc wc;

	assert_non_null(mr);
	sge.lkey = mr->lkey;
	assert_int_equal(ibv_post_send(id->qp, &wr, &bad), 0);
	assert_int_equal(rdma_get_send_comp(id, &wc), 1);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	assert_int_equal(rdma_dereg_mr(mr), 0);
}

static void rdma_connect_xrc_message_uses_named_srq(void **state)
{
	struct sockaddr_storage addrs[CM_ADDRS_MAX];
	size_t count = cm_addrs(addrs);

	(void)state;
	for (size_t i = 0; i < count; i++) {
		struct receiver receiver = {0};
		char text[64] = "to an SRQ by its number";
		struct rdma_cm_id *id;
		__be32 number;

		listen_at(&receiver, &addrs[i]);
		assert_int_equal(pthread_create(&receiver.thread, NULL, serve, &receiver), 0);
		id = open_sender(&addrs[i], IBV_QPT_XRC_SEND);
		assert_int_equal(id->qp->qp_type, IBV_QPT_XRC_SEND);
		assert_non_null(id->send_cq);
		assert_null(id->recv_cq);
		assert_int_equal(rdma_connect(id, NULL), 0);
		assert_int_equal(id->event->param.conn.srq, 1);
		memcpy(&number, id->event->param.conn.private_data, sizeof(number));
		send_to_srq(id, text, sizeof(text), be32toh(number));
		assert_int_equal(rdma_disconnect(id), 0);
		rdma_destroy_ep(id);
		assert_int_equal(pthread_join(receiver.thread, NULL), 0);
		assert_true(receiver.is_good);
		assert_string_equal(receiver.text, text);
		rdma_destroy_ep(receiver.listener);
	}
}

/* An id of RDMA_PS_TCP without a QP. The REQ and REP of such ids are those of RC. */
static struct rdma_cm_id *open_tcp(struct sockaddr_storage *addr, int flags)
{
	struct rdma_addrinfo *info = info_of(addr, RDMA_PS_TCP, IBV_QPT_RC, flags);
	struct rdma_cm_id *id;

	assert_int_equal(rdma_create_ep(&id, info, NULL, NULL), 0);
	rdma_freeaddrinfo(info);
	assert_int_equal(id->qp_type, IBV_QPT_RC);
	return id;
}

/* Accepts a request of RDMA_PS_TCP with an XRC target QP. */
static void *serve_tcp(void *arg)
{
	struct ibv_qp_init_attr_ex qp_attr = {.qp_type = IBV_QPT_XRC_RECV};
	struct receiver *receiver = arg;
	struct rdma_cm_id *id;

	if (rdma_get_request(receiver->listener, &id))
		return NULL;
	receiver->is_good = !rdma_create_qp_ex(id, &qp_attr) && receive(receiver, id);
	rdma_destroy_ep(id);
	return NULL;
}

/* libfabric's verbs provider connects XRC QPs in this way. */
static void rdma_connect_xrc_qp_of_tcp_id_message_arrives(void **state)
{
	struct ibv_qp_init_attr attr = init_attr(IBV_QPT_XRC_SEND);
	struct sockaddr_storage addr = cm_loopback(0);
	char text[64] = "to an SRQ by its number";
	struct receiver receiver = {0};
	struct rdma_cm_id *id;
	__be32 number;

	(void)state;
	receiver.listener = open_tcp(&addr, RAI_PASSIVE);
	assert_int_equal(rdma_listen(receiver.listener, 4), 0);
	cm_set_port(&addr, rdma_get_src_port(receiver.listener));
	assert_int_equal(pthread_create(&receiver.thread, NULL, serve_tcp, &receiver), 0);
	id = open_tcp(&addr, 0);
	assert_int_equal(rdma_create_qp(id, NULL, &attr), 0);
	assert_int_equal(rdma_connect(id, NULL), 0);
	memcpy(&number, id->event->param.conn.private_data, sizeof(number));
	send_to_srq(id, text, sizeof(text), be32toh(number));
	assert_int_equal(rdma_disconnect(id), 0);
	rdma_destroy_ep(id);
	assert_int_equal(pthread_join(receiver.thread, NULL), 0);
	assert_true(receiver.is_good);
	assert_string_equal(receiver.text, text);
	rdma_destroy_ep(receiver.listener);
}

/* A listener for one kind of QP rejects requests of the others. */
static void rdma_connect_xrc_other_qp_type_is_rejected(void **state)
{
	struct sockaddr_storage addr = cm_loopback(0);
	struct receiver receiver = {0};
	struct rdma_cm_id *id;

	(void)state;
	listen_at(&receiver, &addr);
	id = open_sender(&addr, IBV_QPT_RC);
	assert_minus1_errno(rdma_connect(id, NULL), ECONNREFUSED);
	assert_int_equal(id->event->event, RDMA_CM_EVENT_REJECTED);
	assert_int_equal(id->event->status, 9);
	rdma_destroy_ep(id);
	rdma_destroy_ep(receiver.listener);
}

/* An id of this kind with a device and a path, and without a QP. */
static struct rdma_cm_id *bare_id(enum ibv_qp_type type)
{
	struct sockaddr_storage addr = cm_loopback(4000);
	struct rdma_addrinfo *info = info_of(&addr, RDMA_PS_IB, type, 0);
	struct rdma_cm_id *id;

	assert_int_equal(rdma_create_ep(&id, info, NULL, NULL), 0);
	rdma_freeaddrinfo(info);
	assert_null(id->qp);
	return id;
}

static struct ibv_xrcd *open_xrcd(struct ibv_context *context)
{
	struct ibv_xrcd_init_attr attr = {
		.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
		.fd = -1,
		.oflags = O_CREAT,
	};
	struct ibv_xrcd *xrcd = ibv_open_xrcd(context, &attr);

	assert_non_null(xrcd);
	return xrcd;
}

static void rdma_create_srq_type_follows_id(void **state)
{
	struct rdma_cm_id *id = bare_id(IBV_QPT_XRC_RECV);
	struct ibv_srq_init_attr attr = {.attr = {.max_wr = 4, .max_sge = 1}};
	struct ibv_srq_init_attr_ex basic = {
		.attr = attr.attr, .comp_mask = IBV_SRQ_INIT_ATTR_TYPE, .srq_type = IBV_SRQT_BASIC};
	uint32_t number;

	(void)state;
	assert_int_equal(rdma_create_srq(id, NULL, &attr), 0);
	assert_int_equal(ibv_get_srq_num(id->srq, &number), 0);
	assert_minus1_errno(rdma_create_srq(id, NULL, &attr), EINVAL);
	rdma_destroy_srq(id);
	assert_null(id->recv_cq);

	/* The default if the caller sets no type. */
	assert_int_equal(rdma_create_srq_ex(id, &basic), 0);
	assert_int_not_equal(ibv_get_srq_num(id->srq, &number), 0);
	assert_null(id->recv_cq);
	rdma_destroy_srq(id);

	/* A failed call leaves no object. */
	attr.attr.max_wr = 1 << 30;
	assert_minus1_errno(rdma_create_srq(id, NULL, &attr), EINVAL);
	assert_null(id->recv_cq);
	assert_null(id->srq);
	rdma_destroy_ep(id);
}

static void rdma_create_srq_ex_given_xrcd_and_cq_are_used(void **state)
{
	struct rdma_cm_id *id = bare_id(IBV_QPT_XRC_RECV);
	struct ibv_context *other = ibv_open_device(id->verbs->device);
	struct ibv_qp_init_attr_ex attr = {.qp_type = IBV_QPT_XRC_RECV,
					   .comp_mask = IBV_QP_INIT_ATTR_XRCD};
	struct ibv_srq_init_attr_ex srq = {.attr = {.max_wr = 4, .max_sge = 1},
					   .comp_mask = IBV_SRQ_INIT_ATTR_XRCD |
							IBV_SRQ_INIT_ATTR_CQ};
	struct ibv_xrcd *own = open_xrcd(id->verbs), *foreign = open_xrcd(other);
	struct ibv_cq *cq = ibv_create_cq(id->verbs, 4, NULL, NULL, 0);

	(void)state;
	attr.xrcd = foreign;
	assert_minus1_errno(rdma_create_qp_ex(id, &attr), EINVAL);
	attr.xrcd = own;
	assert_int_equal(rdma_create_qp_ex(id, &attr), 0);
	assert_int_equal(ibv_close_xrcd(own), EBUSY);
	srq.xrcd = own;
	srq.cq = cq;
	assert_int_equal(rdma_create_srq_ex(id, &srq), 0);
	assert_null(id->recv_cq);
	assert_int_equal(ibv_destroy_cq(cq), EBUSY);
	rdma_destroy_ep(id);
	assert_int_equal(ibv_destroy_cq(cq), 0);
	assert_int_equal(ibv_close_xrcd(own), 0);
	assert_int_equal(ibv_close_xrcd(foreign), 0);
	assert_int_equal(ibv_close_device(other), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rdma_connect_xrc_message_uses_named_srq),
		cmocka_unit_test(rdma_connect_xrc_qp_of_tcp_id_message_arrives),
		cmocka_unit_test(rdma_connect_xrc_other_qp_type_is_rejected),
		cmocka_unit_test(rdma_create_srq_type_follows_id),
		cmocka_unit_test(rdma_create_srq_ex_given_xrcd_and_cq_are_used),
	};

	return cmocka_run_group_tests_name("api/cm_xrc", tests, NULL, NULL);
}
