/* SPDX-License-Identifier: BSD-2-Clause */
#include "live.h"

#include <errno.h>
#include <inttypes.h>
#include <net/if.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "../commands.h"
#include "base/trace_ring.h"
#include "base/util.h"
#include "ipc/client.h"

#define RINGS_MAX 1024
#define NS_PER_S  UINT64_C(1000000000)
#define NS_PER_MS UINT64_C(1000000)

/* Time between two reads of the rings. A lane of a ring holds about 50,000 operations. */
#define TICK_NS (5 * NS_PER_MS)
/*
 * Events younger than this are read at the next tick: another process may still write an older one.
 */
#define HOLD_NS (2 * NS_PER_MS)
/*
 * A tick ends after this time, and the last one after a longer time: processes may write events
 * faster than they are read.
 */
#define TICK_MAX_NS (100 * NS_PER_MS)
#define LAST_MAX_NS (5 * NS_PER_S)
/* Events between two looks at the clock. */
#define EVENTS_PER_LOOK 256
/* The rings of ended processes are dropped once a second. */
#define TICKS_PER_CHECK 200

/* The ring of one process. */
struct source {
	struct trace_ring_reader reader;
	pid_t pid;
	char program[TRACE_RING_PROGRAM_BYTES + 1];
	uint64_t next_ns; /* time of the next event; valid if has_next */
	bool has_next;
	bool has_ended;	   /* the process */
	uint64_t lost_put; /* lost records that were reported with a record */
};

struct live {
	const struct trace_options *options;
	const struct trace_out *out;
	struct ipc_client client;
	struct source *sources; /* [RINGS_MAX] */
	size_t count;
	struct trace_clock clock;
	uint64_t realtime_offset_ns; /* CLOCK_REALTIME minus CLOCK_MONOTONIC */
	uint64_t records;
	uint64_t lost;
	int error;
	unsigned int device_index;
	char device[IF_NAMESIZE];
};

/* The signal that ends the trace; 0: none. */
static volatile sig_atomic_t received;

static void on_signal(int number)
{
	received = number;
}

static uint64_t now_ns(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (uint64_t)now.tv_sec * NS_PER_S + (uint64_t)now.tv_nsec;
}

/*
 * Whether an output shows more than operations. Their events cost the traced processes more time.
 */
static bool needs_packets(const struct trace_options *options)
{
	return options->wants_all || options->wants_analysis || options->write_path ||
	       options->diagram_path;
}

/* 0, or the daemon's -errno; the cause was printed. */
static int live_open(struct live *live)
{
	struct ipc_trace_start request = {
		.hdr.type = IPC_TRACE_START,
		.pid = (int32_t)live->options->pid,
		.flags = needs_packets(live->options) ? 0 : IPC_TRACE_OPERATIONS,
	};
	struct ipc_reply reply;
	int error = ipc_client_open(&live->client, IPC_ROLE_CONTROL);

	if (error) {
		fprintf(stderr, "usrdma: no daemon to ask: %s\n", strerror(-error));
		return error;
	}
	error = ipc_call(&live->client, &request, sizeof(request), NULL, 0, &reply, sizeof(reply));
	if (error) {
		fprintf(stderr, "usrdma: the daemon refuses to trace: %s\n", strerror(-error));
		ipc_client_close(&live->client);
	}
	return error;
}

/*
 * Takes the program's name when the process has written it: the daemon passes a ring before the
 * process uses it.
 */
static void source_name(struct source *source)
{
	if (!*source->program)
		memcpy(source->program, source->reader.ring->program, TRACE_RING_PROGRAM_BYTES);
}

static int source_add(struct live *live, const struct ipc_trace_next_reply *reply, int fd)
{
	struct source *source = &live->sources[live->count];
	int error;

	if (live->count == RINGS_MAX)
		return -ENOSPC;
	*source = (struct source){.pid = reply->pid};
	error = trace_ring_open(&source->reader, fd, &live->clock);
	if (error)
		return error;
	live->count++;
	return 0;
}

/* Takes all rings that are new. */
static void take_rings(struct live *live)
{
	for (;;) {
		struct ipc_trace_next request = {.hdr.type = IPC_TRACE_NEXT};
		struct ipc_trace_next_reply reply;
		int fd = -1, error;

		error = ipc_call_fd(&live->client, &request, sizeof(request), NULL, 0, &reply,
				    sizeof(reply), &fd);
		if (error == -EAGAIN)
			return;
		if (error) {
			fprintf(stderr, "usrdma: lost the daemon: %s\n", strerror(-error));
			live->error = error;
			return;
		}
		error = source_add(live, &reply, fd);
		if (error)
			fprintf(stderr, "usrdma: pid %d cannot be traced: %s\n", reply.pid,
				strerror(-error));
		close(fd);
	}
}

static void drop_source(struct live *live, size_t i)
{
	live->lost += live->sources[i].reader.lost;
	trace_ring_close(&live->sources[i].reader);
	live->sources[i] = live->sources[--live->count];
}

/* Frees the rings of processes that have ended and whose events were put. */
static void drop_ended(struct live *live)
{
	for (size_t i = live->count; i-- > 0;) {
		struct source *source = &live->sources[i];

		if (source->pid <= 0 || kill(source->pid, 0) == 0 || errno != ESRCH)
			continue;
		/*
		 * All its events were read if the ring has none since the last check, which found
		 * that the process has ended.
		 */
		if (source->has_ended && !source->has_next)
			drop_source(live, i);
		else
			source->has_ended = true;
	}
}

static const char *device_name(struct live *live, unsigned int index)
{
	if (index == 0)
		return "";
	if (index != live->device_index) {
		live->device_index = index;
		if (!if_indextoname(index, live->device))
			live->device[0] = '\0';
	}
	return live->device;
}

static void put_event(struct live *live, struct source *source)
{
	struct trace_record record;

	source->has_next = false;
	if (!trace_ring_next(&source->reader, &record.event))
		return;
	record.event.time_ns = source->next_ns;
	record.time_ns = source->next_ns + live->realtime_offset_ns;
	record.program = source->program;
	record.lost = source->reader.lost - source->lost_put;
	record.pid = record.event.pid ? record.event.pid : (uint32_t)source->pid;
	record.device = device_name(live, record.event.ifindex);
	source->lost_put = source->reader.lost;
	live->records++;
	live->error = live->out->put(live->out->ctx, &record);
}

/* The source with the oldest event; NULL: no source has an event up to this time. */
static struct source *oldest(struct live *live, uint64_t until_ns)
{
	struct source *first = NULL;

	for (size_t i = 0; i < live->count; i++) {
		struct source *source = &live->sources[i];

		if (!source->has_next) {
			source->has_next = trace_ring_peek(&source->reader, &source->next_ns);
			/*
			 * An event with a time in the future must not keep the ring until the end
			 * of the trace.
			 */
			if (source->has_ended)
				source->next_ns = min_u64(source->next_ns, until_ns);
		}
		if (source->has_next && source->next_ns <= until_ns &&
		    (!first || source->next_ns < first->next_ns))
			first = source;
	}
	return first;
}

/* Puts the events up to this time. false: there are more. */
static bool put_events(struct live *live, uint64_t until_ns, uint64_t max_ns)
{
	uint64_t end_ns = now_ns(CLOCK_MONOTONIC) + max_ns;
	struct source *source;

	trace_clock_adjust(&live->clock);
	for (size_t i = 0; i < live->count; i++) {
		source_name(&live->sources[i]);
		trace_ring_refresh(&live->sources[i].reader);
		live->sources[i].has_next = false;
	}
	for (unsigned int i = 1; !live->error && (source = oldest(live, until_ns)); i++) {
		put_event(live, source);
		if (i % EVENTS_PER_LOOK == 0 && now_ns(CLOCK_MONOTONIC) >= end_ns)
			return false;
	}
	return true;
}

/* Starts the program. Returns its pid, or -1; the cause was printed. */
static pid_t start_program(const struct trace_options *options)
{
	char **program = options->program;
	int count = 0;
	char **argv;
	pid_t pid;

	while (program[count])
		count++;
	argv = calloc((size_t)count + 3, sizeof(*argv));
	if (!argv) {
		perror("usrdma");
		return -1;
	}
	argv[0] = "run";
	argv[1] = "--";
	memcpy(&argv[2], program, (size_t)count * sizeof(*argv));
	fflush(NULL);
	pid = fork();
	if (pid == 0) {
		sigset_t none;

		sigemptyset(&none);
		sigprocmask(SIG_SETMASK, &none, NULL);
		/* The command ignores it, and a program would inherit this. */
		signal(SIGPIPE, SIG_DFL);
		/* The capture file is on standard output. */
		if (options->write_path && strcmp(options->write_path, "-") == 0)
			dup2(STDERR_FILENO, STDOUT_FILENO);
		_exit(command_run(count + 2, argv));
	}
	if (pid < 0)
		perror("usrdma: fork");
	free(argv);
	return pid;
}

/* Whether the program has ended, and its status as a shell reports it. */
static bool has_ended(pid_t pid, int *status)
{
	int raw;

	if (waitpid(pid, &raw, WNOHANG) != pid)
		return false;
	*status = WIFSIGNALED(raw) ? 128 + WTERMSIG(raw) : WEXITSTATUS(raw);
	return true;
}

/*
 * Whether a signal ends the trace. A program that was started for the trace decides itself: the
 * terminal sends it SIGINT too, and the trace ends with it.
 */
static bool is_interrupted(pid_t program)
{
	int number = received;

	received = 0;
	if (number == 0 || program == 0)
		return number != 0;
	if (number == SIGTERM)
		kill(program, SIGTERM);
	return false;
}

static void sleep_until_tick(const sigset_t *waiting)
{
	struct timespec tick = {.tv_nsec = TICK_NS};

	ppoll(NULL, 0, &tick, waiting);
}

/* Reads the rings until the trace ends. Returns the exit status. */
static int live_loop(struct live *live, pid_t program, const sigset_t *waiting)
{
	uint64_t begin_ns = now_ns(CLOCK_MONOTONIC);
	uint64_t end_ns = live->options->duration_s > 0 ?
				  begin_ns +
					  (uint64_t)(live->options->duration_s * (double)NS_PER_S) :
				  UINT64_MAX;
	int status = EXIT_SUCCESS;
	bool is_ended = false, is_complete;

	for (unsigned int tick = 1; !live->error && !is_ended; tick++) {
		is_ended = is_interrupted(program) || now_ns(CLOCK_MONOTONIC) >= end_ns ||
			   (program > 0 && has_ended(program, &status));
		/*
		 * In every tick: a ring whose events are older than those that are put would be too
		 * late.
		 */
		take_rings(live);
		is_complete = put_events(live,
					 is_ended ? UINT64_MAX : now_ns(CLOCK_MONOTONIC) - HOLD_NS,
					 is_ended ? LAST_MAX_NS : TICK_MAX_NS);
		if (is_ended && !is_complete)
			fputs("usrdma: the trace lacks the last events: the processes write them "
			      "faster than they are read\n",
			      stderr);
		/* One write(2) for many lines: it takes longer than the lines themselves. */
		fflush(stdout);
		if (is_complete && tick % TICKS_PER_CHECK == 0)
			drop_ended(live);
		if (!is_ended)
			sleep_until_tick(waiting);
	}
	return live->error ? EXIT_FAILURE : status;
}

/* SIGINT and SIGTERM are only received during the wait between two ticks. */
static void take_signals(sigset_t *waiting)
{
	struct sigaction action = {.sa_handler = on_signal};
	sigset_t blocked;

	sigemptyset(&blocked);
	sigaddset(&blocked, SIGINT);
	sigaddset(&blocked, SIGTERM);
	sigprocmask(SIG_BLOCK, &blocked, waiting);
	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
	sigaction(SIGCHLD, &(struct sigaction){.sa_handler = SIG_DFL}, NULL);
	sigdelset(waiting, SIGINT);
	sigdelset(waiting, SIGTERM);
}

static void live_close(struct live *live)
{
	while (live->count > 0)
		drop_source(live, live->count - 1);
	ipc_client_close(&live->client);
	if (live->lost > 0)
		fprintf(stderr,
			"usrdma: %" PRIu64
			" events were lost: the processes wrote them faster than "
			"they were read\n",
			live->lost);
}

/*
 * Whether the process and the interface that the options name exist; otherwise nothing would be
 * traced.
 */
static bool subject_exists(const struct trace_options *options)
{
	if (options->pid && kill((pid_t)options->pid, 0) && errno == ESRCH) {
		fprintf(stderr, "usrdma: trace: no process has the pid %" PRIu32 "\n",
			options->pid);
		return false;
	}
	if (options->device && !if_nametoindex(options->device)) {
		fprintf(stderr,
			"usrdma: trace: no network interface has the name '%s' (--device names an interface; "
			"'ip link' lists them)\n",
			options->device);
		return false;
	}
	return true;
}

int trace_live(const struct trace_options *options, const struct trace_out *out)
{
	struct live live = {
		.options = options,
		.out = out,
		.realtime_offset_ns = now_ns(CLOCK_REALTIME) - now_ns(CLOCK_MONOTONIC),
	};
	int status = EXIT_FAILURE, error;
	pid_t program = 0;
	sigset_t waiting;

	if (!subject_exists(options))
		return EXIT_FAILURE;
	live.sources = calloc(RINGS_MAX, sizeof(*live.sources));
	if (!live.sources) {
		perror("usrdma");
		return EXIT_FAILURE;
	}
	trace_clock_init(&live.clock);
	take_signals(&waiting);
	if (live_open(&live))
		goto err_sources;
	if (options->program)
		program = start_program(options);
	else
		fputs("usrdma: tracing\n", stderr);
	if (program >= 0)
		status = live_loop(&live, program, &waiting);
	live_close(&live);
	error = live.error ? live.error : out->end(out->ctx);
	if (error)
		status = EXIT_FAILURE;
	if (error && error != -ECANCELED)
		fprintf(stderr, "usrdma: the trace ended: %s\n", strerror(-error));
err_sources:
	free(live.sources);
	return status;
}
