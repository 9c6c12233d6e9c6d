/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * bench-futex [ROUND-TRIPS]: ping-pong of two processes that sleep in futex(2) on words of shared
 * memory, each on its own processor. Prints the median of half of the round-trip time, as
 * perftest's latency tests do (t_typical).
 */
#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define WARM_UP	    1000u
#define ROUND_TRIPS 100000u
#define CACHE_LINE  64

/* One word for each direction: the number of the last message. */
struct shared {
	_Alignas(CACHE_LINE) _Atomic uint32_t ping;
	_Alignas(CACHE_LINE) _Atomic uint32_t pong;
};

static void require(bool is_true, const char *what)
{
	if (is_true)
		return;
	fprintf(stderr, "%s: %s\n", what, strerror(errno));
	exit(1);
}

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/*
 * Runs on processor `index` of those that this process may use, counted from 0 and modulo their
 * number.
 */
static void run_on_processor(int index)
{
	cpu_set_t allowed, own;
	int wanted;

	require(!sched_getaffinity(0, sizeof(allowed), &allowed), "sched_getaffinity");
	wanted = index % CPU_COUNT(&allowed);
	for (size_t cpu = 0; cpu < CPU_SETSIZE; cpu++) {
		if (!CPU_ISSET(cpu, &allowed) || wanted--)
			continue;
		CPU_ZERO(&own);
		CPU_SET(cpu, &own);
		require(!sched_setaffinity(0, sizeof(own), &own), "sched_setaffinity");
		return;
	}
}

static void send_message(_Atomic uint32_t *word, uint32_t number)
{
	atomic_store(word, number);
	syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

static void wait_message(_Atomic uint32_t *word, uint32_t number)
{
	uint32_t last = number - 1;

	while (atomic_load(word) != number)
		syscall(SYS_futex, word, FUTEX_WAIT, last, NULL, NULL, 0);
}

static int compare_times(const void *a, const void *b)
{
	const uint64_t *left = a, *right = b;

	return (*left > *right) - (*left < *right);
}

static void client(struct shared *shared, uint32_t count, uint64_t *times_ns)
{
	for (uint32_t i = 0; i < WARM_UP + count; i++) {
		uint64_t start_ns = now_ns();

		send_message(&shared->ping, i + 1);
		wait_message(&shared->pong, i + 1);
		if (i >= WARM_UP)
			times_ns[i - WARM_UP] = now_ns() - start_ns;
	}
	qsort(times_ns, count, sizeof(*times_ns), compare_times);
	printf("latency_ns %.0f\n", (double)times_ns[count / 2] / 2);
}

int main(int argc, char **argv)
{
	uint32_t count = argc > 1 ? (uint32_t)atoi(argv[1]) : ROUND_TRIPS;
	uint64_t *times_ns = calloc(count, sizeof(*times_ns));
	struct shared *shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE,
				     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pid_t server;

	require(count && times_ns && shared != MAP_FAILED, "memory for ROUND-TRIPS");
	server = fork();
	require(server >= 0, "fork");
	run_on_processor(server ? 1 : 0);
	if (!server) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (uint32_t i = 0; i < WARM_UP + count; i++) {
			wait_message(&shared->ping, i + 1);
			send_message(&shared->pong, i + 1);
		}
		_exit(0);
	}
	client(shared, count, times_ns);
	require(waitpid(server, NULL, 0) == server, "waitpid");
	free(times_ns);
	return 0;
}
