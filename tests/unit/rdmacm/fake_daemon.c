/* SPDX-License-Identifier: BSD-2-Clause */
#include "fake_daemon.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fdpass.h"
#include "ipc/client.h"

#define MAX 4096

struct fake_id {
	bool is_alive;
	uint64_t cookie;
	uint32_t channel;
	uint64_t events_sent;
};

/* Guarded by one lock, which the serving thread holds while it answers. */
static struct {
	pthread_mutex_t lock;
	pthread_t thread;
	int fd;
	int channels[MAX]; /* by channel number, -1: unused */
	bool is_held[MAX];
	struct ipc_cm_event held[64];
	unsigned held_count;
	struct fake_id ids[MAX]; /* by handle */
	uint32_t next_id;
	uint32_t next_channel;
	uint64_t last_cookie;
	uint64_t last_join;
	struct sockaddr_storage last_group;
	uint32_t join_event;
	unsigned requests[IPC_TYPE_COUNT];
	int failures[IPC_TYPE_COUNT];
} fake = {.lock = PTHREAD_MUTEX_INITIALIZER, .fd = -1};

static struct fake_id *id_of(uint64_t cookie, uint32_t handle)
{
	if (!cookie)
		return handle < MAX && fake.ids[handle].is_alive ? &fake.ids[handle] : NULL;
	for (uint32_t i = 1; i < fake.next_id; i++)
		if (fake.ids[i].is_alive && fake.ids[i].cookie == cookie)
			return &fake.ids[i];
	return NULL;
}

static void deliver(struct fake_id *id, const struct ipc_cm_event *event)
{
	int sent;

	if (fake.is_held[id->channel]) {
		assert(fake.held_count < sizeof(fake.held) / sizeof(fake.held[0]));
		fake.held[fake.held_count++] = *event;
		return;
	}
	sent = ipc_send(fake.channels[id->channel], event, sizeof(*event), NULL, 0);
	assert(sent == 0);
}

/* The id to which an event is counted and routed. */
static struct fake_id *owner_of(const struct ipc_cm_event *event)
{
	if (event->event == RDMA_CM_EVENT_CONNECT_REQUEST)
		return id_of(event->listen_cookie, 0);
	return id_of(event->cookie, event->id);
}

void fake_daemon_push(struct ipc_cm_event *event)
{
	struct fake_id *id;

	pthread_mutex_lock(&fake.lock);
	id = owner_of(event);
	assert(id);
	event->hdr.type = IPC_CM_EVENT;
	event->hdr.len = sizeof(*event);
	event->events_sent = ++id->events_sent;
	if (event->event != RDMA_CM_EVENT_CONNECT_REQUEST)
		event->id = (uint32_t)(id - fake.ids);
	event->route.dev_id = FAKE_DEV_ID;
	event->route.port_num = 1;
	deliver(id, event);
	pthread_mutex_unlock(&fake.lock);
}

void fake_daemon_push_type(uint64_t cookie, uint32_t type)
{
	struct ipc_cm_event event = {.cookie = cookie, .event = type};

	fake_daemon_push(&event);
}

void fake_daemon_push_raw(uint64_t cookie, const void *bytes, uint32_t len)
{
	struct fake_id *id;
	ssize_t sent;

	pthread_mutex_lock(&fake.lock);
	id = id_of(cookie, 0);
	assert(id);
	sent = send(fake.channels[id->channel], bytes, len, 0);
	assert(sent == (ssize_t)len);
	pthread_mutex_unlock(&fake.lock);
}

uint32_t fake_daemon_push_request(uint64_t listen_cookie)
{
	struct ipc_cm_event event = {
		.listen_cookie = listen_cookie,
		.event = RDMA_CM_EVENT_CONNECT_REQUEST,
	};

	pthread_mutex_lock(&fake.lock);
	event.id = fake.next_id++;
	fake.ids[event.id] = (struct fake_id){
		.is_alive = true,
		.channel = id_of(listen_cookie, 0)->channel,
	};
	pthread_mutex_unlock(&fake.lock);
	event.qp.remote_qpn = 17;
	fake_daemon_push(&event);
	return event.id;
}

uint32_t fake_daemon_push_stray_request(uint64_t cookie)
{
	struct ipc_cm_event event = {
		.hdr = {.type = IPC_CM_EVENT, .len = sizeof(event)},
		.listen_cookie = UINT64_MAX,
		.event = RDMA_CM_EVENT_CONNECT_REQUEST,
	};

	pthread_mutex_lock(&fake.lock);
	event.id = fake.next_id++;
	fake.ids[event.id] = (struct fake_id){
		.is_alive = true,
		.channel = id_of(cookie, 0)->channel,
	};
	deliver(&fake.ids[event.id], &event);
	pthread_mutex_unlock(&fake.lock);
	return event.id;
}

void fake_daemon_stop(void)
{
	pthread_mutex_lock(&fake.lock);
}

void fake_daemon_continue(void)
{
	pthread_mutex_unlock(&fake.lock);
}

/* Takes back one event and pushes it to its owner's present channel. */
static void take_back(const struct ipc_cm_event *event)
{
	struct fake_id *id = owner_of(event);

	if (!id)
		return;
	if (event->event == RDMA_CM_EVENT_CONNECT_REQUEST)
		fake.ids[event->id].channel = id->channel;
	deliver(id, event);
}

static int migrate_end(const struct ipc_cm_migrate_end *req)
{
	struct ipc_cm_event held[64];
	unsigned held_count = fake.held_count;

	assert(fake.is_held[req->channel]);
	/*
	 * Returned events are pushed before the hold of the channel ends; new events stay on hold.
	 */
	fake.is_held[req->channel] = false;
	for (uint32_t i = 0; i < req->count; i++)
		take_back(&req->events[i]);
	fake.is_held[req->channel] = req->more;
	if (req->more)
		return 0;
	memcpy(held, fake.held, sizeof(held));
	fake.held_count = 0;
	for (unsigned i = 0; i < held_count; i++)
		take_back(&held[i]);
	return 0;
}

static int migrate_begin(const struct ipc_cm_migrate *req)
{
	struct fake_id *id = req->id ? id_of(0, req->id) : NULL;
	uint32_t channel = id ? id->channel : req->new_channel;

	if (req->id && !id)
		return -EINVAL;
	if (fake.is_held[channel])
		return -EBUSY;
	fake.is_held[channel] = true;
	if (id) {
		id->channel = req->new_channel;
		id->cookie = req->cookie;
	}
	return 0;
}

static void join(const struct ipc_cm_join *req)
{
	struct ipc_cm_event event = {
		.cookie = fake.ids[req->id].cookie,
		.id = req->id,
		.event = fake.join_event,
		.join_cookie = req->cookie,
		.route = {.dev_id = FAKE_DEV_ID, .port_num = 1},
	};

	fake.last_join = req->cookie;
	fake.last_group = req->addr;
	if (!fake.join_event)
		return;
	event.hdr.type = IPC_CM_EVENT;
	event.hdr.len = sizeof(event);
	event.events_sent = ++fake.ids[req->id].events_sent;
	deliver(&fake.ids[req->id], &event);
}

/* Applies a request and fills in the body of the reply. */
static int handle(const void *req, int *passed, void *reply)
{
	int ends[2];
	const struct ipc_hdr *hdr = req;
	const struct ipc_cm_create *create = req;
	const struct ipc_cm_connect *connect = req;
	const struct ipc_cm_channel *channel = req;
	const struct ipc_cm_id *named = req;
	const struct ipc_cm_write_event *write_event = req;
	struct fake_id *id;

	switch (hdr->type) {
	case IPC_CM_CHANNEL_CREATE:
		((struct ipc_cm_channel_reply *)reply)->channel = fake.next_channel;
		if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends))
			return -errno;
		fake.channels[fake.next_channel++] = ends[0];
		*passed = ends[1];
		return 0;
	case IPC_CM_CHANNEL_DESTROY:
		close(fake.channels[channel->channel]);
		fake.channels[channel->channel] = -1;
		for (unsigned i = 0; i < MAX; i++)
			if (fake.ids[i].channel == channel->channel)
				fake.ids[i].is_alive = false;
		return 0;
	case IPC_CM_CREATE:
		fake.ids[fake.next_id] = (struct fake_id){
			.is_alive = true, .cookie = create->cookie, .channel = create->channel};
		fake.last_cookie = create->cookie;
		((struct ipc_cm_create_reply *)reply)->id = fake.next_id++;
		return 0;
	case IPC_CM_DESTROY:
		id = id_of(0, named->id);
		if (!id)
			return -EINVAL;
		((struct ipc_cm_destroy_reply *)reply)->events_sent = id->events_sent;
		id->is_alive = false;
		return 0;
	case IPC_CM_ACCEPT:
		fake.ids[connect->id].cookie = connect->cookie;
		return 0;
	case IPC_CM_JOIN:
		join(req);
		return 0;
	case IPC_CM_MIGRATE_BEGIN:
		return migrate_begin(req);
	case IPC_CM_MIGRATE_END:
		return migrate_end(req);
	case IPC_CM_WRITE_EVENT: {
		struct ipc_cm_event event = {
			.cookie = fake.ids[write_event->id].cookie,
			.id = write_event->id,
			.event = write_event->event,
			.status = write_event->status,
			.param.private_len = sizeof(write_event->arg),
		};

		event.hdr.type = IPC_CM_EVENT;
		event.hdr.len = sizeof(event);
		event.events_sent = ++fake.ids[write_event->id].events_sent;
		memcpy(event.param.private_data, &write_event->arg, sizeof(write_event->arg));
		deliver(&fake.ids[write_event->id], &event);
		return 0;
	}
	default:
		return 0;
	}
}

/* As in the daemon: a request without a reply fails by an event. */
static void notify_refusal(const struct ipc_cm_id *req, int status)
{
	struct ipc_cm_event event = {
		.hdr = {.type = IPC_CM_EVENT, .len = sizeof(event)},
		.cookie = fake.ids[req->id].cookie,
		.id = req->id,
		.event = RDMA_CM_EVENT_CONNECT_ERROR,
		.status = status,
	};

	if (!status)
		return;
	event.events_sent = ++fake.ids[req->id].events_sent;
	deliver(&fake.ids[req->id], &event);
}

static void response(int fd, const void *req)
{
	static union {
		struct ipc_hdr hdr;
		uint8_t bytes[IPC_MSG_MAX];
	} reply;
	const struct ipc_hdr *hdr = req;
	uint32_t len = ipc_type_info(hdr->type)->reply_bytes;
	int status, sent, passed = -1;

	memset(reply.bytes, 0, len);
	fake.requests[hdr->type]++;
	status = fake.failures[hdr->type];
	fake.failures[hdr->type] = 0;
	if (!status)
		status = handle(req, &passed, reply.bytes);
	if (hdr->flags & IPC_UNANSWERED) {
		notify_refusal(req, status);
		return;
	}
	reply.hdr =
		(struct ipc_hdr){.type = hdr->type, .seq = hdr->seq, .status = status, .len = len};
	sent = ipc_send(fd, reply.bytes, len, &passed, passed >= 0);
	(void)sent;
	if (passed >= 0)
		close(passed);
}

static void *serve(void *arg)
{
	static union {
		struct ipc_hdr hdr;
		uint8_t bytes[IPC_MSG_MAX];
	} req;
	int fd = (int)(intptr_t)arg;
	int fds[IPC_FDS_MAX], nfds;

	while (fdpass_recv(fd, req.bytes, sizeof(req), fds, IPC_FDS_MAX, &nfds, 0) > 0) {
		pthread_mutex_lock(&fake.lock);
		response(fd, req.bytes);
		pthread_mutex_unlock(&fake.lock);
		for (int i = 0; i < nfds; i++)
			if (fds[i] >= 0)
				close(fds[i]);
	}
	return NULL;
}

int __wrap_ipc_client_open(struct ipc_client *client, enum ipc_role role);
int __wrap_ipc_client_open(struct ipc_client *client, enum ipc_role role)
{
	int ends[2];
	int failed;

	assert(role == IPC_ROLE_CM);
	failed = socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends);
	assert(!failed);
	*client = (struct ipc_client){.fd = ends[0], .page_fd = -1};
	pthread_mutex_init(&client->lock, NULL);
	fake.fd = ends[1];
	fake.next_id = 1;
	fake.next_channel = 1;
	memset(fake.channels, -1, sizeof(fake.channels));
	memset(fake.is_held, 0, sizeof(fake.is_held));
	memset(fake.ids, 0, sizeof(fake.ids));
	failed = pthread_create(&fake.thread, NULL, serve, (void *)(intptr_t)fake.fd);
	assert(!failed);
	return 0;
}

void fake_daemon_kill(void)
{
	if (fake.fd < 0)
		return;
	shutdown(fake.fd, SHUT_RDWR);
	pthread_join(fake.thread, NULL);
	close(fake.fd);
	fake.fd = -1;
	for (int i = 0; i < MAX; i++) {
		if (fake.channels[i] >= 0)
			close(fake.channels[i]);
		fake.channels[i] = -1;
	}
}

uint64_t fake_daemon_last_cookie(void)
{
	uint64_t cookie;

	pthread_mutex_lock(&fake.lock);
	cookie = fake.last_cookie;
	pthread_mutex_unlock(&fake.lock);
	return cookie;
}

uint64_t fake_daemon_last_join(void)
{
	uint64_t cookie;

	pthread_mutex_lock(&fake.lock);
	cookie = fake.last_join;
	pthread_mutex_unlock(&fake.lock);
	return cookie;
}

struct sockaddr_storage fake_daemon_last_group(void)
{
	struct sockaddr_storage group;

	pthread_mutex_lock(&fake.lock);
	group = fake.last_group;
	pthread_mutex_unlock(&fake.lock);
	return group;
}

void fake_daemon_answer_joins(uint32_t type)
{
	pthread_mutex_lock(&fake.lock);
	fake.join_event = type;
	pthread_mutex_unlock(&fake.lock);
}

unsigned fake_daemon_requests(enum ipc_type type)
{
	unsigned count;

	pthread_mutex_lock(&fake.lock);
	count = fake.requests[type];
	pthread_mutex_unlock(&fake.lock);
	return count;
}

unsigned fake_daemon_ids(void)
{
	unsigned count = 0;

	pthread_mutex_lock(&fake.lock);
	for (uint32_t i = 1; i < fake.next_id; i++)
		count += fake.ids[i].is_alive;
	pthread_mutex_unlock(&fake.lock);
	return count;
}

void fake_daemon_fail(enum ipc_type type, int status)
{
	pthread_mutex_lock(&fake.lock);
	fake.failures[type] = status;
	pthread_mutex_unlock(&fake.lock);
}
