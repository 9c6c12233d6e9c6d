/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_TESTS_CAUGHT_H
#define USRDMA_TESTS_CAUGHT_H

#include "base/user_fault.h"

/*
 * cmocka replaces the handlers of faults before each test, so that the accesses of the calling
 * thread to application memory would be system calls. Makes them instructions. For tests without
 * faults.
 */
static inline void caught_assume(void)
{
	(void)user_fault_examine();
	user_fault_thread.is_caught = true;
	user_fault_thread.accesses_left = UINT32_MAX;
}

#endif
