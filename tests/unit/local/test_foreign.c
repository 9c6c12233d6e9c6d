/* SPDX-License-Identifier: BSD-2-Clause */

/*
 * Many pairs with processes of other users: their work is limited in each run, and their memory is
 * freed without the lock.
 */

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "../../with_locks.h"
#include "core/engine/discard.h"
#include "core/engine/engine_notice.h"
#include "ipc/msg.h"
#include "local/local.h"
#include "local/peer.h"
#include "local/ring.h"
#include "pair.h"

#define PEERS	   20u
#define FIRST_SLOT 100u
/* RUN_CELLS and RUN_FOREIGN_CELLS of run.c */
#define PEER_CELLS 128u
#define RUN_PEERS  8u

static struct pair pair;
static struct engine *engine;
static struct pair_memory *memories[PEERS];
static int bells[PEERS];

static void connect_peer(uint32_t index)
{
	struct ipc_peer notice = {
		.hdr = {.type = IPC_PEER, .len = sizeof(notice)},
		.slot = FIRST_SLOT + index,
		.pair_id = 10 + index,
		.pid = getpid(),
		.pair_bytes = IPC_PAIR_BYTES,
	};
	int fd = memfd_create("pair", MFD_CLOEXEC | MFD_ALLOW_SEALING), ends[2];
	int fds[2] = {fd};

	assert_int_equal(ftruncate(fd, IPC_PAIR_BYTES), 0);
	assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW), 0);
	memories[index] = mmap(NULL, sizeof(struct pair_memory), PROT_READ | PROT_WRITE, MAP_SHARED,
			       fd, 0);
	assert_ptr_not_equal(memories[index], MAP_FAILED);
	assert_int_equal(
		socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
	bells[index] = ends[1];
	fds[1] = ends[0];
	WITH_LOCKS(engine, engine_dispatch_notice(engine, &notice.hdr, fds, 2));
	assert_non_null(local_of(engine)->by_slot[FIRST_SLOT + index]);
}

static struct ring_shared *written_by(uint32_t index)
{
	return &memories[index]->pairs[0].rings[1];
}

/* The peer fills its FIFO with malformed elements. */
static void fill(uint32_t index)
{
	for (uint32_t i = 0; i < RING_CELLS; i++)
		written_by(index)->cells[i].seq = i + 1;
}

static uint32_t executed(uint32_t index)
{
	return atomic_load(&written_by(index)->tail);
}

static int setup(void **state)
{
	(void)state;
	pair_open(&pair, false);
	engine = &pair.nodes[0].engine;
	for (uint32_t i = 0; i < PEERS; i++) {
		connect_peer(i);
		fill(i);
	}
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	pair_close(&pair);
	for (uint32_t i = 0; i < PEERS; i++) {
		munmap(memories[i], sizeof(struct pair_memory));
		close(bells[i]);
	}
	return 0;
}

static void local_run_limits_cells_of_other_users_in_turn(void **state)
{
	(void)state;
	for (uint32_t run = 1; run <= 10; run++) {
		uint32_t sum = 0, least = UINT32_MAX, most = 0;

		WITH_LOCKS(engine, engine_run(engine));
		assert_true(engine->has_foreign_rest);
		for (uint32_t i = 0; i < PEERS; i++) {
			sum += executed(i);
			least = executed(i) < least ? executed(i) : least;
			most = executed(i) > most ? executed(i) : most;
		}
		assert_int_equal(sum, run * RUN_PEERS * PEER_CELLS);
		assert_true(most - least <= PEER_CELLS);
	}
}

/*
 * The turn ends with the first run that leaves a rest, so that other threads can acquire the lock.
 */
static void engine_turn_ends_with_rest_of_other_users(void **state)
{
	uint32_t sum = 0;

	(void)state;
	WITH_LOCKS(engine, assert_true(engine_turn(engine)));
	for (uint32_t i = 0; i < PEERS; i++)
		sum += executed(i);
	assert_int_equal(sum, RUN_PEERS * PEER_CELLS);
}

static void engine_catch_up_executes_all_cells(void **state)
{
	(void)state;
	WITH_LOCKS(engine, engine_catch_up(engine));
	for (uint32_t i = 0; i < PEERS; i++)
		assert_int_equal(executed(i), RING_CELLS);
}

static bool is_mapped(void *addr)
{
	return msync(addr, 4096, MS_ASYNC) == 0;
}

static void peer_gone_leaves_its_memory_to_the_thread(void **state)
{
	struct pair_memory *ours = local_of(engine)->by_slot[FIRST_SLOT]->pair;
	struct ipc_peer_gone gone = {.hdr = {.type = IPC_PEER_GONE, .len = sizeof(gone)},
				     .slot = FIRST_SLOT,
				     .pair_id = 10};
	struct discard *discard;

	(void)state;
	engine->has_thread = true;
	WITH_LOCKS(engine, engine_dispatch_notice(engine, &gone.hdr, NULL, 0));
	engine->has_thread = false;
	assert_null(local_of(engine)->by_slot[FIRST_SLOT]);
	assert_true(is_mapped(ours));
	WITH_LOCKS(engine, discard = discard_next(engine));
	assert_non_null(discard);
	WITH_LOCKS(engine, assert_null(discard_next(engine)));
	discard_finish(discard);
	assert_false(is_mapped(ours));
}

/* The child of a fork() has no engine thread that would remove it. */
static void discard_mapping_in_forked_child_removes_it_at_once(void **state)
{
	void *page = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	(void)state;
	assert_true(is_mapped(page));
	engine->has_thread = engine->is_orphan = true;
	WITH_LOCKS(engine, discard_mapping(engine, page, 4096));
	engine->has_thread = engine->is_orphan = false;
	assert_false(is_mapped(page));
	WITH_LOCKS(engine, assert_null(discard_next(engine)));
}

#define CASE(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(local_run_limits_cells_of_other_users_in_turn),
		CASE(engine_turn_ends_with_rest_of_other_users),
		CASE(engine_catch_up_executes_all_cells),
		CASE(peer_gone_leaves_its_memory_to_the_thread),
		CASE(discard_mapping_in_forked_child_removes_it_at_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
