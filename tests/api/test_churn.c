/* SPDX-License-Identifier: BSD-2-Clause */

/*
 * Creates and destroys objects of each kind in eight concurrent threads: the process must not grow.
 * USRDMA_CHURN_CYCLES is the number of cycles (CONTRIBUTING.md); from 100,000 on the test also
 * keeps as many objects as large programs have.
 */

#include "fixture.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define THREADS	       8
#define DEFAULT_CYCLES 2000
#define FULL_CYCLES    100000
#define WARM_UP_MAX    40000 /* every QPN and every index has been used once */

/* Memory that allocators and thread stacks use once, and not again in every cycle. */
#define GROWTH_BYTES (2 << 20)

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define MEASURES_MEMORY false /* the sanitizer's records of freed memory grow */
#else
#define MEASURES_MEMORY true
#endif

static struct api api;
static struct ibv_cq *cq;
static struct ibv_xrcd *xrcd;
static uint8_t buf[4096];

static int setup(void **state)
{
	struct ibv_xrcd_init_attr attr = {.fd = -1,
					  .oflags = O_CREAT,
					  .comp_mask = IBV_XRCD_INIT_ATTR_FD |
						       IBV_XRCD_INIT_ATTR_OFLAGS};

	*state = &api;
	api_open(&api);
	cq = ibv_create_cq(api.ctx, 64, NULL, NULL, 0);
	xrcd = ibv_open_xrcd(api.ctx, &attr);
	return cq && xrcd ? 0 : -1;
}

static int teardown(void **state)
{
	(void)state;
	assert_int_equal(ibv_close_xrcd(xrcd), 0);
	assert_int_equal(ibv_destroy_cq(cq), 0);
	api_close(&api);
	return 0;
}

static long cycles_wanted(void)
{
	const char *asked = getenv("USRDMA_CHURN_CYCLES");
	long cycles = asked ? atol(asked) : DEFAULT_CYCLES;

	assert_true(cycles >= THREADS);
	return cycles;
}

/* Creates and destroys one object of a kind; returns whether both succeeded. */

static bool cycle_pd(void)
{
	struct ibv_pd *pd = ibv_alloc_pd(api.ctx);

	return pd && !ibv_dealloc_pd(pd);
}

static bool cycle_imported_pd(void)
{
	struct ibv_pd *pd = ibv_import_pd(api.ctx, api.pd->handle);

	if (pd)
		ibv_unimport_pd(pd);
	return pd;
}

static bool cycle_mr(void)
{
	struct ibv_mr *mr = ibv_reg_mr(api.pd, buf, sizeof(buf), ALL_ACCESS);

	return mr && !ibv_dereg_mr(mr);
}

static bool cycle_mw(void)
{
	struct ibv_mw *mw = ibv_alloc_mw(api.pd, IBV_MW_TYPE_2);

	return mw && !ibv_dealloc_mw(mw);
}

static bool cycle_dm(void)
{
	struct ibv_alloc_dm_attr attr = {.length = 4096};
	struct ibv_dm *dm = ibv_alloc_dm(api.ctx, &attr);

	return dm && !ibv_free_dm(dm);
}

static bool cycle_cq(void)
{
	struct ibv_cq *made = ibv_create_cq(api.ctx, 100, NULL, NULL, 0);

	return made && !ibv_destroy_cq(made);
}

static bool cycle_channel(void)
{
	struct ibv_comp_channel *channel = ibv_create_comp_channel(api.ctx);

	return channel && !ibv_destroy_comp_channel(channel);
}

static struct ibv_qp *make_qp(enum ibv_qp_type type)
{
	struct ibv_qp_init_attr init = {
		.send_cq = cq,
		.recv_cq = cq,
		.cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1},
		.qp_type = type};

	return ibv_create_qp(api.pd, &init);
}

/* Connects the QP to itself, so that a transport is bound to it. */
static bool connect_itself(struct ibv_qp *qp)
{
	return !qp_to_init(qp, IBV_ACCESS_REMOTE_WRITE) && !qp_to_rtr(qp, &api, qp->qp_num) &&
	       !qp_to_rts(qp, 7, 7);
}

static bool cycle_rc_qp(void)
{
	struct ibv_qp *qp = make_qp(IBV_QPT_RC);

	return qp && connect_itself(qp) && !ibv_destroy_qp(qp);
}

static bool cycle_ud_qp(void)
{
	struct ibv_qp *qp = make_qp(IBV_QPT_UD);

	return qp && !ibv_destroy_qp(qp);
}

static bool cycle_ah(void)
{
	struct ibv_ah_attr attr = {
		.is_global = 1, .port_num = 1, .grh = {.dgid = api.gid, .hop_limit = 64}};
	struct ibv_ah *ah = ibv_create_ah(api.pd, &attr);

	return ah && !ibv_destroy_ah(ah);
}

static bool cycle_srq(void)
{
	struct ibv_srq_init_attr init = {.attr = {.max_wr = 8, .max_sge = 1}};
	struct ibv_srq *srq = ibv_create_srq(api.pd, &init);

	return srq && !ibv_destroy_srq(srq);
}

static bool cycle_xrc_srq(void)
{
	struct ibv_srq_init_attr_ex init = {.attr = {.max_wr = 8, .max_sge = 1},
					    .comp_mask =
						    IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD |
						    IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ,
					    .srq_type = IBV_SRQT_XRC,
					    .pd = api.pd,
					    .xrcd = xrcd,
					    .cq = cq};
	struct ibv_srq *srq = ibv_create_srq_ex(api.ctx, &init);

	return srq && !ibv_destroy_srq(srq);
}

static bool cycle_xrcd(void)
{
	struct ibv_xrcd_init_attr attr = {.fd = -1,
					  .oflags = O_CREAT,
					  .comp_mask = IBV_XRCD_INIT_ATTR_FD |
						       IBV_XRCD_INIT_ATTR_OFLAGS};
	struct ibv_xrcd *made = ibv_open_xrcd(api.ctx, &attr);

	return made && !ibv_close_xrcd(made);
}

static bool cycle_parent_domain(void)
{
	struct ibv_td_init_attr none = {0};
	struct ibv_td *td = ibv_alloc_td(api.ctx, &none);
	struct ibv_parent_domain_init_attr attr = {.pd = api.pd, .td = td};
	struct ibv_pd *pd = td ? ibv_alloc_parent_domain(api.ctx, &attr) : NULL;

	return pd && !ibv_dealloc_pd(pd) && !ibv_dealloc_td(td);
}

static bool cycle_context(void)
{
	struct ibv_context *ctx = ibv_open_device(api.ctx->device);

	return ctx && !ibv_close_device(ctx);
}

static const struct kind {
	const char *name;
	bool (*cycle)(void);
} kinds[] = {
	{"PD", cycle_pd},	    {"imported PD", cycle_imported_pd},
	{"MR", cycle_mr},	    {"MW", cycle_mw},
	{"DM", cycle_dm},	    {"CQ", cycle_cq},
	{"channel", cycle_channel}, {"RC QP", cycle_rc_qp},
	{"UD QP", cycle_ud_qp},	    {"AH", cycle_ah},
	{"SRQ", cycle_srq},	    {"XRC SRQ", cycle_xrc_srq},
	{"XRCD", cycle_xrcd},	    {"TD and parent domain", cycle_parent_domain},
	{"context", cycle_context},
};

/* The work of one thread, and its number of failures. */
struct share {
	bool (*cycle)(void);
	long cycles;
	long wrong;
};

static void *churn(void *arg)
{
	struct share *share = arg;

	for (long i = 0; i < share->cycles; i++)
		share->wrong += !share->cycle();
	return NULL;
}

static void churn_in_threads(const struct kind *kind, long cycles)
{
	struct share shares[THREADS];
	pthread_t threads[THREADS];

	for (int i = 0; i < THREADS; i++) {
		shares[i] = (struct share){.cycle = kind->cycle, .cycles = cycles / THREADS};
		assert_int_equal(pthread_create(&threads[i], NULL, churn, &shares[i]), 0);
	}
	for (int i = 0; i < THREADS; i++) {
		assert_int_equal(pthread_join(threads[i], NULL), 0);
		if (shares[i].wrong)
			fail_msg("%s: %ld of %ld cycles went wrong", kind->name, shares[i].wrong,
				 shares[i].cycles);
	}
}

static long resident_bytes(void)
{
	FILE *file = fopen("/proc/self/statm", "r");
	long size_pages = 0, resident_pages = 0;

	assert_non_null(file);
	assert_int_equal(fscanf(file, "%ld %ld", &size_pages, &resident_pages), 2);
	fclose(file);
	return resident_pages * sysconf(_SC_PAGESIZE);
}

/* The lowest free descriptor: it rises with each leaked descriptor. */
static int free_descriptor(void)
{
	int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);

	assert_true(fd >= 0);
	close(fd);
	return fd;
}

static void has_not_grown(const char *what, long before_bytes)
{
	long grown = resident_bytes() - before_bytes;

	if (MEASURES_MEMORY && grown > GROWTH_BYTES)
		fail_msg("%s: the process grew by %ld bytes", what, grown);
}

static void ibv_create_qp_repeated_creation_leaks_nothing(void **state)
{
	long cycles = cycles_wanted(), warm_up = cycles < WARM_UP_MAX ? cycles : WARM_UP_MAX;

	(void)state;
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		long before_bytes;
		int fd;

		churn_in_threads(&kinds[i], warm_up);
		before_bytes = resident_bytes();
		fd = free_descriptor();
		churn_in_threads(&kinds[i], cycles);
		has_not_grown(kinds[i].name, before_bytes);
		assert_int_equal(free_descriptor(), fd);
		print_message("%s: %ld cycles, %ld KiB more\n", kinds[i].name, cycles,
			      (resident_bytes() - before_bytes) / 1024);
	}
}

/*
 * Many concurrent objects. Each thread creates its share and destroys it; in between the main
 * thread uses the objects.
 */
struct crowd {
	struct ibv_mr **mrs;
	struct ibv_qp **qps;
	long mr_count;
	long qp_count;
	long wrong;
};

static void *make_crowd(void *arg)
{
	struct crowd *crowd = arg;

	for (long i = 0; i < crowd->mr_count; i++) {
		crowd->mrs[i] = ibv_reg_mr(api.pd, buf, sizeof(buf), ALL_ACCESS);
		crowd->wrong += !crowd->mrs[i];
	}
	for (long i = 0; i < crowd->qp_count; i++) {
		crowd->qps[i] = make_qp(IBV_QPT_RC);
		crowd->wrong += !crowd->qps[i] || !connect_itself(crowd->qps[i]);
	}
	return NULL;
}

static void *end_crowd(void *arg)
{
	struct crowd *crowd = arg;

	for (long i = 0; i < crowd->mr_count; i++)
		crowd->wrong += !crowd->mrs[i] || ibv_dereg_mr(crowd->mrs[i]);
	for (long i = 0; i < crowd->qp_count; i++)
		crowd->wrong += !crowd->qps[i] || ibv_destroy_qp(crowd->qps[i]);
	return NULL;
}

static void all_threads(struct crowd *crowds, void *(*body)(void *))
{
	pthread_t threads[THREADS];

	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, body, &crowds[i]), 0);
	for (int i = 0; i < THREADS; i++) {
		assert_int_equal(pthread_join(threads[i], NULL), 0);
		assert_int_equal(crowds[i].wrong, 0);
	}
}

/* A WRITE over each queue pair, from and to regions of different ages. */
static void use_all(const struct crowd *crowd)
{
	for (long i = 0; i < crowd->qp_count; i++) {
		struct ibv_mr *from = crowd->mrs[i * 7 % crowd->mr_count];
		struct ibv_mr *to = crowd->mrs[crowd->mr_count - 1 - i * 3 % crowd->mr_count];
		struct ibv_sge sge = {.addr = (uintptr_t)buf, .length = 64, .lkey = from->lkey};
		struct ibv_send_wr wr = send_wr(IBV_WR_RDMA_WRITE, &sge, NULL, 0, (uint64_t)i);
		struct ibv_send_wr *bad;

		wr.wr.rdma.remote_addr = (uintptr_t)buf + 2048;
		wr.wr.rdma.rkey = to->rkey;
		assert_int_equal(ibv_post_send(crowd->qps[i], &wr, &bad), 0);
		wc_expect(cq, (uint64_t)i, IBV_WC_SUCCESS);
	}
}

static void ibv_create_qp_many_objects_succeed(void **state)
{
	bool is_full = cycles_wanted() >= FULL_CYCLES;
	long mr_count = is_full ? 100000 : 8000, qp_count = is_full ? 10000 : 800;
	struct crowd parts[THREADS];
	long before_bytes = 0;

	(void)state;
	for (int i = 0; i < THREADS; i++) {
		parts[i] = (struct crowd){.mr_count = mr_count / THREADS,
					  .qp_count = qp_count / THREADS};
		parts[i].mrs = calloc((size_t)parts[i].mr_count, sizeof(struct ibv_mr *));
		parts[i].qps = calloc((size_t)parts[i].qp_count, sizeof(struct ibv_qp *));
		assert_true(parts[i].mrs && parts[i].qps);
	}
	/* The next round reuses the memory that tables kept after the first. */
	for (int round = 0; round < 3; round++) {
		all_threads(parts, make_crowd);
		for (int i = 0; i < THREADS; i++)
			use_all(&parts[i]);
		all_threads(parts, end_crowd);
		if (round == 0)
			before_bytes = resident_bytes();
	}
	print_message("%ld MRs and %ld QPs, twice again: %ld KiB more\n", mr_count, qp_count,
		      (resident_bytes() - before_bytes) / 1024);
	if (!is_full)
		has_not_grown("MRs and QPs", before_bytes);
	else
		assert_true(resident_bytes() - before_bytes < 4 * GROWTH_BYTES);
	for (int i = 0; i < THREADS; i++) {
		free(parts[i].mrs);
		free(parts[i].qps);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ibv_create_qp_repeated_creation_leaks_nothing),
		cmocka_unit_test(ibv_create_qp_many_objects_succeed),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
