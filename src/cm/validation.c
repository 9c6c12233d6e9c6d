/* SPDX-License-Identifier: BSD-2-Clause */
#include "cm/validation.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/util.h"
#include "cm/conn.h"

/*
 * The addresses that were validated recently. A connection with such an address may exceed its own
 * credit, so that a REP is repeated at the usual times. A forged REQ can name such an address, too:
 * the MADs in excess are therefore limited, until the address is validated again. An entry is made
 * only by a validation, so a flood of forged requests makes none.
 */
#define ADDRESSES_MAX 4096u

/* The limit of MADs in excess: enough for 64 lost datagrams between two validations. */
#define EXCESS_MAX 64u

#define VALID_NS (600 * CLOCK_NS_PER_S)

/* Owned by struct cm. Freed when the list is full and this entry is the oldest. */
struct cm_address {
	struct hash_node node;
	struct list_head recent; /* of struct cm.addresses_recent */
	uint8_t gid[GID_BYTES];
	uint32_t excess; /* MADs that connections may still send in excess of their credit */
	uint64_t until_ns;
};

static struct cm_address *address_find(const struct cm *cm, const uint8_t gid[GID_BYTES])
{
	struct hash_node *node;

	hash_for_each(node, &cm->addresses, cm_hash_gid(cm, gid))
	{
		struct cm_address *address = container_of(node, struct cm_address, node);

		if (!memcmp(address->gid, gid, GID_BYTES))
			return address;
	}
	return NULL;
}

static void address_free(struct cm *cm, struct cm_address *address)
{
	hash_del(&cm->addresses, &address->node);
	list_del(&address->recent);
	free(address);
}

/* NULL: out of memory. */
static struct cm_address *address_new(struct cm *cm, const uint8_t gid[GID_BYTES])
{
	struct cm_address *address;

	if (cm->addresses.count >= ADDRESSES_MAX)
		address_free(cm,
			     list_first_entry(&cm->addresses_recent, struct cm_address, recent));
	address = calloc(1, sizeof(*address));
	if (!address)
		return NULL;
	memcpy(address->gid, gid, GID_BYTES);
	hash_add(&cm->addresses, &address->node, cm_hash_gid(cm, gid));
	list_add_tail(&address->recent, &cm->addresses_recent);
	return address;
}

static struct cm_address *address_valid(const struct cm *cm, const uint8_t gid[GID_BYTES],
					uint64_t now_ns)
{
	struct cm_address *address = address_find(cm, gid);

	return address && address->excess > 0 && now_ns < address->until_ns ? address : NULL;
}

void cm_validation_credit(struct cm_validation *validation)
{
	validation->credit++;
}

/* The kernel and the daemon verify that a message of this host comes from this host. */
static bool is_own_proof(const struct cm_validation *validation, const struct cm_path *path)
{
	return validation->is_done || path->is_local;
}

bool cm_validation_is_done(const struct cm *cm, const struct cm_validation *validation,
			   const struct cm_path *path, uint64_t now_ns)
{
	return is_own_proof(validation, path) || address_valid(cm, path->dgid, now_ns);
}

bool cm_validation_take(struct cm *cm, struct cm_validation *validation, const struct cm_path *path,
			uint64_t now_ns)
{
	struct cm_address *address;

	if (is_own_proof(validation, path))
		return true;
	if (validation->credit > 0) {
		validation->credit--;
		return true;
	}
	address = address_valid(cm, path->dgid, now_ns);
	if (!address) {
		cm->counters.withheld++;
		return false;
	}
	address->excess--;
	return true;
}

void cm_validation_done(struct cm *cm, struct cm_validation *validation, const struct cm_path *path,
			uint64_t now_ns)
{
	struct cm_address *address;

	validation->is_done = true;
	if (path->is_local)
		return;
	address = address_find(cm, path->dgid);
	if (!address)
		address = address_new(cm, path->dgid);
	/* Out of memory: only this connection has a valid address. */
	if (!address)
		return;
	list_del(&address->recent);
	list_add_tail(&address->recent, &cm->addresses_recent);
	address->excess = EXCESS_MAX;
	address->until_ns = now_ns + VALID_NS;
}

void cm_validation_fini(struct cm *cm)
{
	while (!list_is_empty(&cm->addresses_recent))
		address_free(cm,
			     list_first_entry(&cm->addresses_recent, struct cm_address, recent));
}
