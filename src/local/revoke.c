/* SPDX-License-Identifier: BSD-2-Clause */
#include "local/revoke.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/procfs.h"
#include "base/syscalls.h"
#include "base/util.h"
#include "core/engine/lock_check.h"
#include "local/local.h"
#include "local/peer.h"
#include "local/qp.h"
#include "local/responder.h"
#include "local/ring.h"
#include "local/segment.h"

/*
 * The owner's half of the protocol of docs/memory-safety.md. A peer announces an access and then
 * reads the owner's entries. The owner withdraws an entry and then reads the announcements.
 * Therefore either the peer finds the entry withdrawn or the owner finds the announcement. The
 * owner does not wait for a thread that has ended or is stopped outside of the system call that
 * moves the bytes: the restartable sequence (guarded_copy.h) compares the words again before it
 * enters the call.
 */

/*
 * Number of times that announcements are read before the first sleep. An access takes microseconds.
 */
#define SPINS 1000
/* Sleep between later reads, with engine.lock released. */
#define NAP_NS 50000
/* Time after which the state of a thread that announces the object is examined. */
#define LOOK_AFTER_NS 1000000ull
#define GIVE_UP_NS    (10 * CLOCK_NS_PER_S)
#define PROC_BYTES    512

/*
 * Kernel functions in which a thread sleeps that is frozen or dumps core on its return from a
 * system call or an interrupt. __refrigerator is not in the list: before Linux 6.1 the freezer of
 * cgroup v1 also holds threads there during a system call.
 */
static const char *const harmless_wchans[] = {"do_freezer_trap", "get_signal",
					      "coredump_task_exit"};

/* Selects the announcements to wait for: (announcement & mask) == name. */
struct target {
	uint64_t mask;
	uint64_t name;
};

/* Reads the beginning of /proc/<pid>/task/<tid>/<file>, NUL-terminated; false: not readable. */
static bool read_proc(pid_t pid, pid_t tid, const char *file, char *text)
{
	char path[64];
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/%s", pid, tid, file);
	fd = sys_open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	n = sys_read(fd, text, PROC_BYTES - 1);
	sys_close(fd);
	if (n <= 0)
		return false;
	text[n] = '\0';
	return true;
}

/*
 * The state letter of proc_pid_stat(5); 0: unknown. It follows the command name, which can contain
 * any character.
 */
static char thread_state(pid_t pid, pid_t tid)
{
	char text[PROC_BYTES];
	const char *end;

	if (!read_proc(pid, tid, "stat", text))
		return 0;
	end = strrchr(text, ')');
	return end && end[1] == ' ' ? end[2] : 0;
}

/*
 * Whether the thread still belongs to the process that wrote the peer's segment, and that process
 * has not called exec(): the probe word is at the address in the segment. Returns true for errors
 * that do not prove the contrary.
 */
static bool has_same_image(const struct peer *peer, pid_t tid)
{
	const struct segment_hdr *hdr = &peer->segment->hdr;
	uint64_t seen = 0;
	struct iovec here = {.iov_base = &seen, .iov_len = sizeof(seen)};
	struct iovec there = {.iov_base = (void *)(uintptr_t)hdr->probe_addr,
			      .iov_len = sizeof(seen)};

	if (process_vm_readv(tid, &here, 1, &there, 1, 0) == sizeof(seen))
		return seen == hdr->probe;
	return errno != ESRCH && errno != EFAULT;
}

static bool is_at_harmless_wchan(pid_t pid, pid_t tid)
{
	char text[PROC_BYTES];

	if (!read_proc(pid, tid, "wchan", text))
		return false;
	for (size_t i = 0; i < COUNT(harmless_wchans); i++) {
		if (!strcmp(text, harmless_wchans[i]))
			return true;
	}
	return false;
}

/* Whether a traced or frozen thread is outside of all system calls (proc_pid_syscall(5)). */
static bool is_outside_syscalls(pid_t pid, pid_t tid)
{
	char text[PROC_BYTES];

	return read_proc(pid, tid, "syscall", text) && !strncmp(text, "-1 ", 3);
}

/*
 * Whether the thread that made the peer's announcement cannot move bytes any more without another
 * check. T: stopped by a signal on the return to user mode; an interrupted restartable sequence is
 * aborted there. t: stopped by a tracer, possibly at the entry of a system call.
 */
static bool is_harmless(const struct peer *peer)
{
	pid_t pid = peer->segment->hdr.pid;
	pid_t tid = (pid_t)atomic_load(&peer->rx.shared->accessing_tid);

	if (tid <= 0)
		return false;
	if (syscall(SYS_tgkill, pid, tid, 0) && errno == ESRCH)
		return true;
	switch (thread_state(pid, tid)) {
	case 'T':
	case 'X':
	case 'Z':
		return true;
	case 't':
	case 'S':
	case 'D':
		if (is_outside_syscalls(pid, tid) || is_at_harmless_wchan(pid, tid))
			return true;
		break;
	default:
		break;
	}
	return !has_same_image(peer, tid);
}

/*
 * Announcements of a peer that was never admitted are ignored, because the peer cannot access our
 * memory. seq_cst: the load follows the seq_cst store of the revoked word. It pairs with
 * peer_access_announce(), and as an acquire with the end of the announcement (onesided.c).
 */
static uint64_t announcement(const struct peer *peer)
{
	return peer->was_admitted ? atomic_load(&peer->rx.shared->accessing) : 0;
}

/* The first peer that may be accessing memory through the target; NULL: no peer does. */
static const struct peer *find_user(const struct local *local, const struct target *target,
				    bool has_waited)
{
	const struct peer *peer;

	list_for_each_entry(peer, &local->peers, node) {
		uint64_t access = announcement(peer);

		if (!access || (access & target->mask) != target->name)
			continue;
		if (!has_waited || !is_harmless(peer))
			return peer;
	}
	return NULL;
}

/*
 * Waits until no peer accesses the target. 0, or -EBUSY and *pid, the process that still accesses
 * it.
 */
static int wait_for_peers(struct engine *engine, const struct target *target, pid_t *pid)
{
	struct local *local = local_of(engine);
	const struct peer *user;
	uint64_t start_ns = 0, waited_ns = 0;

	peer_free_gone(local);
	for (unsigned int spins = 0;; spins++) {
		user = find_user(local, target, waited_ns >= LOOK_AFTER_NS);
		if (!user)
			return 0;
		if (spins < SPINS)
			continue;
		if (!start_ns)
			start_ns = clock_now_ns();
		waited_ns = clock_now_ns() - start_ns;
		if (waited_ns >= GIVE_UP_NS)
			break;
		engine_unlock(engine);
		sys_nap(NAP_NS);
		engine_lock(engine);
		engine_take_notices(engine);
	}
	*pid = user->segment->hdr.pid;
	return -EBUSY;
}

int revoke_mr(struct engine *engine, const struct mr *mr)
{
	const struct target target = {.mask = ring_access(0, UINT32_MAX),
				      .name = ring_access(0, mr->key)};
	pid_t pid = 0;
	int ret;

	engine_assert_once_locked(engine);
	segment_unpublish_mr(engine, mr);
	ret = wait_for_peers(engine, &target, &pid);
	if (!ret)
		return 0;
	segment_publish_mr(engine, mr);
	log_user(
		"cannot end memory region 0x%x: process %d has been inside a read or write of it for "
		"10 s; try again when that process has ended",
		mr->key, pid);
	return ret;
}

int revoke_qp(struct qp *qp)
{
	struct engine *engine = qp->context->engine;
	const struct target target = {.mask = ring_access(UINT32_MAX, 0),
				      .name = ring_access(qp->qpn, 0)};
	pid_t pid = 0;
	int ret;

	engine_assert_once_locked(engine);
	/* Peers read only the entries of QPs of this transport. */
	if (qp->transport != &local_transport)
		return 0;
	segment_unpublish_qp(qp);
	qp->revokers++;
	ret = wait_for_peers(engine, &target, &pid);
	qp->revokers--;
	if (!ret) {
		responder_stop_reads(local_qp_of(qp));
		return 0;
	}
	segment_publish_qp(qp);
	log_user("cannot stop queue pair 0x%x: process %d has been inside an RDMA operation of it "
		 "for 10 s; try again when that process has ended",
		 qp->qpn, pid);
	return ret;
}

/*
 * Whether the state of the peer's threads can be read by the thread ids that the peer announces.
 * The id of its engine thread must refer to the process that wrote the segment. /proc must contain
 * that thread under the same ids and must belong to our PID namespace.
 */
static bool can_watch(const struct peer *peer)
{
	const struct segment_hdr *hdr = &peer->segment->hdr;

	return peer->engine_tid && has_same_image(peer, peer->engine_tid) &&
	       thread_state(hdr->pid, peer->engine_tid) && procfs_is_ours();
}

void revoke_admit(struct peer *peer)
{
	struct local *local = local_of(peer->engine);

	if (!peer->may_reach_ours || !peer->segment ||
	    !atomic_load(&local->segment->hdr.engine_tid) || !can_watch(peer))
		return;
	peer->was_admitted = true;
	atomic_store(&peer->rx.shared->admitted, 1);
}

void revoke_admit_as(struct peer *peer, const struct peer *main)
{
	peer->was_admitted = main->was_admitted;
	if (peer->was_admitted)
		atomic_store(&peer->rx.shared->admitted, 1);
}

void revoke_admission(struct peer *peer)
{
	if (peer->was_admitted)
		atomic_store(&peer->rx.shared->admitted, 0);
}

bool revoke_is_over(const struct peer *peer)
{
	return !announcement(peer) || is_harmless(peer);
}
