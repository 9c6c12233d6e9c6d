/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/trace_clock.h"

#include <fcntl.h>
#include <string.h>

#include "base/syscalls.h"

#define CLOCK_SOURCE "/sys/devices/system/clocksource/clocksource0/current_clocksource"

/* Duration of the first measurement of the rate. */
#define FIRST_NS (2 * CLOCK_NS_PER_MS)
/*
 * A pair of times is the best of this number of attempts: the thread can be interrupted between the
 * two.
 */
#define PAIR_ATTEMPTS 5
/* An error of the relation is removed within this time. */
#define CORRECT_NS ((double)CLOCK_NS_PER_S)
/* After a larger error, for example after a suspend, the relation starts again. */
#define ERROR_MAX_NS	(100.0 * (double)CLOCK_NS_PER_US)
#define DISTANCE_MAX_NS (86400.0 * (double)CLOCK_NS_PER_S)

bool trace_clock_is_usable(void)
{
#if defined(__x86_64__)
	char name[16] = "";
	int fd = sys_open(CLOCK_SOURCE, O_RDONLY | O_CLOEXEC);
	ssize_t len = fd < 0 ? -1 : sys_read_all(fd, name, sizeof(name) - 1);

	if (fd >= 0)
		sys_close(fd);
	return len > 0 && strcmp(name, "tsc\n") == 0;
#elif defined(__aarch64__)
	return true;
#else
	return false;
#endif
}

/* Both times at one moment. */
static void read_pair(uint64_t *ticks, uint64_t *ns)
{
	uint64_t best = UINT64_MAX;

	*ticks = 0;
	*ns = 0;
	for (int i = 0; i < PAIR_ATTEMPTS; i++) {
		uint64_t before = trace_clock_ticks_ordered();
		uint64_t now_ns = clock_now_ns();
		uint64_t after = trace_clock_ticks_ordered();

		if (after - before < best) {
			best = after - before;
			*ticks = before + (after - before) / 2;
			*ns = now_ns;
		}
	}
}

/*
 * The rate since the first pair; the known one if the time since then is too short for a
 * measurement.
 */
static double mean_rate(const struct trace_clock *clock, uint64_t ticks, uint64_t ns)
{
	return ticks > clock->first_ticks && ns - clock->first_ns >= FIRST_NS ?
		       (double)(ns - clock->first_ns) / (double)(ticks - clock->first_ticks) :
		       clock->ns_per_tick;
}

void trace_clock_init(struct trace_clock *clock)
{
	uint64_t ticks, ns;

	clock->ns_per_tick = 1.0;
	read_pair(&clock->first_ticks, &clock->first_ns);
	do
		read_pair(&ticks, &ns);
	while (ns - clock->first_ns < FIRST_NS);
	clock->base_ticks = ticks;
	clock->base_ns = ns;
	clock->ns_per_tick = mean_rate(clock, ticks, ns);
}

void trace_clock_adjust(struct trace_clock *clock)
{
	uint64_t ticks, ns, converted_ns;
	double error_ns;

	read_pair(&ticks, &ns);
	converted_ns = trace_clock_ns(clock, ticks);
	error_ns = (double)ns - (double)converted_ns;
	clock->base_ticks = ticks;
	if (error_ns > ERROR_MAX_NS || error_ns < -ERROR_MAX_NS) {
		clock->base_ns = ns;
		/*
		 * The two clocks did not advance together since the first pair. The rate itself has
		 * not changed.
		 */
		clock->first_ticks = ticks;
		clock->first_ns = ns;
		return;
	}
	/* No step, so that events keep their order. */
	clock->base_ns = converted_ns;
	clock->ns_per_tick = mean_rate(clock, ticks, ns) * (1.0 + error_ns / CORRECT_NS);
}

uint64_t trace_clock_ns(const struct trace_clock *clock, uint64_t ticks)
{
	double distance_ns = (double)(int64_t)(ticks - clock->base_ticks) * clock->ns_per_tick;

	if (distance_ns > DISTANCE_MAX_NS)
		distance_ns = DISTANCE_MAX_NS;
	if (distance_ns < -DISTANCE_MAX_NS)
		distance_ns = -DISTANCE_MAX_NS;
	return clock->base_ns + (uint64_t)(int64_t)distance_ns;
}
