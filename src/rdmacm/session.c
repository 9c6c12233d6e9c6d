/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/thread_id.h"
#include "base/trace_ring.h"
#include "ipc/daemon_end.h"
#include "rdmacm/id.h"
#include "rdmacm/session.h"

/*
 * Guards `current` and the refs of all sessions. Acquired after all other locks of this module.
 * While it is held, a thread waits only for the daemon's reply to HELLO.
 */
static pthread_mutex_t sessions_lock = PTHREAD_MUTEX_INITIALIZER;
static struct rcm_session *current;
/*
 * The session that connects to the daemon now; the child of a fork() closes its copy of the
 * connection.
 */
static struct rcm_session *opening;
/* The connection that rcm_session_report_end() uses now; as above. */
static struct ipc_client *reporting;
/* Ended sessions with open devices, which the application may still use; never freed. */
static struct rcm_session *ended;
static pthread_once_t fork_once = PTHREAD_ONCE_INIT;
static int fork_error;

/*
 * In the child of a fork(): the objects in the daemon belong to the parent. Another thread of the
 * parent may have held any lock at the time of the fork. The child therefore initialises
 * sessions_lock again and does not use the locks of the old session.
 */
static void rdmacm_session_start_clean_after_fork(void)
{
	thread_id_forget();
	trace_ring_detach();
	pthread_mutex_init(&sessions_lock, NULL);
	rcm_id_after_fork_in_child();
	if (opening)
		ipc_client_forget(&opening->client);
	opening = NULL;
	if (reporting)
		ipc_client_forget(reporting);
	reporting = NULL;
	if (!current)
		return;
	ipc_client_forget(&current->client);
	current->is_inherited = true;
	current = NULL;
}

/* All fork handlers of this module: each channel and each id has a session. */
static void rdmacm_session_watch_forks(void)
{
	fork_error = pthread_atfork(NULL, NULL, rdmacm_session_start_clean_after_fork);
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
	session->client.fd = -1;
	opening = session;
	ret = ipc_client_open(&session->client, IPC_ROLE_CM);
	if (ret) {
		opening = NULL;
		free(session);
		/*
		 * Without the daemon program this host has no devices; ipc_client_open() has logged
		 * the cause.
		 */
		return ret == -ENOENT ? -ENODEV : ret;
	}
	session->refs = 1;
	list_init(&session->devices);
	pthread_mutex_init(&session->devices_lock, NULL);
	pthread_mutex_init(&session->opening_lock, NULL);
	*opened = session;
	opening = NULL;
	return 0;
}

/*
 * `current` holds a reference, so that a process without ids keeps its connection and devices.
 * *stale is a replaced session, whose reference the caller drops after releasing sessions_lock.
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

	pthread_once(&fork_once, rdmacm_session_watch_forks);
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
	/* An inherited session belongs to the parent: the child does not free it. */
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
	pthread_mutex_destroy(&session->opening_lock);
	free(session);
}

void rcm_session_report_end(struct rcm_session *session)
{
	/*
	 * libibverbs reports its failures again; the daemon itself had stored those of connections.
	 */
	static const struct ipc_failures none;
	struct ipc_failure failure = {.event = UINT32_MAX};
	struct ipc_client successor = {.fd = -1};
	bool has_devices;
	int error = 0;

	pthread_mutex_lock(&session->devices_lock);
	has_devices = !list_is_empty(&session->devices);
	pthread_mutex_unlock(&session->devices_lock);

	pthread_mutex_lock(&sessions_lock);
	if (!session->is_end_reported) {
		session->is_end_reported = true;
		/* Otherwise libibverbs, which also loses the daemon, explains it. */
		if (!has_devices)
			ipc_explain_daemon_end(&session->client);
		reporting = &successor;
		error = ipc_report_daemon_end(&session->client, &none, &failure, &successor);
		reporting = NULL;
	}
	pthread_mutex_unlock(&sessions_lock);
	if (error && error != -ENOTSUP)
		log_warn("the end of the daemon is not stored for usrdma why: %s",
			 strerror(-error));
}

int rcm_session_request(struct rcm_session *session, void *req, uint32_t req_len)
{
	struct ipc_reply reply;

	return ipc_call(&session->client, req, req_len, NULL, 0, &reply, sizeof(reply));
}
