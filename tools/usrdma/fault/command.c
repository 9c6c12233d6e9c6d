/* SPDX-License-Identifier: BSD-2-Clause */
/* usrdma fault: the fault rules of running programs. */
#include <errno.h>
#include <inttypes.h>
#include <json-c/json.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../commands.h"
#include "../report.h"
#include "base/clock.h"
#include "active.h"
#include "daemon.h"
#include "scenario.h"
#include "text.h"

static const char usage[] =
	"usrdma: usage: usrdma fault [list [--json] | set FILE | add RULE... | clear | scenario [NAME [CONDITION]...]]\n"
	"        [--seed N] [--user UID]\n";

struct fault_options {
	uint64_t seed;
	bool has_seed;
	bool wants_json;
	uint32_t uid;
	int count; /* of the other arguments */
	char **arguments;
};

static bool take_number(const char *text, uint64_t max, uint64_t *number)
{
	char *end;

	errno = 0;
	*number = strtoull(text, &end, 10);
	return *text >= '0' && *text <= '9' && !*end && !errno && *number <= max;
}

/* Removes the options from argv. */
static bool parse_options(int argc, char **argv, struct fault_options *options)
{
	uint64_t uid;

	*options = (struct fault_options){.uid = getuid(), .arguments = argv + 1};
	for (int i = 1; i < argc; i++) {
		if (strcmp(argv[i], "--json") == 0) {
			options->wants_json = true;
		} else if (strcmp(argv[i], "--seed") == 0 && i + 1 < argc) {
			options->has_seed = true;
			if (!take_number(argv[++i], UINT64_MAX, &options->seed))
				return false;
		} else if (strcmp(argv[i], "--user") == 0 && i + 1 < argc) {
			if (!take_number(argv[++i], UINT32_MAX - 1, &uid))
				return false;
			options->uid = (uint32_t)uid;
		} else if (strncmp(argv[i], "--", 2) == 0) {
			return false;
		} else {
			options->arguments[options->count++] = argv[i];
		}
	}
	return true;
}

static void list_text(const struct fault_text *text, const struct fault_count *counts)
{
	if (!text->count) {
		puts("no fault rules");
		return;
	}
	printf("seed %" PRIu64 "\n%4s %10s %10s %10s  %s\n", text->seed, "rule", "passes",
	       "firings", "failures", "");
	for (int i = 0; i < text->count; i++)
		printf("%4d %10" PRIu64 " %10" PRIu64 " %10" PRIu64 "  %s\n", i + 1,
		       counts[i].passes, counts[i].firings, counts[i].failures, text->rules[i]);
}

static void list_json(const struct fault_text *text, const struct fault_count *counts)
{
	json_object *report = json_object_new_object(), *rules = json_object_new_array();

	json_object_object_add(report, "seed", json_object_new_uint64(text->seed));
	for (int i = 0; i < text->count; i++) {
		json_object *rule = json_object_new_object();

		json_object_object_add(rule, "rule", json_object_new_string(text->rules[i]));
		json_object_object_add(rule, "passes", json_object_new_uint64(counts[i].passes));
		json_object_object_add(rule, "firings", json_object_new_uint64(counts[i].firings));
		json_object_object_add(rule, "failures",
				       json_object_new_uint64(counts[i].failures));
		if (counts[i].failures)
			json_object_object_add(rule, "error",
					       json_object_new_string(strerror(counts[i].error)));
		json_object_array_add(rules, rule);
	}
	json_object_object_add(report, "rules", rules);
	puts(json_object_to_json_string_ext(report, JSON_C_TO_STRING_PRETTY));
	json_object_put(report);
}

/* Reads the rules in force. */
static bool fetch(struct ipc_client *client, struct fault_text *text, struct fault_count *counts)
{
	char why[FAULT_WHY_BYTES];
	char *current = fault_daemon_rules(client, counts);
	bool is_read = current && fault_text_add(text, current, "", why, sizeof(why));

	if (current && !is_read)
		fprintf(stderr, "usrdma: the rules in force cannot be read: %s\n", why);
	free(current);
	return is_read;
}

/* Names the rules whose action could not be executed. Returns whether there are any. */
static bool warn_failures(const struct fault_text *text, const struct fault_count *counts)
{
	bool has_failed = false;

	for (int i = 0; i < text->count; i++) {
		if (!counts[i].failures)
			continue;
		has_failed = true;
		fprintf(stderr, "usrdma: rule %d: %" PRIu64 " times nothing was injected: %s\n",
			i + 1, counts[i].failures, strerror(counts[i].error));
	}
	return has_failed;
}

static bool list(struct ipc_client *client, const struct fault_options *options)
{
	struct fault_count counts[FAULT_RULES_MAX];
	struct fault_text text = {.seed = 1};
	bool is_read = fetch(client, &text, counts), has_failed = false;

	if (is_read && options->wants_json)
		list_json(&text, counts);
	else if (is_read)
		list_text(&text, counts);
	if (is_read)
		has_failed = warn_failures(&text, counts);
	fault_text_free(&text);
	return is_read && !has_failed;
}

/* A rule that stops or kills processes must name them. */
static bool is_of_all_processes(const char *rule)
{
	return strncmp(rule, "process:", 8) == 0 && !strstr(rule, ":prog=") &&
	       !strstr(rule, ":pid=");
}

static void confirm(const struct fault_text *text, const struct fault_options *options)
{
	json_object *report = report_ask();

	if (report)
		fault_print_concerned(text, report, options->uid);
	json_object_put(report);
}

/* Sets the rules, whose times begin now. */
static bool put(struct ipc_client *client, struct fault_text *text,
		const struct fault_options *options)
{
	char *joined;
	bool is_set;

	for (int i = 0; i < text->count; i++) {
		if (!is_of_all_processes(text->rules[i]))
			continue;
		fprintf(stderr,
			"usrdma: '%s' would apply to every process: add prog=NAME or pid=PID\n",
			text->rules[i]);
		return false;
	}
	if (options->has_seed)
		text->seed = options->seed;
	joined = fault_text_join(text, clock_now_ns());
	is_set = joined && fault_daemon_set(client, joined, options->uid);
	free(joined);
	if (is_set)
		confirm(text, options);
	return is_set;
}

static bool set_file(struct ipc_client *client, const struct fault_options *options)
{
	const char *path = options->arguments[1];
	struct fault_text text = {.seed = 1};
	char why[FAULT_WHY_BYTES];
	char *rules = scenario_read_file(path);
	bool is_set = false;

	if (!rules) {
		fprintf(stderr, "usrdma: cannot read the rules '%s': %s\n", path, strerror(errno));
		return false;
	}
	if (fault_text_add(&text, rules, "", why, sizeof(why)))
		is_set = put(client, &text, options);
	else
		fprintf(stderr, "usrdma: invalid rules '%s': %s\n", path, why);
	fault_text_free(&text);
	free(rules);
	return is_set;
}

static bool add_rules(struct ipc_client *client, const struct fault_options *options)
{
	struct fault_text text = {.seed = 1};
	char why[FAULT_WHY_BYTES];
	bool is_valid = fetch(client, &text, NULL);

	for (int i = 1; is_valid && i < options->count; i++) {
		is_valid = fault_text_add(&text, options->arguments[i], "", why, sizeof(why));
		if (!is_valid)
			fprintf(stderr, "usrdma: invalid rule: %s\n", why);
	}
	if (is_valid)
		is_valid = put(client, &text, options);
	fault_text_free(&text);
	return is_valid;
}

/* Joins the conditions behind the scenario's name, each after a colon. */
static char *conditions_of(const struct fault_options *options)
{
	char *text = NULL;
	size_t bytes;
	FILE *out = open_memstream(&text, &bytes);

	if (!out)
		return NULL;
	for (int i = 2; i < options->count; i++)
		fprintf(out, ":%s", options->arguments[i]);
	return fclose(out) ? NULL : text;
}

static bool set_scenario(struct ipc_client *client, const struct fault_options *options)
{
	const char *name = options->arguments[1];
	struct fault_text text = {.seed = 1};
	char why[FAULT_WHY_BYTES];
	char *rules = scenario_read(name);
	char *conditions = conditions_of(options);
	bool is_set = false;

	if (!rules)
		fprintf(stderr,
			"usrdma: unknown scenario '%s'; 'usrdma fault scenario' lists them\n",
			name);
	else if (!conditions || !fault_text_add(&text, rules, conditions, why, sizeof(why)))
		fprintf(stderr, "usrdma: scenario '%s': %s\n", name,
			conditions ? why : "out of memory");
	else
		is_set = put(client, &text, options);
	fault_text_free(&text);
	free(conditions);
	free(rules);
	return is_set;
}

static bool clear(struct ipc_client *client, const struct fault_options *options)
{
	return fault_daemon_set(client, "", options->uid);
}

static const struct fault_action_command {
	const char *name;
	int least; /* number of arguments with the name */
	int most;
	bool (*run)(struct ipc_client *client, const struct fault_options *options);
} actions[] = {
	{"list", 1, 1, list},
	{"set", 2, 2, set_file},
	{"add", 2, INT_MAX, add_rules},
	{"clear", 1, 1, clear},
	{"scenario", 2, INT_MAX, set_scenario},
};

static const struct fault_action_command *find_action(const struct fault_options *options)
{
	if (!options->count)
		return &actions[0];
	for (size_t i = 0; i < sizeof(actions) / sizeof(actions[0]); i++) {
		if (strcmp(options->arguments[0], actions[i].name) == 0 &&
		    options->count >= actions[i].least && options->count <= actions[i].most)
			return &actions[i];
	}
	return NULL;
}

int command_fault(int argc, char **argv)
{
	const struct fault_action_command *action;
	struct fault_options options;
	struct ipc_client client;
	bool is_done;

	if (!parse_options(argc, argv, &options)) {
		fputs(usage, stderr);
		return EXIT_USAGE;
	}
	if (options.count == 1 && strcmp(options.arguments[0], "scenario") == 0)
		return scenario_list() ? EXIT_SUCCESS : EXIT_FAILURE;
	action = find_action(&options);
	if (!action) {
		fputs(usage, stderr);
		return EXIT_USAGE;
	}
	if (!fault_daemon_open(&client))
		return EXIT_FAILURE;
	is_done = action->run(&client, &options);
	ipc_client_close(&client);
	return is_done ? EXIT_SUCCESS : EXIT_FAILURE;
}
