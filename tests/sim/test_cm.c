/* SPDX-License-Identifier: BSD-2-Clause */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/timer.h"
#include "cm_sidr.h"
#include "rules.h"

/*
 * Communication managers on hosts that crash and restart, over a network with random faults,
 * checked by the reference model.
 *
 *     test-sim-cm [first-seed [seeds [rules]]]
 *
 * Each seed is one run: several hosts, many connections between them, consumers that make any
 * permitted call. A failure prints the seed; running that seed alone prints all events.
 */
#define SEEDS_DEFAULT 10000
#define STEPS_MAX     1000000
#define DEATHS_MAX    4

enum scenario {
	SCENARIO_CLEAN,	  /* no fault */
	SCENARIO_ROUGH,	  /* all faults at low rates */
	SCENARIO_AWFUL,	  /* 15 % lost, more duplicated and delayed */
	SCENARIO_THINK,	  /* consumers respond late or never */
	SCENARIO_CROWD,	  /* many concurrent connections to one host */
	SCENARIO_CUT,	  /* links fail and recover */
	SCENARIO_RESTART, /* hosts crash and restart, and assign the same QPNs again */
	SCENARIO_SAME,	  /* the same, with the same communication IDs */
	SCENARIO_COUNT
};

static const char *const scenario_names[SCENARIO_COUNT] = {
	"clean", "rough", "awful", "think", "crowd", "cut", "restart", "same",
};

/* A fault injected into a host. */
struct blow {
	uint64_t at_ns; /* 0: done */
	struct cm_node *node;
	bool is_death;
	uint64_t lasts_ns;
	bool is_struck;
	bool is_cut;
};

struct run {
	struct cm_world world;
	struct cm_model model;
	struct cm_sidr_model sidr;
	enum scenario scenario;
	struct blow blows[DEATHS_MAX];
	int blow_count;
};

/* Sums over all runs. */
struct totals {
	uint64_t events[CM_EVENT_COUNT];
	uint64_t reasons[CM_REJ_VENDOR_OPTION + 1];
	uint64_t connects;
	uint64_t established;
	uint64_t half_open;
	uint64_t unreachable;
	uint64_t responses;
	uint64_t silences;
	uint64_t deaths;
	uint64_t sent;
	uint64_t resent;
	uint64_t strays;
	struct gsi_wire_counters wire;
	uint64_t wrong;
	uint64_t moot;
};

static uint64_t below(struct run *run, uint64_t n)
{
	return cm_world_below(&run->world, n);
}

/* Of the command line, or NULL. */
static const char *given_rules;

static struct sim_faults faults_of(enum scenario scenario, uint64_t seed)
{
	static char text[RULES_BYTES];
	struct rules_rates rates = {0};
	struct sim_faults faults = {.delay_ns = 100000, .jitter_ns = 50000, .packet_ns = 1000};

	if (scenario == SCENARIO_CLEAN || scenario == SCENARIO_CROWD)
		return faults;
	rates.drop = (unsigned)(seed / 8 % 5) * 200;
	rates.delay = (unsigned)(seed / 16 % 4) * 500;
	rates.duplicate = (unsigned)(seed / 32 % 3) * 1000;
	rates.corrupt = (unsigned)(seed / 64 % 2) * 200;
	faults.cut = (unsigned)(seed / 64 % 2) * 200;
	faults.refuse = (unsigned)(seed / 128 % 2) * 300;
	if (seed / 8 % 3)
		faults.delay_ns = (seed / 8 % 97) * CLOCK_NS_PER_MS + 1;
	if (scenario == SCENARIO_AWFUL) {
		rates.drop = 1500;
		rates.delay = 3000;
		rates.duplicate = 3000;
		faults.jitter_ns = 60 * CLOCK_NS_PER_MS;
	}
	/*
	 * As with a socket: without the IP identification, only single bit errors are certain to be
	 * detected (wire/icrc.h).
	 */
	faults.hides_ip_id = seed % 3 == 0;
	if (faults.hides_ip_id)
		faults.cut = 0;
	rates.delay_us = 3 * faults.delay_ns / 2000;
	faults.rules = given_rules ? given_rules : rules_of_rates(text, seed, &rates);
	return faults;
}

static struct cm_node *some_node(struct run *run)
{
	return &run->world.nodes[below(run, (uint64_t)run->world.node_count)];
}

static void plan_connects(struct run *run, uint64_t horizon_ns)
{
	unsigned count = 1 + (unsigned)below(run, run->scenario == SCENARIO_CROWD ? 64 : 16);

	for (unsigned i = 0; i < count; i++) {
		struct cm_node *from = some_node(run), *to = some_node(run);

		if (run->scenario == SCENARIO_CROWD)
			to = &run->world.nodes[0];
		if (!below(run, 20))
			to = NULL;
		(void)cm_model_connect(&run->model, from, to,
				       run->world.now_ns + below(run, horizon_ns));
	}
}

static void plan_questions(struct run *run, uint64_t horizon_ns)
{
	unsigned count = (unsigned)below(run, 12);

	for (unsigned i = 0; i < count; i++) {
		struct cm_node *from = some_node(run);

		cm_sidr_model_ask(&run->sidr, from, below(run, 20) ? some_node(run) : NULL,
				  run->world.now_ns + 1 + below(run, horizon_ns));
	}
}

static void plan_blows(struct run *run, uint64_t horizon_ns)
{
	bool is_death = run->scenario != SCENARIO_CUT;

	run->blow_count = 1 + (int)below(run, DEATHS_MAX);
	for (int i = 0; i < run->blow_count; i++)
		run->blows[i] = (struct blow){
			.at_ns = run->world.now_ns + 1 + below(run, horizon_ns),
			.node = some_node(run),
			.is_death = is_death,
			/*
			 * From less than 1 ms to 131 s, longer than the CM timeouts of these runs.
			 */
			.lasts_ns = below(run, CLOCK_NS_PER_MS << below(run, 18)),
			.is_cut = !is_death || below(run, 2),
		};
}

static void run_open(struct run *run, uint64_t seed)
{
	struct sim_faults faults;
	uint64_t horizon_ns;

	run->scenario = (enum scenario)(seed % SCENARIO_COUNT);
	run->blow_count = 0;
	faults = faults_of(run->scenario, seed);
	cm_world_open(&run->world, seed, 2 + (int)(seed / SCENARIO_COUNT % 4), seed % 5 == 0,
		      &faults, &cm_model_hooks, &run->model);
	cm_model_open(&run->model, &run->world);
	cm_sidr_model_open(&run->sidr, &run->model);
	run->model.sidr = &run->sidr;
	run->world.tells_errors = below(run, 2);
	run->model.thinking_ns = 200 * CLOCK_NS_PER_MS;
	if (run->scenario == SCENARIO_THINK) {
		run->model.thinking_ns = CLOCK_NS_PER_S << below(run, 8);
		run->model.ignore_percent = 20;
	}
	horizon_ns = run->scenario == SCENARIO_CROWD ? 1 : CLOCK_NS_PER_MS << below(run, 16);
	plan_connects(run, horizon_ns);
	plan_questions(run, horizon_ns);
	if (run->scenario < SCENARIO_CUT)
		return;
	run->model.is_rough = true;
	plan_blows(run, horizon_ns);
}

static void strike(struct run *run, struct blow *blow)
{
	struct cm_node *node = blow->node;

	blow->at_ns = run->world.now_ns + 1 + blow->lasts_ns;
	/* Only one fault for each host at a time. */
	if (node->is_cut || !node->cm) {
		blow->at_ns = 0;
		return;
	}
	blow->is_struck = true;
	if (blow->is_death) {
		cm_model_died(&run->model, node);
		cm_world_kill(node);
	}
	if (blow->is_cut)
		cm_world_cut(node, true);
}

static void recover(struct run *run, struct blow *blow)
{
	struct cm_node *node = blow->node;
	unsigned again = (unsigned)below(run, 6);

	blow->at_ns = 0;
	cm_world_cut(node, false);
	if (!blow->is_death)
		return;
	cm_world_revive(node, run->scenario == SCENARIO_SAME);
	/* The applications of the host start again and connect. */
	for (unsigned i = 0; i < again; i++)
		(void)cm_model_connect(&run->model, node, some_node(run),
				       run->world.now_ns + below(run, CLOCK_NS_PER_S));
	cm_sidr_model_ask(&run->sidr, node, some_node(run),
			  run->world.now_ns + 1 + below(run, CLOCK_NS_PER_S));
}

static uint64_t next_blow(const struct run *run)
{
	uint64_t next_ns = TIMER_NEVER_NS;

	for (int i = 0; i < run->blow_count; i++) {
		if (run->blows[i].at_ns && run->blows[i].at_ns < next_ns)
			next_ns = run->blows[i].at_ns;
	}
	return next_ns;
}

static void blows_fall(struct run *run)
{
	for (int i = 0; i < run->blow_count; i++) {
		struct blow *blow = &run->blows[i];

		if (!blow->at_ns || blow->at_ns > run->world.now_ns)
			continue;
		if (blow->is_struck)
			recover(run, blow);
		else
			strike(run, blow);
	}
}

static uint64_t earliest(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* Runs until no event is left. */
static void settle(struct run *run)
{
	for (int steps = 0; steps < STEPS_MAX; steps++) {
		uint64_t next_ns =
			earliest(earliest(cm_world_next(&run->world), cm_model_next(&run->model)),
				 next_blow(run));

		if (next_ns == TIMER_NEVER_NS || run->model.wrong || run->model.is_moot)
			return;
		cm_world_advance(&run->world, next_ns);
		cm_model_act(&run->model);
		blows_fall(run);
	}
	run->model.wrong = "it never comes to rest";
}

static void drive(struct run *run)
{
	const struct sim_faults none = {.delay_ns = 1000};

	settle(run);
	if (run->model.wrong || run->model.is_moot)
		return;
	cm_model_check_rest(&run->model);
	sim_net_set_faults(run->world.net, &none);
	cm_model_leave(&run->model);
	settle(run);
	if (!run->model.wrong && !run->model.is_moot)
		cm_model_check_end(&run->model);
}

static void count(const struct run *run, struct totals *totals)
{
	const struct cm_model *model = &run->model;
	const struct cm_world *world = &run->world;

	for (int i = 0; i < CM_EVENT_COUNT; i++)
		totals->events[i] += model->events[i];
	for (int i = 0; i <= CM_REJ_VENDOR_OPTION; i++)
		totals->reasons[i] += model->reasons[i];
	for (int i = 0; i < run->blow_count; i++)
		totals->deaths += run->blows[i].is_struck && run->blows[i].is_death;
	totals->connects += model->connects;
	totals->established += model->established;
	totals->half_open += model->half_open;
	totals->unreachable += model->unreachable;
	totals->responses += run->sidr.responses;
	totals->silences += run->sidr.silences;
	totals->sent += world->cm_sent;
	totals->resent += world->cm_resent;
	totals->strays += world->cm_strays;
	cm_world_count(&totals->wire, &world->counters);
	totals->wrong += model->wrong != NULL;
	totals->moot += model->is_moot;
}

static void run_seed(uint64_t seed, bool is_talkative, struct totals *totals)
{
	struct run *run = calloc(1, sizeof(*run));

	if (!run)
		abort();
	run_open(run, seed);
	run->model.is_talkative = is_talkative;
	drive(run);
	if (run->model.wrong || is_talkative) {
		printf("# seed %llu (%s):\n", (unsigned long long)seed,
		       scenario_names[run->scenario]);
		cm_model_describe(&run->model);
	}
	cm_world_close(&run->world);
	count(run, totals);
	free(run);
}

static void tell(const char *what, uint64_t n)
{
	printf("# %s: %llu\n", what, (unsigned long long)n);
}

static void report(const struct totals *totals)
{
	tell("connects", totals->connects);
	tell("established", totals->established);
	tell("established alone at rest", totals->half_open);
	tell("unreachable", totals->unreachable);
	tell("SIDR requests with a response", totals->responses);
	tell("SIDR requests without a response", totals->silences);
	tell("deaths", totals->deaths);
	tell("runs not judged to their end", totals->moot);
	for (int i = 0; i < CM_EVENT_COUNT; i++)
		tell(cm_event_name((enum cm_event_type)i), totals->events[i]);
	for (uint16_t i = 0; i <= CM_REJ_VENDOR_OPTION; i++) {
		if (totals->reasons[i])
			tell(cm_rej_reason_name(i), totals->reasons[i]);
	}
	tell("sent", totals->sent);
	tell("sent again", totals->resent);
	tell("strays", totals->strays);
	for (int i = 0; i < GSI_WIRE_COUNTER_COUNT; i++)
		tell(gsi_wire_counter_name((enum gsi_wire_counter)i), totals->wire.counts[i]);
	for (int i = PACKET_OK + 1; i < PACKET_REASON_COUNT; i++)
		tell(packet_reason_name((enum packet_reason)i), totals->wire.malformed[i]);
}

/* Ensures that the runs covered the relevant events. */
static bool is_thorough(const struct totals *totals)
{
	for (int i = 0; i < CM_EVENT_COUNT; i++) {
		if (!totals->events[i])
			return false;
	}
	return totals->established > totals->connects / 3 && totals->deaths && totals->half_open &&
	       totals->reasons[CM_REJ_STALE_CONN] && totals->reasons[CM_REJ_CONSUMER] &&
	       totals->wire.malformed[PACKET_ICRC];
}

int main(int argc, char **argv)
{
	uint64_t first = argc > 1 ? strtoull(argv[1], NULL, 0) : 1;
	uint64_t seeds = argc > 2 ? strtoull(argv[2], NULL, 0) : argc > 1 ? 1 : SEEDS_DEFAULT;
	struct totals totals = {0};
	bool is_right;

	given_rules = argc > 3 ? argv[3] : NULL;
	setvbuf(stdout, NULL, _IOLBF, 0);
	for (uint64_t seed = first; seed < first + seeds; seed++)
		run_seed(seed, seeds == 1, &totals);
	report(&totals);
	is_right = !totals.wrong && (seeds < SEEDS_DEFAULT || given_rules || is_thorough(&totals));
	printf("%sok 1 - %llu seeds from %llu, %llu wrong\n1..1\n", is_right ? "" : "not ",
	       (unsigned long long)seeds, (unsigned long long)first,
	       (unsigned long long)totals.wrong);
	return !is_right;
}
