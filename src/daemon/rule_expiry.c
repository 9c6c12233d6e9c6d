/* SPDX-License-Identifier: BSD-2-Clause */
#include "daemon/rule_expiry.h"

static void rule_expiry_remove(struct rule_expiry *expiry, struct rule_lease *lease)
{
	expiry->count -= !lease->is_exempt;
	list_del(&lease->node);
}

static void rule_expiry_end(struct rule_expiry *expiry, struct rule_lease *lease)
{
	rule_expiry_remove(expiry, lease);
	expiry->expire(expiry, lease);
}

static void rule_expiry_on_timer(uv_timer_t *timer);

/* The timer expires with the first lease. */
static void rule_expiry_start_timer(struct rule_expiry *expiry)
{
	uint64_t now_ms = uv_now(expiry->timer.loop), end_ms;

	if (list_is_empty(&expiry->unused)) {
		uv_timer_stop(&expiry->timer);
		return;
	}
	end_ms = list_first_entry(&expiry->unused, struct rule_lease, node)->since_ms +
		 expiry->kept_ms;
	uv_timer_start(&expiry->timer, rule_expiry_on_timer, end_ms > now_ms ? end_ms - now_ms : 0,
		       0);
}

static void rule_expiry_on_timer(uv_timer_t *timer)
{
	struct rule_expiry *expiry = container_of(timer, struct rule_expiry, timer);
	uint64_t now_ms = uv_now(timer->loop);

	while (!list_is_empty(&expiry->unused)) {
		struct rule_lease *lease = list_first_entry(&expiry->unused, struct rule_lease,
							    node);

		if (lease->since_ms + expiry->kept_ms > now_ms)
			break;
		rule_expiry_end(expiry, lease);
	}
	rule_expiry_start_timer(expiry);
}

int rule_expiry_open(struct rule_expiry *expiry, uv_loop_t *loop, uint64_t kept_ms,
		     void (*expire)(struct rule_expiry *expiry, struct rule_lease *lease))
{
	*expiry = (struct rule_expiry){
		.kept_ms = kept_ms, .kept_users_max = RULES_KEPT_USERS_MAX, .expire = expire};
	list_init(&expiry->unused);
	return uv_timer_init(loop, &expiry->timer);
}

void rule_expiry_close(struct rule_expiry *expiry)
{
	uv_close((uv_handle_t *)&expiry->timer, NULL);
}

static struct rule_lease *first_not_exempt(struct rule_expiry *expiry)
{
	struct rule_lease *lease;

	list_for_each_entry(lease, &expiry->unused, node) {
		if (!lease->is_exempt)
			return lease;
	}
	return NULL;
}

void rule_expiry_set_used(struct rule_expiry *expiry, struct rule_lease *lease, bool is_used)
{
	if (is_used == !list_is_linked(&lease->node))
		return;
	if (is_used) {
		rule_expiry_remove(expiry, lease);
	} else {
		lease->since_ms = uv_now(expiry->timer.loop);
		expiry->count += !lease->is_exempt;
		list_add_tail(&lease->node, &expiry->unused);
		if (expiry->count > expiry->kept_users_max)
			rule_expiry_end(expiry, first_not_exempt(expiry));
	}
	rule_expiry_start_timer(expiry);
}
