/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_ROCE_RELAY_H
#define USRDMA_ROCE_RELAY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/hash.h"
#include "base/list.h"
#include "core/context.h"
#include "core/relay.h"
#include "roce/qp.h"

/*
 * XRC receive QPs whose requests name SRQs of other processes of this host (core/relay.h). The home has the sequence: it
 * takes each PSN once and in order, and passes on what is another's. The owner has a proxy of the QP, a roce_qp like any
 * other but for its sequence, which executes and answers as if it were the QP.
 *
 * An acknowledgement speaks for all PSNs before it. So at any time one process alone executes: while a run is out the home
 * itself says nothing of the sequence, and what is not of that owner waits (kept.c); a run begins when the home owes
 * nothing, and ends when the proxy does.
 */

/* Waits for room to say something to another process. */
struct relay_wait {
	struct list_head node; /* roce.relay.waiting */
	struct roce_qp *rqp;
	uint32_t slot;
};

/* Of one process's requests that were for nobody, so many are remembered while there is no room to say so. */
#define RELAY_REFUSALS_MAX 256u

/* A set of processes. */
typedef uint64_t relay_slots[RELAY_SLOTS / 64];

/* At home: part of a roce_qp of an XRC receive QP whose domain others may have open. */
struct relay_home {
	struct list_head node; /* roce.relay.homes */
	struct relay_wait wait;
	struct roce_qp *rqp;
	relay_slots attached; /* who has a proxy, */
	relay_slots told;     /* and knows the attributes of now */
	uint32_t owner;	      /* whose the last run is */
	uint32_t run;
	uint32_t sent;	    /* requests of the run; all of them are done when … */
	uint32_t done;	    /* … this is the same */
	uint32_t first_psn; /* of the run */
	uint32_t done_psn;  /* what is before it is known to be executed */
	uint32_t lost_psn; /* the owner died: what lies from done_psn to here may be executed or not */
	bool is_inside;	   /* the message under way is the owner's */
	bool is_parked;	   /* the packet that is due is kept until it may go where it belongs */
	uint32_t parked_psn; /* … the last that was */
	uint64_t moved_ns; /* when this one was parked, the run began, or its owner said something */
	bool owes_excuse;  /* the requester has to wait, and is to know that */
};

/* At the owner: a QP of another process. Made by its ATTACH, dies with its DETACH, that process or the domain. */
struct relay_proxy {
	struct hash_node hash_node; /* roce.relay.proxies, by QPN */
	struct list_head node;	    /* roce.relay.proxy_list */
	struct relay_wait wait;
	struct qp qp;		/* no application's, on no table */
	struct context context; /* likewise */
	uint32_t run;
	uint32_t serial;
	enum verdict verdict; /* on that request */
	bool has_begun;	      /* a first run */
	bool is_over;	      /* the run failed: what still comes of it is dropped */
	bool owes_report;
};

static inline bool relay_is_settled(const struct relay_home *home)
{
	return home->sent == home->done;
}

/* The engine's part, in struct roce. 0 or -errno. */
int relay_open(struct roce_relay *relay) __attribute__((warn_unused_result));
void relay_close(struct roce_relay *relay);

/*
 * relay_home.c. A QP was bound, of a domain that others may share: 0 or -ENOMEM. Its end, and its way out of the states
 * that receive.
 */
int relay_home_open(struct roce_qp *rqp) __attribute__((warn_unused_result));
void relay_home_close(struct roce_qp *rqp);
void relay_home_halt(struct roce_qp *rqp);
/* Its attributes changed: whoever has a proxy is told before the next request. */
void relay_home_changed(struct roce_qp *rqp);

/*
 * The packet whose turn it is: accepted, it is this process's own and may be executed now; relayed, another process has it;
 * parked, it has to wait; or no process has that SRQ.
 */
enum verdict relay_route(struct roce_qp *rqp, const struct packet *packet);
/* A duplicate that has an answer of its own is of another process: has it answered there. */
bool relay_is_foreign(const struct roce_qp *rqp, const struct packet *packet);
enum verdict relay_replay(struct roce_qp *rqp, const struct packet *packet);
/* A packet came again to a QP that erred because the owner died: what is before it was executed. */
void relay_learn(struct roce_qp *rqp, const struct packet *packet);

/*
 * A packet came from the wire that came before, or has to wait. Where the owner has been silent for long its requester is told
 * to wait, as it is for want of a receive: its retries are for packets that are lost. The PSN that it is to come again with:
 * nothing from there on is known to be executed.
 */
void relay_home_excuse(struct roce_qp *rqp, const struct packet *packet);
uint32_t relay_awaited_psn(const struct roce_qp *rqp);

void relay_home_report(struct roce *roce, uint32_t slot, const struct relay_msg *msg);
void relay_home_room(struct roce_qp *rqp);
void relay_home_gone(struct roce *roce, uint32_t slot);

/* relay_proxy.c. `bytes` are what follows the message. */
void relay_proxy_attach(struct roce *roce, uint32_t slot, const struct relay_msg *msg,
			const uint8_t *bytes, uint32_t len);
void relay_proxy_request(struct roce *roce, uint32_t slot, const struct relay_msg *msg,
			 const uint8_t *bytes, uint32_t len);
void relay_proxy_detach(struct roce *roce, uint32_t slot, const struct relay_msg *msg);
void relay_proxy_gone(struct roce *roce, uint32_t slot);
/* The run is over with the request under way; the home says no to the requester too. */
void relay_proxy_refuse(struct roce_qp *rqp, enum verdict verdict);
/* All that is due has been sent: tells the home. */
void relay_proxy_report(struct roce_qp *rqp);

/* relay.c: as relay_send(), and if there is no room the QP hears of it when there is. */
int relay_say(struct roce_qp *rqp, struct relay_wait *wait, uint32_t slot,
	      const struct relay_msg *msg, const struct iovec *pieces, int count)
	__attribute__((warn_unused_result));
/* A message without anything behind it, which is said later if there is no room now. Behind what is owed already. */
void relay_say_surely(struct roce *roce, uint32_t slot, const struct relay_msg *msg);
/* Says what is owed to that process; false: there is no room yet. */
bool relay_pay(struct roce *roce, uint32_t slot);
/* The QP hears when there is room. */
void relay_wait_for(struct roce_qp *rqp, struct relay_wait *wait, uint32_t slot);

/* The members of struct transport. */
void roce_relay_take(struct engine *engine, uint32_t slot, const struct relay_msg *msg,
		     const uint8_t *bytes, uint32_t len);
void roce_relay_room(struct engine *engine, uint32_t slot);
void roce_relay_gone(struct engine *engine, uint32_t slot);
void roce_relay_domain_closed(struct engine *engine, const struct xrc_domain *domain);
void roce_relay_publish(struct qp *qp);

#endif
