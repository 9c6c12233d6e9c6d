/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <limits.h>
#include <rdma/rsocket.h>
#include <stdlib.h>
#include <sys/time.h>

#include "base/clock.h"
#include "rsocket/calls.h"
#include "rsocket/poll.h"

/* What each set of select(2) asks poll(2) for, and what of the answer belongs into it. */
enum { SET_READ, SET_WRITE, SET_EXCEPT, SETS };

static const short asked[SETS] = {POLLIN, POLLOUT, POLLPRI};
static const short answers[SETS] = {POLLIN | POLLHUP | POLLERR, POLLOUT | POLLERR, POLLPRI};

static size_t fill(struct pollfd *fds, int nfds, fd_set *const sets[SETS])
{
	size_t count = 0;

	for (int fd = 0; fd < nfds; fd++) {
		short events = 0;

		for (int set = 0; set < SETS; set++)
			if (sets[set] && FD_ISSET(fd, sets[set]))
				events = (short)(events | asked[set]);
		if (events)
			fds[count++] = (struct pollfd){.fd = fd, .events = events};
	}
	return count;
}

/* How many bits are set in all sets together, or -EBADF. */
static int answer(const struct pollfd *fds, size_t count, fd_set *const sets[SETS])
{
	int bits = 0;

	for (size_t i = 0; i < count; i++)
		if (fds[i].revents & POLLNVAL)
			return -EBADF;
	for (size_t i = 0; i < count; i++) {
		for (int set = 0; set < SETS; set++) {
			if (!(fds[i].events & asked[set]))
				continue;
			if (fds[i].revents & answers[set])
				bits++;
			else
				FD_CLR(fds[i].fd, sets[set]);
		}
	}
	return bits;
}

/* Milliseconds, rounded up: a wait never ends early. -1 without a timeout. */
static int to_ms(const struct timeval *timeout, int *timeout_ms)
{
	*timeout_ms = -1;
	if (!timeout)
		return 0;
	if (timeout->tv_sec < 0 || timeout->tv_usec < 0 || timeout->tv_usec >= 1000000)
		return -EINVAL;
	if (timeout->tv_sec > INT_MAX / 1000 - 1)
		*timeout_ms = INT_MAX;
	else
		*timeout_ms = (int)(timeout->tv_sec * 1000 + (timeout->tv_usec + 999) / 1000);
	return 0;
}

/* As Linux does it, the timeout becomes what is left of it. */
static void take_from(struct timeval *timeout, uint64_t passed_ns)
{
	uint64_t whole_ns = (uint64_t)timeout->tv_sec * CLOCK_NS_PER_S +
			    (uint64_t)timeout->tv_usec * CLOCK_NS_PER_US;
	uint64_t left_ns = whole_ns > passed_ns ? whole_ns - passed_ns : 0;

	timeout->tv_sec = (time_t)(left_ns / CLOCK_NS_PER_S);
	timeout->tv_usec = (suseconds_t)(left_ns % CLOCK_NS_PER_S / CLOCK_NS_PER_US);
}

static int select_sets(int nfds, fd_set *const sets[SETS], struct timeval *timeout)
{
	uint64_t start_ns = clock_now_ns();
	struct pollfd *fds;
	int timeout_ms;
	size_t count;
	int ret = to_ms(timeout, &timeout_ms);

	if (ret)
		return ret;
	if (nfds < 0)
		return -EINVAL;
	fds = calloc((size_t)nfds + 1, sizeof(*fds));
	if (!fds)
		return -ENOMEM;
	count = fill(fds, nfds, sets);
	ret = rsock_poll(fds, count, timeout_ms);
	if (ret >= 0)
		ret = answer(fds, count, sets);
	free(fds);
	if (timeout)
		take_from(timeout, clock_now_ns() - start_ns);
	return ret;
}

int rselect(int nfds, fd_set *readfds, fd_set *writefds, fd_set *exceptfds, struct timeval *timeout)
{
	fd_set *const sets[SETS] = {readfds, writefds, exceptfds};

	return (int)call_result(select_sets(nfds, sets, timeout));
}
