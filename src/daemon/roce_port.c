/* SPDX-License-Identifier: BSD-2-Clause */
#include "daemon/roce_port.h"

#include <errno.h>
#include <linux/filter.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/log.h"
#include "daemon/roce_groups.h"
#include "link/udp_group.h"
#include "link/udp_socket.h"
#include "wire/packet.h"

/* Bytes 4 to 7 of the payload end with BTH.DestQP; what is left of its 24 bits above the slot's own is the slot. */
#define DEST_QP_WORD 4
#define DEST_QP_MASK 0xffffffu
#define IDLE_BUFFER  1 /* the kernel makes it the least that it allows */

static int steer(int fd)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, DEST_QP_WORD),
		BPF_STMT(BPF_ALU | BPF_AND | BPF_K, DEST_QP_MASK),
		BPF_STMT(BPF_ALU | BPF_RSH | BPF_K, IPC_SLOT_SHIFT),
		BPF_STMT(BPF_RET | BPF_A, 0),
	};
	struct sock_fprog program = {.len = sizeof(code) / sizeof(code[0]), .filter = code};

	return setsockopt(fd, SOL_SOCKET, SO_ATTACH_REUSEPORT_CBPF, &program, sizeof(program)) ?
		       -errno :
		       0;
}

static int set_int(int fd, int level, int name, int value)
{
	return setsockopt(fd, level, name, &value, sizeof(value)) ? -errno : 0;
}

static int prepare_and_bind(int fd)
{
	int ret = set_int(fd, SOL_SOCKET, SO_REUSEPORT, 1);

	if (!ret)
		ret = set_int(fd, SOL_SOCKET, SO_RCVBUF, IDLE_BUFFER);
	/*
	 * The program steers what is sent to one receiver; what is sent to a group comes to every socket that will hear
	 * it.
	 */
	if (!ret)
		ret = udp_group_hear_all(fd, false);
	return ret ? ret : udp_socket_bind(fd, PACKET_UDP_PORT);
}

static int open_slot(struct roce_port *port, uint32_t slot)
{
	int fd = udp_socket_open();
	int ret;

	if (fd < 0)
		return fd;
	port->fds[slot] = fd;
	ret = prepare_and_bind(fd);
	if (ret)
		return ret;
	/*
	 * The first makes the group; the program is the group's. It is never lent, and whoever is lent another of the
	 * group may not put a program of its own in place of ours.
	 */
	return slot == 0 ? steer(fd) : set_int(fd, SOL_SOCKET, SO_LOCK_FILTER, 1);
}

void roce_port_init(struct roce_port *port)
{
	memset(port->fds, -1, sizeof(port->fds));
	port->error = -ENOTCONN;
}

void roce_port_open(struct roce_port *port)
{
	port->error = 0;
	for (uint32_t slot = 0; slot < IPC_SLOTS && !port->error; slot++)
		port->error = open_slot(port, slot);
	if (port->error)
		roce_port_close(port);
}

void roce_port_close(struct roce_port *port)
{
	for (uint32_t slot = 0; slot < IPC_SLOTS; slot++) {
		if (port->fds[slot] >= 0)
			close(port->fds[slot]);
		port->fds[slot] = -1;
	}
}

static void drain(int fd)
{
	uint8_t byte;

	while (recv(fd, &byte, sizeof(byte), MSG_DONTWAIT | MSG_TRUNC) >= 0 ||
	       errno == ECONNREFUSED)
		;
}

int roce_port_lend(struct roce_port *port, uint32_t slot)
{
	int fd = port->fds[slot];

	if (fd < 0)
		return -1;
	drain(fd);
	/* Whoever was lent one could not replace the program, but take it away. */
	if (steer(port->fds[0]))
		return -1;
	return udp_socket_prepare_rx(fd) ? -1 : fd;
}

void roce_port_return(struct roce_port *port, uint32_t slot)
{
	if (port->fds[slot] < 0)
		return;
	(void)set_int(port->fds[slot], SOL_SOCKET, SO_RCVBUF, IDLE_BUFFER);
	udp_group_hear_all(port->fds[slot], false);
	roce_groups_leave(port->fds[slot]);
	drain(port->fds[slot]);
}
