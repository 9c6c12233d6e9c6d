/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef BLOCKS_H
#define BLOCKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/types.h>
#include <unistd.h>

/* Checks of memory that malloc functions return; blocks.c has the list of cases. */

#define CHECK(condition)                                                                    \
	do {                                                                                \
		if (!(condition)) {                                                         \
			fprintf(stderr, "%s:%d: %s: %m\n", __FILE__, __LINE__, #condition); \
			_exit(1);                                                           \
		}                                                                           \
	} while (0)

#define PAGE  4096u
#define BLOCK (64u * PAGE)
#define MEGA  (1u << 20)

extern bool has_arena;

/*
 * As ibv_reg_mr() and ibv_dereg_mr() do with memory of the arena. NULL: not possible, or no arena.
 */
void *keep(const void *memory, size_t bytes);
void unkeep(void *kept);

/* Whether a peer could map the memory. Without the arena the answer is the expected one. */
bool is_shared(const void *memory, size_t bytes, bool expected);

/* Allocates a block that begins with a page. */
char *block_new(size_t bytes);

bool is_filled(const char *memory, char value, size_t bytes);

/* Waits for a child. Returns its exit status, or 256 and more: the signal. */
int child_status(pid_t child);

/* The cases of the other files. */
void forks(void);
void writers(void);
void snapshot(void);
void advice(void);
void protection(void);
void registered(void);
void stale(void);
void remap(void);
void wiped(void);
void rooted(void);
void orphan(void);
void fragments(void);
void stacks(void);
void cloned(void);
void handlers(void);

#endif
