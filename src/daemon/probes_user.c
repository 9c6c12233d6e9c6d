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
#include "base/resize.h"
#include "daemon/fair_share.h"
#include "daemon/fault_process.h"
#include "daemon/fault_user.h"
#include "daemon/reserve.h"
#include "daemon/server.h"
#include "daemon/user_log.h"

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
 * Creates the page of a user. 0 or -errno. A daemon whose limits do not allow the memory
 * (RLIMIT_FSIZE) serves its clients without a page: they receive an empty file.
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
		user_log(USER_LOG_TRACE, LOG_LEVEL_WARN, user->uid,
			 "processes of uid %u cannot be traced: %s", (unsigned int)user->uid,
			 strerror(-error));
	return 0;
}

struct probes_user *probes_user_get(struct server *server, struct user *user)
{
	struct probes_user *found = user->probes;
	int error;

	if (found) {
		found->refs++;
		return found;
	}
	found = calloc(1, sizeof(*found));
	if (!found)
		return NULL;
	found->uid = user->uid;
	found->lease.is_exempt = fair_share_is_exempt(user->uid, server->uid);
	list_init(&found->lease.node);
	error = page_create(found);
	if (error) {
		free(found);
		errno = -error;
		return NULL;
	}
	found->refs = 1;
	found->user = user;
	user->probes = found;
	user->refs++;
	list_add_tail(&found->node, &server->probes.users);
	return found;
}

static void user_free(struct server *server, struct probes_user *user)
{
	rule_expiry_set_used(&server->rule_expiry, &user->lease, true);
	list_del(&user->node);
	if (user->page)
		munmap(user->page, sizeof(*user->page));
	close(user->fd);
	user->user->probes = NULL;
	users_put(&server->users, user->user);
	free(user);
}

void probes_user_put(struct server *server, struct probes_user *user)
{
	if (--user->refs == 0 && !user->has_rules)
		user_free(server, user);
}

void probes_user_free_all(struct server *server)
{
	struct probes_user *user, *next;

	fault_user_remove_all();
	list_for_each_entry_safe(user, next, &server->probes.users, node)
		user_free(server, user);
	server->probes.rule_users = 0;
}

static void check_use(struct server *server, struct probes_user *probes)
{
	/* The rules of the daemon's user apply to all users. */
	bool is_used = probes->uid == server->uid ? server->session_count > 0 :
						    probes->user->session_count > 0;

	rule_expiry_set_used(&server->rule_expiry, &probes->lease, is_used || !probes->has_rules);
}

void probes_user_check_use(struct server *server, const struct user *user)
{
	const struct user *own;

	if (!server->probes.rule_users)
		return;
	if (user->probes)
		check_use(server, user->probes);
	own = users_find(&server->users, server->uid);
	if (own && own != user && own->probes)
		check_use(server, own->probes);
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
 * Reads the text of the rules. A sealed memfd cannot change, and reading it does not block. Returns
 * the text, or NULL and *error.
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
		atomic_store(&page->counts[i].failures, 0);
	}
	page_end(user);
}

static void apply_to_daemon(struct probes_user *user, const char *text)
{
	char why[WHY_BYTES] = "no memory";

	/*
	 * The points of the daemon count in this page from now on: it must not be freed before the
	 * daemon exits.
	 */
	if (!user->is_daemons)
		user->refs++;
	user->is_daemons = true;
	fault_share_counters(user->page->counts);
	if (fault_apply_text(text, user->generation, why, sizeof(why)))
		user_log(USER_LOG_RULES, LOG_LEVEL_WARN, user->uid,
			 "the fault rules are not applied to the daemon: %s", why);
}

/* Whether the rules can be in force for this user: 0 or -errno. */
static int rules_check(const struct server *server, const struct probes_user *user,
		       const struct fault_rules *rules)
{
	bool is_first = rules->count > 0 && !user->has_rules;

	for (int i = 0; i < rules->count; i++) {
		if ((rules->rules[i].points >> FAULT_PROCESS & 1) &&
		    !fault_process_may_signal(user->uid))
			return -EOPNOTSUPP;
	}
	if (is_first && !fair_share_is_exempt(user->uid, server->uid) &&
	    server->probes.rule_users >= PROBES_RULE_USERS_MAX)
		return -EDQUOT;
	return 0;
}

static int rules_apply(struct server *server, struct probes_user *user, const char *text,
		       const struct fault_rules *rules)
{
	bool for_daemon = user->uid == server->uid;
	int error = rules_check(server, user, rules);

	if (!error && !for_daemon && rules->count > 0)
		error = fault_user_set(user->uid, text, user->page->counts);
	if (error)
		return error;
	if (!for_daemon && rules->count == 0)
		fault_user_remove(user->uid);
	server->probes.rule_users -= user->has_rules;
	user->has_rules = rules->count > 0;
	server->probes.rule_users += user->has_rules;
	write_rules(user, text);
	if (for_daemon)
		apply_to_daemon(user, text);
	check_use(server, user);
	return 0;
}

int probes_user_set_rules(struct server *server, struct probes_user *user, int fd)
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
	if (error)
		user_log(USER_LOG_RULES, LOG_LEVEL_INFO, user->uid,
			 "invalid fault rules of uid %u: %s", (unsigned int)user->uid, why);
	else
		error = rules_apply(server, user, text, &rules);
	free(text);
	return error;
}

void probes_rules_expire(struct rule_expiry *expiry, struct rule_lease *lease)
{
	static const struct fault_rules no_rules;
	struct server *server = container_of(expiry, struct server, rule_expiry);
	struct probes_user *user = container_of(lease, struct probes_user, lease);
	uid_t uid = user->uid;

	user->refs++;
	log_debug("the fault rules of uid %u end: no client has used them", (unsigned int)uid);
	/* Removing rules cannot fail. */
	(void)!rules_apply(server, user, "", &no_rules);
	probes_user_put(server, user);
	fault_tick_update(server, uid == server->uid ? FAULT_EVERY_USER : uid);
	server_count_changed(server);
}
