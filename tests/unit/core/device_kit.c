/* SPDX-License-Identifier: BSD-2-Clause */
#include "device_kit.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

struct fake fake;

struct ipc_device_reply daemon_devices[DEVICES_MAX];
unsigned int daemon_count;
unsigned int daemon_calls;
int daemon_error;
int engine_error;

struct engine *__wrap_engine_get(void);
int __wrap_engine_start(struct engine *engine);
int __wrap_ipc_call(struct ipc_client *client, void *req, uint32_t req_len, const int *fds,
		    int nfds, void *reply, uint32_t reply_len);

struct engine *__wrap_engine_get(void)
{
	if (!engine_error)
		return &fake.engine;
	errno = engine_error;
	return NULL;
}

int __wrap_engine_start(struct engine *engine)
{
	assert_ptr_equal(engine, &fake.engine);
	return 0;
}

int __wrap_ipc_call(struct ipc_client *client, void *req, uint32_t req_len, const int *fds,
		    int nfds, void *reply, uint32_t reply_len)
{
	const struct ipc_device_get *get = req;

	(void)fds;
	assert_ptr_equal(client, &fake.engine.client);
	assert_int_equal(get->hdr.type, IPC_DEVICE_GET);
	assert_int_equal(req_len, sizeof(*get));
	assert_int_equal(reply_len, sizeof(daemon_devices[0]));
	assert_int_equal(nfds, 0);
	daemon_calls++;
	if (daemon_error)
		return daemon_error;
	for (unsigned int i = 0; i < daemon_count; i++) {
		if (daemon_devices[i].next_cursor <= get->cursor)
			continue;
		memcpy(reply, &daemon_devices[i], sizeof(daemon_devices[i]));
		return 0;
	}
	return -ENOENT;
}

void daemon_has(unsigned int at, const char *name, uint32_t dev_id, uint32_t mtu_bytes)
{
	struct ipc_device_reply *info = &daemon_devices[at];

	memset(info, 0, sizeof(*info));
	info->next_cursor = 10 * (at + 1);
	info->dev_id = dev_id;
	info->node_guid = 0x1122334455667700 + dev_id;
	info->netdev_mtu_bytes = mtu_bytes;
	info->flags = IPC_DEVICE_UP;
	info->gid_count = 3;
	info->node_type = IBV_NODE_CA;
	info->transport_type = IBV_TRANSPORT_IB;
	info->link_layer = IBV_LINK_LAYER_ETHERNET;
	info->gid_type = IBV_GID_TYPE_ROCE_V2;
	snprintf(info->name, sizeof(info->name), "%s", name);
	for (int i = 0; i < 3; i += 2) {
		info->gids[i].is_valid = 1;
		info->gids[i].ifindex = dev_id;
		info->gids[i].raw[15] = (uint8_t)(i + 1);
	}
}

int device_kit_setup(void **state)
{
	(void)state;
	fake_open(&fake);
	daemon_error = 0;
	engine_error = 0;
	daemon_calls = 0;
	daemon_count = 2;
	daemon_has(0, "eth0", 2, 1500);
	daemon_has(1, "lo", 1, 65536);
	return 0;
}

int device_kit_teardown(void **state)
{
	(void)state;
	fake_close(&fake);
	return 0;
}

struct ibv_device *device_named(const char *name)
{
	int count;
	struct ibv_device **list = ibv_get_device_list(&count);
	struct ibv_device *found = NULL;

	assert_non_null(list);
	for (int i = 0; i < count; i++) {
		if (!strcmp(ibv_get_device_name(list[i]), name))
			found = list[i];
	}
	assert_null(list[count]);
	ibv_free_device_list(list);
	return found;
}

struct ibv_context *open_named(const char *name)
{
	struct ibv_context *ctx = ibv_open_device(device_named(name));

	assert_non_null(ctx);
	return ctx;
}
