/* SPDX-License-Identifier: BSD-2-Clause */
#include "daemon/closer.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/checks.h"
#include "daemon/user_log.h"

/* Enough for close() and the overhead of sanitizers. The kernel allocates only touched pages. */
#define STACK_BYTES (256u << 10)

/*
 * A user with descriptors that are not closed yet. On closer.users; freed with its last descriptor.
 */
struct closer_user {
	struct list_head node;
	uid_t uid;
	struct list_head queue; /* struct closing: close() could block and has not started */
	unsigned int pending;	/* descriptors that are not closed, or closed and not freed */
	bool has_thread;
};

/*
 * A descriptor to close. First on closer.added, perhaps on its user's queue, then owned by a
 * thread, then on closer.closed.
 */
struct closing {
	struct list_head node;
	struct closer_user *user;
	int fd;
};

/* Removes the next descriptor from a queue; NULL: the queue is empty. The caller holds the lock. */
static struct closing *next_closing(struct closer *closer, struct list_head *queue)
{
	struct closing *closing;

	mutex_assert_locked(&closer->lock);
	if (list_is_empty(queue))
		return NULL;
	closing = list_first_entry(queue, struct closing, node);
	list_del(&closing->node);
	return closing;
}

/*
 * Returns a user with queued descriptors that no thread serves, or NULL: none, or enough threads
 * serve users. The caller holds the lock.
 */
static struct closer_user *user_without_thread(struct closer *closer)
{
	struct closer_user *user;

	mutex_assert_locked(&closer->lock);
	if (closer->serving_count >= CLOSER_SERVING_MAX)
		return NULL;
	list_for_each_entry(user, &closer->users, node) {
		if (!user->has_thread && !list_is_empty(&user->queue))
			return user;
	}
	return NULL;
}

/* The caller holds the lock, which is released during close(). */
static void close_one(struct closer *closer, struct closing *closing)
{
	mutex_assert_locked(&closer->lock);
	closer->busy_count++;
	pthread_mutex_unlock(&closer->lock);
	close(closing->fd);
	pthread_mutex_lock(&closer->lock);
	closer->busy_count--;
	if (list_is_empty(&closer->closed) && !closer->is_stopped)
		uv_async_send(&closer->done);
	list_add_tail(&closing->node, &closer->closed);
}

/* Closes the descriptors in the queue of a user. The caller holds the lock. */
static void serve_user(struct closer *closer, struct closer_user *user)
{
	struct closing *closing;

	mutex_assert_locked(&closer->lock);
	user->has_thread = true;
	closer->serving_count++;
	while ((closing = next_closing(closer, &user->queue)))
		close_one(closer, closing);
	closer->serving_count--;
	user->has_thread = false;
}

/*
 * Whether close() does not block. True for memory: a memfd or another file of tmpfs or hugetlbfs;
 * no other file has seals. True for an AF_UNIX socket with an empty receive queue: the client's end
 * of a doorbell, for example. A client that sends a descriptor into the queue after this check and
 * closes the other references before close() can still make it block. None of these calls waits for
 * the client; poll() of another kind of file could.
 */
static bool closes_at_once(int fd)
{
	struct pollfd poll_fd = {.fd = fd, .events = POLLIN};
	int domain = 0;
	socklen_t len = sizeof(domain);

	if (fcntl(fd, F_GET_SEALS) >= 0)
		return true;
	return !getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &len) && domain == AF_UNIX &&
	       poll(&poll_fd, 1, 0) == 0;
}

/* Closes a new descriptor, or appends it to its user's queue. The caller holds the lock. */
static void serve_added(struct closer *closer, struct closing *closing)
{
	bool at_once;

	mutex_assert_locked(&closer->lock);
	pthread_mutex_unlock(&closer->lock);
	at_once = closes_at_once(closing->fd);
	pthread_mutex_lock(&closer->lock);
	if (at_once)
		close_one(closer, closing);
	else
		list_add_tail(&closing->node, &closing->user->queue);
}

/* One idle thread waits for work; the others end. */
static void *run(void *arg)
{
	struct closer *closer = arg;

	pthread_mutex_lock(&closer->lock);
	for (;;) {
		struct closing *closing = next_closing(closer, &closer->added);
		struct closer_user *user;

		if (closing) {
			serve_added(closer, closing);
			continue;
		}
		user = user_without_thread(closer);
		if (user) {
			serve_user(closer, user);
			continue;
		}
		if (closer->is_stopped || closer->idle_count > 0)
			break;
		closer->idle_count++;
		while (!closer->wake_count && !closer->is_stopped)
			pthread_cond_wait(&closer->has_work, &closer->lock);
		if (closer->wake_count > 0)
			closer->wake_count--;
	}
	closer->thread_count--;
	pthread_mutex_unlock(&closer->lock);
	return NULL;
}

/* The caller holds the lock. */
static int add_thread(struct closer *closer)
{
	pthread_attr_t attr;
	sigset_t all, before;
	pthread_t thread;
	int error;

	mutex_assert_locked(&closer->lock);
	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	pthread_attr_setstacksize(&attr, STACK_BYTES);
	/* The loop's thread handles signals. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	error = pthread_create(&thread, &attr, run, closer);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	pthread_attr_destroy(&attr);
	if (!error)
		closer->thread_count++;
	return -error;
}

/* Wakes or starts a thread. The caller holds the lock. */
static void find_thread(struct closer *closer)
{
	mutex_assert_locked(&closer->lock);
	if (closer->idle_count > 0) {
		closer->idle_count--;
		closer->wake_count++;
		pthread_cond_signal(&closer->has_work);
		return;
	}
	/* A thread that is not in close() looks for more work. */
	if (closer->busy_count < closer->thread_count)
		return;
	if (closer->thread_count < CLOSER_THREADS_MAX && add_thread(closer))
		log_debug("cannot start another thread that closes descriptors");
}

static struct closer_user *user_of(struct closer *closer, uid_t uid)
{
	struct closer_user *user;

	list_for_each_entry(user, &closer->users, node) {
		if (user->uid == uid)
			return user;
	}
	return NULL;
}

/* The caller holds the lock. */
static bool daemon_closer_is_full(const struct closer *closer, const struct closer_user *user)
{
	mutex_assert_locked(&closer->lock);
	return user->pending >= (closer->pending >= CLOSER_ALL_MAX ? 1 : CLOSER_USER_MAX);
}

static struct closer_user *user_new(struct closer *closer, uid_t uid)
{
	struct closer_user *user = calloc(1, sizeof(*user));

	if (!user)
		return NULL;
	user->uid = uid;
	list_init(&user->queue);
	list_add_tail(&user->node, &closer->users);
	return user;
}

/* Runs in the loop's thread: frees the closed descriptors' entries. */
static void on_done(uv_async_t *done)
{
	struct closer *closer = container_of(done, struct closer, done);

	pthread_mutex_lock(&closer->lock);
	while (!list_is_empty(&closer->closed)) {
		struct closing *closing = list_first_entry(&closer->closed, struct closing, node);
		struct closer_user *user = closing->user;

		list_del(&closing->node);
		free(closing);
		user->pending--;
		closer->pending--;
		if (user->pending > 0)
			continue;
		list_del(&user->node);
		free(user);
	}
	pthread_mutex_unlock(&closer->lock);
	if (!closer->is_stopped)
		closer->on_closed(closer);
}

int closer_start(struct closer *closer, uv_loop_t *loop, void (*on_closed)(struct closer *closer))
{
	int error;

	*closer = (struct closer){.on_closed = on_closed};
	list_init(&closer->users);
	list_init(&closer->added);
	list_init(&closer->closed);
	pthread_mutex_init(&closer->lock, NULL);
	pthread_cond_init(&closer->has_work, NULL);
	error = uv_async_init(loop, &closer->done, on_done);
	if (error)
		return error;
	/* The async handle does not keep the loop running. */
	uv_unref((uv_handle_t *)&closer->done);
	pthread_mutex_lock(&closer->lock);
	error = add_thread(closer);
	pthread_mutex_unlock(&closer->lock);
	if (error)
		uv_close((uv_handle_t *)&closer->done, NULL);
	return error;
}

void closer_stop(struct closer *closer)
{
	on_done(&closer->done);
	pthread_mutex_lock(&closer->lock);
	closer->is_stopped = true;
	pthread_cond_broadcast(&closer->has_work);
	pthread_mutex_unlock(&closer->lock);
	uv_close((uv_handle_t *)&closer->done, NULL);
}

void closer_add(struct closer *closer, uid_t uid, int fd)
{
	struct closing *closing;

	if (fd < 0)
		return;
	closing = malloc(sizeof(*closing));
	pthread_mutex_lock(&closer->lock);
	if (closing)
		closing->user = user_of(closer, uid);
	if (closing && !closing->user)
		closing->user = user_new(closer, uid);
	if (!closing || !closing->user) {
		/* close() in this thread could block indefinitely. */
		user_log(USER_LOG_MEMORY, LOG_LEVEL_ERROR, uid,
			 "out of memory: descriptor %d of uid %u is not closed", fd,
			 (unsigned int)uid);
		free(closing);
		goto unlock;
	}
	closing->fd = fd;
	list_add_tail(&closing->node, &closer->added);
	closing->user->pending++;
	closer->pending++;
	find_thread(closer);
unlock:
	pthread_mutex_unlock(&closer->lock);
}

enum first_message { FIRST_NONE, FIRST_PLAIN, FIRST_WITH_DESCRIPTORS, FIRST_UNKNOWN };

/*
 * MSG_PEEK leaves a message and its descriptors in the queue. This msghdr has no room for control
 * data, so MSG_CTRUNC reveals that a message has some: descriptors, or with SO_PASSCRED the
 * credentials, which then every message has.
 */
static ssize_t peek(int fd, bool with_credentials, int *flags)
{
	struct msghdr msg = {0};
	const int on = with_credentials;
	ssize_t len;

	if (setsockopt(fd, SOL_SOCKET, SO_PASSCRED, &on, sizeof(on)))
		return -errno;
	do {
		len = recvmsg(fd, &msg, MSG_PEEK | MSG_DONTWAIT);
		/*
		 * The close of the peer's end is reported once (ECONNRESET), even if messages are
		 * queued.
		 */
	} while (len < 0 && (errno == EINTR || errno == ECONNRESET));
	*flags = msg.msg_flags;
	return len < 0 ? -errno : len;
}

/* What the first message in the receive queue of a socket is; the message is not removed. */
static enum first_message first_message(int fd)
{
	int flags = 0;
	ssize_t len = peek(fd, false, &flags);

	if (len < 0)
		return len == -EAGAIN ? FIRST_NONE : FIRST_UNKNOWN;
	if (flags & MSG_CTRUNC)
		return FIRST_WITH_DESCRIPTORS;
	if (len > 0 || flags & MSG_TRUNC)
		return FIRST_PLAIN;
	/* An empty message, or the end of the queue. */
	if (peek(fd, true, &flags) < 0)
		return FIRST_UNKNOWN;
	return flags & MSG_CTRUNC ? FIRST_PLAIN : FIRST_NONE;
}

/*
 * Removes the messages in front of the first one with descriptors, after the peer can no longer
 * send. Whether none is left. The send buffer of the peer limits their number.
 */
static bool socket_drain(int fd)
{
	struct msghdr msg = {0};
	enum first_message first;

	while ((first = first_message(fd)) == FIRST_PLAIN) {
		if (recvmsg(fd, &msg, MSG_DONTWAIT) < 0 && errno != EINTR)
			return false;
	}
	return first == FIRST_NONE;
}

void closer_add_socket(struct closer *closer, uid_t uid, int fd)
{
	/* The client's sends fail after this. */
	shutdown(fd, SHUT_RD);
	if (socket_drain(fd))
		close(fd);
	else
		closer_add(closer, uid, fd);
}

unsigned int closer_pending(struct closer *closer, uid_t uid)
{
	const struct closer_user *user;
	unsigned int pending;

	pthread_mutex_lock(&closer->lock);
	user = user_of(closer, uid);
	pending = user ? user->pending : 0;
	pthread_mutex_unlock(&closer->lock);
	return pending;
}

bool closer_is_full(struct closer *closer, uid_t uid)
{
	const struct closer_user *user;
	bool full;

	pthread_mutex_lock(&closer->lock);
	user = user_of(closer, uid);
	full = user && daemon_closer_is_full(closer, user);
	pthread_mutex_unlock(&closer->lock);
	return full;
}
