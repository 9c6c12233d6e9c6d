/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TOOLS_USRDMA_REPORT_H
#define TOOLS_USRDMA_REPORT_H

#include <json-c/json.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* The daemon of this network namespace as the kernel reports it, also if it refused this user. */
struct report_daemon {
	int error; /* 0, or -errno: no report */
	pid_t pid; /* 0: no daemon accepted the connection */
	uid_t uid;
};

/*
 * Requests the daemon's report; starts a daemon if necessary. NULL: failure, the cause was printed.
 */
json_object *report_ask(void);
json_object *report_ask_daemon(struct report_daemon *daemon);

/* A member of an object as text, or "?" if the object lacks it. The text belongs to the object. */
const char *text_of(json_object *object, const char *key);

/* A member of an object as a number, or 0 if the object lacks it. */
uint64_t number_of(json_object *object, const char *key);

/* A QPN, which the report has as hexadecimal text without leading zeros. */
uint64_t report_qpn(json_object *qp, const char *key);

/*
 * The name of a counter for users. The keys of the report are stable (docs/compatibility.md), also
 * unclear ones.
 */
const char *report_counter_title(const char *key);

/*
 * The number of elements of a list; 0 if the value is of another type or absent. json-c ends the
 * process if another value is asked for its length, and the daemon of another user may send any.
 */
size_t report_length(json_object *list);

/* The object itself, or an empty one if the value is of another type or absent. */
json_object *report_object(json_object *object);

/* Of /proc/PID/comm, with the NUL byte. */
#define REPORT_PROGRAM_BYTES 16

/* The ending of a noun after this number: "s", or "" after 1. */
const char *report_plural(size_t count);

/*
 * Reads the name of a running program, which can contain any bytes. false: no such process in this
 * PID namespace.
 */
bool report_program(uint64_t pid, char program[REPORT_PROGRAM_BYTES]);

/* Prints the report in the text format of Prometheus (exposition format 0.0.4). */
void report_print_prometheus(json_object *report);

/*
 * Reads the first line of a file, without its end. Returns text, or NULL if the file cannot be
 * read.
 */
char *file_first_line(const char *path, char *text, int size);

#endif /* TOOLS_USRDMA_REPORT_H */
