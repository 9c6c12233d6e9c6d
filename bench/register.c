/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Prints the median times, in nanoseconds, to register and to deregister 1 GiB of memory that was
 * never accessed.
 */
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include <infiniband/verbs.h>

#define REGION_BYTES (1ull << 30)
#define ROUNDS	     101

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static int compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static void fail(const char *what)
{
	fprintf(stderr, "%s: %s\n", what, strerror(errno));
	exit(1);
}

int main(void)
{
	static uint64_t reg_ns[ROUNDS], dereg_ns[ROUNDS];
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *ctx = list && list[0] ? ibv_open_device(list[0]) : NULL;
	struct ibv_pd *pd = ctx ? ibv_alloc_pd(ctx) : NULL;
	void *region = mmap(NULL, REGION_BYTES, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (!pd || region == MAP_FAILED)
		fail("opening the first device");
	for (unsigned int i = 0; i < ROUNDS; i++) {
		uint64_t start_ns = now_ns(), between_ns;
		struct ibv_mr *mr = ibv_reg_mr(pd, region, REGION_BYTES, IBV_ACCESS_LOCAL_WRITE);

		between_ns = now_ns();
		if (!mr || ibv_dereg_mr(mr))
			fail("ibv_reg_mr");
		reg_ns[i] = between_ns - start_ns;
		dereg_ns[i] = now_ns() - between_ns;
	}
	qsort(reg_ns, ROUNDS, sizeof(reg_ns[0]), compare);
	qsort(dereg_ns, ROUNDS, sizeof(dereg_ns[0]), compare);
	printf("reg_ns %llu dereg_ns %llu\n", (unsigned long long)reg_ns[ROUNDS / 2],
	       (unsigned long long)dereg_ns[ROUNDS / 2]);
	ibv_dealloc_pd(pd);
	ibv_close_device(ctx);
	ibv_free_device_list(list);
	return 0;
}
