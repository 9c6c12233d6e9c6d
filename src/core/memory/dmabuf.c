/* SPDX-License-Identifier: BSD-2-Clause */

/*
 * Registration of memory by a descriptor: a dma-buf, or another file that can replace one. A NIC
 * would access it over the bus; here it is mapped and the CPU copies the data. Only descriptors of
 * files that cannot shrink are accepted: the pages of a dma-buf do not disappear while it is
 * registered.
 */

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/fault.h"
#include "core/device/device.h"
#include "core/memory/mr.h"
#include "core/memory/pd.h"

#ifndef DMA_BUF_MAGIC
#define DMA_BUF_MAGIC 0x444d4142
#endif
#ifndef SECRETMEM_MAGIC
#define SECRETMEM_MAGIC 0x5345434d
#endif

/*
 * The kernel's own number, which drivers of GPUs return from mmap(2). No errno of the C library has
 * this value.
 */
#define KERNEL_ENOTSUPP 524

/*
 * The size of a dma-buf is fixed when it is exported, that of a secretmem file when it is first
 * set, and that of a memfd when it is sealed.
 */
static bool keeps_its_size(int fd)
{
	struct statfs fs;
	int seals;

	if (fstatfs(fd, &fs))
		return false;
	if (fs.f_type == DMA_BUF_MAGIC || fs.f_type == SECRETMEM_MAGIC)
		return true;
	seals = fcntl(fd, F_GET_SEALS);
	return seals >= 0 && (seals & F_SEAL_SHRINK);
}

/*
 * The descriptor -1 is a probe: NCCL and UCX take EBADF for "registers the memory of GPUs", and
 * EOPNOTSUPP for "use host memory". The memory of most GPUs cannot be mapped, so the answer is
 * EOPNOTSUPP unless the profile has gpu=yes.
 */
static int probe_result(struct ibv_pd *pd)
{
	return profile_value(to_pd(pd)->context->device->profile, PROFILE_GPU, 0) ? -EBADF :
										    -EOPNOTSUPP;
}

/* 0 if the file contains [offset, offset + length), or -errno. */
static int dmabuf_range_check(int fd, uint64_t offset, uint64_t length)
{
	struct stat st;

	if (fstat(fd, &st))
		return -errno;
	if (!keeps_its_size(fd) || st.st_size < 0)
		return -EINVAL;
	if (!length || offset > (uint64_t)st.st_size || length > (uint64_t)st.st_size - offset)
		return -EINVAL;
	return 0;
}

/*
 * Whether peers can use the one-sided path (process_vm_readv(2)). They cannot if the mapping has no
 * struct pages or is hidden by the kernel.
 */
static bool is_reachable(uint8_t *at)
{
	uint8_t byte;
	struct iovec here = {.iov_base = &byte, .iov_len = 1};
	struct iovec there = {.iov_base = at, .iov_len = 1};

	return process_vm_readv(getpid(), &here, 1, &there, 1, 0) == 1;
}

/*
 * An exporter that does not support mapping fails with EINVAL, ENODEV or ENOTSUPP. Offset and
 * length are valid, so EINVAL has no other cause. Some exporters refuse memory that the CPU cannot
 * access with EPERM. For a memfd, EPERM reports F_SEAL_WRITE.
 */
static int map_error(int fd, int error)
{
	struct statfs fs;

	if (error == EINVAL || error == ENODEV || error == KERNEL_ENOTSUPP)
		return -EOPNOTSUPP;
	if (error == EPERM && !fstatfs(fd, &fs) && fs.f_type == DMA_BUF_MAGIC)
		return -EOPNOTSUPP;
	return -error;
}

static int map(int fd, uint64_t offset, uint64_t length, unsigned int access,
	       struct mr_mapping *mapping)
{
	uint64_t page_bytes = (uint64_t)sysconf(_SC_PAGESIZE);
	uint64_t before = offset % page_bytes;
	int prot = PROT_READ | (access & IBV_ACCESS_LOCAL_WRITE ? PROT_WRITE : 0);
	void *at = mmap(NULL, before + length, prot, MAP_SHARED, fd, (off_t)(offset - before));

	if (at == MAP_FAILED)
		return map_error(fd, errno);
	mapping->start = at;
	mapping->bytes = before + length;
	mapping->addr = mapping->start + before;
	mapping->is_reachable = is_reachable(mapping->addr);
	return 0;
}

struct ibv_mr *ibv_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t length, uint64_t iova,
				 int fd, int access)
{
	struct mr_mapping mapping;
	struct ibv_mr *mr;
	int ret;
	int error;

	if (fault_call_fails(__func__))
		return NULL;
	ret = fd < 0 ? probe_result(pd) : dmabuf_range_check(fd, offset, length);
	/* On-demand paging applies to pages of the process; a dma-buf has none. */
	if (!ret && (access & IBV_ACCESS_ON_DEMAND))
		ret = -EOPNOTSUPP;
	if (!ret)
		ret = map(fd, offset, length, (unsigned int)access, &mapping);
	if (ret) {
		errno = -ret;
		return NULL;
	}
	mr = mr_register_mapping(pd, &mapping, length, iova, (unsigned int)access);
	if (mr)
		return mr;
	error = errno;
	munmap(mapping.start, mapping.bytes);
	errno = error;
	return NULL;
}
