/* SPDX-License-Identifier: BSD-2-Clause */

/*
 * One device, domain, region and device memory under several handles: within a process, and in
 * another process.
 */

#include "fixture.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define IMPORTER_ARGUMENT "--importer"

static struct api api;

static int setup(void **state)
{
	*state = &api;
	api_open(&api);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	api_close(&api);
	return 0;
}

static struct ibv_context *import_again(struct ibv_context *ctx)
{
	int fd = dup(ctx->cmd_fd);
	struct ibv_context *imported;

	assert_true(fd >= 0);
	imported = ibv_import_device(fd);
	assert_non_null(imported);
	assert_int_equal(imported->cmd_fd, fd);
	assert_ptr_not_equal(imported, ctx);
	assert_ptr_equal(imported->device, ctx->device);
	return imported;
}

/* The same domain, imported on a context of its own. */
static void import_api(struct api *imported)
{
	imported->ctx = import_again(api.ctx);
	imported->gid = api.gid;
	imported->pd = ibv_import_pd(imported->ctx, api.pd->handle);
	assert_non_null(imported->pd);
	assert_int_equal(imported->pd->handle, api.pd->handle);
	assert_ptr_equal(imported->pd->context, imported->ctx);
}

static void unimport_api(struct api *imported)
{
	ibv_unimport_pd(imported->pd);
	assert_int_equal(ibv_close_device(imported->ctx), 0);
}

static void write_works(struct pair *pair, struct ibv_mr *from, struct ibv_mr *to, uint64_t wr_id,
			enum ibv_wc_status status)
{
	struct ibv_sge sge = sge_of(&pair->a, 0, 500);
	struct ibv_send_wr wr = send_wr(IBV_WR_RDMA_WRITE, &sge, &pair->b, 0, wr_id);

	fill_pattern(pair->a.buf, 500, (uint8_t)wr_id);
	sge.lkey = from->lkey;
	wr.wr.rdma.rkey = to->rkey;
	post_send_ok(&pair->a, &wr);
	wc_expect(pair->a.cq, wr_id, status);
	if (status == IBV_WC_SUCCESS)
		assert_memory_equal(pair->a.buf, pair->b.buf, 500);
}

static void ibv_import_mr_has_keys_of_mr(void **state)
{
	struct ibv_mr *mr, *name;
	struct api imported = {0};
	struct pair pair;
	uint32_t handle;

	(void)state;
	import_api(&imported);
	/*
	 * The queue pairs are created on the imported domain and the region on the first one, and
	 * vice versa.
	 */
	pair_open(&pair, &imported, NULL);
	mr = ibv_reg_mr(api.pd, pair.a.buf, SIDE_BUF_BYTES, ALL_ACCESS);
	assert_non_null(mr);
	name = ibv_import_mr(imported.pd, mr->handle);
	assert_non_null(name);
	assert_null(name->addr);
	assert_int_equal(name->length, SIDE_BUF_BYTES);
	assert_int_equal(name->lkey, mr->lkey);
	assert_int_equal(name->rkey, mr->rkey);
	assert_int_equal(name->handle, mr->handle);
	assert_ptr_equal(name->pd, imported.pd);
	assert_ptr_equal(name->context, imported.ctx);
	write_works(&pair, name, pair.b.mr, 1, IBV_WC_SUCCESS);
	write_works(&pair, mr, pair.b.mr, 2, IBV_WC_SUCCESS);
	/* One handle is released; the region stays. */
	ibv_unimport_mr(name);
	write_works(&pair, mr, pair.b.mr, 3, IBV_WC_SUCCESS);
	handle = mr->handle;
	assert_int_equal(ibv_dereg_mr(mr), 0);
	assert_null_errno(ibv_import_mr(imported.pd, handle), EINVAL);
	pair_close(&pair);
	unimport_api(&imported);
}

static void ibv_dereg_mr_of_import_ends_mr(void **state)
{
	struct ibv_mr *mr, *name, *other;
	struct api imported = {0};
	struct pair pair;

	(void)state;
	import_api(&imported);
	pair_open(&pair, &api, NULL);
	mr = ibv_reg_mr(api.pd, pair.b.buf, SIDE_BUF_BYTES, ALL_ACCESS);
	assert_non_null(mr);
	name = ibv_import_mr(imported.pd, mr->handle);
	other = ibv_import_mr(api.pd, mr->handle);
	assert_non_null(name);
	assert_non_null(other);
	write_works(&pair, pair.a.mr, name, 1, IBV_WC_SUCCESS);
	assert_int_equal(ibv_rereg_mr(name, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, 0),
			 IBV_REREG_MR_ERR_INPUT);
	assert_int_equal(errno, EOPNOTSUPP);
	assert_int_equal(ibv_dereg_mr(name), 0);
	write_works(&pair, pair.a.mr, mr, 2, IBV_WC_REM_ACCESS_ERR);
	/* The other handles do not deregister the region and are only released. */
	assert_int_equal(ibv_dereg_mr(other), EINVAL);
	assert_int_equal(ibv_dereg_mr(mr), EINVAL);
	assert_int_equal(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, 0),
			 IBV_REREG_MR_ERR_INPUT);
	ibv_unimport_mr(mr);
	ibv_unimport_mr(other);
	assert_ptr_equal(async_expect(api.ctx, IBV_EVENT_QP_ACCESS_ERR), pair.b.qp);
	pair_close(&pair);
	unimport_api(&imported);
}

static void ibv_unimport_mr_keeps_mr_while_others_exist(void **state)
{
	struct ibv_mr *mr, *name;
	struct api imported = {0};
	struct pair pair;

	(void)state;
	import_api(&imported);
	pair_open(&pair, &api, NULL);
	mr = ibv_reg_mr(api.pd, pair.b.buf, SIDE_BUF_BYTES, ALL_ACCESS);
	assert_non_null(mr);
	name = ibv_import_mr(imported.pd, mr->handle);
	assert_non_null(name);
	ibv_unimport_mr(mr);
	write_works(&pair, pair.a.mr, name, 1, IBV_WC_SUCCESS);
	assert_int_equal(ibv_dereg_mr(name), 0);
	pair_close(&pair);
	unimport_api(&imported);
}

static void ibv_dealloc_pd_used_by_import_fails_with_ebusy(void **state)
{
	struct ibv_pd *pd = ibv_alloc_pd(api.ctx), *name;
	struct ibv_context *imported = import_again(api.ctx);
	static uint8_t buf[64];
	struct ibv_mr *mr;
	uint32_t handle;

	(void)state;
	assert_non_null(pd);
	handle = pd->handle;
	name = ibv_import_pd(imported, pd->handle);
	assert_non_null(name);
	mr = ibv_reg_mr(name, buf, sizeof(buf), 0);
	assert_non_null(mr);
	assert_int_equal(ibv_dealloc_pd(pd), EBUSY);
	assert_int_equal(ibv_dealloc_pd(name), EBUSY);
	/* Unimported while it has objects: it is freed with the last of them. */
	ibv_unimport_pd(name);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	name = ibv_import_pd(imported, pd->handle);
	assert_non_null(name);
	/* An unused domain is freed with its last handle. */
	assert_int_equal(ibv_dealloc_pd(pd), 0);
	mr = ibv_reg_mr(name, buf, sizeof(buf), 0);
	assert_non_null(mr);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	assert_int_equal(ibv_dealloc_pd(name), 0);
	assert_null_errno(ibv_import_pd(imported, handle), EINVAL);
	assert_int_equal(ibv_close_device(imported), 0);
}

/* Objects of a context exist as long as one of its imports. */
static void ibv_close_device_imported_objects_stay(void **state)
{
	struct ibv_context *first = ibv_open_device(api.ctx->device), *second;
	struct api maker = {.ctx = first, .gid = api.gid};
	struct ibv_mr *mr;
	struct pair pair;

	(void)state;
	assert_non_null(first);
	second = import_again(first);
	maker.pd = ibv_alloc_pd(first);
	assert_non_null(maker.pd);
	pair_open(&pair, &maker, NULL);
	mr = ibv_reg_mr(maker.pd, pair.b.buf, SIDE_BUF_BYTES, ALL_ACCESS);
	assert_non_null(mr);
	assert_int_equal(ibv_close_device(first), 0);
	write_works(&pair, pair.a.mr, mr, 1, IBV_WC_SUCCESS);
	assert_int_equal(ibv_close_device(second), 0);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	pair_close(&pair);
	assert_int_equal(ibv_dealloc_pd(maker.pd), 0);
}

static void ibv_import_dm_has_memory_of_dm(void **state)
{
	struct ibv_alloc_dm_attr attr = {.length = 4096};
	struct ibv_context *imported = import_again(api.ctx);
	struct ibv_dm *dm = ibv_alloc_dm(api.ctx, &attr), *name, *third;
	char written[16] = "device memory", read[16] = "";
	struct ibv_mr *mr;
	uint32_t handle;

	(void)state;
	assert_non_null(dm);
	handle = dm->handle;
	name = ibv_import_dm(imported, dm->handle);
	assert_non_null(name);
	third = ibv_import_dm(imported, dm->handle);
	assert_non_null(third);
	assert_int_equal(ibv_memcpy_to_dm(dm, 64, written, sizeof(written)), 0);
	assert_int_equal(ibv_memcpy_from_dm(read, name, 64, sizeof(read)), 0);
	assert_string_equal(read, written);
	mr = ibv_reg_dm_mr(api.pd, dm, 0, 4096, IBV_ACCESS_ZERO_BASED);
	assert_non_null(mr);
	assert_int_equal(ibv_free_dm(name), EBUSY);
	ibv_unimport_dm(third);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	assert_int_equal(ibv_free_dm(dm), 0);
	assert_int_equal(ibv_memcpy_from_dm(read, name, 64, sizeof(read)), 0);
	assert_string_equal(read, written);
	assert_int_equal(ibv_free_dm(name), 0);
	assert_null_errno(ibv_import_dm(imported, handle), EINVAL);
	assert_int_equal(ibv_close_device(imported), 0);
}

static void ibv_import_mr_invalid_argument_fails(void **state)
{
	struct ibv_context *stranger = ibv_open_device(api.ctx->device);
	struct ibv_alloc_dm_attr attr = {.length = 4096};
	struct ibv_dm *dm = ibv_alloc_dm(api.ctx, &attr);
	struct ibv_pd *other = ibv_alloc_pd(api.ctx);
	static uint8_t buf[64];
	struct ibv_mr *mr = ibv_reg_mr(other, buf, sizeof(buf), 0);
	int event_fd = eventfd(0, EFD_CLOEXEC);
	int memory_fd = memfd_create("unsealed", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	(void)state;
	assert_non_null(stranger);
	assert_true(dm && other && mr && event_fd >= 0 && memory_fd >= 0);
	assert_null_errno(ibv_import_device(-1), EBADF);
	assert_null_errno(ibv_import_device(event_fd), EINVAL);
	assert_null_errno(ibv_import_device(memory_fd), EINVAL);
	assert_int_equal(ftruncate(memory_fd, 4096), 0);
	assert_int_equal(fcntl(memory_fd, F_ADD_SEALS,
			       F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE),
			 0);
	assert_null_errno(ibv_import_device(memory_fd), EINVAL);
	/* The caller still owns the descriptor. */
	assert_int_equal(close(memory_fd), 0);
	assert_int_equal(close(event_fd), 0);
	/* An unrelated context, a region of another domain, invalid handles. */
	assert_null_errno(ibv_import_pd(stranger, api.pd->handle), EINVAL);
	assert_null_errno(ibv_import_pd(api.ctx, 0), EINVAL);
	assert_null_errno(ibv_import_mr(api.pd, mr->handle), EINVAL);
	assert_null_errno(ibv_import_mr(api.pd, 0), EINVAL);
	assert_null_errno(ibv_import_dm(stranger, dm->handle), EINVAL);
	assert_null_errno(ibv_import_dm(api.ctx, 0), EINVAL);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	assert_int_equal(ibv_dealloc_pd(other), 0);
	assert_int_equal(ibv_free_dm(dm), 0);
	assert_int_equal(ibv_close_device(stranger), 0);
}

/* The handles of our objects that the other process receives. */
struct handles {
	char device[64];
	uint32_t pd;
	uint32_t mr;
	uint32_t dm;
	union ibv_gid gid;
};

static void send_handles(int sock, const struct handles *handles, int fd)
{
	union {
		struct cmsghdr header;
		char space[CMSG_SPACE(sizeof(int))];
	} control = {.header = {.cmsg_len = CMSG_LEN(sizeof(int)),
				.cmsg_level = SOL_SOCKET,
				.cmsg_type = SCM_RIGHTS}};
	struct iovec iov = {.iov_base = (void *)(uintptr_t)handles, .iov_len = sizeof(*handles)};
	struct msghdr message = {.msg_iov = &iov,
				 .msg_iovlen = 1,
				 .msg_control = &control,
				 .msg_controllen = sizeof(control)};

	memcpy(CMSG_DATA(&control.header), &fd, sizeof(fd));
	assert_int_equal(sendmsg(sock, &message, 0), (ssize_t)sizeof(*handles));
}

static int receive_handles(int sock, struct handles *handles)
{
	union {
		struct cmsghdr header;
		char space[CMSG_SPACE(sizeof(int))];
	} control;
	struct iovec iov = {.iov_base = handles, .iov_len = sizeof(*handles)};
	struct msghdr message = {.msg_iov = &iov,
				 .msg_iovlen = 1,
				 .msg_control = &control,
				 .msg_controllen = sizeof(control)};
	int fd;

	if (recvmsg(sock, &message, 0) != (ssize_t)sizeof(*handles) ||
	    message.msg_controllen < CMSG_LEN(sizeof(int)))
		return -1;
	memcpy(&fd, CMSG_DATA(&control.header), sizeof(fd));
	return fd;
}

static int sock_of_importer;

/*
 * In the other process: the imported context works, but the objects of the first process are not
 * accessible.
 */
static void ibv_import_device_in_other_process_imports_device_only(void **state)
{
	struct handles handles;
	int fd = receive_handles(sock_of_importer, &handles);
	struct api imported = {.ctx = ibv_import_device(fd), .gid = handles.gid};
	struct pair pair;

	(void)state;
	assert_non_null(imported.ctx);
	assert_string_equal(ibv_get_device_name(imported.ctx->device), handles.device);
	imported.pd = ibv_alloc_pd(imported.ctx);
	assert_non_null(imported.pd);
	assert_null_errno(ibv_import_pd(imported.ctx, handles.pd), EOPNOTSUPP);
	assert_null_errno(ibv_import_pd(imported.ctx, imported.pd->handle), EOPNOTSUPP);
	assert_null_errno(ibv_import_mr(imported.pd, handles.mr), EOPNOTSUPP);
	assert_null_errno(ibv_import_dm(imported.ctx, handles.dm), EOPNOTSUPP);
	pair_open(&pair, &imported, NULL);
	write_works(&pair, pair.a.mr, pair.b.mr, 1, IBV_WC_SUCCESS);
	pair_close(&pair);
	api_close(&imported);
	assert_int_equal(fcntl(fd, F_GETFD), -1);
}

static void ibv_import_device_by_other_process_succeeds(void **state)
{
	struct ibv_alloc_dm_attr attr = {.length = 4096};
	struct ibv_dm *dm = ibv_alloc_dm(api.ctx, &attr);
	static uint8_t buf[64];
	struct ibv_mr *mr = ibv_reg_mr(api.pd, buf, sizeof(buf), 0);
	struct handles handles = {.gid = api.gid, .pd = api.pd->handle};
	char number[16];
	int socks[2], status;
	pid_t child;

	(void)state;
	assert_true(dm && mr);
	handles.mr = mr->handle;
	handles.dm = dm->handle;
	snprintf(handles.device, sizeof(handles.device), "%s",
		 ibv_get_device_name(api.ctx->device));
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, socks), 0);
	snprintf(number, sizeof(number), "%d", socks[1]);
	child = fork();
	assert_true(child >= 0);
	if (!child) {
		close(socks[0]);
		execl("/proc/self/exe", "importer", IMPORTER_ARGUMENT, number, (char *)NULL);
		_exit(127);
	}
	close(socks[1]);
	send_handles(socks[0], &handles, api.ctx->cmd_fd);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	close(socks[0]);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	assert_int_equal(ibv_free_dm(dm), 0);
}

/* A child of fork() has the descriptor, but no access to its parent's objects. */
static int child_imports(void)
{
	struct ibv_context *ctx = ibv_import_device(api.ctx->cmd_fd);
	struct ibv_pd *pd = ctx ? ibv_alloc_pd(ctx) : NULL;

	if (!pd)
		return 1;
	if (ibv_import_pd(ctx, api.pd->handle) || errno != EOPNOTSUPP)
		return 2;
	return ibv_dealloc_pd(pd) || ibv_close_device(ctx) ? 3 : 0;
}

static void ibv_import_device_in_forked_child_succeeds(void **state)
{
	pid_t child = fork();
	int status;

	(void)state;
	assert_true(child >= 0);
	if (!child)
		_exit(child_imports());
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ibv_import_mr_has_keys_of_mr),
		cmocka_unit_test(ibv_dereg_mr_of_import_ends_mr),
		cmocka_unit_test(ibv_unimport_mr_keeps_mr_while_others_exist),
		cmocka_unit_test(ibv_dealloc_pd_used_by_import_fails_with_ebusy),
		cmocka_unit_test(ibv_close_device_imported_objects_stay),
		cmocka_unit_test(ibv_import_dm_has_memory_of_dm),
		cmocka_unit_test(ibv_import_mr_invalid_argument_fails),
		cmocka_unit_test(ibv_import_device_by_other_process_succeeds),
		cmocka_unit_test(ibv_import_device_in_forked_child_succeeds),
	};
	const struct CMUnitTest importer[] = {
		cmocka_unit_test(ibv_import_device_in_other_process_imports_device_only)};

	if (argc == 3 && !strcmp(argv[1], IMPORTER_ARGUMENT)) {
		sock_of_importer = atoi(argv[2]);
		return cmocka_run_group_tests(importer, NULL, NULL);
	}
	return cmocka_run_group_tests(tests, setup, teardown);
}
