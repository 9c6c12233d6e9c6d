/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef PROVIDERS_PROVIDERS_H
#define PROVIDERS_PROVIDERS_H

/*
 * The provider libraries, for example libmlx5.so.1: programs link with them to call the direct
 * verbs of one vendor's devices. The provider libraries of rdma-core need private symbols of
 * rdma-core's libibverbs, and access the structures of any device as if it were a device of their
 * vendor. The libraries here have no dependencies. Each call fails as rdma-core documents for a
 * device of another vendor (ADR 0028).
 *
 * The calls ignore their arguments, so they are declared with (void): in every calling convention
 * of Linux the caller removes the arguments.
 */

#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <sys/types.h>

#include "base/symver.h"

/* Returns a fixed integer: an errno, a negative errno, 0 for false or for an empty mask. */
#define PROVIDER_INT(name, value) \
	EXPORTED int name(void);  \
	int name(void)            \
	{                         \
		return value;     \
	}

/* Returns -1 and sets errno to EOPNOTSUPP. ssize_t is the widest return type of these calls. */
#define PROVIDER_MINUS_ONE(name)     \
	EXPORTED ssize_t name(void); \
	ssize_t name(void)           \
	{                            \
		errno = EOPNOTSUPP;  \
		return -1;           \
	}

/* Returns NULL and sets errno to EOPNOTSUPP. */
#define PROVIDER_NULL(name)         \
	EXPORTED void *name(void);  \
	void *name(void)            \
	{                           \
		errno = EOPNOTSUPP; \
		return NULL;        \
	}

/* Destroys or modifies an object that no call of this library creates; does nothing. */
#define PROVIDER_VOID(name)       \
	EXPORTED void name(void); \
	void name(void)           \
	{                         \
	}

#endif /* PROVIDERS_PROVIDERS_H */
