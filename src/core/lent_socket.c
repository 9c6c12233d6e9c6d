/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/lent_socket.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/log.h"

void lent_socket_leave(int fd)
{
	int deaf;

	if (fd < 0)
		return;
	deaf = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (deaf < 0 || dup3(deaf, fd, O_CLOEXEC) < 0)
		log_warn("a socket of the dead daemon's stays on port 4791: %m");
	if (deaf >= 0)
		close(deaf);
}
