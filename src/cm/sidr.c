/* SPDX-License-Identifier: BSD-2-Clause */
#include "cm/sidr.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/util.h"
#include "cm/conn.h"
#include "cm/probe.h"

/*
 * A response is kept for longer than Linux waits before it repeats a SIDR_REQ, 4.3 s, but at most
 * so many of them. A repetition of a request whose response was dropped is reported to the consumer
 * again, as Linux does.
 */
#define RESPONSE_KEPT_NS (10 * CLOCK_NS_PER_S)
#define RESPONSES_MAX	 4096u

/*
 * One resolution, outgoing or incoming. Owned by the struct cm. `owner` is the consumer's object;
 * NULL after cm_sidr_destroy(). On the passive side `retry` only keeps the response. Freed when it
 * is closed.
 */
struct cm_sidr {
	struct cm *cm;
	void *owner;
	struct list_head all;
	struct list_head responded; /* of struct cm.sidrs_responded */
	enum cm_sidr_state state;
	struct cm_retry retry;
	struct cm_source *source; /* of an incoming request, until its response is sent */
	struct hash_node by_id;
	struct hash_node by_peer;
	struct cm_path path;
	uint64_t service_id;
	uint64_t tid;
	uint32_t request_id; /* chosen by the active side */
	struct cm_tag tag;
};

/* One input of the state table and its arguments. On the caller's stack. */
struct sidr_step {
	enum cm_sidr_input input;
	uint64_t now_ns;
	const struct cm_path *path;
	const struct cm_msg *msg;	 /* from the peer */
	const struct cm_sidr_req *req;	 /* RESOLVE */
	const struct cm_sidr_rep *reply; /* ANSWER */
	int error;			 /* UNREACHABLE */

	/* out: the event for the owner, reported last */
	bool is_over;
	const struct cm_sidr_rep *received;
};

static int take_step(struct cm_sidr *sidr, struct sidr_step *step);

static uint64_t hash_own(const struct cm *cm, uint32_t request_id)
{
	return hash_mix(cm->secret, request_id);
}

/* A repetition has the same transaction ID; a new request with the same request ID has another. */
static uint64_t hash_peers(const struct cm *cm, uint32_t request_id, uint64_t tid)
{
	return hash_mix(hash_mix(cm->secret, tid), request_id);
}

static struct cm_sidr *find_own(const struct cm *cm, uint32_t request_id)
{
	struct hash_node *node;

	hash_for_each(node, &cm->sidr_by_id, hash_own(cm, request_id))
	{
		struct cm_sidr *sidr = container_of(node, struct cm_sidr, by_id);

		if (sidr->request_id == request_id)
			return sidr;
	}
	return NULL;
}

static struct cm_sidr *find_peers(const struct cm *cm, const struct cm_path *path,
				  uint32_t request_id, uint64_t tid)
{
	struct hash_node *node;

	hash_for_each(node, &cm->sidr_by_peer, hash_peers(cm, request_id, tid))
	{
		struct cm_sidr *sidr = container_of(node, struct cm_sidr, by_peer);

		if (sidr->request_id == request_id && sidr->tid == tid &&
		    !memcmp(sidr->path.dgid, path->dgid, GID_BYTES))
			return sidr;
	}
	return NULL;
}

static void sidr_on_timer(struct timer *timer, uint64_t now_ns)
{
	struct cm_sidr *sidr = container_of(timer, struct cm_sidr, retry.timer);
	bool is_last = sidr->state == CM_SIDR_STATE_RESPONDED ||
		       cm_retry_is_over(&sidr->retry, now_ns);
	struct sidr_step in = {
		.input = is_last ? CM_SIDR_IN_EXPIRED : CM_SIDR_IN_RETRY,
		.now_ns = now_ns,
	};

	(void)take_step(sidr, &in);
}

struct cm_sidr *cm_sidr_new(struct cm *cm, void *owner)
{
	struct cm_sidr *sidr = calloc(1, sizeof(*sidr));

	if (!sidr)
		return NULL;
	sidr->cm = cm;
	sidr->owner = owner;
	cm_retry_init(&sidr->retry, sidr_on_timer);
	list_init(&sidr->responded);
	list_add_tail(&sidr->all, &cm->sidrs);
	cm->sidr_count++;
	return sidr;
}

static void sidr_free(struct cm_sidr *sidr)
{
	struct cm *cm = sidr->cm;

	cm_retry_stop(&sidr->retry, cm);
	cm_half_open_close(cm, &sidr->source);
	hash_del(&cm->sidr_by_id, &sidr->by_id);
	hash_del(&cm->sidr_by_peer, &sidr->by_peer);
	if (list_is_linked(&sidr->responded))
		cm->responded_count--;
	list_del(&sidr->responded);
	list_del(&sidr->all);
	cm->sidr_count--;
	free(sidr);
}

void cm_sidr_free_all(struct cm *cm)
{
	while (!list_is_empty(&cm->sidrs))
		sidr_free(list_first_entry(&cm->sidrs, struct cm_sidr, all));
}

static int sidr_do_illegal(struct cm_sidr *sidr, struct sidr_step *step)
{
	(void)sidr;
	(void)step;
	return -EINVAL;
}

static int sidr_do_nothing(struct cm_sidr *sidr, struct sidr_step *step)
{
	(void)sidr;
	(void)step;
	return 0;
}

static int sidr_do_stray(struct cm_sidr *sidr, struct sidr_step *step)
{
	(void)step;
	sidr->cm->counters.strays++;
	return 0;
}

/* The loop ends: there are more IDs than resolutions that fit into memory. */
static void sidr_name_own(struct cm_sidr *sidr)
{
	struct cm *cm = sidr->cm;

	do {
		sidr->request_id = random_u32(cm->id_random);
	} while (find_own(cm, sidr->request_id));
	sidr->tid = random_u64(cm->random);
	hash_add(&cm->sidr_by_id, &sidr->by_id, hash_own(cm, sidr->request_id));
}

static int sidr_do_send_req(struct cm_sidr *sidr, struct sidr_step *step)
{
	struct cm_msg msg = {.type = CM_MSG_SIDR_REQ};

	sidr_name_own(sidr);
	sidr->path = *step->path;
	sidr->service_id = step->req->service_id;
	msg.tid = sidr->tid;
	msg.sidr_req = *step->req;
	msg.sidr_req.request_id = sidr->request_id;
	cm_retry_start(&sidr->retry, sidr->cm, &sidr->path, &msg, step->now_ns);
	return 0;
}

static int sidr_do_resend(struct cm_sidr *sidr, struct sidr_step *step)
{
	cm_retry_again(&sidr->retry, sidr->cm, &sidr->path, step->now_ns);
	return 0;
}

static int sidr_do_take_rep(struct cm_sidr *sidr, struct sidr_step *step)
{
	(void)sidr;
	step->is_over = true;
	step->received = &step->msg->sidr_rep;
	return 0;
}

static int do_give_up(struct cm_sidr *sidr, struct sidr_step *step)
{
	if (step->error) {
		sidr->retry.error = step->error;
		sidr->cm->counters.unreachable++;
	}
	step->is_over = true;
	return 0;
}

static int sidr_do_take_req(struct cm_sidr *sidr, struct sidr_step *step)
{
	const struct cm_sidr_req *req = &step->msg->sidr_req;

	sidr->path = *step->path;
	sidr->tid = step->msg->tid;
	sidr->request_id = req->request_id;
	sidr->service_id = req->service_id;
	hash_add(&sidr->cm->sidr_by_peer, &sidr->by_peer,
		 hash_peers(sidr->cm, sidr->request_id, sidr->tid));
	return 0;
}

/* Drops the oldest responses beyond RESPONSES_MAX. */
static void keep_response(struct cm_sidr *sidr, uint64_t now_ns)
{
	struct cm *cm = sidr->cm;

	if (cm->responded_count >= RESPONSES_MAX)
		sidr_free(list_first_entry(&cm->sidrs_responded, struct cm_sidr, responded));
	list_add_tail(&sidr->responded, &cm->sidrs_responded);
	cm->responded_count++;
	timer_add(&cm->timers, &sidr->retry.timer, now_ns + RESPONSE_KEPT_NS);
}

static int sidr_reply(struct cm_sidr *sidr, const struct cm_sidr_rep *reply, uint64_t now_ns)
{
	struct cm_msg msg = {.type = CM_MSG_SIDR_REP, .tid = sidr->tid, .sidr_rep = *reply};

	msg.sidr_rep.request_id = sidr->request_id;
	msg.sidr_rep.service_id = sidr->service_id;
	cm_half_open_close(sidr->cm, &sidr->source);
	sidr->owner = NULL;
	cm_msg_build(&msg, sidr->retry.mad);
	sidr->retry.sent = 1;
	keep_response(sidr, now_ns);
	/* If the SIDR_REP is lost, the peer repeats its SIDR_REQ. */
	(void)cm_send(sidr->cm, &sidr->path, &msg);
	return 0;
}

static int sidr_do_send_rep(struct cm_sidr *sidr, struct sidr_step *step)
{
	return sidr_reply(sidr, step->reply, step->now_ns);
}

static int do_send_no(struct cm_sidr *sidr, struct sidr_step *step)
{
	const struct cm_sidr_rep no = {.status = CM_SIDR_REJECTED};

	return sidr_reply(sidr, &no, step->now_ns);
}

static int sidr_do_repeat_rep(struct cm_sidr *sidr, struct sidr_step *step)
{
	cm_retry_repeat(&sidr->retry, sidr->cm, &sidr->path, step->now_ns);
	return 0;
}

static int (*const actions[])(struct cm_sidr *sidr, struct sidr_step *step) = {
	[CM_SIDR_ACTION_MISSING] = sidr_do_illegal,
	[CM_SIDR_ACTION_ILLEGAL] = sidr_do_illegal,
	[CM_SIDR_ACTION_NOTHING] = sidr_do_nothing,
	[CM_SIDR_ACTION_STRAY] = sidr_do_stray,
	[CM_SIDR_ACTION_NEVER] = sidr_do_nothing,
	[CM_SIDR_ACTION_SEND_REQ] = sidr_do_send_req,
	[CM_SIDR_ACTION_RESEND] = sidr_do_resend,
	[CM_SIDR_ACTION_TAKE_REP] = sidr_do_take_rep,
	[CM_SIDR_ACTION_GIVE_UP] = do_give_up,
	[CM_SIDR_ACTION_TAKE_REQ] = sidr_do_take_req,
	[CM_SIDR_ACTION_SEND_REP] = sidr_do_send_rep,
	[CM_SIDR_ACTION_SEND_NO] = do_send_no,
	[CM_SIDR_ACTION_REPEAT_REP] = sidr_do_repeat_rep,
};
static_assert(COUNT(actions) == CM_SIDR_ACTION_COUNT, "every action has its function");

/*
 * Looks the input up in the state table, runs its action and reports the event. Frees a closed
 * resolution.
 */
static int take_step(struct cm_sidr *sidr, struct sidr_step *step)
{
	struct cm_sidr_cell cell = cm_sidr_cell(sidr->state, step->input);
	struct cm *cm = sidr->cm;
	int ret;

	trace_sidr_state(sidr->request_id, sidr->state, (enum cm_sidr_state)cell.next, step->input);
	sidr->state = (enum cm_sidr_state)cell.next;
	ret = actions[cell.action](sidr, step);
	if (sidr->state != CM_SIDR_STATE_CLOSED)
		return ret;
	cm_retry_stop(&sidr->retry, cm);
	hash_del(&cm->sidr_by_id, &sidr->by_id);
	if (step->is_over && sidr->owner)
		cm->callbacks->sidr_event(cm->ctx, sidr, sidr->owner, step->received, step->now_ns);
	sidr_free(sidr);
	return ret;
}

int cm_sidr_resolve(struct cm_sidr *sidr, const struct cm_path *path, const struct cm_sidr_req *req,
		    uint64_t timeout_ns, uint64_t now_ns)
{
	struct sidr_step in = {
		.input = CM_SIDR_IN_RESOLVE,
		.now_ns = now_ns,
		.path = path,
		.req = req,
	};

	/*
	 * Linux drops a request once it has sent the response. A SIDR_REP that crosses it belongs
	 * to another request of its consumer.
	 */
	if (sidr->state == CM_SIDR_STATE_IDLE)
		cm_retry_seldom(&sidr->retry, timeout_ns);
	return take_step(sidr, &in);
}

int cm_sidr_reply(struct cm_sidr *sidr, const struct cm_sidr_rep *rep, uint64_t now_ns)
{
	struct sidr_step in = {.input = CM_SIDR_IN_RESPONSE, .now_ns = now_ns, .reply = rep};

	return take_step(sidr, &in);
}

void cm_sidr_destroy(struct cm_sidr *sidr, uint64_t now_ns)
{
	struct sidr_step in = {.input = CM_SIDR_IN_DESTROY, .now_ns = now_ns};

	sidr->owner = NULL;
	(void)take_step(sidr, &in);
}

void cm_sidr_set_tag(struct cm_sidr *sidr, const struct cm_tag *tag)
{
	sidr->tag = *tag;
}

const struct cm_tag *cm_sidr_tag_of(const struct cm *cm, const struct cm_path *path,
				    const struct cm_msg *msg, bool is_received)
{
	bool is_req = msg->type == CM_MSG_SIDR_REQ;
	uint32_t request_id = is_req ? msg->sidr_req.request_id : msg->sidr_rep.request_id;
	const struct cm_sidr *sidr;

	if (!is_req && msg->type != CM_MSG_SIDR_REP)
		return NULL;
	sidr = is_req == is_received ? find_peers(cm, path, request_id, msg->tid) :
				       find_own(cm, request_id);
	return sidr && !memcmp(sidr->path.dgid, path->dgid, GID_BYTES) ? &sidr->tag : NULL;
}

enum cm_sidr_state cm_sidr_state_of(const struct cm_sidr *sidr)
{
	return sidr->state;
}

int cm_sidr_error(const struct cm_sidr *sidr)
{
	return sidr->retry.error;
}

size_t cm_sidr_count(const struct cm *cm)
{
	return cm->sidr_count;
}

/* Sends a SIDR_REP without a resolution. */
static void sidr_refuse(struct cm *cm, const struct cm_path *path, const struct cm_msg *request,
			uint8_t status)
{
	struct cm_msg msg = {
		.type = CM_MSG_SIDR_REP,
		.tid = request->tid,
		.sidr_rep =
			{
				.request_id = request->sidr_req.request_id,
				.service_id = request->sidr_req.service_id,
				.status = status,
			},
	};

	(void)cm_send(cm, path, &msg);
}

/* Reports an admitted SIDR_REQ to the consumer. */
static void sidr_ask(struct cm *cm, struct cm_service *service,
		     const struct cm_requester *requester, struct cm_sidr *sidr,
		     struct sidr_step *in)
{
	uint8_t status = CM_SIDR_VALID;
	struct sidr_step out = {.now_ns = in->now_ns};
	struct cm_sidr_rep no = {0};

	(void)take_step(sidr, in);
	sidr->owner = cm->callbacks->sidr_request(cm->ctx, sidr, in->path, &in->msg->sidr_req,
						  &status);
	if (sidr->owner)
		return;
	if (status == CM_SIDR_VALID)
		cm_half_open_deny(cm, service, requester, in->now_ns);
	no.status = status;
	out.input = status == CM_SIDR_VALID ? CM_SIDR_IN_DROP : CM_SIDR_IN_RESPONSE;
	out.reply = &no;
	(void)take_step(sidr, &out);
}

void cm_sidr_receive_req(struct cm *cm, const struct cm_path *path, const struct cm_msg *msg,
			 uint64_t now_ns)
{
	const struct cm_sidr_req *req = &msg->sidr_req;
	struct cm_sidr *sidr = find_peers(cm, path, req->request_id, msg->tid);
	struct sidr_step in = {
		.input = CM_SIDR_IN_REQ,
		.now_ns = now_ns,
		.path = path,
		.msg = msg,
	};
	const struct cm_requester requester = {
		.gid = path->dgid,
		.is_local = path->is_local,
		.name = hash_peers(cm, req->request_id, msg->tid),
	};
	struct cm_service *service;
	struct cm_source *source;

	if (sidr) {
		(void)take_step(sidr, &in);
		return;
	}
	service = cm_find_service(cm, req->service_id);
	if (!service) {
		sidr_refuse(cm, path, msg, CM_SIDR_UNSUPPORTED);
		return;
	}
	if (!cm_half_open_admit(cm, service, &requester, now_ns, &source))
		return;
	/* Out of memory: the peer repeats its request. */
	sidr = cm_sidr_new(cm, NULL);
	if (!sidr) {
		cm_half_open_close(cm, &source);
		return;
	}
	sidr->source = source;
	sidr_ask(cm, service, &requester, sidr, &in);
}

/*
 * The SIDR_REP must come from the address of the SIDR_REQ and have its transaction and request ID.
 */
void cm_sidr_receive_rep(struct cm *cm, const struct cm_path *path, const struct cm_msg *msg,
			 uint64_t now_ns)
{
	struct cm_sidr *sidr = find_own(cm, msg->sidr_rep.request_id);
	struct sidr_step in = {
		.input = CM_SIDR_IN_REP,
		.now_ns = now_ns,
		.path = path,
		.msg = msg,
	};

	if (sidr && sidr->tid == msg->tid && !memcmp(sidr->path.dgid, path->dgid, GID_BYTES))
		(void)take_step(sidr, &in);
	else
		cm->counters.strays++;
}

void cm_sidr_unreachable(struct cm *cm, const struct cm_path *path, const struct cm_msg *msg,
			 int error, uint64_t now_ns)
{
	struct cm_sidr *sidr = find_own(cm, msg->sidr_req.request_id);
	struct sidr_step in = {
		.input = CM_SIDR_IN_UNREACHABLE,
		.now_ns = now_ns,
		.error = error,
	};

	if (sidr && sidr->tid == msg->tid && !memcmp(sidr->path.dgid, path->dgid, GID_BYTES))
		(void)take_step(sidr, &in);
	else
		cm->counters.strays++;
}
