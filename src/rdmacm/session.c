/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdlib.h>

#include "rdmacm/session.h"

/*
 * Guards `current` and every session's refs. Taken after any other lock of this room, and never
 * while waiting for anything but the daemon's first answer.
 */
static pthread_mutex_t sessions_lock = PTHREAD_MUTEX_INITIALIZER;
static struct rcm_session *current;
/* Nobody comes back for their devices, but the application may still hold them. */
static struct rcm_session *ended;
static pthread_once_t fork_once = PTHREAD_ONCE_INIT;
static int fork_error;

/*
 * The child owns nothing the daemon gave its parent. Another thread of the parent may have held any
 * lock at the time of the fork, so the child makes the one it needs anew and keeps off those of the
 * old session.
 */
static void start_clean_after_fork(void)
{
	pthread_mutex_init(&sessions_lock, NULL);
	if (!current)
		return;
	ipc_client_forget(&current->client);
	current->is_inherited = true;
	current = NULL;
}

static void watch_forks(void)
{
	fork_error = pthread_atfork(NULL, NULL, start_clean_after_fork);
}

static bool is_dead(struct rcm_session *session)
{
	bool dead;

	pthread_mutex_lock(&session->client.lock);
	dead = session->client.fd < 0;
	pthread_mutex_unlock(&session->client.lock);
	return dead;
}

static int session_open(struct rcm_session **opened)
{
	struct rcm_session *session = calloc(1, sizeof(*session));
	int ret;

	if (!session)
		return -ENOMEM;
	ret = ipc_client_open(&session->client, IPC_ROLE_CM);
	if (ret) {
		free(session);
		/* Without its daemon a machine has no devices; the log says what is missing. */
		return ret == -ENOENT ? -ENODEV : ret;
	}
	session->refs = 1;
	list_init(&session->devices);
	pthread_mutex_init(&session->devices_lock, NULL);
	*opened = session;
	return 0;
}

/*
 * `current` itself counts as one reference, so that a process without ids keeps its connection and
 * devices.
 */
static int current_locked(struct rcm_session **session, struct rcm_session **stale)
{
	int ret;

	*stale = NULL;
	if (current && is_dead(current)) {
		*stale = current;
		current = NULL;
	}
	if (!current) {
		ret = session_open(&current);
		if (ret)
			return ret;
	}
	current->refs++;
	*session = current;
	return 0;
}

int rcm_session_get(struct rcm_session **session)
{
	struct rcm_session *stale;
	int ret;

	pthread_once(&fork_once, watch_forks);
	if (fork_error)
		return -fork_error;
	pthread_mutex_lock(&sessions_lock);
	ret = current_locked(session, &stale);
	pthread_mutex_unlock(&sessions_lock);
	if (stale)
		rcm_session_put(stale);
	return ret;
}

struct rcm_session *rcm_session_ref(struct rcm_session *session)
{
	pthread_mutex_lock(&sessions_lock);
	session->refs++;
	pthread_mutex_unlock(&sessions_lock);
	return session;
}

void rcm_session_put(struct rcm_session *session)
{
	bool is_last, has_devices;

	pthread_mutex_lock(&sessions_lock);
	/* An inherited one is the parent's: the child only stops looking at it. */
	is_last = --session->refs == 0 && !session->is_inherited;
	has_devices = is_last && !list_is_empty(&session->devices);
	if (has_devices) {
		session->next = ended;
		ended = session;
	}
	pthread_mutex_unlock(&sessions_lock);
	if (!is_last)
		return;
	ipc_client_close(&session->client);
	if (has_devices)
		return;
	pthread_mutex_destroy(&session->devices_lock);
	free(session);
}

int rcm_session_request(struct rcm_session *session, void *req, uint32_t req_len)
{
	struct ipc_reply reply;

	return ipc_call(&session->client, req, req_len, NULL, 0, &reply, sizeof(reply));
}
