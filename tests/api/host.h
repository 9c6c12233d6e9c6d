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
 * The machine under a test: its interfaces (those of tests/programs/lab.py) and its daemon. Whatever is done here is undone
 * by whoever does it, since the next test has the same machine.
 */

/* Skips a test that changes interfaces where that is not permitted. */
void host_needed(void);

/* Has run.py, which may, run `ip` with these arguments. */
void host_ip(const char *arguments);

/* The daemon of this network namespace. */
pid_t host_daemon_pid(void);

/* Kills it and waits until its name is free: whoever comes next starts another. */
void host_kill_daemon(void);

/* The device of this interface, which may be new: no event tells of it, so it is looked for again for ten seconds. */
struct ibv_context *host_open(const char *name);

#endif
