/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * NVMe over RDMA, a minimal controller with one namespace in memory, for one host.
 *
 *	nvme_target ADDRESS PORT SUBSYSTEM MEBIBYTES
 *
 * It ends with status 0 when the host has disconnected all queues, and prints how many READs,
 * WRITEs and SENDs with Invalidate it has executed. The host's commands are in nvme_commands.c.
 */
#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "nvme.h"
#include "nvme_target.h"
#include "ulp.h"

#define QUEUES_MAX     8
#define CM_EVERY_POLLS 1000

static struct queue *queues[QUEUES_MAX];
static unsigned int open_queues, made_queues;

static void post_command_slot(struct queue *queue, unsigned int slot)
{
	struct ibv_sge sge = {.addr = (uintptr_t)queue->slots[slot].sqe,
			      .length = NVME_SQE_BYTES,
			      .lkey = queue->slots_mr->lkey};
	struct ibv_recv_wr wr = {.wr_id = slot, .sg_list = &sge, .num_sge = 1};
	struct ibv_recv_wr *bad;

	ulp_require(!ibv_post_recv(queue->id->qp, &wr, &bad), "ibv_post_recv failed");
}

static void make_queue(struct target *target, struct queue *queue)
{
	struct ibv_qp_init_attr attr = {.qp_type = IBV_QPT_RC,
					.sq_sig_all = 1,
					.cap = {.max_send_wr = 2 * TARGET_ENTRIES,
						.max_recv_wr = TARGET_ENTRIES,
						.max_send_sge = 1,
						.max_recv_sge = 1}};

	if (!target->pd) {
		target->pd = ibv_alloc_pd(queue->id->verbs);
		ulp_require(target->pd, "ibv_alloc_pd: %s", strerror(errno));
		target->disk_mr = ibv_reg_mr(target->pd, target->disk, target->disk_bytes,
					     IBV_ACCESS_LOCAL_WRITE);
		ulp_require(target->disk_mr, "ibv_reg_mr: %s", strerror(errno));
	}
	queue->cq = ibv_create_cq(queue->id->verbs, 4 * TARGET_ENTRIES, NULL, NULL, 0);
	ulp_require(queue->cq, "ibv_create_cq: %s", strerror(errno));
	attr.send_cq = queue->cq;
	attr.recv_cq = queue->cq;
	ulp_require(!rdma_create_qp(queue->id, target->pd, &attr), "rdma_create_qp: %s",
		    strerror(errno));
	queue->slots_mr = ibv_reg_mr(target->pd, queue->slots, sizeof(queue->slots),
				     IBV_ACCESS_LOCAL_WRITE);
	ulp_require(queue->slots_mr, "ibv_reg_mr: %s", strerror(errno));
	for (unsigned int slot = 0; slot < TARGET_ENTRIES; slot++)
		post_command_slot(queue, slot);
}

static void accept_queue(struct target *target, const struct rdma_cm_event *event)
{
	const struct rdma_conn_param *asked = &event->param.conn;
	uint8_t private_data[NVME_PRIVATE_BYTES] = {0};
	struct rdma_conn_param param = {.initiator_depth = TARGET_READS,
					.rnr_retry_count = 7,
					.private_data = private_data,
					.private_data_len = sizeof(private_data)};
	struct queue *queue = calloc(1, sizeof(*queue));

	ulp_require(queue && made_queues < QUEUES_MAX, "too many queues");
	ulp_require(asked->private_data_len >= NVME_PRIVATE_BYTES, "private data of %u bytes",
		    asked->private_data_len);
	if (asked->initiator_depth < param.initiator_depth)
		param.initiator_depth = asked->initiator_depth;
	queue->id = event->id;
	queue->id->context = queue;
	queue->qid = (uint16_t)ulp_get_le((const uint8_t *)asked->private_data + REQ_QID, 2);
	ulp_put_le(private_data + 2, TARGET_ENTRIES, 2);
	make_queue(target, queue);
	queues[made_queues++] = queue;
	open_queues++;
	ulp_require(!rdma_accept(queue->id, &param), "rdma_accept: %s", strerror(errno));
	ulp_say("queue %u: connected, the host accepts %u READs", queue->qid,
		asked->initiator_depth);
}

static void close_queue(struct queue *queue)
{
	if (queue->is_closed)
		return;
	queue->is_closed = true;
	/* EINVAL: the connection has ended already. */
	ulp_require(!rdma_disconnect(queue->id) || errno == EINVAL, "rdma_disconnect: %s",
		    strerror(errno));
	rdma_destroy_qp(queue->id);
	ulp_require(!ibv_destroy_cq(queue->cq) && !ibv_dereg_mr(queue->slots_mr),
		    "destroying queue %u failed", queue->qid);
	open_queues--;
	ulp_say("queue %u: disconnected", queue->qid);
}

static void handle_cm_event(struct target *target, struct rdma_event_channel *channel)
{
	struct rdma_cm_event *event;

	ulp_require(!rdma_get_cm_event(channel, &event), "rdma_get_cm_event: %s", strerror(errno));
	switch (event->event) {
	case RDMA_CM_EVENT_CONNECT_REQUEST:
		accept_queue(target, event);
		break;
	case RDMA_CM_EVENT_DISCONNECTED:
		close_queue(event->id->context);
		break;
	case RDMA_CM_EVENT_ESTABLISHED:
	case RDMA_CM_EVENT_TIMEWAIT_EXIT:
		break;
	default:
		ulp_die("event %s, status %d", rdma_event_str(event->event), event->status);
	}
	rdma_ack_cm_event(event);
}

static void post_send(struct queue *queue, struct ibv_send_wr *wr)
{
	struct ibv_send_wr *bad;
	int err = ibv_post_send(queue->id->qp, wr, &bad);

	ulp_require(!err, "ibv_post_send: %s", strerror(err));
}

void target_transfer(struct target *target, struct queue *queue, struct slot *slot,
		     enum ibv_wr_opcode opcode, void *at, struct ibv_mr *mr, uint32_t bytes)
{
	const uint8_t *sgl = slot->sqe + SQE_DATA;
	struct ibv_sge sge = {.addr = (uintptr_t)at, .length = bytes, .lkey = mr->lkey};
	struct ibv_send_wr wr = {.wr_id = WR_TRANSFER | (uint64_t)(slot - queue->slots),
				 .sg_list = &sge,
				 .num_sge = 1,
				 .opcode = opcode};

	if ((sgl[SGL_TYPE] & 0xf0) != NVME_SGL_KEYED || ulp_get_le(sgl + SGL_BYTES, 3) < bytes) {
		target_respond(target, queue, slot, STATUS_INVALID_FIELD);
		return;
	}
	wr.wr.rdma.remote_addr = ulp_get_le(sgl + SGL_ADDR, 8);
	wr.wr.rdma.rkey = (uint32_t)ulp_get_le(sgl + SGL_KEY, 4);
	target->counts[opcode == IBV_WR_RDMA_READ ? COUNT_READ : COUNT_WRITE]++;
	post_send(queue, &wr);
	/* A response after a WRITE arrives after its data: RC keeps the order. */
	if (opcode == IBV_WR_RDMA_WRITE)
		target_respond(target, queue, slot, 0);
}

void target_respond(struct target *target, struct queue *queue, struct slot *slot, uint16_t status)
{
	const uint8_t *sgl = slot->sqe + SQE_DATA;
	struct ibv_sge sge = {.addr = (uintptr_t)slot->cqe,
			      .length = NVME_CQE_BYTES,
			      .lkey = queue->slots_mr->lkey};
	struct ibv_send_wr wr = {.wr_id = WR_RESPONSE | (uint64_t)(slot - queue->slots),
				 .sg_list = &sge,
				 .num_sge = 1,
				 .opcode = IBV_WR_SEND};

	if (sgl[SGL_TYPE] == (NVME_SGL_KEYED | NVME_SGL_INVALIDATE)) {
		wr.opcode = IBV_WR_SEND_WITH_INV;
		wr.invalidate_rkey = (uint32_t)ulp_get_le(sgl + SGL_KEY, 4);
		target->counts[COUNT_INVALIDATE]++;
	}
	queue->head = (uint16_t)((queue->head + 1) % TARGET_ENTRIES);
	ulp_put_le(slot->cqe + CQE_SQ_HEAD, queue->head, 2);
	memcpy(slot->cqe + CQE_COMMAND_ID, slot->sqe + SQE_COMMAND_ID, 2);
	ulp_put_le(slot->cqe + CQE_STATUS, (uint64_t)status << 1, 2);
	post_send(queue, &wr);
}

static void handle_completion(struct target *target, struct queue *queue, const struct ibv_wc *wc)
{
	unsigned int number = (unsigned int)(wc->wr_id & WR_SLOT);
	struct slot *slot = &queue->slots[number];

	if (wc->status == IBV_WC_WR_FLUSH_ERR)
		return;
	ulp_require(wc->status == IBV_WC_SUCCESS, "queue %u: WR %#llx: %s, vendor error %u",
		    queue->qid, (unsigned long long)wc->wr_id, ibv_wc_status_str(wc->status),
		    wc->vendor_err);
	if (wc->wr_id & WR_RESPONSE) {
		memset(slot, 0, sizeof(*slot));
		post_command_slot(queue, number);
	} else if (!(wc->wr_id & WR_TRANSFER)) {
		ulp_require(wc->byte_len == NVME_SQE_BYTES, "a command of %u bytes", wc->byte_len);
		target_execute(target, queue, slot);
	} else if (wc->opcode == IBV_WC_RDMA_READ) {
		target_respond(target, queue, slot, target_data_arrived(target, slot));
	}
}

static void poll_queues(struct target *target)
{
	struct ibv_wc wc[16];

	for (unsigned int i = 0; i < made_queues; i++) {
		struct queue *queue = queues[i];
		int got = queue->is_closed ? 0 : ibv_poll_cq(queue->cq, 16, wc);

		ulp_require(got >= 0, "ibv_poll_cq: %d", got);
		for (int k = 0; k < got; k++)
			handle_completion(target, queue, &wc[k]);
	}
}

static void run(struct target *target, struct rdma_event_channel *channel)
{
	struct pollfd pfd = {.fd = channel->fd, .events = POLLIN};

	for (unsigned int n = 0; !made_queues || open_queues; n++) {
		poll_queues(target);
		/*
		 * Queues are polled all the time; without one the program waits for a connection.
		 */
		if (open_queues && n % CM_EVERY_POLLS)
			continue;
		if (poll(&pfd, 1, open_queues ? 0 : -1) > 0)
			handle_cm_event(target, channel);
	}
}

int main(int argc, char **argv)
{
	struct addrinfo hints = {.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV};
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct target target = {0};
	struct rdma_cm_id *listener;
	struct addrinfo *where;

	ulp_require(argc == 5, "usage: nvme_target ADDRESS PORT SUBSYSTEM MEBIBYTES");
	target.subsystem = argv[3];
	target.disk_bytes = strtoul(argv[4], NULL, 10) << 20;
	target.disk = calloc(1, target.disk_bytes);
	ulp_require(channel && target.disk, "no memory");
	ulp_require(!getaddrinfo(argv[1], argv[2], &hints, &where), "invalid address '%s'",
		    argv[1]);
	ulp_require(!rdma_create_id(channel, &listener, NULL, RDMA_PS_TCP) &&
			    !rdma_bind_addr(listener, where->ai_addr) &&
			    !rdma_listen(listener, QUEUES_MAX),
		    "listening: %s", strerror(errno));
	freeaddrinfo(where);
	run(&target, channel);
	ulp_say("%u WRITEs, %u READs, %u SENDs with Invalidate", target.counts[COUNT_WRITE],
		target.counts[COUNT_READ], target.counts[COUNT_INVALIDATE]);
	return 0;
}
