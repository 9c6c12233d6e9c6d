/* SPDX-License-Identifier: BSD-2-Clause */

/*
 * The device list and the queries, with a daemon that is a table: engine_get and ipc_call are
 * replaced (meson.build).
 */

#include "fake.h"

#include <endian.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/librdmacm_calls.h"
#include "core/device.h"
#include "core/query.h"

#define DEVICES_MAX 3

static struct fake fake;

/* The daemon's devices in its order, and the error that it returns. */
static struct ipc_device_reply daemon_devices[DEVICES_MAX];
static unsigned int daemon_count;
static unsigned int daemon_calls;
static int daemon_error;
static int engine_error;

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

static void daemon_has(unsigned int at, const char *name, uint32_t dev_id, uint32_t mtu_bytes)
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

static int setup(void **state)
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

static int teardown(void **state)
{
	(void)state;
	fake_close(&fake);
	return 0;
}

static struct ibv_device *device_named(const char *name)
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

static struct ibv_context *open_named(const char *name)
{
	struct ibv_context *ctx = ibv_open_device(device_named(name));

	assert_non_null(ctx);
	return ctx;
}

static void ibv_get_device_list_repeated_returns_same_pointers(void **state)
{
	int count;
	struct ibv_device **first = ibv_get_device_list(&count);
	struct ibv_device **second = ibv_get_device_list(NULL);
	static const uint8_t zero[128];

	(void)state;
	assert_int_equal(count, 2);
	assert_string_equal(ibv_get_device_name(first[0]), "eth0");
	assert_string_equal(ibv_get_device_name(first[1]), "lo");
	assert_null(first[2]);
	assert_ptr_equal(first[0], second[0]);
	assert_ptr_equal(first[1], second[1]);
	assert_int_equal(be64toh(ibv_get_device_guid(first[0])), 0x1122334455667702);
	assert_int_equal(usrdma_device_id(first[1]), 1);
	/* The kernel does not have the device. */
	assert_int_equal(ibv_get_device_index(first[1]), -1);
	assert_int_equal(first[0]->node_type, IBV_NODE_CA);
	assert_int_equal(first[0]->transport_type, IBV_TRANSPORT_IB);
	/* Offset at which provider libraries expect their own ops. */
	assert_int_equal(sizeof(*first[0]), 664);
	assert_memory_equal((const uint8_t *)first[0] + 664, zero, 48);
	ibv_free_device_list(first);
	ibv_free_device_list(second);
}

static void ibv_get_device_list_follows_interfaces(void **state)
{
	struct ibv_device *eth = device_named("eth0");
	struct ibv_device *renamed;

	(void)state;
	daemon_count = 1;
	daemon_has(0, "lo", 1, 65536);
	assert_null(device_named("eth0"));
	errno = 0;
	assert_null(ibv_open_device(eth));
	assert_int_equal(errno, ENODEV);
	/*
	 * A device that returns with its name is the same device; with another name it is a
	 * different one.
	 */
	daemon_has(0, "eth0", 2, 1500);
	assert_ptr_equal(device_named("eth0"), eth);
	daemon_has(0, "wan0", 2, 1500);
	renamed = device_named("wan0");
	assert_non_null(renamed);
	assert_ptr_not_equal(renamed, eth);
	assert_string_equal(eth->name, "eth0");
}

static void ibv_get_device_list_without_daemon_fails(void **state)
{
	static const struct {
		int error;
		int reported;
	} rows[] = {{ENODEV, ENOSYS}, {ENOENT, ENOSYS}, {ENOMEM, ENOMEM},
		    {EACCES, EACCES}, {EMFILE, EMFILE}, {EPROTO, EPROTO}};
	struct ibv_device **list;
	int count;

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		engine_error = rows[i].error;
		errno = 0;
		count = 77;
		assert_null(ibv_get_device_list(&count));
		assert_int_equal(count, 0);
		assert_int_equal(errno, rows[i].reported);
	}
	engine_error = 0;
	daemon_error = -ENODEV;
	count = 77;
	assert_null(ibv_get_device_list(&count));
	assert_int_equal(errno, ENOSYS);
	assert_int_equal(count, 0);
	/* The request has found that the daemon has ended. */
	fake_expect_event(&fake, IBV_EVENT_DEVICE_FATAL, NULL);
	/* A daemon without devices. */
	daemon_error = 0;
	daemon_count = 0;
	list = ibv_get_device_list(&count);
	assert_non_null(list);
	assert_null(list[0]);
	assert_int_equal(count, 0);
	ibv_free_device_list(list);
}

static void ibv_get_device_list_invalid_reply_fails(void **state)
{
	(void)state;
#define REFUSES(change)                                 \
	do {                                            \
		daemon_has(0, "eth0", 2, 1500);         \
		change;                                 \
		errno = 0;                              \
		assert_null(ibv_get_device_list(NULL)); \
		assert_int_equal(errno, EPROTO);        \
	} while (0)
	REFUSES(memset(daemon_devices[0].name, 'a', sizeof(daemon_devices[0].name)));
	REFUSES(daemon_devices[0].name[0] = '\0');
	REFUSES(daemon_devices[0].gid_count = IPC_GIDS_MAX + 1);
	REFUSES(daemon_devices[0].node_guid = 0);
#undef REFUSES
}

/* The thresholds are those of Linux's rxe. */
static void device_active_mtu_fits_interface_mtu(void **state)
{
	static const struct {
		uint32_t netdev_bytes;
		enum ibv_mtu mtu;
	} rows[] = {{65536, IBV_MTU_4096}, {9000, IBV_MTU_4096}, {4176, IBV_MTU_4096},
		    {4175, IBV_MTU_2048},  {2128, IBV_MTU_2048}, {2127, IBV_MTU_1024},
		    {1500, IBV_MTU_1024},  {1104, IBV_MTU_1024}, {1103, IBV_MTU_512},
		    {592, IBV_MTU_512},	   {591, IBV_MTU_256},	 {68, IBV_MTU_256},
		    {0, IBV_MTU_256}};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		fake.device.info.netdev_mtu_bytes = rows[i].netdev_bytes;
		assert_int_equal(device_active_mtu(&fake.device), rows[i].mtu);
		assert_int_equal(device_path_mtu(&fake.device), rows[i].mtu);
	}
}

/*
 * The loopback device reports no larger MTU than the other devices, but accepts the MTU of its
 * interface for a path.
 */
static void device_active_mtu_is_limited_path_mtu_is_not(void **state)
{
	(void)state;
	fake.device.info.netdev_mtu_bytes = 65536;
	fake.device.info.mtu_limit_bytes = 1500;
	assert_int_equal(device_active_mtu(&fake.device), IBV_MTU_1024);
	assert_int_equal(device_path_mtu(&fake.device), IBV_MTU_4096);
	fake.device.info.netdev_mtu_bytes = 591;
	assert_int_equal(device_active_mtu(&fake.device), IBV_MTU_256);
}

static void device_notice_updates_port_and_reports_event(void **state)
{
	struct ipc_device_notice notice = {.dev_id = 2, .what = IPC_DEVICE_PORT_DOWN};
	struct ibv_context *ctx = open_named("eth0");
	struct ibv_context *other = open_named("lo");
	struct ibv_async_event event;
	struct ibv_port_attr port;
	unsigned int calls;

	(void)state;
	assert_int_equal(ibv_query_port(ctx, 1, &port), 0);
	assert_int_equal(port.state, IBV_PORT_ACTIVE);
	calls = daemon_calls;
	assert_int_equal(ibv_query_port(ctx, 1, &port), 0);
	assert_int_equal(daemon_calls, calls);
	daemon_devices[0].flags = 0;
	engine_lock(&fake.engine);
	device_notice(&fake.engine, &notice);
	engine_unlock(&fake.engine);
	assert_int_equal(ibv_query_port(ctx, 1, &port), 0);
	assert_int_equal(port.state, IBV_PORT_DOWN);
	assert_true(daemon_calls > calls);
	assert_int_equal(ibv_get_async_event(ctx, &event), 0);
	assert_int_equal(event.event_type, IBV_EVENT_PORT_ERR);
	assert_int_equal(event.element.port_num, 1);
	assert_true(list_is_empty(&to_context(other)->events));
	/*
	 * If the daemon does not reply, the last known list is kept, and the daemon is asked again.
	 */
	engine_lock(&fake.engine);
	notice.what = IPC_DEVICE_GID_CHANGE;
	device_notice(&fake.engine, &notice);
	engine_unlock(&fake.engine);
	daemon_error = -ENODEV;
	daemon_devices[0].flags = IPC_DEVICE_UP;
	assert_int_equal(ibv_query_port(ctx, 1, &port), 0);
	assert_int_equal(port.state, IBV_PORT_DOWN);
	daemon_error = 0;
	assert_int_equal(ibv_query_port(ctx, 1, &port), 0);
	assert_int_equal(port.state, IBV_PORT_ACTIVE);
	assert_int_equal(ibv_get_async_event(ctx, &event), 0);
	assert_int_equal(event.event_type, IBV_EVENT_GID_CHANGE);
	assert_int_equal(ibv_close_device(ctx), 0);
	assert_int_equal(ibv_close_device(other), 0);
}

static void device_notice_every_type_reports_its_event(void **state)
{
	static const struct {
		enum ipc_device_what what;
		int event;
	} rows[] = {{IPC_DEVICE_ADDED, -1},
		    {IPC_DEVICE_REMOVED, IBV_EVENT_DEVICE_FATAL},
		    {IPC_DEVICE_GID_CHANGE, IBV_EVENT_GID_CHANGE},
		    {IPC_DEVICE_PORT_ACTIVE, IBV_EVENT_PORT_ACTIVE},
		    {IPC_DEVICE_PORT_DOWN, IBV_EVENT_PORT_ERR},
		    {IPC_DEVICE_LID_CHANGE, IBV_EVENT_LID_CHANGE},
		    {IPC_DEVICE_SM_CHANGE, IBV_EVENT_SM_CHANGE},
		    {IPC_DEVICE_CLIENT_REREGISTER, IBV_EVENT_CLIENT_REREGISTER},
		    {IPC_DEVICE_MTU_CHANGE, -1},
		    {(enum ipc_device_what)99, -1}};
	struct ibv_context *ctx = open_named("lo");
	struct ibv_async_event event;

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct ipc_device_notice notice = {.dev_id = 1, .what = rows[i].what};

		engine_lock(&fake.engine);
		device_notice(&fake.engine, &notice);
		engine_unlock(&fake.engine);
		if (rows[i].event < 0) {
			assert_true(list_is_empty(&to_context(ctx)->events));
			continue;
		}
		assert_int_equal(ibv_get_async_event(ctx, &event), 0);
		assert_int_equal(event.event_type, rows[i].event);
	}
	assert_int_equal(ibv_close_device(ctx), 0);
}

static void ibv_query_port_short_struct_is_not_overrun(void **state)
{
	static const size_t sizes[] = {48, 52, 56, 80};
	struct ibv_context *ctx = open_named("eth0");
	struct ibv_port_attr full, compat;
	uint8_t room[96];

	(void)state;
	assert_int_equal(ibv_query_port(ctx, 1, &full), 0);
	assert_int_equal(full.link_layer, IBV_LINK_LAYER_ETHERNET);
	assert_int_equal(full.active_mtu, IBV_MTU_1024);
	assert_int_equal(full.max_msg_sz, 1u << 31);
	assert_int_equal(full.gid_tbl_len, IPC_GIDS_MAX);
	assert_int_equal(full.pkey_tbl_len, 1);
	assert_int_equal(full.flags, IBV_QPF_GRH_REQUIRED);
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		memset(room, 0xa5, sizeof(room));
		assert_int_equal(query_port(ctx, 1, (struct ibv_port_attr *)(void *)room, sizes[i]),
				 0);
		assert_memory_equal(room, &full, sizes[i] < sizeof(full) ? sizes[i] : sizeof(full));
		for (size_t at = sizeof(full); at < sizes[i]; at++)
			assert_int_equal(room[at], 0);
		assert_int_equal(room[sizes[i]], 0xa5);
	}
	/* The exported symbol, for programs compiled with a shorter structure. */
	memset(&compat, 0xa5, sizeof(compat));
	assert_int_equal((ibv_query_port)(ctx, 1, (struct _compat_ibv_port_attr *)&compat), 0);
	assert_memory_equal(&compat, &full, offsetof(struct ibv_port_attr, port_cap_flags2));
	assert_int_equal(compat.port_cap_flags2, 0xa5a5);
	assert_int_equal(ibv_query_port(ctx, 0, &full), EINVAL);
	assert_int_equal(ibv_query_port(ctx, 2, &full), EINVAL);
	assert_int_equal(ibv_close_device(ctx), 0);
}

static void ibv_query_device_ex_short_struct_is_not_overrun(void **state)
{
	struct ibv_context *ctx = open_named("eth0");
	struct ibv_query_device_ex_input bad = {.comp_mask = 1};
	struct ibv_device_attr_ex attr, part;
	size_t known = offsetof(struct ibv_device_attr_ex, hca_core_clock);

	(void)state;
	assert_int_equal(ibv_query_device_ex(ctx, NULL, &attr), 0);
	assert_int_equal(attr.hca_core_clock, 1000000);
	assert_int_equal(attr.orig_attr.max_cqe, MAX_CQE);
	assert_int_equal(be64toh(attr.orig_attr.node_guid), 0x1122334455667702);
	assert_int_equal(query_device_ex(ctx, &bad, &attr, sizeof(attr)), EINVAL);
	assert_int_equal(query_device_ex(ctx, NULL, &attr, sizeof(attr.orig_attr) - 1), EINVAL);
	memset(&part, 0xa5, sizeof(part));
	assert_int_equal(query_device_ex(ctx, NULL, &part, known), 0);
	assert_memory_equal(&part, &attr, known);
	assert_true(part.hca_core_clock == 0xa5a5a5a5a5a5a5a5);
	assert_int_equal(ibv_close_device(ctx), 0);
}

static void ibv_query_gid_returns_table_entry(void **state)
{
	struct ibv_context *ctx = open_named("eth0");
	struct ibv_gid_entry entries[3];
	union ibv_gid gid;
	union ibv_gid zero = {.raw = {0}};

	(void)state;
	assert_int_equal(ibv_query_gid(ctx, 1, 2, &gid), 0);
	assert_int_equal(gid.raw[15], 3);
	assert_int_equal(ibv_query_gid(ctx, 1, 1, &gid), 0);
	assert_memory_equal(&gid, &zero, sizeof(gid));
	assert_int_equal(ibv_query_gid(ctx, 1, 255, &gid), 0);
	for (int i = 0; i < 3; i++) {
		static const int bad[3][2] = {{1, 256}, {1, -1}, {2, 0}};

		errno = 0;
		assert_int_equal(ibv_query_gid(ctx, (uint8_t)bad[i][0], bad[i][1], &gid), -1);
		assert_int_equal(errno, EINVAL);
	}
	assert_int_equal(ibv_query_gid_ex(ctx, 1, 2, entries, 0), 0);
	assert_int_equal(entries[0].gid_index, 2);
	assert_int_equal(entries[0].port_num, 1);
	assert_int_equal(entries[0].gid_type, IBV_GID_TYPE_ROCE_V2);
	assert_int_equal(entries[0].ndev_ifindex, 2);
	assert_int_equal(ibv_query_gid_ex(ctx, 1, 1, entries, 0), ENODATA);
	assert_int_equal(ibv_query_gid_ex(ctx, 1, 256, entries, 0), EINVAL);
	assert_int_equal(ibv_query_gid_ex(ctx, 2, 0, entries, 0), EINVAL);
	assert_int_equal(ibv_query_gid_ex(ctx, 1, 0, entries, 1), EINVAL);
	assert_int_equal(ibv_query_gid_table(ctx, entries, 3, 0), 2);
	assert_int_equal(entries[1].gid_index, 2);
	assert_int_equal(ibv_query_gid_table(ctx, entries, 2, 0), 2);
	assert_int_equal(ibv_query_gid_table(ctx, entries, 1, 0), -EINVAL);
	assert_int_equal(ibv_query_gid_table(ctx, entries, 0, 0), -EINVAL);
	assert_int_equal(ibv_query_gid_table(ctx, entries, 3, 1), -EINVAL);
	assert_int_equal(ibv_close_device(ctx), 0);
}

static void ibv_get_device_list_types_are_those_of_the_daemon(void **state)
{
	struct ipc_device_reply *info = &daemon_devices[1];
	struct ibv_context *ctx;
	struct ibv_gid_entry entries[2];
	struct ibv_port_attr attr;

	(void)state;
	daemon_has(1, "iw0", 9, 1500);
	info->node_type = IBV_NODE_RNIC;
	info->transport_type = IBV_TRANSPORT_IWARP;
	info->link_layer = IBV_LINK_LAYER_INFINIBAND;
	info->gid_type = IBV_GID_TYPE_IB;
	ctx = open_named("iw0");
	assert_int_equal(ctx->device->node_type, IBV_NODE_RNIC);
	assert_int_equal(ctx->device->transport_type, IBV_TRANSPORT_IWARP);
	assert_int_equal(ibv_query_port(ctx, 1, &attr), 0);
	assert_int_equal(attr.link_layer, IBV_LINK_LAYER_INFINIBAND);
	assert_int_equal(ibv_query_gid_ex(ctx, 1, 0, entries, 0), 0);
	assert_int_equal(entries[0].gid_type, IBV_GID_TYPE_IB);
	assert_int_equal(ibv_query_gid_table(ctx, entries, 2, 0), 2);
	assert_int_equal(entries[1].gid_type, IBV_GID_TYPE_IB);
	assert_int_equal(ibv_close_device(ctx), 0);
}

static void ibv_query_pkey_returns_default_pkey_only(void **state)
{
	struct ibv_context *ctx = open_named("eth0");
	__be16 pkey;

	(void)state;
	assert_int_equal(ibv_query_pkey(ctx, 1, 0, &pkey), 0);
	assert_int_equal(pkey, 0xffff);
	assert_int_equal(ibv_get_pkey_index(ctx, 1, pkey), 0);
	errno = 0;
	assert_int_equal(ibv_query_pkey(ctx, 1, 1, &pkey), -1);
	assert_int_equal(errno, EINVAL);
	assert_int_equal(ibv_query_pkey(ctx, 1, -1, &pkey), -1);
	assert_int_equal(ibv_query_pkey(ctx, 2, 0, &pkey), -1);
	assert_int_equal(ibv_get_pkey_index(ctx, 1, htobe16(0x7fff)), -1);
	assert_int_equal(ibv_get_pkey_index(ctx, 2, pkey), -1);
	assert_int_equal(ibv_close_device(ctx), 0);
}

static void ibv_open_device_context_has_abi_layout(void **state)
{
	struct ibv_context *ctx = open_named("lo");
	const struct verbs_context *verbs = verbs_get_ctx(ctx);
	struct ibv_values_ex values = {.comp_mask = IBV_VALUES_MASK_RAW_CLOCK};
	struct ibv_device_attr attr;

	(void)state;
	assert_non_null(verbs);
	assert_int_equal(verbs->sz, 696);
	assert_ptr_equal(ctx->device, device_named("lo"));
	assert_true(ctx->cmd_fd >= 0 && ctx->async_fd >= 0 && ctx->num_comp_vectors > 0);
	assert_true(ctx->ops.alloc_mw && ctx->ops.bind_mw && ctx->ops.dealloc_mw &&
		    ctx->ops.poll_cq);
	assert_true(ctx->ops.req_notify_cq && ctx->ops.post_srq_recv && ctx->ops.post_send &&
		    ctx->ops.post_recv);
	assert_int_equal(ctx->ops._compat_query_device(ctx, &attr), 0);
	assert_int_equal(attr.phys_port_cnt, 1);
	assert_int_equal(ibv_query_rt_values_ex(ctx, &values), 0);
	assert_int_equal(values.comp_mask, IBV_VALUES_MASK_RAW_CLOCK);
	assert_true(values.raw_clock.tv_nsec > 0);
	values.comp_mask = 1u << 5;
	assert_int_equal(ibv_query_rt_values_ex(ctx, &values), EINVAL);
	assert_int_equal(ibv_close_device(ctx), 0);
}

static void ibv_close_device_with_objects_stops_them(void **state)
{
	struct ibv_context *ctx = open_named("lo");
	struct ibv_pd *pd = ibv_alloc_pd(ctx);
	struct ibv_cq *cq = ibv_create_cq(ctx, 10, NULL, NULL, 0);
	struct ibv_qp_init_attr attr = {.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC};
	static uint8_t buf[8];
	struct ibv_mr *mr = ibv_reg_mr(pd, buf, sizeof(buf), 0);
	struct ibv_qp *qp = ibv_create_qp(pd, &attr);

	(void)state;
	fake_walk(qp, IBV_QPS_RTS);
	assert_int_equal(ibv_close_device(ctx), 0);
	assert_int_equal(fake_calls.halt, 1);
	assert_int_equal(fake_calls.revoke_mr, 1);
	/* Remaining objects can still be destroyed; the last one frees the context. */
	assert_int_equal(ibv_destroy_qp(qp), 0);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	assert_int_equal(ibv_destroy_cq(cq), 0);
	assert_int_equal(ibv_dealloc_pd(pd), 0);
	assert_int_equal(fake_calls.revoke_mr, 1);
}

static void ibv_query_device_in_forked_child_fails_with_eio(void **state)
{
	struct ibv_context *ctx = open_named("lo");
	struct ibv_gid_entry entry;
	struct ibv_values_ex values = {.comp_mask = IBV_VALUES_MASK_RAW_CLOCK};
	struct ibv_device_attr attr;
	struct ibv_port_attr port;
	union ibv_gid gid;
	__be16 pkey;

	(void)state;
	fake.engine.is_orphan = true;
	assert_int_equal(ibv_query_device(ctx, &attr), 0);
	assert_int_equal(ibv_query_port(ctx, 1, &port), EIO);
	assert_int_equal(ibv_query_gid_ex(ctx, 1, 0, &entry, 0), EIO);
	assert_int_equal(ibv_query_gid_table(ctx, &entry, 1, 0), -EIO);
	assert_int_equal(ibv_query_rt_values_ex(ctx, &values), EIO);
	errno = 0;
	assert_int_equal(ibv_query_gid(ctx, 1, 0, &gid), -1);
	assert_int_equal(errno, EIO);
	errno = 0;
	assert_int_equal(ibv_query_pkey(ctx, 1, 0, &pkey), -1);
	assert_int_equal(errno, EIO);
	errno = 0;
	assert_null(ibv_alloc_pd(ctx));
	assert_int_equal(errno, EIO);
	assert_int_equal(ibv_close_device(ctx), 0);
	fake.engine.is_orphan = false;
}

#define DEVICE_TEST(function) cmocka_unit_test_setup_teardown(function, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		DEVICE_TEST(ibv_get_device_list_repeated_returns_same_pointers),
		DEVICE_TEST(ibv_get_device_list_follows_interfaces),
		DEVICE_TEST(ibv_get_device_list_without_daemon_fails),
		DEVICE_TEST(ibv_get_device_list_invalid_reply_fails),
		DEVICE_TEST(device_active_mtu_fits_interface_mtu),
		DEVICE_TEST(device_active_mtu_is_limited_path_mtu_is_not),
		DEVICE_TEST(device_notice_updates_port_and_reports_event),
		DEVICE_TEST(device_notice_every_type_reports_its_event),
		DEVICE_TEST(ibv_query_port_short_struct_is_not_overrun),
		DEVICE_TEST(ibv_query_device_ex_short_struct_is_not_overrun),
		DEVICE_TEST(ibv_query_gid_returns_table_entry),
		DEVICE_TEST(ibv_get_device_list_types_are_those_of_the_daemon),
		DEVICE_TEST(ibv_query_pkey_returns_default_pkey_only),
		DEVICE_TEST(ibv_open_device_context_has_abi_layout),
		DEVICE_TEST(ibv_close_device_with_objects_stops_them),
		DEVICE_TEST(ibv_query_device_in_forked_child_fails_with_eio),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
