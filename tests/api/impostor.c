/* SPDX-License-Identifier: BSD-2-Clause */
#include "impostor.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

/* Internal header: the format of the daemon's error reply is not public. */
#include "../../src/ipc/msg.h"

static void turn_away(int fd, int status)
{
	struct ipc_hello hello;
	struct ipc_hdr no;

	if (recv(fd, &hello, sizeof(hello), 0) < (ssize_t)sizeof(hello.hdr))
		return;
	no = (struct ipc_hdr){
		.type = hello.hdr.type, .seq = hello.hdr.seq, .status = status, .len = sizeof(no)};
	(void)send(fd, &no, sizeof(no), MSG_NOSIGNAL);
}

static void *run(void *arg)
{
	struct impostor *impostor = arg;
	int fd;

	while ((fd = accept(impostor->listener, NULL, NULL)) >= 0) {
		turn_away(fd, impostor->status);
		close(fd);
	}
	return NULL;
}

void impostor_start(struct impostor *impostor, int status)
{
	struct sockaddr_un name = {.sun_family = AF_UNIX, .sun_path = "\0" IPC_NAME};
	socklen_t name_bytes =
		(socklen_t)(offsetof(struct sockaddr_un, sun_path) + sizeof(IPC_NAME));

	impostor->status = status;
	impostor->listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	assert_true(impostor->listener >= 0);
	assert_int_equal(bind(impostor->listener, (struct sockaddr *)&name, name_bytes), 0);
	assert_int_equal(listen(impostor->listener, 8), 0);
	assert_int_equal(pthread_create(&impostor->thread, NULL, run, impostor), 0);
}

void impostor_stop(struct impostor *impostor)
{
	shutdown(impostor->listener, SHUT_RDWR);
	assert_int_equal(pthread_join(impostor->thread, NULL), 0);
	close(impostor->listener);
}
