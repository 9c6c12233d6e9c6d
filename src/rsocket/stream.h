/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_RSOCKET_STREAM_H
#define USRDMA_RSOCKET_STREAM_H

#include <netinet/in.h>
#include <rdma/rdma_cma.h>

#include "rsocket/service.h"
#include "rsocket/socket.h"
#include "rsocket/stream_proto.h"

/* Where a stream is in its life. The order matters: see stream_is_connected() and its like. */
enum stream_phase {
	STREAM_IDLE,
	STREAM_BOUND,
	STREAM_LISTENING,
	STREAM_RESOLVING_ADDR,
	STREAM_RESOLVING_ROUTE,
	STREAM_CONNECTING,
	STREAM_ACCEPTING, /* made by a listener, whose peer has yet to hear of it */
	STREAM_CONNECTED,
	STREAM_DISCONNECTED, /* in order: what was received can be read */
	STREAM_BROKEN,	     /* not in order; rsock.error says why */
	STREAM_FAILED,	     /* was never connected */
};

/*
 * Work requests of control messages are few, and kept apart from those of data, so that giving
 * credits never waits for credits.
 */
#define STREAM_CONTROLS 4

/* How much one message carries at most: the receiver copies one while the next is under way. */
#define STREAM_MESSAGE_BYTES (64u << 10)

/* What a work request is, in the top byte of its wr_id, above the bytes of the send ring it uses. */
enum stream_work {
	STREAM_WORK_RECEIVE,
	STREAM_WORK_DATA,
	STREAM_WORK_CONTROL,
	STREAM_WORK_DISCONNECT, /* a control whose completion ends the connection */
};

/*
 * The sending half. Data waits in a ring until the peer's ring has it. In `grants` is where it may
 * go, copied from the table into which the peer writes: [grant] is in use, [fresh] is the one that
 * the peer will write next. head and free_bytes describe the ring; it is taken in the order of
 * sending and given back in the same order, as work completes.
 */
struct stream_tx {
	uint8_t *ring;
	uint32_t ring_bytes;
	uint32_t head;
	uint32_t free_bytes;
	struct ibv_mr *mr;

	struct proto_sge grants[PROTO_GRANTS];
	unsigned grant;
	unsigned fresh;
	uint16_t sequence;	 /* of the next message */
	uint16_t sequence_limit; /* the peer takes messages before this one */

	unsigned data_in_flight;
	unsigned data_max;
	unsigned controls_in_flight;
	unsigned control_cursor; /* which of the control buffers is next */
	uint32_t inline_bytes;
	bool swaps; /* the peer's tables are in the other byte order */

	struct proto_sge peer_table; /* where grants to the peer are written; length: entries */
	unsigned peer_entry;
	uint64_t peer_iomap_addr;
	uint16_t peer_iomap_entries;
};

/*
 * The receiving half. The ring holds [read_at, read_at + ready_bytes) for the application, after
 * which the peer may write granted_bytes more; the rest was read, and is granted again by halves.
 */
struct stream_rx {
	uint8_t *ring;
	uint32_t ring_bytes;
	uint32_t read_at;
	uint32_t ready_bytes;
	uint32_t granted_bytes;
	uint32_t read_bytes; /* since the last grant */
	uint32_t grant_at;
	struct ibv_mr *mr;

	uint16_t sequence;	/* messages that came */
	uint16_t sequence_told; /* as of the last grant */
	uint16_t rq_entries;
	unsigned to_post; /* receives that completed */
};

struct stream_iomap; /* stream_iomap.h */
struct iov_cursor;

/*
 * A stream: one rdma_cm id, with a channel of its own, and one RC queue pair. Owned as struct rsock
 * says. All is guarded by sock.lock, except that
 *
 *  - send_lock is held by whoever sends, from taking room in the ring to posting, so that messages
 *    are posted in the order of their sequence; copying and posting are done without sock.lock;
 *  - receive_lock is held by whoever receives; bytes of the ring are copied without sock.lock,
 *    because nobody else gives them back.
 *
 * Order: either of those, then sock.lock.
 */
struct stream {
	struct rsock sock;
	pthread_mutex_t send_lock;
	pthread_mutex_t receive_lock;

	enum stream_phase phase;
	bool can_read;		/* the peer may still send */
	bool can_write;		/* we may */
	bool has_shut_write;	/* by shutdown(), not by the peer */
	bool has_said_goodbye;	/* DISCONNECT was posted, or is about to be */
	bool is_told_connected; /* connect() answered 0 */
	bool has_lost_cm;	/* the channel has nothing to say any more */

	struct rdma_event_channel *channel;
	struct rdma_cm_id *id;
	struct ibv_comp_channel *comp_channel;
	struct ibv_cq *cq;
	unsigned events_unacked;
	struct stream_tx tx;
	struct stream_rx rx;
	uint8_t *table; /* the peer writes here: grants, then iomaps */
	struct ibv_mr *table_mr;
	uint16_t iomap_entries;
	struct stream_iomap *iomap;

	struct sockaddr_storage local; /* whom bind() named; family 0: none */
	struct sockaddr_storage peer;  /* whom connect() named */
	unsigned tries;
	void *route; /* RDMA_ROUTE, until it is used */
	socklen_t route_bytes;

	struct service_item connect_item; /* while connecting without anybody waiting */
	struct service_item keepalive_item;

	/* A listener's: those that wait for accept(), and those whose handshake is not over. */
	struct service_item listen_item;
	struct list_head ready;
	struct list_head embryos;
	unsigned ready_count;
	unsigned backlog;
	bool is_full;
	/* A listener's child, until it is accepted; both under the listener's lock. */
	struct stream *listener;
	struct list_head listener_node;
};

static inline struct stream *stream_of(struct rsock *sock)
{
	return container_of(sock, struct stream, sock);
}

/* Between connect() or a listener's answer and the outcome. */
static inline bool stream_is_opening(const struct stream *stream)
{
	return stream->phase >= STREAM_RESOLVING_ADDR && stream->phase <= STREAM_ACCEPTING;
}

static inline bool stream_was_connected(const struct stream *stream)
{
	return stream->phase >= STREAM_CONNECTED && stream->phase <= STREAM_BROKEN;
}

/* stream.c: a new one, not yet found by anybody. id NULL: it makes one of its own; else that is its from then on. */
int stream_create(int domain, struct rdma_cm_id *id, struct rsock **sock)
	__attribute__((warn_unused_result));
/* Ends it in disorder; `error` is what SO_ERROR and the next call say. Locked. */
void stream_break(struct stream *stream, int error);
/* Both sides know that it is over. Locked. */
void stream_end(struct stream *stream);

/* stream_endpoint.c: the queue pair and the memory, once the id knows its device. Locked. */
int stream_endpoint_open(struct stream *stream) __attribute__((warn_unused_result));
void stream_endpoint_close(struct stream *stream);
/* What goes into REQ or REP, and what came in the peer's. */
void stream_conn_format(const struct stream *stream, uint8_t out[PROTO_CONN_BYTES]);
void stream_conn_learn(struct stream *stream, const struct proto_conn *conn);

/* stream_connect.c: the active side, and what happens to either afterwards. */
int stream_connect(struct rsock *sock, const struct sockaddr *addr, socklen_t bytes);
/* After a connect() that failed, or at the end of listening: a new id, set and bound as before. */
int stream_start_anew(struct stream *stream) __attribute__((warn_unused_result));
/* Takes the channel's events. Locked; true: news. */
bool stream_progress_cm(struct stream *stream);
void stream_connect_in_background(struct service_item *item);
/* Waits until it is: 0, even if that is over by now; or why it is not. Locked. */
int stream_await_connected(struct stream *stream, int flags, uint64_t deadline_ns)
	__attribute__((warn_unused_result));

/* stream_listen.c */
int stream_listen(struct rsock *sock, int backlog);
int stream_accept(struct rsock *sock, struct rsock **accepted);
void stream_listen_init(struct stream *stream);
/* Ends it, with those that nobody accepted. Without the lock. */
void stream_listen_close(struct stream *stream);
/* The same for shutdown(): it can be told to listen again. */
int stream_listen_stop(struct stream *stream) __attribute__((warn_unused_result));

/* stream_work.c: posting, and what completed. All locked. */
bool stream_progress_cq(struct stream *stream, bool heard);
void stream_arm(struct stream *stream);
int stream_post_receives(struct stream *stream, unsigned count) __attribute__((warn_unused_result));
bool stream_has_control(const struct stream *stream);
/* One control message; there must be room for it. */
int stream_post_control(struct stream *stream, enum proto_control control)
	__attribute__((warn_unused_result));
/* A write of nothing, likewise; it only completes. */
int stream_post_keepalive(struct stream *stream) __attribute__((warn_unused_result));
/* Grants what is due and can be. */
void stream_grant(struct stream *stream);

/* stream_send.c, stream_receive.c */
ssize_t stream_send(struct rsock *sock, struct rsock_io *io);
ssize_t stream_receive(struct rsock *sock, struct rsock_io *io);
/* Whether a message could be sent now. Locked. */
bool stream_can_send(const struct stream *stream);
/* Waits until it could, or answers why it never will. Locked, and by who has the send lock. */
int stream_await_room(struct stream *stream, int flags, uint64_t deadline_ns)
	__attribute__((warn_unused_result));
/*
 * One message of data, or one write that the peer does not hear of. work, bytes; where to; what it
 * says. inline_data: what it takes instead of `bytes` of the ring from its head on.
 */
struct stream_write {
	enum stream_work work;
	uint32_t bytes;
	uint64_t addr;
	uint32_t key;
	bool has_imm;
	uint32_t imm;
	const void *inline_data;
};
/*
 * Both by who has the send lock, without sock.lock, after the room was taken. The first posts what
 * lies in the ring already and moves its head on; the second takes it from the cursor, and breaks
 * the stream if it fails.
 */
int stream_post_write(struct stream *stream, const struct stream_write *write)
	__attribute__((warn_unused_result));
int stream_send_write(struct stream *stream, struct stream_write *write, struct iov_cursor *cursor)
	__attribute__((warn_unused_result));
/* -EAGAIN: another thread sends and this one must not wait. */
int stream_lock_send(struct stream *stream, int flags) __attribute__((warn_unused_result));
uint64_t stream_send_deadline(const struct stream *stream);

/* stream_shutdown.c */
int stream_shutdown(struct rsock *sock, int how);
/* In order if the peer takes part. */
void stream_leave(struct rsock *sock, uint64_t deadline_ns);
void stream_close(struct rsock *sock);
void stream_keepalive(struct service_item *item);
/* TCP_KEEPIDLE; until somebody sets it, the system's. Locked. */
int stream_keepalive_s(struct stream *stream);
int stream_set_keepalive(struct stream *stream, bool is_on) __attribute__((warn_unused_result));

/* stream_option.c */
int stream_set_option(struct rsock *sock, enum rsock_option option, const void *value,
		      socklen_t bytes);
int stream_get_option(struct rsock *sock, enum rsock_option option, void *value, socklen_t *bytes);
/* Tells a new id what was set before. Locked. */
void stream_apply_options(struct stream *stream);

#endif
