/* SPDX-License-Identifier: BSD-2-Clause */

/*
 * Allocations of memory, descriptors and threads fail, one after the other, in each call: the call
 * returns an error, leaves no object, and the next call succeeds.
 */

#include "child.h"
#include "fixture.h"
#include "shortage.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#define ENGINE_DESCRIPTORS 8

static unsigned int descriptors(void)
{
	DIR *dir = opendir("/proc/self/fd");
	unsigned int count = 0;

	assert_non_null(dir);
	while (readdir(dir))
		count++;
	assert_int_equal(closedir(dir), 0);
	return count;
}

static void free_list(struct ibv_device **list)
{
	ibv_free_device_list(list);
}

static void close_device(struct ibv_context *ctx)
{
	assert_int_equal(ibv_close_device(ctx), 0);
}

/* In a child, which has no connection to the daemon and no engine. */
static bool finds_devices_in_the_end(void *error)
{
	unsigned int before = descriptors();

	if (*(int *)error == ENOMEM)
		starve_null(ibv_get_device_list(NULL), free_list, ENOMEM);
	else
		starve_null(ibv_get_device_list(NULL), free_list, ENFILE);
	/* The descriptor of the connection to the daemon. */
	assert_int_equal(descriptors(), before + 1);
	return true;
}

static bool opens_a_device_in_the_end(void *error)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	unsigned int before = descriptors(), after;

	assert_non_null(list[0]);
	shortage_of(EAGAIN, 1);
	assert_null_errno(ibv_open_device(list[0]), EAGAIN);
	assert_true(shortage_was_felt());
	if (*(int *)error == ENOMEM)
		starve_null(ibv_open_device(list[0]), close_device, ENOMEM);
	else
		starve_null(ibv_open_device(list[0]), close_device, ENFILE);
	/* Descriptors of the engine stay open. */
	after = descriptors();
	close_device(ibv_open_device(list[0]));
	assert_int_equal(descriptors(), after);
	assert_in_range(after - before, 1, ENGINE_DESCRIPTORS);
	ibv_free_device_list(list);
	return true;
}

static void ibv_open_device_no_memory_fails_without_leak(void **state)
{
	int errors[] = {ENOMEM, ENFILE};

	(void)state;
	shortage_needed();
	for (size_t i = 0; i < 2; i++) {
		child_agrees(finds_devices_in_the_end, &errors[i]);
		child_agrees(opens_a_device_in_the_end, &errors[i]);
	}
}

/* With an undo function that returns 0 for the object that the call created. */
#define starve_made(call, undo, wanted)                      \
	do {                                                 \
		int (*undone)(__typeof__(call) made) = undo; \
		int error = 0;                               \
		starve_null(call, error |= undone, wanted);  \
		assert_int_equal(error, 0);                  \
	} while (0)

static void ibv_alloc_pd_no_memory_fails_without_leak(void **state)
{
	struct api *api = *state;
	struct ibv_td_init_attr td = {0};
	struct ibv_parent_domain_init_attr parent = {.pd = api->pd};
	struct ibv_xrcd_init_attr xrcd = {
		.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
		.fd = -1,
		.oflags = O_CREAT,
	};
	struct ibv_ah_attr ah = {
		.is_global = 1, .port_num = 1, .grh = {.dgid = api->gid, .hop_limit = 64}};

	shortage_needed();
	starve_made(ibv_alloc_pd(api->ctx), ibv_dealloc_pd, ENOMEM);
	starve_made(ibv_alloc_td(api->ctx, &td), ibv_dealloc_td, ENOMEM);
	starve_made(ibv_alloc_parent_domain(api->ctx, &parent), ibv_dealloc_pd, ENOMEM);
	starve_made(ibv_open_xrcd(api->ctx, &xrcd), ibv_close_xrcd, ENOMEM);
	starve_made(ibv_create_ah(api->pd, &ah), ibv_destroy_ah, ENOMEM);
}

static int sealed_file(void)
{
	int fd = memfd_create("memory", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, 4096), 0);
	assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK), 0);
	return fd;
}

static void ibv_reg_mr_no_memory_fails_without_leak(void **state)
{
	static uint8_t bytes[4096];
	struct api *api = *state;
	struct ibv_alloc_dm_attr dm = {.length = 64};
	struct ibv_buf *buf = NULL;
	int fd = sealed_file();

	shortage_needed();
	starve_made(ibv_reg_mr(api->pd, bytes, 4096, 0), ibv_dereg_mr, ENOMEM);
	starve_made(ibv_reg_dmabuf_mr(api->pd, 0, 4096, 0, fd, 0), ibv_dereg_mr, ENOMEM);
	starve_made(ibv_alloc_null_mr(api->pd), ibv_dereg_mr, ENOMEM);
	starve_made(ibv_alloc_mw(api->pd, IBV_MW_TYPE_1), ibv_dealloc_mw, ENOMEM);
	starve_made(ibv_alloc_dm(api->ctx, &dm), ibv_free_dm, ENOMEM);
#define FREE_BUF(at) ibv_free_buf(buf)
	starve_null(ibv_alloc_buf(api->pd, 64, &buf), FREE_BUF, ENOMEM);
	close(fd);
}

static void ibv_create_cq_no_memory_fails_without_leak(void **state)
{
	struct api *api = *state;
	struct ibv_srq_init_attr srq = {.attr = {.max_wr = 4, .max_sge = 1}};
	struct ibv_qp_init_attr qp = {.qp_type = IBV_QPT_RC,
				      .cap = {.max_send_wr = 1, .max_recv_wr = 1}};
	struct ibv_srq_attr more = {.max_wr = 100};
	struct ibv_comp_channel *channel;
	struct ibv_srq *grown;
	struct ibv_cq *cq;

	shortage_needed();
	assert_non_null(channel = ibv_create_comp_channel(api->ctx));
	assert_non_null(cq = ibv_create_cq(api->ctx, 4, NULL, channel, 0));
	assert_non_null(grown = ibv_create_srq(api->pd, &srq));
	qp.send_cq = cq;
	qp.recv_cq = cq;
	starve_made(ibv_create_comp_channel(api->ctx), ibv_destroy_comp_channel, ENOMEM);
	starve_made(ibv_create_comp_channel(api->ctx), ibv_destroy_comp_channel, ENFILE);
	starve_made(ibv_create_cq(api->ctx, 4, NULL, channel, 0), ibv_destroy_cq, ENOMEM);
	starve_made(ibv_create_srq(api->pd, &srq), ibv_destroy_srq, ENOMEM);
	starve_made(ibv_create_qp(api->pd, &qp), ibv_destroy_qp, ENOMEM);
	starve(ibv_resize_cq(cq, 1000), ENOMEM);
	starve(ibv_modify_srq(grown, &more, IBV_SRQ_MAX_WR), ENOMEM);
	assert_int_equal(ibv_destroy_srq(grown), 0);
	assert_int_equal(ibv_destroy_cq(cq), 0);
	assert_int_equal(ibv_destroy_comp_channel(channel), 0);
}

/* The connection to a peer, and the members of a group. */
static void ibv_modify_qp_no_memory_fails_without_leak(void **state)
{
	struct pair_options options = {.stays_unconnected = true};
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = IBV_MTU_1024,
		.max_dest_rd_atomic = 4,
		.min_rnr_timer = 1,
		.ah_attr = {.is_global = 1, .port_num = 1, .grh = {.hop_limit = 64}},
	};
	union ibv_gid group;
	struct pair pair, ud;

	shortage_needed();
	pair_open(&pair, *state, &options);
	assert_int_equal(qp_to_init(pair.a.qp, 0), 0);
	attr.ah_attr.grh.dgid = pair.api->gid;
	attr.dest_qp_num = pair.b.qp->qp_num;
	starve(ibv_modify_qp(pair.a.qp, &attr,
			     IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
				     IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
				     IBV_QP_MIN_RNR_TIMER),
	       ENOMEM);
	pair_close(&pair);
	options.type = IBV_QPT_UD;
	pair_open(&ud, *state, &options);
	assert_int_equal(inet_pton(AF_INET6, "ff12::1:7", &group), 1);
	starve(ibv_attach_mcast(ud.a.qp, &group, 0), ENOMEM);
	assert_int_equal(ibv_detach_mcast(ud.a.qp, &group, 0), 0);
	pair_close(&ud);
}

/* An XRC target QP, and another handle of it. */
static void ibv_open_qp_no_memory_fails_without_leak(void **state)
{
	struct api *api = *state;
	struct ibv_xrcd_init_attr domain = {
		.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
		.fd = -1,
		.oflags = O_CREAT,
	};
	struct ibv_qp_init_attr_ex attr = {.qp_type = IBV_QPT_XRC_RECV,
					   .comp_mask = IBV_QP_INIT_ATTR_XRCD};
	struct ibv_qp_open_attr open = {.comp_mask = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD |
						     IBV_QP_OPEN_ATTR_TYPE,
					.qp_type = IBV_QPT_XRC_RECV};
	struct ibv_xrcd *xrcd;
	struct ibv_qp *qp;

	shortage_needed();
	assert_non_null(xrcd = ibv_open_xrcd(api->ctx, &domain));
	attr.xrcd = xrcd;
	assert_non_null(qp = ibv_create_qp_ex(api->ctx, &attr));
	open.xrcd = xrcd;
	open.qp_num = qp->qp_num;
	starve_made(ibv_open_qp(api->ctx, &open), ibv_destroy_qp, ENOMEM);
	assert_int_equal(ibv_destroy_qp(qp), 0);
	assert_int_equal(ibv_close_xrcd(xrcd), 0);
}

static void ibv_import_mr_no_memory_fails_without_leak(void **state)
{
	static uint8_t bytes[64];
	struct api *api = *state;
	struct ibv_alloc_dm_attr attr = {.length = 64};
	struct ibv_mr *mr;
	struct ibv_dm *dm;

	shortage_needed();
	assert_non_null(mr = ibv_reg_mr(api->pd, bytes, sizeof(bytes), 0));
	assert_non_null(dm = ibv_alloc_dm(api->ctx, &attr));
	starve_null(ibv_import_pd(api->ctx, api->pd->handle), ibv_unimport_pd, ENOMEM);
	starve_null(ibv_import_mr(api->pd, mr->handle), ibv_unimport_mr, ENOMEM);
	starve_null(ibv_import_dm(api->ctx, dm->handle), ibv_unimport_dm, ENOMEM);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	assert_int_equal(ibv_free_dm(dm), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ibv_open_device_no_memory_fails_without_leak),
		cmocka_unit_test_setup_teardown(ibv_alloc_pd_no_memory_fails_without_leak,
						api_setup, api_teardown),
		cmocka_unit_test_setup_teardown(ibv_reg_mr_no_memory_fails_without_leak, api_setup,
						api_teardown),
		cmocka_unit_test_setup_teardown(ibv_create_cq_no_memory_fails_without_leak,
						api_setup, api_teardown),
		cmocka_unit_test_setup_teardown(ibv_modify_qp_no_memory_fails_without_leak,
						api_setup, api_teardown),
		cmocka_unit_test_setup_teardown(ibv_open_qp_no_memory_fails_without_leak, api_setup,
						api_teardown),
		cmocka_unit_test_setup_teardown(ibv_import_mr_no_memory_fails_without_leak,
						api_setup, api_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
