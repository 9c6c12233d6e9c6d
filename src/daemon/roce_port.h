/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_DAEMON_ROCE_PORT_H
#define USRDMA_DAEMON_ROCE_PORT_H

#include <stdbool.h>
#include <stdint.h>

#include "ipc/msg.h"

/*
 * UDP port 4791 of this network namespace, shared without privilege: a socket for each slot, all bound to the port, and a
 * classic BPF program that hands each datagram to the slot that its destination QPN names (docs/adr/0010). All are
 * opened at once and kept, because the program counts them in the order in which they were bound. Part of the daemon,
 * one thread.
 */
struct roce_port {
	int fds[IPC_SLOTS]; /* -1: the port could not be had */
	int error; /* why not, as -errno; 0 while it is open; -ENOTCONN before it was tried */
};

void roce_port_init(struct roce_port *port);

/* Takes the port, if it can be had: another RoCE of this host, the kernel's rxe for one, may hold it. It is not open. */
void roce_port_open(struct roce_port *port);
void roce_port_close(struct roce_port *port);

/* The slot's socket, made ready for a new holder: emptied of what the last one left, its buffer full-sized. -1: none. */
int roce_port_lend(struct roce_port *port, uint32_t slot);

/* Nobody reads the slot's socket any more: strangers' datagrams shall not pile up in it. */
void roce_port_return(struct roce_port *port, uint32_t slot);

#endif
