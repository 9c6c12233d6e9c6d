/* SPDX-License-Identifier: BSD-2-Clause */
#include "road.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "../with_locks.h"
#include "base/list.h"
#include "core/qp/xrc_forward.h"

/*
 * One message from one node to another, in road.words in sending order; freed when it was
 * delivered.
 */
struct word {
	struct list_head node;
	int from;
	int to;
	uint64_t due_ns;
	uint32_t len;
	uint8_t bytes[XRC_FORWARD_BYTES_MAX];
};

/* One direction between two nodes. */
struct lane {
	unsigned words;
	bool is_met;	/* the two nodes are connected */
	bool is_wanted; /* a message found no space */
	bool has_room;	/* space is available: the sender is to be notified */
	uint64_t last_due_ns;
};

struct road {
	struct list_head words;
	int first;
	unsigned room;
	uint64_t delay_ns;
	uint64_t full;
	bool is_dead[WORLD_NODES_MAX];
	bool is_missed[WORLD_NODES_MAX][WORLD_NODES_MAX]; /* [node to notify][terminated node] */
	struct lane lanes[WORLD_NODES_MAX][WORLD_NODES_MAX];
};

static struct road *road_of(const struct world *world)
{
	return world->road.arg;
}

static int node_of_slot(const struct world *world, uint32_t slot)
{
	int node = (int)slot - WORLD_FIRST_SLOT;

	return node >= road_of(world)->first && node < world->node_count ? node : -1;
}

static int turn_away(struct lane *lane)
{
	lane->is_wanted = true;
	return -EAGAIN;
}

static void add_word(struct world *world, struct lane *lane, const struct word *from)
{
	struct road *road = road_of(world);
	struct word *word = malloc(sizeof(*word));

	if (!word)
		abort();
	*word = *from;
	word->due_ns = world->now_ns + world_below(world, road->delay_ns + 1);
	if (word->due_ns < lane->last_due_ns)
		word->due_ns = lane->last_due_ns;
	lane->last_due_ns = word->due_ns;
	lane->words++;
	list_add_tail(&word->node, &road->words);
}

static int send_word(struct world *world, int from, uint32_t slot, const struct iovec *pieces,
		     int count, bool may_connect)
{
	struct road *road = road_of(world);
	struct word word = {.from = from, .to = node_of_slot(world, slot)};
	struct lane *lane;

	if (word.to < 0 || word.to == from || road->is_dead[word.to])
		return -ENOENT;
	lane = &road->lanes[from][word.to];
	if (!lane->is_met && !may_connect)
		return -ENOENT;
	if (!lane->is_met) {
		lane->is_met = road->lanes[word.to][from].is_met = true;
		lane->has_room = true;
		return turn_away(lane);
	}
	if (lane->words >= road->room) {
		road->full++;
		return turn_away(lane);
	}
	for (int i = 0; i < count; i++) {
		if (word.len + pieces[i].iov_len > sizeof(word.bytes))
			abort();
		if (pieces[i].iov_len)
			memcpy(word.bytes + word.len, pieces[i].iov_base, pieces[i].iov_len);
		word.len += (uint32_t)pieces[i].iov_len;
	}
	add_word(world, lane, &word);
	return 0;
}

static uint32_t slot_of(int node)
{
	return WORLD_FIRST_SLOT + (uint32_t)node;
}

static void drop_word(struct road *road, struct word *word)
{
	struct lane *lane = &road->lanes[word->from][word->to];

	lane->words--;
	lane->has_room = true;
	list_del(&word->node);
	free(word);
}

/* Delivers the messages that are due, or (is_last) all messages of a terminated node. */
static bool hand_over(struct world *world, int to, int from, bool is_last)
{
	struct road *road = road_of(world);
	struct word *word, *tmp;
	struct list_head due;
	bool has_any = false;

	list_init(&due);
	list_for_each_entry_safe(word, tmp, &road->words, node) {
		if (word->to == to && (from < 0 || word->from == from) &&
		    (is_last || word->due_ns <= world->now_ns))
			list_move_tail(&word->node, &due);
	}
	while (!list_is_empty(&due)) {
		struct word taken;
		int ret;

		word = list_first_entry(&due, struct word, node);
		taken = *word;
		drop_word(road, word);
		WITH_LOCKS(&world->nodes[to].engine,
			   ret = xrc_forward_receive(&world->nodes[to].engine, slot_of(taken.from),
						     taken.bytes, taken.len));
		if (ret)
			abort();
		has_any = true;
	}
	return has_any;
}

static bool tell_of_room(struct world *world, int from)
{
	struct road *road = road_of(world);
	bool has_any = false;

	for (int to = 0; to < world->node_count; to++) {
		struct lane *lane = &road->lanes[from][to];

		if (!lane->is_wanted || !lane->has_room)
			continue;
		lane->is_wanted = lane->has_room = false;
		WITH_LOCKS(&world->nodes[from].engine,
			   xrc_forward_space(&world->nodes[from].engine, slot_of(to)));
		has_any = true;
	}
	return has_any;
}

static bool deliver(struct world *world, int to)
{
	struct road *road = road_of(world);
	bool has_any;

	if (road->is_dead[to])
		return false;
	has_any = hand_over(world, to, -1, false);
	for (int dead = 0; dead < world->node_count; dead++) {
		if (!road->is_missed[to][dead])
			continue;
		road->is_missed[to][dead] = false;
		hand_over(world, to, dead, true);
		WITH_LOCKS(&world->nodes[to].engine,
			   xrc_forward_peer_exited(&world->nodes[to].engine, slot_of(dead)));
		has_any = true;
	}
	return tell_of_room(world, to) || has_any;
}

static uint64_t next_ns(const struct world *world)
{
	const struct road *road = road_of(world);
	uint64_t next = TIMER_NEVER_NS;
	const struct word *word;

	list_for_each_entry(word, &road->words, node) {
		uint64_t due_ns = word->due_ns;

		if (due_ns < world->nodes[word->to].stalled_until_ns)
			due_ns = world->nodes[word->to].stalled_until_ns;
		if (due_ns < next)
			next = due_ns;
	}
	return next;
}

void road_open(struct world *world, int first, unsigned room, uint64_t delay_ns)
{
	struct road *road = calloc(1, sizeof(*road));

	if (!road)
		abort();
	list_init(&road->words);
	road->first = first;
	road->room = room;
	road->delay_ns = delay_ns;
	world->road = (struct world_road){
		.send = send_word, .deliver = deliver, .next_ns = next_ns, .arg = road};
}

void road_close(struct world *world)
{
	struct road *road = road_of(world);

	while (!list_is_empty(&road->words))
		drop_word(road, list_first_entry(&road->words, struct word, node));
	free(road);
	memset(&world->road, 0, sizeof(world->road));
}

void road_bury(struct world *world, int node)
{
	struct road *road = road_of(world);
	struct word *word, *tmp;

	road->is_dead[node] = true;
	list_for_each_entry_safe(word, tmp, &road->words, node) {
		if (word->to == node)
			drop_word(road, word);
	}
	for (int to = road->first; to < world->node_count; to++) {
		if (to != node && !road->is_dead[to])
			road->is_missed[to][node] = true;
	}
}

uint64_t road_full(const struct world *world)
{
	return road_of(world)->full;
}
