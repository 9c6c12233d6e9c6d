/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/librdmacm_calls.h"
#include "base/user_copy.h"

bool usrdma_copy_from_user(void *to, const void *user, size_t bytes)
{
	return user_copy_from(to, user, bytes);
}

bool usrdma_copy_to_user(void *user, const void *from, size_t bytes)
{
	return user_copy_to(user, from, bytes);
}
