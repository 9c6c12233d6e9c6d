/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * usrdma top: rates of each process, QP or device, from the differences of the counters in two
 * reports of the daemon.
 */
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#include "base/printable.h"
#include "commands.h"
#include "report.h"
#include "top_rows.h"
#include "top_table.h"

#define PROCESSES_MAX  4096
#define INTERVAL_MIN_S 0.1
#define INTERVAL_MAX_S 3600.0
#define DEFAULT_ROWS   24
#define HEADER_ROWS    3
#define HEAD_BYTES     128
#define NS_PER_S       1e9
#define MS_PER_S       1000
#define ENTER_SCREEN   "\033[?1049h\033[?25l"
#define LEAVE_SCREEN   "\033[?25h\033[?1049l"
#define CLEAR_SCREEN   "\033[H\033[2J"

/* The columns with rates. Each is the sum of some counters of a process. */
enum column { SENT, RECEIVED, PACKETS, RETRIES, RNR_NAKS, DROPPED, ERRORS, COLUMN_COUNT };

static const struct {
	const char *key; /* in JSON */
	const char *title;
	char sort_key;
} columns[COLUMN_COUNT] = {
	[SENT] = {"messages_sent_per_second", "SENT/s", 's'},
	[RECEIVED] = {"messages_received_per_second", "RECEIVED/s", 'r'},
	[PACKETS] = {"packets_per_second", "PACKETS/s", 'p'},
	[RETRIES] = {"retries_per_second", "RETRIES/s", 't'},
	[RNR_NAKS] = {"rnr_naks_per_second", "RNR/s", 'n'},
	[DROPPED] = {"dropped_per_second", "DROPPED/s", 'd'},
	[ERRORS] = {"queue_pair_errors_per_second", "ERRORS/s", 'e'},
};

/* The table of processes: these columns, then those of enum column. */
enum {
	CELL_PID,
	CELL_PROGRAM,
	CELL_QPS,
	CELL_MRS,
	CELL_RATES,
	CELL_COUNT = CELL_RATES + COLUMN_COUNT
};

static const struct top_column cells[CELL_COUNT] = {
	[CELL_PID] = {"PID", "PID", 8, 8, TOP_KEEP, false},
	[CELL_PROGRAM] = {"PROGRAM", "PROGRAM", 15, 15, TOP_KEEP, true},
	[CELL_QPS] = {"QPS", "QPS", 6, 6, 2, false},
	[CELL_MRS] = {"MRS", "MRS", 6, 6, 1, false},
	[CELL_RATES + SENT] = {"SENT/s", "SENT/s", 10, 8, 9, false},
	[CELL_RATES + RECEIVED] = {"RECEIVED/s", "RECV/s", 10, 8, 8, false},
	[CELL_RATES + PACKETS] = {"PACKETS/s", "PKTS/s", 10, 8, 7, false},
	[CELL_RATES + RETRIES] = {"RETRIES/s", "RETRY/s", 10, 8, 6, false},
	[CELL_RATES + RNR_NAKS] = {"RNR/s", "RNR/s", 10, 8, 4, false},
	[CELL_RATES + DROPPED] = {"DROPPED/s", "DROP/s", 10, 8, 5, false},
	[CELL_RATES + ERRORS] = {"ERRORS/s", "ERR/s", 10, 8, 3, false},
};

static const struct {
	enum column column;
	const char *group;
	const char *event; /* with a trailing '*': every event that begins with these characters */
} sums[] = {
	{SENT, "local", "messages_sent"},	  {SENT, "local", "onesided"},
	{RECEIVED, "local", "messages_received"}, {PACKETS, "roce", "packets_sent"},
	{PACKETS, "roce", "packets_received"},	  {RETRIES, "local", "retries"},
	{RETRIES, "roce", "packets_sent_again"},  {RNR_NAKS, "local", "rnr_naks_*"},
	{RNR_NAKS, "roce", "rnr_naks_*"},	  {DROPPED, "local", "dropped_*"},
	{DROPPED, "roce", "dropped_*"},		  {ERRORS, "local", "queue_pair_errors"},
	{ERRORS, "roce", "queue_pair_errors"},
};

struct process {
	uint64_t pid;
	uint64_t uid;
	uint64_t qps;
	uint64_t mrs;
	char program[REPORT_PROGRAM_BYTES];
	uint64_t counts[COLUMN_COUNT];
	double rates[COLUMN_COUNT];
};

struct sample {
	uint64_t time_ns;
	struct top_rows rows;	 /* of QPs or devices, if the view shows them */
	struct top_rows counted; /* the QPs with their counters, for the next sample */
	size_t count;
	struct process processes[PROCESSES_MAX];
};

enum view { VIEW_PROCESSES, VIEW_QPS, VIEW_DEVICES, VIEW_COUNT };

struct top {
	enum view view;
	double interval_s;
	unsigned long samples; /* to print; 0: until the user ends the command */
	bool wants_json;
	const char *filter; /* part of a program's name; NULL: every program */
	bool is_screen;
	enum column sort;
	int rows_sort; /* column of top_rows.c */
};

static volatile sig_atomic_t is_ended;
static struct termios terminal;
static enum column sort_column;

static void on_signal(int number)
{
	(void)number;
	is_ended = 1;
}

static uint64_t top_now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * (uint64_t)NS_PER_S + (uint64_t)now.tv_nsec;
}

static bool event_matches(const char *event, const char *pattern)
{
	size_t len = strlen(pattern);

	return pattern[len - 1] == '*' ? strncmp(event, pattern, len - 1) == 0 :
					 strcmp(event, pattern) == 0;
}

static void count_group(struct process *process, const char *group, json_object *events)
{
	json_object_object_foreach(report_object(events), event, value)
	{
		for (size_t i = 0; i < sizeof(sums) / sizeof(sums[0]); i++) {
			if (strcmp(group, sums[i].group) == 0 &&
			    event_matches(event, sums[i].event))
				process->counts[sums[i].column] += json_object_get_uint64(value);
		}
	}
}

static void process_read(struct process *process, json_object *from)
{
	json_object *counters = json_object_object_get(from, "counters");

	*process = (struct process){
		.pid = number_of(from, "pid"),
		.uid = number_of(from, "uid"),
		.qps = number_of(from, "qp_count"),
		.mrs = number_of(from, "mr_count"),
	};
	if (!report_program(process->pid, process->program))
		strcpy(process->program, "?");
	printable_string(process->program);
	json_object_object_foreach(report_object(counters), group, events)
		count_group(process, group, events);
}

static const struct process *sample_find(const struct sample *sample, uint64_t pid)
{
	for (size_t i = 0; i < sample->count; i++) {
		if (sample->processes[i].pid == pid)
			return &sample->processes[i];
	}
	return NULL;
}

static int compare_processes(const void *a, const void *b)
{
	const struct process *x = a, *y = b;
	double left = x->rates[sort_column], right = y->rates[sort_column];

	if (left != right)
		return left < right ? 1 : -1;
	return (x->pid > y->pid) - (x->pid < y->pid);
}

static void sort_sample(struct sample *sample, const struct top *top)
{
	sort_column = top->sort;
	qsort(sample->processes, sample->count, sizeof(sample->processes[0]), compare_processes);
	top_rows_sort(&sample->rows, top->rows_sort);
}

/* The rows of the view from the QPs, which are kept for the next sample. */
static bool make_rows(struct sample *sample, const struct sample *former, const struct top *top)
{
	struct top_rows *rows = &sample->rows;

	if (top->view == VIEW_PROCESSES)
		return true;
	top_rows_clear(rows);
	if (!top_rows_append(rows, &sample->counted))
		return false;
	top_rows_compare(rows, &former->counted,
			 (double)(sample->time_ns - former->time_ns) / NS_PER_S);
	if (top->view == VIEW_DEVICES)
		top_rows_sum_devices(rows);
	return true;
}

/*
 * Reads a report. The rates are those since the former sample; a process that it does not have has
 * none.
 */
static bool sample_take(struct sample *sample, const struct sample *former, const struct top *top)
{
	json_object *report = report_ask();
	json_object *list = report ? json_object_object_get(report, "processes") : NULL;
	size_t count = report_length(list);

	sample->time_ns = top_now_ns();
	sample->count = 0;
	top_rows_clear(&sample->counted);
	for (size_t i = 0; i < count && sample->count < PROCESSES_MAX; i++) {
		struct process *process = &sample->processes[sample->count];
		const struct process *before;

		process_read(process, json_object_array_get_idx(list, i));
		if (top->filter && !strstr(process->program, top->filter))
			continue;
		sample->count++;
		if (!top_rows_add_qps(&sample->counted, json_object_array_get_idx(list, i),
				      process->pid, process->program,
				      json_object_object_get(report, "devices")))
			break;
		before = sample_find(former, process->pid);
		for (int c = 0; before && c < COLUMN_COUNT; c++) {
			double passed_s = (double)(sample->time_ns - former->time_ns) / NS_PER_S;

			process->rates[c] =
				process->counts[c] < before->counts[c] ?
					0 :
					(double)(process->counts[c] - before->counts[c]) / passed_s;
		}
	}
	json_object_put(report);
	if (!report || !make_rows(sample, former, top))
		return false;
	sort_sample(sample, top);
	return true;
}

static json_object *processes_json(const struct sample *sample)
{
	json_object *list = json_object_new_array();

	for (size_t i = 0; i < sample->count; i++) {
		const struct process *process = &sample->processes[i];
		json_object *object = json_object_new_object();

		json_object_object_add(object, "pid", json_object_new_uint64(process->pid));
		json_object_object_add(object, "uid", json_object_new_uint64(process->uid));
		json_object_object_add(object, "program", json_object_new_string(process->program));
		json_object_object_add(object, "qps", json_object_new_uint64(process->qps));
		json_object_object_add(object, "mrs", json_object_new_uint64(process->mrs));
		for (int c = 0; c < COLUMN_COUNT; c++)
			json_object_object_add(
				object, columns[c].key,
				json_object_new_uint64((uint64_t)(process->rates[c] + 0.5)));
		json_object_array_add(list, object);
	}
	return list;
}

static void print_json_line(const struct sample *sample, const struct top *top)
{
	json_object *list = top->view == VIEW_PROCESSES ?
				    processes_json(sample) :
				    top_rows_json(&sample->rows, top->view == VIEW_DEVICES);

	puts(json_object_to_json_string_ext(list, JSON_C_TO_STRING_PLAIN));
	json_object_put(list);
}

/* The size of the terminal; elsewhere the tables are not cut. */
static struct winsize terminal_size(void)
{
	struct winsize size = {0};

	if (!isatty(STDOUT_FILENO) || ioctl(STDOUT_FILENO, TIOCGWINSZ, &size))
		return (struct winsize){0};
	return size;
}

/* Clears the screen and prints the first line. Returns the number of rows that fit. */
static size_t print_screen_head(const struct sample *sample, const struct top *top,
				struct winsize size)
{
	char line[HEAD_BYTES];
	int rows = size.ws_row ? size.ws_row : DEFAULT_ROWS;

	if (!top->is_screen)
		return SIZE_MAX;
	if (top->view == VIEW_PROCESSES)
		snprintf(line, sizeof(line),
			 "%zu processes, sorted by %s. Keys: q quit; v view; sort: s r p t n d e",
			 sample->count, columns[top->sort].title);
	else
		snprintf(line, sizeof(line),
			 "%zu %s, sorted by %s. Keys: q quit; v view; sort: s b r i t n o c",
			 sample->rows.count, top->view == VIEW_QPS ? "queue pairs" : "devices",
			 top_rows_title(top->rows_sort));
	printf(CLEAR_SCREEN "%.*s\n", size.ws_col ? size.ws_col : HEAD_BYTES, line);
	return rows > HEADER_ROWS ? (size_t)(rows - HEADER_ROWS) : 1;
}

static void print_process(const struct top_fit *fit, const struct process *process)
{
	top_cell row[CELL_COUNT];

	snprintf(row[CELL_PID], sizeof(row[0]), "%" PRIu64, process->pid);
	snprintf(row[CELL_PROGRAM], sizeof(row[0]), "%s", process->program);
	snprintf(row[CELL_QPS], sizeof(row[0]), "%" PRIu64, process->qps);
	snprintf(row[CELL_MRS], sizeof(row[0]), "%" PRIu64, process->mrs);
	for (int c = 0; c < COLUMN_COUNT; c++)
		top_table_number(fit, CELL_RATES + c, row[CELL_RATES + c], process->rates[c], 0);
	top_table_print_row(fit, row);
}

static void print_nothing(const struct top *top)
{
	if (top->filter)
		printf("no program that uses RDMA has '%s' in its name\n", top->filter);
	else
		puts("no program uses RDMA");
}

static void print_table(const struct sample *sample, const struct top *top)
{
	struct winsize size = terminal_size();
	size_t rows = print_screen_head(sample, top, size);
	struct top_fit fit;

	if (top->view != VIEW_PROCESSES) {
		top_rows_print(&sample->rows, rows, top->view == VIEW_DEVICES, size.ws_col,
			       top->rows_sort);
	} else {
		top_table_fit(&fit, cells, CELL_COUNT, size.ws_col, CELL_RATES + (int)top->sort);
		top_table_print_head(&fit);
		for (size_t i = 0; i < rows && i < sample->count; i++)
			print_process(&fit, &sample->processes[i]);
	}
	if (sample->count == 0)
		print_nothing(top);
}

/* Processes a key. Returns whether the table must be printed again. */
static bool handle_key(struct top *top, char key)
{
	if (key == 'q')
		is_ended = 1;
	if (key == 'v') {
		top->view = (top->view + 1) % VIEW_COUNT;
		return true;
	}
	if (top->view != VIEW_PROCESSES)
		return top_rows_sort_key(key, &top->rows_sort);
	for (int c = 0; c < COLUMN_COUNT; c++) {
		if (columns[c].sort_key == key) {
			top->sort = (enum column)c;
			return true;
		}
	}
	return false;
}

/* Waits until the next sample is due, and handles keys. */
static void wait_interval(struct top *top, struct sample *sample, const struct sample *former)
{
	uint64_t due_ns = sample->time_ns + (uint64_t)(top->interval_s * NS_PER_S);
	struct pollfd keys = {.fd = top->is_screen ? STDIN_FILENO : -1, .events = POLLIN};

	while (!is_ended) {
		uint64_t now_ns = top_now_ns();
		char key;

		if (now_ns >= due_ns)
			return;
		if (poll(&keys, 1,
			 (int)((due_ns - now_ns) / (uint64_t)(NS_PER_S / MS_PER_S)) + 1) <= 0)
			continue;
		if (read(STDIN_FILENO, &key, 1) != 1)
			is_ended = 1;
		else if (handle_key(top, key) && make_rows(sample, former, top)) {
			sort_sample(sample, top);
			print_table(sample, top);
			fflush(stdout);
		}
	}
}

static void screen_open(struct top *top)
{
	struct termios raw;

	if (!top->is_screen || tcgetattr(STDIN_FILENO, &terminal)) {
		top->is_screen = false;
		return;
	}
	raw = terminal;
	raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
	tcsetattr(STDIN_FILENO, TCSANOW, &raw);
	fputs(ENTER_SCREEN, stdout);
}

static void screen_close(const struct top *top)
{
	if (!top->is_screen)
		return;
	fputs(LEAVE_SCREEN, stdout);
	fflush(stdout);
	tcsetattr(STDIN_FILENO, TCSANOW, &terminal);
}

static int top_run(struct top *top)
{
	static struct sample samples[2];
	struct sigaction action = {.sa_handler = on_signal};
	int now = 0;
	bool is_read;

	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
	is_read = sample_take(&samples[now], &samples[1 - now], top);
	screen_open(top);
	for (unsigned long printed = 0;
	     is_read && !is_ended && (!top->samples || printed < top->samples);) {
		wait_interval(top, &samples[now], &samples[1 - now]);
		if (is_ended)
			break;
		is_read = sample_take(&samples[1 - now], &samples[now], top);
		now = 1 - now;
		if (!is_read)
			break;
		if (top->wants_json)
			print_json_line(&samples[now], top);
		else
			print_table(&samples[now], top);
		/* A reader that has ended, for example head(1), ends this command. */
		if (fflush(stdout))
			break;
		printed++;
	}
	screen_close(top);
	return is_read ? EXIT_SUCCESS : EXIT_FAILURE;
}

static bool parse_seconds(const char *text, double *seconds)
{
	char *end;

	*seconds = strtod(text, &end);
	return end != text && !*end && *seconds >= INTERVAL_MIN_S && *seconds <= INTERVAL_MAX_S;
}

static bool parse_count(const char *text, unsigned long *count)
{
	char *end;

	errno = 0;
	*count = strtoul(text, &end, 10);
	return *text >= '0' && *text <= '9' && !*end && !errno && *count;
}

int command_top(int argc, char **argv)
{
	struct top top = {
		.interval_s = 1,
		.is_screen = isatty(STDIN_FILENO) && isatty(STDOUT_FILENO),
		.sort = SENT,
	};
	bool is_valid = true;

	for (int i = 1; i < argc && is_valid; i++) {
		const char *value = i + 1 < argc ? argv[i + 1] : "";

		if (strcmp(argv[i], "--json") == 0) {
			top.wants_json = true;
			top.is_screen = false;
			continue;
		}
		if (strcmp(argv[i], "--qps") == 0 || strcmp(argv[i], "--devices") == 0) {
			top.view = argv[i][2] == 'q' ? VIEW_QPS : VIEW_DEVICES;
			continue;
		}
		if (strcmp(argv[i], "--interval") == 0)
			is_valid = parse_seconds(value, &top.interval_s);
		else if (strcmp(argv[i], "--count") == 0)
			is_valid = parse_count(value, &top.samples);
		else if (strcmp(argv[i], "--program") == 0 && *value)
			top.filter = value;
		else
			is_valid = false;
		i++;
	}
	if (is_valid)
		return top_run(&top);
	fputs("usrdma: usage: usrdma top [--qps | --devices] [--json] [--interval SECONDS] [--count N] "
	      "[--program NAME]\n",
	      stderr);
	return EXIT_USAGE;
}
