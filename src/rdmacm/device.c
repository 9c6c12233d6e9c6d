/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <fcntl.h>
#include <rdma/rdma_cma.h>
#include <stdlib.h>
#include <string.h>

#include "base/fault.h"
#include "base/checks.h"
#include "base/log.h"
#include "base/librdmacm_calls.h"
#include "rdmacm/device.h"
#include "rdmacm/session.h"

static struct rcm_device *find_device(struct rcm_session *session, uint32_t dev_id)
{
	struct rcm_device *device, *found = NULL;

	pthread_mutex_lock(&session->devices_lock);
	list_for_each_entry(device, &session->devices, node) {
		if (device->dev_id == dev_id)
			found = device;
	}
	pthread_mutex_unlock(&session->devices_lock);
	return found;
}

static uint8_t clip_to_byte(int limit)
{
	return (uint8_t)(limit < 0 ? 0 : limit > UINT8_MAX ? UINT8_MAX : limit);
}

/* Index 0 is always valid. */
static bool has_gid_pairs(struct ibv_context *verbs)
{
	struct ibv_gid_entry entry;

	return !ibv_query_gid_ex(verbs, 1, 0, &entry, 0) && entry.gid_type == IBV_GID_TYPE_ROCE_V1;
}

static int device_open(struct ibv_device *ibdev, struct rcm_device **opened)
{
	struct ibv_device_attr attr;
	struct rcm_device *device;
	int ret;

	device = calloc(1, sizeof(*device));
	if (!device)
		return -ENOMEM;
	device->dev_id = usrdma_device_id(ibdev);
	device->verbs = ibv_open_device(ibdev);
	if (!device->verbs) {
		ret = errno ? -errno : -ENODEV;
		goto err_open;
	}
	ret = -ibv_query_device(device->verbs, &attr);
	if (ret)
		goto err_query;
	device->pd = ibv_alloc_pd(device->verbs);
	if (!device->pd) {
		ret = errno ? -errno : -ENOMEM;
		goto err_query;
	}
	device->max_responder_resources = clip_to_byte(attr.max_qp_rd_atom);
	device->max_initiator_depth = clip_to_byte(attr.max_qp_init_rd_atom);
	device->has_gid_pairs = has_gid_pairs(device->verbs);
	*opened = device;
	return 0;

err_query:
	ibv_close_device(device->verbs);
err_open:
	log_warn("cannot open %s: %s", ibv_get_device_name(ibdev), strerror(-ret));
	free(device);
	return ret;
}

static void add_device(struct rcm_session *session, struct rcm_device *device)
{
	pthread_mutex_lock(&session->devices_lock);
	list_add_tail(&device->node, &session->devices);
	pthread_mutex_unlock(&session->devices_lock);
}

/* Of a failed ibv_get_device_list(). ENOSYS, no daemon, is ENODEV in every call of librdmacm. */
static int device_list_error(void)
{
	return errno && errno != ENOSYS ? -errno : -ENODEV;
}

/*
 * Opens a device. New devices are found, because libibverbs enumerates the devices again for each
 * list. Waits for the daemon. opening_lock held, and not devices_lock.
 */
static int open_device(struct rcm_session *session, uint32_t dev_id, struct rcm_device **device)
{
	struct ibv_device **list;
	int count, ret = -ENODEV;

	mutex_assert_locked(&session->opening_lock);
	mutex_assert_unlocked(&session->devices_lock);
	list = ibv_get_device_list(&count);
	if (!list)
		return device_list_error();
	for (int i = 0; i < count; i++) {
		if (usrdma_device_id(list[i]) != dev_id)
			continue;
		ret = device_open(list[i], device);
		if (!ret)
			add_device(session, *device);
		break;
	}
	ibv_free_device_list(list);
	return ret;
}

int rcm_device_get(struct rcm_session *session, uint32_t dev_id, struct rcm_device **device)
{
	int ret = 0;

	if (session->is_inherited)
		return -ENODEV;
	*device = find_device(session, dev_id);
	if (*device)
		return 0;
	pthread_mutex_lock(&session->opening_lock);
	*device = find_device(session, dev_id);
	if (!*device)
		ret = open_device(session, dev_id, device);
	pthread_mutex_unlock(&session->opening_lock);
	return ret;
}

int rcm_device_xrcd(struct rcm_session *session, struct rcm_device *device, struct ibv_xrcd **xrcd)
{
	struct ibv_xrcd_init_attr attr = {
		.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
		.fd = -1,
		.oflags = O_CREAT,
	};
	int ret = 0;

	pthread_mutex_lock(&session->devices_lock);
	if (!device->xrcd) {
		device->xrcd = ibv_open_xrcd(device->verbs, &attr);
		if (!device->xrcd)
			ret = errno ? -errno : -ENOMEM;
	}
	*xrcd = device->xrcd;
	pthread_mutex_unlock(&session->devices_lock);
	return ret;
}

/*
 * Opens all devices of the list except those that fail. Returns the number of contexts.
 */
static int rdmacm_device_open_all(struct rcm_session *session, struct ibv_device **list, int count,
				  struct ibv_context **contexts)
{
	int opened = 0;

	for (int i = 0; i < count; i++) {
		uint32_t dev_id = usrdma_device_id(list[i]);
		struct rcm_device *device;

		if (dev_id && !rcm_device_get(session, dev_id, &device))
			contexts[opened++] = device->verbs;
	}
	contexts[opened] = NULL;
	return opened;
}

static int get_devices(struct ibv_context ***contexts, int *opened)
{
	struct rcm_session *session;
	struct ibv_device **list;
	int count, ret;

	ret = rcm_session_get(&session);
	if (ret)
		return ret;
	list = ibv_get_device_list(&count);
	if (!list) {
		ret = device_list_error();
		goto err_list;
	}
	*contexts = calloc((size_t)count + 1, sizeof(**contexts));
	if (*contexts)
		*opened = rdmacm_device_open_all(session, list, count, *contexts);
	else
		ret = -ENOMEM;
	ibv_free_device_list(list);
err_list:
	rcm_session_put(session);
	return ret;
}

struct ibv_context **rdma_get_devices(int *num_devices)
{
	struct ibv_context **contexts = NULL;
	int opened = 0;
	int ret;

	probe_init();
	ret = fault_call(__func__) ?: get_devices(&contexts, &opened);
	if (num_devices)
		*num_devices = opened;
	if (ret)
		errno = -ret;
	return contexts;
}

void rdma_free_devices(struct ibv_context **list)
{
	free(list);
}
