/* SPDX-License-Identifier: BSD-2-Clause */
#include "daemon/control_devices.h"

#include <arpa/inet.h>
#include <inttypes.h>
#include <stdio.h>

#include "base/printable.h"
#include "daemon/fault_device.h"
#include "daemon/netdev.h"

#define STRING_BYTES 128

void control_add_number(json_object *to, const char *key, uint64_t value)
{
	json_object_object_add(to, key, json_object_new_uint64(value));
}

/* The kernel permits almost any byte in the name of an interface. */
void control_add_string(json_object *to, const char *key, const char *value)
{
	char text[STRING_BYTES];

	snprintf(text, sizeof(text), "%s", value);
	printable_string(text);
	json_object_object_add(to, key, json_object_new_string(text));
}

static json_object *report_gids(const struct netdev *dev)
{
	json_object *gids = json_object_new_array();

	for (uint32_t i = 0; i < dev->gid_count; i++) {
		char text[INET6_ADDRSTRLEN];
		json_object *gid;

		if (!dev->gids[i].is_valid)
			continue;
		gid = json_object_new_object();
		inet_ntop(AF_INET6, dev->gids[i].raw, text, sizeof(text));
		control_add_number(gid, "index", i);
		control_add_string(gid, "gid", text);
		json_object_array_add(gids, gid);
	}
	return gids;
}

static void add_total(json_object *device, struct ipc_usage total)
{
	control_add_number(device, "messages_sent", total.sent_messages);
	control_add_number(device, "bytes_sent", total.sent_bytes);
	control_add_number(device, "messages_received", total.received_messages);
	control_add_number(device, "bytes_received", total.received_bytes);
	control_add_number(device, "bytes_read", total.read_bytes);
	control_add_number(device, "retries", total.retries);
	control_add_number(device, "rnr_naks", total.rnr_naks);
}

json_object *control_devices(const struct session *asker, const struct device_sum *sum)
{
	json_object *devices = json_object_new_array();
	const struct netdev *dev;
	uint32_t cursor = 0;

	while ((dev = netdev_from_cursor(cursor, &cursor))) {
		json_object *device;
		char guid[20];

		if (fault_device_is_removed(dev, asker->cred.uid))
			continue;
		device = json_object_new_object();
		snprintf(guid, sizeof(guid), "%016" PRIx64, dev->node_guid);
		control_add_string(device, "name", dev->name);
		control_add_number(device, "dev_id", dev->dev_id);
		control_add_string(device, "node_guid", guid);
		control_add_string(device, "state",
				   fault_device_is_active(dev, asker->cred.uid) ? "ACTIVE" :
										  "DOWN");
		control_add_number(device, "mtu_bytes", dev->mtu_bytes);
		control_add_number(device, "speed_mbps", dev->speed_mbps);
		add_total(device, device_sum_of(sum, dev->dev_id));
		json_object_object_add(device, "gids", report_gids(dev));
		json_object_array_add(devices, device);
	}
	return devices;
}
