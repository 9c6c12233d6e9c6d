/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_CM_SIDR_H
#define USRDMA_CM_SIDR_H

#include "cm/cm.h"
#include "cm/sidr_state.h"

/*
 * Service ID resolution (IBA 1.x §12.11): which datagram QP stands behind a service, and under which Q_Key. One question,
 * one answer, no connection.
 *
 * A resolution belongs to its owner until it is over: the active side's until cm_ops.sidr_event, the passive side's until
 * cm_sidr_answer(); after that the pointer is nobody's.
 */
struct cm_sidr;

/* For the active side; NULL: out of memory. */
struct cm_sidr *cm_sidr_new(struct cm *cm, void *owner) __attribute__((warn_unused_result));

/* Asks, for as long as patience lasts. The request ID is filled in here. -EINVAL: it was asked already. */
int cm_sidr_resolve(struct cm_sidr *sidr, const struct cm_path *path, const struct cm_sidr_req *req,
		    uint64_t patience_ns, uint64_t now_ns) __attribute__((warn_unused_result));

/* Accepts or refuses, as rep->status says; request and service ID are filled in here. Repetitions of the request are
 * answered from here on without asking. -EINVAL: not a request, and still the owner's. */
int cm_sidr_answer(struct cm_sidr *sidr, const struct cm_sidr_rep *rep, uint64_t now_ns)
	__attribute__((warn_unused_result));

/* The owner lets go: a request that it did not answer is refused. */
void cm_sidr_destroy(struct cm_sidr *sidr, uint64_t now_ns);

/* Questions. */
enum cm_sidr_state cm_sidr_state_of(const struct cm_sidr *sidr);
int cm_sidr_error(const struct cm_sidr *sidr); /* why nobody answered */
size_t cm_sidr_count(const struct cm *cm);

#endif
