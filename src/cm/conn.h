/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_CM_CONN_H
#define USRDMA_CM_CONN_H

#include "base/hash.h"
#include "base/list.h"
#include "base/random.h"
#include "base/timer.h"
#include "cm/cm.h"
#include "cm/retry.h"
#include "cm/tag.h"
#include "cm/validation.h"

/*
 * Private to cm/: the objects of the communication manager, and the functions that its files share.
 */

struct cm_denied_filter;
struct cm_user;

/* One communication manager. Allocated by cm_new(), freed by cm_free(). */
struct cm {
	const struct cm_callbacks *callbacks;
	void *ctx;
	struct random *random;
	struct random *id_random; /* for communication and request IDs; the same generator */
	uint64_t secret;	  /* key of every hash, since peers choose the hashed values */
	struct timer_heap timers;
	struct list_head conns;
	size_t conn_count;
	struct hash by_local_id;
	struct hash by_remote_id;  /* passive side: recognizes repeated REQs */
	struct hash by_remote_qpn; /* a peer's QP has one connection at a time */
	struct hash services;

	/* service ID resolutions, see sidr.c */
	struct list_head sidrs;
	struct list_head sidrs_responded; /* oldest first */
	size_t sidr_count;
	size_t responded_count;
	struct hash sidr_by_id;	  /* outgoing requests */
	struct hash sidr_by_peer; /* incoming requests */

	/* the half-open limiter, see half_open.c */
	struct hash sources;
	uint32_t half_open;
	struct cm_denied_filter *denied; /* NULL until a request is denied */

	/* validated addresses, see validation.c; the longest unused first */
	struct hash addresses;
	struct list_head addresses_recent;

	struct hash users; /* with connections without an owner, see ownerless.c */

	struct cm_counters counters;
};

/* A service with listeners. Freed with its last listener. */
struct cm_service {
	struct hash_node node;
	uint64_t service_id;
	uint32_t listeners;
	uint64_t crowded_until_ns; /* until then first requests are denied */
};

/* A host that has half-open requests here. Freed with the last of them. */
struct cm_source {
	struct hash_node node;
	uint8_t gid[GID_BYTES];
	uint32_t half_open;
};

/* The sender of a REQ or SIDR_REQ. */
struct cm_requester {
	const uint8_t *gid;
	uint64_t name; /* a hash of the fields that identify this request and its repetitions */
	bool is_local;
};

/*
 * One connection, in any state. Owned by the struct cm. `owner` is the consumer's object; NULL
 * after cm_destroy(). Freed when the state is CLOSED and `owner` is NULL.
 */
struct cm_conn {
	struct cm *cm;
	void *owner;
	struct list_head all;
	struct cm_user *user; /* without an owner, after cm_ownerless_add(); else NULL */
	struct list_head of_user;
	enum cm_state state;
	struct cm_retry retry;		 /* its timer also measures timewait */
	struct cm_validation validation; /* of the peer's address */
	struct cm_source
		*source; /* while half-open on the passive side; NULL: the peer is on this host */

	/* the two ends */
	struct hash_node by_local_id;
	struct hash_node by_remote_id;
	struct hash_node by_remote_qpn;
	struct cm_path path;
	uint64_t local_ca_guid;
	uint64_t remote_ca_guid;
	uint64_t tid;		/* of the REQ */
	uint64_t challenge_tid; /* of the last challenge; 0: none sent */
	uint64_t challenged_ns;
	uint32_t local_comm_id;
	uint32_t remote_comm_id; /* 0: not known; 0 is not a valid ID */
	uint32_t local_qpn;
	uint32_t remote_qpn;
	uint32_t psn;
	uint8_t ack_timeout; /* 4.096 us * 2^n: the length of timewait */
	bool is_xrc;	     /* a REP has the QPN in the field of the EE context */
	struct cm_tag tag;
};

/* The QPN in a REP of this connection. */
static inline uint32_t cm_rep_qpn(const struct cm_conn *conn, const struct cm_rep *rep)
{
	return conn->is_xrc ? rep->local_eecn : rep->local_qpn;
}

/* One input of the state table and its arguments. On the caller's stack. */
struct cm_step {
	enum cm_input input;
	uint64_t now_ns;
	const struct cm_msg *msg;   /* from the peer */
	const struct cm_path *path; /* of the message */
	const struct cm_req *req;   /* CONNECT */
	const struct cm_rep *rep;   /* ACCEPT */
	const void *private_data;   /* REJECT */
	size_t private_len;
	uint16_t reason; /* REJECT */
	int error;	 /* UNREACHABLE */

	/* out: the event for the owner, reported last */
	bool has_event;
	enum cm_event_type event;
};

typedef int cm_action_fn(struct cm_conn *conn, struct cm_step *step);

/* The function of an action; it returns 0 or -errno. */
cm_action_fn *cm_action_fn_of(enum cm_action action);

/*
 * cm.c: looks the input up in the state table, runs its action and reports the event. May free the
 * connection.
 */
int cm_step(struct cm_conn *conn, struct cm_step *step);

/* message.c: each fills in a whole message about a connection. */
void cm_make_mra(const struct cm_conn *conn, enum cm_about about, struct cm_msg *msg);
void cm_make_rej(const struct cm_conn *conn, enum cm_about about, uint16_t reason,
		 struct cm_msg *msg);
void cm_make_rtu(const struct cm_conn *conn, struct cm_msg *msg);
void cm_make_dreq(const struct cm_conn *conn, struct cm_msg *msg);
void cm_make_challenge(const struct cm_conn *conn, struct cm_msg *msg);
void cm_make_drep(const struct cm_conn *conn, uint64_t tid, struct cm_msg *msg);
void cm_make_address_challenge(const struct cm_conn *conn, struct cm_msg *msg);
void cm_make_apr(const struct cm_conn *conn, uint64_t tid, struct cm_msg *msg);

/*
 * retry.c: both send and count; -errno: cm_callbacks.send failed. cm_send() is for the one response
 * to a received MAD. cm_conn_send() sends nothing, and returns 0, if the peer's address is not
 * validated and no credit is left.
 */
int cm_send(struct cm *cm, const struct cm_path *path, const struct cm_msg *msg);
int cm_conn_send(struct cm_conn *conn, const struct cm_msg *msg, uint64_t now_ns);
void cm_timewait_start(struct cm_conn *conn, uint64_t now_ns);

/*
 * half_open.c: cm_half_open_admit() tells whether the limits permit one more half-open request. If
 * so, the request counts in *source until cm_half_open_close(). If not, the caller drops it without
 * a response. cm_half_open_deny() denies a request that was admitted, for instance because the
 * listener's backlog is full.
 */
bool cm_half_open_admit(struct cm *cm, struct cm_service *service,
			const struct cm_requester *requester, uint64_t now_ns,
			struct cm_source **source);
void cm_half_open_deny(struct cm *cm, struct cm_service *service,
		       const struct cm_requester *requester, uint64_t now_ns);
void cm_half_open_close(struct cm *cm, struct cm_source **source);
void cm_half_open_fini(struct cm *cm);

/*
 * ownerless.c: counts a connection whose owner has gone, from before the step that ends it until it
 * is freed. Above the limit of its user, the oldest other such connection of this user is freed.
 */
void cm_ownerless_add(struct cm_conn *conn, uint64_t now_ns);
void cm_ownerless_remove(struct cm_conn *conn);

/* sidr.c */
void cm_sidr_receive_req(struct cm *cm, const struct cm_path *path, const struct cm_msg *msg,
			 uint64_t now_ns);
void cm_sidr_receive_rep(struct cm *cm, const struct cm_path *path, const struct cm_msg *msg,
			 uint64_t now_ns);
void cm_sidr_unreachable(struct cm *cm, const struct cm_path *path, const struct cm_msg *msg,
			 int error, uint64_t now_ns);
void cm_sidr_free_all(struct cm *cm);
const struct cm_tag *cm_sidr_tag_of(const struct cm *cm, const struct cm_path *path,
				    const struct cm_msg *msg, bool is_received);

/* table.c: the look-up of connections and services. */
uint64_t cm_hash_gid(const struct cm *cm, const uint8_t gid[GID_BYTES]);
struct cm_conn *cm_find_local(const struct cm *cm, uint32_t local_comm_id);
struct cm_conn *cm_find_request(const struct cm *cm, uint32_t remote_comm_id, uint64_t guid,
				const struct cm_path *path);
struct cm_conn *cm_find_qpn(const struct cm *cm, uint32_t qpn, uint64_t guid,
			    const struct cm_path *path);
void cm_name_local(struct cm_conn *conn);
void cm_name_remote(struct cm_conn *conn);
void cm_name_qpn(struct cm_conn *conn);
void cm_unname_qpn(struct cm_conn *conn);
void cm_unname(struct cm_conn *conn);

struct cm_service *cm_find_service(const struct cm *cm, uint64_t service_id);

#endif
