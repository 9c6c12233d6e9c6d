/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_BASE_USER_FAULT_H
#define USRDMA_BASE_USER_FAULT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

/*
 * Faults at accesses to application memory (docs/adr/0072). Registered memory is not pinned: the
 * application may unmap or protect it while a peer or a work request uses it. A handler of SIGSEGV
 * and SIGBUS ends an access of the library that faults, and the access returns an error. It passes
 * every other signal to the disposition that it replaced.
 *
 * user_copy.h has the accesses. This header is for their implementations.
 */

/*
 * An entry of the section user_fault_fixups, which the linker collects. If an instruction in
 * [start, end) faults, or at `abort` (the kernel has moved the instruction pointer of a restartable
 * sequence there, rseq(2)), the thread continues at `fixup`. Each address is relative to its field,
 * so that the section is read-only.
 */
struct user_fault_fixup {
	int32_t start;
	int32_t end;
	int32_t abort;
	int32_t fixup;
};

/* The assembler text of an entry. */
#define USER_FAULT_FIXUP(start, end, abort, fixup)                                \
	"	.pushsection user_fault_fixups, \"a\"\n"                                \
	"	.balign 4\n"                                                            \
	"	.long " start " - ., " end " - ., " abort " - ., " fixup " - .\n" \
	"	.popsection\n"

/* At most this many accesses of a thread between two examinations of its signals. */
#define USER_FAULT_INTERVAL 1024

/*
 * The calling thread's part. In the static TLS block, so that the handler can use it: the first use
 * of dynamic TLS allocates memory.
 */
struct user_fault_thread {
	uint32_t accesses_left; /* until the next examination */
	uint32_t epoch;		/* user_fault_epoch at the last one */
	bool is_caught;
	/*
	 * The address of the last fault that the handler ended; 0 if the processor does not report
	 * it.
	 */
	uintptr_t last_address;
	struct user_fault_guard *guard;
};

extern __thread struct user_fault_thread user_fault_thread
	__attribute__((visibility("hidden"), tls_model("initial-exec")));

extern _Atomic uint32_t user_fault_epoch __attribute__((visibility("hidden")));

/*
 * Makes each thread examine its signals before its next access, at most once in each tick of the
 * coarse clock (1 to 10 ms). Called when a thread has slept, and by the engine thread's periodic
 * tick while the application polls.
 */
void user_fault_renew(void);

/* Makes the calling thread examine its signals before its next access. */
static inline void user_fault_forget(void)
{
	user_fault_thread.accesses_left = 0;
}

/*
 * Installs the handler if necessary and examines the thread's signals. For user_fault_is_caught()
 * only.
 */
bool user_fault_examine(void);

/*
 * Whether the handler ends a fault of the calling thread. false: the program replaced the handler
 * or ignores the signals, the thread blocks them, or USRDMA_FAULT_HANDLER is "off". The access must
 * then be a system call, which reports the error. The dispositions and the mask are read at the
 * first call of a thread, after USER_FAULT_INTERVAL calls, and after user_fault_renew().
 */
static inline bool user_fault_is_caught(void)
{
	if (__builtin_expect(user_fault_thread.accesses_left == 0 ||
				     user_fault_thread.epoch !=
					     atomic_load_explicit(&user_fault_epoch,
								  memory_order_relaxed),
			     0))
		return user_fault_examine();
	user_fault_thread.accesses_left--;
	return user_fault_thread.is_caught;
}

/*
 * The calling thread belongs to the library and blocks all signals. Unblocks SIGSEGV and SIGBUS,
 * because the kernel ends a process whose blocked signal is raised by an instruction.
 */
void user_fault_adopt_thread(void);

/*
 * Calls access(arg), which may fault in the memory of `ranges` outside of the code that has
 * fix-ups. false: it faulted there and was left by siglongjmp(3), so it must hold nothing and
 * change only memory that the caller discards. Only if user_fault_is_caught(). Calls may not be
 * nested.
 */
bool user_fault_run(const struct iovec *ranges, int count, void (*access)(void *arg), void *arg)
	__attribute__((warn_unused_result));

#endif
