/* SPDX-License-Identifier: BSD-2-Clause */
#include "local/peer_map.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/stat.h>

#include "base/limits.h"
#include "base/log.h"
#include "base/user_fault.h"
#include "core/engine/engine.h"
#include "core/engine/lock_check.h"
#include "ipc/segment.h"
#include "local/peer.h"
#include "local/peer_file.h"
#include "local/ring.h"

/*
 * Uses of an MR until its object is requested, a power of two. The request makes the owner read its
 * list of mappings.
 */
#define USES_UNTIL_REQUEST 4
/* MRs whose uses are counted at once. */
#define REQUESTS   64
#define PATH_BYTES 48

struct peer_map {
	uint32_t generation; /* in the word of the object; 0: not used */
	enum segment_share_kind kind;
	uint8_t *base; /* NULL: the object cannot be mapped */
	uint64_t bytes;
};

struct peer_maps {
	struct peer_map maps[SEGMENT_SHARES]; /* by the place of the object */
	struct {
		uint32_t rkey;
		uint32_t uses;
	} requests[REQUESTS]; /* by the low bits of the rkey */
};

static struct peer_maps *maps_of(struct peer *peer)
{
	if (!peer->maps)
		peer->maps = calloc(1, sizeof(*peer->maps));
	return peer->maps;
}

static void unmap(struct peer_map *map)
{
	if (map->base && map->kind == SEGMENT_SHARE_SYSV)
		shmdt(map->base);
	else if (map->base)
		munmap(map->base, map->bytes);
	*map = (struct peer_map){0};
}

/* What the peer published, copied while its word did not change. */
struct published {
	enum segment_share_kind kind;
	int64_t id;
	uint64_t dev, ino, stamp, bytes;
};

static bool copy_published(const struct segment_share *share, uint32_t generation,
			   struct published *published)
{
	uint64_t word = atomic_load(&share->word);

	if (segment_generation(word) != generation)
		return false;
	*published = (struct published){
		.kind = segment_share_kind(word),
		.id = share->id,
		.dev = share->dev,
		.ino = share->ino,
		.stamp = share->stamp,
		.bytes = atomic_load(&share->bytes),
	};
	atomic_thread_fence(memory_order_acquire);
	return atomic_load(&share->word) == word;
}

/* Files that can shrink are not mapped with USRDMA_SHARE=off (docs/adr/0050). */
static bool may_map_shrinking(void)
{
	const char *value = secure_getenv("USRDMA_SHARE");

	return !value || strcmp(value, "off");
}

static uint8_t *map_file(const struct peer *peer, const struct published *published)
{
	bool has_fd = published->kind == SEGMENT_SHARE_FD;
	const struct peer_file file = {
		.pid = peer->pid,
		.tid = peer->engine_tid,
		.fd = has_fd ? (int)published->id : -1,
		.start = has_fd ? 0 : (uint64_t)published->id,
		.end = has_fd ? 0 : published->stamp,
		.dev = published->dev,
		.ino = published->ino,
		.bytes = published->bytes,
	};
	bool can_shrink;
	uint8_t *base = peer_file_map(&file, &can_shrink);

	if (!base || !can_shrink || may_map_shrinking())
		return base;
	munmap(base, published->bytes);
	return NULL;
}

static bool is_same_ipc_namespace(const struct peer *peer)
{
	char path[PATH_BYTES];
	struct stat ours, theirs;

	snprintf(path, sizeof(path), "/proc/%d/ns/ipc", peer->engine_tid);
	return !stat(path, &theirs) && !stat("/proc/self/ns/ipc", &ours) &&
	       ours.st_dev == theirs.st_dev && ours.st_ino == theirs.st_ino;
}

static uint8_t *map_sysv(const struct peer *peer, const struct published *published)
{
	struct shmid_ds ds;
	void *base;

	if (!is_same_ipc_namespace(peer))
		return NULL;
	base = shmat((int)published->id, NULL, 0);
	if (base == (void *)-1)
		return NULL;
	if (!shmctl((int)published->id, IPC_STAT, &ds) &&
	    segment_sysv_stamp(ds.shm_ctime, ds.shm_cpid) == published->stamp &&
	    ds.shm_segsz >= published->bytes)
		return base;
	shmdt(base);
	return NULL;
}

/* The mapping is not inherited by children and not part of core dumps: it is the peer's memory. */
static void hide(const struct peer_map *map)
{
	madvise(map->base, map->bytes, MADV_DONTFORK);
	madvise(map->base, map->bytes, MADV_DONTDUMP);
}

static void map_object(struct peer *peer, struct peer_map *map, uint32_t place, uint32_t generation)
{
	struct published published;

	unmap(map);
	peer_map_sweep(peer);
	if (!copy_published(&peer->segment->shares[place - 1], generation, &published))
		return;
	*map = (struct peer_map){
		.generation = generation, .kind = published.kind, .bytes = published.bytes};
	/* The address space is for the program, whose allocations would fail. */
	if (limit_is_set(RLIMIT_AS))
		return;
	if (published.kind == SEGMENT_SHARE_FD || published.kind == SEGMENT_SHARE_MAPPING)
		map->base = map_file(peer, &published);
	else if (published.kind == SEGMENT_SHARE_SYSV)
		map->base = map_sysv(peer, &published);
	if (map->base)
		hide(map);
	log_debug("memory object %u of pid %d, %llu bytes: %s", place, peer->pid,
		  (unsigned long long)map->bytes, map->base ? "mapped" : "cannot be mapped");
}

/* Unmaps an object that is published and not to be mapped again. */
static void drop(struct peer_map *map)
{
	uint32_t generation = map->generation;

	unmap(map);
	map->generation = generation;
}

void peer_map_drop(struct peer *peer, uint32_t share)
{
	shard_assert_locked(peer->engine, peer->our_shard);
	if (peer->maps && share - 1 < SEGMENT_SHARES)
		drop(&peer->maps->maps[share - 1]);
}

static bool is_inside(const struct peer_map *map, const struct peer_range *range)
{
	return range->offset <= map->bytes && range->bytes <= map->bytes - range->offset;
}

static bool has_grown(const struct peer *peer, const struct peer_map *map, uint32_t place)
{
	return atomic_load(&peer->segment->shares[place - 1].bytes) > map->bytes;
}

uint8_t *peer_map_at(struct peer *peer, const struct peer_range *range)
{
	struct peer_maps *maps;
	struct peer_map *map;

	shard_assert_locked(peer->engine, peer->our_shard);
	if (range->share - 1 >= SEGMENT_SHARES || !range->generation)
		return NULL;
	maps = maps_of(peer);
	if (!maps)
		return NULL;
	map = &maps->maps[range->share - 1];
	if (map->generation != range->generation ||
	    (map->base && !is_inside(map, range) && has_grown(peer, map, range->share))) {
		engine_lock_base(peer->engine);
		map_object(peer, map, range->share, range->generation);
		engine_unlock_base(peer->engine);
	}
	return map->base && is_inside(map, range) && user_fault_is_caught() ?
		       map->base + range->offset :
		       NULL;
}

/*
 * The request is repeated after twice as many uses each time: the FIFO may have no space, and
 * ibv_rereg_mr() gives the key other memory. A peer that does not reply receives few requests.
 */
void peer_map_request(struct peer *peer, uint32_t rkey)
{
	struct peer_maps *maps = maps_of(peer);
	uint32_t slot = rkey % REQUESTS, uses;

	shard_assert_locked(peer->engine, peer->our_shard);
	if (!maps)
		return;
	if (maps->requests[slot].rkey != rkey) {
		maps->requests[slot].rkey = rkey;
		maps->requests[slot].uses = 0;
	}
	uses = ++maps->requests[slot].uses;
	if (uses < USES_UNTIL_REQUEST || (uses & (uses - 1)))
		return;
	peer->has_sent |= ring_write_notice(&peer->tx, CELL_SHARE_REQUEST, rkey);
}

void peer_map_sweep(struct peer *peer)
{
	shard_assert_locked(peer->engine, peer->our_shard);
	if (!peer->maps)
		return;
	for (uint32_t i = 0; i < SEGMENT_SHARES; i++) {
		struct peer_map *map = &peer->maps->maps[i];

		if (map->generation && segment_generation(atomic_load(
					       &peer->segment->shares[i].word)) != map->generation)
			unmap(map);
	}
}

void peer_map_close(struct peer *peer)
{
	shard_assert_locked(peer->engine, peer->our_shard);
	if (!peer->maps)
		return;
	for (uint32_t i = 0; i < SEGMENT_SHARES; i++)
		unmap(&peer->maps->maps[i]);
	free(peer->maps);
	peer->maps = NULL;
}
