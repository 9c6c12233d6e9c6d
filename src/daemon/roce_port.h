/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_DAEMON_ROCE_PORT_H
#define USRDMA_DAEMON_ROCE_PORT_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/roce_steer.h"
#include "ipc/msg.h"

/*
 * UDP port 4791 of this network namespace, shared without privileges: one socket for each slot, all
 * bound to the port in one SO_REUSEPORT group. A classic BPF program selects the socket of the slot
 * that the destination QPN belongs to (ADR 0023). The program returns the index of a socket in the
 * order of bind(), so all sockets are opened at once and stay open.
 *
 * A socket that a process had is replaced when its slot is returned, because duplicates of it may
 * survive the process. connect() removes a socket from the group, for all holders of duplicates.
 * The kernel then moves the last socket of the group into the gap. The last socket is the spare,
 * which belongs to no slot. So the other sockets keep their index, and the next spare is bound
 * last.
 *
 * Part of struct server; used by one thread.
 */
struct roce_port {
	int fds[IPC_SLOTS];	 /* -1: the port could not be bound */
	bool is_used[IPC_SLOTS]; /* delegated to a process since it was opened */
	/* index IPC_SLOTS of the group: drops datagrams with a forged source; -1: not open */
	int sink;
	int spare; /* index IPC_SLOTS + 1; -1: not open */
	int error; /* -errno of the failed open; 0 while open; -ENOTCONN before the first attempt */
	struct roce_steer steer;
};

void roce_port_init(struct roce_port *port);

/*
 * Waits up to 1 s while processes of a preceding daemon, which was killed, have sockets of the
 * port. A process closes its socket when it detects the end of its daemon; a stopped process does
 * so when it continues.
 */
void roce_port_wait(void);

/*
 * Opens all sockets and sets port->error. Fails if another RoCE implementation of this host, such
 * as the kernel's rxe, or a process of a preceding daemon has the port. To be called only while the
 * port is not open.
 */
void roce_port_open(struct roce_port *port);
void roce_port_close(struct roce_port *port);

/* Reads the addresses of this host from the device table. To be called when they have changed. */
void roce_port_set_sources(struct roce_port *port);

/*
 * The number of datagrams that were dropped because a process of this host forged their source
 * address.
 */
uint64_t roce_port_forged(const struct roce_port *port);

/*
 * Delegates the slot's socket to a new process: sets the full buffer size and drops datagrams
 * received earlier. Returns the descriptor, which the port keeps, or -1.
 */
int roce_port_delegate(struct roce_port *port, uint32_t slot);

/* Ends the delegation: replaces the slot's socket by a new one. */
void roce_port_return(struct roce_port *port, uint32_t slot);

#endif
