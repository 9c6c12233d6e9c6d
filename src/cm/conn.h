/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_CM_CONN_H
#define USRDMA_CM_CONN_H

#include "base/hash.h"
#include "base/list.h"
#include "base/timer.h"
#include "cm/cm.h"

/* The inside of cm/: what cm.c keeps and action.c works on. */

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
	struct cm_counters counters;
};

/* A service that is listened to. Dies when the last listener leaves. */
struct cm_service {
	struct hash_node node;
	uint64_t service_id;
	uint32_t listeners;
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
	struct timer timer; /* of the retransmission, or of timewait */

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

	/* what waits for an answer, and how long */
	struct {
		uint8_t mad[MAD_BYTES];
		uint64_t wait_ns; /* the next wait */
		uint8_t left;
	} retry;
	uint8_t response_timeout; /* 4.096 us * 2^n: how long the peer may take */
	uint8_t max_retries;
	uint8_t ack_timeout; /* 4.096 us * 2^n: what timewait is measured by */
};

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

	/* out: what the owner is to hear, once everything else is done */
	bool has_event;
	enum cm_event_type event;
};

typedef int cm_action_fn(struct cm_conn *conn, struct cm_step *step);

/* By enum cm_action; each answers 0 or -errno. */
cm_action_fn *cm_action_fn_of(enum cm_action action);

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

/* retry.c: sends and counts, -errno if the path refused; sends and repeats until cm_retry_stop(). */
int cm_send(struct cm *cm, const struct cm_path *path, const struct cm_msg *msg);
void cm_retry_start(struct cm_conn *conn, const struct cm_msg *msg, uint64_t now_ns);
void cm_retry_again(struct cm_conn *conn, uint64_t now_ns);
void cm_retry_repeat(struct cm_conn *conn);
void cm_retry_wait(struct cm_conn *conn, uint8_t service_timeout, uint64_t now_ns);
void cm_retry_stop(struct cm_conn *conn);
void cm_timewait_start(struct cm_conn *conn, uint64_t now_ns);

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
