/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/select.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/syscalls.h"

#define US_PER_S  1000000
#define WORD_BITS ((int)(8 * sizeof(unsigned long)))

/* For each set the events to request from poll(2), and the returned events that set its bit. */
static const short asked[SELECT_SETS] = {POLLIN, POLLOUT, POLLPRI};
static const short responses[SELECT_SETS] = {POLLIN | POLLHUP | POLLERR, POLLOUT | POLLERR,
					     POLLPRI};

/* The size of the process's descriptor table: select(2) ignores bits beyond it. */
static int table_slots(void)
{
	int cancel_state = cancel_disable();
	FILE *file = fopen("/proc/self/status", "re");
	int slots = FD_SETSIZE;
	char line[128];

	while (file && fgets(line, sizeof(line), file))
		if (sscanf(line, "FDSize: %d", &slots) == 1)
			break;
	if (file)
		fclose(file);
	cancel_restore(cancel_state);
	return slots;
}

/*
 * Some programs pass their limit of descriptors as nfds, perhaps a million, with sets that are much
 * shorter. Other programs use sets that are longer than an fd_set.
 */
static int limit(int nfds)
{
	int slots;

	if (nfds <= FD_SETSIZE)
		return nfds;
	slots = table_slots();
	return nfds < slots ? nfds : slots;
}

/* Sets are read by words: a fortified FD_ISSET() aborts for descriptors of FD_SETSIZE or more. */
static unsigned long word_of(const fd_set *set, int fd)
{
	return set ? ((const unsigned long *)(const void *)set)[fd / WORD_BITS] : 0;
}

static void clear(fd_set *set, int fd)
{
	((unsigned long *)(void *)set)[fd / WORD_BITS] &= ~(1ul << fd % WORD_BITS);
}

static short base_select_events_of(const struct select_call *call, int fd)
{
	int events = 0;

	for (int set = 0; set < SELECT_SETS; set++)
		if (word_of(call->sets[set], fd) & 1ul << fd % WORD_BITS)
			events |= asked[set];
	return (short)events;
}

/* Counts the descriptors in the sets, and fills call->fds if it is allocated. */
static void base_select_look(struct select_call *call, int nfds)
{
	call->count = 0;
	for (int fd = 0; fd < nfds; fd++) {
		short events;

		if (fd % WORD_BITS == 0 &&
		    !(word_of(call->sets[SELECT_READ], fd) | word_of(call->sets[SELECT_WRITE], fd) |
		      word_of(call->sets[SELECT_EXCEPT], fd))) {
			fd += WORD_BITS - 1;
			continue;
		}
		events = base_select_events_of(call, fd);
		if (events && call->fds)
			call->fds[call->count] = (struct pollfd){.fd = fd, .events = events};
		call->count += events != 0;
	}
}

int select_begin(struct select_call *call, int nfds, fd_set *const sets[SELECT_SETS])
{
	if (nfds < 0)
		return -EINVAL;
	*call = (struct select_call){
		.sets = {sets[SELECT_READ], sets[SELECT_WRITE], sets[SELECT_EXCEPT]}};
	nfds = limit(nfds);
	base_select_look(call, nfds);
	call->fds = calloc(call->count + 1, sizeof(*call->fds));
	if (!call->fds)
		return -ENOMEM;
	base_select_look(call, nfds);
	return 0;
}

int select_report(const struct select_call *call)
{
	int bits = 0;

	for (size_t i = 0; i < call->count; i++)
		if (call->fds[i].revents & POLLNVAL)
			return -EBADF;
	for (size_t i = 0; i < call->count; i++) {
		const struct pollfd *pollfd = &call->fds[i];

		for (int set = 0; set < SELECT_SETS; set++) {
			if (!(pollfd->events & asked[set]))
				continue;
			if (pollfd->revents & responses[set])
				bits++;
			else
				clear(call->sets[set], pollfd->fd);
		}
	}
	return bits;
}

void select_end(struct select_call *call)
{
	free(call->fds);
	call->fds = NULL;
}

int select_timeout_ms(const struct timespec *timeout, int *timeout_ms)
{
	*timeout_ms = -1;
	if (!timeout)
		return 0;
	if (timeout->tv_sec < 0 || timeout->tv_nsec < 0 || timeout->tv_nsec >= (long)CLOCK_NS_PER_S)
		return -EINVAL;
	if (timeout->tv_sec > INT_MAX / 1000 - 1)
		*timeout_ms = INT_MAX;
	else
		*timeout_ms = (int)(timeout->tv_sec * 1000 +
				    (timeout->tv_nsec + (long)CLOCK_NS_PER_MS - 1) /
					    (long)CLOCK_NS_PER_MS);
	return 0;
}

int select_timespec(const struct timeval *timeout, struct timespec *time)
{
	if (timeout->tv_sec < 0 || timeout->tv_usec < 0)
		return -EINVAL;
	if (__builtin_add_overflow(timeout->tv_sec, timeout->tv_usec / US_PER_S, &time->tv_sec))
		time->tv_sec = timeout->tv_sec;
	time->tv_nsec = timeout->tv_usec % US_PER_S * (long)CLOCK_NS_PER_US;
	return 0;
}

void select_take(struct timeval *timeout, uint64_t passed_ns)
{
	int64_t passed_us = (int64_t)(passed_ns / CLOCK_NS_PER_US);
	struct timespec time;

	if (select_timespec(timeout, &time))
		return;
	timeout->tv_sec = time.tv_sec - (time_t)(passed_us / US_PER_S);
	timeout->tv_usec =
		(suseconds_t)(time.tv_nsec / (long)CLOCK_NS_PER_US - passed_us % US_PER_S);
	if (timeout->tv_usec < 0) {
		timeout->tv_sec--;
		timeout->tv_usec += US_PER_S;
	}
	if (timeout->tv_sec < 0)
		*timeout = (struct timeval){0};
}
