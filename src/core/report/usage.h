/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_CORE_REPORT_USAGE_H
#define USRDMA_CORE_REPORT_USAGE_H

#include <stdint.h>

#include "ipc/segment.h"

/*
 * What each QP transferred and how full each CQ is, for `usrdma top`. The numbers are in the
 * segment, which the daemon reads at any time: the data path stores them, and no request to the
 * process is necessary. A QP or CQ that has no entry in a segment counts in a variable that is not
 * read.
 */
struct engine;
struct qp;
struct cq;

/*
 * What this process shows in its segment besides its QPs and MRs. Part of struct engine; guarded by
 * engine.lock, except new_fd.
 */
struct engine_segment {
	/* during the start, so that the child of a fork() closes its copy; -1: none */
	int new_fd;
	uint32_t unused_cq;		   /* place of an unused entry of `cqs`; 0: none */
	struct segment_counters *counters; /* set by the transport that opens it; NULL: none */
	struct segment_cqs *cqs;	   /* NULL: no segment is open */
};

extern struct segment_qp_usage usage_unread_qp;
extern struct segment_cq usage_unread_cq;

/*
 * Makes the CQs of a new QP visible: they get an entry, if the table has one left. engine.lock
 * held.
 */
void usage_show_cqs(struct engine *engine, struct qp *qp);

/* The place of a CQ's entry; 0: it has none, or cq is NULL. engine.lock held. */
uint32_t usage_place(const struct engine *engine, const struct cq *cq);

/* Before a CQ is freed. engine.lock held. */
void usage_hide_cq(struct engine *engine, struct cq *cq);

/* In the child of a fork(): the segment is the parent's. */
void usage_hide_cqs_in_child(struct engine *engine);

#endif
