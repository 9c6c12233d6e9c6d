/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_ARENA_INHERIT_H
#define USRDMA_ARENA_INHERIT_H

/*
 * fork(): the child replaces each block of the arena by private memory with the same content. The parent returns from fork()
 * when the child has copied everything. A later allocation of the child creates a memfd of its own.
 */

/* Registers the fork handlers. They take and release the lock of the arena. */
void inherit_register(void);

/* The handlers, for a call that forks without running them. */
void inherit_before_fork(void);
void inherit_after_fork_in_parent(void);
void inherit_after_fork_in_child(void);

#endif
