/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/select.h"

#include <pthread.h>
#include <rdma/rsocket.h>

#include "base/clock.h"
#include "rsocket/calls.h"
#include "rsocket/poll.h"

static int rsocket_select_to_ms(const struct timeval *timeout, int *timeout_ms)
{
	struct timespec time;
	int ret = timeout ? select_timespec(timeout, &time) : 0;

	return ret ? ret : select_timeout_ms(timeout ? &time : NULL, timeout_ms);
}

static void rsocket_select_select_cancelled(void *call)
{
	select_end(call);
}

static int select_sets(int nfds, fd_set *const sets[SELECT_SETS], struct timeval *timeout)
{
	uint64_t start_ns = clock_now_ns();
	struct select_call call;
	int timeout_ms;
	int ret = rsocket_select_to_ms(timeout, &timeout_ms);

	if (!ret)
		ret = select_begin(&call, nfds, sets);
	if (ret)
		return ret;
	pthread_cleanup_push(rsocket_select_select_cancelled, &call);
	ret = rsock_poll(call.fds, call.count, timeout_ms);
	pthread_cleanup_pop(0);
	if (ret >= 0)
		ret = select_report(&call);
	select_end(&call);
	if (timeout)
		select_take(timeout, clock_now_ns() - start_ns);
	return ret;
}

int rselect(int nfds, fd_set *readfds, fd_set *writefds, fd_set *exceptfds, struct timeval *timeout)
{
	fd_set *const sets[SELECT_SETS] = {readfds, writefds, exceptfds};

	return (int)call_result(select_sets(nfds, sets, timeout));
}
