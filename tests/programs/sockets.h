/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_TESTS_PROGRAMS_SOCKETS_H
#define USRDMA_TESTS_PROGRAMS_SOCKETS_H

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The program `sockets`: what its cases share, and those that are in sockets_asks.c. */

#define PATIENCE_MS 10000

#define MUST(truth)                                                                 \
	do {                                                                        \
		if (!(truth)) {                                                     \
			printf("%s: line %d: %s (%s)\n", running, __LINE__, #truth, \
			       strerror(errno));                                    \
			exit(1);                                                    \
		}                                                                   \
	} while (0)

/* The case that is under way, and its pair of connected sockets. */
extern const char *running;
extern int listener, client, server;

/* From the client to the server. */
void put(const char *text);
void get(const char *text);

void sets_and_times_of_programs(void);
void interfaces_are_asked_for(void);
void what_programs_say_for_nothing(void);

#endif
