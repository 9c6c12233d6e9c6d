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
 * Threads: any. Does not block. Inline. Source: rdma-core's header.
 */
static inline int rdma_seterrno(int ret)
{
	if (!ret)
		return 0;
	errno = ret;
	return -1;
}

/**
 * Makes a shared receive queue for an id. For an id of XRC it is one of XRC, in the device's own
 * XRC domain, and completes in the id's receive CQ, which is made with it.
 *
 * *id*: one that is bound to a device and has no SRQ.
 * *pd*: a PD of id->verbs; NULL: the shared one.
 * *attr*: as ibv_create_srq(); what was really made is written back.
 * Returns 0, or -1 with errno.
 * Errors: EINVAL: an SRQ is there, no device, PD of another context; else as ibv_create_srq().
 * Threads: any. Does not block.
 * State: id->srq is set, and the id's next QP uses it. Of XRC also id->recv_cq, for
 * rdma_get_recv_comp(); ibv_get_srq_num() tells what peers call the SRQ.
 * Since RDMACM_1.0. Source: rdma_create_srq(3). See also: rdma_create_qp(), rdma_destroy_srq(),
 * ibv_get_srq_num().
 */
int rdma_create_srq(struct rdma_cm_id *id, struct ibv_pd *pd, struct ibv_srq_init_attr *attr);

/**
 * As rdma_create_srq(), with extended attributes.
 *
 * *id*: one that is bound to a device and has no SRQ.
 * *attr*: as ibv_create_srq_ex(); PD, type, XRC domain and CQ are optional here. What was really
 * made is written back into attr->attr.
 * Returns, threads, state: as rdma_create_srq().
 * Errors: as rdma_create_srq(); EOPNOTSUPP: type IBV_SRQT_TM.
 * Since RDMACM_1.0. Source: rdma_create_srq(3). See also: ibv_create_srq_ex().
 */
int rdma_create_srq_ex(struct rdma_cm_id *id, struct ibv_srq_init_attr_ex *attr);

/**
 * Destroys the shared receive queue of an id.
 *
 * *id*: NULL, or an id without an SRQ: nothing happens.
 * Threads: any, but nobody may use the SRQ. Blocks until its events are acknowledged.
 * State: no QP uses it any more. id->srq is NULL. A CQ that was made with it is gone.
 * Since RDMACM_1.0. Source: rdma_create_srq(3).
 */
void rdma_destroy_srq(struct rdma_cm_id *id);

/**
 * Registers memory for sending and receiving messages. Access is IBV_ACCESS_LOCAL_WRITE.
 *
 * *id*: whose PD is used; one that is bound to a device.
 * *addr*, *length*: the memory; it must stay mapped.
 * Returns the MR, for rdma_dereg_mr(), or NULL with errno.
 * Errors: EFAULT: the memory is not mapped, or may not be written; EINVAL: past the end of the
 * address space, or too long; ENOMEM: no memory, or max_mr exist; EIO: the daemon is gone.
 * Threads: any. Does not block. Inline. Source: rdma_reg_msgs(3). See also: rdma_dereg_mr(),
 * ibv_reg_mr().
 */
static inline struct ibv_mr *rdma_reg_msgs(struct rdma_cm_id *id, void *addr, size_t length)
{
	return ibv_reg_mr(id->pd, addr, length, IBV_ACCESS_LOCAL_WRITE);
}

/**
 * Registers memory that the peer may read. Access is IBV_ACCESS_LOCAL_WRITE and
 * IBV_ACCESS_REMOTE_READ.
 *
 * *id*: whose PD is used; one that is bound to a device.
 * *addr*, *length*: the memory; it must stay mapped.
 * Returns the MR, for rdma_dereg_mr(), or NULL with errno.
 * Errors: EFAULT: the memory is not mapped, or may not be written; EINVAL: past the end of the
 * address space, or too long; ENOMEM: no memory, or max_mr exist; EIO: the daemon is gone.
 * Threads: any. Does not block. Inline. Source: rdma_reg_read(3). See also: rdma_dereg_mr(),
 * ibv_reg_mr().
 */
static inline struct ibv_mr *rdma_reg_read(struct rdma_cm_id *id, void *addr, size_t length)
{
	return ibv_reg_mr(id->pd, addr, length, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ);
}

/**
 * Registers memory that the peer may write. Access is IBV_ACCESS_LOCAL_WRITE and
 * IBV_ACCESS_REMOTE_WRITE.
 *
 * *id*: whose PD is used; one that is bound to a device.
 * *addr*, *length*: the memory; it must stay mapped.
 * Returns the MR, for rdma_dereg_mr(), or NULL with errno.
 * Errors: EFAULT: the memory is not mapped, or may not be written; EINVAL: past the end of the
 * address space, or too long; ENOMEM: no memory, or max_mr exist; EIO: the daemon is gone.
 * Threads: any. Does not block. Inline. Source: rdma_reg_write(3). See also: rdma_dereg_mr(),
 * ibv_reg_mr().
 */
static inline struct ibv_mr *rdma_reg_write(struct rdma_cm_id *id, void *addr, size_t length)
{
	return ibv_reg_mr(id->pd, addr, length, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
}

/**
 * Takes memory out of use.
 *
 * *mr*: of any registering call; freed.
 * Returns 0. (On other devices also -1 with the errno of ibv_dereg_mr().)
 * Threads: any. Waits for remote accesses that are going on. Inline. Source: rdma_dereg_mr(3).
 * See also: ibv_dereg_mr(), rdma_reg_msgs().
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
 * Posts a receive into several buffers. It goes to the SRQ of the id if it has one, else to its
 * QP.
 *
 * *id*: one with a QP or an SRQ.
 * *context*: comes back as wr_id of the completion.
 * *sgl*, *nsge*: the buffers, in order, and their number, which may be 0. They belong to the
 * library until the completion.
 * Returns 0 once the request is queued, or -1 with errno.
 * Errors: EINVAL: the QP is in RESET, more pieces than the queue pair takes; ENOMEM: the queue is
 * full; EIO: in a fork()ed child.
 * Threads: any. Does not block.
 * Events: one completion on the receive CQ, when a message came or the QP failed.
 * Inline. Source: rdma_post_recvv(3). See also: rdma_post_recv(), rdma_get_recv_comp(),
 * ibv_post_recv(), struct ibv_sge.
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
 * *id*: one with a QP.
 * *context*: comes back as wr_id of the completion.
 * *sgl*, *nsge*: the buffers, in order, and their number. They belong to the library until the
 * completion.
 * *flags*: enum ibv_send_flags, or 0.
 * Returns 0 once the request is queued, or -1 with errno.
 * Errors: EINVAL: the QP is not yet in RTS, more pieces than the queue pair takes, more inline
 * data than the QP takes; ENOMEM: the queue is full; EIO: in a fork()ed child.
 * Threads: any. Does not block.
 * Events: a completion on the send CQ if *flags* asks for one, or if the request fails.
 * Inline. Source: rdma_post_sendv(3). See also: rdma_post_send(), rdma_get_send_comp(),
 * ibv_post_send(), struct ibv_sge.
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
 * *id*: one with a QP.
 * *context*: comes back as wr_id of the completion.
 * *sgl*, *nsge*: the buffers, in order, and their number. They belong to the library until the
 * completion.
 * *flags*: enum ibv_send_flags, or 0.
 * *remote_addr*, *rkey*: where the peer has it, and its key.
 * Returns 0 once the request is queued, or -1 with errno.
 * Errors: EINVAL: the QP is not yet in RTS, more pieces than the queue pair takes,
 * IBV_SEND_INLINE; ENOMEM: the queue is full; EIO: in a fork()ed child.
 * Threads: any. Does not block.
 * Events: a completion on the send CQ if *flags* asks for one, or if the request fails.
 * Inline. Source: rdma_post_readv(3). See also: rdma_post_read(), rdma_get_send_comp(),
 * ibv_post_send(), struct ibv_sge.
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
 * *id*: one with a QP.
 * *context*: comes back as wr_id of the completion.
 * *sgl*, *nsge*: the buffers, in order, and their number. They belong to the library until the
 * completion.
 * *flags*: enum ibv_send_flags, or 0.
 * *remote_addr*, *rkey*: where the peer wants it, and its key.
 * Returns 0 once the request is queued, or -1 with errno.
 * Errors: EINVAL: the QP is not yet in RTS, more pieces than the queue pair takes, more inline
 * data than the QP takes; ENOMEM: the queue is full; EIO: in a fork()ed child.
 * Threads: any. Does not block.
 * Events: a completion on the send CQ if *flags* asks for one, or if the request fails.
 * Inline. Source: rdma_post_writev(3). See also: rdma_post_write(), rdma_get_send_comp(),
 * ibv_post_send(), struct ibv_sge.
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
 * Posts a receive into one buffer. It goes to the SRQ of the id if it has one, else to its QP.
 *
 * *id*: one with a QP or an SRQ.
 * *context*: comes back as wr_id of the completion.
 * *addr*, *length*: the buffer, which must lie in *mr* (asserted). It belongs to the library
 * until the completion.
 * *mr*: its registration, by rdma_reg_msgs(); may not be NULL.
 * Returns 0 once the request is queued, or -1 with errno.
 * Errors: EINVAL: the QP is in RESET, more pieces than the queue pair takes; ENOMEM: the queue is
 * full; EIO: in a fork()ed child.
 * Threads: any. Does not block.
 * Events: one completion on the receive CQ, when a message came or the QP failed.
 * Inline. Source: rdma_post_recv(3). See also: rdma_post_recvv(), rdma_get_recv_comp(),
 * rdma_reg_msgs(), ibv_post_recv().
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
 * *id*: one with a QP.
 * *context*: comes back as wr_id of the completion.
 * *addr*, *length*: the buffer. It belongs to the library until the completion, unless it is sent
 * inline.
 * *mr*: its registration; may be NULL with IBV_SEND_INLINE.
 * *flags*: enum ibv_send_flags, or 0.
 * Returns 0 once the request is queued, or -1 with errno.
 * Errors: EINVAL: the QP is not yet in RTS, more pieces than the queue pair takes, more inline
 * data than the QP takes; ENOMEM: the queue is full; EIO: in a fork()ed child.
 * Threads: any. Does not block.
 * Events: a completion on the send CQ if *flags* asks for one, or if the request fails.
 * Inline. Source: rdma_post_send(3). See also: rdma_post_sendv(), rdma_reg_msgs(),
 * rdma_get_send_comp(), ibv_post_send().
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
 * *id*: one with a QP.
 * *context*: comes back as wr_id of the completion.
 * *addr*, *length*: the buffer, written to until the completion.
 * *mr*: its registration.
 * *flags*: enum ibv_send_flags, or 0.
 * *remote_addr*, *rkey*: where the peer has it, and its key.
 * Returns 0 once the request is queued, or -1 with errno.
 * Errors: EINVAL: the QP is not yet in RTS, more pieces than the queue pair takes,
 * IBV_SEND_INLINE; ENOMEM: the queue is full; EIO: in a fork()ed child.
 * Threads: any. Does not block.
 * Events: a completion on the send CQ if *flags* asks for one, or if the request fails.
 * Inline. Source: rdma_post_read(3). See also: rdma_post_readv(), rdma_reg_msgs(),
 * rdma_get_send_comp(), ibv_post_send().
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
 * *id*: one with a QP.
 * *context*: comes back as wr_id of the completion.
 * *addr*, *length*: the buffer. It belongs to the library until the completion, unless it is sent
 * inline.
 * *mr*: its registration; may be NULL with IBV_SEND_INLINE.
 * *flags*: enum ibv_send_flags, or 0.
 * *remote_addr*, *rkey*: where the peer wants it, and its key.
 * Returns 0 once the request is queued, or -1 with errno.
 * Errors: EINVAL: the QP is not yet in RTS, more pieces than the queue pair takes, more inline
 * data than the QP takes; ENOMEM: the queue is full; EIO: in a fork()ed child.
 * Threads: any. Does not block.
 * Events: a completion on the send CQ if *flags* asks for one, or if the request fails.
 * Inline. Source: rdma_post_write(3). See also: rdma_post_writev(), rdma_reg_msgs(),
 * rdma_get_send_comp(), ibv_post_send().
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
 * *id*: one with a UD QP.
 * *context*: comes back as wr_id of the completion.
 * *addr*, *length*: the buffer. It belongs to the library until the completion, unless it is sent
 * inline.
 * *mr*: its registration; may be NULL with IBV_SEND_INLINE.
 * *flags*: enum ibv_send_flags, or 0.
 * *ah*: where to, of ibv_create_ah() with the ah_attr of the event's struct rdma_ud_param; kept
 * until the completion.
 * *remote_qpn*: the QPN there, from the same event.
 * Returns 0 once the request is queued, or -1 with errno.
 * Errors: EINVAL: the QP is not yet in RTS, more pieces than the queue pair takes, more inline
 * data than the QP takes; ENOMEM: the queue is full; EIO: in a fork()ed child.
 * Threads: any. Does not block.
 * Events: a completion on the send CQ if *flags* asks for one, or if the request fails.
 * Inline. Source: rdma_post_ud_send(3). See also: rdma_get_send_comp(), ibv_create_ah(),
 * ibv_post_send(), struct rdma_ud_param.
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
 * Returns 1, or -1 with errno.
 * Errors: EAGAIN: there is none, and the channel's descriptor is non-blocking; EINTR: a signal came while waiting; EIO:
 * in a fork()ed child.
 * Threads: one at a time. Blocks until there is a completion, unless the channel's descriptor is
 * non-blocking (EAGAIN). Inline. Source: rdma_get_send_comp(3). See also: rdma_get_recv_comp(), rdma_post_send(),
 * struct ibv_wc.
 */
static inline int rdma_get_send_comp(struct rdma_cm_id *id, struct ibv_wc *wc)
{
	return rdma_verbs_wait_comp(id, id->send_cq_channel, id->send_cq, wc);
}

/**
 * Takes the next completion of the id's receive CQ.
 *
 * *id*: one whose receive CQ was made by rdma_create_qp(), and nobody else waits on its channel.
 * *wc*: filled in.
 * Returns 1, or -1 with errno.
 * Errors: EAGAIN: there is none, and the channel's descriptor is non-blocking; EINTR: a signal came while waiting; EIO:
 * in a fork()ed child.
 * Threads: one at a time. Blocks until there is a completion, unless the channel's descriptor is
 * non-blocking (EAGAIN). Inline. Source: rdma_get_recv_comp(3). See also: rdma_get_send_comp(),
 * rdma_post_recv(), struct ibv_wc.
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
