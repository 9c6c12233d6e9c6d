/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_ARENA_INHERIT_H
#define USRDMA_ARENA_INHERIT_H

/*
 * fork(): the child replaces each block of the arena by private memory with the same content. The
 * parent returns from fork() when the child has copied everything. A later allocation of the child
 * creates a memfd of its own.
 */

/* Registers the fork handlers. They take and release the lock of the arena. */
void inherit_register(void);

/*
 * Makes the block that contains this address private, because parent and child use it before the
 * child's copy is complete. Does nothing for other memory, and for registered memory. The caller
 * holds the lock of the arena.
 */
void inherit_detach(const void *address);

/* The handlers, for a call that forks without running them. */
void inherit_before_fork(void);
void inherit_after_fork_in_parent(void);
void inherit_after_fork_in_child(void);

#endif
