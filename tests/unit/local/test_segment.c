/* SPDX-License-Identifier: BSD-2-Clause */

/*
 * The entries of the shared segment: published objects use the lowest ones, and readers find them
 * by QPN and key.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "base/clock.h"
#include "local/guarded_copy.h"
#include "local/local.h"
#include "local/segment.h"
#include "pair.h"
#include "../../with_locks.h"

#define OBJECTS 500u
#define CYCLES	2000
#define WAIT_NS (20 * CLOCK_NS_PER_S)
#define ACCESS	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE)

static struct pair pair;
static struct ibv_qp *qps[2];

static int setup(void **state)
{
	(void)state;
	pair_open_connected(&pair, qps, IBV_QPT_RC, true);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	pair_close_connected(&pair, qps);
	return 0;
}

static struct segment *segment_of(const struct node *node)
{
	return local_of(&node->engine)->segment;
}

static uint32_t published_qpn(const struct node *node, uint32_t qpn)
{
	return segment_qp_qpn(atomic_load(&segment_qp_entry(segment_of(node), qpn)->word));
}

static uint32_t published_rkey(const struct node *node, uint32_t rkey)
{
	return segment_mr_rkey(atomic_load(&segment_mr_entry(segment_of(node), rkey)->word));
}

static struct ibv_mr *register_mr(struct node *node)
{
	struct ibv_mr *mr = ibv_reg_mr(node->pd, node->buf, 4096, ACCESS);

	assert_non_null(mr);
	return mr;
}

/* Writes to an MR of the second node. */
static enum ibv_wc_status write_to(uint32_t rkey)
{
	struct ibv_sge sge = {(uintptr_t)pair.nodes[0].buf, 8, pair.nodes[0].mr->lkey};
	struct ibv_send_wr wr = {.sg_list = &sge,
				 .num_sge = 1,
				 .opcode = IBV_WR_RDMA_WRITE,
				 .send_flags = IBV_SEND_SIGNALED},
			   *bad;
	uint64_t until_ns = clock_now_ns() + WAIT_NS;
	struct ibv_wc wc;

	wr.wr.rdma.remote_addr = (uintptr_t)pair.nodes[1].buf;
	wr.wr.rdma.rkey = rkey;
	assert_int_equal(ibv_post_send(qps[0], &wr, &bad), 0);
	while (!poll_cq_once(pair.nodes[0].cq, &wc)) {
		assert_true(clock_now_ns() < until_ns);
		pair_settle(&pair);
	}
	return wc.status;
}

static uint64_t onesided_count(void)
{
	return local_of(&pair.nodes[0].engine)->counters[LOCAL_ONESIDED];
}

/* QPNs are random in the whole range of the process, their entries are not. */
static void segment_qps_use_lowest_entries(void **state)
{
	struct node *node = &pair.nodes[1];
	struct ibv_qp *many[OBJECTS];
	uint32_t used = segment_of(node)->hdr.qps_end;

	(void)state;
	for (uint32_t i = 0; i < OBJECTS; i++) {
		many[i] = pair_create_qp(node, IBV_QPT_UC, NULL);
		assert_int_equal(published_qpn(node, many[i]->qp_num), 0);
		assert_int_equal(pair_to_init(many[i], 0), 0);
	}
	assert_int_equal(segment_of(node)->hdr.qps_end, used + OBJECTS);
	for (uint32_t i = 0; i < OBJECTS; i++) {
		uint32_t qpn = many[i]->qp_num;

		assert_int_equal(published_qpn(node, qpn), qpn);
		assert_int_equal(ibv_destroy_qp(many[i]), 0);
		assert_int_equal(published_qpn(node, qpn), 0);
	}
	for (int i = 0; i < CYCLES; i++) {
		struct ibv_qp *qp = pair_create_qp(node, IBV_QPT_UC, NULL);

		assert_int_equal(pair_to_init(qp, 0), 0);
		assert_int_equal(published_qpn(node, qp->qp_num), qp->qp_num);
		assert_int_equal(ibv_destroy_qp(qp), 0);
	}
	assert_int_equal(segment_of(node)->hdr.qps_end, used + OBJECTS);
}

static struct ipc_usage device_total(const struct node *node)
{
	const struct segment_devices *devices = &segment_of(node)->devices;

	assert_int_equal(devices->end, 1);
	assert_int_equal(devices->changes % 2, 0);
	return devices->entries[0].total;
}

/*
 * What a QP transferred stays in the device's entry, and the entry of the QP does not have it any
 * more.
 */
static void segment_revoked_qp_leaves_usage_to_device(void **state)
{
	struct node *node = &pair.nodes[0];
	struct segment *segment = segment_of(node);
	uint32_t at = (uint32_t)(segment_qp_entry(segment, qps[0]->qp_num) - segment->qps);
	struct ibv_qp *again;

	(void)state;
	assert_int_equal(write_to(pair.nodes[1].mr->rkey), IBV_WC_SUCCESS);
	assert_int_equal(segment->qp_usage[at].sent_messages, 1);
	assert_int_equal(device_total(node).sent_messages, 0);
	segment->qp_usage[at].read_bytes = 5;
	segment->qp_usage[at].rnr_naks = 6;
	assert_int_equal(ibv_destroy_qp(qps[0]), 0);
	qps[0] = NULL;
	assert_int_equal(device_total(node).sent_messages, 1);
	assert_int_equal(device_total(node).sent_bytes, 8);
	assert_int_equal(device_total(node).read_bytes, 5);
	assert_int_equal(device_total(node).rnr_naks, 6);
	assert_int_equal(segment->qp_usage[at].sent_messages, 0);
	again = pair_create_qp(node, IBV_QPT_UC, NULL);
	assert_int_equal(pair_to_init(again, 0), 0);
	assert_int_equal(ibv_destroy_qp(again), 0);
	assert_int_equal(device_total(node).sent_messages, 1);
}

static void segment_mrs_use_lowest_entries(void **state)
{
	struct node *node = &pair.nodes[1];
	struct ibv_mr *many[OBJECTS];
	uint32_t used = segment_of(node)->hdr.mrs_end;

	(void)state;
	for (uint32_t i = 0; i < OBJECTS; i++)
		many[i] = register_mr(node);
	assert_int_equal(segment_of(node)->hdr.mrs_end, used + OBJECTS);
	for (uint32_t i = 0; i < OBJECTS; i++) {
		uint32_t rkey = many[i]->rkey;

		assert_int_equal(published_rkey(node, rkey), rkey);
		assert_int_equal(ibv_dereg_mr(many[i]), 0);
		assert_int_equal(published_rkey(node, rkey), 0);
	}
	for (int i = 0; i < CYCLES; i++)
		assert_int_equal(ibv_dereg_mr(register_mr(node)), 0);
	assert_int_equal(segment_of(node)->hdr.mrs_end, used + OBJECTS);
}

/* A reader that checked the word of the first MR detects that the entry belongs to another MR. */
static void segment_reused_entry_has_another_word(void **state)
{
	struct node *node = &pair.nodes[1];
	struct ibv_mr *mr = register_mr(node);
	const struct segment_mr *entry = segment_mr_entry(segment_of(node), mr->rkey);
	uint64_t word = atomic_load(&entry->word);

	(void)state;
	assert_int_equal(ibv_dereg_mr(mr), 0);
	assert_int_not_equal(segment_generation(atomic_load(&entry->word)),
			     segment_generation(word));
	mr = register_mr(node);
	assert_ptr_equal(segment_mr_entry(segment_of(node), mr->rkey), entry);
	assert_true(segment_generation(atomic_load(&entry->word)) > segment_generation(word) + 1);
	assert_int_equal(ibv_dereg_mr(mr), 0);
}

/*
 * While ibv_rereg_mr() waits for the peers, another thread registers an MR, which takes the entry.
 */
static void segment_moved_mr_is_found(void **state)
{
	struct node *node = &pair.nodes[1];
	struct ibv_mr *moved = register_mr(node), *other;
	const struct segment_mr *before = segment_mr_entry(segment_of(node), moved->rkey);

	(void)state;
	assert_int_equal(write_to(moved->rkey), IBV_WC_SUCCESS);
	WITH_LOCKS(&node->engine, segment_unpublish_mr(&node->engine, to_mr(moved)));
	other = register_mr(node);
	assert_ptr_equal(segment_mr_entry(segment_of(node), other->rkey), before);
	WITH_LOCKS(&node->engine, segment_publish_mr(&node->engine, to_mr(moved)));
	assert_ptr_not_equal(segment_mr_entry(segment_of(node), moved->rkey), before);
	assert_int_equal(write_to(moved->rkey), IBV_WC_SUCCESS);
	assert_int_equal(write_to(other->rkey), IBV_WC_SUCCESS);
	if (guarded_copy_is_available())
		assert_int_equal(onesided_count(), 3);
	assert_int_equal(ibv_dereg_mr(moved), 0);
	assert_int_equal(ibv_dereg_mr(other), 0);
}

/*
 * Places beyond the tables match no object: the peer's READs and WRITEs of it fail, and it exposes
 * no other memory.
 */
/* All values of one side against all of the other, by the meaning of the attributes. */
static void segment_permits_onesided_compares_attributes(void **state)
{
	(void)state;
	for (uint32_t mtu = 0; mtu <= IBV_MTU_4096; mtu++) {
		for (uint32_t depth = 0; depth <= MAX_RD_ATOMIC; depth++) {
			uint32_t word = segment_onesided(false, mtu, depth);

			assert_int_equal(segment_path_mtu(word), mtu);
			for (uint32_t own = IBV_MTU_256; own <= IBV_MTU_4096; own++) {
				for (uint32_t reads = 0; reads <= MAX_RD_ATOMIC; reads++)
					assert_int_equal(segment_permits_onesided(word, own, reads),
							 own == mtu && reads <= depth);
				assert_false(segment_permits_onesided(
					segment_onesided(true, mtu, depth), own, 0));
			}
		}
	}
}

static void segment_hostile_places_match_no_object(void **state)
{
	struct node *attacker = &pair.nodes[1];
	struct segment *segment = segment_of(attacker);
	_Atomic uint16_t *qp_place = &segment->qp_places[qps[1]->qp_num % SEGMENT_QPS];
	_Atomic uint32_t *mr_place = &segment->mr_places[attacker->mr->rkey % SEGMENT_MRS];
	const uint16_t bad_qps[] = {SEGMENT_QPS + 1, UINT16_MAX};
	const uint32_t bad_mrs[] = {SEGMENT_MRS + 1, UINT32_MAX};
	uint16_t own_qp = atomic_load(qp_place);
	uint32_t own_mr = atomic_load(mr_place);

	(void)state;
	for (int i = 0; i < 2; i++) {
		atomic_store(qp_place, bad_qps[i]);
		assert_int_equal(published_qpn(attacker, qps[1]->qp_num), 0);
		atomic_store(mr_place, bad_mrs[i]);
		assert_int_equal(published_rkey(attacker, attacker->mr->rkey), 0);
	}
	atomic_store(qp_place, own_qp);
	if (guarded_copy_is_available())
		assert_int_equal(write_to(attacker->mr->rkey), IBV_WC_REM_ACCESS_ERR);
	atomic_store(mr_place, own_mr);
}

#define CASE(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(segment_qps_use_lowest_entries),
		CASE(segment_revoked_qp_leaves_usage_to_device),
		CASE(segment_mrs_use_lowest_entries),
		CASE(segment_reused_entry_has_another_word),
		CASE(segment_moved_mr_is_found),
		CASE(segment_permits_onesided_compares_attributes),
		CASE(segment_hostile_places_match_no_object),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
