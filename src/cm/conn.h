/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_CM_CONN_H
#define USRDMA_CM_CONN_H

#include "base/hash.h"
#include "base/list.h"
#include "base/timer.h"
#include "cm/cm.h"
#include "cm/retry.h"

/* The inside of cm/: what cm.c keeps and action.c works on. */

struct cm_greylist;

/* One communication manager; owned by whoever called cm_new(), dies in cm_free(). */
struct cm {
	const struct cm_ops *ops;
	void *ctx;
	uint64_t random; /* state of the generator of PSNs */
	uint64_t secret; /* start of every hash: peers choose the keys */
	uint32_t next_comm_id;
	struct timer_heap timers;
	struct list_head conns;
	size_t conn_count;
	struct hash by_local_id;
	struct hash by_remote_id;  /* passive side: which REQ is a repetition */
	struct hash by_remote_qpn; /* a peer's QP has one connection at a time */
	struct hash services;

	/* service ID resolutions, see sidr.c */
	uint32_t next_request_id;
	struct list_head sidrs;
	struct list_head sidrs_answered; /* oldest first */
	size_t sidr_count;
	size_t answered_count;
	struct hash sidr_by_id;	  /* ours */
	struct hash sidr_by_peer; /* theirs */

	/* what peers began and did not finish, see admit.c */
	struct hash sources;
	uint32_t half_open;
	struct cm_greylist *greylist; /* NULL until it is needed */

	struct cm_counters counters;
};

/* A service that is listened to. Dies when the last listener leaves. */
struct cm_service {
	struct hash_node node;
	uint64_t service_id;
	uint32_t listeners;
	uint64_t pressed_until_ns; /* there was no room for all who asked */
};

/* A host that has half-open requests here; dies with the last of them. */
struct cm_source {
	struct hash_node node;
	uint8_t gid[GID_BYTES];
	uint32_t half_open;
};

/* Somebody who asks for a service. */
struct cm_asker {
	const uint8_t *gid;
	uint64_t name; /* a hash of what tells this request from the peer's others */
	bool is_local;
};

/*
 * One connection, or an attempt at one. Owned by the struct cm; `owner` is the consumer's and NULL once that has let
 * go. Dies when it is closed and nobody owns it.
 */
struct cm_conn {
	struct cm *cm;
	void *owner;
	struct list_head all;
	enum cm_state state;
	struct cm_retry retry; /* its timer is timewait's, too */
	struct cm_source
		*source; /* while it is half-open on the passive side; NULL if it came from here */

	/* who talks to whom */
	struct hash_node by_local_id;
	struct hash_node by_remote_id;
	struct hash_node by_remote_qpn;
	struct cm_path path;
	uint64_t local_ca_guid;
	uint64_t remote_ca_guid;
	uint64_t tid; /* of the REQ that began it */
	uint32_t local_comm_id;
	uint32_t remote_comm_id; /* 0: not told yet; 0 is nobody's */
	uint32_t local_qpn;
	uint32_t remote_qpn;
	uint32_t psn;
	uint8_t ack_timeout; /* 4.096 us * 2^n: what timewait is measured by */
	bool is_xrc;	     /* a REP names its QP where others have an EE context */
};

/* The QP that a REP of this connection names. */
static inline uint32_t cm_rep_qpn(const struct cm_conn *conn, const struct cm_rep *rep)
{
	return conn->is_xrc ? rep->local_eecn : rep->local_qpn;
}

/* What an input brings along; lives on the stack of the call that brings it. */
struct cm_step {
	enum cm_input input;
	uint64_t now_ns;
	const struct cm_msg *msg;   /* from the peer */
	const struct cm_path *path; /* where it came from */
	const struct cm_req *req;   /* CONNECT */
	const struct cm_rep *rep;   /* ACCEPT */
	const void *private_data;   /* REJECT */
	size_t private_len;
	uint16_t reason; /* REJECT */
	int error;	 /* UNREACHABLE */

	/* out: what the owner is to hear, once everything else is done */
	bool has_event;
	enum cm_event_type event;
};

typedef int cm_action_fn(struct cm_conn *conn, struct cm_step *step);

/* By enum cm_action; each answers 0 or -errno. */
cm_action_fn *cm_action_fn_of(enum cm_action action);

/* cm.c: the next of the numbers that strangers shall not guess. */
uint64_t cm_random(struct cm *cm);

/* cm.c: looks the input up, carries it out and tells the owner. The connection may be gone afterwards. */
int cm_step(struct cm_conn *conn, struct cm_step *step);

/* message.c: each fills a whole message about a connection. */
void cm_make_mra(const struct cm_conn *conn, enum cm_about about, struct cm_msg *msg);
void cm_make_rej(const struct cm_conn *conn, enum cm_about about, uint16_t reason,
		 struct cm_msg *msg);
void cm_make_rtu(const struct cm_conn *conn, struct cm_msg *msg);
void cm_make_dreq(const struct cm_conn *conn, struct cm_msg *msg);
void cm_make_drep(const struct cm_conn *conn, uint64_t tid, struct cm_msg *msg);
void cm_make_apr(const struct cm_conn *conn, uint64_t tid, struct cm_msg *msg);

/* retry.c: sends and counts, -errno if the path refused. */
int cm_send(struct cm *cm, const struct cm_path *path, const struct cm_msg *msg);
void cm_timewait_start(struct cm_conn *conn, uint64_t now_ns);

/*
 * admit.c: whether there is room for one more request. If so, it is half-open at *source until cm_close_half(); if not, its
 * sender hears nothing and will ask again. cm_turn_away() is for what was admitted and then found no room elsewhere.
 */
bool cm_admit(struct cm *cm, struct cm_service *service, const struct cm_asker *asker,
	      uint64_t now_ns, struct cm_source **source);
void cm_turn_away(struct cm *cm, struct cm_service *service, const struct cm_asker *asker,
		  uint64_t now_ns);
void cm_close_half(struct cm *cm, struct cm_source **source);
void cm_admit_fini(struct cm *cm);

/* sidr.c */
void cm_sidr_receive_req(struct cm *cm, const struct cm_path *path, const struct cm_msg *msg,
			 uint64_t now_ns);
void cm_sidr_receive_rep(struct cm *cm, const struct cm_path *path, const struct cm_msg *msg,
			 uint64_t now_ns);
void cm_sidr_unreachable(struct cm *cm, const struct cm_path *path, const struct cm_msg *msg,
			 int error, uint64_t now_ns);
void cm_sidr_free_all(struct cm *cm);

/* table.c: who is known under which name. */
struct cm_conn *cm_find_local(const struct cm *cm, uint32_t local_comm_id);
struct cm_conn *cm_find_request(const struct cm *cm, uint32_t remote_comm_id, uint64_t guid,
				const struct cm_path *path);
struct cm_conn *cm_find_qpn(const struct cm *cm, uint32_t qpn, uint64_t guid,
			    const struct cm_path *path);
void cm_name_local(struct cm_conn *conn);
void cm_name_remote(struct cm_conn *conn);
void cm_name_qpn(struct cm_conn *conn);
void cm_unname(struct cm_conn *conn);

struct cm_service *cm_find_service(const struct cm *cm, uint64_t service_id);

#endif
