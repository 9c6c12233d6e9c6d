/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_DAEMON_ACTIVATION_H
#define USRDMA_DAEMON_ACTIVATION_H

/*
 * Socket activation: a service manager listens on the daemon's socket name and starts the daemon
 * when the first client connects (sd_listen_fds(3), ADR 0085).
 */

/*
 * Returns the socket that the service manager passed, for server_adopt(). -ENOENT: none was passed.
 * -EINVAL: several descriptors, or a malformed number. Removes the variables of the protocol from
 * the environment.
 */
int activation_socket(void) __attribute__((warn_unused_result));

#endif
