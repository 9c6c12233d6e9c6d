/* SPDX-License-Identifier: BSD-2-Clause */
#include "daemon/probes_user.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fault_rule.h"
#include "base/log.h"
#include "base/resize.h"
#include "daemon/fault_user.h"
#include "daemon/reserve.h"

#define PAGE_SEALS  (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)
#define RULES_SEALS (F_SEAL_SHRINK | F_SEAL_WRITE)
#define WHY_BYTES   128

/* Gives the file of the page its size, and maps it. 0 or -errno. */
static int page_map(struct probes_user *user)
{
	struct probe_page *page;
	int error = resize_memory(user->fd, sizeof(*page));

	if (error)
		return error;
	if (fcntl(user->fd, F_ADD_SEALS, PAGE_SEALS))
		return -errno;
	page = mmap(NULL, sizeof(*page), PROT_READ | PROT_WRITE, MAP_SHARED, user->fd, 0);
	if (page == MAP_FAILED)
		return -errno;
	page->magic = PROBE_PAGE_MAGIC;
	page->version = PROBE_PAGE_VERSION;
	user->page = page;
	return 0;
}

/*
 * Creates the page of a user. 0 or -errno. A daemon whose limits do not allow the memory (RLIMIT_FSIZE) serves its clients without
 * a page: they receive an empty file.
 */
static int page_create(struct probes_user *user)
{
	int error;

	user->fd = memfd_create("usrdma-probes", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (user->fd < 0)
		return -errno;
	if (reserve_holds(user->fd)) {
		close(user->fd);
		return -EMFILE;
	}
	error = page_map(user);
	if (error)
		log_warn("processes of uid %u cannot be traced: %s", (unsigned int)user->uid,
			 strerror(-error));
	return 0;
}

static struct probes_user *user_find(const struct probes *probes, uid_t uid)
{
	struct probes_user *user;

	list_for_each_entry(user, &probes->users, node) {
		if (user->uid == uid)
			return user;
	}
	return NULL;
}

struct probes_user *probes_user_get(struct probes *probes, uid_t uid)
{
	struct probes_user *user = user_find(probes, uid);

	if (user) {
		user->refs++;
		return user;
	}
	user = calloc(1, sizeof(*user));
	if (!user)
		return NULL;
	user->uid = uid;
	if (page_create(user)) {
		free(user);
		return NULL;
	}
	user->refs = 1;
	list_add_tail(&user->node, &probes->users);
	return user;
}

static void user_free(struct probes_user *user)
{
	list_del(&user->node);
	if (user->page)
		munmap(user->page, sizeof(*user->page));
	close(user->fd);
	free(user);
}

void probes_user_put(struct probes *probes, struct probes_user *user)
{
	(void)probes;
	if (--user->refs == 0 && !user->has_rules)
		user_free(user);
}

void probes_user_free_all(struct probes *probes)
{
	struct probes_user *user, *next;

	fault_user_remove_all();
	list_for_each_entry_safe(user, next, &probes->users, node)
		user_free(user);
	probes->rule_users = 0;
}

/* The page changes between these two calls. */
static void page_begin(struct probes_user *user)
{
	atomic_store(&user->page->generation, ++user->generation);
	atomic_thread_fence(memory_order_seq_cst);
}

static void page_end(struct probes_user *user)
{
	atomic_store_explicit(&user->page->generation, ++user->generation, memory_order_release);
}

void probes_user_touch(struct probes_user *user)
{
	if (!user->page)
		return;
	page_begin(user);
	page_end(user);
}

bool probes_user_set_traced(struct probes_user *user, uint32_t flags)
{
	if (user->traced == flags || !user->page)
		return false;
	user->traced = flags;
	page_begin(user);
	atomic_store(&user->page->flags, flags);
	page_end(user);
	return true;
}

/*
 * Reads the text of the rules. A sealed memfd cannot change, and reading it does not block. Returns the text, or NULL and
 * *error.
 */
static char *read_rules_file(int fd, int *error)
{
	struct stat st;
	int seals = fcntl(fd, F_GET_SEALS);
	char *text;

	*error = -EINVAL;
	if (seals < 0 || (seals & RULES_SEALS) != RULES_SEALS || fstat(fd, &st))
		return NULL;
	*error = -E2BIG;
	if (st.st_size >= PROBE_RULES_MAX)
		return NULL;
	*error = -ENOMEM;
	text = malloc(PROBE_RULES_MAX);
	if (!text)
		return NULL;
	*error = -EINVAL;
	if (pread(fd, text, (size_t)st.st_size, 0) != st.st_size ||
	    memchr(text, '\0', (size_t)st.st_size)) {
		free(text);
		return NULL;
	}
	text[st.st_size] = '\0';
	return text;
}

static void write_rules(struct probes_user *user, const char *text)
{
	struct probe_page *page = user->page;
	size_t bytes = strlen(text);

	page_begin(user);
	memcpy(page->rules, text, bytes + 1);
	atomic_store(&page->rules_bytes, (uint32_t)bytes);
	for (int i = 0; i < FAULT_RULES_MAX; i++) {
		atomic_store(&page->counts[i].passes, 0);
		atomic_store(&page->counts[i].firings, 0);
	}
	page_end(user);
}

static void apply_to_daemon(struct probes_user *user, const char *text)
{
	char why[WHY_BYTES] = "no memory";

	/* The points of the daemon count in this page from now on: it must not be freed before the daemon exits. */
	if (!user->is_daemons)
		user->refs++;
	user->is_daemons = true;
	fault_share_counters(user->page->counts);
	if (fault_apply_text(text, user->generation, why, sizeof(why)))
		log_warn("the fault rules are not applied to the daemon: %s", why);
}

int probes_user_set_rules(struct probes *probes, struct probes_user *user, int fd, bool for_daemon)
{
	struct fault_rules rules;
	char why[WHY_BYTES], *text;
	int error;

	if (!user->page)
		return -ENOMEM;
	text = read_rules_file(fd, &error);
	if (!text)
		return error;
	error = fault_parse(text, &rules, why, sizeof(why));
	if (error) {
		log_info("invalid fault rules of uid %u: %s", (unsigned int)user->uid, why);
		free(text);
		return error;
	}
	error = for_daemon ? 0 : fault_user_set(user->uid, text, user->page->counts);
	if (error) {
		free(text);
		return error;
	}
	probes->rule_users -= user->has_rules;
	user->has_rules = rules.count > 0;
	probes->rule_users += user->has_rules;
	write_rules(user, text);
	if (for_daemon)
		apply_to_daemon(user, text);
	free(text);
	return 0;
}
