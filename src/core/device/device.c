/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/device/device.h"

#include <endian.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fault.h"
#include "base/librdmacm_calls.h"
#include "base/log.h"
#include "base/util.h"
#include "core/device/async.h"
#include "core/engine/engine.h"
#include "core/engine/lock_check.h"
#include "core/report/failure_event.h"
#include "profile/gid_layout.h"
#include "profile/view.h"

/*
 * Guards `devices` and each device's contents. No other lock is taken while it is held; engine.lock
 * may be held.
 */
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
 * Inserts a device behind those that the view lists before it, or that the daemon reported before
 * it.
 */
static int list_insert(struct device_list *list, struct device *device)
{
	size_t at = list->count;
	int ret = list_append(list, &device->pub);

	for (; !ret && at > 0 && to_device(list->entries[at - 1])->order > device->order; at--) {
		list->entries[at] = list->entries[at - 1];
		list->entries[at - 1] = &device->pub;
	}
	return ret;
}

/*
 * Compares number and name: a renamed interface is a new device, so that the name of an existing
 * device never changes.
 */
static struct device *device_find(const struct ipc_device_reply *info, unsigned int rail)
{
	struct device *device;

	list_for_each_entry(device, &devices, node) {
		if (device->dev_id == info->dev_id && device->rail == rail &&
		    !strcmp(device->info.name, info->name))
			return device;
	}
	return NULL;
}

static struct device *device_new(const struct ipc_device_reply *info,
				 const struct view_device *seen)
{
	uint32_t index = view_index(info->dev_id, seen->rail);
	struct device *device = calloc(1, sizeof(*device));

	if (!device)
		return NULL;
	device->pub.node_type = info->node_type;
	device->pub.transport_type = info->transport_type;
	device->dev_id = info->dev_id;
	device->order = seen->order;
	device->rail = seen->rail;
	device->profile = seen->profile;
	snprintf(device->pub.name, sizeof(device->pub.name), "%s", seen->name);
	snprintf(device->pub.dev_name, sizeof(device->pub.dev_name), "uverbs%u", index);
	snprintf(device->pub.dev_path, sizeof(device->pub.dev_path), "/dev/infiniband/uverbs%u",
		 index);
	snprintf(device->pub.ibdev_path, sizeof(device->pub.ibdev_path), "/sys/class/infiniband/%s",
		 seen->name);
	list_add_tail(&device->node, &devices);
	return device;
}

/*
 * Stores one reply of the daemon for one device of the view, unless a query that began later has
 * stored its own.
 */
static struct device *device_update(const struct ipc_device_reply *info, unsigned int fetch,
				    const struct view_device *seen)
{
	struct device *device;

	pthread_mutex_lock(&device_lock);
	device = device_find(info, seen->rail);
	if (!device)
		device = device_new(info, seen);
	if (device && (int)(fetch - device->fetch) >= 0) {
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

/* Stores one reply of the daemon for each device that the view has on this interface. */
static int devices_update(const struct ipc_device_reply *info, unsigned int fetch,
			  struct device_list *list)
{
	const struct view *view = view_of_process();
	struct view_device seen;
	struct device *device;
	unsigned int cursor = 0;
	int ret = 0;

	while (!ret && view_next(view, info->name, &cursor, &seen)) {
		device = device_update(info, fetch, &seen);
		if (!device)
			ret = -ENOMEM;
		else if (list)
			ret = list_insert(list, device);
	}
	return ret;
}

/*
 * Queries all devices of the daemon, in its order; `list` may be NULL. A device that is not
 * reported is not present.
 */
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
		ret = devices_update(&info, fetch, list);
		if (ret)
			return ret;
		get.cursor = info.next_cursor;
	}
	if (ret != -ENOENT)
		return ret;
	pthread_mutex_lock(&device_lock);
	list_for_each_entry(device, &devices, node) {
		if ((int)(device->fetch - fetch) >= 0)
			continue;
		device->is_present = false;
		device->fetch = fetch;
	}
	pthread_mutex_unlock(&device_lock);
	return 0;
}

static int view_check(void)
{
	static atomic_flag has_complained = ATOMIC_FLAG_INIT;
	const struct view *view = view_of_process();

	if (!view->is_invalid)
		return 0;
	if (!atomic_flag_test_and_set(&has_complained))
		log_user(VIEW_DEVICES_ENV " or " VIEW_PROFILE_ENV ": %s: no RDMA devices",
			 view->why);
	return -EINVAL;
}

/*
 * Fills the list; -errno. The engine thread detects the daemon's end, but an engine has no thread
 * until a context is opened. Then the failed request detects it, and the next daemon is used.
 */
static int devices_list(struct engine *engine, struct device_list *list)
{
	int ret = devices_fetch(engine, list);

	if (ret != -ENODEV)
		return ret;
	engine_lose_daemon(engine);
	engine = engine_get();
	if (!engine)
		return -errno;
	list->count = 0;
	return devices_fetch(engine, list);
}

/*
 * If no daemon can be started, or it exits each time, the result is that of rdma-core on a kernel
 * without RDMA: programs then distinguish a host without devices from a host without the service.
 */
static int device_list_errno(int ret)
{
	return ret == -ENODEV || ret == -ENOENT ? -ENOSYS : ret;
}

static int devices_list_complete(struct engine *engine, struct device_list *list)
{
	int ret = view_check();

	if (!ret)
		ret = device_list_errno(devices_list(engine, list));
	return ret ?: list_append(list, NULL);
}

struct ibv_device **ibv_get_device_list(int *num_devices)
{
	struct device_list list = {0};
	struct engine *engine = engine_get();
	int ret;

	if (!engine)
		ret = device_list_errno(-errno);
	else
		ret = fault_call_fails(__func__) ? -errno : devices_list_complete(engine, &list);
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

__be64 ibv_get_device_guid(struct ibv_device *ibdev)
{
	struct device *device = to_device(ibdev);
	uint64_t guid;

	pthread_mutex_lock(&device_lock);
	guid = view_guid(device->info.node_guid, device->rail);
	pthread_mutex_unlock(&device_lock);
	return htobe64(guid);
}

uint32_t usrdma_device_id(struct ibv_device *device)
{
	return view_index(to_device(device)->dev_id, to_device(device)->rail);
}

/*
 * Programs query the kernel's RDMA device of this index by netlink, UCX for example. The kernel
 * does not know the device.
 */
int ibv_get_device_index(struct ibv_device *device)
{
	(void)device;
	return -1;
}

/* The event of a notice; NO_EVENT: the verbs define none, as for a changed MTU or a new device. */
#define NO_EVENT UINT32_MAX

static uint32_t event_of_notice(uint32_t what)
{
	switch (what) {
	case IPC_DEVICE_REMOVED:
		return IBV_EVENT_DEVICE_FATAL;
	case IPC_DEVICE_GID_CHANGE:
		return IBV_EVENT_GID_CHANGE;
	case IPC_DEVICE_PORT_ACTIVE:
		return IBV_EVENT_PORT_ACTIVE;
	case IPC_DEVICE_PORT_DOWN:
		return IBV_EVENT_PORT_ERR;
	case IPC_DEVICE_LID_CHANGE:
		return IBV_EVENT_LID_CHANGE;
	case IPC_DEVICE_SM_CHANGE:
		return IBV_EVENT_SM_CHANGE;
	case IPC_DEVICE_CLIENT_REREGISTER:
		return IBV_EVENT_CLIENT_REREGISTER;
	default:
		return NO_EVENT;
	}
}

static void context_event(struct context *context, uint32_t event)
{
	if (event == IBV_EVENT_DEVICE_FATAL)
		async_device_fatal(context);
	else
		async_port_event(context, (enum ibv_event_type)event);
}

void device_notice(struct engine *engine, const struct ipc_device_notice *notice)
{
	uint32_t event = event_of_notice(notice->what);
	const struct context *reporter = NULL;
	struct context *context;
	struct device *device;

	engine_assert_locked(engine);
	pthread_mutex_lock(&device_lock);
	list_for_each_entry(device, &devices, node) {
		if (device->dev_id == notice->dev_id)
			device->is_stale = true;
	}
	pthread_mutex_unlock(&device_lock);
	list_for_each_entry(context, &engine->tables.contexts, node) {
		if (event == NO_EVENT || context->device->dev_id != notice->dev_id)
			continue;
		reporter = context;
		context_event(context, event);
	}
	if (reporter)
		failure_port_event(reporter, (enum ibv_event_type)event);
}

void device_refresh(struct engine *engine, struct device *device)
{
	bool is_stale;

	engine_assert_unlocked(engine);
	engine_lock(engine);
	if (!engine->is_orphan && !engine->is_fatal)
		engine_take_notices(engine);
	engine_unlock(engine);
	pthread_mutex_lock(&device_lock);
	is_stale = device->is_stale;
	pthread_mutex_unlock(&device_lock);
	/*
	 * If the daemon does not reply, the last report remains valid, and the next query tries
	 * again.
	 */
	if (is_stale && devices_fetch(engine, NULL)) {
		pthread_mutex_lock(&device_lock);
		device->is_stale = true;
		pthread_mutex_unlock(&device_lock);
	}
}

struct device *device_known_as(struct engine *engine, const char *name, uint32_t dev_id,
			       uint64_t node_guid, unsigned int rail)
{
	struct device *device, *found = NULL;

	/* If the query fails, the devices of the last report are used. */
	(void)devices_fetch(engine, NULL);
	pthread_mutex_lock(&device_lock);
	list_for_each_entry(device, &devices, node) {
		if (device->is_present && device->dev_id == dev_id &&
		    device->info.node_guid == node_guid && !strcmp(device->info.name, name) &&
		    (!found || device->rail == rail))
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

uint8_t device_gid_type(struct device *device, uint32_t index)
{
	uint8_t gid_type;

	pthread_mutex_lock(&device_lock);
	gid_type = gid_layout_type(profile_gid_layout(device->profile), index,
				   device->info.gid_type);
	pthread_mutex_unlock(&device_lock);
	return gid_type;
}

uint32_t device_gid_table_len(const struct device *device)
{
	return (uint32_t)profile_limit(device->profile, PROFILE_GID_TBL_LEN, GID_TABLE_LEN);
}

int device_gid(struct device *device, uint32_t index, struct ipc_gid *gid)
{
	int source;

	if (index >= device_gid_table_len(device))
		return -EINVAL;
	pthread_mutex_lock(&device_lock);
	source = gid_layout_source(profile_gid_layout(device->profile), &device->info, index);
	if (source >= 0)
		*gid = device->info.gids[source];
	pthread_mutex_unlock(&device_lock);
	return source >= 0 ? 0 : -ENODATA;
}

int device_gid_index(struct device *device, const uint8_t raw[16])
{
	struct ipc_gid entry;
	uint32_t index;

	for (uint32_t i = 0; i < GID_TABLE_LEN; i++) {
		index = gid_layout_index(profile_gid_layout(device->profile), i);
		if (!device_gid(device, index, &entry) &&
		    !memcmp(entry.raw, raw, sizeof(entry.raw)))
			return (int)index;
	}
	return -1;
}

/* The attribute of a profile that limits the number of objects. */
static const enum profile_value count_limits[] = {
	[DEVICE_QP] = PROFILE_MAX_QP, [DEVICE_CQ] = PROFILE_MAX_CQ, [DEVICE_MR] = PROFILE_MAX_MR,
	[DEVICE_MW] = PROFILE_MAX_MW, [DEVICE_PD] = PROFILE_MAX_PD, [DEVICE_SRQ] = PROFILE_MAX_SRQ,
};

int device_count_add(struct engine *engine, struct device *device, enum device_object object)
{
	uint64_t max = profile_value(device->profile, count_limits[object], UINT64_MAX);

	engine_assert_locked(engine);
	if (device->counts[object] >= max)
		return -ENOMEM;
	device->counts[object]++;
	return 0;
}

void device_count_drop(struct engine *engine, struct device *device, enum device_object object)
{
	engine_assert_locked(engine);
	device->counts[object]--;
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
	engine_assert_unlocked(engine);
	if (some_device_has(gid))
		return true;
	/* The address may have been added after the last query. */
	return !devices_fetch(engine, NULL) && some_device_has(gid);
}

/*
 * Part of the interface's MTU for IPv6 and UDP headers, BTH, RETH and ICRC (IBA A17 (RoCEv2)), as
 * with Linux's rxe. A packet of an RDMA WRITE with immediate data is 4 bytes longer. If its payload
 * is the path MTU, IPv6 is used, and the interface's MTU is less than 4 bytes above the threshold
 * of the active_mtu, the packet does not fit. The rdma_cm reserves more (netdev_path_mtu()).
 */
#define ROCE_HEADER_BYTES (40 + 8 + 12 + 16 + 4)

static enum ibv_mtu mtu_that_fits(uint32_t bytes)
{
	uint32_t room = bytes > ROCE_HEADER_BYTES ? bytes - ROCE_HEADER_BYTES : 0;
	enum ibv_mtu mtu;

	for (mtu = IBV_MTU_4096; mtu > IBV_MTU_256; mtu--) {
		if (room >= mtu_code_bytes(mtu))
			break;
	}
	return mtu;
}

enum ibv_mtu device_path_mtu(struct device *device)
{
	uint32_t bytes;

	pthread_mutex_lock(&device_lock);
	bytes = device->info.netdev_mtu_bytes;
	pthread_mutex_unlock(&device_lock);
	return mtu_that_fits(bytes);
}

enum ibv_mtu device_active_mtu(struct device *device)
{
	uint32_t bytes;

	pthread_mutex_lock(&device_lock);
	bytes = device->info.netdev_mtu_bytes;
	if (device->info.mtu_limit_bytes)
		bytes = min_u32(bytes, device->info.mtu_limit_bytes);
	pthread_mutex_unlock(&device_lock);
	return mtu_that_fits(bytes);
}
