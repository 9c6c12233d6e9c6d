/* SPDX-License-Identifier: BSD-2-Clause */
#include "local/peer.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fdpass.h"
#include "base/log.h"
#include "base/syscalls.h"
#include "core/engine/discard.h"
#include "core/engine/engine.h"
#include "core/engine/engine_watch.h"
#include "core/engine/lock_check.h"
#include "local/ack_wait.h"
#include "local/channel_copy.h"
#include "local/channel_wake.h"
#include "local/datagram.h"
#include "local/guarded_copy.h"
#include "local/local.h"
#include "local/peer_connect.h"
#include "local/peer_map.h"
#include "local/peer_shard.h"
#include "local/qp.h"
#include "local/requester.h"
#include "local/revoke.h"
#include "local/ring.h"
#include "local/run.h"

struct peer *peer_new(struct engine *engine, uint32_t slot)
{
	struct peer *peer = calloc(1, sizeof(*peer));

	if (!peer)
		return NULL;
	peer->engine = engine;
	peer->slot = slot;
	peer->main = peer;
	list_init(&peer->node);
	list_init(&peer->shard_node);
	list_init(&peer->qps);
	list_init(&peer->blocked);
	list_init(&peer->responding);
	list_init(&peer->waiting_acks);
	timer_init(&peer->blocked_timer, local_datagram_timer);
	return peer;
}

/* Time until IPC_PEER_NOT_TAKEN is sent again if the connection to the daemon was busy. */
#define NOT_TAKEN_RETRY_NS (10 * CLOCK_NS_PER_MS)

void peer_not_taken_timer(struct timer *timer, uint64_t now_ns)
{
	struct local *local = container_of(timer, struct local, not_taken_timer);
	struct engine *engine = local->engine;

	for (uint32_t slot = 0; slot < IPC_SLOTS; slot++) {
		struct ipc_peer_gone msg = {.hdr.type = IPC_PEER_NOT_TAKEN,
					    .slot = slot,
					    .pair_id = local->not_taken[slot]};

		if (!msg.pair_id)
			continue;
		if (engine_try_send_request(engine, &msg, sizeof(msg)) == -EAGAIN) {
			timer_add(&engine->timers, timer, now_ns + NOT_TAKEN_RETRY_NS);
			engine_timer_added(engine);
			return;
		}
		/* If the connection to the daemon has failed, the pair does not exist any more. */
		local->not_taken[slot] = 0;
	}
}

/* Reports to the daemon that this process has no descriptor of the pair any more. */
static void leave_pair(struct local *local, uint32_t slot, uint64_t pair_id)
{
	local->not_taken[slot] = pair_id;
	peer_not_taken_timer(&local->not_taken_timer, clock_now_ns());
}

static void peer_free(struct peer *peer)
{
	struct local *local = local_of(peer->engine);

	list_del(&peer->node);
	list_del(&peer->shard_node);
	peer_map_close(peer);
	local_wakes_close(peer);
	channel_copies_close(peer);
	if (peer->main != peer) {
		peer->main->links--;
		free(peer);
		return;
	}
	timer_cancel(&peer->engine->timers, &peer->blocked_timer);
	if (local->by_slot[peer->slot] == peer)
		local->by_slot[peer->slot] = NULL;
	if (peer->pair)
		discard_mapping(peer->engine, peer->pair, sizeof(*peer->pair));
	if (peer->segment && peer->segment != local->segment)
		munmap((void *)(uintptr_t)peer->segment, SEGMENT_BYTES);
	engine_unwatch(peer->engine, peer->doorbell_watch);
	doorbell_put(peer->doorbell);
	if (peer->is_gone && peer->is_doorbell_checked)
		leave_pair(local, peer->slot, peer->pair_id);
	free(peer);
}

/*
 * Reads one message of the doorbell's socket: one byte, or the descriptor of a completion channel.
 * false: end of the stream, or a malformed message.
 */
static bool read_doorbell(struct peer *peer)
{
	struct channel_answer message;
	int fd, nfds;
	ssize_t n;

	if (peer->is_doorbell_checked && fdpass_has_fds(peer->doorbell->fd))
		return false;
	n = fdpass_recv(peer->doorbell->fd, &message, sizeof(message), &fd, peer->may_reach_ours,
			&nfds, MSG_DONTWAIT);
	if (n < 0)
		return n != -EMSGSIZE && n != -EPROTO;
	if (n == sizeof(message) && nfds == 1)
		channel_copy_take(peer, message.channel, fd);
	else if (nfds == 1)
		sys_close(fd);
	return n == (nfds ? (ssize_t)sizeof(message) : 1);
}

/*
 * A peer sends one message for each time that this process sleeps, so that there is seldom a second
 * one; the watch reports it again. On EOF or a malformed message its watch ends: the daemon reports
 * the exit of a peer. A message of another user with descriptors is not received, because the
 * kernel would close them here, under engine.lock.
 */
static void peer_read_doorbell(struct engine *engine, void *arg)
{
	struct peer *peer = arg;

	if (!read_doorbell(peer)) {
		engine_unwatch(engine, peer->doorbell_watch);
		peer->doorbell_watch = 0;
	}
}

/*
 * An admitted peer is not freed before its last access has ended, because revoke.c waits for this
 * access.
 */
void peer_unref_if_gone(struct peer *peer)
{
	struct peer *main = peer->main;

	if (!peer->is_gone || !list_is_empty(&peer->qps) || peer->links || !revoke_is_over(peer))
		return;
	peer_free(peer);
	if (main != peer)
		peer_unref_if_gone(main);
}

void peer_free_gone(struct local *local)
{
	struct peer *peer, *tmp;

	list_for_each_entry_safe(peer, tmp, &local->peers, node)
		peer_unref_if_gone(peer);
}

/*
 * Whether the id of the peer's engine thread refers to the process that wrote the segment, and its
 * memory can be read and written. exec() ends that thread before the process gets another address
 * space, and the end of the thread changes life_word.
 */
static bool probe_memory(struct peer *peer)
{
	const struct segment_hdr *hdr = &peer->segment->hdr;
	uint64_t seen = 0, probe = hdr->probe;
	struct iovec here = {.iov_base = &seen, .iov_len = sizeof(seen)};
	struct iovec there = {.iov_base = (void *)(uintptr_t)hdr->probe_addr,
			      .iov_len = sizeof(seen)};

	peer->engine_tid = (pid_t)atomic_load(&hdr->engine_tid);
	peer->life_word = atomic_load(&hdr->life.word);
	if (!peer->engine_tid || (pid_t)atomic_load(&hdr->life.futex) != peer->engine_tid ||
	    !guarded_copy_is_available())
		return false;
	if (process_vm_readv(peer->engine_tid, &here, 1, &there, 1, 0) != sizeof(seen) ||
	    seen != probe)
		return false;
	/*
	 * The write stores the value that was read. The word never changes, so the write has no
	 * effect.
	 */
	return process_vm_writev(peer->engine_tid, &here, 1, &there, 1, 0) == sizeof(seen);
}

/*
 * The peer for QPs of this process: private memory with one FIFO that this process writes and
 * reads.
 */
static struct peer *peer_self(struct engine *engine)
{
	struct peer *peer = peer_new(engine, engine->slot);

	if (!peer)
		return NULL;
	peer->pid = getpid();
	peer->side = PEER_SELF;
	peer->pair = mmap(NULL, sizeof(*peer->pair), PROT_READ | PROT_WRITE,
			  MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (peer->pair == MAP_FAILED) {
		free(peer);
		return NULL;
	}
	peer->segment = local_of(engine)->segment;
	peer->may_reach_ours = true;
	peer->can_reach_memory = probe_memory(peer);
	return peer;
}

static const struct segment *map_segment(int fd)
{
	struct stat st;
	const struct segment *segment;
	int seals = fcntl(fd, F_GET_SEALS);

	if (seals < 0 || !(seals & F_SEAL_SHRINK) || fstat(fd, &st) ||
	    (uint64_t)st.st_size != SEGMENT_BYTES)
		return NULL;
	segment = mmap(NULL, SEGMENT_BYTES, PROT_READ, MAP_SHARED | MAP_NORESERVE, fd, 0);
	if (segment == MAP_FAILED)
		return NULL;
	if (segment->hdr.magic == SEGMENT_MAGIC && segment->hdr.version == SEGMENT_VERSION)
		return segment;
	munmap((void *)(uintptr_t)segment, SEGMENT_BYTES);
	return NULL;
}

static int map_pair(struct peer *peer, const struct ipc_peer *notice, int fd)
{
	if (notice->pair_bytes < sizeof(*peer->pair) || notice->side > 1)
		return -EPROTO;
	peer->side = notice->side;
	peer->pair = mmap(NULL, sizeof(*peer->pair), PROT_READ | PROT_WRITE,
			  MAP_SHARED | MAP_NORESERVE, fd, 0);
	if (peer->pair == MAP_FAILED) {
		peer->pair = NULL;
		return -errno;
	}
	return 0;
}

/*
 * Requests the end of the pair from the daemon. The peer then stops waiting, and both can request
 * another pair.
 */
static void refuse_peer(struct local *local, const struct ipc_peer *notice)
{
	log_debug("no shared-memory connection to slot %u: no memory or descriptor left",
		  notice->slot);
	leave_pair(local, notice->slot, notice->pair_id);
	peer_connect_end(local, notice->slot, true);
}

static void take_peer(struct engine *engine, const struct ipc_hdr *hdr, const int *fds, int nfds)
{
	const struct ipc_peer *notice = (const void *)hdr;
	struct local *local = local_of(engine);
	bool is_same_uid = notice->flags & IPC_PEER_SAME_UID;
	struct peer *peer;

	if (notice->slot == 0 || notice->slot >= IPC_SLOTS || notice->slot == engine->slot) {
		fdpass_close(fds, nfds);
		return;
	}
	if (nfds != (is_same_uid ? 3 : 2))
		goto err_fds;
	peer = peer_new(engine, notice->slot);
	if (!peer)
		goto err_fds;
	peer->pair_id = notice->pair_id;
	peer->pid = notice->pid;
	peer->may_reach_ours = is_same_uid;
	if (map_pair(peer, notice, fds[0]))
		goto err_peer;
	if (is_same_uid)
		peer->segment = map_segment(fds[2]);
	peer->can_reach_memory = peer->segment && probe_memory(peer);
	peer->is_doorbell_checked = !is_same_uid && !fdpass_is_refused(fds[1]);
	if (engine_watch(engine, fds[1], WATCH_BY_ANY, peer_read_doorbell, peer,
			 &peer->doorbell_watch))
		goto err_maps;
	peer->doorbell = doorbell_new(fds[1]);
	if (!peer->doorbell)
		goto err_maps;
	sys_close(fds[0]);
	if (nfds == 3)
		sys_close(fds[2]);
	local->by_slot[peer->slot] = peer;
	peer_enlist(local, peer);
	revoke_admit(peer);
	log_debug("shared-memory connection to pid %d, slot %u, %s", peer->pid, peer->slot,
		  peer->can_reach_memory ? "memory reachable" : "FIFOs only");
	peer_connect_end(local, peer->slot, false);
	return;

err_maps:
	peer_free(peer);
	goto err_fds;
err_peer:
	free(peer);
err_fds:
	fdpass_close(fds, nfds);
	refuse_peer(local, notice);
}

static void peer_end(struct peer *peer)
{
	struct local_qp *lqp, *tmp;

	peer->is_gone = true;
	peer->gone_ns = clock_now_ns();
	peer->can_reach_memory = false;
	peer_map_close(peer);
	local_wakes_close(peer);
	channel_copies_close(peer);
	revoke_admission(peer);
	list_for_each_entry_safe(lqp, tmp, &peer->qps, node)
		local_requester_peer_gone(lqp);
}

/*
 * The peer's process has ended. The cells that it sent before are executed; then outstanding
 * requests to it fail. A receive WQE with a partly received message stays outstanding until our QP
 * is closed, as with a NIC.
 */
static void take_gone(struct engine *engine, const struct ipc_hdr *hdr, const int *fds, int nfds)
{
	const struct ipc_peer_gone *notice = (const void *)hdr;
	struct local *local = local_of(engine);
	struct peer *main, *peer, *tmp;

	(void)fds;
	(void)nfds;
	if (notice->slot >= IPC_SLOTS)
		return;
	main = local->by_slot[notice->slot];
	if (!main || main->pair_id != notice->pair_id)
		return;
	peer_open_shards(main);
	list_for_each_entry(peer, &local->peers, node) {
		if (peer->main == main)
			local_drain(peer);
	}
	log_debug("pid %d, slot %u, has exited", main->pid, main->slot);
	local->by_slot[main->slot] = NULL;
	list_for_each_entry(peer, &local->peers, node) {
		if (peer->main == main)
			peer_end(peer);
	}
	xrc_forward_peer_exited(engine, main->slot);
	main->links++;
	list_for_each_entry_safe(peer, tmp, &local->peers, node) {
		if (peer->main == main && peer != main)
			peer_unref_if_gone(peer);
	}
	main->links--;
	peer_unref_if_gone(main);
}

static void take_connect_peer_failed(struct engine *engine, const struct ipc_hdr *hdr,
				     const int *fds, int nfds)
{
	const struct ipc_connect_peer *notice = (const void *)hdr;

	(void)fds;
	(void)nfds;
	if (notice->slot >= IPC_SLOTS)
		return;
	log_debug("the daemon rejected a shared-memory connection to slot %u: %s", notice->slot,
		  strerror(-notice->error));
	peer_connect_end(local_of(engine), notice->slot, true);
}

int peer_register_notices(struct engine *engine)
{
	int ret = engine_on_notice(engine, IPC_PEER, take_peer,
				   "the connection to another process");

	if (!ret)
		ret = engine_on_notice(engine, IPC_PEER_GONE, take_gone, NULL);
	if (!ret)
		ret = engine_on_notice(engine, IPC_CONNECT_PEER_FAILED, take_connect_peer_failed,
				       NULL);
	return ret;
}

struct peer *peer_find(struct engine *engine, uint32_t slot)
{
	struct local *local = local_of(engine);
	struct peer *self;

	if (slot == 0 || slot >= IPC_SLOTS)
		return NULL;
	if (local->by_slot[slot])
		return local->by_slot[slot];
	if (slot != engine->slot)
		return NULL;
	self = peer_self(engine);
	if (!self)
		return NULL;
	local->by_slot[slot] = self;
	peer_enlist(local, self);
	revoke_admit(self);
	return self;
}

void peer_request(struct engine *engine, uint32_t slot)
{
	bool is_unknown;

	engine_assert_unlocked(engine);
	if (slot == 0 || slot >= IPC_SLOTS || slot == engine->slot)
		return;
	engine_lock(engine);
	is_unknown = !engine_usable(engine) && !local_of(engine)->by_slot[slot];
	engine_unlock(engine);
	/* On failure the QP is bound without a peer. */
	if (is_unknown)
		(void)!engine_connect_peer(engine, slot);
}

/*
 * Wakes the reader if it sleeps; to be called after cells were committed. The fence orders the
 * stores of the cells before the load of reader_sleeps. The reader's fence orders its store of
 * reader_sleeps before its last check of the cells (local_sleep()). Therefore either the reader
 * finds the cells or the writer finds the flag.
 */
void peer_ring_doorbell(struct peer *peer)
{
	struct ring_shared *shared = peer->tx.shared;

	peer->has_sent = false;
	peer->has_deferred_doorbell = false;
	if (peer->has_waiting_acks)
		local_ack_wait_end_all(peer);
	if (!peer->doorbell) {
		/*
		 * The peer is this process: a polling thread or the engine thread executes the
		 * cells. local_sleep() sets reader_sleeps with all locks held, and this function
		 * holds the lock of the shard, so that no fence is necessary.
		 */
		if (atomic_load_explicit(&shared->reader_sleeps, memory_order_relaxed)) {
			atomic_store(&shared->reader_sleeps, 0);
			engine_lock_base(peer->engine);
			engine_wake_late(peer->engine);
			engine_unlock_base(peer->engine);
		}
		return;
	}
	if (ring_reader_polls(&peer->tx))
		return;
	atomic_thread_fence(memory_order_seq_cst);
	if (local_wake_covers(peer))
		return;
	if (atomic_load_explicit(&shared->reader_sleeps, memory_order_relaxed) &&
	    atomic_exchange(&shared->reader_sleeps, 0)) {
		engine_lock_base(peer->engine);
		/*
		 * Nothing may refer to such a doorbell after peer_free() has reported that it is
		 * closed.
		 */
		if (peer->is_doorbell_checked)
			doorbell_ring(peer->doorbell);
		else
			doorbell_ring_late(peer->engine, peer->doorbell);
		engine_unlock_base(peer->engine);
	}
}

void peer_disown_all(struct local *local)
{
	struct peer *peer;

	list_for_each_entry(peer, &local->peers, node) {
		if (peer->doorbell && peer->main == peer)
			doorbell_disown(peer->doorbell);
		local_wakes_disown(peer);
		channel_copies_disown(peer);
	}
}

void peer_close_all(struct local *local)
{
	struct peer *peer, *tmp;

	timer_cancel(&local->engine->timers, &local->not_taken_timer);
	timer_cancel(&local->engine->timers, &local->peer_connect_timer);
	timer_cancel(&local->engine->timers, &local->ack_timer);
	list_for_each_entry_safe(peer, tmp, &local->peers, node) {
		if (peer->main != peer)
			peer_free(peer);
	}
	list_for_each_entry_safe(peer, tmp, &local->peers, node)
		peer_free(peer);
}
