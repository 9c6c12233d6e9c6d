/* SPDX-License-Identifier: BSD-2-Clause */
#include "active.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "../report.h"
#include "base/printable.h"

/* A daemon with little memory passes an empty file. */
static bool has_page(const struct ipc_client *client)
{
	struct stat stat;

	return fstat(client->page_fd, &stat) == 0 &&
	       stat.st_size >= (off_t)sizeof(struct probe_page);
}

void fault_active_read(struct fault_active *active)
{
	char why[FAULT_WHY_BYTES];
	struct ipc_client client;
	char *rules = NULL;

	active->text = (struct fault_text){.seed = 1};
	if (!fault_daemon_open(&client))
		return;
	if (has_page(&client))
		rules = fault_daemon_rules(&client, active->counts);
	if (rules)
		(void)fault_text_add(&active->text, rules, "", why, sizeof(why));
	free(rules);
	ipc_client_close(&client);
}

void fault_active_free(struct fault_active *active)
{
	fault_text_free(&active->text);
}

/* Whether one of the rules applies to the processes of this program, or to this process. */
static bool is_concerned(const struct fault_text *text, uint64_t pid, const char *program,
			 struct fault_rules *parsed)
{
	char why[FAULT_WHY_BYTES];

	for (int i = 0; i < text->count; i++) {
		const struct fault_rule *rule = &parsed->rules[0];

		if (fault_parse(text->rules[i], parsed, why, sizeof(why)))
			continue;
		if ((!rule->pid || rule->pid == pid) &&
		    (!rule->program[0] ||
		     strncmp(rule->program, program, REPORT_PROGRAM_BYTES - 1) == 0))
			return true;
	}
	return false;
}

/* Whether one of the first `count` elements of the list is about this process. */
static bool is_listed(json_object *list, size_t count, uint64_t pid)
{
	for (size_t i = 0; i < count; i++) {
		if (number_of(json_object_array_get_idx(list, i), "pid") == pid)
			return true;
	}
	return false;
}

struct concerned {
	const struct fault_text *text;
	struct fault_rules *parsed;
	uid_t uid;
	const char *separator;
};

static void print_if_concerned(struct concerned *to, json_object *process)
{
	uint64_t pid = number_of(process, "pid");
	char program[REPORT_PROGRAM_BYTES];

	if (number_of(process, "uid") != to->uid || !report_program(pid, program) ||
	    !is_concerned(to->text, pid, program, to->parsed))
		return;
	printable_string(program);
	printf("%s%s (pid %" PRIu64 ")", to->separator, program, pid);
	to->separator = ", ";
}

void fault_print_concerned(const struct fault_text *text, json_object *report, uid_t uid)
{
	json_object *processes = json_object_object_get(report, "processes");
	json_object *listeners = json_object_object_get(report, "listeners");
	struct concerned to = {text, malloc(sizeof(*to.parsed)), uid, "; running programs: "};
	size_t count = report_length(processes);

	if (!to.parsed)
		return;
	printf("%d rule%s in force until 'usrdma fault clear'", text->count,
	       text->count == 1 ? "" : "s");
	for (size_t i = 0; i < count; i++)
		print_if_concerned(&to, json_object_array_get_idx(processes, i));
	/* A program that only listens has no queue pair yet. */
	for (size_t i = 0; i < report_length(listeners); i++) {
		json_object *listener = json_object_array_get_idx(listeners, i);
		uint64_t pid = number_of(listener, "pid");

		if (!is_listed(processes, count, pid) && !is_listed(listeners, i, pid))
			print_if_concerned(&to, listener);
	}
	puts(*to.separator == ';' ? "; no running program is concerned" : "");
	free(to.parsed);
}
