/* SPDX-License-Identifier: BSD-2-Clause */
#include "daemon/neigh_wait.h"

#include <errno.h>
#include <string.h>

#include "base/clock.h"

/* All waits of this process. Valid from neigh_waits_open() to neigh_waits_close(). */
static struct {
	uv_loop_t *loop;
	uv_timer_t timer; /* for the next deadline in `timers` */
	struct timer_heap timers;
	struct hash by_hop;
	struct list_head list; /* struct neigh_wait */
} waits;

static uint64_t neigh_wait_hash(const struct neigh_hop *hop)
{
	uint64_t words[GID_BYTES / sizeof(uint64_t)];

	memcpy(words, hop->gid, sizeof(words));
	return hash_mix(words[0] ^ hop->ifindex, words[1]);
}

static struct neigh_wait *neigh_wait_find(const struct neigh_hop *hop)
{
	struct hash_node *node;

	hash_for_each(node, &waits.by_hop, neigh_wait_hash(hop))
	{
		struct neigh_wait *wait = container_of(node, struct neigh_wait, node);

		if (wait->hop.ifindex == hop->ifindex &&
		    !memcmp(wait->hop.gid, hop->gid, GID_BYTES))
			return wait;
	}
	return NULL;
}

static void neigh_wait_on_timer(uv_timer_t *timer);

static void neigh_wait_set_timer(void)
{
	uint64_t next_ns = timer_next_deadline(&waits.timers);
	uint64_t now_ns;

	if (next_ns == TIMER_NEVER_NS) {
		uv_timer_stop(&waits.timer);
		return;
	}
	now_ns = clock_now_ns();
	uv_update_time(waits.loop);
	uv_timer_start(&waits.timer, neigh_wait_on_timer,
		       next_ns > now_ns ? (next_ns - now_ns) / CLOCK_NS_PER_MS + 1 : 0, 0);
}

static void neigh_wait_on_timer(uv_timer_t *timer)
{
	(void)timer;
	timer_expire(&waits.timers, clock_now_ns());
	neigh_wait_set_timer();
}

void neigh_wait_cancel(struct neigh_wait *wait)
{
	if (!wait->node.is_linked)
		return;
	hash_del(&waits.by_hop, &wait->node);
	list_del(&wait->all);
	timer_cancel(&waits.timers, &wait->timer);
	if (list_is_empty(&waits.list)) {
		neigh_watch_stop();
		uv_timer_stop(&waits.timer);
	}
}

static void neigh_wait_finish(struct neigh_wait *wait, int status)
{
	neigh_wait_cancel(wait);
	wait->done(wait, status);
}

static int neigh_wait_status(enum neigh_state state, int otherwise)
{
	switch (state) {
	case NEIGH_VALID:
		return 0;
	case NEIGH_FAILED:
		return -EHOSTUNREACH;
	default:
		return otherwise;
	}
}

/* Queries the state of all hops after notifications were lost. */
static void neigh_wait_look_again(void)
{
	struct neigh_wait *wait, *next;

	list_for_each_entry_safe(wait, next, &waits.list, all) {
		enum neigh_state state = neigh_state(&wait->hop);

		if (state != NEIGH_UNKNOWN)
			neigh_wait_finish(wait, neigh_wait_status(state, 0));
	}
}

static void neigh_wait_on_change(void *ctx, const struct neigh_hop *hop, enum neigh_state state)
{
	struct neigh_wait *wait;

	(void)ctx;
	if (!hop) {
		neigh_wait_look_again();
		return;
	}
	while ((wait = neigh_wait_find(hop)))
		neigh_wait_finish(wait, neigh_wait_status(state, 0));
}

static void neigh_wait_on_timeout(struct timer *timer, uint64_t now_ns)
{
	struct neigh_wait *wait = container_of(timer, struct neigh_wait, timer);

	(void)now_ns;
	neigh_wait_finish(wait, neigh_wait_status(neigh_state(&wait->hop), -ETIMEDOUT));
}

/*
 * Makes the kernel resolve the hop. Only the first wait for a hop sends; later ones wait for the
 * same result.
 */
static int neigh_wait_solicit(const struct sockaddr *dst, const struct sockaddr *src,
			      const struct neigh_hop *hop)
{
	int ret = 0;

	if (list_is_empty(&waits.list))
		ret = neigh_watch_start(waits.loop, neigh_wait_on_change, NULL);
	if (!ret && !neigh_wait_find(hop))
		ret = neigh_solicit(dst, src);
	if (!ret)
		ret = neigh_wait_status(neigh_state(hop), -EINPROGRESS);
	if (ret != -EINPROGRESS && list_is_empty(&waits.list))
		neigh_watch_stop();
	return ret;
}

int neigh_wait_begin(struct neigh_wait *wait, const struct sockaddr *dst,
		     const struct sockaddr *src, uint32_t timeout_ms,
		     void (*done)(struct neigh_wait *wait, int status))
{
	struct neigh_hop hop;
	int ret;

	if (!neigh_hop_to(dst, src, &hop) || neigh_state(&hop) == NEIGH_VALID)
		return 0;
	ret = neigh_wait_solicit(dst, src, &hop);
	if (ret != -EINPROGRESS)
		return ret;
	wait->hop = hop;
	wait->done = done;
	hash_add(&waits.by_hop, &wait->node, neigh_wait_hash(&hop));
	list_add_tail(&wait->all, &waits.list);
	timer_init(&wait->timer, neigh_wait_on_timeout);
	timer_add(&waits.timers, &wait->timer, clock_now_ns() + timeout_ms * CLOCK_NS_PER_MS);
	neigh_wait_set_timer();
	return ret;
}

int neigh_waits_open(uv_loop_t *loop)
{
	int error = hash_init(&waits.by_hop);

	if (error)
		return error;
	waits.loop = loop;
	list_init(&waits.list);
	timer_heap_init(&waits.timers);
	/* Cannot fail: only fills in the handle. */
	return uv_timer_init(loop, &waits.timer);
}

void neigh_waits_close(void)
{
	hash_fini(&waits.by_hop);
	uv_close((uv_handle_t *)&waits.timer, NULL);
	neigh_close();
}
