/* SPDX-License-Identifier: BSD-2-Clause */
#include "rspreload/preload.h"

#include <errno.h>
#include <link.h>
#include <rdma/rsocket.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/barrier.h"
#include "base/clock.h"
#include "rspreload/real.h"
#include "rspreload/rules.h"
#include "rspreload/tcp.h"
#include "rspreload/wrap.h"

#define TYPE_FLAGS (SOCK_NONBLOCK | SOCK_CLOEXEC)

/* Written by the constructor, before main(); constant afterwards. */
static struct {
	struct rules rules;
	int sq_size; /* 0: the default of rsockets */
	int rq_size;
	int inline_size;
	bool has_inline_size;
	bool is_fork_safe;
} preload;

/* The address ranges of the code of librdmacm and libibverbs. */
#define RANGES_MAX 8
static struct {
	uintptr_t first;
	uintptr_t last;
} ranges[RANGES_MAX];
static size_t range_count;

static int number_of(const char *variable, bool *is_set)
{
	const char *text = getenv(variable);

	if (is_set)
		*is_set = text != NULL;
	return text ? (int)strtol(text, NULL, 10) : 0;
}

static bool is_named(const char *path, const char *name)
{
	const char *slash = strrchr(path, '/');

	return !strncmp(slash ? slash + 1 : path, name, strlen(name));
}

static int note_ranges(struct dl_phdr_info *info, size_t size, void *arg)
{
	(void)size;
	(void)arg;
	if (!is_named(info->dlpi_name, "librdmacm.so") &&
	    !is_named(info->dlpi_name, "libibverbs.so"))
		return 0;
	for (int i = 0; i < info->dlpi_phnum && range_count < RANGES_MAX; i++) {
		const ElfW(Phdr) *header = &info->dlpi_phdr[i];

		if (header->p_type != PT_LOAD || !(header->p_flags & PF_X))
			continue;
		ranges[range_count].first = info->dlpi_addr + header->p_vaddr;
		ranges[range_count].last = ranges[range_count].first + header->p_memsz;
		range_count++;
	}
	return 0;
}

bool preload_is_ours(const void *address)
{
	uintptr_t at = (uintptr_t)address;

	for (size_t i = 0; i < range_count; i++)
		if (at >= ranges[i].first && at < ranges[i].last)
			return true;
	return false;
}

__attribute__((constructor)) static void begin(void)
{
	int cancel_state = cancel_disable();

	barrier_register();
	dl_iterate_phdr(note_ranges, NULL);
	rules_read(RULES_FILE, &preload.rules);
	preload.sq_size = number_of("RS_SQ_SIZE", NULL);
	preload.rq_size = number_of("RS_RQ_SIZE", NULL);
	preload.inline_size = number_of("RS_INLINE", &preload.has_inline_size);
	preload.is_fork_safe = number_of("RDMAV_FORK_SAFE", NULL) != 0;
	if (preload.is_fork_safe)
		tcp_inherit();
	cancel_restore(cancel_state);
}

/*
 * The rsockets are closed later, by librdmacm's destructor. The C library then writes the buffered
 * data of all other streams.
 */
__attribute__((destructor)) static void end(void)
{
	stdio_flush();
	rules_free(&preload.rules);
}

bool preload_wants(int domain, int type, int protocol)
{
	int kind = type & ~TYPE_FLAGS;

	if ((domain != AF_INET && domain != AF_INET6) ||
	    (kind != SOCK_STREAM && kind != SOCK_DGRAM))
		return false;
	return rules_match(&preload.rules, program_invocation_short_name, domain, kind, protocol);
}

int preload_poll(struct pollfd *fds, nfds_t count, int timeout_ms, const sigset_t *mask)
{
	struct timespec time = {.tv_sec = timeout_ms / 1000,
				.tv_nsec = timeout_ms % 1000 * (long)CLOCK_NS_PER_MS};

	if (!mask)
		return real.poll(fds, count, timeout_ms);
	return real.ppoll(fds, count, timeout_ms < 0 ? NULL : &time, mask);
}

static __thread bool is_polling PRELOAD_THREAD;
static __thread const sigset_t *sleep_mask PRELOAD_THREAD;

static void polling_begin(const sigset_t *mask)
{
	sleep_mask = mask;
	is_polling = true;
}

static int polling_end(int ret, int timeout_ms)
{
	is_polling = false;
	/* A call that does not sleep delivers pending signals, too. */
	return !ret && !timeout_ms && sleep_mask ? preload_poll(NULL, 0, 0, sleep_mask) : ret;
}

int preload_rpoll(struct pollfd *fds, nfds_t count, int timeout_ms, const sigset_t *mask)
{
	polling_begin(mask);
	return polling_end(rpoll(fds, count, timeout_ms), timeout_ms);
}

int preload_repoll_wait(int set, struct epoll_event *events, int most, int timeout_ms,
			const sigset_t *mask)
{
	polling_begin(mask);
	return polling_end(repoll_calls()->wait(set, events, most, timeout_ms), timeout_ms);
}

bool preload_is_polling(void)
{
	return is_polling;
}

int preload_sleep(struct pollfd *fds, nfds_t count, int timeout_ms)
{
	int ret;

	/* A signal handler may call poll(); that call is the program's. */
	is_polling = false;
	ret = preload_poll(fds, count, timeout_ms, timeout_ms ? sleep_mask : NULL);
	is_polling = true;
	return ret;
}

int preload_sleep_in_epoll(int epoll, struct epoll_event *events, int most, int timeout_ms)
{
	int ret;

	is_polling = false;
	if (timeout_ms && sleep_mask)
		ret = real.epoll_pwait(epoll, events, most, timeout_ms, sleep_mask);
	else
		ret = real.epoll_wait(epoll, events, most, timeout_ms);
	is_polling = true;
	return ret;
}

bool preload_is_fork_safe(void)
{
	return preload.is_fork_safe;
}

int preload_rsocket(int domain, int type, int protocol)
{
	int fd = rsocket(domain, type, protocol);

	if (fd < 0)
		return fd;
	/* Errors are ignored: if a value is out of range, the default remains. */
	if (preload.sq_size > 0)
		rsetsockopt(fd, SOL_RDMA, RDMA_SQSIZE, &preload.sq_size, sizeof(int));
	if (preload.rq_size > 0)
		rsetsockopt(fd, SOL_RDMA, RDMA_RQSIZE, &preload.rq_size, sizeof(int));
	if (preload.has_inline_size)
		rsetsockopt(fd, SOL_RDMA, RDMA_INLINE, &preload.inline_size, sizeof(int));
	return fd;
}
