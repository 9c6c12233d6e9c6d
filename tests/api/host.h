/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_TESTS_API_HOST_H
#define USRDMA_TESTS_API_HOST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <cmocka.h>
#include <infiniband/verbs.h>

/*
 * The host of a test: its interfaces (those of tests/programs/lab.py) and its daemon. A test must
 * undo all its changes, because the next test uses the same host.
 */

/* Skips a test that changes interfaces if that is not permitted. */
void host_needed(void);

/* Requests run.py, which has the permission, to run `ip` with these arguments. */
void host_ip(const char *arguments);

/* Returns the process ID of the daemon of this network namespace. */
pid_t host_daemon_pid(void);

/*
 * Stops the daemon, or continues it. Requests run.py to do it if the daemon belongs to another
 * user.
 */
void host_stop_daemon(void);
void host_continue_daemon(void);

/* Kills the daemon and waits until its socket name is free: the next client starts a new daemon. */
void host_kill_daemon(void);

/*
 * Opens the device of this interface. It polls for up to ten seconds, because no event reports a
 * new device.
 */
struct ibv_context *host_open(const char *name);

#endif
