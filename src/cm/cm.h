/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_CM_CM_H
#define USRDMA_CM_CM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/random.h"
#include "cm/state.h"
#include "wire/cm_msg.h"

/*
 * The InfiniBand communication manager (IBA 1.x §12) without I/O. Its inputs are MADs, calls of the
 * consumer and the current time. Its outputs are MADs and events, through struct cm_callbacks. It
 * has no sockets, no clock and no threads: the caller serializes all calls, and calls cm_run() at
 * cm_next_deadline().
 *
 * This header has connections; cm/sidr.h has service ID resolution.
 */
struct cm;
struct cm_conn;
struct cm_sidr;

/*
 * The default and the maximum of the time for which a request and its repetitions wait for a
 * response.
 */
#define CM_TIMEOUT_NS	  8000000000ull
#define CM_TIMEOUT_MAX_NS 300000000000ull

/* The maximum number of repetitions of a message: the field has 4 bits (IBA 1.x §12.7.27). */
#define CM_MAX_RETRIES 15

/* The path of MADs between this host and a peer, seen from this host. Functions copy the struct. */
struct cm_path {
	uint8_t sgid[GID_BYTES]; /* of the local device */
	uint8_t dgid[GID_BYTES]; /* of the peer */
	uint32_t dev_id;	 /* the caller's number of the local device */
	uint32_t flow_label;
	uint8_t traffic_class;
	uint8_t hop_limit;
	bool is_local; /* both ends are on this host */
};

/*
 * The maximum number of connections of one user, except root, that have no owner and are not freed
 * yet; about 10 MiB.
 */
#define CM_OWNERLESS_PER_USER 16384u

enum cm_event_type {
	CM_EVENT_REP,	    /* msg: the REP; the owner calls cm_establish() or cm_reject() */
	CM_EVENT_RTU,	    /* passive side established; msg is NULL after cm_notify() */
	CM_EVENT_REJ,	    /* msg: the REJ; the connection has ended */
	CM_EVENT_REQ_ERROR, /* no response to the REQ; the connection has ended */
	CM_EVENT_REP_ERROR, /* no response to the REP; the connection has ended */
	CM_EVENT_DREQ, /* the peer disconnects; the owner calls cm_disconnect() or cm_destroy() */
	CM_EVENT_DREP, /* the peer confirmed our DREQ */
	CM_EVENT_DREQ_ERROR, /* no response to the DREQ; the connection has ended */
	CM_EVENT_LOST,	     /* the peer does not have this connection any more */
	CM_EVENT_TIMEWAIT_EXIT,
	CM_EVENT_COUNT
};

const char *cm_event_name(enum cm_event_type type);

/* Each counter only grows. Read them through cm_counters(). */
struct cm_counters {
	uint64_t sent[CM_MSG_COUNT];
	uint64_t received[CM_MSG_COUNT];
	uint64_t resent;
	uint64_t strays; /* messages that name no connection here, or are invalid in its state */
	uint64_t malformed[CM_FAULT_COUNT]; /* datagrams that are not CM MADs, by reason */
	uint64_t unsent;		    /* messages for which cm_callbacks.send failed */
	uint64_t unreachable;		    /* ICMP errors that ended an outgoing REQ or SIDR_REQ */
	uint64_t challenges;	     /* DREQs that verify whether the peer still has a connection */
	uint64_t address_challenges; /* SIDR_REQs that verify the source address of a REQ */
	uint64_t withheld; /* messages not sent because the address of the peer is not validated */
	uint64_t turned_away; /* requests denied by the half-open limiter or by a full backlog */
	/* connections without an owner that ended early because of CM_OWNERLESS_PER_USER */
	uint64_t shortened;
};

struct cm_callbacks {
	/*
	 * Sends one MAD of MAD_BYTES, unreliably. -errno: the MAD cannot be sent, and the CM does
	 * not repeat it. Must not call into the CM.
	 */
	int (*send)(void *ctx, const struct cm_path *path, const void *mad);

	/*
	 * Reports a REQ for a service with a listener. Returns the new connection's owner; or NULL
	 * and the reason of the REJ to send; or NULL and reason 0 to drop the REQ, which the sender
	 * repeats. Must not call into the CM, except for the cm_conn_*() getters below.
	 */
	void *(*request)(void *ctx, struct cm_conn *conn, const struct cm_path *path,
			 const struct cm_req *req, uint16_t *reason);

	/*
	 * Whether this QPN of a peer on this host belongs to a process. NULL: not checked. Must not
	 * call into the CM.
	 */
	bool (*is_local_qp)(void *ctx, uint32_t qpn);

	/*
	 * Reports an event of a connection that has an owner, as the last action of the call that
	 * caused it. May call into the CM, also to destroy the connection.
	 */
	void (*event)(void *ctx, struct cm_conn *conn, void *owner, enum cm_event_type type,
		      const struct cm_msg *msg, uint64_t now_ns);

	/*
	 * As request(), for a SIDR_REQ: the resolution's owner; or NULL and the status of the
	 * SIDR_REP; or NULL and 0.
	 */
	void *(*sidr_request)(void *ctx, struct cm_sidr *sidr, const struct cm_path *path,
			      const struct cm_sidr_req *req, uint8_t *status);

	/*
	 * Reports the end of a resolution that cm_sidr_resolve() began; rep is NULL if no response
	 * arrived. Called last, as event() is.
	 */
	void (*sidr_event)(void *ctx, struct cm_sidr *sidr, void *owner,
			   const struct cm_sidr_rep *rep, uint64_t now_ns);
};

/*
 * Allocates a communication manager. `random` gives communication IDs, transaction IDs, starting
 * PSNs and the key of the hash tables; the caller owns it and keeps it until after cm_free(). NULL:
 * out of memory.
 */
struct cm *cm_new(const struct cm_callbacks *callbacks, void *ctx, struct random *random)
	__attribute__((warn_unused_result));

/* Frees the CM and all connections. Sends no message and reports no event. */
void cm_free(struct cm *cm);

/*
 * Adds and removes one listener. REQs and SIDR_REQs for a service are reported while it has
 * listeners.
 */
int cm_listen(struct cm *cm, uint64_t service_id) __attribute__((warn_unused_result));
void cm_unlisten(struct cm *cm, uint64_t service_id);

/* Allocates a connection for the active side. NULL: out of memory. */
struct cm_conn *cm_conn_new(struct cm *cm, void *owner) __attribute__((warn_unused_result));

/*
 * Sets the time for which each later request of this connection waits for its response. At most
 * CM_TIMEOUT_MAX_NS.
 */
void cm_conn_set_timeout(struct cm_conn *conn, uint64_t timeout_ns);

/*
 * The smallest exponent with which CM_MAX_RETRIES repetitions take at least timeout_ns (IBA 1.x
 * §12.7.17).
 */
uint8_t cm_response_timeout(uint64_t timeout_ns);

/*
 * The consumer's calls. -EINVAL: invalid in this state, see cm/state.c. The caller fills in the REQ
 * or REP; the CM sets the communication IDs and the starting PSN.
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

/*
 * Ends the ownership. Sends the message that ends the connection in its present state (REJ, DREQ or
 * DREP). Repetitions and timewait go on without an owner, unless the user of the connection's tag
 * has more than CM_OWNERLESS_PER_USER such connections; afterwards the CM frees the connection.
 */
void cm_destroy(struct cm_conn *conn, uint64_t now_ns);

/* Getters. */
enum cm_state cm_conn_state(const struct cm_conn *conn);
uint32_t cm_conn_psn(const struct cm_conn *conn); /* the first PSN that the local QP expects */
uint32_t cm_conn_local_id(const struct cm_conn *conn);
uint32_t cm_conn_remote_id(const struct cm_conn *conn);
/*
 * The time since the first transmission of the current request, and *sent: the number of
 * transmissions.
 */
uint64_t cm_conn_waited_ns(const struct cm_conn *conn, uint64_t now_ns, uint32_t *sent);

int cm_conn_error(
	const struct cm_conn *conn); /* why no response came: -ETIMEDOUT, or the path's error */
size_t cm_conn_count(const struct cm *cm);
const struct cm_counters *cm_counters(const struct cm *cm);

/*
 * Handles one datagram that arrived on QP1. `path` is seen from this host: sgid is the datagram's
 * destination address.
 */
void cm_receive(struct cm *cm, const struct cm_path *path, const void *mad, size_t len,
		uint64_t now_ns);

/*
 * Handles an ICMP error about `path` that quotes `len` bytes of a MAD. Any host can forge an ICMP
 * error, so the CM accepts it only for an outgoing REQ or SIDR_REQ that has had no response, and
 * only if the quotation has its transaction ID. The request then ends with this error (-errno).
 */
void cm_unreachable(struct cm *cm, const struct cm_path *path, const void *mad, size_t len,
		    int error, uint64_t now_ns);

/* When to call cm_run() next; TIMER_NEVER_NS: no timer is armed. */
uint64_t cm_next_deadline(const struct cm *cm);
void cm_run(struct cm *cm, uint64_t now_ns);

#endif
