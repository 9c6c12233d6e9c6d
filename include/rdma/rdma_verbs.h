/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Data transfer with an rdma_cm_id: calls for memory registration, posting and completions, for ids
 * whose QP and CQs were created by rdma_create_qp().
 *
 * The rules of <rdma/rdma_cma.h> apply. All calls except those for SRQs are inline functions. They
 * do not check that the id has the object that the call needs.
 *
 * A posting call returns 0 when the work request is in the queue, or -1 with the errno of
 * ibv_post_send() or ibv_post_recv(): EINVAL: invalid request or state; ENOMEM: the queue is full.
 * *context* becomes wr_id of the completion. *flags* are enum ibv_send_flags. Buffers must not be
 * changed or freed before the completion. Any thread may post, and no posting call blocks.
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
 * Converts the result of a verb to the convention of the rdma_cm calls.
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
 * Allocates a shared receive queue for an id.
 *
 * *id*: an id that is bound to a device and has no SRQ.
 * *pd*: a PD of id->verbs. NULL: the default PD of the device.
 * *attr*: attributes as in ibv_create_srq(). The actual values are written back.
 * Types: struct ibv_srq_init_attr, struct ibv_srq_attr.
 * Returns 0, or -1 with errno.
 * Errors: EINVAL: the id has an SRQ or no device, or the PD belongs to another context; else as
 * ibv_create_srq().
 * Threads: any. Does not block.
 * State: id->srq is set, and the next QP of the id uses the SRQ. For an id of type XRC the SRQ is
 * of type XRC and belongs to the XRC domain of the device. It reports completions on id->recv_cq,
 * which this call creates; rdma_get_recv_comp() retrieves them, and ibv_get_srq_num() returns the
 * number that peers need.
 * Since RDMACM_1.0. Source: rdma_create_srq(3). See also: rdma_create_qp(), rdma_destroy_srq(),
 * ibv_get_srq_num().
 */
int rdma_create_srq(struct rdma_cm_id *id, struct ibv_pd *pd, struct ibv_srq_init_attr *attr);

/**
 * Allocates a shared receive queue for an id with extended attributes, otherwise as
 * rdma_create_srq().
 *
 * *id*: an id that is bound to a device and has no SRQ.
 * *attr*: attributes as in ibv_create_srq_ex(). PD, type, XRC domain and CQ are optional. The
 * actual values are written back to attr->attr.
 * Returns, threads, state: as rdma_create_srq().
 * Errors: as rdma_create_srq(); EOPNOTSUPP: the type is IBV_SRQT_TM.
 * Since RDMACM_1.0. Source: rdma_create_srq(3). See also: rdma_create_srq(), ibv_create_srq_ex().
 */
int rdma_create_srq_ex(struct rdma_cm_id *id, struct ibv_srq_init_attr_ex *attr);

/**
 * Destroys the shared receive queue of an id.
 *
 * *id*: any id. If it is NULL or has no SRQ, the call has no effect.
 * Threads: any. No other thread may use the SRQ during the call. Blocks until the events of the SRQ
 * are acknowledged.
 * State: destroy all QPs that use the SRQ first. id->srq becomes NULL. A CQ that was created with
 * the SRQ is destroyed too.
 * Since RDMACM_1.0. Source: rdma_create_srq(3). See also: rdma_create_srq().
 */
void rdma_destroy_srq(struct rdma_cm_id *id);

/**
 * Registers memory for sending and receiving messages.
 *
 * *id*: an id that is bound to a device. The memory belongs to id->pd.
 * *addr*: the memory. It must remain mapped until it is deregistered.
 * *length*: number of bytes.
 * Returns the MR, which the caller passes to rdma_dereg_mr(), or NULL with errno.
 * Errors: EFAULT: the memory is not mapped, or is not writable; EINVAL: the range exceeds the
 * address space or the device's max_mr_size; ENOMEM: no memory, or max_mr regions exist; EIO: the
 * daemon has ended.
 * Threads: any. Does not block.
 * Notes: the access rights are IBV_ACCESS_LOCAL_WRITE.
 * Inline. Source: rdma_reg_msgs(3). See also: rdma_dereg_mr(), ibv_reg_mr().
 */
static inline struct ibv_mr *rdma_reg_msgs(struct rdma_cm_id *id, void *addr, size_t length)
{
	return ibv_reg_mr(id->pd, addr, length, IBV_ACCESS_LOCAL_WRITE);
}

/**
 * Registers memory that the peer may read by RDMA READ.
 *
 * *id*: an id that is bound to a device. The memory belongs to id->pd.
 * *addr*: the memory. It must remain mapped until it is deregistered.
 * *length*: number of bytes.
 * Returns the MR, which the caller passes to rdma_dereg_mr(), or NULL with errno.
 * Errors: EFAULT: the memory is not mapped, or is not writable; EINVAL: the range exceeds the
 * address space or the device's max_mr_size; ENOMEM: no memory, or max_mr regions exist; EIO: the
 * daemon has ended.
 * Threads: any. Does not block.
 * Notes: the access rights are IBV_ACCESS_LOCAL_WRITE and IBV_ACCESS_REMOTE_READ. Transmit the
 * address and mr->rkey to the peer, which needs both.
 * Memory that the peer may both read and write needs one MR with both rights: call
 * ibv_reg_mr(id->pd, addr, length, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ |
 * IBV_ACCESS_REMOTE_WRITE). Atomics also need IBV_ACCESS_REMOTE_ATOMIC.
 * Inline. Source: rdma_reg_read(3). See also: rdma_dereg_mr(), ibv_reg_mr().
 */
static inline struct ibv_mr *rdma_reg_read(struct rdma_cm_id *id, void *addr, size_t length)
{
	return ibv_reg_mr(id->pd, addr, length, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ);
}

/**
 * Registers memory that the peer may write by RDMA WRITE.
 *
 * *id*: an id that is bound to a device. The memory belongs to id->pd.
 * *addr*: the memory. It must remain mapped until it is deregistered.
 * *length*: number of bytes.
 * Returns the MR, which the caller passes to rdma_dereg_mr(), or NULL with errno.
 * Errors: EFAULT: the memory is not mapped, or is not writable; EINVAL: the range exceeds the
 * address space or the device's max_mr_size; ENOMEM: no memory, or max_mr regions exist; EIO: the
 * daemon has ended.
 * Threads: any. Does not block.
 * Notes: the access rights are IBV_ACCESS_LOCAL_WRITE and IBV_ACCESS_REMOTE_WRITE. Transmit the
 * address and mr->rkey to the peer, which needs both.
 * Memory that the peer may both read and write needs one MR with both rights: call
 * ibv_reg_mr(id->pd, addr, length, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ |
 * IBV_ACCESS_REMOTE_WRITE). Atomics also need IBV_ACCESS_REMOTE_ATOMIC.
 * Inline. Source: rdma_reg_write(3). See also: rdma_dereg_mr(), ibv_reg_mr().
 */
static inline struct ibv_mr *rdma_reg_write(struct rdma_cm_id *id, void *addr, size_t length)
{
	return ibv_reg_mr(id->pd, addr, length, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
}

/**
 * Deregisters memory.
 *
 * *mr*: the MR of any registering call. It is freed.
 * Returns 0. (On other devices also -1 with the errno of ibv_dereg_mr().)
 * Threads: any. Blocks until remote accesses in progress have ended. Inline. Source:
 * rdma_dereg_mr(3).
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
 * Posts a receive into several buffers. The receive goes to the SRQ of the id if it has one,
 * otherwise to its QP.
 *
 * *id*: an id with a QP or an SRQ.
 * *context*: becomes wr_id of the completion.
 * *sgl*: the buffers, in order. Do not change or free them before the completion.
 * *nsge*: number of buffers; 0 is allowed.
 * Types: struct ibv_sge.
 * Returns 0 when the request is in the queue, or -1 with errno.
 * Errors: EINVAL: the QP is in RESET, or there are more buffers than the limit of the queue;
 * ENOMEM: the queue is full; EIO: the process is a fork()ed child.
 * Threads: any. Does not block.
 * Events: one completion on the receive CQ, when a message has arrived or the QP fails.
 * Inline. Source: rdma_post_recvv(3). See also: rdma_post_recv(), rdma_reg_msgs(),
 * rdma_get_recv_comp(), ibv_post_recv().
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
 * Posts a SEND of one message from several buffers.
 *
 * *id*: an id with a QP.
 * *context*: becomes wr_id of the completion.
 * *sgl*: the buffers, in order. Do not change or free them before the completion, unless they are
 * sent inline.
 * *nsge*: number of buffers; 0 is allowed.
 * *flags*: enum ibv_send_flags, or 0. IBV_SEND_SIGNALED requests a completion if the QP was created
 * without sq_sig_all.
 * Types: struct ibv_sge.
 * Returns 0 when the request is in the queue, or -1 with errno.
 * Errors: EINVAL: the QP has not reached RTS, *nsge* exceeds the limit of the QP, or inline data
 * exceeds that of the QP; ENOMEM: the queue is full; EIO: the process is a fork()ed child.
 * Threads: any. Does not block.
 * Events: a completion on the send CQ if the QP or *flags* requests one, or if the request fails.
 * Inline. Source: rdma_post_sendv(3). See also: rdma_post_send(), rdma_reg_msgs(),
 * rdma_get_send_comp(), ibv_post_send().
 */
static inline int rdma_post_sendv(struct rdma_cm_id *id, void *context, struct ibv_sge *sgl,
				  int nsge, int flags)
{
	struct ibv_send_wr wr = rdma_verbs_send_wr(context, sgl, nsge, flags, IBV_WR_SEND);
	struct ibv_send_wr *bad;

	return rdma_seterrno(ibv_post_send(id->qp, &wr, &bad));
}

/**
 * Posts an RDMA READ of memory of the peer into several buffers.
 *
 * *id*: an id with a QP.
 * *context*: becomes wr_id of the completion.
 * *sgl*: the buffers, in order. Do not change or free them before the completion.
 * *nsge*: number of buffers; 0 is allowed.
 * *flags*: enum ibv_send_flags, or 0. IBV_SEND_SIGNALED requests a completion if the QP was created
 * without sq_sig_all.
 * *remote_addr*: the address in the MR of the peer, as the peer transmitted it.
 * *rkey*: the rkey of the MR of the peer.
 * Types: struct ibv_sge.
 * Returns 0 when the request is in the queue, or -1 with errno.
 * Errors: EINVAL: the QP has not reached RTS, *nsge* exceeds the limit of the QP, or
 * IBV_SEND_INLINE is set; ENOMEM: the queue is full; EIO: the process is a fork()ed child.
 * Threads: any. Does not block.
 * Events: a completion on the send CQ if the QP or *flags* requests one, or if the request fails.
 * Notes: a connection of the rdma_cm permits READ if initiator_depth of this side and
 * responder_resources of the peer are at least 1 in struct rdma_conn_param of rdma_connect() and
 * rdma_accept(). They are 0 in a struct that is set to 0; a NULL parameter selects the maximum. If
 * either is 0, the request fails with IBV_WC_REM_INV_REQ_ERR. The peer registers the memory with
 * IBV_ACCESS_REMOTE_READ (rdma_reg_read()). rdma_cm(7) has an example.
 * Inline. Source: rdma_post_readv(3). See also: rdma_post_read(), rdma_reg_msgs(), rdma_reg_read(),
 * rdma_get_send_comp(), ibv_post_send().
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
 * Posts an RDMA WRITE to memory of the peer from several buffers.
 *
 * *id*: an id with a QP.
 * *context*: becomes wr_id of the completion.
 * *sgl*: the buffers, in order. Do not change or free them before the completion, unless they are
 * sent inline.
 * *nsge*: number of buffers; 0 is allowed.
 * *flags*: enum ibv_send_flags, or 0. IBV_SEND_SIGNALED requests a completion if the QP was created
 * without sq_sig_all.
 * *remote_addr*: the address in the MR of the peer, as the peer transmitted it.
 * *rkey*: the rkey of the MR of the peer.
 * Types: struct ibv_sge.
 * Returns 0 when the request is in the queue, or -1 with errno.
 * Errors: EINVAL: the QP has not reached RTS, *nsge* exceeds the limit of the QP, or inline data
 * exceeds that of the QP; ENOMEM: the queue is full; EIO: the process is a fork()ed child.
 * Threads: any. Does not block.
 * Events: a completion on the send CQ if the QP or *flags* requests one, or if the request fails.
 * Notes: the peer registers the memory with IBV_ACCESS_REMOTE_WRITE (rdma_reg_write()), and is not
 * notified of the WRITE. rdma_cm(7) has an example.
 * Inline. Source: rdma_post_writev(3). See also: rdma_post_write(), rdma_reg_msgs(),
 * rdma_reg_write(), rdma_get_send_comp(), ibv_post_send().
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
 * Posts a receive into one buffer. The receive goes to the SRQ of the id if it has one, otherwise
 * to its QP.
 *
 * *id*: an id with a QP or an SRQ.
 * *context*: becomes wr_id of the completion.
 * *addr*, *length*: the buffer, which must be inside of *mr* (this is asserted). Do not change or
 * free it before the completion.
 * *mr*: the MR of the buffer; must not be NULL.
 * Returns 0 when the request is in the queue, or -1 with errno.
 * Errors: EINVAL: the QP is in RESET, or there are more buffers than the limit of the queue;
 * ENOMEM: the queue is full; EIO: the process is a fork()ed child.
 * Threads: any. Does not block.
 * Events: one completion on the receive CQ, when a message has arrived or the QP fails.
 * Inline. Source: rdma_post_recv(3). See also: rdma_post_recvv(), rdma_reg_msgs(),
 * rdma_get_recv_comp(), ibv_post_recv().
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
 * Posts a SEND of one message from one buffer.
 *
 * *id*: an id with a QP.
 * *context*: becomes wr_id of the completion.
 * *addr*, *length*: the buffer. Do not change or free it before the completion, unless it is sent
 * inline.
 * *mr*: the MR of the buffer; may be NULL with IBV_SEND_INLINE.
 * *flags*: enum ibv_send_flags, or 0. IBV_SEND_SIGNALED requests a completion if the QP was created
 * without sq_sig_all.
 * Returns 0 when the request is in the queue, or -1 with errno.
 * Errors: EINVAL: the QP has not reached RTS, or inline data exceeds that of the QP; ENOMEM: the
 * queue is full; EIO: the process is a fork()ed child.
 * Threads: any. Does not block.
 * Events: a completion on the send CQ if the QP or *flags* requests one, or if the request fails.
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
 * Posts an RDMA READ of memory of the peer into one buffer.
 *
 * *id*: an id with a QP.
 * *context*: becomes wr_id of the completion.
 * *addr*, *length*: the buffer, which is written before the completion.
 * *mr*: the MR of the buffer.
 * *flags*: enum ibv_send_flags, or 0. IBV_SEND_SIGNALED requests a completion if the QP was created
 * without sq_sig_all.
 * *remote_addr*: the address in the MR of the peer, as the peer transmitted it.
 * *rkey*: the rkey of the MR of the peer.
 * Returns 0 when the request is in the queue, or -1 with errno.
 * Errors: EINVAL: the QP has not reached RTS, or IBV_SEND_INLINE is set; ENOMEM: the queue is full;
 * EIO: the process is a fork()ed child.
 * Threads: any. Does not block.
 * Events: a completion on the send CQ if the QP or *flags* requests one, or if the request fails.
 * Notes: a connection of the rdma_cm permits READ if initiator_depth of this side and
 * responder_resources of the peer are at least 1 in struct rdma_conn_param of rdma_connect() and
 * rdma_accept(). They are 0 in a struct that is set to 0; a NULL parameter selects the maximum. If
 * either is 0, the request fails with IBV_WC_REM_INV_REQ_ERR. The peer registers the memory with
 * IBV_ACCESS_REMOTE_READ (rdma_reg_read()). rdma_cm(7) has an example.
 * Inline. Source: rdma_post_read(3). See also: rdma_post_readv(), rdma_reg_msgs(), rdma_reg_read(),
 * rdma_get_send_comp(), ibv_post_send().
 */
static inline int rdma_post_read(struct rdma_cm_id *id, void *context, void *addr, size_t length,
				 struct ibv_mr *mr, int flags, uint64_t remote_addr, uint32_t rkey)
{
	struct ibv_sge sge = rdma_verbs_sge(addr, length, mr);

	return rdma_post_readv(id, context, &sge, 1, flags, remote_addr, rkey);
}

/**
 * Posts an RDMA WRITE to memory of the peer from one buffer.
 *
 * *id*: an id with a QP.
 * *context*: becomes wr_id of the completion.
 * *addr*, *length*: the buffer. Do not change or free it before the completion, unless it is sent
 * inline.
 * *mr*: the MR of the buffer; may be NULL with IBV_SEND_INLINE.
 * *flags*: enum ibv_send_flags, or 0. IBV_SEND_SIGNALED requests a completion if the QP was created
 * without sq_sig_all.
 * *remote_addr*: the address in the MR of the peer, as the peer transmitted it.
 * *rkey*: the rkey of the MR of the peer.
 * Returns 0 when the request is in the queue, or -1 with errno.
 * Errors: EINVAL: the QP has not reached RTS, or inline data exceeds that of the QP; ENOMEM: the
 * queue is full; EIO: the process is a fork()ed child.
 * Threads: any. Does not block.
 * Events: a completion on the send CQ if the QP or *flags* requests one, or if the request fails.
 * Notes: the peer registers the memory with IBV_ACCESS_REMOTE_WRITE (rdma_reg_write()), and is not
 * notified of the WRITE. rdma_cm(7) has an example.
 * Inline. Source: rdma_post_write(3). See also: rdma_post_writev(), rdma_reg_msgs(),
 * rdma_reg_write(), rdma_get_send_comp(), ibv_post_send().
 */
static inline int rdma_post_write(struct rdma_cm_id *id, void *context, void *addr, size_t length,
				  struct ibv_mr *mr, int flags, uint64_t remote_addr, uint32_t rkey)
{
	struct ibv_sge sge = rdma_verbs_sge(addr, length, mr);

	return rdma_post_writev(id, context, &sge, 1, flags, remote_addr, rkey);
}

/**
 * Posts a datagram with the Q_Key of RDMA_PS_UDP.
 *
 * *id*: an id with a UD QP.
 * *context*: becomes wr_id of the completion.
 * *addr*, *length*: the buffer. Do not change or free it before the completion, unless it is sent
 * inline.
 * *mr*: the MR of the buffer; may be NULL with IBV_SEND_INLINE.
 * *flags*: enum ibv_send_flags, or 0. IBV_SEND_SIGNALED requests a completion if the QP was created
 * without sq_sig_all.
 * *ah*: the destination, created by ibv_create_ah() from ah_attr of struct rdma_ud_param. Do not
 * destroy it before the completion.
 * *remote_qpn*: the QP number of the destination, from the same event.
 * Returns 0 when the request is in the queue, or -1 with errno.
 * Errors: EINVAL: the QP has not reached RTS, or inline data exceeds that of the QP; ENOMEM: the
 * queue is full; EIO: the process is a fork()ed child.
 * Threads: any. Does not block.
 * Events: a completion on the send CQ if the QP or *flags* requests one, or if the request fails.
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
 * Retrieves the next completion of the send CQ of an id, and waits for it.
 *
 * *id*: an id whose send CQ was created by rdma_create_qp(). No other thread may wait on the
 * channel of this CQ.
 * *wc*: filled in. Check wc->status.
 * Types: struct ibv_wc.
 * Returns 1, or -1 with errno.
 * Errors: EAGAIN: no completion is available and the file descriptor of the channel is
 * non-blocking; EINTR: a signal interrupted the wait; EIO: the process is a fork()ed child.
 * Threads: one at a time. Blocks until a completion is available, unless the file descriptor of the
 * channel is non-blocking. Inline. Source: rdma_get_send_comp(3). See also: rdma_get_recv_comp(),
 * rdma_post_send(), struct ibv_wc.
 */
static inline int rdma_get_send_comp(struct rdma_cm_id *id, struct ibv_wc *wc)
{
	return rdma_verbs_wait_comp(id, id->send_cq_channel, id->send_cq, wc);
}

/**
 * Retrieves the next completion of the receive CQ of an id, and waits for it.
 *
 * *id*: an id whose receive CQ was created by rdma_create_qp(). No other thread may wait on the
 * channel of this CQ.
 * *wc*: filled in. Check wc->status. wc->byte_len is the size of the message.
 * Types: struct ibv_wc.
 * Returns 1, or -1 with errno.
 * Errors: EAGAIN: no completion is available and the file descriptor of the channel is
 * non-blocking; EINTR: a signal interrupted the wait; EIO: the process is a fork()ed child.
 * Threads: one at a time. Blocks until a completion is available, unless the file descriptor of the
 * channel is non-blocking. Inline. Source: rdma_get_recv_comp(3). See also: rdma_get_send_comp(),
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
