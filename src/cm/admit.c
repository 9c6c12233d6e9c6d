/* SPDX-License-Identifier: BSD-2-Clause */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "cm/conn.h"

/*
 * Requests cost their sender nothing and us memory until they are answered and the answer is acknowledged. So there is room
 * for a limited number of half-open ones, in all and for each host. Whoever finds no room hears nothing; a sender that
 * means it repeats its request (IBA 1.x §12.9.8.2), a flood is mostly of requests that are sent once. So while it is
 * crowded only those are let in that have been turned away before, for whom there is some more room than for others.
 * What this machine sends to itself is let in in any case: behind it are processes, with quotas of their own.
 *
 * Which those were is kept as two sets of bits in which a hash of the request sets two: the newer takes what is turned away
 * now, the older is forgotten when it has not been written to for a term. At a hundred thousand requests a second one in
 * sixty is taken for another's repetition, which the limits bear.
 */
#define SOURCE_FRESH_MAX 2048u
#define SOURCE_MAX	 3072u
#define TOTAL_FRESH_MAX	 8192u
#define TOTAL_MAX	 12288u

/* How long everybody else has to ask twice once somebody found no room. */
#define PRESSED_NS (250 * CLOCK_NS_PER_MS)

/* Longer than Linux waits before it repeats a request, 4.3 s. */
#define TERM_NS (5 * CLOCK_NS_PER_S)

#define GREY_BITS_SHIFT 23
#define GREY_WORDS	(1u << (GREY_BITS_SHIFT - 6))

struct cm_greylist {
	uint64_t *newer;
	uint64_t *older;
	uint64_t turn_ns; /* when the newer becomes the older */
	uint64_t bits[2][GREY_WORDS];
};

static uint32_t bit_of(uint64_t name, unsigned which)
{
	return (uint32_t)(name >> (which ? 32 : 0)) & ((1u << GREY_BITS_SHIFT) - 1);
}

static bool has(const uint64_t *set, uint64_t name)
{
	uint32_t a = bit_of(name, 0), b = bit_of(name, 1);

	return set[a / 64] >> a % 64 & set[b / 64] >> b % 64 & 1;
}

static void add(uint64_t *set, uint64_t name)
{
	uint32_t a = bit_of(name, 0), b = bit_of(name, 1);

	set[a / 64] |= UINT64_C(1) << a % 64;
	set[b / 64] |= UINT64_C(1) << b % 64;
}

static void turn(struct cm_greylist *grey, uint64_t now_ns)
{
	uint64_t *oldest = grey->older;

	if (now_ns < grey->turn_ns)
		return;
	/* After a quiet time both are old. */
	if (now_ns >= grey->turn_ns + TERM_NS)
		memset(grey->newer, 0, sizeof(grey->bits[0]));
	memset(oldest, 0, sizeof(grey->bits[0]));
	grey->older = grey->newer;
	grey->newer = oldest;
	grey->turn_ns = now_ns + TERM_NS;
}

/* NULL: out of memory. */
static struct cm_greylist *greylist_of(struct cm *cm, uint64_t now_ns)
{
	struct cm_greylist *grey = cm->greylist;

	if (!grey) {
		grey = calloc(1, sizeof(*grey));
		if (!grey)
			return NULL;
		grey->newer = grey->bits[0];
		grey->older = grey->bits[1];
		grey->turn_ns = now_ns + TERM_NS;
		cm->greylist = grey;
	}
	turn(grey, now_ns);
	return grey;
}

static void turn_away(struct cm *cm, const struct cm_asker *asker, uint64_t now_ns)
{
	struct cm_greylist *grey = greylist_of(cm, now_ns);

	cm->counters.turned_away++;
	if (grey)
		add(grey->newer, asker->name);
}

void cm_turn_away(struct cm *cm, struct cm_service *service, const struct cm_asker *asker,
		  uint64_t now_ns)
{
	turn_away(cm, asker, now_ns);
	/* Without memory of who asked before nobody could ask twice. */
	if (cm->greylist && !asker->is_local)
		service->pressed_until_ns = now_ns + PRESSED_NS;
}

static bool came_again(struct cm *cm, const struct cm_asker *asker, uint64_t now_ns)
{
	struct cm_greylist *grey = cm->greylist;

	if (!grey)
		return false;
	turn(grey, now_ns);
	return has(grey->newer, asker->name) || has(grey->older, asker->name);
}

static uint64_t hash_gid(const struct cm *cm, const uint8_t gid[GID_BYTES])
{
	uint64_t words[2];

	memcpy(words, gid, GID_BYTES);
	return hash_mix(hash_mix(cm->secret, words[0]), words[1]);
}

static struct cm_source *find(const struct cm *cm, const uint8_t gid[GID_BYTES])
{
	struct hash_node *node;

	hash_for_each(node, &cm->sources, hash_gid(cm, gid))
	{
		struct cm_source *source = container_of(node, struct cm_source, node);

		if (!memcmp(source->gid, gid, GID_BYTES))
			return source;
	}
	return NULL;
}

static struct cm_source *find_or_make(struct cm *cm, const uint8_t gid[GID_BYTES])
{
	struct cm_source *source = find(cm, gid);

	if (source)
		return source;
	source = calloc(1, sizeof(*source));
	if (!source)
		return NULL;
	memcpy(source->gid, gid, GID_BYTES);
	hash_add(&cm->sources, &source->node, hash_gid(cm, gid));
	return source;
}

enum room { ROOM_ENOUGH, ROOM_PRESSED, ROOM_NONE };

static enum room find_room(struct cm *cm, const struct cm_service *service,
			   const struct cm_asker *asker, uint64_t now_ns)
{
	const struct cm_source *source = find(cm, asker->gid);
	uint32_t half_open = source ? source->half_open : 0;
	bool is_tight = half_open >= SOURCE_FRESH_MAX || cm->half_open >= TOTAL_FRESH_MAX;

	if (half_open >= SOURCE_MAX || cm->half_open >= TOTAL_MAX)
		return ROOM_NONE;
	if (!is_tight && now_ns >= service->pressed_until_ns)
		return ROOM_ENOUGH;
	if (came_again(cm, asker, now_ns))
		return ROOM_ENOUGH;
	return is_tight ? ROOM_NONE : ROOM_PRESSED;
}

bool cm_admit(struct cm *cm, struct cm_service *service, const struct cm_asker *asker,
	      uint64_t now_ns, struct cm_source **admitted)
{
	struct cm_source *source = NULL;
	enum room room;

	*admitted = NULL;
	if (asker->is_local)
		return true;
	room = find_room(cm, service, asker, now_ns);
	if (room == ROOM_PRESSED) {
		turn_away(cm, asker, now_ns);
		return false;
	}
	if (room == ROOM_ENOUGH)
		source = find_or_make(cm, asker->gid);
	if (!source) {
		cm_turn_away(cm, service, asker, now_ns);
		return false;
	}
	source->half_open++;
	cm->half_open++;
	*admitted = source;
	return true;
}

void cm_close_half(struct cm *cm, struct cm_source **admitted)
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

void cm_admit_fini(struct cm *cm)
{
	free(cm->greylist);
	cm->greylist = NULL;
}
