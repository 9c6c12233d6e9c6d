/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_BASE_FAULT_VALUE_H
#define USRDMA_BASE_FAULT_VALUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/fault_names.h"
#include "base/fault_rule.h"

/* The values in fault rules. Each function returns false for an invalid value. */

/* A part of the text, not NUL-terminated. */
struct fault_span {
	const char *at;
	size_t len;
};

/*
 * Removes the text up to the first `mark`, and the mark, from *rest and returns the text; all of it
 * if there is no mark. fault_span_field() ignores marks between brackets.
 */
struct fault_span fault_span_split(struct fault_span *rest, char mark);
struct fault_span fault_span_field(struct fault_span *rest, char mark);
struct fault_span fault_span_trim(struct fault_span span);
bool fault_span_is(struct fault_span span, const char *word);

bool fault_value_number(struct fault_span text, uint64_t *number);
bool fault_value_positive(struct fault_span text, uint64_t *number);
/* Decimal, or hexadecimal after 0x. */
bool fault_value_qpn(struct fault_span text, uint32_t *qpn);
/* Accepts "0.25", "1", ".5". */
bool fault_value_probability(struct fault_span text, uint32_t *probability);
/* At most one hour, so that a deadline cannot overflow. */
bool fault_value_time(struct fault_span text, uint64_t *ns);
/* Sets delay_ns, jitter_ns and distribution. */
bool fault_value_delay(struct fault_span text, struct fault_rule *rule);
/* Bytes per second: a number, or one followed by K, M or G (powers of 10). */
bool fault_value_rate(struct fault_span text, uint64_t *bytes_per_s);
bool fault_value_word(struct fault_span text, const struct fault_name *names, int *value);
/* Words separated by commas; `bits` gets one bit for the value of each. */
bool fault_value_words(struct fault_span text, const struct fault_name *names, uint32_t *bits);
bool fault_value_name(struct fault_span text, char name[FAULT_NAME_BYTES]);
/* An IPv4 address, or an IPv6 address in brackets. */
bool fault_value_gid(struct fault_span text, uint8_t gid[FAULT_GID_BYTES]);

#endif
