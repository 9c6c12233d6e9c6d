/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_CORE_REASON_H
#define USRDMA_CORE_REASON_H

#include <infiniband/verbs.h>

/* Description of a vendor error (docs/completion-errors.md); "unknown" for an undefined value. */
const char *reason_words(uint32_t vendor_err);

/* Logs a completion with an error of its own; flushed completions are not logged. */
void reason_log(const struct ibv_wc *wc);

#endif
