/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_BASE_PROBE_PAGE_H
#define USRDMA_BASE_PROBE_PAGE_H

#include <assert.h>
#include <stdatomic.h>
#include <stdint.h>

#include "base/fault.h"

/*
 * The probe page: what the processes of one user trace and which faults they inject. The daemon
 * creates one for each user as a memfd with a fixed size, and passes it with the reply to HELLO
 * (docs/adr/0039).
 *
 * The daemon writes `generation`, `flags` and the rules. It makes `generation` odd, writes, and
 * makes it even. The counters are written by the processes. All processes of the user can write the
 * page: each of them could inject the same faults into the others by the daemon. A reader copies
 * the rules before it parses them. The daemon reads nothing from the page.
 */
#define PROBE_PAGE_MAGIC   0x75707062u
#define PROBE_PAGE_VERSION 2
#define PROBE_RULES_MAX	   (60 * 1024)

/* Flags of a page. */
#define PROBE_PAGE_TRACE   0x1u /* a tracer of the user or of root is attached */
#define PROBE_PAGE_PACKETS 0x2u /* one of these tracers needs each packet and each FIFO element */

struct probe_page {
	uint32_t magic;
	uint32_t version;
	_Atomic uint32_t generation;
	_Atomic uint32_t flags;
	_Atomic uint32_t rules_bytes; /* without the NUL byte that follows */
	uint32_t reserved[11];
	/* of each rule: the sum of all processes of the user since the rules were set */
	struct fault_counter counts[FAULT_RULES_MAX];
	char rules[PROBE_RULES_MAX];
	uint8_t unused[64 * 1024 - 64 - FAULT_RULES_MAX * sizeof(struct fault_counter) -
		       PROBE_RULES_MAX];
};
static_assert(sizeof(struct probe_page) == 64 * 1024, "the layout is shared by several programs");

#endif
