/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_TESTS_UNIT_LOCAL_SHARE_KIT_H
#define USRDMA_TESTS_UNIT_LOCAL_SHARE_KIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "pair.h"

/*
 * Node 0 is the initiator, node 1 the owner of regions whose memory objects the initiator may map.
 * One RC QP of each is connected to that of the other.
 */

#define BYTES  65536u /* of an object */
#define WRITES 16     /* of write_often() */
#define ACCESS                                                                       \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | \
	 IBV_ACCESS_REMOTE_ATOMIC)

extern struct pair pair;
extern struct node *const owner;

int share_kit_setup(void **state);
int share_kit_teardown(void **state);

#define SHARE_TEST(name) cmocka_unit_test_setup_teardown(name, share_kit_setup, share_kit_teardown)

/* cmocka replaces the handlers of signals before each test and restores them afterwards. */
void install_handler(void);

/* Posts the WR of the initiator with one SGE, and returns the status of its completion. */
enum ibv_wc_status execute(struct ibv_send_wr *wr, void *local, uint32_t bytes);
/* Executes a READ or WRITE between the start of the initiator's buffer and the region. */
enum ibv_wc_status move(enum ibv_wr_opcode opcode, const struct ibv_mr *mr, uint64_t offset,
			uint32_t bytes);
/* Writes several times; returns how many of the writes were stores to mapped memory. */
uint64_t write_often(const struct ibv_mr *mr);

/* The initiator's accesses to mapped memory, and those that failed. */
uint64_t mapped_count(void);
uint64_t fault_count(void);

/* A file of BYTES. is_sealed: it cannot shrink. */
int make_memfd(bool is_sealed);
uint8_t *map(int fd);
/* Registers memory of the owner. */
struct ibv_mr *register_at(void *at, size_t bytes);
/* Ends what register_at(), map() and make_memfd() have returned. */
void end_region(struct ibv_mr *mr, uint8_t *at, int fd);

#endif
