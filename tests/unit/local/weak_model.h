/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TESTS_UNIT_LOCAL_WEAK_MODEL_H
#define TESTS_UNIT_LOCAL_WEAK_MODEL_H

#include <stdbool.h>
#include <stdint.h>

/*
 * An exhaustive search of all executions of small programs on a weakly ordered processor
 * (docs/memory-safety.md, Memory order). The model is a reduced form of the operational model of
 * ARMv8 with a flat memory (Pulte et al., Simplifying ARM Concurrency, POPL 2018): a store becomes
 * visible to all other threads at once; each thread performs its instructions in any order that its
 * fences, acquire and release accesses, dependencies and accesses to the same location permit;
 * loads are performed before preceding branches, and read preceding stores of their thread before
 * these are visible.
 */
#define WEAK_THREADS 4
#define WEAK_VARS    8
#define WEAK_REGS    8
#define WEAK_INSTRS  24
#define WEAK_GUARDS  2
#define WEAK_NONE    255 /* the value of a register whose load was not executed */

enum weak_op {
	WEAK_END, /* of the program of a thread */
	WEAK_LOAD,
	WEAK_AWAIT, /* the last load of a loop that ends when the variable has `value` */
	WEAK_STORE,
	WEAK_LOCK, /* an atomic exchange of 0 by 1, repeated until it succeeds */
	WEAK_FENCE,
	WEAK_MEMBARRIER, /* membarrier(2): a full fence in each thread, at any time during it */
};

/* The orders of C11. An access with seq_cst is an ARMv8 LDAR or STLR. */
enum weak_order {
	WEAK_RELAXED,
	WEAK_ACQUIRE,
	WEAK_RELEASE,
	WEAK_SEQ_CST,
};

/* The instruction is executed only if the register has the value, or has another one. */
struct weak_guard {
	uint8_t reg; /* number + 1; 0: no guard */
	bool is_other;
	uint8_t value;
};

struct weak_instr {
	enum weak_op op;
	enum weak_order order;
	uint8_t var;
	uint8_t reg; /* number + 1, of a load; 0: none */
	/* a STORE stores this sum */
	uint8_t value;
	uint8_t from; /* register number + 1; 0: none */
	struct weak_guard guards[WEAK_GUARDS];
};

/* A state in which no thread can continue. */
struct weak_end {
	bool is_stuck; /* a thread waits */
	uint8_t vars[WEAK_VARS];
	uint8_t regs[WEAK_THREADS][WEAK_REGS];
};

struct weak_program {
	uint8_t initial[WEAK_VARS];
	struct weak_instr threads[WEAK_THREADS][WEAK_INSTRS];
	/* whether the end is one for which the search looks */
	bool (*is_found)(const struct weak_end *end);
};

/*
 * Visits all reachable states. Returns whether an end was found. *states: the number of states that
 * were visited; may be NULL.
 */
bool weak_search(const struct weak_program *program, unsigned int *states);

/* Fields of an instruction, in the order of its written form. */
#define W_LOAD(to, from_var, ord) \
	.op = WEAK_LOAD, .reg = (to) + 1, .var = (from_var), .order = (ord)
#define W_AWAIT(from_var, until, ord) \
	.op = WEAK_AWAIT, .var = (from_var), .value = (until), .order = (ord)
#define W_STORE(to_var, constant, ord) \
	.op = WEAK_STORE, .var = (to_var), .value = (constant), .order = (ord)
/* the sum of the register and 1 */
#define W_INCREMENT(to_var, from_reg, ord) \
	.op = WEAK_STORE, .var = (to_var), .value = 1, .from = (from_reg) + 1, .order = (ord)
#define W_LOCK(lock_var)     .op = WEAK_LOCK, .var = (lock_var), .order = WEAK_ACQUIRE
#define W_UNLOCK(lock_var)   W_STORE(lock_var, 0, WEAK_RELEASE)
#define W_FENCE(ord)	     .op = WEAK_FENCE, .order = (ord)
#define W_MEMBARRIER	     .op = WEAK_MEMBARRIER
#define W_IF(test, is)	     .guards[0] = {.reg = (test) + 1, .value = (is)}
#define W_AND_IF(test, is)   .guards[1] = {.reg = (test) + 1, .value = (is)}
#define W_UNLESS(test, not ) .guards[0] = {.reg = (test) + 1, .value = (not ), .is_other = true}

#endif
