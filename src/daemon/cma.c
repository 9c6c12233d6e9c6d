/* SPDX-License-Identifier: BSD-2-Clause */
#include "daemon/cma.h"

#include <errno.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/timer.h"
#include "config.h"
#include "daemon/cma_priv.h"

/* How many MADs go round before the loop looks at its clients again. */
#define MADS_AT_ONCE 256
/* The timer and the idle handle; the wire's comes to them. */
#define LOOP_HANDLES 2

/* So many ids and connections are a crowd; so few that are left of it are no more worth a look at what is free. */
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

/* While a crowd goes: an allocator keeps what it was given once, and this one lives long. */
static void give_back_memory(struct cma *cma)
{
	size_t held = cma->ids.count + cm_conn_count(cma->cm);

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

/* After every request, and after every timer: MADs go round, then whatever came of it is pushed. */
static void on_idle(uv_idle_t *idle)
{
	struct cma *cma = container_of(idle, struct cma, idle);
	bool is_busy = gsi_run(&cma->gsi, cma->cm, MADS_AT_ONCE, clock_now_ns());

	flush_channels(cma);
	if (is_busy)
		return;
	uv_idle_stop(idle);
	set_timer(cma);
}

void cma_wake(struct cma *cma)
{
	if (!uv_is_active((uv_handle_t *)&cma->idle))
		uv_idle_start(&cma->idle, on_idle);
}

static void on_timer(uv_timer_t *timer)
{
	struct cma *cma = container_of(timer, struct cma, timer);

	cma->timer_ns = TIMER_NEVER_NS;
	cm_run(cma->cm, clock_now_ns());
	give_back_memory(cma);
	cma_wake(cma);
}

/* Set again only for something nearer: a timer that comes too early finds nothing to do. */
static void set_timer(struct cma *cma)
{
	uint64_t next_ns = cm_next_deadline(cma->cm);
	uint64_t now_ns;

	if (next_ns >= cma->timer_ns)
		return;
	now_ns = clock_now_ns();
	cma->timer_ns = next_ns;
	uv_update_time(cma->loop);
	uv_timer_start(&cma->timer, on_timer,
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
	if (cma->handles > LOOP_HANDLES) {
		cma->wire_poll.data = cma;
		uv_close((uv_handle_t *)&cma->wire_poll, on_handle_closed);
	}
	cma->timer.data = cma;
	cma->idle.data = cma;
	uv_close((uv_handle_t *)&cma->timer, on_handle_closed);
	uv_close((uv_handle_t *)&cma->idle, on_handle_closed);
}

struct cma *cma_open(uv_loop_t *loop)
{
	struct cma *cma = calloc(1, sizeof(*cma));
	uint64_t seed;

	if (!cma)
		return NULL;
	cma->loop = loop;
	cma->handles = LOOP_HANDLES;
	cma->timer_ns = TIMER_NEVER_NS;
	gsi_init(&cma->gsi);
	list_init(&cma->clients);
	list_init(&cma->dirty);
	id_table_init32(&cma->ids, CMA_IDS_MAX);
	id_table_init32(&cma->channels, CMA_CHANNELS_MAX);
	if (cma_ports_open(&cma->ports))
		goto err_ports;
	if (getrandom(&seed, sizeof(seed), 0) != sizeof(seed))
		seed = clock_now_ns();
	cma->cm = cm_new(&cma_cm_ops, cma, seed);
	if (!cma->cm)
		goto err_cm;
	/* Neither can fail: they only fill in the handle. */
	uv_timer_init(loop, &cma->timer);
	uv_idle_init(loop, &cma->idle);
	return cma;

err_cm:
	cma_ports_close(&cma->ports);
err_ports:
	free(cma);
	return NULL;
}

static void on_wire(uv_poll_t *poll, int status, int events)
{
	struct cma *cma = container_of(poll, struct cma, wire_poll);

	(void)events;
	if (status < 0)
		return;
	/* Level-triggered: what is left wakes the loop again, after the clients had their turn. */
	(void)gsi_wire_receive(cma->gsi.wire, cma->cm, clock_now_ns());
	gsi_wire_errors(cma->gsi.wire, cma->cm, clock_now_ns());
	cma_wake(cma);
}

int cma_attach_wire(struct cma *cma, int fd)
{
	int ret;

	cma->gsi.wire = gsi_wire_open(fd);
	if (!cma->gsi.wire) {
		ret = -errno;
		close(fd);
		return ret;
	}
	ret = uv_poll_init(cma->loop, &cma->wire_poll, gsi_wire_fd(cma->gsi.wire));
	if (ret)
		goto err_poll;
	cma->handles++;
	return uv_poll_start(&cma->wire_poll, UV_READABLE, on_wire);

err_poll:
	gsi_wire_close(cma->gsi.wire);
	cma->gsi.wire = NULL;
	return ret;
}

void cma_close(struct cma *cma)
{
	cm_free(cma->cm);
	cma->cm = NULL;
	close_handles(cma);
	gsi_fini(&cma->gsi);
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

/* One user's are counted only when all there are would be too many for one. */
bool cma_user_has_ids(const struct cma_client *client)
{
	uint32_t ids, channels;

	if (client->peer.uid == 0 || client->cma->ids.count < CMA_IDS_PER_USER)
		return false;
	user_sum(client, &ids, &channels);
	return ids >= CMA_IDS_PER_USER;
}

bool cma_user_has_channels(const struct cma_client *client)
{
	uint32_t ids, channels;

	if (client->peer.uid == 0 || client->cma->channels.count < CMA_CHANNELS_PER_USER)
		return false;
	user_sum(client, &ids, &channels);
	return channels >= CMA_CHANNELS_PER_USER;
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

/* The interface is gone: whatever used it is over, and its owner has only to destroy it. */
static void remove_id(struct cma_id *id)
{
	if (id->state == CMA_REMOVED)
		return;
	if (id->state == CMA_LISTENING) {
		cm_unlisten(id->cma->cm, id->service_id);
		id->binding.is_listening = false;
	}
	cma_id_let_go(id);
	id->state = CMA_REMOVED;
	cma_event_status(id, RDMA_CM_EVENT_DEVICE_REMOVAL, 0);
}

/* The address of an id has left its interface: a hint that its connection will hear nothing any more. */
static void check_address(struct cma_id *id)
{
	const struct netdev *dev = netdev_by_gid(id->route.sgid, NULL);

	if (dev && dev->dev_id == id->route.dev_id) {
		id->is_told_change = false;
		return;
	}
	if (id->is_told_change || id->state == CMA_REMOVED)
		return;
	id->is_told_change = true;
	cma_event_status(id, RDMA_CM_EVENT_ADDR_CHANGE, 0);
}

/* The interface speaks from another hardware address, as after a bonding failover. */
static void tell_change(struct cma_id *id)
{
	if (id->state != CMA_REMOVED)
		cma_event_status(id, RDMA_CM_EVENT_ADDR_CHANGE, 0);
}

void cma_netdev_changed(struct cma *cma, uint32_t dev_id, uint32_t what)
{
	static void (*const changes[IPC_DEVICE_WHAT_COUNT])(struct cma_id * id) = {
		[IPC_DEVICE_REMOVED] = remove_id,
		[IPC_DEVICE_GID_CHANGE] = check_address,
		[IPC_DEVICE_MAC_CHANGE] = tell_change,
	};
	struct cma_id *id;
	uint32_t cursor = 0;

	if (what >= IPC_DEVICE_WHAT_COUNT || !changes[what])
		return;
	while ((id = id_table_next(&cma->ids, &cursor))) {
		if (id->route.dev_id == dev_id)
			changes[what](id);
	}
	cma_wake(cma);
}
