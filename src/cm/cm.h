/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_CM_CM_H
#define USRDMA_CM_CM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cm/state.h"
#include "wire/cm_msg.h"

/*
 * The InfiniBand communication manager (IBA 1.x §12), pure: MADs, consumer calls and the time come in; MADs and events
 * go out through struct cm_ops. No sockets, no clock, no threads: the caller guards it and runs it when
 * cm_next_deadline() has come.
 *
 * Connections are here, datagram services in cm/sidr.h.
 */
struct cm;
struct cm_conn;
struct cm_sidr;

/* How long whoever asks waits for its peer to answer at all, unless it is told otherwise. */
#define CM_PATIENCE_NS	   8000000000ull
#define CM_PATIENCE_MAX_NS 300000000000ull

/* How often a message is repeated at most: what 4 bits can say (IBA 1.x §12.7.27). */
#define CM_MAX_RETRIES 15

/* How MADs reach a peer, and from where, seen from this side. Copied wherever it is passed. */
struct cm_path {
	uint8_t sgid[GID_BYTES]; /* ours */
	uint8_t dgid[GID_BYTES]; /* the peer's */
	uint32_t dev_id;	 /* the caller's name for the local device */
	uint32_t flow_label;
	uint8_t traffic_class;
	uint8_t hop_limit;
	bool is_local; /* a MAD that came over it was sent by this very machine */
};

enum cm_event_type {
	CM_EVENT_REP,	    /* msg: the REP; the owner answers with cm_establish() or cm_reject() */
	CM_EVENT_RTU,	    /* passive side established; msg is NULL after cm_notify() */
	CM_EVENT_REJ,	    /* msg: the REJ; it is over */
	CM_EVENT_REQ_ERROR, /* nobody answered the REQ; it is over */
	CM_EVENT_REP_ERROR, /* nobody answered the REP; it is over */
	CM_EVENT_DREQ, /* the peer disconnects; the owner answers with cm_disconnect() or cm_destroy() */
	CM_EVENT_DREP,	     /* our disconnecting is done */
	CM_EVENT_DREQ_ERROR, /* nobody answered the DREQ; disconnected all the same */
	CM_EVENT_LOST,	     /* the peer knows no such connection */
	CM_EVENT_TIMEWAIT_EXIT,
	CM_EVENT_COUNT
};

const char *cm_event_name(enum cm_event_type type);

/* Only counts; read through cm_counters(). */
struct cm_counters {
	uint64_t sent[CM_MSG_COUNT];
	uint64_t received[CM_MSG_COUNT];
	uint64_t resent;
	uint64_t strays;		    /* messages that meant nothing where they arrived */
	uint64_t malformed[CM_FAULT_COUNT]; /* not a CM MAD at all, by reason */
	uint64_t unsent;		    /* the path refused them */
	uint64_t unreachable;		    /* ICMP errors that ended a REQ or SIDR_REQ of ours */
	uint64_t turned_away; /* requests that there was no room for, or that came in a flood */
};

struct cm_ops {
	/* Takes one MAD of MAD_BYTES. May lose it; -errno says that it will never arrive, and ends the retries. Must not
	 * call into the CM. */
	int (*send)(void *ctx, const struct cm_path *path, const void *mad);

	/*
	 * A REQ for a service somebody listens on. Returns the new connection's owner; or NULL and the reason of the REJ to
	 * answer with; or NULL and reason 0 to say nothing, so that the sender tries again. Must not call into the CM,
	 * other than the questions below.
	 */
	void *(*request)(void *ctx, struct cm_conn *conn, const struct cm_path *path,
			 const struct cm_req *req, uint16_t *reason);

	/* Something happened to a connection that has an owner. The last thing done in whatever call it comes from: it may
	 * call into the CM, also to destroy the connection. */
	void (*event)(void *ctx, struct cm_conn *conn, void *owner, enum cm_event_type type,
		      const struct cm_msg *msg, uint64_t now_ns);

	/* As request(), for a SIDR_REQ: the resolution's owner, or NULL and the status to answer with, or NULL and 0. */
	void *(*sidr_request)(void *ctx, struct cm_sidr *sidr, const struct cm_path *path,
			      const struct cm_sidr_req *req, uint8_t *status);

	/* A resolution that we asked for is over; rep is NULL if nobody answered. The last thing done, as event(). */
	void (*sidr_event)(void *ctx, struct cm_sidr *sidr, void *owner,
			   const struct cm_sidr_rep *rep, uint64_t now_ns);
};

/* `seed` starts communication IDs, PSNs and what is secret in the tables. NULL: out of memory. */
struct cm *cm_new(const struct cm_ops *ops, void *ctx, uint64_t seed)
	__attribute__((warn_unused_result));

/* Forgets everything without sending anything; owners hear nothing. */
void cm_free(struct cm *cm);

/* Counted: REQs and SIDR_REQs for a service are passed on as long as it was listened to more often than not. */
int cm_listen(struct cm *cm, uint64_t service_id) __attribute__((warn_unused_result));
void cm_unlisten(struct cm *cm, uint64_t service_id);

/* A connection for the active side; NULL: out of memory. */
struct cm_conn *cm_conn_new(struct cm *cm, void *owner) __attribute__((warn_unused_result));

/* How long each message that wants an answer may go without one, from the next on. At most CM_PATIENCE_MAX_NS. */
void cm_conn_set_patience(struct cm_conn *conn, uint64_t patience_ns);

/* The response timeout with which CM_MAX_RETRIES repetitions last at least that long. */
uint8_t cm_response_timeout(uint64_t patience_ns);

/*
 * The consumer's calls. -EINVAL where the state does not allow them, see cm/state.c. What a REQ or REP carries is the
 * caller's, except communication IDs and starting PSN, which are filled in here.
 */
int cm_connect(struct cm_conn *conn, const struct cm_path *path, const struct cm_req *req,
	       uint64_t now_ns) __attribute__((warn_unused_result));
int cm_accept(struct cm_conn *conn, const struct cm_rep *rep, uint64_t now_ns)
	__attribute__((warn_unused_result));
int cm_establish(struct cm_conn *conn, uint64_t now_ns) __attribute__((warn_unused_result));
int cm_notify(struct cm_conn *conn, uint64_t now_ns) __attribute__((warn_unused_result));
int cm_reject(struct cm_conn *conn, uint16_t reason, const void *private_data, size_t len,
	      uint64_t now_ns) __attribute__((warn_unused_result));
int cm_disconnect(struct cm_conn *conn, uint64_t now_ns) __attribute__((warn_unused_result));

/* The owner lets go: the peer is told whatever its state calls for, the rest (DREQ retries, timewait) goes on without an
 * owner and the connection frees itself. */
void cm_destroy(struct cm_conn *conn, uint64_t now_ns);

/* Questions. */
enum cm_state cm_conn_state(const struct cm_conn *conn);
uint32_t cm_conn_psn(const struct cm_conn *conn); /* the one our QP waits for first */
uint32_t cm_conn_local_id(const struct cm_conn *conn);
uint32_t cm_conn_remote_id(const struct cm_conn *conn);
int cm_conn_error(
	const struct cm_conn *conn); /* why nobody answered: -ETIMEDOUT, or what the network said */
size_t cm_conn_count(const struct cm *cm);
const struct cm_counters *cm_counters(const struct cm *cm);

/* One datagram that arrived on QP1; `path` is seen from here: sgid is the address it was sent to. */
void cm_receive(struct cm *cm, const struct cm_path *path, const void *mad, size_t len,
		uint64_t now_ns);

/*
 * The network says that `path`'s peer cannot be reached, and quotes `len` bytes of the MAD it could not deliver. It is
 * believed only about a REQ or SIDR_REQ of ours that waits for its first answer and whose transaction ID the quotation
 * knows; then the owner hears that it is over, with this error (-errno). Anybody could make up the rest.
 */
void cm_unreachable(struct cm *cm, const struct cm_path *path, const void *mad, size_t len,
		    int error, uint64_t now_ns);

/* TIMER_NEVER_NS if nothing waits. */
uint64_t cm_next_deadline(const struct cm *cm);
void cm_run(struct cm *cm, uint64_t now_ns);

#endif
