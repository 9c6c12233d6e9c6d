/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Documented errnos that no other test covers: exhausted resources, interrupted calls, invalid
 * arguments.
 */
#include "child.h"
#include "fixture.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <unistd.h>

/* The sanitizers need address space for themselves. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define CAN_LIMIT_MEMORY 0
#else
#define CAN_LIMIT_MEMORY 1
#endif

#define SPARE_BYTES (256u * 1024)

static uint64_t mapped_bytes(void)
{
	FILE *file = fopen("/proc/self/statm", "r");
	unsigned long pages = 0;

	assert_non_null(file);
	assert_int_equal(fscanf(file, "%lu", &pages), 1);
	fclose(file);
	return (uint64_t)pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

/* Lowers a limit; returns the former one. */
static struct rlimit limit_to(__rlimit_resource_t what, rlim_t most)
{
	struct rlimit before, now;

	assert_int_equal(getrlimit(what, &before), 0);
	now = before;
	now.rlim_cur = most;
	assert_int_equal(setrlimit(what, &now), 0);
	return before;
}

static void ibv_create_qp_no_memory_fails_with_enomem(void **state)
{
	struct api *api = *state;
	struct ibv_srq_init_attr srq_init = {.attr = {.max_wr = 4, .max_sge = 16}};
	struct ibv_alloc_dm_attr dm = {.length = 1 << 24};
	struct ibv_qp_init_attr qp_init = {
		.qp_type = IBV_QPT_RC,
		.cap = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 16, .max_recv_sge = 16},
	};
	struct ibv_srq_attr srq_attr;
	struct ibv_device_attr attr;
	struct ibv_buf *buf;
	struct rlimit before;
	struct ibv_srq *srq;
	struct ibv_cq *cq;

	if (!CAN_LIMIT_MEMORY)
		skip();
	assert_int_equal(ibv_query_device(api->ctx, &attr), 0);
	cq = ibv_create_cq(api->ctx, 8, NULL, NULL, 0);
	srq = ibv_create_srq(api->pd, &srq_init);
	assert_non_null(cq);
	assert_non_null(srq);
	qp_init.send_cq = cq;
	qp_init.recv_cq = cq;
	before = limit_to(RLIMIT_AS, mapped_bytes() + SPARE_BYTES);
	assert_null_errno(ibv_create_cq(api->ctx, attr.max_cqe, NULL, NULL, 0), ENOMEM);
	assert_int_equal(ibv_resize_cq(cq, attr.max_cqe), ENOMEM);
	qp_init.cap.max_send_wr = (uint32_t)attr.max_qp_wr;
	assert_null_errno(ibv_create_qp(api->pd, &qp_init), ENOMEM);
	qp_init.cap.max_send_wr = 1;
	qp_init.cap.max_recv_wr = (uint32_t)attr.max_qp_wr;
	assert_null_errno(ibv_create_qp(api->pd, &qp_init), ENOMEM);
	srq_init.attr.max_wr = (uint32_t)attr.max_srq_wr;
	assert_null_errno(ibv_create_srq(api->pd, &srq_init), ENOMEM);
	srq_attr.max_wr = (uint32_t)attr.max_srq_wr;
	assert_int_equal(ibv_modify_srq(srq, &srq_attr, IBV_SRQ_MAX_WR), ENOMEM);
	assert_null_errno(ibv_alloc_dm(api->ctx, &dm), ENOMEM);
	assert_null_errno(ibv_alloc_buf(api->pd, 1 << 24, &buf), ENOMEM);
	assert_int_equal(setrlimit(RLIMIT_AS, &before), 0);
	/* The failed calls left no object, and the existing objects work. */
	assert_int_equal(ibv_resize_cq(cq, 100), 0);
	srq_attr.max_wr = 100;
	assert_int_equal(ibv_modify_srq(srq, &srq_attr, IBV_SRQ_MAX_WR), 0);
	assert_int_equal(ibv_destroy_srq(srq), 0);
	assert_int_equal(ibv_destroy_cq(cq), 0);
}

/*
 * The device's maximum number can be created, and one more fails; after a destroy the next creation
 * succeeds.
 */
static void ibv_create_qp_above_device_maximum_fails(void **state)
{
	struct api *api = *state;
	struct ibv_device_attr attr;
	struct ibv_pd **pds;
	struct ibv_mw **mws;
	int pd_count = 0, mw_count = 0;

	assert_int_equal(ibv_query_device(api->ctx, &attr), 0);
	pds = calloc((size_t)attr.max_pd + 1, sizeof(struct ibv_pd *));
	mws = calloc((size_t)attr.max_mw + 1, sizeof(struct ibv_mw *));
	assert_non_null(pds);
	assert_non_null(mws);
	while (pd_count <= attr.max_pd && (pds[pd_count] = ibv_alloc_pd(api->ctx)))
		pd_count++;
	assert_int_equal(errno, ENOMEM);
	/* One PD belongs to the fixture. */
	assert_int_equal(pd_count, attr.max_pd - 1);
	while (mw_count <= attr.max_mw && (mws[mw_count] = ibv_alloc_mw(api->pd, IBV_MW_TYPE_2)))
		mw_count++;
	assert_int_equal(errno, ENOMEM);
	assert_int_equal(mw_count, attr.max_mw);
	while (mw_count)
		assert_int_equal(ibv_dealloc_mw(mws[--mw_count]), 0);
	while (pd_count)
		assert_int_equal(ibv_dealloc_pd(pds[--pd_count]), 0);
	free(pds);
	free(mws);
}

/* In a child, which has no connection to the daemon yet. */
static bool no_descriptor_no_list(void *arg)
{
	(void)arg;
	limit_to(RLIMIT_NOFILE, 0);
	return refuses_null(ibv_get_device_list(NULL), EMFILE);
}

static void ibv_open_device_without_descriptor_fails_with_emfile(void **state)
{
	struct api *api = *state;
	struct ibv_device *device = api->ctx->device;
	int lowest = dup(0);
	struct rlimit before;

	assert_true(lowest >= 0);
	close(lowest);
	before = limit_to(RLIMIT_NOFILE, (rlim_t)lowest);
	assert_null_errno(ibv_create_comp_channel(api->ctx), EMFILE);
	assert_null_errno(ibv_open_device(device), EMFILE);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
	child_agrees(no_descriptor_no_list, NULL);
}

static void on_alarm(int signal)
{
	(void)signal;
}

/* The signal is repeated, because the first may arrive before the thread is blocked. */
static void alarms(long interval_us)
{
	struct itimerval timer = {.it_interval = {.tv_usec = interval_us},
				  .it_value = {.tv_usec = interval_us}};
	struct sigaction action = {.sa_handler = interval_us ? on_alarm : SIG_DFL};

	if (interval_us)
		assert_int_equal(sigaction(SIGALRM, &action, NULL), 0);
	assert_int_equal(setitimer(ITIMER_REAL, &timer, NULL), 0);
	if (!interval_us)
		assert_int_equal(sigaction(SIGALRM, &action, NULL), 0);
}

static void ibv_get_cq_event_signal_fails_with_eintr(void **state)
{
	struct api *api = *state;
	struct ibv_comp_channel *channel = ibv_create_comp_channel(api->ctx);
	struct ibv_async_event event;
	struct ibv_cq *cq;
	void *context;

	assert_non_null(channel);
	alarms(10000);
	assert_minus1_errno(ibv_get_cq_event(channel, &cq, &context), EINTR);
	assert_minus1_errno(ibv_get_async_event(api->ctx, &event), EINTR);
	alarms(0);
	assert_int_equal(ibv_destroy_comp_channel(channel), 0);
}

/* In a process without a device, as a child is. */
static bool pigeons_carry_nothing(void *arg)
{
	(void)arg;
	setenv("USRDMA_TRANSPORT", "pigeon", 1);
	return refuses_null(ibv_get_device_list(NULL), EINVAL);
}

static void ibv_open_device_unknown_usrdma_transport_fails(void **state)
{
	(void)state;
	child_agrees(pigeons_carry_nothing, NULL);
}

static void ibv_open_xrcd_missing_domain_fails(void **state)
{
	struct api *api = *state;
	struct ibv_xrcd_init_attr attr = {
		.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
	};
	int fd = memfd_create("domain", MFD_CLOEXEC);

	assert_true(fd >= 0);
	attr.fd = fd;
	assert_null_errno(ibv_open_xrcd(api->ctx, &attr), EAGAIN);
	attr.oflags = O_CREAT;
	close(fd);
	assert_null_errno(ibv_open_xrcd(api->ctx, &attr), EBADF);
}

static void ibv_reg_mr_unmapped_or_read_only_memory_fails(void **state)
{
	size_t page_bytes = (size_t)sysconf(_SC_PAGESIZE);
	struct api *api = *state;
	uint8_t *pages = mmap(NULL, 2 * page_bytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct ibv_mr *mr;

	assert_true(pages != MAP_FAILED);
	assert_int_equal(munmap(pages + page_bytes, page_bytes), 0);
	assert_null_errno(ibv_reg_mr(api->pd, pages + 1, page_bytes, 0), EFAULT);
	assert_null_errno(ibv_reg_mr(api->pd, pages, 1, IBV_ACCESS_LOCAL_WRITE), EFAULT);
	assert_null_errno(ibv_reg_mr_iova(api->pd, pages, page_bytes, UINT64_MAX, 0), EINVAL);
	mr = ibv_reg_mr(api->pd, pages, page_bytes, IBV_ACCESS_REMOTE_READ);
	assert_non_null(mr);
	errno = 0;
	assert_int_equal(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, pages,
				      page_bytes + 1, 0),
			 IBV_REREG_MR_ERR_INPUT);
	assert_int_equal(errno, EFAULT);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	assert_int_equal(munmap(pages, page_bytes), 0);
}

static void ibv_query_port_invalid_argument_fails(void **state)
{
	struct ibv_query_device_ex_input input = {.comp_mask = 1};
	struct ibv_values_ex values = {.comp_mask = IBV_VALUES_MASK_RESERVED};
	struct api *api = *state;
	struct ibv_device_attr_ex attr;
	struct ibv_port_attr port;
	struct ibv_gid_entry entry;
	uint64_t speed;

	assert_int_equal(ibv_query_device_ex(api->ctx, &input, &attr), EINVAL);
	assert_int_equal(ibv_query_rt_values_ex(api->ctx, &values), EINVAL);
	assert_int_equal(ibv_query_port_speed(api->ctx, 0, &speed), EINVAL);
	assert_int_equal(ibv_query_port_speed(api->ctx, 2, &speed), EINVAL);
	assert_int_equal(ibv_query_port_speed(api->ctx, 1, &speed), 0);
	assert_true(speed > 0);
	assert_int_equal(ibv_query_port(api->ctx, 1, &port), 0);
	/* The last entry of the table is empty. */
	assert_int_equal(ibv_query_gid_ex(api->ctx, 1, (uint32_t)port.gid_tbl_len - 1, &entry, 0),
			 ENODATA);
	assert_int_equal(ibv_query_gid_ex(api->ctx, 1, (uint32_t)port.gid_tbl_len, &entry, 0),
			 EINVAL);
	assert_minus1_errno(ibv_get_pkey_index(api->ctx, 1, 0x1234), ENOENT);
	assert_minus1_errno(ibv_get_pkey_index(api->ctx, 2, 0xffff), EINVAL);
}

static void ibv_post_srq_recv_full_queue_fails_with_enomem(void **state)
{
	struct ibv_srq_init_attr init = {.attr = {.max_wr = 4, .max_sge = 1}};
	struct api *api = *state;
	struct ibv_srq *srq = ibv_create_srq(api->pd, &init);
	struct ibv_recv_wr wr = {.num_sge = -1}, *bad = NULL;

	assert_non_null(srq);
	assert_int_equal(ibv_post_srq_recv(srq, &wr, &bad), EINVAL);
	assert_ptr_equal(bad, &wr);
	wr.num_sge = (int)init.attr.max_sge + 1;
	assert_int_equal(ibv_post_srq_recv(srq, &wr, &bad), EINVAL);
	wr.num_sge = 0;
	for (uint32_t i = 0; i < init.attr.max_wr; i++)
		assert_int_equal(ibv_post_srq_recv(srq, &wr, &bad), 0);
	bad = NULL;
	assert_int_equal(ibv_post_srq_recv(srq, &wr, &bad), ENOMEM);
	assert_ptr_equal(bad, &wr);
	assert_int_equal(ibv_destroy_srq(srq), 0);
}

static void ibv_bind_mw_full_queue_fails_with_enomem(void **state)
{
	struct pair_options options = {.max_wr = 4, .mr_access = ALL_ACCESS | IBV_ACCESS_MW_BIND};
	struct ibv_mw_bind bind = {.bind_info = {.length = 8}};
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_SQD};
	struct ibv_send_wr wr, *bad;
	struct ibv_mw *mw;
	struct ibv_sge sge;
	struct pair pair;
	int posted = 0;

	pair_open(&pair, *state, &options);
	mw = ibv_alloc_mw(pair.api->pd, IBV_MW_TYPE_1);
	assert_non_null(mw);
	bind.bind_info.mr = pair.a.mr;
	bind.bind_info.addr = (uintptr_t)pair.a.buf;
	/* In SQD a queue accepts work requests but does not process them. */
	assert_int_equal(ibv_modify_qp(pair.a.qp, &attr, IBV_QP_STATE), 0);
	sge = sge_of(&pair.a, 0, 8);
	wr = send_wr(IBV_WR_RDMA_WRITE, &sge, &pair.b, 0, 1);
	while (!ibv_post_send(pair.a.qp, &wr, &bad))
		posted++;
	assert_in_range(posted, 1, 64);
	assert_int_equal(ibv_bind_mw(pair.a.qp, mw, &bind), ENOMEM);
	assert_int_equal(ibv_dealloc_mw(mw), 0);
	pair_close(&pair);
}

static void ibv_init_ah_from_wc_without_grh_fails(void **state)
{
	struct api *api = *state;
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1};
	struct pair_options options = {.stays_unconnected = true};
	struct ibv_ah_attr ah_attr;
	struct ibv_ece ece = {0};
	struct ibv_grh grh;
	struct ibv_wc wc = {0};
	struct pair pair;

	memset(&grh, 0, sizeof(grh));
	/* No GRH, an invalid GRH, a GRH whose destination is not ours, and an invalid port. */
	assert_minus1_errno(ibv_init_ah_from_wc(api->ctx, 1, &wc, &grh, &ah_attr), EINVAL);
	wc.wc_flags = IBV_WC_GRH;
	assert_minus1_errno(ibv_init_ah_from_wc(api->ctx, 1, &wc, &grh, &ah_attr), EINVAL);
	assert_minus1_errno(ibv_init_ah_from_wc(api->ctx, 2, &wc, &grh, &ah_attr), EINVAL);
	grh.version_tclass_flow = 0x60;
	memset(&grh.dgid, 0x55, sizeof(grh.dgid));
	memset(&grh.sgid, 0x56, sizeof(grh.sgid));
	assert_minus1_errno(ibv_init_ah_from_wc(api->ctx, 1, &wc, &grh, &ah_attr), ENOENT);
	pair_open(&pair, api, &options);
	assert_int_equal(ibv_set_ece(pair.a.qp, &ece), EOPNOTSUPP);
	assert_int_equal(ibv_query_ece(pair.a.qp, &ece), EOPNOTSUPP);
	assert_int_equal(ibv_modify_qp(pair.a.qp, &attr, IBV_QP_STATE), EINVAL);
	/* Alternate paths are not supported. */
	assert_int_equal(qp_to_init(pair.a.qp, 0), 0);
	attr.qp_state = IBV_QPS_RTR;
	attr.path_mtu = IBV_MTU_1024;
	attr.dest_qp_num = pair.b.qp->qp_num;
	attr.ah_attr.is_global = 1;
	attr.ah_attr.port_num = 1;
	attr.ah_attr.grh.dgid = api->gid;
	attr.alt_ah_attr = attr.ah_attr;
	assert_int_equal(ibv_modify_qp(pair.a.qp, &attr,
				       IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU |
					       IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
					       IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER |
					       IBV_QP_ALT_PATH),
			 EOPNOTSUPP);
	assert_int_equal(qp_state(pair.a.qp), IBV_QPS_INIT);
	pair_close(&pair);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ibv_create_qp_no_memory_fails_with_enomem),
		cmocka_unit_test(ibv_create_qp_above_device_maximum_fails),
		cmocka_unit_test(ibv_open_device_without_descriptor_fails_with_emfile),
		cmocka_unit_test(ibv_get_cq_event_signal_fails_with_eintr),
		cmocka_unit_test(ibv_open_device_unknown_usrdma_transport_fails),
		cmocka_unit_test(ibv_open_xrcd_missing_domain_fails),
		cmocka_unit_test(ibv_reg_mr_unmapped_or_read_only_memory_fails),
		cmocka_unit_test(ibv_query_port_invalid_argument_fails),
		cmocka_unit_test(ibv_post_srq_recv_full_queue_fails_with_enomem),
		cmocka_unit_test(ibv_bind_mw_full_queue_fails_with_enomem),
		cmocka_unit_test(ibv_init_ah_from_wc_without_grh_fails),
	};

	return cmocka_run_group_tests(tests, api_setup, api_teardown);
}
