/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_TESTS_PROGRAMS_SOCKETS_H
#define USRDMA_TESTS_PROGRAMS_SOCKETS_H

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

/* The program `sockets`: helpers that its cases share, and the cases in other files. */

#define PATIENCE_MS 10000

#define MUST(truth)                                                                 \
	do {                                                                        \
		if (!(truth)) {                                                     \
			printf("%s: line %d: %s (%s)\n", running, __LINE__, #truth, \
			       strerror(errno));                                    \
			exit(1);                                                    \
		}                                                                   \
	} while (0)

/* The name of the running case, and its pair of connected sockets. */
extern const char *running;
extern int listener, client, server;

/* Connects new sockets. A child does so, because it cannot use the rsockets of its parent. */
void open_pair(void);
/* Sends from the client to the server. */
void put(const char *text);
void get(const char *text);
/* Whether a thread is blocked in the kernel. */
bool is_asleep(pid_t thread);

void sets_and_times_of_programs(void);
void interfaces_are_asked_for(void);
void what_programs_say_for_nothing(void);
void system_call_close_ends_the_connection(void);
void number_closed_unseen_belongs_to_its_next_descriptor(void);
void waiting_by_epoll(void);
void edges_and_single_shots(void);
void two_numbers_in_one_set(void);
void a_member_that_is_added_wakes_a_waiting_thread(void);
void a_child_uses_its_copy_of_a_set(void);
void threads_are_cancelled(void);
void epoll_adds_second_number_after_close_of_first(void);
void duplicates_of_an_epoll_descriptor_are_one_set(void);
void two_threads_add_the_first_sockets_of_a_set(void);
void epoll_wait_refuses_invalid_arguments(void);
void epoll_reports_a_hang_up_that_was_not_requested(void);
void epoll_set_is_a_member_of_a_set(void);
void epoll_set_gets_its_first_socket_in_a_set(void);
void first_socket_wakes_a_thread_that_waits(void);
void first_socket_wakes_all_threads_that_wait(void);
void first_socket_and_a_pipe_are_reported(void);
void first_socket_after_a_cancelled_wait(void);
void first_socket_of_a_set_that_a_child_has(void);
void first_socket_of_an_inner_set_wakes_a_thread_that_waits(void);
void inner_set_was_added_before_its_first_socket(void);
void inner_sets_are_nested_before_the_first_socket(void);
void inner_one_shot_set_stays_disabled(void);
void inner_edge_triggered_set_reports_each_arrival(void);
void inner_set_was_passed_before_its_first_socket(void);
void inner_set_has_the_number_of_a_closed_one(void);
void child_uses_its_copies_of_nested_sets(void);
void inner_set_leaves_before_its_first_socket(void);
void epoll_exclusive_has_the_conditions_of_the_kernel(void);
void poll_reports_an_epoll_descriptor_with_sockets(void);
void fallback_to_tcp_adds_no_reused_number(void);
void one_shot_member_stays_disabled_when_its_socket_changes(void);
void child_gets_events_of_a_socket_that_it_changes(void);
void fflush_keeps_unread_input_of_a_socket(void);
void exit_writes_streams_while_a_thread_reads(void);
/* The child of that case: connects to the port, and exits with data in a stream's buffer. */
void exit_with_buffered_data(const char *port);

#endif
