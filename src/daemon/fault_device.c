/* SPDX-License-Identifier: BSD-2-Clause */
#include "daemon/fault_device.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/random.h>

#include "base/hash.h"
#include "base/list.h"
#include "daemon/fault_user.h"
#include "daemon/user_log.h"

/* A device on which rules of a scope have an effect. */
struct device_fault {
	struct list_head node;
	struct hash_node by_key;
	uid_t scope;
	uint32_t dev_id;
	bool is_down;
	bool is_removed;
};

static struct list_head device_faults = LIST_HEAD_INIT(device_faults);
/* Initialised while there are entries, by device and scope. */
static struct hash faults_by_key;
/* Users may choose their uids, but not those that have one hash. */
static uint64_t key_secret;

static uint64_t device_fault_hash(uint32_t dev_id, uid_t scope)
{
	return hash_mix(key_secret, (uint64_t)dev_id << 32 | scope);
}

static struct device_fault *device_fault_find(uint32_t dev_id, uid_t scope)
{
	struct hash_node *node;

	if (list_is_empty(&device_faults))
		return NULL;
	hash_for_each(node, &faults_by_key, device_fault_hash(dev_id, scope))
	{
		struct device_fault *found = container_of(node, struct device_fault, by_key);

		if (found->dev_id == dev_id && found->scope == scope)
			return found;
	}
	return NULL;
}

static bool faults_open(void)
{
	return getrandom(&key_secret, sizeof(key_secret), 0) == (ssize_t)sizeof(key_secret) &&
	       !hash_init(&faults_by_key);
}

/* The entry, which is created if it does not exist; NULL: out of memory. */
static struct device_fault *device_fault_get(uint32_t dev_id, uid_t scope)
{
	struct device_fault *found = device_fault_find(dev_id, scope);

	if (found)
		return found;
	found = calloc(1, sizeof(*found));
	if (!found)
		return NULL;
	if (list_is_empty(&device_faults) && !faults_open()) {
		free(found);
		return NULL;
	}
	found->dev_id = dev_id;
	found->scope = scope;
	list_add_tail(&found->node, &device_faults);
	hash_add(&faults_by_key, &found->by_key, device_fault_hash(dev_id, scope));
	return found;
}

static void device_fault_free(struct device_fault *found)
{
	list_del(&found->node);
	hash_del(&faults_by_key, &found->by_key);
	free(found);
	if (list_is_empty(&device_faults))
		hash_fini(&faults_by_key);
}

static void set_down(struct device_fault *found, const struct netdev *dev, bool is_down,
		     fault_device_notify *notify, void *ctx)
{
	if (found->is_down == is_down)
		return;
	found->is_down = is_down;
	user_log(USER_LOG_DEVICE_RULE, LOG_LEVEL_INFO, found->scope, "device %s: a fault rule %s",
		 dev->name, is_down ? "takes the port down" : "ends");
	if (dev->is_up)
		notify(ctx, found->scope, dev->dev_id,
		       is_down ? IPC_DEVICE_PORT_DOWN : IPC_DEVICE_PORT_ACTIVE);
}

static void set_removed(struct device_fault *found, const struct netdev *dev, bool is_removed,
			fault_device_notify *notify, void *ctx)
{
	if (found->is_removed == is_removed)
		return;
	found->is_removed = is_removed;
	user_log(USER_LOG_DEVICE_RULE, LOG_LEVEL_INFO, found->scope, "device %s: a fault rule %s",
		 dev->name, is_removed ? "removes it" : "ends");
	notify(ctx, found->scope, dev->dev_id, is_removed ? IPC_DEVICE_REMOVED : IPC_DEVICE_ADDED);
}

/* Reports the event of an action that has no other effect. */
static void report_device_event(const struct netdev *dev, uid_t scope, enum fault_action action,
				fault_device_notify *notify, void *ctx)
{
	switch (action) {
	case FAULT_GID_CHANGE:
		notify(ctx, scope, dev->dev_id, IPC_DEVICE_GID_CHANGE);
		break;
	case FAULT_LID_CHANGE:
		notify(ctx, scope, dev->dev_id, IPC_DEVICE_LID_CHANGE);
		break;
	case FAULT_SM_CHANGE:
		notify(ctx, scope, dev->dev_id, IPC_DEVICE_SM_CHANGE);
		break;
	case FAULT_CLIENT_REREGISTER:
		notify(ctx, scope, dev->dev_id, IPC_DEVICE_CLIENT_REREGISTER);
		break;
	default:
		break;
	}
}

void fault_device_pass(const struct netdev *dev, uid_t scope, fault_device_notify *notify,
		       void *ctx)
{
	const struct fault_subject subject = {.device = dev->name, .netdev = dev->name};
	struct fault fault = {.action = FAULT_ACTION_COUNT};
	struct device_fault *found;
	bool has_effect;

	if (scope == FAULT_EVERY_USER)
		(void)fault_due(FAULT_DEVICE, &subject, &fault);
	else
		(void)fault_user_own_due(scope, FAULT_DEVICE, &subject, &fault);
	report_device_event(dev, scope, fault.action, notify, ctx);
	has_effect = fault.action == FAULT_DOWN || fault.action == FAULT_REMOVE;
	found = has_effect ? device_fault_get(dev->dev_id, scope) :
			     device_fault_find(dev->dev_id, scope);
	if (!found && has_effect)
		fault_failed(&fault, -ENOMEM);
	if (!found)
		return;
	set_down(found, dev, fault.action == FAULT_DOWN, notify, ctx);
	set_removed(found, dev, fault.action == FAULT_REMOVE, notify, ctx);
}

static bool scope_has_rules(uid_t scope)
{
	if (scope == FAULT_EVERY_USER)
		return fault_has_point(FAULT_DEVICE);
	return fault_user_points(scope) >> FAULT_DEVICE & 1;
}

void fault_device_release(bool all, fault_device_notify *notify, void *ctx)
{
	struct device_fault *found, *next;

	list_for_each_entry_safe(found, next, &device_faults, node) {
		const struct netdev *dev = netdev_by_id(found->dev_id);

		if (!all && scope_has_rules(found->scope))
			continue;
		if (dev) {
			set_down(found, dev, false, notify, ctx);
			set_removed(found, dev, false, notify, ctx);
		}
		device_fault_free(found);
	}
}

bool fault_device_is_removed(const struct netdev *dev, uid_t uid)
{
	const struct device_fault *of_all = device_fault_find(dev->dev_id, FAULT_EVERY_USER),
				  *own = device_fault_find(dev->dev_id, uid);

	return (of_all && of_all->is_removed) || (own && own->is_removed);
}

bool fault_device_is_active(const struct netdev *dev, uid_t uid)
{
	const struct device_fault *of_all = device_fault_find(dev->dev_id, FAULT_EVERY_USER),
				  *own = device_fault_find(dev->dev_id, uid);

	return dev->is_up && !(of_all && of_all->is_down) && !(own && own->is_down);
}
