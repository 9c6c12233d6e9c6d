/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/id_table.h"
#include "base/checks.h"
#include "base/log.h"
#include "base/syscalls.h"
#include "rdmacm/event.h"
#include "rdmacm/failure.h"
#include "rdmacm/id.h"
#include "rdmacm/migrate.h"
#include "rdmacm/multicast.h"
#include "rdmacm/public.h"

#define IDS_MAX	      (1u << 24)
#define ACK_WARNING_S 2
/*
 * A thread that poll(2) has woken receives its event within microseconds, on a busy machine within
 * milliseconds.
 */
#define READER_NAPS   200
#define READER_NAP_NS 50000

/*
 * All ids of the process by cookie. The lock is the innermost lock of this module. In the child of
 * a fork() the lock may be held by a thread of the parent, so rcm_id_after_fork_in_child()
 * initialises lock and table again.
 */
static struct {
	pthread_mutex_t lock;
	struct id_table ids;
} table = {.lock = PTHREAD_MUTEX_INITIALIZER};
static pthread_once_t table_once = PTHREAD_ONCE_INIT;

static void table_start(void)
{
	id_table_init(&table.ids, IDS_MAX);
}

void rcm_id_after_fork_in_child(void)
{
	pthread_mutex_init(&table.lock, NULL);
	table_start();
}

static int table_add(struct rcm_id *id)
{
	int ret;

	pthread_once(&table_once, table_start);
	pthread_mutex_lock(&table.lock);
	ret = id_table_add(&table.ids, id, &id->cookie);
	pthread_mutex_unlock(&table.lock);
	return ret;
}

static void table_remove(const struct rcm_id *id)
{
	pthread_mutex_lock(&table.lock);
	id_table_remove(&table.ids, id->cookie);
	pthread_mutex_unlock(&table.lock);
}

struct rcm_id *rcm_id_find(uint64_t cookie)
{
	struct rcm_id *id;

	pthread_once(&table_once, table_start);
	pthread_mutex_lock(&table.lock);
	id = id_table_get(&table.ids, cookie);
	pthread_mutex_unlock(&table.lock);
	return id;
}

enum rcm_action rcm_id_step(struct rcm_id *id, enum rcm_input input)
{
	struct rcm_cell cell;

	/*
	 * In the child of a fork() the lock may be held by a thread of the parent. The phase does
	 * not change in the child.
	 */
	if (id->session->is_inherited)
		return (enum rcm_action)rcm_cell(id->phase, input).action;
	pthread_mutex_lock(&id->lock);
	cell = rcm_cell(id->phase, input);
	id->phase = (enum rcm_phase)cell.next;
	pthread_mutex_unlock(&id->lock);
	return (enum rcm_action)cell.action;
}

/* Allocates and initialises an id with a cookie. The caller adds it to its channel. */
static int id_alloc(struct rcm_channel *channel, void *context, enum rdma_port_space ps,
		    enum ibv_qp_type qp_type, struct rcm_id **allocated)
{
	pthread_condattr_t attr;
	struct rcm_id *id;
	int ret;

	id = calloc(1, sizeof(*id));
	if (!id)
		return -ENOMEM;
	ret = table_add(id);
	if (ret) {
		free(id);
		return ret;
	}
	pthread_mutex_init(&id->lock, NULL);
	pthread_mutex_init(&id->qp_lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&id->acked, &attr);
	pthread_condattr_destroy(&attr);
	list_init(&id->unacked);
	list_init(&id->memberships);
	list_init(&id->channel_node);
	id->session = rcm_session_ref(channel->session);
	id->channel = channel;
	id->pub.channel = &channel->pub;
	id->pub.context = context;
	id->pub.ps = ps;
	id->pub.qp_type = qp_type;
	*allocated = id;
	return 0;
}

static void id_free(struct rcm_id *id)
{
	rdma_freeaddrinfo(id->addrinfo);
	rcm_membership_free_all(id);
	free(id->endpoint.prefix);
	pthread_cond_destroy(&id->acked);
	pthread_mutex_destroy(&id->qp_lock);
	pthread_mutex_destroy(&id->lock);
	rcm_session_put(id->session);
	free(id);
}

static int id_notify_daemon(struct rcm_id *id)
{
	struct ipc_cm_create_reply reply;
	struct ipc_cm_create req = {
		.hdr.type = IPC_CM_CREATE,
		.channel = id->channel->handle,
		.ps = id->pub.ps,
		.qp_type = id->pub.qp_type,
		.cookie = id->cookie,
	};
	int ret = rcm_id_call(id, &req, sizeof(req), &reply, sizeof(reply));

	if (!ret)
		id->handle = reply.id;
	return ret;
}

static int create_on(struct rcm_channel *channel, void *context, enum rdma_port_space ps,
		     enum ibv_qp_type qp_type, struct rcm_id **created)
{
	struct rcm_id *id;
	int ret;

	if (channel->session->is_inherited)
		return -ENODEV;
	ret = id_alloc(channel, context, ps, qp_type, &id);
	if (ret)
		return ret;
	ret = id_notify_daemon(id);
	if (ret) {
		table_remove(id);
		id_free(id);
		return ret;
	}
	pthread_mutex_lock(&channel->lock);
	channel->refs++;
	list_add_tail(&id->channel_node, &channel->ids);
	pthread_mutex_unlock(&channel->lock);
	*created = id;
	return 0;
}

int rcm_id_create(struct rcm_channel *channel, void *context, enum rdma_port_space ps,
		  enum ibv_qp_type qp_type, struct rcm_id **id)
{
	struct rcm_channel *own;
	int ret;

	if (channel)
		return create_on(channel, context, ps, qp_type, id);
	ret = rcm_channel_create(&own);
	if (ret)
		return ret;
	ret = create_on(own, context, ps, qp_type, id);
	if (ret) {
		rcm_channel_close(own);
		return ret;
	}
	(*id)->is_sync = true;
	return 0;
}

int rcm_id_adopt(struct rcm_id *listener, uint32_t handle, struct rcm_id **adopted)
{
	struct rcm_channel *channel = listener->channel;
	struct rcm_id *id;
	int ret;

	mutex_assert_locked(&channel->lock);
	ret = id_alloc(channel, listener->pub.context, listener->pub.ps, listener->pub.qp_type,
		       &id);
	if (ret)
		return ret;
	id->handle = handle;
	/*
	 * The lock orders this read after rcm_bind(): rcm_id_call() acquires it between bind and
	 * listen.
	 */
	pthread_mutex_lock(&listener->lock);
	id->is_src_mapped = listener->is_src_mapped;
	pthread_mutex_unlock(&listener->lock);
	id->is_dst_mapped = id->is_src_mapped;
	channel->refs++;
	list_add_tail(&id->channel_node, &channel->ids);
	*adopted = id;
	return 0;
}

void rcm_id_set_next(struct rcm_id *id, enum ipc_type step)
{
	pthread_mutex_lock(&id->lock);
	id->next_step = step;
	pthread_mutex_unlock(&id->lock);
}

int rcm_id_call(struct rcm_id *id, void *req, uint32_t req_len, void *reply, uint32_t reply_len)
{
	if (id->session->is_inherited)
		return -ENODEV;
	/*
	 * Acquires the id's lock, which the thread that receives the resulting event also acquires
	 * (memory ordering).
	 */
	rcm_id_set_next(id, 0);
	return ipc_call(&id->session->client, req, req_len, NULL, 0, reply, reply_len);
}

bool rcm_id_take_next(struct rcm_id *id, enum ipc_type step)
{
	bool is_next;

	pthread_mutex_lock(&id->lock);
	is_next = id->next_step == step;
	id->next_step = 0;
	pthread_mutex_unlock(&id->lock);
	return is_next;
}

int rcm_id_send(struct rcm_id *id, void *req, uint32_t req_len)
{
	if (id->session->is_inherited)
		return -ENODEV;
	pthread_mutex_lock(&id->lock);
	pthread_mutex_unlock(&id->lock);
	return ipc_send_request(&id->session->client, req, req_len);
}

int rcm_id_request(struct rcm_id *id, void *req, uint32_t req_len)
{
	struct ipc_reply reply;

	return rcm_id_call(id, req, req_len, &reply, sizeof(reply));
}

int rcm_id_request_plain(struct rcm_id *id, enum ipc_type type)
{
	struct ipc_cm_id req = {.hdr.type = (uint16_t)type, .id = id->handle};

	return rcm_id_request(id, &req, sizeof(req));
}

void rcm_id_release_event(struct rcm_id *id)
{
	struct rdma_cm_event *event = id->pub.event;

	id->pub.event = NULL;
	if (event)
		rcm_event_ack(rcm_event_of(event));
}

/*
 * The oldest unacknowledged event of the id, or of a membership; NULL: none. Called with the id's
 * lock held.
 */
static const struct rcm_event *oldest_unacked(const struct rcm_id *id,
					      const struct rcm_membership *membership)
{
	const struct rcm_event *event;

	mutex_assert_locked(&id->lock);
	list_for_each_entry(event, &id->unacked, node) {
		if (!membership || event->membership == membership)
			return event;
	}
	return NULL;
}

void rcm_id_wait_acked(struct rcm_id *id, const struct rcm_membership *membership, const char *call)
{
	const struct rcm_event *oldest;
	struct timespec warn_at;
	bool was_logged = false;
	int cancel_state, ret = 0;

	/* No cancellation point: the id is partly destroyed or between two channels. */
	cancel_state = cancel_disable();
	clock_gettime(CLOCK_MONOTONIC, &warn_at);
	warn_at.tv_sec += ACK_WARNING_S;
	pthread_mutex_lock(&id->lock);
	while ((oldest = oldest_unacked(id, membership))) {
		if (ret == ETIMEDOUT && !was_logged) {
			was_logged = true;
			log_warn("%s of id %u (%p) waits for rdma_ack_cm_event() of a %s", call,
				 id->handle, (void *)&id->pub, rdma_event_str(oldest->pub.event));
			rcm_failure_unacked(id, call, 1, oldest->pub.event);
		}
		ret = was_logged ? pthread_cond_wait(&id->acked, &id->lock) :
				   pthread_cond_timedwait(&id->acked, &id->lock, &warn_at);
	}
	pthread_mutex_unlock(&id->lock);
	cancel_restore(cancel_state);
}

/*
 * Destroys the id in the daemon. Returns the number of events that the daemon has sent for the id,
 * or 0 if the request failed or the id was destroyed with its channel.
 */
static uint64_t destroy_at_daemon(struct rcm_id *id)
{
	struct ipc_cm_destroy_reply reply;
	struct ipc_cm_id req = {.hdr.type = IPC_CM_DESTROY, .id = id->handle};
	int ret;

	if (rcm_channel_is_destroyed(id->channel))
		return 0;
	ret = rcm_id_call(id, &req, sizeof(req), &reply, sizeof(reply));
	if (!ret)
		return reply.events_sent;
	if (ret != -ENODEV)
		log_warn("cannot destroy id %u in the daemon: %s", id->handle, strerror(-ret));
	return 0;
}

/*
 * rdma_get_cm_event() returns EAGAIN on a descriptor with O_NONBLOCK, and fails on a closed
 * channel.
 */
static bool reader_can_block(const struct rcm_channel *channel)
{
	int flags = channel->pub.fd < 0 ? -1 : fcntl(channel->pub.fd, F_GETFL);

	return flags >= 0 && !(flags & O_NONBLOCK);
}

/*
 * poll(2) may have reported an event of the id to another thread that reads the channel. If the
 * event were dropped, that thread would block in rdma_get_cm_event(). It therefore gets up to
 * READER_NAPS * READER_NAP_NS to receive the event. A reader that does not receive it in this time
 * is not waited for again until it has received another event. Called with the channel's lock held.
 */
static void let_reader_take(struct rcm_channel *channel, const struct rcm_id *id,
			    uint64_t events_sent)
{
	mutex_assert_locked(&channel->lock);
	if (id->events_received >= events_sent || !reader_can_block(channel))
		return;
	for (int i = 0; i < READER_NAPS && id->events_received < events_sent; i++) {
		if (!channel->has_reader || pthread_equal(channel->reader, pthread_self()))
			return;
		pthread_mutex_unlock(&channel->lock);
		sys_nap(READER_NAP_NS);
		pthread_mutex_lock(&channel->lock);
	}
	if (id->events_received < events_sent)
		channel->has_reader = false;
}

/*
 * Drops the id's unread events in its channel's socket. Connection requests of a listener are
 * rejected at once, because peers wait for the reply. Other events are dropped when they reach the
 * head of the socket.
 */
static void drop_unread(struct rcm_id *id, uint64_t events_sent)
{
	bool is_listener = rcm_id_step(id, RCM_IN_DESTROY) == RCM_ACTION_REFUSE_UNREAD;
	struct rcm_channel *channel = id->channel;
	bool has_unread;

	pthread_mutex_lock(&channel->lock);
	let_reader_take(channel, id, events_sent);
	id->is_dying = true;
	has_unread = id->events_received < events_sent;
	if (has_unread && !is_listener) {
		channel->has_stale = true;
		rcm_event_trim(channel);
	}
	pthread_mutex_unlock(&channel->lock);
	if (has_unread && is_listener)
		rcm_migrate_discard(id);
}

static void destroy_inherited(struct rcm_id *id)
{
	if (id->is_sync)
		rcm_channel_close(id->channel);
	rcm_membership_free_all(id);
	free(id->endpoint.prefix);
	free(id);
}

void rcm_id_destroy(struct rcm_id *id)
{
	struct rcm_channel *channel = id->channel;

	/*
	 * In the child of a fork() the id still exists in the parent; the child must not use the
	 * locks in its copy.
	 */
	if (id->session->is_inherited) {
		destroy_inherited(id);
		return;
	}
	rcm_id_release_event(id);
	drop_unread(id, destroy_at_daemon(id));
	rcm_id_wait_acked(id, NULL, "rdma_destroy_id()");
	pthread_mutex_lock(&channel->lock);
	list_del(&id->channel_node);
	table_remove(id);
	pthread_mutex_unlock(&channel->lock);
	if (id->is_sync)
		rcm_channel_close(channel);
	rcm_channel_put(channel);
	id_free(id);
}

static int create_id(struct rdma_event_channel *channel, void *context, enum rdma_port_space ps,
		     struct rcm_id **id)
{
	enum ibv_qp_type qp_type;

	switch (ps) {
	case RDMA_PS_TCP:
	case RDMA_PS_IB:
		qp_type = IBV_QPT_RC;
		break;
	case RDMA_PS_UDP:
	case RDMA_PS_IPOIB:
		qp_type = IBV_QPT_UD;
		break;
	default:
		return -EINVAL;
	}
	return rcm_id_create(channel ? rcm_channel_of(channel) : NULL, context, ps, qp_type, id);
}

int rdma_create_id(struct rdma_event_channel *channel, struct rdma_cm_id **id, void *context,
		   enum rdma_port_space ps)
{
	struct rcm_id *created;
	int ret;

	if (!id)
		return rcm_public_result(-EINVAL);
	probe_init();
	ret = fault_call(__func__) ?: create_id(channel, context, ps, &created);
	if (!ret)
		*id = &created->pub;
	return rcm_public_result(ret);
}

int rdma_destroy_id(struct rdma_cm_id *id)
{
	int ret;

	if (!id)
		return rcm_public_result(-EINVAL);
	ret = fault_call(__func__);
	if (!ret)
		rcm_id_destroy(rcm_id_of(id));
	return rcm_public_result(ret);
}
