/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_CORE_REASON_H
#define USRDMA_CORE_REASON_H

#include <infiniband/verbs.h>

/* What ibv_wc.vendor_err says, in words (docs/completion-errors.md); "unknown" for a number that is none. */
const char *reason_words(uint32_t vendor_err);

/* Logs a completion that failed by itself; one that was flushed behind another tells nothing. */
void reason_log(const struct ibv_wc *wc);

#endif
