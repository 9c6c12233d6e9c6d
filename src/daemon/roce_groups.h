/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_DAEMON_ROCE_GROUPS_H
#define USRDMA_DAEMON_ROCE_GROUPS_H

/*
 * Memberships in multicast groups stay with a socket. A lent one outlives the process that joined, so the daemon takes it
 * out of every group before anybody else gets it. The kernel does not say what a socket is in, but what the machine is in
 * (/proc/net/igmp and igmp6), and among those are the socket's; nothing that the process said is relied on.
 */
void roce_groups_leave(int fd);

#endif
