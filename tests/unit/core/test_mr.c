/* SPDX-License-Identifier: BSD-2-Clause */

/*
 * Memory regions: valid registrations, look-up by key, and the notification of peers before and
 * after every change.
 */

#include "fake.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/vma.h"
#include "core/memory/memory.h"
#include "core/memory/mr.h"

#ifndef MADV_GUARD_INSTALL
#define MADV_GUARD_INSTALL 102
#endif

#define PAGE	   4096u
#define ALL_REMOTE (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC)

static struct fake fake;
static uint8_t buf[3 * PAGE] __attribute__((aligned(PAGE)));

static int setup(void **state)
{
	(void)state;
	fake_open(&fake);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	fake_close(&fake);
	return 0;
}

static void *map(size_t bytes, int prot)
{
	void *at = mmap(NULL, bytes, prot, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	assert_ptr_not_equal(at, MAP_FAILED);
	return at;
}

static void ibv_reg_mr_iova2_invalid_access_fails(void **state)
{
	static const struct {
		unsigned int access;
		int error;
	} rows[] = {
		{0, 0},
		{IBV_ACCESS_LOCAL_WRITE, 0},
		{IBV_ACCESS_REMOTE_READ, 0},
		{IBV_ACCESS_LOCAL_WRITE | ALL_REMOTE, 0},
		{IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND | IBV_ACCESS_ON_DEMAND |
			 IBV_ACCESS_HUGETLB,
		 0},
		{IBV_ACCESS_RELAXED_ORDERING, 0},
		{IBV_ACCESS_OPTIONAL_RANGE, 0},
		{IBV_ACCESS_REMOTE_WRITE, EINVAL},
		{IBV_ACCESS_REMOTE_ATOMIC, EINVAL},
		{IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_REMOTE_READ, EINVAL},
		{IBV_ACCESS_FLUSH_GLOBAL, 0},
		{IBV_ACCESS_FLUSH_PERSISTENT, EOPNOTSUPP},
		{IBV_ACCESS_FLUSH_GLOBAL | IBV_ACCESS_FLUSH_PERSISTENT, EOPNOTSUPP},
		{1u << 10, EINVAL},
		{1u << 19, EINVAL},
		{1u << 30, EINVAL},
		{1u << 31, EINVAL},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct ibv_mr *mr;

		errno = 0;
		mr = ibv_reg_mr_iova2(fake.pd, buf, sizeof(buf), 0, rows[i].access);
		if (rows[i].error) {
			assert_null(mr);
			assert_int_equal(errno, rows[i].error);
			continue;
		}
		assert_non_null(mr);
		assert_int_equal(ibv_dereg_mr(mr), 0);
	}
}

static void ibv_reg_mr_unmapped_memory_fails_with_efault(void **state)
{
	uint8_t *at = map(4 * PAGE, PROT_READ | PROT_WRITE);
	uint8_t *none = map(PAGE, PROT_NONE);
	const uint8_t *constant = map(PAGE, PROT_READ);

	(void)state;
	assert_int_equal(munmap(at + 2 * PAGE, PAGE), 0);
	assert_int_equal(memory_check(at, 2 * PAGE, true), 0);
	assert_int_equal(memory_check(at + 2 * PAGE - 1, 1, true), 0);
	assert_int_equal(memory_check(at + 2 * PAGE - 1, 2, true), -EFAULT);
	assert_int_equal(memory_check(at, 4 * PAGE, false), -EFAULT);
	assert_int_equal(memory_check(at + 2 * PAGE, 1, false), -EFAULT);
	assert_int_equal(memory_check(NULL, 1, false), -EFAULT);
	assert_int_equal(memory_check(NULL, 0, true), 0);
	assert_int_equal(memory_check((void *)(UINTPTR_MAX - 1), 4, false), -EINVAL);
	assert_int_equal(memory_check(none, 1, false), -EFAULT);
	assert_int_equal(memory_check(constant, PAGE, false), 0);
	assert_int_equal(memory_check(constant, PAGE, true), -EFAULT);
	errno = 0;
	assert_null(ibv_reg_mr(fake.pd, at, 4 * PAGE, 0));
	assert_int_equal(errno, EFAULT);
	errno = 0;
	assert_null(ibv_reg_mr(fake.pd, (void *)(uintptr_t)constant, PAGE, IBV_ACCESS_LOCAL_WRITE));
	assert_int_equal(errno, EFAULT);
	munmap(at, 4 * PAGE);
	munmap(none, PAGE);
	munmap((void *)(uintptr_t)constant, PAGE);
}

static void memory_check_allocates_no_pages(void **state)
{
	const size_t bytes = (size_t)1 << 30;
	uint8_t *at = map(bytes, PROT_READ | PROT_WRITE);
	static unsigned char resident[(1 << 30) / PAGE];
	size_t count = 0;

	(void)state;
	at[0] = 17;
	at[bytes - 1] = 18;
	assert_int_equal(memory_check(at, bytes, true), 0);
	assert_int_equal(at[0], 17);
	assert_int_equal(at[bytes - 1], 18);
	assert_int_equal(mincore(at, bytes, resident), 0);
	for (size_t i = 0; i < sizeof(resident); i++)
		count += resident[i] & 1;
	/* Both ends of the range, each of which may be in a huge page. */
	assert_true(count <= 2 * 512);
	munmap(at, bytes);
}

/* One page of a range of `pages` pages cannot be used in this way. */
static void break_page(uint8_t *at, size_t pages, size_t broken, const char *kind)
{
	uint8_t *page = at + broken * PAGE;
	int fd;

	assert_true(mmap(at, pages * PAGE, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == at);
	if (!strcmp(kind, "none")) {
		assert_int_equal(mprotect(page, PAGE, PROT_NONE), 0);
	} else if (!strcmp(kind, "read-only")) {
		assert_int_equal(mprotect(page, PAGE, PROT_READ), 0);
	} else if (!strcmp(kind, "unmapped")) {
		assert_int_equal(munmap(page, PAGE), 0);
	} else if (!strcmp(kind, "cut")) {
		/*
		 * The pages from the broken one on are behind the end of the file; others follow
		 * the file's mapping.
		 */
		fd = memfd_create("cut", MFD_CLOEXEC);
		assert_true(fd >= 0);
		assert_int_equal(ftruncate(fd, (off_t)(broken * PAGE)), 0);
		assert_true(mmap(at, (broken + 1) * PAGE, PROT_READ | PROT_WRITE,
				 MAP_SHARED | MAP_FIXED, fd, 0) == at);
		close(fd);
	}
}

static void check_broken(uint8_t *at, size_t pages, bool is_readable)
{
	assert_int_equal(memory_check(at, pages * PAGE, true), -EFAULT);
	assert_int_equal(memory_check(at, pages * PAGE, false), is_readable ? 0 : -EFAULT);
	errno = 0;
	assert_null(ibv_reg_mr(fake.pd, at, pages * PAGE, IBV_ACCESS_LOCAL_WRITE));
	assert_int_equal(errno, EFAULT);
	errno = 0;
	assert_null(ibv_reg_mr_iova2(fake.pd, at, pages * PAGE, 0, IBV_ACCESS_LOCAL_WRITE));
	assert_int_equal(errno, EFAULT);
}

/*
 * As an adapter's driver, which pins each page. Short ranges are examined in another way than long
 * ones.
 */
static void ibv_reg_mr_of_any_unusable_page_fails(void **state)
{
	static const char *const kinds[] = {"none", "read-only", "unmapped", "cut"};
	static const size_t ranges[] = {4, 16, 17, 300};
	struct ibv_mr *mr;

	(void)state;
	for (size_t i = 0; i < sizeof(ranges) / sizeof(ranges[0]); i++) {
		size_t pages = ranges[i];
		uint8_t *at = map(pages * PAGE, PROT_READ | PROT_WRITE);

		for (size_t kind = 0; kind < sizeof(kinds) / sizeof(kinds[0]); kind++) {
			for (size_t broken = 1; broken < pages;
			     broken += broken < 3 ? 1 : pages / 3) {
				break_page(at, pages, broken, kinds[kind]);
				check_broken(at, pages, !strcmp(kinds[kind], "read-only"));
				assert_int_equal(memory_check(at, broken * PAGE, true), 0);
				mr = ibv_reg_mr(fake.pd, at, broken * PAGE, IBV_ACCESS_LOCAL_WRITE);
				assert_non_null(mr);
				assert_int_equal(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION,
							      NULL, at, pages * PAGE, 0),
						 IBV_REREG_MR_ERR_INPUT);
				assert_int_equal(errno, EFAULT);
				assert_int_equal(mr->length, broken * PAGE);
				assert_int_equal(ibv_dereg_mr(mr), 0);
			}
		}
		munmap(at, pages * PAGE);
	}
}

static void ibv_reg_mr_of_guard_page_fails(void **state)
{
	static const size_t ranges[] = {4, 300};

	(void)state;
	for (size_t i = 0; i < sizeof(ranges) / sizeof(ranges[0]); i++) {
		uint8_t *at = map(ranges[i] * PAGE, PROT_READ | PROT_WRITE);

		/* Linux 6.13; a long range is examined since Linux 6.16. */
		if (!madvise(at + 2 * PAGE, PAGE, MADV_GUARD_INSTALL) &&
		    (i == 0 || vma_has_guard_page((uintptr_t)at, ranges[i] * PAGE)))
			check_broken(at, ranges[i], false);
		munmap(at, ranges[i] * PAGE);
	}
}

/* Adjacent mappings of different kinds are one range. */
static void ibv_reg_mr_of_several_mappings_succeeds(void **state)
{
	const size_t pages = 64;
	uint8_t *at = map(pages * PAGE, PROT_READ | PROT_WRITE);
	int fd = memfd_create("part", MFD_CLOEXEC);
	struct ibv_mr *mr;

	(void)state;
	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, 8 * PAGE), 0);
	assert_true(mmap(at + 20 * PAGE, 8 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
			 fd, 0) == at + 20 * PAGE);
	assert_int_equal(mprotect(at + 40 * PAGE, 8 * PAGE, PROT_READ | PROT_WRITE | PROT_EXEC), 0);
	mr = ibv_reg_mr(fake.pd, at + 5, pages * PAGE - 10, IBV_ACCESS_LOCAL_WRITE);
	assert_non_null(mr);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	assert_int_equal(mprotect(at + 40 * PAGE, 8 * PAGE, PROT_READ), 0);
	assert_null(ibv_reg_mr(fake.pd, at, pages * PAGE, IBV_ACCESS_LOCAL_WRITE));
	mr = ibv_reg_mr(fake.pd, at, pages * PAGE, IBV_ACCESS_REMOTE_READ);
	assert_non_null(mr);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	close(fd);
	munmap(at, pages * PAGE);
}

/* An adapter translates whole pages, so that the offset in the page is the same. */
static void ibv_reg_mr_iova_with_other_page_offset_fails(void **state)
{
	uint8_t *at = map(2 * PAGE, PROT_READ | PROT_WRITE);
	struct ibv_mr_init_attr attr = {
		.length = PAGE,
		.access = IBV_ACCESS_LOCAL_WRITE,
		.comp_mask = IBV_REG_MR_MASK_ADDR | IBV_REG_MR_MASK_IOVA,
		.addr = at + 100,
		.iova = 200,
	};
	struct ibv_mr *mr;

	(void)state;
	errno = 0;
	assert_null(ibv_reg_mr_iova(fake.pd, at + 100, PAGE, 200, IBV_ACCESS_LOCAL_WRITE));
	assert_int_equal(errno, EINVAL);
	errno = 0;
	assert_null(ibv_reg_mr_iova2(fake.pd, at, PAGE, 8, IBV_ACCESS_ON_DEMAND));
	assert_int_equal(errno, EINVAL);
	errno = 0;
	assert_null(ibv_reg_mr_ex(fake.pd, &attr));
	assert_int_equal(errno, EINVAL);
	attr.iova = 5 * PAGE + 100;
	mr = ibv_reg_mr_ex(fake.pd, &attr);
	assert_non_null(mr);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	mr = ibv_reg_mr_iova(fake.pd, at + 100, PAGE, 100, IBV_ACCESS_LOCAL_WRITE);
	assert_non_null(mr);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	/* The addresses of a zero-based region are offsets from its first byte (ibv_reg_mr(3)). */
	mr = ibv_reg_mr(fake.pd, at + 100, PAGE, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_ZERO_BASED);
	assert_non_null(mr);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	munmap(at, 2 * PAGE);
}

static void ibv_reg_mr_invalid_length_fails(void **state)
{
	struct ibv_mr *mr = ibv_reg_mr(fake.pd, NULL, 0, 0);

	(void)state;
	assert_non_null(mr);
	assert_int_equal(mr->length, 0);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	errno = 0;
	assert_null(ibv_reg_mr(fake.pd, buf, SIZE_MAX, 0));
	assert_int_equal(errno, EINVAL);
	errno = 0;
	assert_null(ibv_reg_mr_iova(fake.pd, buf, sizeof(buf), UINT64_MAX - 10, 0));
	assert_int_equal(errno, EINVAL);
}

static void mr_translate_iova_returns_address(void **state)
{
	struct ibv_mr *plain = ibv_reg_mr(fake.pd, buf + 5, 100, 0);
	struct ibv_mr *moved = ibv_reg_mr_iova(fake.pd, buf + 5, 100, 0x123456789005, 0);
	struct ibv_mr *zero = ibv_reg_mr_iova2(fake.pd, buf + 5, 100, 77, IBV_ACCESS_ZERO_BASED);
	const struct mr *mr;

	(void)state;
	assert_ptr_equal(plain->addr, buf + 5);
	assert_int_equal(plain->lkey, plain->rkey);
	mr = to_mr(plain);
	assert_ptr_equal(mr_translate(mr, (uintptr_t)buf + 5, 100), buf + 5);
	assert_ptr_equal(mr_translate(mr, (uintptr_t)buf + 104, 1), buf + 104);
	assert_null(mr_translate(mr, (uintptr_t)buf + 4, 1));
	assert_null(mr_translate(mr, (uintptr_t)buf + 105, 1));
	assert_null(mr_translate(mr, (uintptr_t)buf + 104, 2));
	assert_null(mr_translate(mr, (uintptr_t)buf + 5, 101));
	assert_null(mr_translate(mr, (uintptr_t)buf + 6, UINT64_MAX));
	assert_non_null(mr_translate(mr, 0, 0));
	assert_non_null(mr_translate(mr, UINT64_MAX, 0));
	assert_ptr_equal(mr_translate(to_mr(moved), 0x123456789005 + 99, 1), buf + 104);
	assert_null(mr_translate(to_mr(moved), (uintptr_t)buf + 5, 1));
	assert_ptr_equal(mr_translate(to_mr(zero), 0, 100), buf + 5);
	assert_null(mr_translate(to_mr(zero), 1, 100));
	assert_int_equal(ibv_dereg_mr(plain), 0);
	assert_int_equal(ibv_dereg_mr(moved), 0);
	assert_int_equal(ibv_dereg_mr(zero), 0);
}

static void mr_find_after_dereg_returns_null(void **state)
{
	struct ibv_mr *mr = ibv_reg_mr(fake.pd, buf, 8, 0);
	uint32_t key = mr->lkey;
	struct ibv_mr *next;

	(void)state;
	assert_int_equal(fake_calls.publish_mr, 1);
	LOCKED(assert_ptr_equal(mr_find(&fake.engine, key), to_mr(mr)));
	LOCKED(assert_null(mr_find(&fake.engine, 0)));
	LOCKED(assert_null(mr_find(&fake.engine, key + 1)));
	LOCKED(assert_null(mr_find(&fake.engine, key ^ 1u << MR_INDEX_BITS)));
	assert_int_equal(ibv_dealloc_pd(fake.pd), EBUSY);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	assert_int_equal(fake_calls.revoke_mr, 1);
	LOCKED(assert_null(mr_find(&fake.engine, key)));
	next = ibv_reg_mr(fake.pd, buf, 8, 0);
	assert_int_not_equal(next->lkey, key);
	assert_int_equal(ibv_dereg_mr(next), 0);
}

static void ibv_rereg_mr_invalid_argument_changes_nothing(void **state)
{
	struct ibv_mr *mr = ibv_reg_mr(fake.pd, buf, 100, IBV_ACCESS_LOCAL_WRITE);
	struct mr before = *to_mr(mr);
	uint8_t *hole = map(PAGE, PROT_READ);

	(void)state;
	munmap(hole, PAGE);
#define REFUSES(flags, pd, addr, length, access, error)                             \
	do {                                                                        \
		errno = 0;                                                          \
		assert_int_equal(ibv_rereg_mr(mr, flags, pd, addr, length, access), \
				 IBV_REREG_MR_ERR_INPUT);                           \
		assert_int_equal(errno, error);                                     \
		assert_memory_equal(to_mr(mr), &before, sizeof(before));            \
	} while (0)
	REFUSES(0, NULL, NULL, 0, 0, EINVAL);
	REFUSES(1 << 3, NULL, NULL, 0, 0, EINVAL);
	REFUSES(IBV_REREG_MR_CHANGE_TRANSLATION, NULL, NULL, 10, 0, EINVAL);
	REFUSES(IBV_REREG_MR_CHANGE_TRANSLATION, NULL, buf, 0, 0, EINVAL);
	REFUSES(IBV_REREG_MR_CHANGE_TRANSLATION, NULL, hole, 1, 0, EFAULT);
	REFUSES(IBV_REREG_MR_CHANGE_PD, NULL, NULL, 0, 0, EINVAL);
	REFUSES(IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, IBV_ACCESS_REMOTE_WRITE, EINVAL);
	REFUSES(IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, IBV_ACCESS_FLUSH_PERSISTENT, EOPNOTSUPP);
	REFUSES(IBV_REREG_MR_CHANGE_TRANSLATION, NULL, buf, 50, IBV_ACCESS_LOCAL_WRITE, EINVAL);
#undef REFUSES
	assert_int_equal(fake_calls.publish_mr, 1);
	assert_int_equal(fake_calls.revoke_mr, 0);
	fake.engine.is_fatal = true;
	assert_int_equal(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, 0),
			 IBV_REREG_MR_ERR_CMD);
	fake.engine.is_fatal = false;
	assert_int_equal(ibv_dereg_mr(mr), 0);
}

static void ibv_rereg_mr_of_null_mr_fails(void **state)
{
	struct ibv_mr *mr = ibv_alloc_null_mr(fake.pd);

	(void)state;
	assert_non_null(mr);
	assert_int_equal(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, buf, 50, 0),
			 IBV_REREG_MR_ERR_INPUT);
	assert_int_equal(errno, EINVAL);
	assert_int_equal(ibv_dereg_mr(mr), 0);
}

static void ibv_rereg_mr_changes_requested_properties(void **state)
{
	struct ibv_pd *pd = ibv_alloc_pd(fake.ctx);
	struct ibv_mr *mr = ibv_reg_mr(fake.pd, buf, 100, 0);
	uint32_t key = mr->rkey;

	(void)state;
	assert_int_equal(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, buf + 200, 50, 0),
			 0);
	assert_ptr_equal(mr->addr, buf + 200);
	assert_int_equal(mr->length, 50);
	assert_ptr_equal(mr_translate(to_mr(mr), (uintptr_t)buf + 200, 50), buf + 200);
	assert_int_equal(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0,
				      IBV_ACCESS_REMOTE_READ),
			 0);
	assert_int_equal(to_mr(mr)->access, IBV_ACCESS_REMOTE_READ);
	assert_int_equal(to_mr(mr)->length, 50);
	assert_int_equal(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_PD, pd, NULL, 0, 0), 0);
	assert_ptr_equal(mr->pd, pd);
	assert_int_equal(to_mr(mr)->access, IBV_ACCESS_REMOTE_READ);
	assert_int_equal(ibv_dealloc_pd(pd), EBUSY);
	/* Each change first revokes the peers' access, and the key is unchanged. */
	assert_int_equal(fake_calls.revoke_mr, 3);
	assert_int_equal(fake_calls.publish_mr, 4);
	assert_int_equal(mr->rkey, key);
	LOCKED(assert_ptr_equal(mr_find(&fake.engine, key), to_mr(mr)));
	assert_int_equal(ibv_dereg_mr(mr), 0);
	assert_int_equal(ibv_dealloc_pd(pd), 0);
}

static void mr_revoke_all_makes_keys_invalid(void **state)
{
	struct ibv_mr *mr = ibv_reg_mr(fake.pd, buf, 100, 0);
	uint32_t key = mr->lkey;

	(void)state;
	engine_lock(&fake.engine);
	mr_revoke_all(&fake.context);
	engine_unlock(&fake.engine);
	assert_int_equal(fake_calls.revoke_mr, 1);
	LOCKED(assert_null(mr_find(&fake.engine, key)));
	assert_int_equal(ibv_dereg_mr(mr), 0);
	assert_int_equal(fake_calls.revoke_mr, 1);
}

static void ibv_dereg_mr_in_forked_child_leaves_parent_mr(void **state)
{
	struct ibv_mr *mr = ibv_reg_mr(fake.pd, buf, 100, 0);

	(void)state;
	fake.engine.is_orphan = true;
	errno = 0;
	assert_null(ibv_reg_mr(fake.pd, buf, 100, 0));
	assert_int_equal(errno, EIO);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	assert_int_equal(fake_calls.revoke_mr, 0);
	fake.engine.is_orphan = false;
}

static void ibv_dereg_mr_busy_peer_fails_with_ebusy(void **state)
{
	struct ibv_mr *mr = ibv_reg_mr(fake.pd, buf, 8, IBV_ACCESS_LOCAL_WRITE);

	(void)state;
	fake_calls.revoke_error = -EBUSY;
	assert_int_equal(ibv_dereg_mr(mr), EBUSY);
	LOCKED(assert_ptr_equal(mr_find(&fake.engine, mr->rkey), to_mr(mr)));
	assert_int_equal(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, 0),
			 IBV_REREG_MR_ERR_INPUT);
	assert_int_equal(errno, EBUSY);
	assert_int_equal(to_mr(mr)->access, IBV_ACCESS_LOCAL_WRITE);
	fake_calls.revoke_error = 0;
	assert_int_equal(ibv_dereg_mr(mr), 0);
}

static struct ibv_mr *name;

static void deregister_name(void)
{
	assert_int_equal(ibv_dereg_mr(name), EBUSY);
}

static void ibv_rereg_mr_waiting_for_peers_makes_dereg_of_import_fail(void **state)
{
	struct ibv_mr *mr = ibv_reg_mr(fake.pd, buf, 100, 0);

	(void)state;
	name = ibv_import_mr(fake.pd, mr->handle);
	assert_non_null(name);
	fake_calls.while_revoking = deregister_name;
	assert_int_equal(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, buf + 200, 50, 0),
			 0);
	assert_null(fake_calls.while_revoking);
	/* The key that was published again is found. */
	LOCKED(assert_ptr_equal(mr_find(&fake.engine, mr->rkey), to_mr(mr)));
	ibv_unimport_mr(name);
	assert_int_equal(ibv_dereg_mr(mr), 0);
}

static void reregister_name(void)
{
	errno = 0;
	assert_int_equal(ibv_rereg_mr(name, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, 0),
			 IBV_REREG_MR_ERR_INPUT);
	assert_int_equal(errno, EBUSY);
}

static void ibv_rereg_mr_waiting_for_peers_makes_second_rereg_fail(void **state)
{
	(void)state;
	name = ibv_reg_mr(fake.pd, buf, 100, 0);
	fake_calls.while_revoking = reregister_name;
	assert_int_equal(ibv_rereg_mr(name, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0,
				      IBV_ACCESS_REMOTE_READ),
			 0);
	assert_int_equal(to_mr(name)->access, IBV_ACCESS_REMOTE_READ);
	assert_int_equal(ibv_dereg_mr(name), 0);
}

static void bind_window(void)
{
	to_mr(name)->windows++;
}

static void ibv_rereg_mr_window_bound_while_waiting_fails(void **state)
{
	(void)state;
	name = ibv_reg_mr(fake.pd, buf, 100, 0);
	fake_calls.while_revoking = bind_window;
	errno = 0;
	assert_int_equal(ibv_rereg_mr(name, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, buf + 200, 50,
				      0),
			 IBV_REREG_MR_ERR_INPUT);
	assert_int_equal(errno, EBUSY);
	assert_ptr_equal(name->addr, buf);
	assert_int_equal(fake_calls.publish_mr, 2);
	to_mr(name)->windows--;
	assert_int_equal(ibv_dereg_mr(name), 0);
}

#define MR_TEST(function) cmocka_unit_test_setup_teardown(function, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		MR_TEST(ibv_dereg_mr_busy_peer_fails_with_ebusy),
		MR_TEST(ibv_rereg_mr_waiting_for_peers_makes_dereg_of_import_fail),
		MR_TEST(ibv_rereg_mr_waiting_for_peers_makes_second_rereg_fail),
		MR_TEST(ibv_rereg_mr_window_bound_while_waiting_fails),
		MR_TEST(ibv_reg_mr_iova2_invalid_access_fails),
		MR_TEST(ibv_reg_mr_unmapped_memory_fails_with_efault),
		MR_TEST(memory_check_allocates_no_pages),
		MR_TEST(ibv_reg_mr_of_any_unusable_page_fails),
		MR_TEST(ibv_reg_mr_of_guard_page_fails),
		MR_TEST(ibv_reg_mr_of_several_mappings_succeeds),
		MR_TEST(ibv_reg_mr_iova_with_other_page_offset_fails),
		MR_TEST(ibv_reg_mr_invalid_length_fails),
		MR_TEST(mr_translate_iova_returns_address),
		MR_TEST(mr_find_after_dereg_returns_null),
		MR_TEST(ibv_rereg_mr_invalid_argument_changes_nothing),
		MR_TEST(ibv_rereg_mr_of_null_mr_fails),
		MR_TEST(ibv_rereg_mr_changes_requested_properties),
		MR_TEST(mr_revoke_all_makes_keys_invalid),
		MR_TEST(ibv_dereg_mr_in_forked_child_leaves_parent_mr),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
