/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_LOCAL_SEGMENT_H
#define USRDMA_LOCAL_SEGMENT_H

struct engine;
struct local;
struct mr;
struct qp;

/* The segment of this process (ipc/segment.h): what it publishes to its peers. */

int segment_open(struct local *local, int *fd) __attribute__((warn_unused_result));
void segment_close(struct local *local);
void segment_publish_qp(struct qp *qp);
void segment_unpublish_qp(struct qp *qp);
void segment_note_established(struct qp *qp); /* after IBV_EVENT_COMM_EST */
void segment_publish_mr(struct engine *engine, const struct mr *mr);
void segment_unpublish_mr(struct engine *engine, const struct mr *mr);
int segment_thread_begins(struct engine *engine) __attribute__((warn_unused_result));
void segment_thread_ends(struct engine *engine);

#endif
