/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fdpass.h"
#include "base/log.h"
#include "local/local.h"

static struct peer *peer_new(struct engine *engine, uint32_t slot)
{
	struct peer *peer = calloc(1, sizeof(*peer));

	if (!peer)
		return NULL;
	peer->engine = engine;
	peer->slot = slot;
	peer->doorbell_fd = -1;
	list_init(&peer->node);
	list_init(&peer->qps);
	list_init(&peer->blocked);
	list_init(&peer->answering);
	timer_init(&peer->stuck_timer, local_datagram_timer);
	return peer;
}

static void peer_free(struct peer *peer)
{
	struct local *local = local_of(peer->engine);

	list_del(&peer->node);
	timer_cancel(&peer->engine->timers, &peer->stuck_timer);
	if (local->by_slot[peer->slot] == peer)
		local->by_slot[peer->slot] = NULL;
	if (peer->pair)
		munmap(peer->pair, peer->pair_bytes);
	if (peer->segment && peer->segment != local->segment)
		munmap((void *)(uintptr_t)peer->segment, SEGMENT_BYTES);
	if (peer->doorbell_fd >= 0)
		close(peer->doorbell_fd);
	free(peer);
}

void peer_unref_if_gone(struct peer *peer)
{
	if (peer->is_gone && list_is_empty(&peer->qps))
		peer_free(peer);
}

static void peer_enlist(struct local *local, struct peer *peer)
{
	local->by_slot[peer->slot] = peer;
	list_add_tail(&peer->node, &local->peers);
	/* The thread may be asleep since before this ring had a flag to say so. */
	engine_wake(local->engine);
}

/* A peer's memory is reachable if its pid leads to the process that wrote the segment, both ways. */
static bool probe_memory(const struct peer *peer)
{
	const struct segment_hdr *hdr = &peer->segment->hdr;
	uint64_t seen = 0, probe = hdr->probe;
	struct iovec here = {.iov_base = &seen, .iov_len = sizeof(seen)};
	struct iovec there = {.iov_base = (void *)(uintptr_t)hdr->probe_addr,
			      .iov_len = sizeof(seen)};

	if (process_vm_readv(peer->pid, &here, 1, &there, 1, 0) != sizeof(seen) || seen != probe)
		return false;
	/* Writing back what stands there: the word never changes, so this is harmless. */
	return process_vm_writev(peer->pid, &here, 1, &there, 1, 0) == sizeof(seen);
}

/* Between QPs of one process: the same code over memory that nobody else has. One ring, written and read here. */
static struct peer *peer_self(struct engine *engine)
{
	struct peer *peer = peer_new(engine, engine->slot);

	if (!peer)
		return NULL;
	peer->pid = getpid();
	peer->pair_bytes = sizeof(struct ring_pair);
	peer->pair = mmap(NULL, peer->pair_bytes, PROT_READ | PROT_WRITE,
			  MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (peer->pair == MAP_FAILED) {
		free(peer);
		return NULL;
	}
	peer->segment = local_of(engine)->segment;
	peer->may_reach_ours = true;
	peer->can_reach_memory = probe_memory(peer);
	ring_writer_init(&peer->tx, &peer->pair->rings[0]);
	ring_reader_init(&peer->rx, &peer->pair->rings[0]);
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
	if (notice->pair_bytes < sizeof(struct ring_pair) || notice->side > 1)
		return -EPROTO;
	peer->pair_bytes = sizeof(struct ring_pair);
	peer->pair = mmap(NULL, peer->pair_bytes, PROT_READ | PROT_WRITE,
			  MAP_SHARED | MAP_NORESERVE, fd, 0);
	if (peer->pair == MAP_FAILED) {
		peer->pair = NULL;
		return -errno;
	}
	ring_writer_init(&peer->tx, &peer->pair->rings[notice->side]);
	ring_reader_init(&peer->rx, &peer->pair->rings[!notice->side]);
	return 0;
}

static void take_peer(struct engine *engine, const struct ipc_peer *notice, const int *fds,
		      int nfds)
{
	struct local *local = local_of(engine);
	bool is_same_uid = notice->flags & IPC_PEER_SAME_UID;
	struct peer *peer;

	if (nfds != (is_same_uid ? 3 : 2) || notice->slot == 0 || notice->slot >= IPC_SLOTS ||
	    notice->slot == engine->slot)
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
	if (engine_watch(engine, fds[1]))
		goto err_maps;
	peer->doorbell_fd = fds[1];
	close(fds[0]);
	if (nfds == 3)
		close(fds[2]);
	peer_enlist(local, peer);
	log_debug("introduced to pid %d, slot %u, %s", peer->pid, peer->slot,
		  peer->can_reach_memory ? "memory reachable" : "rings only");
	return;

err_maps:
	peer_free(peer);
	goto err_fds;
err_peer:
	free(peer);
err_fds:
	fdpass_close(fds, nfds);
}

/*
 * The process is dead. What it had sent before still counts; then all that waits for its answers fails. Half a message
 * of its waits on, as it would behind a NIC, until our QP ends.
 */
static void take_gone(struct engine *engine, const struct ipc_peer_gone *notice)
{
	struct local *local = local_of(engine);
	struct local_qp *lqp, *tmp;
	struct peer *peer;

	if (notice->slot >= IPC_SLOTS)
		return;
	peer = local->by_slot[notice->slot];
	if (!peer || peer->pair_id != notice->pair_id)
		return;
	local_drain(peer);
	log_debug("pid %d, slot %u, is gone", peer->pid, peer->slot);
	peer->is_gone = true;
	peer->gone_ns = clock_now_ns();
	peer->can_reach_memory = false;
	local->by_slot[peer->slot] = NULL;
	list_for_each_entry_safe(lqp, tmp, &peer->qps, node)
		requester_peer_gone(lqp);
	relay_gone(engine, peer->slot);
	peer_unref_if_gone(peer);
}

void peer_notice(struct engine *engine, const struct ipc_hdr *notice, const int *fds, int nfds)
{
	if (notice->type == IPC_PEER && notice->len == sizeof(struct ipc_peer)) {
		take_peer(engine, (const struct ipc_peer *)(const void *)notice, fds, nfds);
		return;
	}
	fdpass_close(fds, nfds);
	if (notice->type == IPC_PEER_GONE && notice->len == sizeof(struct ipc_peer_gone))
		take_gone(engine, (const struct ipc_peer_gone *)(const void *)notice);
}

struct peer *peer_get(struct engine *engine, uint32_t slot)
{
	struct local *local = local_of(engine);

	if (slot == 0 || slot >= IPC_SLOTS)
		return NULL;
	if (local->by_slot[slot])
		return local->by_slot[slot];
	if (slot == engine->slot) {
		struct peer *self = peer_self(engine);

		if (self)
			peer_enlist(local, self);
		return self;
	}
	if (engine_introduce(engine, slot))
		return NULL;
	return local->by_slot[slot];
}

/*
 * After cells were committed: wakes the reader if it sleeps. The fence orders our cells before our look at its flag, as
 * the reader's orders its flag before its last look at the cells (local.c), so one of the two sees the other.
 */
void peer_ring_doorbell(struct peer *peer)
{
	struct ring_shared *shared = peer->tx.shared;

	peer->has_sent = false;
	if (peer->doorbell_fd < 0) {
		/* To ourselves: whoever holds the lock now runs the ring at the end of its turn, or the thread does. */
		if (atomic_exchange(&shared->reader_sleeps, 0))
			engine_wake(peer->engine);
		return;
	}
	atomic_thread_fence(memory_order_seq_cst);
	if (atomic_load_explicit(&shared->reader_sleeps, memory_order_relaxed) &&
	    atomic_exchange(&shared->reader_sleeps, 0))
		(void)send(peer->doorbell_fd, "", 1, MSG_DONTWAIT | MSG_NOSIGNAL);
}

void peer_close_all(struct local *local)
{
	struct peer *peer, *tmp;

	list_for_each_entry_safe(peer, tmp, &local->peers, node)
		peer_free(peer);
}
