/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_RSOCKET_STREAM_H
#define USRDMA_RSOCKET_STREAM_H

#include <netinet/in.h>
#include <rdma/rdma_cma.h>

#include "rsocket/service.h"
#include "rsocket/socket.h"
#include "rsocket/stream_proto.h"

/*
 * The state of a stream. The order matters: stream_is_opening() and stream_was_connected() compare
 * ranges.
 */
enum stream_phase {
	STREAM_IDLE,
	STREAM_BOUND,
	STREAM_LISTENING,
	STREAM_RESOLVING_ADDR,
	STREAM_RESOLVING_ROUTE,
	STREAM_CONNECTING,
	STREAM_ACCEPTING, /* created by a listener; the REP is sent, RTU not yet received */
	STREAM_CONNECTED,
	STREAM_DISCONNECTED, /* shut down in order: received data can be read */
	STREAM_BROKEN,	     /* aborted; the cause is in rsock.error */
	STREAM_FAILED,	     /* the connection was not established */
};

/*
 * Control messages have their own send WQEs, separate from those of data: sending credits never
 * waits for credits.
 */
#define STREAM_CONTROLS 4

/* Maximum payload of a message. The receiver copies one message while the next one is in flight. */
#define STREAM_MESSAGE_BYTES (64u << 10)

/*
 * The type of a WR, in the top byte of its wr_id. The low bytes contain the number of bytes of the
 * send ring that it uses.
 */
enum stream_work {
	STREAM_WORK_RECEIVE,
	STREAM_WORK_DATA,
	STREAM_WORK_CONTROL,
	STREAM_WORK_DISCONNECT, /* control message whose completion ends the connection */
};

/*
 * The sending half. Data stays in the send ring until the peer's ring has received it. `grants`
 * contains the granted ranges of the peer's ring, copied from the table into which the peer writes:
 * [grant] is in use, [fresh] is the entry that the peer writes next. head and free_bytes describe
 * the send ring; space is allocated in posting order and freed in the same order, as WRs complete.
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
	uint16_t sequence_limit; /* the peer accepts messages before this sequence number */

	unsigned data_in_flight;
	unsigned data_max;
	unsigned controls_in_flight;
	unsigned control_cursor; /* index of the next control buffer */
	uint32_t inline_bytes;
	bool swaps; /* the peer's tables have the other byte order */

	struct proto_sge peer_table; /* where grants to the peer are written; length: entries */
	unsigned peer_entry;
	uint64_t peer_iomap_addr;
	uint16_t peer_iomap_entries;
};

/*
 * The receiving half. The ring holds [read_at, read_at + ready_bytes) for the application. The peer
 * may write the following granted_bytes. The rest was read by the application and is granted again
 * in halves.
 */
struct stream_rx {
	uint8_t *ring;
	uint32_t ring_bytes;
	uint32_t read_at;
	uint32_t ready_bytes;
	uint32_t granted_bytes;
	uint32_t read_bytes;   /* read since the last grant */
	uint32_t wanted_bytes; /* of the waiting receive: it continues when this many are ready */
	uint32_t grant_at;
	struct ibv_mr *mr;

	uint16_t sequence;	/* number of received messages */
	uint16_t sequence_sent; /* value of sequence at the last grant */
	uint16_t rq_entries;
	unsigned to_post; /* completed receives that have to be posted again */
};

struct stream_iomap; /* stream_iomap.h */
struct iov_cursor;

/*
 * A stream: one rdma_cm id with its own event channel, and one RC queue pair. Owned as described
 * for struct rsock. All fields are guarded by sock.lock, except that
 *
 * - a sender holds send_lock from the allocation of ring space to posting, so that messages are
 *   posted in the order of their sequence numbers; data is copied and posted without sock.lock;
 * - a receiver holds receive_lock; it copies from the ring without sock.lock, because no other
 *   thread frees ring space.
 *
 * Lock order: send_lock or receive_lock, then sock.lock.
 */
struct stream {
	struct rsock sock;
	pthread_mutex_t send_lock;
	pthread_mutex_t receive_lock;
	atomic_ulong sender; /* thread that holds send_lock, or 0; for cancellation */
	atomic_ulong receiver;

	enum stream_phase phase;
	bool can_read;		    /* the peer may still send */
	bool can_write;		    /* the local side may still send */
	bool has_shut_write;	    /* the local side called shutdown() for writing */
	bool has_sent_shutdown;	    /* DISCONNECT was posted or is about to be posted */
	bool is_connected_reported; /* connect() returned 0 */
	bool has_lost_cm;	    /* the event channel has failed */

	struct rdma_event_channel *channel;
	struct rdma_cm_id *id;
	struct ibv_comp_channel *comp_channel;
	struct ibv_cq *cq;
	unsigned events_unacked;
	struct stream_tx tx;
	struct stream_rx rx;
	uint8_t *table; /* written by the peer: grants, then iomaps */
	struct ibv_mr *table_mr;
	uint16_t iomap_entries;
	struct stream_iomap *iomap;

	struct sockaddr_storage local; /* address of bind(); family 0: not bound */
	struct sockaddr_storage peer;  /* address of connect() */
	unsigned tries;
	void *route; /* value of RDMA_ROUTE, until it is used */
	socklen_t route_bytes;

	struct service_item connect_item; /* while connecting without a waiting thread */
	struct service_item keepalive_item;

	/*
	 * Of a listener: children that are ready for accept(), and children whose handshake is not
	 * complete.
	 */
	struct service_item listen_item;
	struct list_head ready;
	struct list_head half_open;
	unsigned ready_count;
	unsigned backlog;
	bool is_full;
	/*
	 * Of a child of a listener, until it is accepted; both are guarded by the listener's lock.
	 */
	struct stream *listener;
	struct list_head listener_node;
};

static inline struct stream *stream_of(struct rsock *sock)
{
	return container_of(sock, struct stream, sock);
}

/* Between connect() or the listener's rdma_accept() and the outcome. */
static inline bool stream_is_opening(const struct stream *stream)
{
	return stream->phase >= STREAM_RESOLVING_ADDR && stream->phase <= STREAM_ACCEPTING;
}

static inline bool stream_was_connected(const struct stream *stream)
{
	return stream->phase >= STREAM_CONNECTED && stream->phase <= STREAM_BROKEN;
}

/*
 * stream.c: creates a stream that is not published. id NULL: the stream creates its own id; else
 * the stream takes ownership of id.
 */
int stream_create(int domain, struct rdma_cm_id *id, struct rsock **sock)
	__attribute__((warn_unused_result));
/*
 * Aborts the connection; `error` becomes the value of SO_ERROR and the error of the next call.
 * Locked.
 */
void stream_break(struct stream *stream, int error);
/* Ends the connection in order. Locked. */
void stream_end(struct stream *stream);

/*
 * stream_endpoint.c: creates and frees the queue pair and the buffers, after the id was bound to a
 * device. Locked.
 */
int stream_endpoint_open(struct stream *stream) __attribute__((warn_unused_result));
void stream_endpoint_close(struct stream *stream);
/*
 * stream_conn_format() writes the private data of REQ or REP; stream_conn_learn() stores that of
 * the peer.
 */
void stream_conn_format(const struct stream *stream, uint8_t out[PROTO_CONN_BYTES]);
void stream_conn_learn(struct stream *stream, const struct proto_conn *conn);

/* stream_connect.c: the active side, and CM events of both sides. */
int stream_connect(struct rsock *sock, const struct sockaddr *addr, socklen_t bytes);
/*
 * After a failed connect(), or when listening ends: creates a new id with the same options and
 * address.
 */
int stream_reset_id(struct stream *stream) __attribute__((warn_unused_result));
/* Processes the events of the channel. Locked; returns true if there were events. */
bool stream_progress_cm(struct stream *stream);
void stream_connect_in_background(struct service_item *item);
/* Waits until the stream is connected. 0: it is connected, or was; else the cause. Locked. */
int stream_await_connected(struct stream *stream, int flags, uint64_t deadline_ns)
	__attribute__((warn_unused_result));

/* stream_listen.c */
int stream_listen(struct rsock *sock, int backlog);
int stream_accept(struct rsock *sock, struct rsock **accepted);
void stream_listen_init(struct stream *stream);
/* Stops listening and drops the children that were not accepted. Called without the lock. */
void stream_listen_close(struct stream *stream);
/* The same for shutdown(): the socket can listen again. */
int stream_listen_stop(struct stream *stream) __attribute__((warn_unused_result));

/*
 * stream_work.c: posts WRs and processes completions. All functions are called with the lock held.
 */
bool stream_progress_cq(struct stream *stream, bool is_readable);
void stream_arm(struct stream *stream);
int stream_post_receives(struct stream *stream, unsigned count) __attribute__((warn_unused_result));
bool stream_has_control(const struct stream *stream);
/* Posts one control message. The caller checks stream_has_control(). */
int stream_post_control(struct stream *stream, enum proto_control control)
	__attribute__((warn_unused_result));
/* Posts an RDMA WRITE of 0 bytes without immediate data. The caller checks stream_has_control(). */
int stream_post_keepalive(struct stream *stream) __attribute__((warn_unused_result));
/* Grants read ring space and credits to the peer if a grant is due and a control WQE is free. */
void stream_grant(struct stream *stream);

/* stream_send.c, stream_receive.c */
ssize_t stream_send(struct rsock *sock, struct rsock_io *io);
ssize_t stream_receive(struct rsock *sock, struct rsock_io *io);
/* Releases the send or receive lock if this thread holds it. */
void stream_abandon(struct rsock *sock);
/* Whether a message could be sent now. Locked. */
bool stream_can_send(const struct stream *stream);
/*
 * Waits until a message can be sent, or returns why none can be sent. Locked; the caller holds the
 * send lock.
 */
int stream_await_room(struct stream *stream, int flags, uint64_t deadline_ns)
	__attribute__((warn_unused_result));
/*
 * One data message, or one write without immediate data, of which the peer is not notified. addr,
 * key: destination; imm: immediate data. inline_data: source of the data; NULL: the next `bytes`
 * bytes of the send ring.
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
 * Both are called with the send lock, without sock.lock, after the space was allocated.
 * stream_post_write() posts data that is already in the send ring and advances the ring's head.
 * stream_send_write() first copies the data from the cursor, and aborts the stream if posting
 * fails. -EFAULT: a buffer cannot be read, nothing was sent, and the space in the ring is free
 * again.
 */
int stream_post_write(struct stream *stream, const struct stream_write *write)
	__attribute__((warn_unused_result));
int stream_send_write(struct stream *stream, struct stream_write *write, struct iov_cursor *cursor)
	__attribute__((warn_unused_result));
/* -EAGAIN: another thread sends and this call must not wait. */
int stream_lock_send(struct stream *stream, int flags) __attribute__((warn_unused_result));
void stream_unlock_send(struct stream *stream);
uint64_t stream_send_deadline(const struct stream *stream);

/* stream_shutdown.c */
int stream_shutdown(struct rsock *sock, int how);
/* Shuts down in order if the peer responds. */
void stream_leave(struct rsock *sock, uint64_t deadline_ns);
void stream_close(struct rsock *sock);
void stream_keepalive(struct service_item *item);
/* Value of TCP_KEEPIDLE in seconds; the system's value until the option is set. Locked. */
int stream_keepalive_s(struct stream *stream);
int stream_set_keepalive(struct stream *stream, bool is_on) __attribute__((warn_unused_result));

/* stream_option.c */
int stream_set_option(struct rsock *sock, enum rsock_option option, const void *value,
		      socklen_t bytes);
int stream_get_option(struct rsock *sock, enum rsock_option option, void *value, socklen_t *bytes);
/* Applies the options that were set to a new id. Locked. */
void stream_apply_options(struct stream *stream);

#endif
