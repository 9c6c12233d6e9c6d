/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_TESTS_PROGRAMS_EPOLL_RANDOM_H
#define USRDMA_TESTS_PROGRAMS_EPOLL_RANDOM_H

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

/* The server side of epoll_random: connections and sets, which threads use at the same time. */

#define MUST(truth)                                                                              \
	do {                                                                                     \
		if (!(truth)) {                                                                  \
			printf("%s:%d: %s (%s)\n", __FILE__, __LINE__, #truth, strerror(errno)); \
			fflush(stdout);                                                          \
			exit(1);                                                                 \
		}                                                                                \
	} while (0)

/* Sets for which threads wait. They contain the other sets, up to three levels deep. */
#define ROOTS 2

uint32_t random_dice(uint64_t *dice, uint32_t sides);

void random_open(unsigned connections);
int random_root(int root);
/* Adds an accepted connection to a set. */
void random_add_connection(uint64_t *dice, uint32_t number, int fd);
/* Changes or moves a connection, or replaces a set. */
void random_change(uint64_t *dice);
/* Serves the connections of these events. */
void random_serve(uint64_t *dice, const struct epoll_event *events, int count);
/* Makes all waits return. */
void random_stop(void);
void random_print_sets(void);

/*
 * Ways to wait for events of a set. They return the number of events, which is 0 if another thread
 * has read them.
 */
int random_by_epoll_wait(int root, struct epoll_event *events, int most);
int random_by_epoll_pwait(int root, struct epoll_event *events, int most);
int random_by_epoll_pwait2(int root, struct epoll_event *events, int most);
int random_by_poll(int root, struct epoll_event *events, int most);
int random_by_select(int root, struct epoll_event *events, int most);

#endif
