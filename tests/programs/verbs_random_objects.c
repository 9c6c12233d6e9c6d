/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../api/asan_frames.h"
#include "../hostile/memory_kind.h"
#include "verbs_random.h"

#define LOCAL_ACCESS IBV_ACCESS_LOCAL_WRITE
#define REMOTE_ACCESS                                                                \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | \
	 IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND)
#define QP_ACCESS (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC)
/* A call that a fault makes fail is repeated this often. */
#define TRIES 20000u

/* Calls that create an object: the result is NULL after a failure, which breaks the round. */
#define CREATE(r, object, name, call)                           \
	do {                                                    \
		if (!(r)->is_broken) {                          \
			VR_CALL(object, name, call);            \
			if (!(object))                          \
				vr_call_failed(r, name, errno); \
		}                                               \
	} while (0)

void vr_retry(struct vr_round *r, const char *name, int (*call)(void *), void *object)
{
	static const struct timespec millisecond = {.tv_nsec = 1000000};
	int err = 0;

	for (unsigned int i = 0; i < TRIES; i++) {
		VR_CALL(err, name, call(object));
		if (!err)
			return;
		vr_call_repeats(r, name, err);
		nanosleep(&millisecond, NULL);
	}
	vr_fail(r, "%s does not succeed: %s", name, strerror(err));
}

static int vr_close_device(void *context)
{
	return ibv_close_device(context) ? errno : 0;
}

static struct ibv_context *vr_open_named(struct vr_round *r)
{
	struct ibv_context *context = NULL;
	struct ibv_device **list;
	int count = 0;

	VR_CALL(list, "ibv_get_device_list", ibv_get_device_list(&count));
	if (!list) {
		vr_call_failed(r, "ibv_get_device_list", errno);
		return NULL;
	}
	errno = ENODEV;
	for (int i = 0; i < count && !context; i++) {
		if (!strcmp(ibv_get_device_name(list[i]), vr.device))
			VR_CALL(context, "ibv_open_device", ibv_open_device(list[i]));
	}
	if (!context)
		vr_call_failed(r, "ibv_open_device", errno);
	ibv_free_device_list(list);
	return context;
}

bool vr_open_device(struct vr_round *r)
{
	if (vr.context && vr.is_device_fatal) {
		vr_retry(r, "ibv_close_device", vr_close_device, vr.context);
		vr.context = NULL;
	}
	vr.is_device_fatal = false;
	if (!vr.context)
		vr.context = vr_open_named(r);
	if (vr.context)
		fcntl(vr.context->async_fd, F_SETFL,
		      fcntl(vr.context->async_fd, F_GETFL) | O_NONBLOCK);
	return vr.context;
}

static void vr_lay_out(struct vr_round *r)
{
	const struct vr_plan *plan = &r->plan;

	r->stride = plan->slot_bytes + VR_GUARD_BYTES;
	r->recv_stride = r->stride + VR_GRH_BYTES;
	r->at.source = plan->window * r->stride;
	r->at.counters = r->at.source + r->stride;
	r->at.remote_end = r->at.counters + VR_COUNTERS * 8;
	r->at.send = r->at.remote_end + VR_GUARD_BYTES;
	r->at.landing = r->at.send + plan->window * r->stride;
	r->at.recv = r->at.landing + plan->window * r->stride;
	r->at.end = r->at.recv + plan->recv_wrs * r->recv_stride;
	r->memory_bytes = (r->at.end + 4095) & ~(size_t)4095;
}

static uint8_t *vr_map_disk(const struct vr_round *r)
{
	char path[256];
	void *memory;
	int fd;

	snprintf(path, sizeof(path), "%s/verbs-%u-%u", vr.directory, vr.pair, vr.side);
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	unlink(path);
	if (fd < 0 || ftruncate(fd, (off_t)r->memory_bytes))
		vr_fail(r, "cannot create %s: %s", path, strerror(errno));
	memory = mmap(NULL, r->memory_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (memory == MAP_FAILED)
		vr_fail(r, "cannot map %s: %s", path, strerror(errno));
	close(fd);
	return memory;
}

static void vr_allocate(struct vr_round *r, uint8_t *stack)
{
	static const char *const kinds[] = {[VR_PRIVATE] = "private",
					    [VR_SEALED] = "sealed",
					    [VR_UNSEALED] = "unsealed",
					    [VR_TMPFS] = "tmpfs",
					    [VR_SYSV] = "sysv"};
	enum vr_memory memory = r->plan.memory[vr.side];
	void *aligned;
	int fd = -1;

	if (memory == VR_ALIGNED) {
		if (posix_memalign(&aligned, 4096, r->memory_bytes))
			vr_fail(r, "no memory");
		r->memory = aligned;
	} else if (memory == VR_DISK) {
		r->memory = vr_map_disk(r);
	} else if (memory == VR_STACK) {
		r->memory = stack;
	} else {
		r->memory = memory_of_kind(kinds[memory], NULL, r->memory_bytes, &fd);
	}
	if (fd >= 0)
		close(fd);
	memset(r->memory, VR_FRESH, r->memory_bytes);
	vr_fill(&r->plan, vr.side, VR_SOURCE, r->memory + r->at.source, r->plan.slot_bytes);
	memset(r->memory + r->at.counters, 0, VR_COUNTERS * sizeof(uint64_t));
}

static void vr_free(struct vr_round *r)
{
	enum vr_memory memory = r->plan.memory[vr.side];

	if (memory == VR_ALIGNED)
		free(r->memory);
	else if (memory != VR_STACK)
		munmap(r->memory, r->memory_bytes);
	r->memory = NULL;
}

/*
 * Writes to the bell when a completion event has arrived. The thread is cancelled at the end of the
 * round.
 */
static void *vr_wait_for_events(void *arg)
{
	struct vr_round *r = arg;

	pthread_cleanup_push(forget_frames, NULL);
	for (;;) {
		const uint64_t one = 1;
		struct ibv_cq *cq;
		void *context;

		if (ibv_get_cq_event(r->channel, &cq, &context)) {
			/* A fault, or the device is gone. The main thread examines the queues. */
			usleep(1000);
		} else {
			ibv_ack_cq_events(cq, 1);
		}
		if (write(r->bell, &one, sizeof(one)) != sizeof(one))
			break;
	}
	pthread_cleanup_pop(0);
	return NULL;
}

static void vr_create_cq(struct vr_round *r, unsigned int number)
{
	struct ibv_cq_init_attr_ex attr = {
		.cqe = 4 * VR_WINDOW_MAX + 64,
		.channel = r->channel,
		.wc_flags = IBV_WC_EX_WITH_BYTE_LEN | IBV_WC_EX_WITH_IMM | IBV_WC_EX_WITH_QP_NUM |
			    IBV_WC_EX_WITH_SRC_QP,
	};

	if (r->plan.has_cq_ex) {
		CREATE(r, r->cq_ex[number], "ibv_create_cq_ex",
		       ibv_create_cq_ex(vr.context, &attr));
		if (r->cq_ex[number])
			r->cqs[number] = ibv_cq_ex_to_cq(r->cq_ex[number]);
	} else {
		CREATE(r, r->cqs[number], "ibv_create_cq",
		       ibv_create_cq(vr.context, (int)attr.cqe, NULL, r->channel, 0));
	}
	r->cq_count = number + 1;
}

static void vr_create_queues(struct vr_round *r)
{
	if (r->plan.wait[vr.side] != VR_SPIN)
		CREATE(r, r->channel, "ibv_create_comp_channel",
		       ibv_create_comp_channel(vr.context));
	vr_create_cq(r, 0);
	if (r->plan.has_two_cqs)
		vr_create_cq(r, 1);
	if (r->is_broken || !r->channel)
		return;
	if (r->plan.wait[vr.side] == VR_POLL) {
		fcntl(r->channel->fd, F_SETFL, fcntl(r->channel->fd, F_GETFL) | O_NONBLOCK);
		return;
	}
	r->bell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	r->has_waiter = !pthread_create(&r->waiter, NULL, vr_wait_for_events, r);
}

static void vr_create_srq(struct vr_round *r)
{
	struct ibv_srq_init_attr_ex attr = {
		.attr = {.max_wr = r->plan.recv_wrs, .max_sge = 2},
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD,
		.srq_type = IBV_SRQT_BASIC,
		.pd = r->pd,
	};

	if (r->plan.service == VR_XRC) {
		struct ibv_xrcd_init_attr domain = {
			.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
			.fd = -1,
			.oflags = O_CREAT,
		};

		CREATE(r, r->xrcd, "ibv_open_xrcd", ibv_open_xrcd(vr.context, &domain));
		attr.srq_type = IBV_SRQT_XRC;
		attr.comp_mask |= IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ;
		attr.xrcd = r->xrcd;
		attr.cq = r->cqs[r->cq_count - 1];
	}
	CREATE(r, r->srq, "ibv_create_srq_ex", ibv_create_srq_ex(vr.context, &attr));
}

static uint64_t vr_send_ops(enum vr_service service)
{
	uint64_t ops = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM;

	if (service == VR_UD)
		return ops;
	ops |= IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM;
	if (service == VR_UC)
		return ops;
	ops |= IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP |
	       IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD;
	if (service == VR_XRC)
		return ops;
	return ops | IBV_QP_EX_WITH_SEND_WITH_INV | IBV_QP_EX_WITH_BIND_MW;
}

static void vr_create_qps(struct vr_round *r)
{
	static const enum ibv_qp_type types[VR_SERVICES] = {[VR_RC] = IBV_QPT_RC,
							    [VR_RC_SRQ] = IBV_QPT_RC,
							    [VR_UC] = IBV_QPT_UC,
							    [VR_UD] = IBV_QPT_UD,
							    [VR_XRC] = IBV_QPT_XRC_SEND};
	struct ibv_qp_init_attr_ex attr = {
		.qp_type = types[r->plan.service],
		.send_cq = r->cqs[0],
		.recv_cq = r->cqs[r->cq_count - 1],
		.srq = r->plan.service == VR_RC_SRQ ? r->srq : NULL,
		.cap = {.max_send_wr = VR_WINDOW_MAX + 8,
			.max_recv_wr = r->plan.recv_wrs,
			.max_send_sge = VR_SGES,
			.max_recv_sge = 2,
			.max_inline_data = VR_INLINE_MAX},
		.sq_sig_all = r->plan.is_all_signaled,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.pd = r->pd,
		.send_ops_flags = vr_send_ops(r->plan.service),
	};
	struct ibv_qp_init_attr_ex recv = {
		.qp_type = IBV_QPT_XRC_RECV,
		.comp_mask = IBV_QP_INIT_ATTR_XRCD,
		.xrcd = r->xrcd,
	};

	if (r->plan.service == VR_XRC)
		attr.cap.max_recv_wr = attr.cap.max_recv_sge = 0;
	CREATE(r, r->send_qp, "ibv_create_qp_ex", ibv_create_qp_ex(vr.context, &attr));
	r->recv_qp = r->send_qp;
	if (r->plan.service != VR_XRC)
		return;
	r->recv_qp = NULL;
	CREATE(r, r->recv_qp, "ibv_create_qp_ex", ibv_create_qp_ex(vr.context, &recv));
}

void vr_create(struct vr_round *r, uint8_t *stack)
{
	vr_lay_out(r);
	vr_allocate(r, stack);
	CREATE(r, r->pd, "ibv_alloc_pd", ibv_alloc_pd(vr.context));
	CREATE(r, r->mr, "ibv_reg_mr", ibv_reg_mr(r->pd, r->memory, r->memory_bytes, LOCAL_ACCESS));
	CREATE(r, r->remote_mr, "ibv_reg_mr",
	       ibv_reg_mr(r->pd, r->memory, r->at.remote_end, REMOTE_ACCESS));
	if (!r->is_broken)
		vr_create_queues(r);
	if (r->plan.service == VR_RC_SRQ || r->plan.service == VR_XRC)
		vr_create_srq(r);
	if (!r->is_broken)
		vr_create_qps(r);
	if (r->plan.service == VR_RC || r->plan.service == VR_RC_SRQ) {
		CREATE(r, r->mw, "ibv_alloc_mw", ibv_alloc_mw(r->pd, IBV_MW_TYPE_2));
		r->mw_rkey = r->mw ? r->mw->rkey : 0;
	}
}

#define DESTROYER(function, type)                      \
	static int vr_##function(void *object)         \
	{                                              \
		return ibv_##function((type *)object); \
	}

DESTROYER(dealloc_pd, struct ibv_pd)
DESTROYER(dereg_mr, struct ibv_mr)
DESTROYER(destroy_comp_channel, struct ibv_comp_channel)
DESTROYER(destroy_cq, struct ibv_cq)
DESTROYER(destroy_srq, struct ibv_srq)
DESTROYER(destroy_qp, struct ibv_qp)
DESTROYER(destroy_ah, struct ibv_ah)
DESTROYER(dealloc_mw, struct ibv_mw)
DESTROYER(close_xrcd, struct ibv_xrcd)

#define DESTROY(r, function, member)                                               \
	do {                                                                       \
		if ((r)->member)                                                   \
			vr_retry(r, "ibv_" #function, vr_##function, (r)->member); \
		(r)->member = NULL;                                                \
	} while (0)

void vr_destroy_qps(struct vr_round *r)
{
	if (r->recv_qp == r->send_qp)
		r->recv_qp = NULL;
	DESTROY(r, destroy_qp, send_qp);
	DESTROY(r, destroy_qp, recv_qp);
}

/* A region with a bound window is busy. */
void vr_dealloc_window(struct vr_round *r)
{
	DESTROY(r, dealloc_mw, mw);
}

void vr_dereg_remote(struct vr_round *r)
{
	vr_dealloc_window(r);
	DESTROY(r, dereg_mr, remote_mr);
}

void vr_destroy(struct vr_round *r)
{
	if (r->has_waiter) {
		pthread_cancel(r->waiter);
		pthread_join(r->waiter, NULL);
	}
	DESTROY(r, destroy_ah, ah);
	if (vr_mix(r->plan.key) % 2)
		vr_dereg_remote(r);
	vr_destroy_qps(r);
	DESTROY(r, destroy_srq, srq);
	DESTROY(r, close_xrcd, xrcd);
	DESTROY(r, destroy_cq, cqs[0]);
	DESTROY(r, destroy_cq, cqs[1]);
	DESTROY(r, destroy_comp_channel, channel);
	vr_dereg_remote(r);
	DESTROY(r, dereg_mr, mr);
	DESTROY(r, dealloc_pd, pd);
	if (r->bell >= 0)
		close(r->bell);
	vr_free(r);
}

/* Other objects come and go on the memory in use. */
void vr_churn(struct vr_round *r)
{
	size_t offset = vr_roll(r, (uint32_t)r->at.end);
	struct ibv_cq *cq;
	struct ibv_mr *mr;

	VR_CALL(mr, "ibv_reg_mr",
		ibv_reg_mr(r->pd, r->memory + offset, r->at.end - offset,
			   vr_roll(r, 2) ? REMOTE_ACCESS : LOCAL_ACCESS));
	if (!mr) {
		vr_call_repeats(r, "ibv_reg_mr", errno);
		return;
	}
	VR_CALL(cq, "ibv_create_cq", ibv_create_cq(vr.context, 16, NULL, NULL, 0));
	if (cq)
		vr_retry(r, "ibv_destroy_cq", vr_destroy_cq, cq);
	else
		vr_call_repeats(r, "ibv_create_cq", errno);
	vr_retry(r, "ibv_dereg_mr", vr_dereg_mr, mr);
}
