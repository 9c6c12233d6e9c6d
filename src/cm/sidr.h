/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_CM_SIDR_H
#define USRDMA_CM_SIDR_H

#include "cm/cm.h"
#include "cm/sidr_state.h"

/*
 * Service ID resolution (IBA 1.x §12.11): asks a peer for the QPN and the Q_Key of a datagram
 * service. One SIDR_REQ, one SIDR_REP, no connection.
 *
 * A resolution is valid until it ends: on the active side with cm_callbacks.sidr_event, on the
 * passive side with cm_sidr_reply().
 */
struct cm_sidr;

/* Allocates a resolution for the active side. NULL: out of memory. */
struct cm_sidr *cm_sidr_new(struct cm *cm, void *owner) __attribute__((warn_unused_result));

/*
 * Sends the SIDR_REQ, and repeats it until timeout_ns is over. Sets the request ID. -EINVAL: was
 * called before.
 */
int cm_sidr_resolve(struct cm_sidr *sidr, const struct cm_path *path, const struct cm_sidr_req *req,
		    uint64_t timeout_ns, uint64_t now_ns) __attribute__((warn_unused_result));

/*
 * Accepts or rejects, by rep->status; sets the request and service ID. Repetitions of the request
 * then get the same response. -EINVAL: not an incoming request; the caller still owns it.
 */
int cm_sidr_reply(struct cm_sidr *sidr, const struct cm_sidr_rep *rep, uint64_t now_ns)
	__attribute__((warn_unused_result));

/* Ends the ownership. Rejects an incoming request that had no response. */
void cm_sidr_destroy(struct cm_sidr *sidr, uint64_t now_ns);

/* Getters. */
enum cm_sidr_state cm_sidr_state_of(const struct cm_sidr *sidr);
int cm_sidr_error(const struct cm_sidr *sidr); /* why no response came */
size_t cm_sidr_count(const struct cm *cm);

#endif
