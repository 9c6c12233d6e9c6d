/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/device.h"

#include <endian.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "core/async.h"
#include "core/engine.h"

/* Guards `devices` and each device's contents. No other lock is taken while it is held; engine.lock may be held. */
static pthread_mutex_t device_lock = PTHREAD_MUTEX_INITIALIZER;
static struct list_head devices = LIST_HEAD_INIT(devices);
static unsigned int fetch_count;

void device_after_fork_in_child(void)
{
	struct device *device;

	pthread_mutex_init(&device_lock, NULL);
	list_for_each_entry(device, &devices, node)
		device->is_stale = true;
}

/* A NULL-terminated array of devices, as it is built. */
struct device_list {
	struct ibv_device **entries;
	size_t count;
	size_t room;
};

static int list_append(struct device_list *list, struct ibv_device *device)
{
	struct ibv_device **grown;
	size_t room;

	if (list->count + 1 >= list->room) {
		room = list->room ? 2 * list->room : 8;
		grown = reallocarray(list->entries, room, sizeof(*grown));
		if (!grown)
			return -ENOMEM;
		list->entries = grown;
		list->room = room;
	}
	list->entries[list->count] = device;
	if (device)
		list->count++;
	return 0;
}

/*
 * Compares number and name: a renamed interface is a new device, so that the name of an existing device never changes.
 */
static struct device *device_find(const struct ipc_device_reply *info)
{
	struct device *device;

	list_for_each_entry(device, &devices, node) {
		if (device->info.dev_id == info->dev_id && !strcmp(device->info.name, info->name))
			return device;
	}
	return NULL;
}

static struct device *device_new(const struct ipc_device_reply *info)
{
	struct device *device = calloc(1, sizeof(*device));

	if (!device)
		return NULL;
	device->pub.node_type = info->node_type;
	device->pub.transport_type = info->transport_type;
	snprintf(device->pub.name, sizeof(device->pub.name), "%s", info->name);
	snprintf(device->pub.dev_name, sizeof(device->pub.dev_name), "uverbs%u", info->dev_id);
	snprintf(device->pub.dev_path, sizeof(device->pub.dev_path), "/dev/infiniband/uverbs%u",
		 info->dev_id);
	snprintf(device->pub.ibdev_path, sizeof(device->pub.ibdev_path), "/sys/class/infiniband/%s",
		 info->name);
	list_add_tail(&device->node, &devices);
	return device;
}

/* Stores one reply of the daemon. */
static struct device *device_update(const struct ipc_device_reply *info, unsigned int fetch)
{
	struct device *device;

	pthread_mutex_lock(&device_lock);
	device = device_find(info);
	if (!device)
		device = device_new(info);
	if (device) {
		device->info = *info;
		device->is_present = true;
		device->fetch = fetch;
	}
	pthread_mutex_unlock(&device_lock);
	return device;
}

static bool info_is_valid(const struct ipc_device_reply *info, uint32_t cursor)
{
	return info->next_cursor > cursor && info->gid_count <= IPC_GIDS_MAX && info->name[0] &&
	       memchr(info->name, '\0', sizeof(info->name)) && info->node_guid;
}

/* Queries all devices of the daemon, in its order; `list` may be NULL. A device that is not reported is not present. */
static int devices_fetch(struct engine *engine, struct device_list *list)
{
	struct ipc_device_get get = {.hdr.type = IPC_DEVICE_GET};
	struct ipc_device_reply info;
	struct device *device;
	unsigned int fetch;
	int ret;

	pthread_mutex_lock(&device_lock);
	fetch = ++fetch_count;
	list_for_each_entry(device, &devices, node)
		device->is_stale = false;
	pthread_mutex_unlock(&device_lock);
	for (;;) {
		ret = ipc_call(&engine->client, &get, sizeof(get), NULL, 0, &info, sizeof(info));
		if (ret)
			break;
		if (!info_is_valid(&info, get.cursor))
			return -EPROTO;
		device = device_update(&info, fetch);
		if (!device)
			return -ENOMEM;
		if (list && list_append(list, &device->pub))
			return -ENOMEM;
		get.cursor = info.next_cursor;
	}
	if (ret != -ENOENT)
		return ret;
	pthread_mutex_lock(&device_lock);
	list_for_each_entry(device, &devices, node) {
		if ((int)(device->fetch - fetch) < 0)
			device->is_present = false;
	}
	pthread_mutex_unlock(&device_lock);
	return 0;
}

/* Without a daemon, or after it exited, the list is empty. Other errors are returned to the caller. */
static bool means_no_devices(int error)
{
	return error == -ENODEV || error == -ENOENT;
}

struct ibv_device **ibv_get_device_list(int *num_devices)
{
	struct device_list list = {0};
	struct engine *engine = engine_get();
	int ret = engine ? 0 : -errno;

	if (engine)
		ret = devices_fetch(engine, &list);

	if (means_no_devices(ret)) {
		list.count = 0;
		ret = 0;
	}
	if (!ret)
		ret = list_append(&list, NULL);
	if (num_devices)
		*num_devices = ret ? 0 : (int)list.count;
	if (!ret)
		return list.entries;
	free(list.entries);
	errno = -ret;
	return NULL;
}

void ibv_free_device_list(struct ibv_device **list)
{
	free(list);
}

const char *ibv_get_device_name(struct ibv_device *device)
{
	return device->name;
}

static uint32_t device_id(struct device *device)
{
	uint32_t id;

	pthread_mutex_lock(&device_lock);
	id = device->info.dev_id;
	pthread_mutex_unlock(&device_lock);
	return id;
}

__be64 ibv_get_device_guid(struct ibv_device *ibdev)
{
	struct device *device = to_device(ibdev);
	uint64_t guid;

	pthread_mutex_lock(&device_lock);
	guid = device->info.node_guid;
	pthread_mutex_unlock(&device_lock);
	return htobe64(guid);
}

int ibv_get_device_index(struct ibv_device *device)
{
	return (int)device_id(to_device(device));
}

static void context_notice(struct context *context, uint32_t what)
{
	switch (what) {
	case IPC_DEVICE_REMOVED:
		async_device_fatal(context);
		break;
	case IPC_DEVICE_GID_CHANGE:
		async_port_event(context, IBV_EVENT_GID_CHANGE);
		break;
	case IPC_DEVICE_PORT_ACTIVE:
		async_port_event(context, IBV_EVENT_PORT_ACTIVE);
		break;
	case IPC_DEVICE_PORT_DOWN:
		async_port_event(context, IBV_EVENT_PORT_ERR);
		break;
	default:
		/* A changed MTU or a new device: the verbs define no event. */
		break;
	}
}

void device_notice(struct engine *engine, const struct ipc_device_notice *notice)
{
	struct context *context;
	struct device *device;

	pthread_mutex_lock(&device_lock);
	list_for_each_entry(device, &devices, node) {
		if (device->info.dev_id == notice->dev_id)
			device->is_stale = true;
	}
	pthread_mutex_unlock(&device_lock);
	list_for_each_entry(context, &engine->contexts, node) {
		if (device_id(context->device) == notice->dev_id)
			context_notice(context, notice->what);
	}
}

void device_refresh(struct engine *engine, struct device *device)
{
	bool is_stale;

	engine_lock(engine);
	if (!engine->is_orphan && !engine->is_fatal)
		engine_take_notices(engine);
	engine_unlock(engine);
	pthread_mutex_lock(&device_lock);
	is_stale = device->is_stale;
	pthread_mutex_unlock(&device_lock);
	/* If the daemon does not reply, the last report remains valid, and the next query tries again. */
	if (is_stale && devices_fetch(engine, NULL)) {
		pthread_mutex_lock(&device_lock);
		device->is_stale = true;
		pthread_mutex_unlock(&device_lock);
	}
}

struct device *device_known_as(struct engine *engine, const char *name, uint32_t dev_id,
			       uint64_t node_guid)
{
	struct device *device, *found = NULL;

	/* If the query fails, the devices of the last report are used. */
	(void)devices_fetch(engine, NULL);
	pthread_mutex_lock(&device_lock);
	list_for_each_entry(device, &devices, node) {
		if (device->is_present && device->info.dev_id == dev_id &&
		    device->info.node_guid == node_guid && !strcmp(device->info.name, name))
			found = device;
	}
	pthread_mutex_unlock(&device_lock);
	return found;
}

bool device_is_present(struct device *device)
{
	bool is_present;

	pthread_mutex_lock(&device_lock);
	is_present = device->is_present;
	pthread_mutex_unlock(&device_lock);
	return is_present;
}

void device_info(struct device *device, struct ipc_device_reply *info)
{
	pthread_mutex_lock(&device_lock);
	*info = device->info;
	if (!device->is_present)
		info->flags &= ~(uint32_t)IPC_DEVICE_UP;
	pthread_mutex_unlock(&device_lock);
}

uint8_t device_gid_type(struct device *device)
{
	uint8_t gid_type;

	pthread_mutex_lock(&device_lock);
	gid_type = device->info.gid_type;
	pthread_mutex_unlock(&device_lock);
	return gid_type;
}

int device_gid(struct device *device, uint32_t index, struct ipc_gid *gid)
{
	int ret = -EINVAL;

	pthread_mutex_lock(&device_lock);
	if (index < GID_TABLE_LEN) {
		*gid = device->info.gids[index];
		ret = index < device->info.gid_count && gid->is_valid ? 0 : -ENODATA;
	}
	pthread_mutex_unlock(&device_lock);
	return ret;
}

static bool some_device_has(const union ibv_gid *gid)
{
	struct device *device;
	bool is_found = false;

	pthread_mutex_lock(&device_lock);
	list_for_each_entry(device, &devices, node) {
		for (uint32_t i = 0; device->is_present && !is_found && i < device->info.gid_count;
		     i++) {
			const struct ipc_gid *entry = &device->info.gids[i];

			is_found = entry->is_valid &&
				   !memcmp(entry->raw, gid->raw, sizeof(gid->raw));
		}
	}
	pthread_mutex_unlock(&device_lock);
	return is_found;
}

bool device_owns_gid(struct engine *engine, const union ibv_gid *gid)
{
	(void)engine;
	return some_device_has(gid);
}

bool device_may_own_gid(struct engine *engine, const union ibv_gid *gid)
{
	struct device *device;
	bool is_stale = false;

	if (device_owns_gid(engine, gid))
		return true;
	pthread_mutex_lock(&device_lock);
	list_for_each_entry(device, &devices, node)
		is_stale |= device->is_stale;
	pthread_mutex_unlock(&device_lock);
	return is_stale;
}

bool device_find_gid(struct engine *engine, const union ibv_gid *gid)
{
	if (some_device_has(gid))
		return true;
	/* The address may have been added after the last query. */
	return !devices_fetch(engine, NULL) && some_device_has(gid);
}

/*
 * Part of the interface's MTU for IPv6 and UDP headers, BTH, the longest extension headers (RETH and ImmDt, or
 * AtomicETH) and ICRC (IBA A17 (RoCEv2)).
 */
#define ROCE_HEADER_BYTES (40 + 8 + 12 + 28 + 4)

enum ibv_mtu device_active_mtu(struct device *device)
{
	uint32_t mtu_bytes, room;
	enum ibv_mtu mtu;

	pthread_mutex_lock(&device_lock);
	mtu_bytes = device->info.netdev_mtu_bytes;
	pthread_mutex_unlock(&device_lock);
	room = mtu_bytes > ROCE_HEADER_BYTES ? mtu_bytes - ROCE_HEADER_BYTES : 0;
	for (mtu = IBV_MTU_4096; mtu > IBV_MTU_256; mtu--) {
		if (room >= mtu_code_bytes(mtu))
			break;
	}
	return mtu;
}
