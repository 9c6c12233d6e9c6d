/* SPDX-License-Identifier: BSD-2-Clause */

/*
 * Cases of `sockets`: epoll sets that were nested before the inner one had a socket, and poll(2) on
 * epoll descriptors.
 */

#include "sockets.h"

#include <poll.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define DEPTH 4

static int new_set(void)
{
	int epoll = epoll_create1(EPOLL_CLOEXEC);

	MUST(epoll >= 0);
	return epoll;
}

static int change(int epoll, int op, int fd, uint32_t events)
{
	struct epoll_event event = {.events = events, .data.fd = fd};

	return epoll_ctl(epoll, op, fd, &event);
}

static bool has_event(int epoll, int fd)
{
	struct epoll_event event;

	return epoll_wait(epoll, &event, 1, PATIENCE_MS) == 1 && event.data.fd == fd &&
	       event.events == EPOLLIN;
}

static bool is_quiet(int epoll)
{
	struct epoll_event event;

	return epoll_wait(epoll, &event, 1, 2) == 0;
}

static void close_sets(const int *sets, int count)
{
	for (int i = 0; i < count; i++)
		MUST(!close(sets[i]));
}

/* Two outer sets. In one of them the inner set has a second number, with other data. */
void inner_set_was_added_before_its_first_socket(void)
{
	int outer = new_set(), other = new_set(), inner = new_set(), second = dup(inner), ends[2];

	MUST(second >= 0 && !pipe(ends));
	MUST(!change(outer, EPOLL_CTL_ADD, inner, EPOLLIN));
	MUST(!change(other, EPOLL_CTL_ADD, second, EPOLLIN));
	MUST(!change(inner, EPOLL_CTL_ADD, ends[0], EPOLLIN));
	MUST(!change(inner, EPOLL_CTL_ADD, server, EPOLLIN));
	MUST(change(outer, EPOLL_CTL_ADD, inner, EPOLLIN) == -1 && errno == EEXIST);
	MUST(is_quiet(outer) && is_quiet(other));
	put("x");
	MUST(has_event(outer, inner) && has_event(outer, inner) && has_event(other, second));
	MUST(has_event(inner, server));
	get("x");
	MUST(is_quiet(outer) && is_quiet(other));
	MUST(write(ends[1], "p", 1) == 1);
	MUST(has_event(outer, inner) && has_event(other, second));
	MUST(!epoll_ctl(outer, EPOLL_CTL_DEL, inner, NULL));
	MUST(is_quiet(outer) && has_event(other, second));
	MUST(!close(inner) && has_event(other, second));
	MUST(!close(second) && is_quiet(other));
	close_sets((int[]){outer, other, ends[0], ends[1]}, 4);
}

/*
 * The first socket arrives in the innermost set, then one in the middle. A set is removed from the
 * middle and added again.
 */
void inner_sets_are_nested_before_the_first_socket(void)
{
	int sets[DEPTH], middle = DEPTH / 2;
	char byte;

	for (int i = 0; i < DEPTH; i++) {
		sets[i] = new_set();
		MUST(!i || !change(sets[i - 1], EPOLL_CTL_ADD, sets[i], EPOLLIN));
	}
	MUST(change(sets[DEPTH - 1], EPOLL_CTL_ADD, sets[0], EPOLLIN) == -1 && errno == ELOOP);
	MUST(!change(sets[DEPTH - 1], EPOLL_CTL_ADD, server, EPOLLIN));
	MUST(change(sets[DEPTH - 1], EPOLL_CTL_ADD, sets[0], EPOLLIN) == -1 && errno == ELOOP);
	put("x");
	for (int i = 1; i < DEPTH; i++)
		MUST(has_event(sets[i - 1], sets[i]));
	MUST(has_event(sets[DEPTH - 1], server));
	get("x");
	MUST(is_quiet(sets[0]));
	MUST(!change(sets[middle], EPOLL_CTL_ADD, client, EPOLLIN));
	MUST(send(server, "y", 1, 0) == 1);
	MUST(has_event(sets[0], sets[1]) && has_event(sets[middle], client));
	MUST(is_quiet(sets[DEPTH - 1]));
	MUST(!epoll_ctl(sets[middle - 1], EPOLL_CTL_DEL, sets[middle], NULL) && is_quiet(sets[0]));
	MUST(!change(sets[middle - 1], EPOLL_CTL_ADD, sets[middle], EPOLLIN));
	MUST(has_event(sets[0], sets[1]));
	MUST(!epoll_ctl(sets[middle], EPOLL_CTL_DEL, client, NULL) && is_quiet(sets[0]));
	close_sets(sets, DEPTH);
	MUST(recv(client, &byte, 1, 0) == 1 && byte == 'y');
}

/* The kernel has reported the inner set and disabled it when its first socket is added. */
void inner_one_shot_set_stays_disabled(void)
{
	int outer = new_set(), inner = new_set(), ends[2];
	struct epoll_event events[2];

	MUST(!pipe(ends));
	MUST(!change(inner, EPOLL_CTL_ADD, ends[0], EPOLLIN));
	MUST(!change(outer, EPOLL_CTL_ADD, inner, EPOLLIN | EPOLLONESHOT));
	MUST(write(ends[1], "p", 1) == 1 && has_event(outer, inner) && is_quiet(outer));
	MUST(!change(inner, EPOLL_CTL_ADD, server, EPOLLIN));
	put("x");
	MUST(epoll_wait(inner, events, 2, PATIENCE_MS) >= 1);
	MUST(is_quiet(outer));
	MUST(!change(outer, EPOLL_CTL_MOD, inner, EPOLLIN | EPOLLONESHOT));
	MUST(has_event(outer, inner) && is_quiet(outer));
	get("x");
	MUST(!change(outer, EPOLL_CTL_MOD, inner, EPOLLIN));
	MUST(has_event(outer, inner) && read(ends[0], &(char){0}, 1) == 1 && is_quiet(outer));
	close_sets((int[]){outer, inner, ends[0], ends[1]}, 4);
}

/*
 * The inner set is removed from one outer set, and the other outer set is closed, before the first
 * socket.
 */
void inner_set_leaves_before_its_first_socket(void)
{
	int outer = new_set(), closed = new_set(), inner = new_set();

	MUST(!change(outer, EPOLL_CTL_ADD, inner, EPOLLIN));
	MUST(!change(closed, EPOLL_CTL_ADD, inner, EPOLLIN));
	MUST(!change(outer, EPOLL_CTL_MOD, inner, EPOLLIN | EPOLLET));
	MUST(!epoll_ctl(outer, EPOLL_CTL_DEL, inner, NULL) && !close(closed));
	MUST(epoll_ctl(outer, EPOLL_CTL_DEL, inner, NULL) == -1 && errno == ENOENT);
	MUST(change(outer, EPOLL_CTL_MOD, inner, EPOLLIN) == -1 && errno == ENOENT);
	MUST(!change(inner, EPOLL_CTL_ADD, server, EPOLLIN));
	put("x");
	MUST(is_quiet(outer) && has_event(inner, server));
	MUST(change(outer, EPOLL_CTL_MOD, inner, EPOLLIN) == -1 && errno == ENOENT);
	MUST(!change(outer, EPOLL_CTL_ADD, inner, EPOLLIN) && has_event(outer, inner));
	get("x");
	MUST(!close(outer) && !close(inner));
}

/* Each arrival in the inner set is reported once, of sockets and of other descriptors. */
void inner_edge_triggered_set_reports_each_arrival(void)
{
	int outer = new_set(), inner = new_set(), ends[2];

	MUST(!pipe(ends));
	MUST(!change(outer, EPOLL_CTL_ADD, inner, EPOLLIN | EPOLLET));
	MUST(!change(inner, EPOLL_CTL_ADD, ends[0], EPOLLIN));
	MUST(!change(inner, EPOLL_CTL_ADD, server, EPOLLIN));
	MUST(is_quiet(outer));
	put("x");
	MUST(has_event(outer, inner) && is_quiet(outer));
	put("y");
	MUST(has_event(outer, inner) && is_quiet(outer));
	MUST(write(ends[1], "p", 1) == 1);
	MUST(has_event(outer, inner) && is_quiet(outer));
	get("xy");
	MUST(is_quiet(outer) && has_event(inner, ends[0]));
	put("z");
	MUST(has_event(outer, inner) && is_quiet(outer));
	MUST(!change(outer, EPOLL_CTL_MOD, inner, EPOLLIN | EPOLLET));
	MUST(has_event(outer, inner) && is_quiet(outer));
	MUST(!epoll_ctl(inner, EPOLL_CTL_DEL, ends[0], NULL));
	get("z");
	put("a");
	MUST(has_event(outer, inner) && is_quiet(outer));
	get("a");
	close_sets((int[]){outer, inner, ends[0], ends[1]}, 4);
}

/* Passes a descriptor over a socket to this process, and closes it. Returns its new number. */
static int pass(int fd)
{
	char byte = 0, control[CMSG_SPACE(sizeof(int))] = {0};
	struct iovec iov = {&byte, 1};
	struct msghdr msg = {.msg_iov = &iov,
			     .msg_iovlen = 1,
			     .msg_control = control,
			     .msg_controllen = sizeof(control)};
	struct cmsghdr *cmsg = CMSG_FIRSTHDR(&msg);
	int ends[2], received;

	MUST(!socketpair(AF_UNIX, SOCK_STREAM, 0, ends));
	*cmsg = (struct cmsghdr){.cmsg_len = CMSG_LEN(sizeof(int)),
				 .cmsg_level = SOL_SOCKET,
				 .cmsg_type = SCM_RIGHTS};
	memcpy(CMSG_DATA(cmsg), &fd, sizeof(fd));
	MUST(sendmsg(ends[0], &msg, 0) == 1 && recvmsg(ends[1], &msg, 0) == 1);
	cmsg = CMSG_FIRSTHDR(&msg);
	MUST(cmsg && cmsg->cmsg_type == SCM_RIGHTS);
	memcpy(&received, CMSG_DATA(cmsg), sizeof(received));
	MUST(!close(fd) && !close(ends[0]) && !close(ends[1]));
	return received;
}

void inner_set_was_passed_before_its_first_socket(void)
{
	int outer = pass(new_set()), inner = pass(new_set());

	MUST(!change(outer, EPOLL_CTL_ADD, inner, EPOLLIN));
	MUST(!change(inner, EPOLL_CTL_ADD, server, EPOLLIN));
	put("x");
	MUST(has_event(outer, inner) && has_event(inner, server));
	get("x");
	MUST(is_quiet(outer) && !close(outer) && !close(inner));
}

/*
 * The number of a closed epoll descriptor belongs to a pipe, and then to an epoll descriptor again.
 */
void inner_set_has_the_number_of_a_closed_one(void)
{
	int outer = new_set(), first = new_set(), number = first, ends[2];

	MUST(!close(first) && !pipe(ends));
	MUST(dup2(ends[0], number) == number);
	MUST(!change(outer, EPOLL_CTL_ADD, number, EPOLLIN));
	MUST(write(ends[1], "p", 1) == 1 && has_event(outer, number));
	if (ends[0] != number)
		MUST(!close(ends[0]));
	MUST(!close(number) && !close(ends[1]) && is_quiet(outer));
	first = new_set();
	if (first != number)
		MUST(dup2(first, number) == number && !close(first));
	MUST(!change(outer, EPOLL_CTL_ADD, number, EPOLLIN));
	MUST(!change(number, EPOLL_CTL_ADD, server, EPOLLIN));
	put("x");
	MUST(has_event(outer, number));
	get("x");
	MUST(is_quiet(outer) && !close(outer) && !close(number));
}

static int use_copies(int outer, int inner, const int ends[2])
{
	alarm(PATIENCE_MS / 1000);
	if (write(ends[1], "p", 1) != 1 || !has_event(outer, inner) || !has_event(inner, ends[0]))
		return 1;
	if (read(ends[0], &(char){0}, 1) != 1 || !is_quiet(outer))
		return 2;
	open_pair();
	if (change(inner, EPOLL_CTL_ADD, server, EPOLLIN) || !is_quiet(outer))
		return 3;
	put("x");
	return has_event(outer, inner) && has_event(inner, server) ? 0 : 4;
}

/* Before the first socket of the parent, and after it. The child has sockets of its own. */
void child_uses_its_copies_of_nested_sets(void)
{
	int outer = new_set(), inner = new_set(), ends[2], status;

	MUST(!pipe(ends));
	MUST(!change(inner, EPOLL_CTL_ADD, ends[0], EPOLLIN));
	MUST(!change(outer, EPOLL_CTL_ADD, inner, EPOLLIN));
	for (int round = 0; round < 2; round++) {
		pid_t child = fork();

		MUST(child >= 0);
		if (!child)
			_exit(use_copies(outer, inner, ends));
		MUST(waitpid(child, &status, 0) == child && WIFEXITED(status));
		MUST(!WEXITSTATUS(status));
		if (!round)
			MUST(!change(inner, EPOLL_CTL_ADD, server, EPOLLIN));
		put("x");
		MUST(has_event(outer, inner) && has_event(inner, server));
		get("x");
		MUST(is_quiet(outer));
	}
	close_sets((int[]){outer, inner, ends[0], ends[1]}, 4);
}

void epoll_exclusive_has_the_conditions_of_the_kernel(void)
{
	int epoll = new_set(), inner = new_set();

	MUST(change(epoll, EPOLL_CTL_ADD, inner, EPOLLIN | EPOLLEXCLUSIVE) == -1 &&
	     errno == EINVAL);
	MUST(change(epoll, EPOLL_CTL_ADD, server, EPOLLIN | EPOLLONESHOT | EPOLLEXCLUSIVE) == -1);
	MUST(errno == EINVAL);
	MUST(change(epoll, EPOLL_CTL_MOD, server, EPOLLIN | EPOLLEXCLUSIVE) == -1 &&
	     errno == EINVAL);
	MUST(!change(epoll, EPOLL_CTL_ADD, server, EPOLLIN | EPOLLET | EPOLLEXCLUSIVE));
	MUST(change(epoll, EPOLL_CTL_MOD, server, EPOLLIN | EPOLLEXCLUSIVE) == -1 &&
	     errno == EINVAL);
	MUST(change(epoll, EPOLL_CTL_MOD, server, EPOLLIN) == -1 && errno == EINVAL);
	put("x");
	MUST(has_event(epoll, server));
	MUST(!change(inner, EPOLL_CTL_ADD, client, EPOLLIN));
	MUST(change(epoll, EPOLL_CTL_ADD, inner, EPOLLIN | EPOLLEXCLUSIVE) == -1 &&
	     errno == EINVAL);
	get("x");
	MUST(!close(epoll) && !close(inner));
}

static int poll_now(int fd, short events)
{
	struct pollfd pollfd = {.fd = fd, .events = events};
	int ret = poll(&pollfd, 1, 0);

	MUST(ret >= 0 && ret == (pollfd.revents != 0));
	return pollfd.revents;
}

/*
 * Among other descriptors, with a socket that is edge-triggered, and in a set that contains the
 * descriptor.
 */
void poll_reports_an_epoll_descriptor_with_sockets(void)
{
	int epoll = new_set(), outer = new_set();
	struct pollfd fds[] = {{.fd = epoll, .events = POLLIN},
			       {.fd = server, .events = POLLIN},
			       {.fd = outer, .events = POLLIN},
			       {.fd = client, .events = POLLOUT},
			       {.fd = epoll, .events = POLLOUT}};
	fd_set in;

	MUST(!change(outer, EPOLL_CTL_ADD, epoll, EPOLLIN));
	MUST(!change(epoll, EPOLL_CTL_ADD, server, EPOLLIN | EPOLLET));
	MUST(!poll_now(epoll, POLLIN | POLLOUT) && !poll_now(outer, POLLIN));
	MUST(poll(fds, 5, PATIENCE_MS) == 1 && fds[3].revents == POLLOUT);
	put("x");
	MUST(poll(fds, 3, PATIENCE_MS) >= 1);
	MUST(poll(fds, 5, PATIENCE_MS) == 4 && fds[0].revents == POLLIN && !fds[4].revents);
	MUST(fds[1].revents == POLLIN && fds[2].revents == POLLIN && fds[3].revents == POLLOUT);
	MUST(!poll_now(epoll, POLLOUT) && !poll_now(epoll, 0));
	MUST(poll_now(epoll, POLLRDNORM) == POLLRDNORM);
	FD_ZERO(&in);
	FD_SET(outer, &in);
	MUST(select(outer + 1, &in, NULL, NULL, NULL) == 1 && FD_ISSET(outer, &in));
	MUST(has_event(epoll, server) && !poll_now(epoll, POLLIN) && !poll_now(outer, POLLIN));
	put("y");
	fds[1].fd = -1;
	MUST(poll(fds, 2, PATIENCE_MS) == 1 && fds[0].revents == POLLIN);
	get("xy");
	MUST(!close(epoll) && !close(outer));
}
