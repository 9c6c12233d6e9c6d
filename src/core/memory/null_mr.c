/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/memory/null_mr.h"

#include <errno.h>
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/resize.h"
#include "base/syscalls.h"
#include "core/memory/mr.h"
#include "core/report/call_failed.h"

/* The range that one SGE can address: its length has 32 bits. */
#define SPAN_BYTES (UINT64_C(1) << 32)
/*
 * Size of the memfd that receives all writes. It is mapped repeatedly until SPAN_BYTES are covered.
 */
#define SINK_BYTES (UINT64_C(32) << 20)

/*
 * Created by the first ibv_alloc_null_mr() and never unmapped. Reserves address space, almost no
 * memory.
 */
static struct {
	pthread_mutex_t lock;
	uint8_t *zeros; /* read-only: the kernel backs it with its shared zero page */
	uint8_t *sink;
} nowhere = {.lock = PTHREAD_MUTEX_INITIALIZER};

static int map_zeros(void)
{
	uint8_t *at;

	if (nowhere.zeros)
		return 0;
	at = mmap(NULL, SPAN_BYTES, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (at == MAP_FAILED)
		return -ENOMEM;
	nowhere.zeros = at;
	return 0;
}

static int map_repeatedly(int fd, uint8_t *at)
{
	for (uint64_t offset = 0; offset < SPAN_BYTES; offset += SINK_BYTES) {
		if (mmap(at + offset, SINK_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
			 fd, 0) == MAP_FAILED)
			return -ENOMEM;
	}
	return 0;
}

static int map_sink(void)
{
	uint8_t *at;
	int fd, ret;

	if (nowhere.sink)
		return 0;
	fd = memfd_create("usrdma-null", MFD_CLOEXEC);
	if (fd < 0)
		return -errno;
	ret = resize_memory(fd, SINK_BYTES);
	if (ret)
		goto err_fd;
	at = mmap(NULL, SPAN_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (at == MAP_FAILED) {
		ret = -ENOMEM;
		goto err_fd;
	}
	ret = map_repeatedly(fd, at);
	if (ret)
		munmap(at, SPAN_BYTES);
	else
		nowhere.sink = at;
err_fd:
	sys_close(fd);
	return ret;
}

uint8_t *null_mr_memory(bool is_written)
{
	return is_written ? nowhere.sink : nowhere.zeros;
}

struct ibv_mr *null_mr_alloc(struct ibv_pd *pd)
{
	int ret;

	if (fault_call_fails("ibv_alloc_null_mr"))
		return NULL;
	pthread_mutex_lock(&nowhere.lock);
	ret = map_zeros();
	if (!ret)
		ret = map_sink();
	pthread_mutex_unlock(&nowhere.lock);
	if (!ret)
		return mr_register_null(pd);
	call_failed(to_context(pd->context), "ibv_alloc_null_mr", ret);
	errno = -ret;
	return NULL;
}
