/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_CORE_DEVICE_CONTEXT_H
#define USRDMA_CORE_DEVICE_CONTEXT_H

#include "core/object/objects.h"

/*
 * An object of the context is created or destroyed. The last one frees a context that was closed.
 * engine.lock held.
 */
void context_get(struct context *context);
void context_put(struct context *context);

/*
 * Whether objects of one context can be imported into the other: one was imported from the other by
 * ibv_import_device().
 */
bool context_is_kin(const struct context *a, const struct context *b);

/* Sets the operations that programs call through the context: core/ops.c. */
void context_init_ops(struct verbs_context *verbs);

#endif
