/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_CORE_OBJECT_ACCESS_RESULT_H
#define USRDMA_CORE_OBJECT_ACCESS_RESULT_H

#include "core/object/vendor_err.h"

/*
 * The result of a check that a responder makes before it executes a request (core/queue/execute.h).
 */
enum access_result {
	ACCESS_OK,
	ACCESS_RNR,    /* no receive WQE */
	ACCESS_LENGTH, /* longer than the receive buffers, or not the announced length */
	ACCESS_LOCAL,  /* the local receive WQE is invalid; not an error of the requester */
	ACCESS_RKEY,   /* unknown rkey */
	ACCESS_PD,     /* the MR belongs to another PD than the QP */
	ACCESS_BOUNDS, /* outside the MR */
	ACCESS_RIGHTS, /* the MR does not permit it */
	/* the QP does not permit it (qp_access_flags): an invalid request, IBA 1.x §9.7.4.1.2 */
	ACCESS_QP_RIGHTS,
	ACCESS_INVALIDATE, /* the key to invalidate is not a type 2 memory window of this QP */
	ACCESS_ALIGN,	   /* an unaligned atomic */
	/*
	 * the MR's pages cannot be accessed: unmapped, protected, or behind the end of their file
	 */
	ACCESS_GONE,
	/* more outstanding READs and atomics than max_dest_rd_atomic: IBA 1.x §9.7.4.1.4 */
	ACCESS_DEPTH,
	/* the packets of the message do not have the path MTU of the QP: IBA 1.x §9.7.4.1 */
	ACCESS_MTU,
	ACCESS_RESULT_COUNT
};

const char *access_result_name(enum access_result result);

/* The vendor error of the requester's completion for a result that the responder returned. */
enum vendor_err access_vendor_err(enum access_result result);

#endif
