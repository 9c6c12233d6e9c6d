/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_RSPRELOAD_RULES_H
#define USRDMA_RSPRELOAD_RULES_H

#include <stdbool.h>
#include <stddef.h>

/*
 * Selection of the sockets that become rsockets. Each line of /etc/rdma/rsocket/preload_config is
 * "program domain type protocol"; * matches any value. A socket becomes an rsocket if a line
 * matches it. Without a file or without a valid line, all sockets that rsockets support become
 * rsockets.
 */
#define RULES_FILE "/etc/rdma/rsocket/preload_config"

struct rule {
	char program[64]; /* prefix of the program's name, case-insensitive; empty: any */
	int domain;	  /* 0: any; also for type and protocol */
	int type;
	int protocol;
};

struct rules {
	struct rule *list;
	size_t count;
};

/* Parses one line. False: a comment or an invalid line. */
bool rule_parse(const char *line, struct rule *rule);

/*
 * Reads the valid lines of the file; invalid lines are ignored. Without a file the list is empty.
 */
void rules_read(const char *path, struct rules *rules);
void rules_free(struct rules *rules);

/* `type` is passed without SOCK_NONBLOCK and SOCK_CLOEXEC. */
bool rules_match(const struct rules *rules, const char *program, int domain, int type,
		 int protocol);

#endif
