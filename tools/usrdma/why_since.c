/* SPDX-License-Identifier: BSD-2-Clause */
/* The times of usrdma why --since. */
#include "why.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define NS_PER_S  UINT64_C(1000000000)
#define S_PER_DAY 86400

/* "90s", "10m", "2h", "1d": a time before now. */
static bool since_duration(const char *text, time_t now, time_t *since)
{
	static const struct {
		char name;
		uint64_t seconds;
	} units[] = {{'s', 1}, {'m', 60}, {'h', 3600}, {'d', S_PER_DAY}};
	uint64_t number;
	char *end;

	if (*text < '0' || *text > '9')
		return false;
	errno = 0;
	number = strtoull(text, &end, 10);
	if (errno || !*end || end[1])
		return false;
	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
		if (*end != units[i].name || number > (uint64_t)now / units[i].seconds)
			continue;
		*since = now - (time_t)(number * units[i].seconds);
		return true;
	}
	return false;
}

/* A local date and time. */
static bool since_date(const char *text, time_t *since)
{
	static const char *const formats[] = {"%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M:%S",
					      "%Y-%m-%d %H:%M", "%Y-%m-%dT%H:%M", "%Y-%m-%d"};

	for (size_t i = 0; i < sizeof(formats) / sizeof(formats[0]); i++) {
		struct tm local = {.tm_isdst = -1};
		const char *end = strptime(text, formats[i], &local);

		if (!end || *end)
			continue;
		*since = mktime(&local);
		return *since >= 0;
	}
	return false;
}

/* A local time of the last 24 hours. */
static bool since_clock(const char *text, time_t now, time_t *since)
{
	static const char *const formats[] = {"%H:%M:%S", "%H:%M"};

	for (size_t i = 0; i < sizeof(formats) / sizeof(formats[0]); i++) {
		struct tm local;
		const char *end;

		if (!localtime_r(&now, &local))
			return false;
		local.tm_sec = 0;
		local.tm_isdst = -1;
		end = strptime(text, formats[i], &local);
		if (!end || *end)
			continue;
		*since = mktime(&local);
		if (*since > now) {
			local.tm_mday--;
			local.tm_isdst = -1;
			*since = mktime(&local);
		}
		return *since >= 0;
	}
	return false;
}

bool why_parse_since(const char *text, time_t now, uint64_t *since_ns)
{
	time_t since;

	if (!since_duration(text, now, &since) && !since_date(text, &since) &&
	    !since_clock(text, now, &since))
		return false;
	*since_ns = (uint64_t)since * NS_PER_S;
	return true;
}
