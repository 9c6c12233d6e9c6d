/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_CORE_XRC_FAR_H
#define USRDMA_CORE_XRC_FAR_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/relay.h"
#include "core/xrc.h"

/*
 * Names of XRC receive QPs in other processes than the one that made them (ibv_open_qp(3)). The QP is its maker's, and ends
 * with that process at the latest; a name asks there for what it is told to do, and hears the QP's events from there. Who
 * opens one shows that it has opened the QP's domain; who has opened it may do what its maker may.
 */

enum far_question {
	FAR_OPEN,
	FAR_CLOSE,
	FAR_QUERY,
	FAR_MODIFY,
};

/* What follows RELAY_ASK, whose `run` is the enum far_question. */
struct far_ask {
	uint64_t domain_id;
	int32_t mask; /* MODIFY */
	uint32_t reserved;
	struct ibv_qp_attr attr; /* likewise */
};

/* What follows RELAY_ANSWER, whose `verdict` is 0 or an errno. */
struct far_answer {
	struct ibv_qp_attr attr;
};

/* So many answers are kept for a process that does not read them. One that does asks no more than it has threads. */
#define FAR_ANSWERS_MAX 1024u

/*
 * Of a name: where its QP is. Guarded by engine.lock; dies with the name. Without a name it is what nobody waited for long
 * enough, and dies with the answer, or the process that owes it.
 */
struct xrc_far {
	struct list_head node; /* engine.xrc_fars.names, or .lost */
	struct qp *name;       /* NULL: lost */
	uint32_t slot;
	uint32_t qpn;
	uint32_t serial; /* lost: the question's */
	bool is_gone;	 /* with its process */
};

/* The engine's part. */
struct xrc_fars {
	struct list_head names; /* struct xrc_far */
	struct list_head lost;	/* struct xrc_far: if the answer is yes, it is given back */
	struct list_head
		holders; /* struct xrc_holder: processes that have names of QPs of this one */
	struct list_head asking;     /* struct asking: questions that wait for their answers */
	struct list_head owed;	     /* struct owed_word: there was no room for it */
	uint32_t owed_to[IPC_SLOTS]; /* how many of them are for each process */
	pthread_cond_t
		news; /* an answer, room, or the end of somebody: for who waits with engine.lock */
	uint32_t serial;
};

void xrc_fars_init(struct xrc_fars *fars);
/* The engine is over: nobody waits for answers any more. */
void xrc_fars_end(struct xrc_fars *fars);

/* The number is one of another process's, and the domain one that it may have open. */
bool xrc_far_may_be(const struct engine *engine, const struct xrc_domain *domain, uint32_t qpn);

/*
 * What a name's calls do; each waits for the QP's process, some seconds at most. All with engine.lock held, which they let
 * go meanwhile. 0 or -errno; -EIO: that process is gone; -ETIMEDOUT.
 */
int xrc_far_open(struct qp *name, uint32_t qpn) __attribute__((warn_unused_result));
int xrc_far_query(struct qp *name, struct ibv_qp_attr *attr) __attribute__((warn_unused_result));
int xrc_far_modify(struct qp *name, const struct ibv_qp_attr *attr, int mask)
	__attribute__((warn_unused_result));
/* The name is heard of no more. */
void xrc_far_close(struct qp *name);

/* xrc_held.c: at the QP's process. Tells all who have a name of it. */
void xrc_held_event(struct qp *qp, enum ibv_event_type event);
void xrc_held_ask(struct engine *engine, uint32_t slot, const struct relay_msg *msg,
		  const uint8_t *bytes, uint32_t len);
void xrc_held_room(struct engine *engine, uint32_t slot);
void xrc_held_gone(struct engine *engine, uint32_t slot);

/* xrc_far.c: what came from that slot, for a name here; room for more; its end. */
void xrc_far_take(struct engine *engine, uint32_t slot, const struct relay_msg *msg,
		  const uint8_t *bytes, uint32_t len);
void xrc_far_gone(struct engine *engine, uint32_t slot);

/* Sends it, and len bytes after it, now or as soon as there is room; an answer is dropped if too many wait for that. */
void xrc_far_say(struct engine *engine, uint32_t slot, const struct relay_msg *msg,
		 const void *more, uint32_t len);
/* Something waits for room there. */
static inline bool xrc_far_owes(const struct xrc_fars *fars, uint32_t slot)
{
	return fars->owed_to[slot] > 0;
}
void xrc_far_room(struct engine *engine, uint32_t slot);

#endif
