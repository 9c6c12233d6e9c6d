/* SPDX-License-Identifier: BSD-2-Clause */

/*
 * A TCP program without any use of RDMA. It makes the calls that programs make on sockets and
 * expects the results of the kernel's TCP. The test runs it with and without librspreload.
 *
 *     sockets [CASE]     prints "CASE: good" for each case that succeeds, and ends at the first
 *                        that fails
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/select.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sockets.h"

const char *running;
int listener;
int client;
int server;

void open_pair(void)
{
	struct sockaddr_in addr = {.sin_family = AF_INET,
				   .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t bytes = sizeof(addr);
	int on = 1;

	listener = socket(AF_INET, SOCK_STREAM, 0);
	MUST(listener >= 0);
	MUST(!setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)));
	MUST(!bind(listener, (struct sockaddr *)&addr, sizeof(addr)));
	MUST(!listen(listener, 4));
	MUST(!getsockname(listener, (struct sockaddr *)&addr, &bytes));
	client = socket(AF_INET, SOCK_STREAM, 0);
	MUST(client >= 0);
	MUST(!connect(client, (struct sockaddr *)&addr, sizeof(addr)));
	server = accept(listener, NULL, NULL);
	MUST(server >= 0);
	MUST(!setsockopt(client, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)));
	MUST(!setsockopt(server, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)));
}

static void close_pair(void)
{
	MUST(!close(client));
	MUST(!close(server));
	MUST(!close(listener));
}

/* Waits until this many bytes can be read. */
static void await_bytes(int fd, int wanted)
{
	struct pollfd pollfd = {.fd = fd, .events = POLLIN};
	int there = 0;

	for (int tries = 0; there < wanted && tries < PATIENCE_MS; tries++) {
		MUST(poll(&pollfd, 1, PATIENCE_MS) == 1);
		MUST(!ioctl(fd, FIONREAD, &there));
		if (there < wanted)
			usleep(1000);
	}
	MUST(there == wanted);
}

void put(const char *text)
{
	MUST(write(client, text, strlen(text)) == (ssize_t)strlen(text));
}

void get(const char *text)
{
	char buf[256];
	size_t wanted = strlen(text);

	MUST(recv(server, buf, wanted, MSG_WAITALL) == (ssize_t)wanted);
	MUST(!memcmp(buf, text, wanted));
}

static void flags_and_kinds(void)
{
	struct stat stat;
	int on = 1;
	char byte;

	MUST(!fstat(client, &stat) && S_ISSOCK(stat.st_mode));
	MUST(lseek(client, 0, SEEK_CUR) == -1 && errno == ESPIPE);
	MUST(lseek64(client, 0, SEEK_CUR) == -1 && errno == ESPIPE);
	MUST(!(fcntl(client, F_GETFL) & O_NONBLOCK));
	MUST(!ioctl(server, FIONBIO, &on));
	MUST(fcntl(server, F_GETFL) & O_NONBLOCK);
	MUST(read(server, &byte, 1) == -1 && errno == EAGAIN);
	MUST(!fcntl(server, F_SETFL, fcntl(server, F_GETFL) & ~O_NONBLOCK));
	MUST(fcntl(client, F_GETFD) == 0);
	MUST(!fcntl(client, F_SETFD, FD_CLOEXEC));
	MUST(fcntl(client, F_GETFD) == FD_CLOEXEC);
	MUST(!ioctl(client, FIONCLEX) && fcntl(client, F_GETFD) == 0);
}

static void accept_with_flags(void)
{
	struct sockaddr_in addr, peer;
	socklen_t bytes = sizeof(addr);
	int other = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
	struct pollfd pollfd = {.fd = other, .events = POLLOUT};
	int accepted, error = -1;

	MUST(!getsockname(listener, (struct sockaddr *)&addr, &bytes));
	MUST(connect(other, (struct sockaddr *)&addr, sizeof(addr)) == 0 || errno == EINPROGRESS);
	accepted = accept4(listener, (struct sockaddr *)&peer, &bytes,
			   SOCK_NONBLOCK | SOCK_CLOEXEC);
	MUST(accepted >= 0 && bytes == sizeof(peer));
	MUST(fcntl(accepted, F_GETFL) & O_NONBLOCK && fcntl(accepted, F_GETFD) == FD_CLOEXEC);
	MUST(poll(&pollfd, 1, PATIENCE_MS) == 1 && pollfd.revents == POLLOUT);
	bytes = sizeof(error);
	MUST(!getsockopt(other, SOL_SOCKET, SO_ERROR, &error, &bytes) && !error);
	bytes = sizeof(addr);
	MUST(!getsockname(other, (struct sockaddr *)&addr, &bytes));
	MUST(addr.sin_port == peer.sin_port);
	close(other);
	close(accepted);
}

static void nobody_listens(void)
{
	struct sockaddr_in addr = {.sin_family = AF_INET,
				   .sin_port = htons(1),
				   .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	MUST(connect(fd, (struct sockaddr *)&addr, sizeof(addr)) == -1 && errno == ECONNREFUSED);
	close(fd);
}

static void transfers_of_all_sorts(void)
{
	struct iovec iov[] = {{"ab", 2}, {"cde", 3}};
	struct msghdr msg = {.msg_iov = iov, .msg_iovlen = 2};
	struct mmsghdr msgs[2] = {{.msg_hdr = msg}, {.msg_hdr = msg}};
	char first[3], second[8];
	struct iovec in[] = {{first, 3}, {second, 7}};

	MUST(writev(client, iov, 2) == 5);
	MUST(sendmsg(client, &msg, 0) == 5);
	MUST(sendmmsg(client, msgs, 2, 0) == 2 && msgs[1].msg_len == 5);
	await_bytes(server, 20);
	MUST(readv(server, in, 2) == 10 && !memcmp(first, "abc", 3) &&
	     !memcmp(second, "deabcde", 7));
	MUST(recv(server, second, 5, MSG_PEEK) == 5);
	get("abcdeabcde");
	MUST(send(client, "x", 1, MSG_NOSIGNAL) == 1);
	get("x");
	dprintf(client, "%d-%s", 42, "z");
	get("42-z");
}

static void duplicates_are_one(void)
{
	int second = dup(client), third = fcntl(client, F_DUPFD_CLOEXEC, 100);
	int spare = open("/dev/null", O_RDONLY);

	MUST(second >= 0 && third >= 100);
	MUST(fcntl(third, F_GETFD) >= 0);
	MUST(write(second, "1", 1) == 1 && write(third, "2", 1) == 1);
	get("12");
	MUST(!close(client));
	MUST(write(second, "3", 1) == 1);
	get("3");
	/* Replaces a descriptor that is in use. */
	MUST(dup2(second, spare) == spare && write(spare, "4", 1) == 1);
	get("4");
	MUST(dup3(second, spare, O_CLOEXEC) == spare && dup2(second, second) == second);
	MUST(!close(second) && !close(third));
	client = spare;
	put("5");
	get("5");
	MUST(dup2(-1, client) == -1 && errno == EBADF);
	put("6");
	get("6");
}

static void streams_of_the_library(void)
{
	FILE *in = fdopen(dup(server), "r"), *out = fdopen(dup(client), "w");
	char line[64];

	MUST(in && out);
	MUST(fileno(in) >= 0 && fileno(in) != server);
	fprintf(out, "first\nsecond %d\n", 2);
	MUST(!fflush(out));
	MUST(fgets(line, sizeof(line), in) && !strcmp(line, "first\n"));
	MUST(fgets(line, sizeof(line), in) && !strcmp(line, "second 2\n"));
	MUST(!fclose(out));
	MUST(!shutdown(client, SHUT_WR));
	MUST(!fgets(line, sizeof(line), in) && feof(in));
	MUST(!fclose(in));
}

static void files_are_sent(void)
{
	enum { BYTES = 300000 };
	FILE *file = tmpfile();
	char *bytes = malloc(BYTES), *got = malloc(BYTES);
	off_t offset = 100;
	size_t done = 0;

	MUST(file && bytes && got);
	for (int i = 0; i < BYTES; i++)
		bytes[i] = (char)(i * 7 + i / 255);
	MUST(fwrite(bytes, 1, BYTES, file) == BYTES && !fflush(file));
	MUST(!fcntl(client, F_SETFL, O_NONBLOCK));
	while (done < BYTES - 100) {
		ssize_t ret = sendfile(client, fileno(file), &offset, BYTES);

		MUST(ret > 0 || errno == EAGAIN);
		while ((ret = recv(server, got + done, BYTES - done, MSG_DONTWAIT)) > 0)
			done += (size_t)ret;
		MUST(ret < 0 && errno == EAGAIN);
	}
	MUST(offset == BYTES && !memcmp(got, bytes + 100, BYTES - 100));
	/* Without an offset sendfile() advances the file's own position. */
	MUST(lseek(fileno(file), 10, SEEK_SET) == 10);
	MUST(sendfile(client, fileno(file), NULL, 20) == 20);
	MUST(lseek(fileno(file), 0, SEEK_CUR) == 30);
	MUST(recv(server, got, 20, MSG_WAITALL) == 20 && !memcmp(got, bytes + 10, 20));
	fclose(file);
	free(bytes);
	free(got);
}

static void waiting_by_sets(void)
{
	struct timeval time = {.tv_usec = 1000};
	struct timespec brief = {.tv_nsec = 1000000};
	sigset_t none;
	fd_set in, out;

	sigemptyset(&none);
	FD_ZERO(&in);
	FD_SET(server, &in);
	MUST(select(server + 1, &in, NULL, NULL, &time) == 0 && !FD_ISSET(server, &in));
	FD_ZERO(&out);
	FD_SET(client, &out);
	MUST(select(client + 1, NULL, &out, NULL, NULL) == 1 && FD_ISSET(client, &out));
	put("x");
	FD_SET(server, &in);
	MUST(select(server + 1, &in, NULL, NULL, NULL) == 1 && FD_ISSET(server, &in));
	get("x");
	FD_ZERO(&in);
	FD_SET(server, &in);
	MUST(pselect(server + 1, &in, NULL, NULL, &brief, &none) == 0);
}

static void waiting_by_poll(void)
{
	struct pollfd fds[] = {{.fd = server, .events = POLLIN | POLLRDHUP},
			       {.fd = client, .events = POLLOUT},
			       {.fd = -1, .events = POLLIN}};
	struct timespec brief = {.tv_nsec = 1000000};
	sigset_t none;

	sigemptyset(&none);
	MUST(poll(fds, 1, 1) == 0);
	MUST(poll(fds, 3, PATIENCE_MS) == 1 && fds[1].revents == POLLOUT && !fds[0].revents);
	MUST(ppoll(fds, 1, &brief, &none) == 0);
	put("x");
	MUST(ppoll(fds, 1, NULL, &none) == 1 && fds[0].revents == POLLIN);
	get("x");
	MUST(!shutdown(client, SHUT_WR));
	MUST(poll(fds, 1, PATIENCE_MS) == 1 && fds[0].revents == (POLLIN | POLLRDHUP));
}

static volatile sig_atomic_t interruptions;

static void interrupt(int number)
{
	(void)number;
	interruptions++;
}

/* Raises a blocked signal, which is delivered when the call unblocks it and sleeps. */
static void signal_later(sigset_t *unblocked)
{
	sigset_t blocked;

	interruptions = 0;
	signal(SIGUSR1, interrupt);
	sigemptyset(&blocked);
	sigaddset(&blocked, SIGUSR1);
	MUST(!sigprocmask(SIG_BLOCK, &blocked, unblocked));
	sigdelset(unblocked, SIGUSR1);
	MUST(!raise(SIGUSR1) && !interruptions);
}

/* Programs use the signal mask of ppoll() and the like to wait for a signal only. */
static void masks_let_signals_through(void)
{
	struct pollfd pollfd = {.fd = server, .events = POLLIN};
	struct epoll_event event = {.events = EPOLLIN, .data.fd = server};
	const struct timespec limit = {.tv_sec = PATIENCE_MS / 1000};
	int epoll = epoll_create1(0);
	sigset_t mask;
	fd_set in;

	signal_later(&mask);
	MUST(ppoll(&pollfd, 1, &limit, &mask) == -1 && errno == EINTR && interruptions == 1);
	MUST(!sigprocmask(SIG_BLOCK, NULL, &mask) && sigismember(&mask, SIGUSR1));
	signal_later(&mask);
	FD_ZERO(&in);
	FD_SET(server, &in);
	MUST(pselect(server + 1, &in, NULL, NULL, &limit, &mask) == -1 && errno == EINTR &&
	     interruptions == 1);
	MUST(!epoll_ctl(epoll, EPOLL_CTL_ADD, server, &event));
	signal_later(&mask);
	MUST(epoll_pwait(epoll, &event, 1, PATIENCE_MS, &mask) == -1 && errno == EINTR &&
	     interruptions == 1);
	/* Available data has precedence, and the signal stays pending. */
	put("x");
	await_bytes(server, 1);
	signal_later(&mask);
	MUST(epoll_pwait(epoll, &event, 1, PATIENCE_MS, &mask) == 1 && event.data.fd == server);
	get("x");
	MUST(!sigprocmask(SIG_SETMASK, &mask, NULL) && interruptions == 1);
	close(epoll);
}

static void ranges_are_closed(void)
{
	int high = fcntl(client, F_DUPFD, 200);
	char byte;

	MUST(high >= 200);
	MUST(!close(client));
	MUST(write(high, "x", 1) == 1);
	get("x");
	MUST(!close_range(200, 300, 0));
	MUST(write(high, "x", 1) == -1 && errno == EBADF);
	MUST(read(server, &byte, 1) == 0);
	client = socket(AF_INET, SOCK_STREAM, 0);
}

static void a_number_is_used_again(void)
{
	int number = client;
	int file;

	MUST(!close(client));
	file = open("/dev/zero", O_RDONLY);
	MUST(dup2(file, number) == number);
	MUST(read(number, &(char){1}, 1) == 1);
	if (file != number)
		close(file);
	MUST(read(server, &(char){0}, 1) == 0);
}

static pid_t reader;

static void *read_one(void *arg)
{
	char *byte = arg;

	__atomic_store_n(&reader, (pid_t)syscall(SYS_gettid), __ATOMIC_RELEASE);
	MUST(read(server, byte, 1) == 1);
	return NULL;
}

bool is_asleep(pid_t thread)
{
	char path[64], line[256] = "", *state;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/self/task/%d/stat", (int)thread);
	file = fopen(path, "re");
	MUST(file && fgets(line, sizeof(line), file));
	fclose(file);
	state = strrchr(line, ')');
	return state && state[2] == 'S';
}

/* A child can close a descriptor on which a thread of its parent is blocked. */
static void a_child_closes_what_a_thread_reads(void)
{
	pthread_t thread;
	int status;
	char byte;
	pid_t pid;

	MUST(!pthread_create(&thread, NULL, read_one, &byte));
	while (!__atomic_load_n(&reader, __ATOMIC_ACQUIRE) || !is_asleep(reader))
		usleep(1000);
	pid = fork();
	MUST(pid >= 0);
	if (!pid) {
		alarm(PATIENCE_MS / 1000);
		_exit(close(server) || close(client) || close(listener));
	}
	MUST(waitpid(pid, &status, 0) == pid && WIFEXITED(status) && !WEXITSTATUS(status));
	put("x");
	MUST(!pthread_join(thread, NULL) && byte == 'x');
}

struct socket_case {
	const char *name;
	void (*run)(void);
};

static const struct socket_case cases[] = {
	{"flags and kinds", flags_and_kinds},
	{"accept with flags", accept_with_flags},
	{"without a listener", nobody_listens},
	{"transfers of all sorts", transfers_of_all_sorts},
	{"duplicates are one", duplicates_are_one},
	{"streams of the library", streams_of_the_library},
	{"files are sent", files_are_sent},
	{"waiting by sets", waiting_by_sets},
	{"sets and times of programs", sets_and_times_of_programs},
	{"interfaces are asked for", interfaces_are_asked_for},
	{"what programs say for nothing", what_programs_say_for_nothing},
	{"waiting by poll", waiting_by_poll},
	{"waiting by epoll", waiting_by_epoll},
	{"edges and single shots", edges_and_single_shots},
	{"masks let signals through", masks_let_signals_through},
	{"ranges are closed", ranges_are_closed},
	{"a number is used again", a_number_is_used_again},
	{"system call close ends the connection", system_call_close_ends_the_connection},
	{"number closed unseen belongs to its next descriptor",
	 number_closed_unseen_belongs_to_its_next_descriptor},
	{"a child closes what a thread reads", a_child_closes_what_a_thread_reads},
	{"two numbers in one set", two_numbers_in_one_set},
	{"a member that is added wakes a waiting thread",
	 a_member_that_is_added_wakes_a_waiting_thread},
	{"a child uses its copy of a set", a_child_uses_its_copy_of_a_set},
	{"threads are cancelled", threads_are_cancelled},
	{"epoll adds a second number after close of the first",
	 epoll_adds_second_number_after_close_of_first},
	{"duplicates of an epoll descriptor are one set",
	 duplicates_of_an_epoll_descriptor_are_one_set},
	{"two threads add the first sockets of a set", two_threads_add_the_first_sockets_of_a_set},
	{"epoll_wait refuses invalid arguments", epoll_wait_refuses_invalid_arguments},
	{"epoll reports a hang-up that was not requested",
	 epoll_reports_a_hang_up_that_was_not_requested},
	{"an epoll set is a member of a set", epoll_set_is_a_member_of_a_set},
	{"an epoll set gets its first socket in a set", epoll_set_gets_its_first_socket_in_a_set},
	{"the first socket wakes a thread that waits", first_socket_wakes_a_thread_that_waits},
	{"the first socket wakes all threads that wait", first_socket_wakes_all_threads_that_wait},
	{"the first socket and a pipe are reported", first_socket_and_a_pipe_are_reported},
	{"the first socket after a cancelled wait", first_socket_after_a_cancelled_wait},
	{"the first socket of a set that a child has", first_socket_of_a_set_that_a_child_has},
	{"the first socket of an inner set wakes a thread that waits",
	 first_socket_of_an_inner_set_wakes_a_thread_that_waits},
	{"an inner set was added before its first socket",
	 inner_set_was_added_before_its_first_socket},
	{"inner sets are nested before the first socket",
	 inner_sets_are_nested_before_the_first_socket},
	{"an inner one-shot set stays disabled", inner_one_shot_set_stays_disabled},
	{"an inner edge-triggered set reports each arrival",
	 inner_edge_triggered_set_reports_each_arrival},
	{"an inner set was passed before its first socket",
	 inner_set_was_passed_before_its_first_socket},
	{"an inner set has the number of a closed one", inner_set_has_the_number_of_a_closed_one},
	{"a child uses its copies of nested sets", child_uses_its_copies_of_nested_sets},
	{"an inner set leaves before its first socket", inner_set_leaves_before_its_first_socket},
	{"EPOLLEXCLUSIVE has the conditions of the kernel",
	 epoll_exclusive_has_the_conditions_of_the_kernel},
	{"poll reports an epoll descriptor with sockets",
	 poll_reports_an_epoll_descriptor_with_sockets},
	{"fallback to TCP adds no reused number", fallback_to_tcp_adds_no_reused_number},
	{"a one-shot member stays disabled when its socket changes",
	 one_shot_member_stays_disabled_when_its_socket_changes},
	{"fflush keeps unread input of a socket", fflush_keeps_unread_input_of_a_socket},
#if !__GLIBC_PREREQ(2, 41)
	/* exit() of newer versions waits for the thread, whose stream is locked. */
	{"exit writes streams while a thread reads", exit_writes_streams_while_a_thread_reads},
#endif
};

/*
 * These cases run only if they are named. They need sockets that a child can use: TCP or
 * RDMAV_FORK_SAFE.
 */
static const struct socket_case named_cases[] = {
	{"a child gets events of a socket that it changes",
	 child_gets_events_of_a_socket_that_it_changes},
};

static void run_case(const struct socket_case *one)
{
	running = one->name;
	open_pair();
	one->run();
	close_pair();
	printf("%s: good\n", running);
	fflush(stdout);
}

int main(int argc, char **argv)
{
	signal(SIGPIPE, SIG_IGN);
	if (argc > 2 && !strcmp(argv[1], "--exit"))
		exit_with_buffered_data(argv[2]);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		if (argc < 2 || !strcmp(argv[1], cases[i].name))
			run_case(&cases[i]);
	for (size_t i = 0; i < sizeof(named_cases) / sizeof(named_cases[0]); i++)
		if (argc > 1 && !strcmp(argv[1], named_cases[i].name))
			run_case(&named_cases[i]);
	return 0;
}
