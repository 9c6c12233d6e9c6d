/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_RSPRELOAD_RULES_H
#define USRDMA_RSPRELOAD_RULES_H

#include <stdbool.h>
#include <stddef.h>

/*
 * Which sockets become rsockets: the lines of /etc/rdma/rsocket/preload_config, each "program domain
 * type protocol" with * for any. Without a file, or with none that makes sense, all sockets do that
 * can; else those that some line names.
 */
#define RULES_FILE "/etc/rdma/rsocket/preload_config"

struct rule {
	char program[64]; /* how the program's name begins, in either case; empty: any */
	int domain;	  /* 0: any, as below */
	int type;
	int protocol;
};

struct rules {
	struct rule *list;
	size_t count;
};

/* One line. False: a comment, or nothing that could be one. */
bool rule_parse(const char *line, struct rule *rule);

/* Whatever of the file can be read; the rest is as if it were not there. */
void rules_read(const char *path, struct rules *rules);
void rules_free(struct rules *rules);

/* type without SOCK_NONBLOCK and SOCK_CLOEXEC. */
bool rules_match(const struct rules *rules, const char *program, int domain, int type,
		 int protocol);

#endif
