/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_TESTS_WITH_LOCKS_H
#define USRDMA_TESTS_WITH_LOCKS_H

#include "core/engine/engine.h"

/*
 * Executes a statement with all locks of the engine, as the callers in the library hold them
 * (core/engine/lock_check.h).
 */
#define WITH_LOCKS(of, statement)                \
	do {                                     \
		struct engine *locked_by = (of); \
                                                 \
		engine_lock(locked_by);          \
		statement;                       \
		engine_unlock(locked_by);        \
	} while (0)

#endif
