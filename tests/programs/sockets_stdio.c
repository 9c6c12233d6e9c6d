/* SPDX-License-Identifier: BSD-2-Clause */

/* Cases of `sockets`: stdio streams over sockets, and the end of a program that uses them. */

#include "sockets.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/*
 * A socket is not seekable, so fflush() keeps the input that the program has not read (fflush(3)).
 */
void fflush_keeps_unread_input_of_a_socket(void)
{
	FILE *file = fdopen(dup(client), "r+");
	char line[64];

	MUST(file);
	MUST(write(server, "first\nsecond\n", 13) == 13);
	MUST(fgets(line, sizeof(line), file) && !strcmp(line, "first\n"));
	MUST(!fflush(file));
	MUST(fgets(line, sizeof(line), file) && !strcmp(line, "second\n"));
	MUST(fputs("request\n", file) >= 0 && !fflush(file));
	get("request\n");
	MUST(ftell(file) == -1 && errno == ESPIPE);
	MUST(!fclose(file));
}

static pid_t input_reader;

static void *read_input(void *arg)
{
	char line[64];

	(void)arg;
	__atomic_store_n(&input_reader, (pid_t)syscall(SYS_gettid), __ATOMIC_RELEASE);
	/* stdin has no data: exit() ends the thread. */
	return fgets(line, sizeof(line), stdin);
}

void exit_with_buffered_data(const char *port)
{
	struct sockaddr_in addr = {.sin_family = AF_INET,
				   .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
				   .sin_port = htons((uint16_t)atoi(port))};
	int ends[2], fd = socket(AF_INET, SOCK_STREAM, 0);
	pthread_t thread;
	FILE *file;

	running = "exit with buffered data";
	alarm(PATIENCE_MS / 1000);
	MUST(fd >= 0 && !connect(fd, (struct sockaddr *)&addr, sizeof(addr)));
	file = fdopen(fd, "w");
	MUST(file && fputs("last words", file) >= 0);
	MUST(!pipe(ends) && dup2(ends[0], STDIN_FILENO) == STDIN_FILENO);
	MUST(!pthread_create(&thread, NULL, read_input, NULL));
	while (!__atomic_load_n(&input_reader, __ATOMIC_ACQUIRE) || !is_asleep(input_reader))
		usleep(1000);
	exit(0);
}

/*
 * exit() writes the buffered data of streams, and does not wait for a thread that is blocked in a
 * read of another stream.
 */
void exit_writes_streams_while_a_thread_reads(void)
{
	struct sockaddr_in addr;
	socklen_t bytes = sizeof(addr);
	char port[16], text[16] = "";
	ssize_t count = 0, ret;
	int accepted, status;
	pid_t pid;

	MUST(!getsockname(listener, (struct sockaddr *)&addr, &bytes));
	snprintf(port, sizeof(port), "%d", ntohs(addr.sin_port));
	pid = fork();
	MUST(pid >= 0);
	if (!pid) {
		execl("/proc/self/exe", "sockets", "--exit", port, NULL);
		_exit(1);
	}
	accepted = accept(listener, NULL, NULL);
	MUST(accepted >= 0);
	while ((ret = read(accepted, text + count, sizeof(text) - (size_t)count)) > 0)
		count += ret;
	MUST(waitpid(pid, &status, 0) == pid && WIFEXITED(status) && !WEXITSTATUS(status));
	MUST(!ret && count == 10 && !memcmp(text, "last words", 10));
	MUST(!close(accepted));
}
