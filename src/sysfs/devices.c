/* SPDX-License-Identifier: BSD-2-Clause */
#include "sysfs/devices.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "ipc/client.h"
#include "profile/view.h"
#include "sysfs/tree.h"

#define DEVICES_MAX 4096

/* FNV-1a hash; detects changes of the device list. */
static uint64_t fingerprint_add(uint64_t hash, const void *bytes, size_t len)
{
	for (size_t i = 0; i < len; i++)
		hash = (hash ^ ((const uint8_t *)bytes)[i]) * 0x100000001b3ull;
	return hash;
}

static int devices_get_next(struct ipc_client *client, struct device_list *list, uint32_t *cursor)
{
	struct ipc_device_get req = {.hdr.type = IPC_DEVICE_GET, .cursor = *cursor};
	struct ipc_device_reply *reply;
	void *grown = realloc(list->items, (list->count + 1) * sizeof(*list->items));
	int ret;

	if (!grown)
		return -ENOMEM;
	list->items = grown;
	reply = &list->items[list->count];
	ret = ipc_call(client, &req, sizeof(req), NULL, 0, reply, sizeof(*reply));
	if (ret)
		return ret;
	*cursor = reply->next_cursor;
	/* The header is different in each reply, so it is not hashed. */
	list->fingerprint = fingerprint_add(list->fingerprint, &reply->hdr + 1,
					    sizeof(*reply) - sizeof(reply->hdr));
	list->count++;
	return 0;
}

int devices_get(struct device_list *list)
{
	struct ipc_client client;
	uint32_t cursor = 0;
	int ret = ipc_client_open(&client, IPC_ROLE_CONTROL);

	if (ret)
		return ret;
	while (!ret && list->count < DEVICES_MAX)
		ret = devices_get_next(&client, list, &cursor);
	ipc_client_close(&client);
	return ret == -ENOENT ? 0 : ret;
}

/* Adds each device that this process has on the interface. */
static int interface_build(int fd, const struct ipc_device_reply *info)
{
	char interface[IPC_IFNAME_BYTES + 1] = "";
	struct view_device seen;
	unsigned int cursor = 0;
	int ret = 0;

	memcpy(interface, info->name, sizeof(info->name));
	while (!ret && view_next(view_of_process(), interface, &cursor, &seen))
		ret = tree_add_device(fd, info, &seen);
	return ret;
}

int devices_build(int root_fd, const struct device_list *list)
{
	int ret = tree_begin(root_fd);

	for (uint32_t i = 0; i < list->count && !ret; i++)
		ret = interface_build(root_fd, &list->items[i]);
	return ret;
}
