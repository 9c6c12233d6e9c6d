/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/object/access_result.h"

/* Names and vendor errors of the results of a responder's checks. */

#include <assert.h>

#include "base/util.h"

static const char *const result_names[] = {
	[ACCESS_OK] = "ok",
	[ACCESS_RNR] = "receiver not ready",
	[ACCESS_LENGTH] = "message longer than the receive",
	[ACCESS_LOCAL] = "bad receive work request",
	[ACCESS_RKEY] = "unknown rkey",
	[ACCESS_PD] = "memory region of another protection domain",
	[ACCESS_BOUNDS] = "outside the memory region",
	[ACCESS_RIGHTS] = "memory region does not permit it",
	[ACCESS_QP_RIGHTS] = "queue pair does not permit it",
	[ACCESS_INVALIDATE] = "key cannot be invalidated",
	[ACCESS_ALIGN] = "atomic not aligned or not of 8 bytes",
	[ACCESS_GONE] = "registered memory cannot be accessed",
	[ACCESS_DEPTH] = "too many reads at once",
	[ACCESS_MTU] = "another path mtu",
};
static_assert(COUNT(result_names) == ACCESS_RESULT_COUNT, "every result has a name");

static const enum vendor_err result_vendor_errs[] = {
	[ACCESS_OK] = VENDOR_ERR_NONE,
	[ACCESS_RNR] = VENDOR_ERR_RNR,
	[ACCESS_LENGTH] = VENDOR_ERR_RECV_TOO_SHORT,
	[ACCESS_LOCAL] = VENDOR_ERR_REMOTE_RECV,
	[ACCESS_RKEY] = VENDOR_ERR_RKEY,
	[ACCESS_PD] = VENDOR_ERR_RKEY_PD,
	[ACCESS_BOUNDS] = VENDOR_ERR_RKEY_BOUNDS,
	[ACCESS_RIGHTS] = VENDOR_ERR_RKEY_ACCESS,
	[ACCESS_QP_RIGHTS] = VENDOR_ERR_QP_ACCESS,
	[ACCESS_INVALIDATE] = VENDOR_ERR_NOT_INVALIDATABLE,
	[ACCESS_ALIGN] = VENDOR_ERR_ATOMIC_ALIGN,
	[ACCESS_GONE] = VENDOR_ERR_MEMORY_GONE,
	[ACCESS_DEPTH] = VENDOR_ERR_READ_DEPTH,
	[ACCESS_MTU] = VENDOR_ERR_PATH_MTU,
};
static_assert(COUNT(result_vendor_errs) == ACCESS_RESULT_COUNT, "every result has a reason");

const char *access_result_name(enum access_result result)
{
	return (unsigned int)result < ACCESS_RESULT_COUNT ? result_names[result] : "unknown";
}

enum vendor_err access_vendor_err(enum access_result result)
{
	return (unsigned int)result < ACCESS_RESULT_COUNT ? result_vendor_errs[result] :
							    VENDOR_ERR_NO_RESPONSE;
}
