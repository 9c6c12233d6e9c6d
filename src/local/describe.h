/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_LOCAL_DESCRIBE_H
#define USRDMA_LOCAL_DESCRIBE_H

struct ipc_failure;
struct qp;
struct send_wqe;

/* What the report of a failed WR contains about the peer (core/report/failure.h). */
void local_describe(const struct qp *qp, const struct send_wqe *wqe, struct ipc_failure *failure);

#endif
