/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_LOCAL_REVOKE_H
#define USRDMA_LOCAL_REVOKE_H

#include <stdbool.h>

struct engine;
struct mr;
struct peer;
struct qp;

/* The owner's half of one-sided access (docs/memory-safety.md): admission of peers, revocation. */

/*
 * revoke_mr() and revoke_qp() withdraw
 * the entry and wait until no peer accesses memory through it. They return 0, or -EBUSY if a peer
 * may still access it after 10 s; the entry is then published again. All locks held, once: both
 * release them while they wait.
 */
int revoke_mr(struct engine *engine, const struct mr *mr) __attribute__((warn_unused_result));
int revoke_qp(struct qp *qp) __attribute__((warn_unused_result));

/* Admits the peer to our memory if the state of its threads can be read. */
void revoke_admit(struct peer *peer);
/* As `main`, a peer of the same process. */
void revoke_admit_as(struct peer *peer, const struct peer *main);
/* Ends the admission: the peer begins no further access. */
void revoke_admission(struct peer *peer);
/* Whether no access of the peer is in progress. */
bool revoke_is_over(const struct peer *peer);

#endif
