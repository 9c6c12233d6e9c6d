/* SPDX-License-Identifier: BSD-2-Clause */
#include "daemon/failures.h"

#include <errno.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/fault_fired.h"

/* The number of stored failures of one user. Freed when it is 0. */
struct failures_share {
	struct list_head node;
	uid_t uid;
	uint32_t count;
};

void failures_init(struct failures *failures)
{
	*failures = (struct failures){0};
	list_init(&failures->list);
	list_init(&failures->shares);
}

static struct failures_share *share_of(struct failures *failures, uid_t uid)
{
	struct failures_share *share;

	list_for_each_entry(share, &failures->shares, node) {
		if (share->uid == uid)
			return share;
	}
	share = calloc(1, sizeof(*share));
	if (!share)
		return NULL;
	share->uid = uid;
	list_add_tail(&share->node, &failures->shares);
	return share;
}

static void share_put(struct failures_share *share)
{
	if (share->count)
		return;
	list_del(&share->node);
	free(share);
}

static void failures_remove(struct failures *failures, struct stored_failure *stored)
{
	list_del(&stored->node);
	failures->count--;
	stored->share->count--;
	share_put(stored->share);
	free(stored);
}

void failures_free(struct failures *failures)
{
	struct stored_failure *stored, *next;

	list_for_each_entry_safe(stored, next, &failures->list, node)
		failures_remove(failures, stored);
}

/* The user with the most failures. `adder` is chosen if no other user has more. */
static struct failures_share *largest_share(struct failures *failures, struct failures_share *adder)
{
	struct failures_share *share, *largest = adder;

	list_for_each_entry(share, &failures->shares, node) {
		if (share->count > largest->count)
			largest = share;
	}
	return largest;
}

static void make_room(struct failures *failures, struct failures_share *adder)
{
	struct failures_share *share = largest_share(failures, adder);
	struct stored_failure *stored, *oldest = NULL;

	list_for_each_entry(stored, &failures->list, node) {
		if (stored->share != share)
			continue;
		if (!oldest)
			oldest = stored;
		if (!(stored->failure.flags & IPC_FAILURE_NOTE))
			continue;
		oldest = stored;
		break;
	}
	if (oldest)
		failures_remove(failures, oldest);
}

/* The failure of that process with that id; NULL: none. */
static struct stored_failure *find_reported(struct failures *failures, pid_t pid, uid_t uid,
					    uint64_t id)
{
	struct stored_failure *stored;

	list_for_each_entry(stored, &failures->list, node) {
		if (stored->failure.id == id && stored->failure.pid == pid &&
		    stored->failure.uid == uid)
			return stored;
	}
	return NULL;
}

static struct stored_failure *failures_new(struct failures *failures, uid_t uid)
{
	struct failures_share *share = share_of(failures, uid);
	struct stored_failure *stored = share ? calloc(1, sizeof(*stored)) : NULL;

	if (!stored) {
		if (share)
			share_put(share);
		return NULL;
	}
	share->count++;
	stored->share = share;
	if (failures->count >= FAILURES_MAX)
		make_room(failures, share);
	failures->count++;
	stored->number = ++failures->last_number;
	list_add_tail(&stored->node, &failures->list);
	return stored;
}

/*
 * Names the rule that fired in the daemon for the process or its peer, unless the process has named
 * one of its own.
 */
static void name_daemon_fault(struct ipc_failure *failure)
{
	struct fault_fired fired;

	/* Calls fail for the reasons that they report. */
	if (failure->fault_rule || failure->kind == IPC_FAILURE_CALL)
		return;
	if (fault_fired_for_process(failure->pid, &fired) ||
	    fault_fired_for_process(failure->peer_pid, &fired))
		failure->fault_rule = fault_fired_code(&fired, &failure->fault_age_ms);
}

int failures_add(struct failures *failures, const struct ipc_failure *failure, pid_t pid, uid_t uid)
{
	struct stored_failure *stored;

	if (!failure->kind || failure->kind >= IPC_FAILURE_KIND_COUNT ||
	    failure->reason >= IPC_REASON_COUNT)
		return -EINVAL;
	stored = failure->flags & IPC_FAILURE_UPDATES ?
			 find_reported(failures, pid, uid, failure->id) :
			 NULL;
	if (!stored)
		stored = failures_new(failures, uid);
	if (!stored)
		return -ENOMEM;
	stored->failure = *failure;
	stored->failure.hdr = (struct ipc_hdr){0};
	stored->failure.pid = pid;
	stored->failure.uid = uid;
	name_daemon_fault(&stored->failure);
	if (!(failure->flags & IPC_FAILURE_NOTE))
		failures->last_ns = clock_now_ns();
	return 0;
}

int failures_read(const struct failures *failures, uint64_t cursor, uid_t reader,
		  struct ipc_failure_get_reply *reply)
{
	const struct stored_failure *stored;

	list_for_each_entry(stored, &failures->list, node) {
		if (stored->number < cursor || (reader != 0 && reader != stored->share->uid))
			continue;
		reply->number = stored->number;
		reply->failure = stored->failure;
		return 0;
	}
	return -ENOENT;
}
