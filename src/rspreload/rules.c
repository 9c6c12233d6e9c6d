/* SPDX-License-Identifier: BSD-2-Clause */
#include "rspreload/rules.h"

#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define WORD_BYTES 16

/* A keyword of a line, with or without the prefix of the C name. */
struct word {
	const char *name;
	int value;
};

static const struct word domains[] = {
	{"*", 0},
	{"INET", AF_INET},
	{"AF_INET", AF_INET},
	{"PF_INET", AF_INET},
	{"INET6", AF_INET6},
	{"AF_INET6", AF_INET6},
	{"PF_INET6", AF_INET6},
	{NULL, 0},
};

static const struct word types[] = {
	{"*", 0},
	{"STREAM", SOCK_STREAM},
	{"SOCK_STREAM", SOCK_STREAM},
	{"DGRAM", SOCK_DGRAM},
	{"SOCK_DGRAM", SOCK_DGRAM},
	{NULL, 0},
};

static const struct word protocols[] = {
	{"*", 0},
	{"TCP", IPPROTO_TCP},
	{"IPPROTO_TCP", IPPROTO_TCP},
	{"UDP", IPPROTO_UDP},
	{"IPPROTO_UDP", IPPROTO_UDP},
	{NULL, 0},
};

static bool rules_find_word(const struct word *words, const char *name, int *value)
{
	for (; words->name; words++) {
		if (strcasecmp(words->name, name))
			continue;
		*value = words->value;
		return true;
	}
	return false;
}

bool rule_parse(const char *line, struct rule *rule)
{
	char domain[WORD_BYTES], type[WORD_BYTES], protocol[WORD_BYTES];

	if (line[0] == '#' ||
	    sscanf(line, "%63s %15s %15s %15s", rule->program, domain, type, protocol) != 4)
		return false;
	if (!strcmp(rule->program, "*"))
		rule->program[0] = '\0';
	return rules_find_word(domains, domain, &rule->domain) &&
	       rules_find_word(types, type, &rule->type) &&
	       rules_find_word(protocols, protocol, &rule->protocol);
}

static void rules_add(struct rules *rules, const struct rule *rule)
{
	struct rule *list = realloc(rules->list, (rules->count + 1) * sizeof(*list));

	if (!list)
		return;
	list[rules->count++] = *rule;
	rules->list = list;
}

void rules_read(const char *path, struct rules *rules)
{
	FILE *file = fopen(path, "re");
	struct rule rule;
	char *line = NULL;
	size_t room = 0;

	memset(rules, 0, sizeof(*rules));
	if (!file)
		return;
	while (getline(&line, &room, file) >= 0)
		if (rule_parse(line, &rule))
			rules_add(rules, &rule);
	free(line);
	fclose(file);
}

void rules_free(struct rules *rules)
{
	free(rules->list);
	memset(rules, 0, sizeof(*rules));
}

static bool applies(const struct rule *rule, const char *program, int domain, int type,
		    int protocol)
{
	return !strncasecmp(rule->program, program, strlen(rule->program)) &&
	       (!rule->domain || rule->domain == domain) && (!rule->type || rule->type == type) &&
	       (!rule->protocol || rule->protocol == protocol);
}

bool rules_match(const struct rules *rules, const char *program, int domain, int type, int protocol)
{
	if (!protocol)
		protocol = type == SOCK_STREAM ? IPPROTO_TCP : IPPROTO_UDP;
	for (size_t i = 0; i < rules->count; i++)
		if (applies(&rules->list[i], program, domain, type, protocol))
			return true;
	return !rules->count;
}
