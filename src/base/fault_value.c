/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/fault_value.h"

#include <arpa/inet.h>
#include <string.h>

#include "base/clock.h"
#include "base/util.h"

/* What may stand around a clause and between clauses. */
#define BLANKS " \t\r"
/* Maximum number of decimal places of a probability. */
#define DECIMALS 9
/* Limits the product of a rate's inverse and a packet's length to 64 bits. */
#define RATE_MAX UINT64_C(1000000000000)

struct fault_span fault_span_split(struct fault_span *rest, char mark)
{
	const char *end = rest->len ? memchr(rest->at, mark, rest->len) : NULL;
	struct fault_span part = {rest->at, end ? (size_t)(end - rest->at) : rest->len};
	size_t taken = part.len + (end ? 1 : 0);

	rest->at += taken;
	rest->len -= taken;
	return part;
}

struct fault_span fault_span_field(struct fault_span *rest, char mark)
{
	struct fault_span part = {rest->at, 0};
	bool is_bracketed = false;

	for (; part.len < rest->len; part.len++) {
		char c = part.at[part.len];

		if (c == '[')
			is_bracketed = true;
		else if (c == ']')
			is_bracketed = false;
		else if (c == mark && !is_bracketed)
			break;
	}
	rest->at += part.len;
	rest->len -= part.len;
	if (rest->len) {
		rest->at++;
		rest->len--;
	}
	return part;
}

struct fault_span fault_span_trim(struct fault_span span)
{
	while (span.len && strchr(BLANKS, *span.at)) {
		span.at++;
		span.len--;
	}
	while (span.len && strchr(BLANKS, span.at[span.len - 1]))
		span.len--;
	return span;
}

bool fault_span_is(struct fault_span span, const char *word)
{
	return strlen(word) == span.len && memcmp(span.at, word, span.len) == 0;
}

/* Removes decimal digits from the front. false: no digits, or overflow. */
static bool fault_value_take_number(struct fault_span *span, uint64_t *number)
{
	const char *first = span->at;

	*number = 0;
	for (; span->len && *span->at >= '0' && *span->at <= '9'; span->at++, span->len--) {
		uint64_t digit = (uint64_t)(*span->at - '0');

		if (*number > (UINT64_MAX - digit) / 10)
			return false;
		*number = *number * 10 + digit;
	}
	return span->at != first;
}

bool fault_value_number(struct fault_span text, uint64_t *number)
{
	return fault_value_take_number(&text, number) && !text.len;
}

bool fault_value_positive(struct fault_span text, uint64_t *number)
{
	return fault_value_number(text, number) && *number;
}

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

bool fault_value_qpn(struct fault_span text, uint32_t *qpn)
{
	uint64_t number = 0;

	if (text.len > 2 && memcmp(text.at, "0x", 2) == 0) {
		for (size_t i = 2; i < text.len; i++) {
			int digit = hex_digit(text.at[i]);

			if (digit < 0 || number > MASK_24)
				return false;
			number = number << 4 | (unsigned int)digit;
		}
	} else if (!fault_value_number(text, &number)) {
		return false;
	}
	*qpn = (uint32_t)number;
	return number && number <= MASK_24;
}

/* strtod() would depend on the locale. */
bool fault_value_probability(struct fault_span text, uint32_t *probability)
{
	struct fault_span whole = fault_span_split(&text, '.');
	uint64_t units = 0, parts = 0;
	size_t decimals = text.len;

	if (whole.len && !fault_value_number(whole, &units))
		return false;
	if (decimals > DECIMALS || (decimals && !fault_value_number(text, &parts)) ||
	    (!whole.len && !decimals))
		return false;
	for (; decimals < DECIMALS; decimals++)
		parts *= 10;
	if (units > 1 || (units && parts))
		return false;
	*probability = units ? FAULT_CERTAIN : (uint32_t)parts;
	return true;
}

bool fault_value_time(struct fault_span text, uint64_t *ns)
{
	uint64_t unit_ns;

	if (!fault_value_take_number(&text, ns))
		return false;
	if (fault_span_is(text, "us"))
		unit_ns = CLOCK_NS_PER_US;
	else if (fault_span_is(text, "ms"))
		unit_ns = CLOCK_NS_PER_MS;
	else if (fault_span_is(text, "s"))
		unit_ns = CLOCK_NS_PER_S;
	else
		return false;
	if (*ns > 3600 * CLOCK_NS_PER_S / unit_ns)
		return false;
	*ns *= unit_ns;
	return true;
}

bool fault_value_delay(struct fault_span text, struct fault_rule *rule)
{
	static const struct fault_name distributions[] = {
		{"uniform", FAULT_UNIFORM},
		{"normal", FAULT_NORMAL},
		{"pareto", FAULT_PARETO},
		{NULL, 0},
	};
	struct fault_span base = fault_span_split(&text, '~');
	struct fault_span jitter = fault_span_split(&text, ',');
	int distribution = FAULT_UNIFORM;

	if (!fault_value_time(base, &rule->delay_ns))
		return false;
	if (jitter.len && !fault_value_time(jitter, &rule->jitter_ns))
		return false;
	if (text.len && !fault_value_word(text, distributions, &distribution))
		return false;
	rule->distribution = (enum fault_distribution)distribution;
	return true;
}

bool fault_value_rate(struct fault_span text, uint64_t *bytes_per_s)
{
	uint64_t unit = 1;

	if (!fault_value_take_number(&text, bytes_per_s))
		return false;
	if (fault_span_is(text, "K"))
		unit = 1000;
	else if (fault_span_is(text, "M"))
		unit = 1000000;
	else if (fault_span_is(text, "G"))
		unit = 1000000000;
	else if (text.len)
		return false;
	if (!*bytes_per_s || *bytes_per_s > RATE_MAX / unit)
		return false;
	*bytes_per_s *= unit;
	return true;
}

bool fault_value_word(struct fault_span text, const struct fault_name *names, int *value)
{
	for (; names->word; names++) {
		if (fault_span_is(text, names->word)) {
			*value = names->value;
			return true;
		}
	}
	return false;
}

bool fault_value_words(struct fault_span text, const struct fault_name *names, uint32_t *bits)
{
	*bits = 0;
	if (text.len && text.at[text.len - 1] == ',')
		return false;
	do {
		int value;

		if (!fault_value_word(fault_span_split(&text, ','), names, &value))
			return false;
		*bits |= UINT32_C(1) << value;
	} while (text.len);
	return true;
}

bool fault_value_name(struct fault_span text, char name[FAULT_NAME_BYTES])
{
	if (!text.len || text.len >= FAULT_NAME_BYTES)
		return false;
	memcpy(name, text.at, text.len);
	name[text.len] = '\0';
	return true;
}

bool fault_value_gid(struct fault_span text, uint8_t gid[FAULT_GID_BYTES])
{
	char address[FAULT_NAME_BYTES];

	if (text.len > 2 && text.at[0] == '[' && text.at[text.len - 1] == ']') {
		text.at++;
		text.len -= 2;
		return fault_value_name(text, address) && inet_pton(AF_INET6, address, gid) == 1;
	}
	memset(gid, 0, 10);
	memset(gid + 10, 0xff, 2);
	return fault_value_name(text, address) && inet_pton(AF_INET, address, gid + 12) == 1;
}
