/* SPDX-License-Identifier: BSD-2-Clause */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "cm/conn.h"

/*
 * The half-open limiter. A REQ or SIDR_REQ costs its sender nothing, but costs the receiver memory
 * until the response is acknowledged. The number of half-open requests is therefore limited, in
 * total and for each source host. A request over the limit is dropped without a response. A genuine
 * sender repeats its request (IBA 1.x §12.9.8.2); most requests of a flood are sent once. Near the
 * limit only requests that were denied before are admitted, up to a higher limit. Requests from
 * this host are always admitted: their senders are processes whose number of identifiers is limited
 * elsewhere.
 *
 * Denied requests are remembered in two Bloom filters with two hash functions. The newer filter
 * takes each request that is denied; the older filter is cleared after it has not been written to
 * for FILTER_TERM_NS, and becomes the newer one. At 100,000 denied requests a second, one first
 * request in sixty is taken for a repetition.
 */
#define SOURCE_FRESH_MAX 2048u
#define SOURCE_MAX	 3072u
#define TOTAL_FRESH_MAX	 8192u
#define TOTAL_MAX	 12288u

/*
 * After a request for a service was denied, first requests for that service are denied for this
 * long.
 */
#define CROWDED_NS (250 * CLOCK_NS_PER_MS)

/* Longer than Linux waits before it repeats a request, 4.3 s. */
#define FILTER_TERM_NS (5 * CLOCK_NS_PER_S)

#define FILTER_BITS_SHIFT 23
#define FILTER_WORDS	  (1u << (FILTER_BITS_SHIFT - 6))

struct cm_denied_filter {
	uint64_t *newer;
	uint64_t *older;
	uint64_t rotate_ns; /* when the newer filter becomes the older one */
	uint64_t bits[2][FILTER_WORDS];
};

static uint32_t bit_of(uint64_t name, unsigned which)
{
	return (uint32_t)(name >> (which ? 32 : 0)) & ((1u << FILTER_BITS_SHIFT) - 1);
}

static bool has(const uint64_t *set, uint64_t name)
{
	uint32_t a = bit_of(name, 0), b = bit_of(name, 1);

	return set[a / 64] >> a % 64 & set[b / 64] >> b % 64 & 1;
}

static void half_open_add(uint64_t *set, uint64_t name)
{
	uint32_t a = bit_of(name, 0), b = bit_of(name, 1);

	set[a / 64] |= UINT64_C(1) << a % 64;
	set[b / 64] |= UINT64_C(1) << b % 64;
}

static void rotate(struct cm_denied_filter *denied, uint64_t now_ns)
{
	uint64_t *oldest = denied->older;

	if (now_ns < denied->rotate_ns)
		return;
	/* If nothing was denied for a whole term, both filters are out of date. */
	if (now_ns >= denied->rotate_ns + FILTER_TERM_NS)
		memset(denied->newer, 0, sizeof(denied->bits[0]));
	memset(oldest, 0, sizeof(denied->bits[0]));
	denied->older = denied->newer;
	denied->newer = oldest;
	denied->rotate_ns = now_ns + FILTER_TERM_NS;
}

/* NULL: out of memory. */
static struct cm_denied_filter *denied_filter_of(struct cm *cm, uint64_t now_ns)
{
	struct cm_denied_filter *denied = cm->denied;

	if (!denied) {
		denied = calloc(1, sizeof(*denied));
		if (!denied)
			return NULL;
		denied->newer = denied->bits[0];
		denied->older = denied->bits[1];
		denied->rotate_ns = now_ns + FILTER_TERM_NS;
		cm->denied = denied;
	}
	rotate(denied, now_ns);
	return denied;
}

static void deny(struct cm *cm, const struct cm_requester *requester, uint64_t now_ns)
{
	struct cm_denied_filter *denied = denied_filter_of(cm, now_ns);

	cm->counters.turned_away++;
	if (denied)
		half_open_add(denied->newer, requester->name);
}

void cm_half_open_deny(struct cm *cm, struct cm_service *service,
		       const struct cm_requester *requester, uint64_t now_ns)
{
	deny(cm, requester, now_ns);
	/*
	 * Without a filter, repetitions could not be recognized and every request would be denied.
	 */
	if (cm->denied && !requester->is_local)
		service->crowded_until_ns = now_ns + CROWDED_NS;
}

static bool was_denied_before(struct cm *cm, const struct cm_requester *requester, uint64_t now_ns)
{
	struct cm_denied_filter *denied = cm->denied;

	if (!denied)
		return false;
	rotate(denied, now_ns);
	return has(denied->newer, requester->name) || has(denied->older, requester->name);
}

static struct cm_source *source_find(const struct cm *cm, const uint8_t gid[GID_BYTES])
{
	struct hash_node *node;

	hash_for_each(node, &cm->sources, cm_hash_gid(cm, gid))
	{
		struct cm_source *source = container_of(node, struct cm_source, node);

		if (!memcmp(source->gid, gid, GID_BYTES))
			return source;
	}
	return NULL;
}

static struct cm_source *half_open_source_of(struct cm *cm, const uint8_t gid[GID_BYTES])
{
	struct cm_source *source = source_find(cm, gid);

	if (source)
		return source;
	source = calloc(1, sizeof(*source));
	if (!source)
		return NULL;
	memcpy(source->gid, gid, GID_BYTES);
	hash_add(&cm->sources, &source->node, cm_hash_gid(cm, gid));
	return source;
}

enum room { ROOM_ENOUGH, ROOM_CROWDED, ROOM_NONE };

static enum room find_room(struct cm *cm, const struct cm_service *service,
			   const struct cm_requester *requester, uint64_t now_ns)
{
	const struct cm_source *source = source_find(cm, requester->gid);
	uint32_t half_open = source ? source->half_open : 0;
	bool is_tight = half_open >= SOURCE_FRESH_MAX || cm->half_open >= TOTAL_FRESH_MAX;

	if (half_open >= SOURCE_MAX || cm->half_open >= TOTAL_MAX)
		return ROOM_NONE;
	if (!is_tight && now_ns >= service->crowded_until_ns)
		return ROOM_ENOUGH;
	if (was_denied_before(cm, requester, now_ns))
		return ROOM_ENOUGH;
	return is_tight ? ROOM_NONE : ROOM_CROWDED;
}

bool cm_half_open_admit(struct cm *cm, struct cm_service *service,
			const struct cm_requester *requester, uint64_t now_ns,
			struct cm_source **admitted)
{
	struct cm_source *source = NULL;
	enum room room;

	*admitted = NULL;
	if (requester->is_local)
		return true;
	room = find_room(cm, service, requester, now_ns);
	if (room == ROOM_CROWDED) {
		deny(cm, requester, now_ns);
		return false;
	}
	if (room == ROOM_ENOUGH)
		source = half_open_source_of(cm, requester->gid);
	if (!source) {
		cm_half_open_deny(cm, service, requester, now_ns);
		return false;
	}
	source->half_open++;
	cm->half_open++;
	*admitted = source;
	return true;
}

void cm_half_open_close(struct cm *cm, struct cm_source **admitted)
{
	struct cm_source *source = *admitted;

	*admitted = NULL;
	if (!source)
		return;
	cm->half_open--;
	if (--source->half_open > 0)
		return;
	hash_del(&cm->sources, &source->node);
	free(source);
}

void cm_half_open_fini(struct cm *cm)
{
	free(cm->denied);
	cm->denied = NULL;
}
