/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TUTORIAL_H
#define TUTORIAL_H

#include <endian.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>

/* What the client needs to access the memory of the server, in big-endian byte order. */
struct announcement {
	uint64_t addr;
	uint32_t rkey;
	uint32_t length;
};

/* Ends the program if a call has failed. */
static inline void check(int has_failed, const char *call)
{
	if (has_failed) {
		perror(call);
		exit(1);
	}
}

/* Ends the program unless an operation has completed successfully. */
static inline void check_completion(int count, const struct ibv_wc *wc, const char *operation)
{
	check(count < 0, operation);
	if (wc->status != IBV_WC_SUCCESS) {
		fprintf(stderr, "%s failed: %s\n", operation, ibv_wc_status_str(wc->status));
		exit(1);
	}
}

#endif
