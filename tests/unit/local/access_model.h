/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_TESTS_ACCESS_MODEL_H
#define USRDMA_TESTS_ACCESS_MODEL_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * A model of the protocol of docs/memory-safety.md: the initiator of local/onesided.c and
 * local/guarded_copy.c, the owner of local/revoke.c and local/peer.c, and what the kernel and other
 * processes do to both. access_explore() visits every reachable state, so it examines every
 * interleaving of these steps.
 *
 * Every step reads or writes at most one shared word or performs one action of the kernel.
 * Abstractions:
 *
 * - Memory is sequentially consistent. The announcement, the withdrawal of an entry, the admission
 *   and the owner's load of the announcement are seq_cst operations; a seq_cst fence precedes the
 *   loads of the guarded copy. The contents of an entry are written between seq_cst operations on
 *   the entry's word and on the announcement. The thread id is stored before the announcement,
 *   which is a release, and loaded after it, which is an acquire.
 * - A generation never repeats. It is kept per reader: "the entry has changed since the reader
 *   loaded its word".
 * - There is one MR and one QP, which every access uses. Both are published again and revoked again
 *   without a limit. An MR that is published again has another range.
 * - Time is left out: the owner may examine a thread, and may give up, after any unsuccessful look.
 * - Operations that the owner's engine executes are left out: engine.lock excludes them from a
 *   revoking call.
 * - A peer that the owner has freed is not connected again: a new connection has a pair of its own.
 * - The owner's examination of a thread is one step. local/revoke.c reads several files of /proc.
 * - The owner's calls run one after another. In the library one call can begin while another one
 *   waits.
 * - Idle threads are not stopped or killed: they have announced nothing.
 * - The owner can call ibv_dereg_mr() and publish the next MR while its engine thread ends, but not
 *   after exec().
 */

/* A part of the protocol that a run leaves out, or an assumption that it drops. */
enum omission {
	COMPLETE,
	ANNOUNCES_NO_QPN,
	ANNOUNCES_NO_RKEY,
	ANNOUNCES_AFTER_COMPARISON,
	ANNOUNCES_LEADER_ID,
	CLEARS_ANNOUNCEMENT_EARLY,
	NO_GENERATION,
	NO_RESTARTABLE_SEQUENCE,
	COPIES_AFTER_SEQUENCE, /* mapped memory: the sequence contains only the comparison */
	/* mapped memory: the store of the last word is not the end of the sequence */
	CONTINUES_AFTER_COMMIT,
	DIVIDES_LAST_WORD, /* the first piece contains a part of the last word */
	STORES_LAST_WORD_FIRST,
	COMPARES_NO_ADMISSION,
	COMPARES_NO_LIFE,
	COMPARES_NO_QP,
	COMPARES_NO_MR,
	TARGETS_PID,
	THREADS_SHARE_ANNOUNCEMENT,
	KEEPS_ADMISSION,
	FORGETS_GONE_PEER,
	LOOKS_BEFORE_WITHDRAWAL,
	EXAMINES_NO_THREAD,
	TAKES_HELD_AS_HARMLESS,
	PROBES_NO_IMAGE,
	NEVER_GIVES_UP,
	/* between the comparison of the life word and the look-up of the id */
	ALLOWS_EARLY_ID_REUSE,
};

/* What can happen in a run, besides accesses and ibv_dereg_mr(). */
enum feature {
	WITH_QP = 1,	/* the owner revokes and publishes its QP */
	WITH_GONE = 2,	/* PEER_GONE arrives while the peer lives */
	WITH_END = 4,	/* the owner's engine thread ends: exec(), or death and reuse of its id */
	WITH_STOP = 8,	/* initiators are stopped and continued */
	WITH_HELD = 16, /* initiators are traced, or sleep in the system call */
	WITH_KILL = 32, /* initiators die, and their ids are reused */
};

#define ACCESS_THREADS 2

struct access_setup {
	unsigned int threads;
	bool is_one_process; /* the threads share one pair, and the lock that guards it */
	/*
	 * the initiator copies in user mode, to the memory that the owner had when it wrote its
	 * segment
	 */
	bool is_mapped;
	unsigned int features;
	enum omission omission;
};

/* Where a thread of an initiator is; the next step is the one named. */
enum initiator_pc {
	AT_IDLE,
	AT_THREAD_ID,
	AT_ANNOUNCEMENT,
	AT_ADMISSION,
	AT_LIFE,
	AT_QP_WORD,
	AT_MR_WORD,
	AT_MR_CONTENTS,
	AT_QP_WORD_AGAIN,
	AT_MR_WORD_AGAIN,
	AT_COMPARE_ADMISSION, /* the restartable sequence */
	AT_COMPARE_LIFE,
	AT_COMPARE_QP,
	AT_COMPARE_MR,
	/*
	 * Not for mapped memory. The last step of the restartable sequence; then in the kernel,
	 * from the id to the memory.
	 */
	AT_SYSCALL_INSTRUCTION,
	AT_LOOKUP,
	AT_FIRST_PIECE,
	/* the last aligned word; mapped memory: the last step of the restartable sequence */
	AT_SECOND_PIECE,
	AT_RETURN, /* on the way back to user mode; not for mapped memory */
	AT_CLEAR,
};

enum thread_run {
	RUNS,	 /* on a processor, or preempted */
	STOPPED, /* state T */
	HELD,	 /* traced, frozen or asleep: state t, S or D */
	DEAD,
	REUSED, /* the thread is dead, and its id names a thread of another program */
};

/* What an access goes through. */
enum hold {
	HOLDS_NOTHING,
	HOLDS_WORD, /* the MR's word, but not its contents */
	HOLDS_LIVE, /* an object whose revoking call has not returned */
	HOLDS_OVER, /* an object whose revoking call has returned */
};

/*
 * What the access has stored in the owner's memory. A program of the owner can read the memory in
 * every state.
 */
enum stored {
	STORED_BODY = 1,
	STORED_PART_OF_WORD = 2,
	STORED_WORD = 4, /* the last aligned word */
};

enum image {
	IMAGE_NONE,
	IMAGE_ORIGINAL,
	IMAGE_OTHER,
};

/* The owner's engine thread, in the order of its end (docs/memory-safety.md). */
enum engine_end {
	ENGINE_LIVES,
	ENGINE_LIFE_CHANGED, /* the kernel has processed the robust list */
	ENGINE_ID_FREE,
	ENGINE_EXEC,	  /* exec() has installed the new image under the same process id */
	ENGINE_ID_REUSED, /* the id names a thread of another program */
};

enum owner_op {
	OWNER_IDLE,
	OWNER_REVOKES_MR,
	OWNER_REVOKES_QP,
	OWNER_PUBLISHES_MR,
	OWNER_FREES_PEER,
};

enum owner_pc {
	AT_WITHDRAWAL,
	AT_LOOK,      /* load the announcement of the peer */
	AT_LOOK_ID,   /* load the thread id of the peer */
	AT_LOOK_STATE /* examine that thread */
};

struct initiator_state {
	uint8_t pc;
	uint8_t run;
	uint8_t qp;
	uint8_t is_qp_changed; /* since its word was loaded */
	uint8_t mr;
	uint8_t is_mr_changed;
	uint8_t image;
	uint8_t stored; /* enum stored */
};

enum announced {
	NAMES_QP = 1,
	NAMES_MR = 2,
};

struct pair_state {
	uint8_t is_admitted;
	uint8_t accessing; /* enum announced */
	uint8_t tid;	   /* the thread's index + 1 */
	uint8_t is_locked;
	uint8_t is_listed;
	uint8_t is_gone;
	uint8_t unused[2];
};

/* No padding: states are compared and hashed by their bytes. */
struct access_state {
	struct initiator_state threads[ACCESS_THREADS];
	struct pair_state pairs[ACCESS_THREADS];
	uint8_t is_mr_published;
	uint8_t mr_contents; /* enum hold */
	uint8_t is_qp_published;
	uint8_t engine;
	uint8_t op;
	uint8_t outer_op; /* that is continued when the peer is freed or kept */
	uint8_t owner_pc;
	uint8_t peer;
	uint8_t tid_loaded;
	uint8_t is_violated;
	uint8_t unused[6];
};

static_assert(sizeof(struct access_state) == 48, "no padding");

enum access_finding {
	ALWAYS_SAFE,
	/*
	 * A piece was copied through a revoked object, or into another image, or the last word was
	 * not whole, the last, or stored once.
	 */
	FOUND_UNSAFE,
	/* a revoking call cannot return, or answers EBUSY although nothing holds the initiator */
	FOUND_STUCK,
	FOUND_TOO_MANY,
};

typedef void access_emit(void *context, const struct access_state *next, const char *step);

/* access_model.c: the initiators and what happens to them */
unsigned int access_pair_of(const struct access_setup *setup, unsigned int thread);
bool access_is_in_kernel(const struct access_setup *setup, const struct initiator_state *thread);
/* The next step of a thread that runs; false: it waits for its process's lock. */
bool access_thread_step(const struct access_setup *setup, struct access_state *state,
			unsigned int thread);
void access_thread_events(const struct access_setup *setup, const struct access_state *state,
			  access_emit *emit, void *context);
void access_engine_events(const struct access_setup *setup, const struct access_state *state,
			  access_emit *emit, void *context);

/* access_owner.c */
struct access_state access_start(const struct access_setup *setup);
void access_owner_steps(const struct access_setup *setup, const struct access_state *state,
			access_emit *emit, void *context);
bool access_call_can_return(const struct access_setup *setup, const struct access_state *state);

/* access_explore.c: *states is set to the number of reachable states that were visited. */
enum access_finding access_explore(const struct access_setup *setup, size_t *states);

#endif
