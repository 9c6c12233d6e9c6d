/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_IPC_SEGMENT_H
#define USRDMA_IPC_SEGMENT_H

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ipc/msg.h"

/*
 * Segment: the queue pairs, memory regions and counters of a process, readable by its peers of the
 * same uid and by the daemon.
 *
 * A segment is a memfd that its owner writes. It is sealed (F_SEAL_FUTURE_WRITE), so other
 * processes can map it only for reading. It is sparse: a page that was never used takes no memory.
 * Readers do not trust its contents: they check every index against its bound, and use the contents
 * only to access the owner's memory, where the kernel checks the access.
 *
 * The first 64 bits of an entry, its word, contain the QPN or rkey that the entry publishes, and a
 * generation. The owner increments the generation with every change. It stores the word last when
 * it publishes the entry. When it revokes the entry, it first stores a word with QPN or rkey 0.
 * Both stores are sequentially consistent. An initiator first announces its access in the pair that
 * it shares with the owner (local/ring.h) and then reads the word. It makes the system call that
 * copies the data only while the word has that value. docs/memory-safety.md describes and proves
 * the protocol.
 *
 * QPNs and rkeys are random (docs/adr/0024), entries are not: published objects use the lowest
 * entries, so that they share pages. qp_places and mr_places contain the entry of each published
 * object. The owner may move an object that it publishes again, and may use the entry of a revoked
 * object for another object.
 */
#define SEGMENT_MAGIC	0x75736567u
#define SEGMENT_VERSION 11
#define SEGMENT_QPS	IPC_SLOT_QPNS
#define SEGMENT_MRS	(1u << 20)
#define SEGMENT_SHARES	1024u

/*
 * Set in the rkey of a memory window. Windows are not published: the owner's engine executes
 * requests with such an rkey.
 */
#define SEGMENT_WINDOW_KEY (1u << 31)

/*
 * A robust mutex that the owner's engine thread holds while it runs. When that thread ends (exit,
 * signal, or exec() of another thread), the kernel changes the mutex's futex word before it can
 * assign the thread id to another thread.
 */
union segment_life {
	pthread_mutex_t mutex;
	_Atomic uint64_t word; /* the futex word is in its low-addressed half */
	_Atomic uint32_t futex;
	uint8_t bytes[64];
};

struct segment_hdr {
	uint32_t magic;
	uint32_t version;
	uint32_t slot;
	int32_t pid;
	/* address of a copy of `probe` in the owner's memory. A reader that reads the copy */
	uint64_t probe_addr;
	/* verifies that `pid` is valid in its PID namespace and that the memory is readable */
	uint64_t probe;
	_Atomic uint32_t
		qps_end; /* entries [qps_end, SEGMENT_QPS) were never used; mrs_end likewise */
	_Atomic uint32_t mrs_end;
	_Atomic uint32_t
		engine_tid; /* the owner's engine thread, the target of process_vm_*(); 0: none */
	_Atomic uint32_t shares_end; /* likewise */
	_Alignas(64) union segment_life life;
	uint8_t reserved[4096 - 128];
};

/*
 * The counters of the process (core/report/counters.h). Entries [0, end) have a name, such as
 * "local.retries".
 */
#define SEGMENT_COUNTERS_MAX	   80
#define SEGMENT_COUNTER_NAME_BYTES 40

struct segment_counters {
	uint64_t values[SEGMENT_COUNTERS_MAX];
	char names[SEGMENT_COUNTERS_MAX][SEGMENT_COUNTER_NAME_BYTES]; /* NUL terminated */
	_Atomic uint32_t end;
	uint8_t reserved[4096 - 48 * SEGMENT_COUNTERS_MAX - 4];
};

struct segment_qp {
	_Atomic uint64_t word; /* segment_qp_word(); QPN 0: unused entry */
	uint32_t type : 8;     /* enum ibv_qp_type */
	uint32_t rq_psn : 24;
	union {
		uint32_t remote_qpn;
		/* for the owner: the place of the next unused entry; 0: none */
		uint32_t next_unused;
	};
	_Atomic uint32_t access; /* qp_access_flags */
	uint32_t pd;
	uint32_t dev_id;
	/*
	 * the remote QP belongs to a process of this host, which may search this segment for the QP
	 */
	uint32_t is_local;
	uint8_t remote_gid[16];
	char transport[12]; /* name of the transport; empty: none is bound */
	_Atomic uint32_t
		onesided; /* segment_onesided(); stored before a word that permits the operations */
};

struct segment_mr {
	_Atomic uint64_t word; /* segment_mr_word(); rkey 0: unused entry */
	uint32_t access;       /* enum ibv_access_flags */
	uint32_t pd;
	uint32_t is_unreachable; /* only the owner's engine can access the memory */
	uint32_t next_unused;	 /* in an unused entry, as in struct segment_qp */
	uint64_t iova;
	uint64_t length_bytes;
	uint64_t addr; /* in the owner's address space */
	/*
	 * The place of the object of `shares` that backs the memory; 0: not determined yet;
	 * SEGMENT_SHARE_NONE: none. The owner stores it last; the other two are valid then.
	 */
	_Atomic uint32_t share;
	uint32_t share_generation; /* in the word of that object */
	uint64_t share_offset;	   /* of `addr` in the object, bytes */
};

#define SEGMENT_SHARE_NONE UINT32_MAX

/* How a peer opens an object of `shares`. */
enum segment_share_kind {
	SEGMENT_SHARE_FD = 1, /* `id` is a descriptor of the owner's process */
	SEGMENT_SHARE_SYSV,   /* `id` is the id of a System V segment (shmget(2)) */
	/*
	 * [`id`, `stamp`) is a mapping of the owner's process, which has no descriptor of the file
	 */
	SEGMENT_SHARE_MAPPING,
};

/*
 * A memory object that backs memory regions and that peers can map. Its word changes as that of an
 * MR entry does. Peers map the object only if dev and ino are those of the object that they opened.
 * The object can shrink at any time.
 */
struct segment_share {
	_Atomic uint64_t word; /* segment_share_word(); kind 0: unused entry */
	int64_t id;
	uint64_t dev; /* as st_dev and st_ino of stat(2) */
	uint64_t ino;
	/*
	 * SYSV: segment_sysv_stamp(), because ids are used again; MAPPING: the end of the mapping
	 */
	uint64_t stamp;
	_Atomic uint64_t bytes; /* that peers may map; can become larger */
	uint8_t pad[16];
};

/*
 * What a QP transferred since it was published. The owner writes, with the lock of the QP's shard
 * held (ADR 0054).
 */
struct segment_qp_usage {
	uint64_t posted;	    /* send WRs */
	uint64_t sent_messages;	    /* send WRs that have completed successfully */
	uint64_t sent_bytes;	    /* of these; of a READ, the bytes that were read */
	uint64_t failed;	    /* send WRs that have failed or were flushed */
	uint64_t received_messages; /* receive WRs that have completed successfully */
	uint64_t received_bytes;
	uint32_t retries;  /* messages or packets that were sent again */
	uint32_t rnr_naks; /* received */
	uint32_t send_cq;  /* places of the CQs in the table; 0: none */
	uint32_t recv_cq;
	uint64_t read_bytes; /* of sent_bytes: those of READs and atomics, which the QP received */
	uint8_t reserved[56];
};

static inline void ipc_usage_add(struct ipc_usage *to, const struct ipc_usage *more)
{
	to->sent_messages += more->sent_messages;
	to->sent_bytes += more->sent_bytes;
	to->received_messages += more->received_messages;
	to->received_bytes += more->received_bytes;
	to->read_bytes += more->read_bytes;
	to->retries += more->retries;
	to->rnr_naks += more->rnr_naks;
}

/* The numbers of a QP that are added up for its device. */
static inline struct ipc_usage segment_qp_total(const struct segment_qp_usage *usage)
{
	return (struct ipc_usage){
		.sent_messages = usage->sent_messages,
		.sent_bytes = usage->sent_bytes,
		.received_messages = usage->received_messages,
		.received_bytes = usage->received_bytes,
		.read_bytes = usage->read_bytes,
		.retries = usage->retries,
		.rnr_naks = usage->rnr_naks,
	};
}

#define SEGMENT_DEVICES 255u

/*
 * The devices of which the process had QPs. The total of a device is that of its entry and of the
 * usage of each QP entry with its dev_id, published or not: when a QP is revoked, the owner moves
 * its usage to the entry of the device. `changes` is odd while it does so, and then has another
 * value. The QPs of a device without an entry are not counted, because the table is full.
 */
struct segment_devices {
	_Atomic uint32_t end; /* entries [end, SEGMENT_DEVICES) were never used */
	_Atomic uint32_t changes;
	uint8_t reserved[56];
	struct segment_device {
		uint32_t dev_id;
		uint32_t reserved;
		struct ipc_usage total;
	} entries[SEGMENT_DEVICES];
};

/*
 * A CQ. The owner writes `pending` with its lock. A cache line, because threads use different CQs.
 */
struct segment_cq {
	/*
	 * completions that were not polled; in an unused entry: the place of the next unused entry
	 */
	_Alignas(64) uint32_t pending;
	uint32_t capacity; /* 0: unused entry */
	/*
	 * segment_cq_wake(): the application waits for the CQ's channel with poll(2), and the next
	 * completion generates an event. A peer whose message completes a receive may wake it
	 * (core/engine/direct_wake.h) while takes_wakes is set. 0: the peer rings the doorbell.
	 */
	_Atomic uint64_t wake;
};

#define SEGMENT_CQS 65536u

struct segment_cqs {
	_Atomic uint32_t end; /* entries [end, SEGMENT_CQS) were never used */
	/* direct wake-ups are on: senders add the units of events (docs/adr/0064) */
	_Atomic uint32_t takes_wakes;
	uint32_t reserved[1022];
	struct segment_cq entries[SEGMENT_CQS];
};

/*
 * The number of the channel, and a number that changes with each ibv_req_notify_cq() of the
 * channel.
 */
static inline uint64_t segment_cq_wake(uint32_t channel, uint32_t request)
{
	return (uint64_t)channel << 32 | request;
}

static inline uint32_t segment_cq_channel(uint64_t wake)
{
	return (uint32_t)(wake >> 32);
}

#define SEGMENT_QPN_BITS   24
#define SEGMENT_STATE_BITS 8

static inline uint64_t segment_qp_word(uint32_t generation, uint32_t qpn, uint32_t state)
{
	return (uint64_t)generation << (SEGMENT_QPN_BITS + SEGMENT_STATE_BITS) |
	       (uint64_t)state << SEGMENT_QPN_BITS | qpn;
}

static inline uint32_t segment_qp_qpn(uint64_t word)
{
	return (uint32_t)word & ((1u << SEGMENT_QPN_BITS) - 1);
}

static inline uint32_t segment_qp_state(uint64_t word)
{
	return (uint32_t)word >> SEGMENT_QPN_BITS;
}

#define SEGMENT_DEPTH_BITS 8
#define SEGMENT_DEPTH_MAX  ((1u << SEGMENT_DEPTH_BITS) - 1)
#define SEGMENT_MTU_BITS   8

/*
 * The conditions under which the peer may execute its RDMA and atomic operations itself. by_owner:
 * the owner must execute them, because it counts them (core/queue/comp_cntr.h), or because it is in
 * RTR and has to report the first one (IBV_EVENT_COMM_EST). path_mtu: enum ibv_mtu; 0: unknown.
 */
static inline uint32_t segment_onesided(bool by_owner, uint32_t path_mtu,
					uint32_t max_dest_rd_atomic)
{
	return (uint32_t)by_owner << (SEGMENT_DEPTH_BITS + SEGMENT_MTU_BITS) |
	       path_mtu << SEGMENT_DEPTH_BITS | (SEGMENT_DEPTH_MAX - max_dest_rd_atomic);
}

static inline uint32_t segment_path_mtu(uint32_t onesided)
{
	return onesided >> SEGMENT_DEPTH_BITS & ((1u << SEGMENT_MTU_BITS) - 1);
}

/*
 * Whether the peer may execute an operation. path_mtu: of its QP; reads: how many READs and atomics
 * that QP permits to be outstanding, 0 for a WRITE. Otherwise the owner executes it, and refuses it
 * as a NIC would: with another path MTU if it has several packets, and with fewer responder
 * resources if too many are outstanding. One comparison: bits other than those of the depth remain
 * set if the owner executes the operation or the path MTUs differ.
 */
static inline bool segment_permits_onesided(uint32_t onesided, uint32_t path_mtu, uint32_t reads)
{
	return (onesided ^ path_mtu << SEGMENT_DEPTH_BITS) <= SEGMENT_DEPTH_MAX - reads;
}

static inline uint64_t segment_mr_word(uint32_t generation, uint32_t rkey)
{
	return (uint64_t)generation << 32 | rkey;
}

static inline uint32_t segment_mr_rkey(uint64_t word)
{
	return (uint32_t)word;
}

static inline uint64_t segment_share_word(uint32_t generation, enum segment_share_kind kind)
{
	return (uint64_t)generation << 32 | (uint64_t)kind;
}

static inline enum segment_share_kind segment_share_kind(uint64_t word)
{
	return (enum segment_share_kind)(uint32_t)word;
}

/*
 * Distinguishes segments that had the same id: the time of the last change and the creator's
 * process id (shmctl(2)).
 */
static inline uint64_t segment_sysv_stamp(int64_t changed_s, int32_t creator)
{
	return (uint64_t)changed_s << 32 | (uint32_t)creator;
}

/* The generation in the word of an entry. */
static inline uint32_t segment_generation(uint64_t word)
{
	return (uint32_t)(word >> 32);
}

/*
 * The owner: each stored word of an entry has a new generation, so that a reader detects that the
 * entry has changed.
 */
static inline uint32_t segment_next_generation(const _Atomic uint64_t *word)
{
	return segment_generation(atomic_load_explicit(word, memory_order_relaxed)) + 1;
}

/*
 * The owner: stores a word that matches no object. The fence orders this store before later changes
 * of the entry's contents.
 */
static inline void segment_revoke_word(_Atomic uint64_t *word)
{
	atomic_store(word, (uint64_t)segment_next_generation(word) << 32);
	atomic_thread_fence(memory_order_release);
}

struct segment {
	struct segment_hdr hdr;
	struct segment_counters counters;
	struct segment_devices devices;
	/*
	 * By the low bits of the QPN or key: the place of the object's entry, which is its index +
	 * 1; 0: not published.
	 */
	_Atomic uint16_t qp_places[SEGMENT_QPS];
	_Atomic uint32_t mr_places[SEGMENT_MRS];
	struct segment_share shares[SEGMENT_SHARES];
	struct segment_qp qps[SEGMENT_QPS];
	struct segment_qp_usage qp_usage[SEGMENT_QPS]; /* of the QP of the same index */
	struct segment_cqs cqs;
	struct segment_mr mrs[SEGMENT_MRS];
};

/*
 * The entry in which a QP is published. If it is not published, an entry that does not match any
 * QPN.
 */
static inline const struct segment_qp *segment_qp_entry(const struct segment *segment, uint32_t qpn)
{
	static const struct segment_qp none;
	uint32_t place = atomic_load_explicit(&segment->qp_places[qpn % SEGMENT_QPS],
					      memory_order_acquire);

	return place - 1 < SEGMENT_QPS ? &segment->qps[place - 1] : &none;
}

/* The same for an MR. */
static inline const struct segment_mr *segment_mr_entry(const struct segment *segment,
							uint32_t rkey)
{
	static const struct segment_mr none;
	uint32_t place = atomic_load_explicit(&segment->mr_places[rkey % SEGMENT_MRS],
					      memory_order_acquire);

	return place - 1 < SEGMENT_MRS ? &segment->mrs[place - 1] : &none;
}

#define SEGMENT_BYTES ((uint64_t)sizeof(struct segment))

static_assert(sizeof(pthread_mutex_t) <= 64, "the mutex fits its place");
static_assert(offsetof(pthread_mutex_t, __data.__lock) == 0, "glibc's futex word is first");
static_assert(sizeof(struct segment_hdr) == 4096, "the tables start on a page");
static_assert(sizeof(struct segment_counters) == 4096, "the tables start on a page");
static_assert(offsetof(struct segment, qps) % 4096 == 0 &&
		      offsetof(struct segment, mrs) % 4096 == 0,
	      "the tables start on a page");
static_assert(SEGMENT_QPS <= UINT16_MAX, "a place has 16 bits");
static_assert(sizeof(struct segment_qp) == 64, "one cache line an entry");
static_assert(sizeof(struct segment_mr) == 64, "one cache line an entry");
static_assert(sizeof(struct segment_share) == 64, "one cache line an entry");
static_assert(offsetof(struct segment_qp_usage, read_bytes) == 64 &&
		      sizeof(struct segment_qp_usage) == 128,
	      "one cache line an entry, and one for READs");
static_assert(sizeof(struct segment_devices) == 4 * 4096, "the tables start on a page");

#endif
