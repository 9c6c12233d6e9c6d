/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_IPC_SEGMENT_H
#define USRDMA_IPC_SEGMENT_H

#include <assert.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "ipc/msg.h"

/*
 * What a process lets its peers of the same uid, and the daemon, read about it: its queue pairs and memory regions, and
 * what it counts.
 *
 * A memfd that its owner writes; sealed (F_SEAL_FUTURE_WRITE) so that everyone else can only map it for reading. Sparse:
 * pages that hold no live entry take no memory. Readers trust nothing here but for what it lets them do to its owner:
 * every index is bounded, and what they learn is used only on the owner's own memory, through the kernel's checks.
 *
 * An entry is published by storing its key (a QPN, an rkey) last, and withdrawn by storing 0 there first, both
 * sequentially consistent. An rkey's reader announces its use first, in the pair it shares with the owner (local/ring.h),
 * which is what makes dereg wait for it.
 */
#define SEGMENT_MAGIC	0x75736567u
#define SEGMENT_VERSION 2
#define SEGMENT_QPS	IPC_SLOT_QPNS
#define SEGMENT_MRS	(1u << 20)

/* An rkey with this bit is a memory window's. Windows are not listed: what names one goes to its owner's engine. */
#define SEGMENT_WINDOW_KEY (1u << 31)

struct segment_hdr {
	uint32_t magic;
	uint32_t version;
	uint32_t slot;
	int32_t pid;
	uint64_t probe_addr; /* where `probe` also stands in the owner's memory: proves that a pid */
	uint64_t probe;	     /* means the same process to both, and that its memory may be read */
	_Atomic uint32_t qps_end; /* entries from here on were never used */
	_Atomic uint32_t mrs_end;
	uint8_t reserved[4096 - 40];
};

/* What the process counts (core/counters.h): [0, end) are named, "local.retries". */
#define SEGMENT_COUNTERS_MAX	   80
#define SEGMENT_COUNTER_NAME_BYTES 40

struct segment_counters {
	uint64_t values[SEGMENT_COUNTERS_MAX];
	char names[SEGMENT_COUNTERS_MAX][SEGMENT_COUNTER_NAME_BYTES]; /* NUL terminated */
	_Atomic uint32_t end;
	uint8_t reserved[4096 - 48 * SEGMENT_COUNTERS_MAX - 4];
};

struct segment_qp {
	_Atomic uint32_t qpn;	/* 0: no QP here */
	_Atomic uint32_t state; /* enum ibv_qp_state */
	uint32_t type;		/* enum ibv_qp_type */
	uint32_t remote_qpn;
	_Atomic uint32_t access; /* qp_access_flags */
	uint32_t pd;
	uint32_t dev_id;
	uint32_t is_local; /* its peer is a process of this host, which may look here for it */
	uint8_t remote_gid[16];
	char transport[16]; /* by name; empty: not bound, or of none */
};

struct segment_mr {
	_Atomic uint32_t rkey; /* 0: no MR here */
	uint32_t access;       /* enum ibv_access_flags */
	uint32_t pd;
	uint32_t is_unreachable; /* only its owner's engine can move bytes there */
	uint64_t iova;
	uint64_t length_bytes;
	uint64_t addr; /* in the owner's address space */
	uint8_t pad[24];
};

struct segment {
	struct segment_hdr hdr;
	struct segment_counters counters;
	struct segment_qp qps[SEGMENT_QPS]; /* by the low bits of the QPN */
	struct segment_mr mrs[SEGMENT_MRS]; /* by the low bits of the key */
};

#define SEGMENT_BYTES ((uint64_t)sizeof(struct segment))

static_assert(sizeof(struct segment_hdr) == 4096, "the tables start on a page");
static_assert(sizeof(struct segment_counters) == 4096, "the tables start on a page");
static_assert(sizeof(struct segment_qp) == 64, "one cache line an entry");
static_assert(sizeof(struct segment_mr) == 64, "one cache line an entry");

#endif
