/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/user_copy.h"

#include <errno.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/kernel_copy.h"
#include "base/page.h"
#include "base/user_access.h"
#include "base/user_fault.h"
#include "base/util.h"

/*
 * A range of application memory is divided into aligned words: at most one of 1, 2 and 4 bytes (the
 * head), any number of 8 bytes, at most one of 4, 2 and 1 bytes (the tail). Every aligned word of
 * up to 8 bytes in the range is a part of one of these words.
 */

#define BLOCK_BYTES 64u

USER_ACCESS_INLINE bool copy_1(uint8_t *to, const uint8_t *from, bool is_to)
{
	return is_to ? user_store_1(to, *from) : user_load_1(to, from);
}

USER_ACCESS_INLINE bool copy_2(uint8_t *to, const uint8_t *from, bool is_to)
{
	uint16_t word = 0;

	if (is_to) {
		memcpy(&word, from, sizeof(word));
		return user_store_2(to, word);
	}
	if (!user_load_2(&word, from))
		return false;
	memcpy(to, &word, sizeof(word));
	return true;
}

USER_ACCESS_INLINE bool copy_4(uint8_t *to, const uint8_t *from, bool is_to)
{
	uint32_t word = 0;

	if (is_to) {
		memcpy(&word, from, sizeof(word));
		return user_store_4(to, word);
	}
	if (!user_load_4(&word, from))
		return false;
	memcpy(to, &word, sizeof(word));
	return true;
}

USER_ACCESS_INLINE bool copy_8(uint8_t *to, const uint8_t *from, bool is_to)
{
	uint64_t word = 0;

	if (is_to) {
		memcpy(&word, from, sizeof(word));
		return user_store_8(to, word);
	}
	if (!user_load_8(&word, from))
		return false;
	memcpy(to, &word, sizeof(word));
	return true;
}

/* Copies the words before the first one of 8 bytes. */
USER_ACCESS_INLINE bool copy_head(uint8_t **to, const uint8_t **from, size_t *bytes, bool is_to)
{
	uintptr_t at = is_to ? (uintptr_t)*to : (uintptr_t)*from;
	size_t done = 0;

	if (at & 1 && *bytes >= 1) {
		if (!copy_1(*to, *from, is_to))
			return false;
		done = 1;
	}
	if ((at + done) & 2 && *bytes - done >= 2) {
		if (!copy_2(*to + done, *from + done, is_to))
			return false;
		done += 2;
	}
	if ((at + done) & 4 && *bytes - done >= 4) {
		if (!copy_4(*to + done, *from + done, is_to))
			return false;
		done += 4;
	}
	*to += done;
	*from += done;
	*bytes -= done;
	return true;
}

/* Copies the words after the last one of 8 bytes. */
USER_ACCESS_INLINE bool copy_tail(uint8_t *to, const uint8_t *from, size_t bytes, bool is_to)
{
	size_t done = 0;

	if (bytes & 4) {
		if (!copy_4(to, from, is_to))
			return false;
		done = 4;
	}
	if (bytes & 2) {
		if (!copy_2(to + done, from + done, is_to))
			return false;
		done += 2;
	}
	return !(bytes & 1) || copy_1(to + done, from + done, is_to);
}

/* Blocks begin at a multiple of 16. */
USER_ACCESS_INLINE bool copy_blocks(uint8_t **to, const uint8_t **from, size_t *bytes, bool is_to)
{
	uintptr_t at = is_to ? (uintptr_t)*to : (uintptr_t)*from;

	if (at & 8) {
		if (!copy_8(*to, *from, is_to))
			return false;
		*to += 8;
		*from += 8;
		*bytes -= 8;
	}
	for (; *bytes >= BLOCK_BYTES; *bytes -= BLOCK_BYTES) {
		if (is_to ? !user_store_block(*to, *from) : !user_load_block(*to, *from))
			return false;
		*to += BLOCK_BYTES;
		*from += BLOCK_BYTES;
	}
	return true;
}

/* is_to is a constant in every call: whether `to` is the application's memory, otherwise `from`. */
USER_ACCESS_INLINE bool copy_words(uint8_t *to, const uint8_t *from, size_t bytes, bool is_to)
{
	if ((is_to ? (uintptr_t)to : (uintptr_t)from) % 8 && !copy_head(&to, &from, &bytes, is_to))
		return false;
	if (bytes >= BLOCK_BYTES && !copy_blocks(&to, &from, &bytes, is_to))
		return false;
	for (; bytes >= 8; bytes -= 8) {
		if (!copy_8(to, from, is_to))
			return false;
		to += 8;
		from += 8;
	}
	return !bytes || copy_tail(to, from, bytes, is_to);
}

/* Stores the last aligned word of a range. */
USER_ACCESS_INLINE bool store_last_word(uint8_t *to, const uint8_t *from, size_t bytes)
{
	uint64_t word8;
	uint32_t word4;
	uint16_t word2;

	switch (bytes) {
	case sizeof(word8):
		memcpy(&word8, from, sizeof(word8));
		return user_store_release_8(to, word8);
	case sizeof(word4):
		memcpy(&word4, from, sizeof(word4));
		return user_store_release_4(to, word4);
	case sizeof(word2):
		memcpy(&word2, from, sizeof(word2));
		return user_store_release_2(to, word2);
	default:
		return user_store_release_1(to, *from);
	}
}

USER_ACCESS_INLINE bool copy_words_ordered(uint8_t *to, const uint8_t *from, size_t bytes)
{
	size_t last_bytes = user_last_word_bytes((uintptr_t)to + bytes, bytes);
	size_t before_bytes = bytes - last_bytes;

	return (!before_bytes || copy_words(to, from, before_bytes, true)) &&
	       store_last_word(to + before_bytes, from + before_bytes, last_bytes);
}

/*
 * Copies by instructions in a thread whose faults are not caught. Each page is examined before its
 * part is copied. If another thread unmaps the page in between, the process gets the signal.
 */
static bool copy_examined(uint8_t *to, const uint8_t *from, size_t bytes, bool is_to)
{
	size_t page_bytes = (size_t)sysconf(_SC_PAGESIZE);
	size_t part_bytes;

	for (; bytes; bytes -= part_bytes) {
		size_t at = is_to ? (uintptr_t)to : (uintptr_t)from;

		part_bytes = min_u64(bytes, page_bytes - at % page_bytes);
		if (!(is_to ? page_is_writable(to) : page_is_readable(from)))
			return false;
		if (is_to && part_bytes == bytes)
			return copy_words_ordered(to, from, bytes);
		if (!copy_words(to, from, part_bytes, is_to))
			return false;
		to += part_bytes;
		from += part_bytes;
	}
	return true;
}

/*
 * The system calls for threads whose faults are not caught. The kernel copies the elements of the
 * iovec in their order, but not the bytes of an element: the last word is an element of its own.
 * There are two reasons to copy by instructions instead. The kernel's copy function can divide
 * words on some processors. The kernel does not copy some memory that the process itself can access
 * (memfd_secret(2), device memory).
 */
static bool call_copy_to(uint8_t *user, const void *from, size_t bytes)
{
	size_t last_bytes = user_last_word_bytes((uintptr_t)user + bytes, bytes);
	size_t before_bytes = bytes - last_bytes;
	struct iovec ours[] = {
		{.iov_base = (void *)(uintptr_t)from, .iov_len = before_bytes},
		{.iov_base = (uint8_t *)(uintptr_t)from + before_bytes, .iov_len = last_bytes},
	};
	struct iovec theirs[] = {
		{.iov_base = user, .iov_len = before_bytes},
		{.iov_base = user + before_bytes, .iov_len = last_bytes},
	};
	int saved = errno;
	long copied = 0;

	if (kernel_copy_words() == KERNEL_WORDS_ALL)
		copied = syscall(SYS_process_vm_writev, getpid(), ours, COUNT(ours), theirs,
				 COUNT(theirs), 0);
	errno = saved;
	return copied == (long)bytes || copy_examined(user, from, bytes, true);
}

static bool call_copy_from(void *to, const void *user, size_t bytes)
{
	struct iovec ours = {.iov_base = to, .iov_len = bytes};
	struct iovec theirs = {.iov_base = (void *)(uintptr_t)user, .iov_len = bytes};
	int saved = errno;
	long copied = 0;

	if (kernel_copy_words() == KERNEL_WORDS_ALL)
		copied = syscall(SYS_process_vm_readv, getpid(), &ours, 1, &theirs, 1, 0);
	errno = saved;
	return copied == (long)bytes || copy_examined(to, user, bytes, false);
}

#ifdef USER_ACCESS_HAS_FIXUPS

USER_ACCESS_INLINE bool words_from(void *to, const void *user, size_t bytes)
{
	return copy_words(to, user, bytes, false);
}

USER_ACCESS_INLINE bool words_to(void *user, const void *from, size_t bytes)
{
	return copy_words(user, from, bytes, true);
}

USER_ACCESS_INLINE bool words_to_ordered(void *user, const void *from, size_t bytes)
{
	return copy_words_ordered(user, from, bytes);
}

#else

/* The arguments of a copy that user_fault_run() calls. */
struct words {
	void *to;
	const void *from;
	size_t bytes;
};

static void run_words_from(void *arg)
{
	const struct words *words = arg;

	(void)copy_words(words->to, words->from, words->bytes, false);
}

static void run_words_to(void *arg)
{
	const struct words *words = arg;

	(void)copy_words(words->to, words->from, words->bytes, true);
}

static void run_words_to_ordered(void *arg)
{
	const struct words *words = arg;

	(void)copy_words_ordered(words->to, words->from, words->bytes);
}

static bool words_from(void *to, const void *user, size_t bytes)
{
	struct words words = {to, user, bytes};

	return user_fault_run(&(struct iovec){(void *)(uintptr_t)user, bytes}, 1, run_words_from,
			      &words);
}

static bool words_to(void *user, const void *from, size_t bytes)
{
	struct words words = {user, from, bytes};

	return user_fault_run(&(struct iovec){user, bytes}, 1, run_words_to, &words);
}

static bool words_to_ordered(void *user, const void *from, size_t bytes)
{
	struct words words = {user, from, bytes};

	return user_fault_run(&(struct iovec){user, bytes}, 1, run_words_to_ordered, &words);
}

#endif

bool user_copy_from(void *to, const void *user, size_t bytes)
{
	if (!bytes)
		return true;
	return __builtin_expect(user_fault_is_caught(), 1) ? words_from(to, user, bytes) :
							     call_copy_from(to, user, bytes);
}

bool user_copy_to(void *user, const void *from, size_t bytes)
{
	if (!bytes)
		return true;
	return __builtin_expect(user_fault_is_caught(), 1) ? words_to(user, from, bytes) :
							     call_copy_to(user, from, bytes);
}

bool user_copy_to_ordered(void *user, const void *from, size_t bytes)
{
	if (!bytes)
		return true;
	return __builtin_expect(user_fault_is_caught(), 1) ? words_to_ordered(user, from, bytes) :
							     call_copy_to(user, from, bytes);
}

bool user_gather(void *to, const struct iovec *pieces, int count)
{
	uint8_t *at = to;

	for (int i = 0; i < count; i++) {
		if (!user_copy_from(at, pieces[i].iov_base, pieces[i].iov_len))
			return false;
		at += pieces[i].iov_len;
	}
	return true;
}

bool user_scatter(const struct iovec *pieces, int count, const void *from)
{
	const uint8_t *at = from;

	for (int i = 0; i < count; i++) {
		if (!user_copy_to(pieces[i].iov_base, at, pieces[i].iov_len))
			return false;
		at += pieces[i].iov_len;
	}
	return true;
}

size_t user_gather_readable(void *to, const struct iovec *pieces, int count, size_t bytes)
{
	uint8_t *at = to;
	size_t done = 0;

	for (int i = 0; i < count && done < bytes; i++) {
		size_t part = min_u64(pieces[i].iov_len, bytes - done);

		if (!user_copy_from(at + done, pieces[i].iov_base, part))
			memset(at + done, 0, part);
		done += part;
	}
	return done;
}

#ifdef USER_ACCESS_HAS_FIXUPS

static bool atomic_exchange_word(uint64_t *user, uint64_t value, uint64_t *original)
{
	return user_atomic_exchange(user, value, original);
}

static bool atomic_add_word(uint64_t *user, uint64_t add, uint64_t *original)
{
	return user_atomic_add(user, add, original);
}

static bool atomic_swap_word_if(uint64_t *user, uint64_t compare, uint64_t swap, uint64_t *original)
{
	return user_atomic_swap_if(user, compare, swap, original);
}

#else

/* The arguments of an atomic operation that user_fault_run() calls. */
struct atomic_words {
	uint64_t *user;
	uint64_t value, swap, original;
};

static void run_exchange(void *arg)
{
	struct atomic_words *words = arg;

	(void)user_atomic_exchange(words->user, words->value, &words->original);
}

static void run_add(void *arg)
{
	struct atomic_words *words = arg;

	(void)user_atomic_add(words->user, words->value, &words->original);
}

static void run_swap_if(void *arg)
{
	struct atomic_words *words = arg;

	(void)user_atomic_swap_if(words->user, words->value, words->swap, &words->original);
}

static bool run_atomic(struct atomic_words *words, void (*run)(void *arg), uint64_t *original)
{
	const struct iovec range = {words->user, sizeof(*words->user)};

	if (!user_fault_run(&range, 1, run, words))
		return false;
	*original = words->original;
	return true;
}

static bool atomic_exchange_word(uint64_t *user, uint64_t value, uint64_t *original)
{
	return run_atomic(&(struct atomic_words){.user = user, .value = value}, run_exchange,
			  original);
}

static bool atomic_add_word(uint64_t *user, uint64_t add, uint64_t *original)
{
	return run_atomic(&(struct atomic_words){.user = user, .value = add}, run_add, original);
}

static bool atomic_swap_word_if(uint64_t *user, uint64_t compare, uint64_t swap, uint64_t *original)
{
	return run_atomic(&(struct atomic_words){.user = user, .value = compare, .swap = swap},
			  run_swap_if, original);
}

#endif

/*
 * No system call executes an atomic operation on 8 bytes. A thread whose faults are not caught
 * therefore examines the page before: if another thread unmaps the page between, the process gets
 * the signal.
 */
static bool may_operate(uint64_t *user)
{
	return __builtin_expect(user_fault_is_caught(), 1) || page_is_writable(user);
}

bool user_exchange(uint64_t *user, uint64_t value, uint64_t *original)
{
	return may_operate(user) && atomic_exchange_word(user, value, original);
}

bool user_fetch_add(uint64_t *user, uint64_t add, uint64_t *original)
{
	return may_operate(user) && atomic_add_word(user, add, original);
}

bool user_compare_swap(uint64_t *user, uint64_t compare, uint64_t swap, uint64_t *original)
{
	return may_operate(user) && atomic_swap_word_if(user, compare, swap, original);
}
