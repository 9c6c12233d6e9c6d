/* SPDX-License-Identifier: BSD-2-Clause */
#include "daemon/peers.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fdpass.h"
#include "base/resize.h"
#include "base/seal.h"
#include "daemon/control_counters.h"
#include "daemon/descriptors.h"
#include "daemon/user_log.h"
#include "link/udp_socket.h"

#define SEGMENT_BYTES_MAX (1ull << 30)
#define MEMFD_NOEXEC_SEAL 0x0008u /* Linux 6.3; headers of Debian 12 lack it */

/*
 * The number of pairs that are over and that a session has not left yet. With more, it gets no
 * further pair of this kind: each keeps a descriptor.
 */
#define PAIRS_OVER_MAX 64

/*
 * A pair of two engines. In the lists of both sessions; over when the first of the two leaves it.
 *
 * If the processes have different users, each could send descriptors into the queue of the other's
 * doorbell, and close() of a doorbell closes what is in its queue, which can block (closer.h). If
 * the kernel cannot prevent this (fdpass_refuse()), the daemon keeps both ends open, so that
 * close() of an engine is not the last one. It closes an end after its engine has closed it: the
 * engine reports this for a pair that is over (PEER_NOT_TAKEN), or its session ends. Such a pair is
 * freed when both have left.
 */
struct pair {
	uint64_t id;
	bool is_over;
	struct pair_end {
		struct list_head node;	 /* in the session's published.pairs */
		struct session *session; /* NULL: it has left */
		struct pair *pair;
		uid_t uid;
		int doorbell; /* -1: not kept */
	} ends[2];
};

static bool push_may_keep(struct push *push, int fd)
{
	return descriptors_may_keep(container_of(push, struct session, published.push), fd);
}

static void on_push_failed(struct push *push)
{
	struct session *session = container_of(push, struct session, published.push);

	session->server->counters.unresponsive++;
	session_end_later(session);
}

static void on_push_closed(struct push *push)
{
	session_handle_closed(container_of(push, struct session, published.push));
}

void peers_session_init(struct session *session)
{
	session->published = (struct published){.segment_fd = -1};
	push_init(&session->published.push, session->server->loop, &session->server->closer,
		  push_may_keep, on_push_failed, on_push_closed);
	list_init(&session->published.pairs);
}

/*
 * Checks the seals and the size of a segment. The size of a sealed segment cannot change, so a
 * peer's access to its mapping does not fault. Only the owner can write the segment.
 */
static bool is_segment(int fd, uint64_t bytes)
{
	struct stat st;

	if (!seal_has_future_writes(fd, F_SEAL_SHRINK | F_SEAL_GROW))
		return false;
	if (bytes == 0 || bytes > SEGMENT_BYTES_MAX)
		return false;
	return fstat(fd, &st) == 0 && (uint64_t)st.st_size == bytes;
}

/* Delegates the receive socket to a process of the daemon's own user. */
static int push_socket(struct session *session, int fd)
{
	struct ipc_delegate msg = {
		.hdr = {.type = IPC_DELEGATE, .len = sizeof(msg)},
		.slot = session->slot,
	};

	return push_send(&session->published.push, &msg, sizeof(msg), &fd, 1, session->cred.uid);
}

/*
 * A process of another user gets a forwarding ring. With the socket itself it could detach the BPF
 * program that selects the receiving socket, or change the order of the sockets in the reuseport
 * group.
 */
static int push_ring(struct session *session, int socket_fd)
{
	struct ipc_ring msg = {
		.hdr = {.type = IPC_RING, .len = sizeof(msg)},
		.slot = session->slot,
		.rx_bytes = udp_socket_rx_bytes(socket_fd),
	};
	int fds[IPC_RING_FDS], error;

	error = roce_forward_add(&session->server->forward, session->slot, socket_fd, fds);
	if (error) {
		user_log(USER_LOG_ROCE, LOG_LEVEL_WARN, session->cred.uid,
			 "pid %ld cannot use RoCE: %s", (long)session->cred.pid, strerror(-error));
		return 0;
	}
	error = push_send(&session->published.push, &msg, sizeof(msg), fds, IPC_RING_FDS,
			  session->cred.uid);
	for (int i = 0; i < IPC_RING_FDS; i++)
		close(fds[i]);
	return error;
}

/*
 * Passes the RoCEv2 datagrams for the engine's slot to the engine, by a socket or a ring. Without
 * them the engine only connects to processes of this host.
 */
static int delegate_port(struct session *session)
{
	struct server *server = session->server;
	int fd;

	/* An engine may publish a segment again; its preceding ring ends. */
	roce_forward_remove(&server->forward, session->slot);
	fd = roce_port_delegate(&server->port, session->slot);
	if (fd < 0)
		return 0;
	return session->cred.uid == server->uid ? push_socket(session, fd) : push_ring(session, fd);
}

int peers_publish(struct session *session, const struct ipc_segment *req, int *fds, int *client_end)
{
	struct published *published = &session->published;
	bool was_open = published->push.is_open;
	int error;

	if (!list_is_empty(&published->pairs))
		return -EEXIST;
	if (!is_segment(fds[0], req->segment_bytes))
		return -EINVAL;
	if (!descriptors_may_keep(session, fds[0]))
		return -EMFILE;
	error = push_open(&published->push, client_end);
	if (error)
		return error;
	if (!was_open)
		session->handle_count++;
	closer_add(&session->server->closer, session->cred.uid, published->segment_fd);
	published->segment_fd = fds[0];
	published->segment_bytes = req->segment_bytes;
	fds[0] = -1;
	return delegate_port(session);
}

static struct pair *pair_find(struct session *session, const struct session *other)
{
	struct pair_end *end;

	list_for_each_entry(end, &session->published.pairs, node) {
		if (end->pair->ends[0].session == other || end->pair->ends[1].session == other)
			return end->pair;
	}
	return NULL;
}

/*
 * Creates zeroed shared memory of fixed (sealed) size for a pair. Returns the descriptor or -errno.
 */
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

/* Pushes PEER to one side; doorbells are the two ends of a socket pair. */
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
		.segment_bytes = is_same_uid ? peer->published.segment_bytes : 0,
	};
	int fds[] = {memory_fd, doorbells[side], peer->published.segment_fd};

	/* The peer's uid: only the peer can write into this side's end of the doorbell. */
	return push_send(&to->published.push, &msg, sizeof(msg), fds, is_same_uid ? 3 : 2,
			 peer->cred.uid);
}

static void pair_link(struct pair *pair, uint32_t side, struct session *session)
{
	pair->ends[side] = (struct pair_end){
		.session = session, .pair = pair, .uid = session->cred.uid, .doorbell = -1};
	list_add_tail(&pair->ends[side].node, &session->published.pairs);
	session->published.pair_count++;
}

/*
 * The pair has ended for both engines. One that has to close its doorbell first is in its session's
 * list still.
 */
static void pair_set_over(struct pair *pair)
{
	pair->is_over = true;
	for (int side = 0; side < 2; side++) {
		pair->ends[side].session->published.pair_count--;
		pair->ends[side].session->published.over_count++;
	}
}

/*
 * The engine has closed its doorbell, or has none. The pair must be over; it is freed with its
 * second end.
 */
static void pair_leave(struct pair *pair, int side)
{
	struct pair_end *end = &pair->ends[side], *other = &pair->ends[!side];

	/* On the account of the user who can have put descriptors into the queue. */
	closer_add(&end->session->server->closer, other->uid, end->doorbell);
	end->session->published.doorbell_count -= end->doorbell >= 0;
	end->session->published.over_count--;
	end->session = NULL;
	list_del(&end->node);
	if (!other->session)
		free(pair);
}

static void pair_remove(struct pair *pair)
{
	pair_set_over(pair);
	pair_leave(pair, 0);
	pair_leave(pair, 1);
}

/* Pushes PEER_GONE to `to`: its pair with `peer` has ended. */
static void gone_push(struct session *to, const struct session *peer, uint64_t pair_id)
{
	struct ipc_peer_gone msg = {
		.hdr = {.type = IPC_PEER_GONE, .len = sizeof(msg)},
		.slot = peer->slot,
		.pair_id = pair_id,
	};

	if (push_send(&to->published.push, &msg, sizeof(msg), NULL, 0, 0))
		on_push_failed(&to->published.push);
}

void peers_connect_peer_failed(struct session *session, uint32_t slot, int error)
{
	const struct ipc_connect_peer msg = {
		.hdr = {.type = IPC_CONNECT_PEER_FAILED, .len = sizeof(msg)},
		.slot = slot,
		.error = error,
	};
	struct push *push = &session->published.push;

	if (push->is_open && push_send(push, &msg, sizeof(msg), NULL, 0, 0))
		on_push_failed(push);
}

/*
 * Whether a push failed because of a resource shortage: of the daemon, or because the reader has
 * too many unread pushes. Such a reader may be stopped; new peers must not cause the end of its
 * session. Other errors mean that the connection is lost.
 */
static bool is_shortage(int error)
{
	return error == -EMFILE || error == -ENFILE || error == -ENOMEM || error == -ETOOMANYREFS ||
	       error == -ENOBUFS;
}

/*
 * Pushes PEER to both sides, first to the side that did not send the request. On failure neither
 * side has the pair.
 */
static int pair_announce(const struct pair *pair, int memory_fd, const int *doorbells)
{
	struct session *asker = pair->ends[0].session, *other = pair->ends[1].session;
	int error = pair_push(pair, memory_fd, doorbells, 1);

	if (error && is_shortage(error))
		return error;
	if (error) {
		on_push_failed(&other->published.push);
		return -ENOENT;
	}
	error = pair_push(pair, memory_fd, doorbells, 0);
	if (!error)
		return 0;
	gone_push(other, asker, pair->id);
	if (!is_shortage(error))
		on_push_failed(&asker->published.push);
	return error;
}

/* Whether the processes have one user, who can stop them in other ways, too. */
static bool has_one_user(const struct pair *pair)
{
	return pair->ends[0].uid == pair->ends[1].uid;
}

static bool refuse_descriptors(const int *doorbells)
{
	return fdpass_refuse(doorbells[0]) && fdpass_refuse(doorbells[1]);
}

/* Keeps both ends of the doorbell until pair_leave(). 0, -EMFILE or -ENOBUFS. */
static int keep_doorbells(struct pair *pair, const int *doorbells)
{
	for (int side = 0; side < 2; side++) {
		if (!descriptors_may_keep(pair->ends[side].session, doorbells[side]))
			return -EMFILE;
		if (pair->ends[side].session->published.over_count >= PAIRS_OVER_MAX)
			return -ENOBUFS;
	}
	for (int side = 0; side < 2; side++) {
		pair->ends[side].doorbell = doorbells[side];
		pair->ends[side].session->published.doorbell_count++;
	}
	return 0;
}

static int pair_make(struct pair *pair)
{
	int doorbells[2], memory_fd, error = 0;

	memory_fd = pair_memory();
	if (memory_fd < 0)
		return memory_fd;
	/*
	 * Not an eventfd: both sides would share its open file, so one side could make the other
	 * block, or consume the wake-ups of other processes. Not pipes: a write() from memory that
	 * does not answer holds the mutex that read() and write() of the other side wait for.
	 */
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, doorbells)) {
		error = -errno;
		goto err_doorbells;
	}
	if (!has_one_user(pair) && !refuse_descriptors(doorbells))
		error = keep_doorbells(pair, doorbells);
	if (!error)
		error = pair_announce(pair, memory_fd, doorbells);
	/* Each end may already contain descriptors that the process at the other end has sent. */
	for (int side = 0; side < 2; side++) {
		if (pair->ends[side].doorbell < 0)
			closer_add(&pair->ends[0].session->server->closer, pair->ends[!side].uid,
				   doorbells[side]);
	}
err_doorbells:
	close(memory_fd);
	return error;
}

int peers_connect_peer(struct session *session, uint32_t slot)
{
	struct session *other = slots_owner(&session->server->slots, slot);
	struct pair *pair;
	int error;

	if (session->published.segment_fd < 0 || slot == session->slot)
		return -EINVAL;
	if (!other || other->published.segment_fd < 0)
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
		pair_remove(pair);
		return error;
	}
	session->server->counters.peer_connects++;
	return 0;
}

/*
 * The session leaves a pair. The other side gets PEER_GONE; if its doorbell is kept, it leaves the
 * pair later.
 */
static void pair_part(struct pair *pair, const struct session *session)
{
	int side = pair->ends[0].session == session ? 0 : 1;
	const struct pair_end *other = &pair->ends[!side];

	if (!pair->is_over) {
		gone_push(other->session, session, pair->id);
		pair_set_over(pair);
		if (other->doorbell < 0)
			pair_leave(pair, !side);
	}
	pair_leave(pair, side);
}

void peers_part(struct session *session, uint64_t pair_id)
{
	struct pair_end *end;

	list_for_each_entry(end, &session->published.pairs, node) {
		if (end->pair->id == pair_id) {
			pair_part(end->pair, session);
			return;
		}
	}
}

void peers_leave(struct session *session)
{
	struct published *published = &session->published;

	while (!list_is_empty(&published->pairs))
		pair_part(list_first_entry(&published->pairs, struct pair_end, node)->pair,
			  session);
	if (published->segment_fd < 0)
		return;
	device_ended_add(&session->server->device_ended, session);
	control_counters_read(session->server->departed, published->segment_fd,
			      published->segment_bytes);
	closer_add(&session->server->closer, session->cred.uid, published->segment_fd);
	published->segment_fd = -1;
	push_close(&published->push);
}
