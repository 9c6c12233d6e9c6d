/* SPDX-License-Identifier: BSD-2-Clause */

/*
 * Memory registered by a descriptor: accepted descriptors, equal contents for peers and the owner,
 * and no crash of a process.
 */

#include "fixture.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef SYS_memfd_secret
#define SYS_memfd_secret 447
#endif

#define PLAIN_DEVICE "plain"
#define GPU_DEVICE   "gpu"

#define FILE_BYTES 65536
#define OFFSET	   5000 /* not page-aligned */
#define IOVA	   (0x123456789000 + OFFSET % 4096)

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

static int sealed_file(int seals)
{
	int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, FILE_BYTES), 0);
	assert_int_equal(fcntl(fd, F_ADD_SEALS, seals), 0);
	return fd;
}

/*
 * Memory that only its owner can read, and no other process through the kernel (memfd_secret). -1:
 * not supported by this kernel.
 */
static int secret_file(void)
{
	int fd = (int)syscall(SYS_memfd_secret, 0);

	if (fd >= 0)
		assert_int_equal(ftruncate(fd, FILE_BYTES), 0);
	return fd;
}

static uint8_t *map(int fd)
{
	uint8_t *at = mmap(NULL, FILE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	assert_ptr_not_equal(at, MAP_FAILED);
	return at;
}

/*
 * The MR of side b is registered by the descriptor. It is the target of WRITE, READ and atomics,
 * and the buffer of receives and sends.
 */
static void every_operation_on(int fd)
{
	uint8_t *file = map(fd);
	struct ibv_mr *mr = ibv_reg_dmabuf_mr(api.pd, OFFSET, 40000, IOVA, fd, ALL_ACCESS);
	struct pair pair;
	struct ibv_sge here, there;
	struct ibv_send_wr wr;
	uint64_t word;

	assert_non_null(mr);
	assert_null(mr->addr);
	assert_int_equal(mr->length, 40000);
	assert_int_equal(close(fd), 0);
	pair_open(&pair, &api, NULL);
	here = sge_of(&pair.a, 0, 9000);
	fill_pattern(pair.a.buf, 9000, 1);
	wr = send_wr(IBV_WR_RDMA_WRITE, &here, &pair.b, 0, 1);
	wr.wr.rdma.remote_addr = IOVA + 100;
	wr.wr.rdma.rkey = mr->rkey;
	post_send_ok(&pair.a, &wr);
	wc_expect(pair.a.cq, 1, IBV_WC_SUCCESS);
	assert_memory_equal(file + OFFSET + 100, pair.a.buf, 9000);

	fill_pattern(file + OFFSET + 100, 9000, 2);
	wr.opcode = IBV_WR_RDMA_READ;
	post_send_ok(&pair.a, &wr);
	wc_expect(pair.a.cq, 1, IBV_WC_SUCCESS);
	assert_memory_equal(file + OFFSET + 100, pair.a.buf, 9000);

	word = 40;
	memcpy(file + OFFSET, &word, sizeof(word));
	here.length = 8;
	wr = send_wr(IBV_WR_ATOMIC_FETCH_AND_ADD, &here, &pair.b, 0, 2);
	wr.wr.atomic.remote_addr = IOVA;
	wr.wr.atomic.rkey = mr->rkey;
	wr.wr.atomic.compare_add = 2;
	post_send_ok(&pair.a, &wr);
	wc_expect(pair.a.cq, 2, IBV_WC_SUCCESS);
	memcpy(&word, file + OFFSET, sizeof(word));
	assert_int_equal(word, 42);

	there = (struct ibv_sge){.addr = IOVA + 20000, .length = 9000, .lkey = mr->lkey};
	here.length = 9000;
	post_recv_ok(&pair.b, &there, 1, 3);
	wr = send_wr(IBV_WR_SEND, &here, NULL, 0, 4);
	post_send_ok(&pair.a, &wr);
	wc_expect(pair.a.cq, 4, IBV_WC_SUCCESS);
	wc_expect(pair.b.cq, 3, IBV_WC_SUCCESS);
	assert_memory_equal(file + OFFSET + 20000, pair.a.buf, 9000);
	post_recv_ok(&pair.a, &here, 1, 5);
	fill_pattern(file + OFFSET + 20000, 9000, 3);
	wr = send_wr(IBV_WR_SEND, &there, NULL, 0, 6);
	post_send_ok(&pair.b, &wr);
	wc_expect(pair.b.cq, 6, IBV_WC_SUCCESS);
	wc_expect(pair.a.cq, 5, IBV_WC_SUCCESS);
	assert_memory_equal(file + OFFSET + 20000, pair.a.buf, 9000);

	/* One byte beyond the region fails, and so does every access after deregistration. */
	wr = send_wr(IBV_WR_RDMA_READ, &here, &pair.b, 0, 7);
	wr.wr.rdma.remote_addr = IOVA + 40000 - 8999;
	wr.wr.rdma.rkey = mr->rkey;
	post_send_ok(&pair.a, &wr);
	wc_expect(pair.a.cq, 7, IBV_WC_REM_ACCESS_ERR);
	async_expect(api.ctx, IBV_EVENT_QP_ACCESS_ERR);
	pair_reconnect(&pair);
	wr.wr.rdma.remote_addr = IOVA;
	assert_int_equal(ibv_dereg_mr(mr), 0);
	post_send_ok(&pair.a, &wr);
	wc_expect(pair.a.cq, 7, IBV_WC_REM_ACCESS_ERR);
	async_expect(api.ctx, IBV_EVENT_QP_ACCESS_ERR);
	pair_close(&pair);
	munmap(file, FILE_BYTES);
}

static void ibv_reg_dmabuf_mr_sealed_memfd_is_readable_by_peers(void **state)
{
	(void)state;
	every_operation_on(sealed_file(F_SEAL_SHRINK));
}

/* Peers on the host cannot access the memory, so the owner's engine thread moves the data. */
static void ibv_reg_dmabuf_mr_secret_memory_is_moved_by_owner(void **state)
{
	int fd = secret_file();

	(void)state;
	if (fd < 0)
		skip();
	every_operation_on(fd);
}

/* After a hole was punched the pages exist and are zero. */
static void ibv_reg_dmabuf_mr_punched_hole_reads_as_zero(void **state)
{
	int fd = sealed_file(F_SEAL_SHRINK);
	struct ibv_mr *mr = ibv_reg_dmabuf_mr(api.pd, 0, FILE_BYTES, 0, fd, ALL_ACCESS);
	uint8_t *file = map(fd), zeros[64] = {0};
	struct pair pair;
	struct ibv_sge sge;
	struct ibv_send_wr wr;

	(void)state;
	assert_non_null(mr);
	memset(file, 7, FILE_BYTES);
	assert_int_equal(ftruncate(fd, 0), -1);
	assert_int_equal(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, FILE_BYTES),
			 0);
	pair_open(&pair, &api, NULL);
	sge = sge_of(&pair.a, 0, 64);
	wr = send_wr(IBV_WR_RDMA_READ, &sge, &pair.b, 0, 1);
	wr.wr.rdma.remote_addr = 8192;
	wr.wr.rdma.rkey = mr->rkey;
	memset(pair.a.buf, 1, 64);
	post_send_ok(&pair.a, &wr);
	wc_expect(pair.a.cq, 1, IBV_WC_SUCCESS);
	assert_memory_equal(pair.a.buf, zeros, 64);
	pair_close(&pair);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	munmap(file, FILE_BYTES);
	close(fd);
}

static void ibv_reg_dmabuf_mr_invalid_argument_fails(void **state)
{
	int growable = sealed_file(F_SEAL_SHRINK), loose = sealed_file(F_SEAL_GROW);
	int fixed = sealed_file(F_SEAL_SHRINK | F_SEAL_WRITE), event_fd = eventfd(0, EFD_CLOEXEC);
	int closed = sealed_file(F_SEAL_SHRINK);
	struct ibv_mr_init_attr attr = {
		.length = 4096,
		.fd = growable,
		.fd_offset = OFFSET,
		.comp_mask = IBV_REG_MR_MASK_FD | IBV_REG_MR_MASK_FD_OFFSET | IBV_REG_MR_MASK_ADDR};
	struct ibv_mr *mr;

	(void)state;
	close(closed);
	assert_null_errno(ibv_reg_dmabuf_mr(api.pd, 0, 4096, 0, closed, 0), EBADF);
	/* The file could shrink while it is registered. */
	assert_null_errno(ibv_reg_dmabuf_mr(api.pd, 0, 4096, 0, loose, 0), EINVAL);
	assert_null_errno(ibv_reg_dmabuf_mr(api.pd, 0, 4096, 0, event_fd, 0), EINVAL);
	assert_null_errno(ibv_reg_dmabuf_mr(api.pd, 0, 0, 0, growable, 0), EINVAL);
	assert_null_errno(ibv_reg_dmabuf_mr(api.pd, 1, FILE_BYTES, 0, growable, 0), EINVAL);
	assert_null_errno(ibv_reg_dmabuf_mr(api.pd, UINT64_MAX, 2, 0, growable, 0), EINVAL);
	assert_null_errno(ibv_reg_dmabuf_mr(api.pd, 0, 4096, 8, growable, 0), EINVAL);
	assert_null_errno(ibv_reg_dmabuf_mr(api.pd, 0, 4096, UINT64_MAX - 4094, growable, 0),
			  EINVAL);
	assert_null_errno(ibv_reg_dmabuf_mr(api.pd, 0, 4096, 0, growable, 1 << 30), EINVAL);
	assert_null_errno(ibv_reg_dmabuf_mr(api.pd, 0, 4096, 0, growable, IBV_ACCESS_ON_DEMAND),
			  EOPNOTSUPP);
	assert_null_errno(ibv_reg_dmabuf_mr(api.pd, 0, 4096, 0, fixed, IBV_ACCESS_LOCAL_WRITE),
			  EPERM);
	mr = ibv_reg_dmabuf_mr(api.pd, 0, 4096, 0, fixed, IBV_ACCESS_REMOTE_READ);
	assert_non_null(mr);
	assert_int_equal(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, 0),
			 IBV_REREG_MR_ERR_INPUT);
	assert_int_equal(errno, EOPNOTSUPP);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	assert_null_errno(ibv_reg_mr_ex(api.pd, &attr), EINVAL);
	attr.comp_mask &= ~(uint64_t)IBV_REG_MR_MASK_ADDR;
	mr = ibv_reg_mr_ex(api.pd, &attr);
	assert_non_null(mr);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	close(growable);
	close(loose);
	close(fixed);
	close(event_fd);
}

/* The errno of the registration of descriptor -1 at the device with this name. */
static int probe(const char *name, size_t length)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	int i = 0, error;

	assert_non_null(list);
	while (list[i] && strcmp(ibv_get_device_name(list[i]), name) != 0)
		i++;
	assert_non_null(list[i]);
	ctx = ibv_open_device(list[i]);
	assert_non_null(ctx);
	ibv_free_device_list(list);
	pd = ibv_alloc_pd(ctx);
	assert_non_null(pd);
	errno = 0;
	assert_null(ibv_reg_dmabuf_mr(pd, 0, length, 0, -1, IBV_ACCESS_LOCAL_WRITE));
	error = errno;
	assert_int_equal(ibv_dealloc_pd(pd), 0);
	assert_int_equal(ibv_close_device(ctx), 0);
	return error;
}

/*
 * NCCL probes with length 0, UCX with the size of a page. EBADF promises that the memory of GPUs
 * can be registered.
 */
static void ibv_reg_dmabuf_mr_probe_succeeds_with_gpu_yes_only(void **state)
{
	(void)state;
	assert_int_equal(probe(PLAIN_DEVICE, 0), EOPNOTSUPP);
	assert_int_equal(probe(PLAIN_DEVICE, 4096), EOPNOTSUPP);
	assert_int_equal(probe(GPU_DEVICE, 0), EBADF);
	assert_int_equal(probe(GPU_DEVICE, 4096), EBADF);
}

/*
 * Makes mmap(2) of this descriptor fail, as the driver of a GPU does, for the calling thread and
 * until the process ends.
 */
static void refuse_mapping(int fd, int error)
{
	const struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mmap, 0, 3),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[4])),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)fd, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (uint32_t)error),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	const struct sock_fprog program = {.len = sizeof(filter) / sizeof(filter[0]),
					   .filter = (struct sock_filter *)filter};

	assert_int_equal(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
	assert_int_equal(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program), 0);
}

/* NIXL uses host memory after EOPNOTSUPP. The exporters of GPUs fail with one of these numbers. */
static void ibv_reg_dmabuf_mr_unmappable_memory_is_not_supported(void **state)
{
	static const int errors[] = {EINVAL, ENODEV, 524 /* the kernel's ENOTSUPP */};

	(void)state;
	for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++) {
		int fd = sealed_file(F_SEAL_SHRINK);

		refuse_mapping(fd, errors[i]);
		assert_null_errno(ibv_reg_dmabuf_mr(api.pd, 0, 4096, 0, fd, 0), EOPNOTSUPP);
		/* Not closed: another test would get the number, which the filter still refuses. */
	}
}

/*
 * CUDA reserves the addresses of device memory with PROT_NONE. EFAULT is the result of
 * ibv_reg_mr(3) for such memory on Linux.
 */
static void ibv_reg_mr_reserved_addresses_of_a_gpu_fail(void **state)
{
	uint8_t *at = mmap(NULL, FILE_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
			   -1, 0);

	(void)state;
	assert_ptr_not_equal(at, MAP_FAILED);
	assert_null_errno(ibv_reg_mr(api.pd, at, FILE_BYTES, ALL_ACCESS), EFAULT);
	assert_null_errno(ibv_reg_mr(api.pd, at, 8, IBV_ACCESS_REMOTE_READ), EFAULT);
	assert_null_errno(ibv_reg_mr_iova2(api.pd, at, FILE_BYTES, 0,
					   ALL_ACCESS | IBV_ACCESS_RELAXED_ORDERING),
			  EFAULT);
	munmap(at, FILE_BYTES);
}

/* The descriptor is read-only, and write access is requested. */
static void ibv_reg_dmabuf_mr_read_only_descriptor_fails(void **state)
{
	int fd = sealed_file(F_SEAL_SHRINK), reader;
	char path[64];

	(void)state;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	reader = open(path, O_RDONLY | O_CLOEXEC);
	assert_true(reader >= 0);
	assert_null_errno(ibv_reg_dmabuf_mr(api.pd, 0, 4096, 0, reader, IBV_ACCESS_LOCAL_WRITE),
			  EACCES);
	close(reader);
	close(fd);
}

/* Secret memory is locked memory (RLIMIT_MEMLOCK). */
static void ibv_reg_dmabuf_mr_secret_memory_above_memlock_fails(void **state)
{
	int fd = secret_file();
	struct rlimit before, none = {0};

	(void)state;
	if (fd < 0 || getuid() == 0)
		skip();
	assert_int_equal(getrlimit(RLIMIT_MEMLOCK, &before), 0);
	none.rlim_max = before.rlim_max;
	assert_int_equal(setrlimit(RLIMIT_MEMLOCK, &none), 0);
	assert_null_errno(ibv_reg_dmabuf_mr(api.pd, 0, 4096, 0, fd, 0), EAGAIN);
	assert_int_equal(setrlimit(RLIMIT_MEMLOCK, &before), 0);
	close(fd);
}

int main(void)
{
	int error = setenv("USRDMA_DEVICES", PLAIN_DEVICE "=lo:usrdma," GPU_DEVICE "=lo,only", 1) ||
		    setenv("USRDMA_PROFILE", "usrdma,gpu=yes", 1);

	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ibv_reg_dmabuf_mr_sealed_memfd_is_readable_by_peers),
		cmocka_unit_test(ibv_reg_dmabuf_mr_secret_memory_is_moved_by_owner),
		cmocka_unit_test(ibv_reg_dmabuf_mr_punched_hole_reads_as_zero),
		cmocka_unit_test(ibv_reg_dmabuf_mr_invalid_argument_fails),
		cmocka_unit_test(ibv_reg_dmabuf_mr_read_only_descriptor_fails),
		cmocka_unit_test(ibv_reg_dmabuf_mr_secret_memory_above_memlock_fails),
		cmocka_unit_test(ibv_reg_dmabuf_mr_probe_succeeds_with_gpu_yes_only),
		cmocka_unit_test(ibv_reg_mr_reserved_addresses_of_a_gpu_fail),
		/* The last one: its system call filter stays. */
		cmocka_unit_test(ibv_reg_dmabuf_mr_unmappable_memory_is_not_supported),
	};

	return error ? EXIT_FAILURE : cmocka_run_group_tests(tests, setup, teardown);
}
