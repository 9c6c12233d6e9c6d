/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TOOLS_USRDMA_WHY_H
#define TOOLS_USRDMA_WHY_H

#include <json-c/json.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <time.h>

#include "ipc/msg_failure.h"

/* usrdma why: the failures that the daemon has stored, joined to incidents and explained. */

/* A stored failure. Bytes of strings that a terminal could interpret were replaced. */
struct why_failure {
	uint64_t number;
	struct ipc_failure is;
	/* index of the failure that caused this one; the own index: no stored failure did */
	size_t cause;
	/*
	 * index of the report of the peer's QP about the same operation; the own index: no report
	 */
	size_t opposite;
	bool is_repeated;  /* shown as a repetition of a later failure */
	size_t repeats;	   /* number of earlier failures that are shown as this one */
	uint64_t since_ns; /* CLOCK_REALTIME of the earliest of these failures */
};

struct why_list {
	struct why_failure *failures; /* in order of arrival */
	size_t count;
};

/*
 * why_read.c: reads all failures that the caller may see. false: the cause was printed. The caller
 * frees list->failures also then.
 */
bool why_fetch(struct why_list *list);

/*
 * why_since.c: reads a time before `now`, "90s", "10m", "2h" or "1d", or a local time,
 * "2026-11-23 13:36:41", "2026-11-23" or "13:36", as CLOCK_REALTIME. false: not a time.
 */
bool why_parse_since(const char *text, time_t now, uint64_t *since_ns);

/* why_join.c: sets cause and opposite of every failure. */
void why_join(struct why_list *list);

/*
 * why_join.c: of the failures of one call of a process or queue pair for one reason, makes the last
 * stand for the others, except for those that another failure follows from. Programs that look for
 * the largest value of an attribute cause many of them. After why_join().
 */
void why_fold(struct why_list *list);

/* The index of the first cause of a failure. */
size_t why_root(const struct why_list *list, size_t index);

/*
 * why_text.c: writes, without a line end: the first cause in one sentence; what the process
 * observed; what to do.
 */
void why_write_cause(FILE *out, const struct why_list *list, size_t root);
void why_write_seen(FILE *out, const struct why_failure *failure);
void why_write_process(FILE *out, const struct why_list *list, const struct why_failure *failure);
const char *why_advice(const struct why_list *list, size_t root);

/*
 * why_rows.c: calls `row` for each line below the cause: "fault", "when", "where", "seen", "then",
 * "note" and "do".
 */
typedef void why_row_fn(void *ctx, const char *name, const char *text);
void why_each_row(const struct why_list *list, size_t root, why_row_fn *row, void *ctx);

/* Whether two reports are so close that they can be about one failure. */
bool why_is_near(const struct ipc_failure *a, const struct ipc_failure *b);

/* why_join.c: whether both are the two ends of one connection, by their addresses. */
bool why_is_same_connection(const struct ipc_failure *a, const struct ipc_failure *b);

/*
 * why_fault.c: the report of the incident, of either end, that names a fault rule; NULL: none. The
 * sentence about the rule.
 */
const struct ipc_failure *why_fault(const struct why_list *list, size_t root);
void why_write_fault(FILE *out, const struct ipc_failure *failure);

/* why_wr.c: for work requests and queue pairs. */
void why_write_wr(FILE *out, const struct why_list *list, size_t index);
void why_write_qp(FILE *out, const struct ipc_failure *failure);
/* "RDMA WRITE of 65,536 bytes at 0x7f… with rkey 0x100" */
void why_write_operation(FILE *out, const struct ipc_failure *failure);
/* The reason of a refused access, of the WR or of the peer's request. */
void why_write_refusal(FILE *out, const struct ipc_failure *failure);
/* The failure with what the peer has reported about it. */
struct ipc_failure why_with_peers_view(const struct why_list *list, size_t index);
/* Whether only the NAK of another host is known. */
bool why_is_known_by_nak(const struct why_list *list, size_t index);
const char *why_wr_advice(const struct ipc_failure *failure);

/* why_cm.c: the parts of the above for connections and for calls of librdmacm. */
void why_write_connection(FILE *out, const struct why_list *list, size_t root);
void why_write_cm_reason(FILE *out, const struct ipc_failure *failure);
void why_write_call_address(FILE *out, const struct ipc_failure *failure);
/*
 * Writes advice with the address of the peer, if it is known, in the place of the words HOST and
 * ADDRESS.
 */
void why_write_advice(FILE *out, const struct ipc_failure *failure, const char *advice);
const char *why_connection_advice(const struct ipc_failure *failure);
const char *why_cm_call_advice(const struct ipc_failure *failure);

/* why_warn.c: for warnings, dropped packets and asynchronous events. */
void why_write_warning(FILE *out, const struct why_list *list, size_t root);
void why_write_drop(FILE *out, const struct ipc_failure *failure);
void why_write_event(FILE *out, const struct ipc_failure *failure);
const char *why_warning_advice(const struct ipc_failure *failure);
const char *why_event_advice(const struct ipc_failure *failure);

/* why_call.c: for calls of libibverbs. */
void why_write_verbs_reason(FILE *out, const struct ipc_failure *failure);
const char *why_state_name(uint64_t state);
const char *why_verbs_call_advice(const struct ipc_failure *failure);

/* why_names.c: names of values; never NULL. */
const char *why_operation(const struct ipc_failure *failure);
const char *why_status_name(uint32_t status);
const char *why_event_name(uint32_t event);
const char *why_cm_event_name(uint32_t event);
const char *why_errno_name(int error);
void why_write_number(FILE *out, uint64_t number); /* with thousands separators */
void why_write_duration(FILE *out, uint64_t ns);
void why_write_access(FILE *out, uint32_t access);

#endif /* TOOLS_USRDMA_WHY_H */
