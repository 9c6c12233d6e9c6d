/* SPDX-License-Identifier: BSD-2-Clause */
#include "cm/cm.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "cm/conn.h"
#include "cm/probe.h"

static const char *const event_names[] = {
	[CM_EVENT_REP] = "rep",
	[CM_EVENT_RTU] = "rtu",
	[CM_EVENT_REJ] = "rej",
	[CM_EVENT_REQ_ERROR] = "req_error",
	[CM_EVENT_REP_ERROR] = "rep_error",
	[CM_EVENT_DREQ] = "dreq",
	[CM_EVENT_DREP] = "drep",
	[CM_EVENT_DREQ_ERROR] = "dreq_error",
	[CM_EVENT_LOST] = "lost",
	[CM_EVENT_TIMEWAIT_EXIT] = "timewait_exit",
};
static_assert(COUNT(event_names) == CM_EVENT_COUNT, "every event has a name");

const char *cm_event_name(enum cm_event_type type)
{
	return (unsigned)type < CM_EVENT_COUNT ? event_names[type] : "?";
}

struct cm *cm_new(const struct cm_callbacks *callbacks, void *ctx, struct random *random)
{
	struct cm *cm = calloc(1, sizeof(*cm));

	if (!cm)
		return NULL;
	cm->callbacks = callbacks;
	cm->ctx = ctx;
	cm->random = random;
	cm->id_random = random;
	cm->secret = random_u64(random);
	timer_heap_init(&cm->timers);
	list_init(&cm->conns);
	list_init(&cm->sidrs);
	list_init(&cm->sidrs_responded);
	list_init(&cm->addresses_recent);
	if (hash_init(&cm->by_local_id))
		goto err_local_id;
	if (hash_init(&cm->by_remote_id))
		goto err_remote_id;
	if (hash_init(&cm->by_remote_qpn))
		goto err_remote_qpn;
	if (hash_init(&cm->services))
		goto err_services;
	if (hash_init(&cm->sidr_by_id))
		goto err_sidr_by_id;
	if (hash_init(&cm->sidr_by_peer))
		goto err_sidr_by_peer;
	if (hash_init(&cm->sources))
		goto err_sources;
	if (hash_init(&cm->addresses))
		goto err_addresses;
	if (hash_init(&cm->users))
		goto err_users;
	return cm;

err_users:
	hash_fini(&cm->addresses);
err_addresses:
	hash_fini(&cm->sources);
err_sources:
	hash_fini(&cm->sidr_by_peer);
err_sidr_by_peer:
	hash_fini(&cm->sidr_by_id);
err_sidr_by_id:
	hash_fini(&cm->services);
err_services:
	hash_fini(&cm->by_remote_qpn);
err_remote_qpn:
	hash_fini(&cm->by_remote_id);
err_remote_id:
	hash_fini(&cm->by_local_id);
err_local_id:
	free(cm);
	return NULL;
}

static void conn_free(struct cm_conn *conn)
{
	cm_retry_stop(&conn->retry, conn->cm);
	cm_half_open_close(conn->cm, &conn->source);
	cm_ownerless_remove(conn);
	cm_unname(conn);
	list_del(&conn->all);
	conn->cm->conn_count--;
	free(conn);
}

void cm_free(struct cm *cm)
{
	while (!list_is_empty(&cm->conns))
		conn_free(list_first_entry(&cm->conns, struct cm_conn, all));
	cm_sidr_free_all(cm);
	cm_half_open_fini(cm);
	cm_validation_fini(cm);
	for (uint32_t i = 0; i <= cm->services.mask; i++) {
		while (cm->services.buckets[i]) {
			struct hash_node *node = cm->services.buckets[i];

			hash_del(&cm->services, node);
			free(container_of(node, struct cm_service, node));
		}
	}
	hash_fini(&cm->users);
	hash_fini(&cm->addresses);
	hash_fini(&cm->sources);
	hash_fini(&cm->sidr_by_peer);
	hash_fini(&cm->sidr_by_id);
	hash_fini(&cm->services);
	hash_fini(&cm->by_remote_qpn);
	hash_fini(&cm->by_remote_id);
	hash_fini(&cm->by_local_id);
	free(cm);
}

int cm_listen(struct cm *cm, uint64_t service_id)
{
	struct cm_service *service = cm_find_service(cm, service_id);

	if (!service) {
		service = calloc(1, sizeof(*service));
		if (!service)
			return -ENOMEM;
		service->service_id = service_id;
		hash_add(&cm->services, &service->node, hash_mix(cm->secret, service_id));
	}
	service->listeners++;
	return 0;
}

void cm_unlisten(struct cm *cm, uint64_t service_id)
{
	struct cm_service *service = cm_find_service(cm, service_id);

	if (!service || --service->listeners > 0)
		return;
	hash_del(&cm->services, &service->node);
	free(service);
}

static void cm_on_timer(struct timer *timer, uint64_t now_ns)
{
	struct cm_conn *conn = container_of(timer, struct cm_conn, retry.timer);
	bool is_last = conn->state == CM_STATE_TIMEWAIT || cm_retry_is_over(&conn->retry, now_ns);
	struct cm_step step = {
		.input = is_last ? CM_IN_EXPIRED : CM_IN_RETRY,
		.now_ns = now_ns,
	};

	(void)cm_step(conn, &step);
}

struct cm_conn *cm_conn_new(struct cm *cm, void *owner)
{
	struct cm_conn *conn = calloc(1, sizeof(*conn));

	if (!conn)
		return NULL;
	conn->cm = cm;
	conn->owner = owner;
	conn->psn = random_u32(cm->random) & MASK_24;
	cm_retry_init(&conn->retry, cm_on_timer);
	conn->retry.validation = &conn->validation;
	cm_name_local(conn);
	conn->tid = random_u64(cm->random);
	list_add_tail(&conn->all, &cm->conns);
	cm->conn_count++;
	return conn;
}

void cm_conn_set_timeout(struct cm_conn *conn, uint64_t timeout_ns)
{
	conn->retry.timeout_ns = timeout_ns;
}

/* Whether the peer has not yet acknowledged our response. */
static bool is_half_open(enum cm_state state)
{
	return state == CM_STATE_REQ_RCVD || state == CM_STATE_MRA_REQ_SENT ||
	       state == CM_STATE_REP_SENT || state == CM_STATE_MRA_REP_RCVD;
}

static void enter_state(struct cm_conn *conn, uint64_t now_ns)
{
	if (!is_half_open(conn->state))
		cm_half_open_close(conn->cm, &conn->source);
	/*
	 * The peer's QP may already be used by another connection: the peer itself waits for its
	 * timewait period.
	 */
	if (conn->state == CM_STATE_TIMEWAIT) {
		cm_unname_qpn(conn);
		cm_timewait_start(conn, now_ns);
	}
	if (conn->state != CM_STATE_CLOSED)
		return;
	cm_retry_stop(&conn->retry, conn->cm);
	cm_unname(conn);
}

int cm_step(struct cm_conn *conn, struct cm_step *step)
{
	struct cm_cell cell = cm_cell(conn->state, step->input);
	enum cm_state from = conn->state;
	bool is_move = cell.next != from;
	int ret;

	conn->state = (enum cm_state)cell.next;
	ret = cm_action_fn_of((enum cm_action)cell.action)(conn, step);
	if (is_move) {
		trace_cm_state(conn, from, step->input);
		enter_state(conn, step->now_ns);
	}
	if (step->has_event && conn->owner)
		conn->cm->callbacks->event(conn->cm->ctx, conn, conn->owner, step->event, step->msg,
					   step->now_ns);
	else if (conn->state == CM_STATE_CLOSED && !conn->owner)
		conn_free(conn);
	return ret;
}

int cm_connect(struct cm_conn *conn, const struct cm_path *path, const struct cm_req *req,
	       uint64_t now_ns)
{
	struct cm_step step = {
		.input = CM_IN_CONNECT,
		.now_ns = now_ns,
		.path = path,
		.req = req,
	};

	return cm_step(conn, &step);
}

int cm_accept(struct cm_conn *conn, const struct cm_rep *rep, uint64_t now_ns)
{
	struct cm_step step = {.input = CM_IN_ACCEPT, .now_ns = now_ns, .rep = rep};

	return cm_step(conn, &step);
}

int cm_establish(struct cm_conn *conn, uint64_t now_ns)
{
	struct cm_step step = {.input = CM_IN_ESTABLISH, .now_ns = now_ns};

	return cm_step(conn, &step);
}

int cm_notify(struct cm_conn *conn, uint64_t now_ns)
{
	struct cm_step step = {.input = CM_IN_NOTIFY, .now_ns = now_ns};

	return cm_step(conn, &step);
}

int cm_reject(struct cm_conn *conn, uint16_t reason, const void *private_data, size_t len,
	      uint64_t now_ns)
{
	struct cm_step step = {
		.input = CM_IN_REJECT,
		.now_ns = now_ns,
		.private_data = private_data,
		.private_len = len,
		.reason = reason,
	};

	if (len > CM_REJ_PRIVATE_BYTES)
		return -EINVAL;
	return cm_step(conn, &step);
}

int cm_disconnect(struct cm_conn *conn, uint64_t now_ns)
{
	struct cm_step step = {.input = CM_IN_DISCONNECT, .now_ns = now_ns};

	return cm_step(conn, &step);
}

void cm_destroy(struct cm_conn *conn, uint64_t now_ns)
{
	struct cm_step step = {.input = CM_IN_DESTROY, .now_ns = now_ns};

	conn->owner = NULL;
	cm_ownerless_add(conn, now_ns);
	(void)cm_step(conn, &step);
}

enum cm_state cm_conn_state(const struct cm_conn *conn)
{
	return conn->state;
}

uint32_t cm_conn_psn(const struct cm_conn *conn)
{
	return conn->psn;
}

uint32_t cm_conn_local_id(const struct cm_conn *conn)
{
	return conn->local_comm_id;
}

uint32_t cm_conn_remote_id(const struct cm_conn *conn)
{
	return conn->remote_comm_id;
}

uint64_t cm_conn_waited_ns(const struct cm_conn *conn, uint64_t now_ns, uint32_t *sent)
{
	const struct cm_retry *retry = &conn->retry;

	*sent = retry->sent;
	return now_ns + retry->timeout_ns - retry->give_up_ns;
}

int cm_conn_error(const struct cm_conn *conn)
{
	return conn->retry.error;
}

size_t cm_conn_count(const struct cm *cm)
{
	return cm->conn_count;
}

const struct cm_counters *cm_counters(const struct cm *cm)
{
	return &cm->counters;
}

uint64_t cm_next_deadline(const struct cm *cm)
{
	return timer_next_deadline(&cm->timers);
}

void cm_run(struct cm *cm, uint64_t now_ns)
{
	timer_expire(&cm->timers, now_ns);
}
