/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_CM_VALIDATION_H
#define USRDMA_CM_VALIDATION_H

#include <stdbool.h>
#include <stdint.h>

struct cm;
struct cm_path;

/*
 * Address validation (RFC 9000 §8.1, with the factor 1). Any host can send a REQ with the source
 * address of another host, so until the peer of a passive connection has returned a random number
 * that was sent to its address, the connection sends at most as many MADs to this address as
 * arrived from it. All MADs have the same size, so a count of MADs is a count of bytes.
 *
 * Embedded in the connection, which one thread uses.
 */
struct cm_validation {
	/* the peer returned a number, or the consumer of this host chose the address */
	bool is_done;
	uint32_t credit;	/* MADs that arrived less MADs sent, while not done */
	uint64_t tid;		/* transaction ID of the address challenges; 0: not sent */
	uint64_t challenged_ns; /* when the first challenge was sent */
};

/* A MAD arrived whose sender need not have received anything: a REQ. */
void cm_validation_credit(struct cm_validation *validation);

/*
 * Whether the connection, or recently another connection with this address, has validated the
 * address.
 */
bool cm_validation_is_done(const struct cm *cm, const struct cm_validation *validation,
			   const struct cm_path *path, uint64_t now_ns);

/* Takes permission for one MAD. false: it must not be sent, which is counted. */
bool cm_validation_take(struct cm *cm, struct cm_validation *validation, const struct cm_path *path,
			uint64_t now_ns);

/* The peer returned a number that only a host which receives at its address can know. */
void cm_validation_done(struct cm *cm, struct cm_validation *validation, const struct cm_path *path,
			uint64_t now_ns);

/* Frees the list of validated addresses. */
void cm_validation_fini(struct cm *cm);

#endif
