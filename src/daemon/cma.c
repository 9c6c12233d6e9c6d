/* SPDX-License-Identifier: BSD-2-Clause */
#include "daemon/cma.h"

#include <malloc.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/timer.h"
#include "config.h"
#include "daemon/cma_priv.h"
#include "daemon/fair_share.h"
#include "daemon/fault_user.h"

/* The timer and the idle handle. */
#define LOOP_HANDLES 2

/*
 * Number of ids and connections above which memory is returned later; and the number below which it
 * is no longer worthwhile.
 */
#define CROWD_LEAST 4096u
#define CROWD_GONE  64u

static void set_timer(struct cma *cma);

#if HAVE_MALLOC_TRIM
static void trim(void)
{
	malloc_trim(0);
}
#else
static void trim(void)
{
}
#endif

/*
 * Returns memory to the kernel after the number of ids and connections has dropped to an eighth of
 * its maximum: malloc keeps freed memory, and the daemon runs for a long time.
 */
static void give_back_memory(struct cma *cma)
{
	size_t held = cma->ids.count + cma_cms_conn_count(&cma->cms);

	if (held > cma->crowd)
		cma->crowd = held;
	cma->is_crowded |= held >= CROWD_LEAST;
	if (!cma->is_crowded || held > cma->crowd / 8)
		return;
	cma->crowd = held;
	cma->is_crowded = held > CROWD_GONE;
	trim();
}

static void flush_channels(struct cma *cma)
{
	while (!list_is_empty(&cma->dirty))
		cma_channel_flush(list_first_entry(&cma->dirty, struct cma_channel, dirty));
}

/*
 * Runs after requests and timers: delivers messages within this host, then pushes the resulting
 * events.
 */
static void cma_on_idle(uv_idle_t *idle)
{
	struct cma *cma = container_of(idle, struct cma, idle);
	bool is_busy = cma_cms_deliver(&cma->cms, clock_now_ns());

	flush_channels(cma);
	if (is_busy)
		return;
	uv_idle_stop(idle);
	set_timer(cma);
}

void cma_wake(struct cma *cma)
{
	if (!uv_is_active((uv_handle_t *)&cma->idle))
		uv_idle_start(&cma->idle, cma_on_idle);
}

static void cma_on_timer(uv_timer_t *timer)
{
	struct cma *cma = container_of(timer, struct cma, timer);

	cma->timer_ns = TIMER_NEVER_NS;
	cma_cms_run_timers(&cma->cms, clock_now_ns());
	give_back_memory(cma);
	cma_wake(cma);
}

/* Restarts the timer only for an earlier deadline: a timer that expires too early does nothing. */
static void set_timer(struct cma *cma)
{
	uint64_t next_ns = cma_cms_next_deadline(&cma->cms);
	uint64_t now_ns;

	if (next_ns >= cma->timer_ns)
		return;
	now_ns = clock_now_ns();
	cma->timer_ns = next_ns;
	uv_update_time(cma->loop);
	uv_timer_start(&cma->timer, cma_on_timer,
		       next_ns > now_ns ? (next_ns - now_ns) / CLOCK_NS_PER_MS + 1 : 0, 0);
}

static void on_handle_closed(uv_handle_t *handle)
{
	struct cma *cma = handle->data;

	if (--cma->handles == 0)
		free(cma);
}

static void close_handles(struct cma *cma)
{
	cma->timer.data = cma;
	cma->idle.data = cma;
	uv_close((uv_handle_t *)&cma->timer, on_handle_closed);
	uv_close((uv_handle_t *)&cma->idle, on_handle_closed);
}

struct cma *cma_open(uv_loop_t *loop, const struct cm_ops *const cms[])
{
	struct cma *cma = calloc(1, sizeof(*cma));

	if (!cma)
		return NULL;
	cma->loop = loop;
	cma->handles = LOOP_HANDLES;
	cma->timer_ns = TIMER_NEVER_NS;
	list_init(&cma->clients);
	list_init(&cma->dirty);
	for (uint32_t slot = 0; slot < IPC_SLOTS; slot++)
		list_init(&cma->by_slot[slot]);
	id_table_init32(&cma->ids, CMA_IDS_MAX);
	id_table_init32(&cma->channels, CMA_CHANNELS_MAX);
	if (cma_ports_open(&cma->ports))
		goto err_ports;
	if (cma_cms_open(&cma->cms, cma, cms))
		goto err_cms;
	/* Neither can fail: they only fill in the handle. */
	uv_timer_init(loop, &cma->timer);
	uv_idle_init(loop, &cma->idle);
	return cma;

err_cms:
	cma_ports_close(&cma->ports);
err_ports:
	free(cma);
	return NULL;
}

void cma_close(struct cma *cma)
{
	cma_cms_close(&cma->cms);
	close_handles(cma);
	cma_ports_close(&cma->ports);
	id_table_fini(&cma->ids);
	id_table_fini(&cma->channels);
}

void cma_set_qpn_check(struct cma *cma,
		       int (*check)(void *ctx, const struct cma_peer *peer, uint32_t qpn),
		       void *ctx)
{
	cma->qpn_check = check;
	cma->qpn_ctx = ctx;
}

void cma_set_qpn_known(struct cma *cma, bool (*is_known)(void *ctx, uint32_t qpn), void *ctx)
{
	cma->qpn_is_known = is_known;
	cma->qpn_known_ctx = ctx;
}

struct cma_client *cma_client_new(struct cma *cma, const struct cma_peer *peer)
{
	struct cma_client *client = calloc(1, sizeof(*client));

	if (!client)
		return NULL;
	client->cma = cma;
	client->peer = *peer;
	list_init(&client->ids);
	list_init(&client->channels);
	list_add_tail(&client->node, &cma->clients);
	return client;
}

static void user_sum(const struct cma_client *client, uint32_t *ids, uint32_t *channels)
{
	const struct cma_client *other;

	*ids = 0;
	*channels = 0;
	list_for_each_entry(other, &client->cma->clients, node) {
		if (other->peer.uid != client->peer.uid)
			continue;
		*ids += other->id_count;
		*channels += other->channel_count;
	}
}

static bool cma_is_exempt(const struct cma_client *client)
{
	return fair_share_is_exempt(client->peer.uid, client->cma->ports.daemon_uid);
}

bool cma_user_may_add_id(const struct cma_client *client)
{
	static const struct fair_share share = {CMA_IDS_RESERVED, CMA_IDS_LEAST};
	const uint32_t free = CMA_IDS_MAX - client->cma->ids.count;
	uint32_t ids = client->cma->ids.count, channels;

	/* Not even the sum of all users is too much: saves the sum of one. */
	if (cma_is_exempt(client) || fair_share_allows(&share, ids, free))
		return true;
	user_sum(client, &ids, &channels);
	return fair_share_allows(&share, ids, free);
}

bool cma_user_may_add_channel(const struct cma_client *client, int fd)
{
	static const struct fair_share share = {CMA_CHANNELS_RESERVED, CMA_CHANNELS_LEAST};
	const struct cma_peer *peer = &client->peer;
	uint32_t ids, channels;

	if (peer->may_keep && !peer->may_keep(peer->ctx, fd))
		return false;
	if (cma_is_exempt(client))
		return true;
	user_sum(client, &ids, &channels);
	return channels < CMA_CHANNELS_PER_USER &&
	       fair_share_allows(&share, channels, CMA_CHANNELS_MAX - client->cma->channels.count);
}

uint32_t cma_client_channels(const struct cma_client *client)
{
	return client->channel_count;
}

uint32_t cma_client_ids(const struct cma_client *client)
{
	return client->id_count;
}

/*
 * At most CMA_WIDE_CHANNELS channels of a user are wide at any time: a wide one is created only
 * while the user has fewer.
 */
int cma_user_sndbuf_bytes(const struct cma_client *client)
{
	uint32_t ids, channels = client->channel_count;

	if (channels < CMA_WIDE_CHANNELS && client->cma->channels.count >= CMA_WIDE_CHANNELS)
		user_sum(client, &ids, &channels);
	return channels < CMA_WIDE_CHANNELS ? CMA_WIDE_SNDBUF_BYTES : CMA_CHANNEL_SNDBUF_BYTES;
}

void cma_client_gone(struct cma_client *client)
{
	while (!list_is_empty(&client->ids))
		cma_id_destroy(list_first_entry(&client->ids, struct cma_id, node));
	while (!list_is_empty(&client->channels))
		cma_channel_destroy(list_first_entry(&client->channels, struct cma_channel, node));
	client->cma->counters.clients_gone++;
	list_del(&client->node);
	free(client);
}

/*
 * The interface was removed: its ids lose their connections, and the client can only destroy them.
 */
static void remove_id(struct cma_id *id)
{
	if (id->state == CMA_REMOVED)
		return;
	if (id->state == CMA_LISTENING) {
		cma_unlisten(id);
		cma_port_unlisten(&id->binding);
	}
	cma_neigh_cancel(id);
	cma_id_let_go(id);
	id->state = CMA_REMOVED;
	cma_event_status(id, RDMA_CM_EVENT_DEVICE_REMOVAL, 0);
}

static void notify_port_down(struct cma_id *id)
{
	cma_mcast_down(id);
	cma_neigh_port_down(id);
}

/* A bond has another hardware address. Other changes of addresses have no event, as in Linux. */
static void notify_failover(struct cma_id *id)
{
	if (id->state != CMA_REMOVED)
		cma_event_status(id, RDMA_CM_EVENT_ADDR_CHANGE, 0);
}

void cma_netdev_changed_for(struct cma *cma, uid_t uid, uint32_t dev_id, uint32_t what)
{
	static void (*const changes[IPC_DEVICE_WHAT_COUNT])(struct cma_id * id) = {
		[IPC_DEVICE_REMOVED] = remove_id,
		[IPC_DEVICE_PORT_DOWN] = notify_port_down,
		[IPC_DEVICE_FAILOVER] = notify_failover,
	};
	struct cma_client *client;

	if (what >= IPC_DEVICE_WHAT_COUNT || !changes[what])
		return;
	list_for_each_entry(client, &cma->clients, node) {
		struct cma_id *id;

		if (uid != FAULT_EVERY_USER && uid != client->peer.uid)
			continue;
		list_for_each_entry(id, &client->ids, node) {
			if (id->route.dev_id == dev_id)
				changes[what](id);
		}
	}
	cma_wake(cma);
}

void cma_netdev_changed(struct cma *cma, uint32_t dev_id, uint32_t what)
{
	cma_netdev_changed_for(cma, FAULT_EVERY_USER, dev_id, what);
}
