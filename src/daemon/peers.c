/* SPDX-License-Identifier: BSD-2-Clause */
#include "daemon/peers.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "base/resize.h"
#include "daemon/control_counters.h"

#define SEGMENT_BYTES_MAX (1ull << 30)
#define SEGMENT_SEALS	  (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE)
#define MEMFD_NOEXEC_SEAL 0x0008u /* Linux 6.3; headers of Debian 12 lack it */

/* Two engines that were introduced. Owned by both sessions' lists; dies with the first of them. */
struct pair {
	uint64_t id;
	struct pair_end {
		struct list_head node; /* in the session's deposit.pairs */
		struct session *session;
		struct pair *pair;
	} ends[2];
};

static void on_push_failed(struct push *push)
{
	struct session *session = container_of(push, struct session, deposit.push);

	session->server->counters.unresponsive++;
	session_doom(session);
}

static void on_push_closed(struct push *push)
{
	session_handle_closed(container_of(push, struct session, deposit.push));
}

void peers_session_init(struct session *session)
{
	session->deposit = (struct deposit){.segment_fd = -1};
	push_init(&session->deposit.push, on_push_failed, on_push_closed);
	list_init(&session->deposit.pairs);
}

/* A segment's size can no longer change and nobody but its owner can write it: nothing a peer maps can fault. */
static bool is_segment(int fd, uint64_t bytes)
{
	struct stat st;
	int seals = fcntl(fd, F_GET_SEALS);

	if (seals < 0 || (seals & SEGMENT_SEALS) != SEGMENT_SEALS)
		return false;
	if (bytes == 0 || bytes > SEGMENT_BYTES_MAX)
		return false;
	return fstat(fd, &st) == 0 && (uint64_t)st.st_size == bytes;
}

/* The socket of its slot, for an engine that can now take it; without one it speaks to this host only. */
static int lend_socket(struct session *session)
{
	struct ipc_lend msg = {
		.hdr = {.type = IPC_LEND, .len = sizeof(msg)},
		.slot = session->slot,
	};
	int fd = roce_port_lend(&session->server->port, session->slot);

	return fd < 0 ? 0 : push_send(&session->deposit.push, &msg, sizeof(msg), &fd, 1);
}

int peers_deposit(struct session *session, const struct ipc_segment *req, int *fds)
{
	struct deposit *deposit = &session->deposit;
	int error;

	if (deposit->segment_fd >= 0)
		return -EEXIST;
	if (!is_segment(fds[0], req->segment_bytes))
		return -EINVAL;
	error = push_open(&deposit->push, session->server->loop, fds[1]);
	if (error)
		return error;
	session->handle_count++;
	deposit->segment_fd = fds[0];
	deposit->segment_bytes = req->segment_bytes;
	fds[0] = -1;
	fds[1] = -1;
	return lend_socket(session);
}

static struct pair *pair_find(struct session *session, const struct session *other)
{
	struct pair_end *end;

	list_for_each_entry(end, &session->deposit.pairs, node) {
		if (end->pair->ends[0].session == other || end->pair->ends[1].session == other)
			return end->pair;
	}
	return NULL;
}

/* Zeroed shared memory whose size nobody can change. The descriptor or -errno. */
static int pair_memory(void)
{
	int error;
	int fd = memfd_create("usrdma-pair", MFD_CLOEXEC | MFD_ALLOW_SEALING | MEMFD_NOEXEC_SEAL);

	if (fd < 0 && errno == EINVAL)
		fd = memfd_create("usrdma-pair", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (fd < 0)
		return -errno;
	error = resize_memory(fd, IPC_PAIR_BYTES);
	if (!error && fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0)
		error = -errno;
	if (!error)
		return fd;
	close(fd);
	return error;
}

/* Tells one side about the other; doorbells are the two ends of a socket pair. */
static int pair_push(const struct pair *pair, int memory_fd, const int *doorbells, uint32_t side)
{
	struct session *to = pair->ends[side].session;
	const struct session *peer = pair->ends[!side].session;
	bool is_same_uid = to->cred.uid == peer->cred.uid;
	struct ipc_peer msg = {
		.hdr = {.type = IPC_PEER, .len = sizeof(msg)},
		.slot = peer->slot,
		.flags = is_same_uid ? IPC_PEER_SAME_UID : 0,
		.pair_id = pair->id,
		.pid = peer->cred.pid,
		.uid = peer->cred.uid,
		.side = side,
		.pair_bytes = IPC_PAIR_BYTES,
		.segment_bytes = is_same_uid ? peer->deposit.segment_bytes : 0,
	};
	int fds[] = {memory_fd, doorbells[side], peer->deposit.segment_fd};

	return push_send(&to->deposit.push, &msg, sizeof(msg), fds, is_same_uid ? 3 : 2);
}

static void pair_link(struct pair *pair, uint32_t side, struct session *session)
{
	pair->ends[side].pair = pair;
	pair->ends[side].session = session;
	list_add_tail(&pair->ends[side].node, &session->deposit.pairs);
	session->deposit.pair_count++;
}

static void pair_unlink(struct pair *pair)
{
	for (int side = 0; side < 2; side++) {
		list_del(&pair->ends[side].node);
		pair->ends[side].session->deposit.pair_count--;
	}
}

/* Tells `to` that its pair with `peer` is over. */
static void gone_push(struct session *to, const struct session *peer, uint64_t pair_id)
{
	struct ipc_peer_gone msg = {
		.hdr = {.type = IPC_PEER_GONE, .len = sizeof(msg)},
		.slot = peer->slot,
		.pair_id = pair_id,
	};

	if (push_send(&to->deposit.push, &msg, sizeof(msg), NULL, 0))
		on_push_failed(&to->deposit.push);
}

/*
 * Whether a push failed for want of something, and not because its reader is dead: of the daemon's, or of room for more
 * that a reader has to hear. That one may be stopped, and those who come are no reason to end it.
 */
static bool is_shortage(int error)
{
	return error == -EMFILE || error == -ENFILE || error == -ENOMEM || error == -ETOOMANYREFS ||
	       error == -ENOBUFS;
}

/* Makes what the two share and tells them, the one that did not ask first: all or nothing. */
static int pair_announce(const struct pair *pair, int memory_fd, const int *doorbells)
{
	struct session *asker = pair->ends[0].session, *other = pair->ends[1].session;
	int error = pair_push(pair, memory_fd, doorbells, 1);

	if (error && is_shortage(error))
		return error;
	if (error) {
		on_push_failed(&other->deposit.push);
		return -ENOENT;
	}
	error = pair_push(pair, memory_fd, doorbells, 0);
	if (!error)
		return 0;
	gone_push(other, asker, pair->id);
	if (!is_shortage(error))
		on_push_failed(&asker->deposit.push);
	return error;
}

static int pair_make(const struct pair *pair)
{
	int doorbells[2], memory_fd, error;

	memory_fd = pair_memory();
	if (memory_fd < 0)
		return memory_fd;
	/* A socket and not an eventfd: whatever one side does to the file that both share, the other is never made to
	 * wait for it, and no third process's rings are lost. */
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, doorbells)) {
		error = -errno;
		goto err_doorbells;
	}
	error = pair_announce(pair, memory_fd, doorbells);
	close(doorbells[0]);
	close(doorbells[1]);
err_doorbells:
	close(memory_fd);
	return error;
}

int peers_introduce(struct session *session, uint32_t slot)
{
	struct session *other = slots_owner(&session->server->slots, slot);
	struct pair *pair;
	int error;

	if (session->deposit.segment_fd < 0 || slot == session->slot)
		return -EINVAL;
	if (!other || other->deposit.segment_fd < 0)
		return -ENOENT;
	if (pair_find(session, other))
		return 0;

	pair = calloc(1, sizeof(*pair));
	if (!pair)
		return -ENOMEM;
	pair->id = session->server->next_pair_id++;
	pair_link(pair, 0, session);
	pair_link(pair, 1, other);
	error = pair_make(pair);
	if (error) {
		pair_unlink(pair);
		free(pair);
		return error;
	}
	session->server->counters.introductions++;
	return 0;
}

void peers_leave(struct session *session)
{
	struct deposit *deposit = &session->deposit;

	while (!list_is_empty(&deposit->pairs)) {
		struct pair *pair = list_first_entry(&deposit->pairs, struct pair_end, node)->pair;
		struct session *other = pair->ends[0].session == session ? pair->ends[1].session :
									   pair->ends[0].session;

		gone_push(other, session, pair->id);
		pair_unlink(pair);
		free(pair);
	}
	if (deposit->segment_fd < 0)
		return;
	control_counters_read(session->server->departed, deposit->segment_fd,
			      deposit->segment_bytes);
	close(deposit->segment_fd);
	deposit->segment_fd = -1;
	push_close(&deposit->push);
}
