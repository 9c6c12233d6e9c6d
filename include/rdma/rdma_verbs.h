/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Verbs by way of an rdma_cm_id: the common cases of memory registration, posting and completion,
 * for ids whose QP and CQs were made by rdma_create_qp().
 *
 * How to read the pages: as those of <rdma/rdma_cma.h>. All calls but those of SRQs are inline.
 * None checks that the id has the object which the call needs.
 *
 * Posting calls answer 0 once the work request is queued, or -1 with the errno of ibv_post_send()
 * or ibv_post_recv(): EINVAL: a bad request or state; ENOMEM: the queue is full. *context* comes
 * back as wr_id of the completion; *flags* are enum ibv_send_flags; buffers belong to the library
 * until the completion. Any thread may post; nothing blocks.
 */
#ifndef RDMA_VERBS_H
#define RDMA_VERBS_H

#include <assert.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>
#include <stdint.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Public names are visible, also in a library built with -fvisibility=hidden. */
#pragma GCC visibility push(default)

/**
 * Turns the answer of a verb into that of an rdma_cm call.
 *
 * *ret*: 0 or an errno value.
 * Returns 0, or -1 with errno set to *ret*.
 * Threads: any. Does not block. Inline.
 */
static inline int rdma_seterrno(int ret)
{
	if (!ret)
		return 0;
	errno = ret;
	return -1;
}

/**
 * Makes a shared receive queue for an id.
 *
 * *id*: one that is bound to a device and has no SRQ.
 * *pd*: a PD of id->verbs; NULL: the shared one.
 * *attr*: as ibv_create_srq(); what was really made is written back.
 * Returns 0, or -1 with errno.
 * Errors: EINVAL: an SRQ is there, no device, PD of another context; else as ibv_create_srq().
 * Threads: any. Does not block.
 * State: id->srq is set, and the id's next QP uses it.
 * Since RDMACM_1.0. Source: rdma_create_srq(3). See also: rdma_create_qp(), rdma_destroy_srq().
 */
int rdma_create_srq(struct rdma_cm_id *id, struct ibv_pd *pd, struct ibv_srq_init_attr *attr);

/**
 * As rdma_create_srq(), with extended attributes.
 *
 * *id*: as there. *attr*: as ibv_create_srq_ex(); the PD is optional here.
 * Returns, threads, state: as rdma_create_srq().
 * Errors: as rdma_create_srq(); EOPNOTSUPP: a type other than IBV_SRQT_BASIC.
 * Since RDMACM_1.0. Source: rdma_create_srq(3).
 */
int rdma_create_srq_ex(struct rdma_cm_id *id, struct ibv_srq_init_attr_ex *attr);

/**
 * Destroys the shared receive queue of an id.
 *
 * *id*: NULL, or an id without an SRQ: nothing happens.
 * Threads: any, but nobody may use the SRQ. Blocks until its events are acknowledged.
 * State: no QP uses it any more. id->srq is NULL.
 * Since RDMACM_1.0. Source: rdma_create_srq(3).
 */
void rdma_destroy_srq(struct rdma_cm_id *id);

/**
 * Registers memory for sending and receiving messages.
 *
 * *id*: whose PD is used. *addr*, *length*: the memory.
 * Returns the MR, for rdma_dereg_mr(), or NULL with the errno of ibv_reg_mr(). Access is
 * IBV_ACCESS_LOCAL_WRITE.
 * Threads: any. Does not block. Inline. Source: rdma_reg_msgs(3). See also: ibv_reg_mr().
 */
static inline struct ibv_mr *rdma_reg_msgs(struct rdma_cm_id *id, void *addr, size_t length)
{
	return ibv_reg_mr(id->pd, addr, length, IBV_ACCESS_LOCAL_WRITE);
}

/**
 * Registers memory that the peer may read.
 *
 * *id*: whose PD is used. *addr*, *length*: the memory.
 * Returns the MR, for rdma_dereg_mr(), or NULL with the errno of ibv_reg_mr(). Access is also
 * IBV_ACCESS_REMOTE_READ.
 * Threads: any. Does not block. Inline. Source: rdma_reg_read(3). See also: ibv_reg_mr().
 */
static inline struct ibv_mr *rdma_reg_read(struct rdma_cm_id *id, void *addr, size_t length)
{
	return ibv_reg_mr(id->pd, addr, length, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ);
}

/**
 * Registers memory that the peer may write.
 *
 * *id*: whose PD is used. *addr*, *length*: the memory.
 * Returns the MR, for rdma_dereg_mr(), or NULL with the errno of ibv_reg_mr(). Access is also
 * IBV_ACCESS_REMOTE_WRITE.
 * Threads: any. Does not block. Inline. Source: rdma_reg_write(3). See also: ibv_reg_mr().
 */
static inline struct ibv_mr *rdma_reg_write(struct rdma_cm_id *id, void *addr, size_t length)
{
	return ibv_reg_mr(id->pd, addr, length, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
}

/**
 * Deregisters memory.
 *
 * *mr*: of any registering call.
 * Returns 0, or -1 with the errno of ibv_dereg_mr().
 * Threads: any. Inline. Source: rdma_dereg_mr(3).
 */
static inline int rdma_dereg_mr(struct ibv_mr *mr)
{
	return rdma_seterrno(ibv_dereg_mr(mr));
}

/* One SGE for *length* bytes at *addr*; *mr* may be NULL where inline data needs no key. */
static inline struct ibv_sge rdma_verbs_sge(void *addr, size_t length, struct ibv_mr *mr)
{
	struct ibv_sge sge;

	sge.addr = (uint64_t)(uintptr_t)addr;
	sge.length = (uint32_t)length;
	sge.lkey = mr ? mr->lkey : 0;
	return sge;
}

/* A single send WR: what every posting call here starts from. */
static inline struct ibv_send_wr rdma_verbs_send_wr(void *context, struct ibv_sge *sgl, int nsge,
						    int flags, enum ibv_wr_opcode opcode)
{
	struct ibv_send_wr wr;

	memset(&wr, 0, sizeof(wr));
	wr.wr_id = (uint64_t)(uintptr_t)context;
	wr.sg_list = sgl;
	wr.num_sge = nsge;
	wr.opcode = opcode;
	wr.send_flags = (unsigned int)flags;
	return wr;
}

/**
 * Posts a receive into several buffers, to the id's SRQ if it has one, else to its QP.
 *
 * *sgl*, *nsge*: the buffers, in order; *nsge* >= 0.
 * Returns, errors, threads: see the top of this header. Source: rdma_post_recvv(3).
 */
static inline int rdma_post_recvv(struct rdma_cm_id *id, void *context, struct ibv_sge *sgl,
				  int nsge)
{
	struct ibv_recv_wr wr, *bad;

	wr.wr_id = (uint64_t)(uintptr_t)context;
	wr.next = NULL;
	wr.sg_list = sgl;
	wr.num_sge = nsge;
	if (id->srq)
		return rdma_seterrno(ibv_post_srq_recv(id->srq, &wr, &bad));
	return rdma_seterrno(ibv_post_recv(id->qp, &wr, &bad));
}

/**
 * Posts a SEND from several buffers.
 *
 * *sgl*, *nsge*: the buffers, in order.
 * Returns, errors, threads: see the top of this header. Source: rdma_post_sendv(3).
 */
static inline int rdma_post_sendv(struct rdma_cm_id *id, void *context, struct ibv_sge *sgl,
				  int nsge, int flags)
{
	struct ibv_send_wr wr = rdma_verbs_send_wr(context, sgl, nsge, flags, IBV_WR_SEND);
	struct ibv_send_wr *bad;

	return rdma_seterrno(ibv_post_send(id->qp, &wr, &bad));
}

/**
 * Posts a READ of the peer's memory into several buffers.
 *
 * *sgl*, *nsge*: the buffers, in order. *remote_addr*, *rkey*: where the peer has it.
 * Returns, errors, threads: see the top of this header. Source: rdma_post_readv(3).
 */
static inline int rdma_post_readv(struct rdma_cm_id *id, void *context, struct ibv_sge *sgl,
				  int nsge, int flags, uint64_t remote_addr, uint32_t rkey)
{
	struct ibv_send_wr wr = rdma_verbs_send_wr(context, sgl, nsge, flags, IBV_WR_RDMA_READ);
	struct ibv_send_wr *bad;

	wr.wr.rdma.remote_addr = remote_addr;
	wr.wr.rdma.rkey = rkey;
	return rdma_seterrno(ibv_post_send(id->qp, &wr, &bad));
}

/**
 * Posts a WRITE into the peer's memory from several buffers.
 *
 * *sgl*, *nsge*: the buffers, in order. *remote_addr*, *rkey*: where the peer wants it.
 * Returns, errors, threads: see the top of this header. Source: rdma_post_writev(3).
 */
static inline int rdma_post_writev(struct rdma_cm_id *id, void *context, struct ibv_sge *sgl,
				   int nsge, int flags, uint64_t remote_addr, uint32_t rkey)
{
	struct ibv_send_wr wr = rdma_verbs_send_wr(context, sgl, nsge, flags, IBV_WR_RDMA_WRITE);
	struct ibv_send_wr *bad;

	wr.wr.rdma.remote_addr = remote_addr;
	wr.wr.rdma.rkey = rkey;
	return rdma_seterrno(ibv_post_send(id->qp, &wr, &bad));
}

/**
 * Posts a receive into one buffer.
 *
 * *addr*, *length*: the buffer, which must lie in *mr* (asserted).
 * *mr*: may not be NULL.
 * Returns, errors, threads: as rdma_post_recvv(). Source: rdma_post_recv(3).
 */
static inline int rdma_post_recv(struct rdma_cm_id *id, void *context, void *addr, size_t length,
				 struct ibv_mr *mr)
{
	struct ibv_sge sge = rdma_verbs_sge(addr, length, mr);

	assert((uintptr_t)addr >= (uintptr_t)mr->addr);
	assert((uintptr_t)addr + length <= (uintptr_t)mr->addr + mr->length);
	return rdma_post_recvv(id, context, &sge, 1);
}

/**
 * Posts a SEND from one buffer.
 *
 * *addr*, *length*: the buffer. *mr*: its registration; NULL with IBV_SEND_INLINE.
 * Returns, errors, threads: as rdma_post_sendv(). Source: rdma_post_send(3).
 */
static inline int rdma_post_send(struct rdma_cm_id *id, void *context, void *addr, size_t length,
				 struct ibv_mr *mr, int flags)
{
	struct ibv_sge sge = rdma_verbs_sge(addr, length, mr);

	return rdma_post_sendv(id, context, &sge, 1, flags);
}

/**
 * Posts a READ of the peer's memory into one buffer.
 *
 * *addr*, *length*, *mr*: the buffer and its registration. *remote_addr*, *rkey*: where the peer
 * has it.
 * Returns, errors, threads: as rdma_post_readv(). Source: rdma_post_read(3).
 */
static inline int rdma_post_read(struct rdma_cm_id *id, void *context, void *addr, size_t length,
				 struct ibv_mr *mr, int flags, uint64_t remote_addr, uint32_t rkey)
{
	struct ibv_sge sge = rdma_verbs_sge(addr, length, mr);

	return rdma_post_readv(id, context, &sge, 1, flags, remote_addr, rkey);
}

/**
 * Posts a WRITE into the peer's memory from one buffer.
 *
 * *addr*, *length*: the buffer. *mr*: its registration; NULL with IBV_SEND_INLINE.
 * *remote_addr*, *rkey*: where the peer wants it.
 * Returns, errors, threads: as rdma_post_writev(). Source: rdma_post_write(3).
 */
static inline int rdma_post_write(struct rdma_cm_id *id, void *context, void *addr, size_t length,
				  struct ibv_mr *mr, int flags, uint64_t remote_addr, uint32_t rkey)
{
	struct ibv_sge sge = rdma_verbs_sge(addr, length, mr);

	return rdma_post_writev(id, context, &sge, 1, flags, remote_addr, rkey);
}

/**
 * Posts a datagram, with the Q_Key of PS_UDP.
 *
 * *addr*, *length*: the buffer. *mr*: its registration; NULL with IBV_SEND_INLINE.
 * *ah*, *remote_qpn*: to whom; from struct rdma_ud_param of the event.
 * Returns, errors, threads: see the top of this header. Source: rdma_post_ud_send(3).
 */
static inline int rdma_post_ud_send(struct rdma_cm_id *id, void *context, void *addr, size_t length,
				    struct ibv_mr *mr, int flags, struct ibv_ah *ah,
				    uint32_t remote_qpn)
{
	struct ibv_sge sge = rdma_verbs_sge(addr, length, mr);
	struct ibv_send_wr wr = rdma_verbs_send_wr(context, &sge, 1, flags, IBV_WR_SEND);
	struct ibv_send_wr *bad;

	wr.wr.ud.ah = ah;
	wr.wr.ud.remote_qpn = remote_qpn;
	wr.wr.ud.remote_qkey = RDMA_UDP_QKEY;
	return rdma_seterrno(ibv_post_send(id->qp, &wr, &bad));
}

/*
 * Takes one completion from *cq*, sleeping on *channel* until there is one. The second poll, after
 * arming, closes the gap in which a completion could arrive unannounced.
 */
static inline int rdma_verbs_wait_comp(struct rdma_cm_id *id, struct ibv_comp_channel *channel,
				       struct ibv_cq *cq, struct ibv_wc *wc)
{
	struct ibv_cq *ev_cq;
	void *ev_context;
	int ret;

	for (;;) {
		ret = ibv_poll_cq(cq, 1, wc);
		if (ret)
			break;
		ret = ibv_req_notify_cq(cq, 0);
		if (ret)
			return rdma_seterrno(ret);
		ret = ibv_poll_cq(cq, 1, wc);
		if (ret)
			break;
		if (ibv_get_cq_event(channel, &ev_cq, &ev_context))
			return -1;
		assert(ev_cq == cq && ev_context == id);
		ibv_ack_cq_events(ev_cq, 1);
	}
	(void)id;
	return ret < 0 ? rdma_seterrno(-ret) : ret;
}

/**
 * Takes the next completion of the id's send CQ.
 *
 * *id*: one whose send CQ was made by rdma_create_qp(), and nobody else waits on its channel.
 * *wc*: filled in.
 * Returns 1, or -1 with the errno of ibv_req_notify_cq() or ibv_get_cq_event().
 * Threads: one at a time. Blocks until there is a completion, unless the channel's descriptor is
 * non-blocking (EAGAIN). Inline. Source: rdma_get_send_comp(3).
 */
static inline int rdma_get_send_comp(struct rdma_cm_id *id, struct ibv_wc *wc)
{
	return rdma_verbs_wait_comp(id, id->send_cq_channel, id->send_cq, wc);
}

/**
 * Takes the next completion of the id's receive CQ.
 *
 * *id*, *wc*, returns, threads: as rdma_get_send_comp(), for the receive CQ.
 * Inline. Source: rdma_get_recv_comp(3).
 */
static inline int rdma_get_recv_comp(struct rdma_cm_id *id, struct ibv_wc *wc)
{
	return rdma_verbs_wait_comp(id, id->recv_cq_channel, id->recv_cq, wc);
}

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif

#endif /* RDMA_VERBS_H */
