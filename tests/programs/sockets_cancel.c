/* SPDX-License-Identifier: BSD-2-Clause */

/*
 * Cases of `sockets`: threads that are cancelled in blocking calls while another thread uses
 * sockets.
 */

#include "sockets.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#define ROUNDS 5

static atomic_int victim;
static atomic_bool is_over;
static atomic_ulong turns;

static void *read_byte(void *arg)
{
	char byte;

	(void)arg;
	victim = (int)syscall(SYS_gettid);
	(void)!read(server, &byte, 1);
	return NULL;
}

static void *receive_message(void *arg)
{
	char byte;
	struct iovec iov = {.iov_base = &byte, .iov_len = 1};
	struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};

	(void)arg;
	victim = (int)syscall(SYS_gettid);
	(void)!recvmsg(server, &msg, 0);
	return NULL;
}

static void *poll_server(void *arg)
{
	struct pollfd pollfd = {.fd = server, .events = POLLIN};

	(void)arg;
	victim = (int)syscall(SYS_gettid);
	poll(&pollfd, 1, -1);
	return NULL;
}

static void *select_server(void *arg)
{
	fd_set in;

	(void)arg;
	victim = (int)syscall(SYS_gettid);
	FD_ZERO(&in);
	FD_SET(server, &in);
	select(server + 1, &in, NULL, NULL, NULL);
	return NULL;
}

static int epoll = -1;

static void *epoll_server(void *arg)
{
	struct epoll_event event;

	(void)arg;
	victim = (int)syscall(SYS_gettid);
	epoll_wait(epoll, &event, 1, -1);
	return NULL;
}

static void *accept_one(void *arg)
{
	(void)arg;
	victim = (int)syscall(SYS_gettid);
	accept(listener, NULL, NULL);
	return NULL;
}

/* Sends until the socket's buffers are full. */
static void *send_all(void *arg)
{
	static const char bytes[1 << 16];

	(void)arg;
	victim = (int)syscall(SYS_gettid);
	while (write(client, bytes, sizeof(bytes)) > 0)
		;
	return NULL;
}

static void *send_until_cancelled(void *arg)
{
	static const char bytes[1000];

	MUST(!pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL));
	victim = (int)syscall(SYS_gettid);
	while (write(client, bytes, sizeof(bytes)) > 0)
		;
	return arg;
}

/* Reads until `last` was received. */
static void read_up_to(char last)
{
	char bytes[1000];
	ssize_t count;

	do {
		count = read(server, bytes, sizeof(bytes));
		MUST(count > 0);
	} while (bytes[count - 1] != last);
}

/*
 * iperf3 cancels its threads in this way. A system call of the kernel leaves no lock held when its
 * thread ends.
 */
static void cancelled_anywhere(void)
{
	for (int round = 0; round < 20 * ROUNDS; round++) {
		pthread_t thread;
		char bytes[1000];

		victim = 0;
		MUST(!pthread_create(&thread, NULL, send_until_cancelled, NULL));
		while (!victim)
			usleep(100);
		for (int i = 0; i < round; i++)
			MUST(read(server, bytes, sizeof(bytes)) > 0);
		MUST(!pthread_cancel(thread) && !pthread_join(thread, NULL));
		while (send(client, "x", 1, MSG_DONTWAIT) < 0) {
			MUST(errno == EAGAIN);
			(void)!recv(server, bytes, sizeof(bytes), MSG_DONTWAIT);
		}
		read_up_to('x');
	}
}

static void close_number(void *number)
{
	close(*(int *)number);
}

/* Runs until the thread is cancelled in any of these calls. */
static void *connect_again_and_again(void *arg)
{
	struct sockaddr_storage addr;
	socklen_t bytes = sizeof(addr);

	(void)arg;
	getsockname(listener, (struct sockaddr *)&addr, &bytes);
	victim = (int)syscall(SYS_gettid);
	while (true) {
		int fd = socket(AF_INET, SOCK_STREAM, 0);

		pthread_cleanup_push(close_number, &fd);
		connect(fd, (struct sockaddr *)&addr, bytes);
		pthread_testcancel();
		pthread_cleanup_pop(1);
	}
	return NULL;
}

/* The concurrent thread: opens, polls and closes sockets. */
static void *go_on(void *arg)
{
	(void)arg;
	while (!is_over) {
		int fd = socket(AF_INET, SOCK_STREAM, 0), set = epoll_create1(EPOLL_CLOEXEC);
		struct epoll_event event = {.events = EPOLLOUT};
		struct pollfd pollfd = {.fd = fd, .events = POLLOUT};

		MUST(fd >= 0 && set >= 0);
		MUST(!epoll_ctl(set, EPOLL_CTL_ADD, fd, &event));
		MUST(epoll_wait(set, &event, 1, PATIENCE_MS) == 1);
		MUST(poll(&pollfd, 1, PATIENCE_MS) == 1);
		MUST(!close(fd) && !close(set));
		turns++;
	}
	return NULL;
}

static void others_go_on(void)
{
	unsigned long before = turns;

	while (turns < before + 2)
		usleep(100);
}

static void start_and_cancel(void *(*body)(void *), bool sleeps)
{
	pthread_t thread;
	void *result;

	victim = 0;
	MUST(!pthread_create(&thread, NULL, body, NULL));
	while (!victim || (sleeps && !is_asleep(victim)))
		usleep(100);
	MUST(!pthread_cancel(thread));
	MUST(!pthread_join(thread, &result) && result == PTHREAD_CANCELED);
	others_go_on();
}

static void cancelled_in(void *(*body)(void *))
{
	for (int round = 0; round < ROUNDS; round++) {
		start_and_cancel(body, true);
		put("x");
		get("x");
	}
}

static void cancelled_in_accept(void)
{
	struct sockaddr_storage addr;
	socklen_t bytes = sizeof(addr);

	MUST(!getsockname(listener, (struct sockaddr *)&addr, &bytes));
	for (int round = 0; round < ROUNDS; round++) {
		int active = socket(AF_INET, SOCK_STREAM, 0), passive;

		start_and_cancel(accept_one, true);
		MUST(!connect(active, (struct sockaddr *)&addr, bytes));
		passive = accept(listener, NULL, NULL);
		MUST(passive >= 0 && !close(active) && !close(passive));
	}
}

static void *accept_all(void *arg)
{
	(void)arg;
	while (!is_over) {
		struct pollfd pollfd = {.fd = listener, .events = POLLIN};
		int fd = poll(&pollfd, 1, 10) == 1 ? accept(listener, NULL, NULL) : -1;

		if (fd >= 0)
			close(fd);
	}
	return NULL;
}

static void cancelled_in_connect(void)
{
	pthread_t acceptor;

	MUST(!pthread_create(&acceptor, NULL, accept_all, NULL));
	for (int round = 0; round < ROUNDS; round++)
		start_and_cancel(connect_again_and_again, false);
	is_over = true;
	MUST(!pthread_join(acceptor, NULL));
}

static int open_numbers(void)
{
	DIR *dir = opendir("/proc/self/fd");
	int count = 0;

	MUST(dir);
	while (readdir(dir))
		count++;
	closedir(dir);
	return count;
}

static void cancel_in_calls_that_receive(void)
{
	struct epoll_event event = {.events = EPOLLIN};

	cancelled_in(read_byte);
	cancelled_in(receive_message);
	cancelled_in(poll_server);
	cancelled_in(select_server);
	epoll = epoll_create1(EPOLL_CLOEXEC);
	MUST(!epoll_ctl(epoll, EPOLL_CTL_ADD, server, &event));
	cancelled_in(epoll_server);
	MUST(!close(epoll));
	cancelled_in_accept();
}

void threads_are_cancelled(void)
{
	pthread_t other;
	int before = 0;

	is_over = false;
	alarm(6 * PATIENCE_MS / 1000);
	MUST(!pthread_create(&other, NULL, go_on, NULL));
	/*
	 * The first pass opens the few descriptors that the libraries keep. In the second pass no
	 * round may leave a descriptor.
	 */
	for (int time = 0; time < 2; time++) {
		cancel_in_calls_that_receive();
		is_over = true;
		MUST(!pthread_join(other, NULL));
		MUST(!time || open_numbers() < before + ROUNDS);
		before = open_numbers();
		is_over = false;
		MUST(!pthread_create(&other, NULL, go_on, NULL));
	}
	cancelled_anywhere();
	start_and_cancel(send_all, true);
	/* There may be room for a byte. The test is that the call returns. */
	MUST(send(client, "x", 1, MSG_DONTWAIT) == 1 || errno == EAGAIN);
	cancelled_in_connect();
	MUST(!pthread_join(other, NULL));
	alarm(0);
}
