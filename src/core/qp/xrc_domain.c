/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "core/engine/engine.h"
#include "core/engine/lock_check.h"
#include "core/qp/xrc.h"
#include "core/qp/xrc_forward.h"

/*
 * The XRC domains that this process has open. The daemon maps the inode of a domain to a domain id.
 * All processes that open the same inode get the same id; a process without access to the file
 * cannot guess it.
 */

static struct xrc_domain *xrc_domain_find_inode(const struct engine *engine,
						const struct device *device,
						const struct stat *file)
{
	struct xrc_domain *domain;

	list_for_each_entry(domain, &engine->xrc.domains, node) {
		if (domain->id && domain->device == device && domain->st_dev == file->st_dev &&
		    domain->st_ino == file->st_ino)
			return domain;
	}
	return NULL;
}

struct xrc_domain *xrc_domain_of_id(const struct engine *engine, uint64_t id)
{
	struct xrc_domain *domain;

	list_for_each_entry(domain, &engine->xrc.domains, node) {
		if (id && domain->id == id)
			return domain;
	}
	return NULL;
}

static int xrc_domain_ask_daemon(struct engine *engine, int file_fd, int oflags,
				 struct xrc_domain *domain)
{
	struct ipc_xrcd_open req = {
		.hdr.type = IPC_XRCD_OPEN,
		.dev_id = domain->device->dev_id,
		.flags = (oflags & O_CREAT ? IPC_XRCD_CREATE : 0u) |
			 (oflags & O_EXCL ? IPC_XRCD_EXCLUSIVE : 0u),
	};
	struct ipc_xrcd_open_reply reply;
	int ret = engine_call(engine, &req, sizeof(req), file_fd, &reply, sizeof(reply));

	if (!ret)
		domain->id = reply.domain_id;
	return ret;
}

void xrc_domain_close(struct engine *engine, struct xrc_domain *domain)
{
	struct ipc_xrcd_close req = {.hdr.type = IPC_XRCD_CLOSE, .domain_id = domain->id};
	struct ipc_reply reply;

	engine_assert_unlocked(engine);
	(void)!engine_call(engine, &req, sizeof(req), -1, &reply, sizeof(reply));
	free(domain);
}

/*
 * Sends the IPC_XRCD_CLOSE requests that xrc_domain_close_later() could not send; otherwise the
 * daemon still counts these domains as open in this process. Called without engine.lock.
 */
static void send_closings(struct engine *engine)
{
	struct xrc_domain *domain = NULL;

	engine_assert_unlocked(engine);
	do {
		engine_lock(engine);
		domain = NULL;
		if (!list_is_empty(&engine->xrc.closing)) {
			domain = list_first_entry(&engine->xrc.closing, struct xrc_domain, node);
			list_del(&domain->node);
		}
		engine_unlock(engine);
		if (domain)
			xrc_domain_close(engine, domain);
	} while (domain);
}

/*
 * Adds an xrcd to a domain that this process has open. NULL: the domain is not open. engine.lock
 * held.
 */
static struct xrc_domain *open_again(struct engine *engine, struct device *device,
				     const struct stat *file)
{
	struct xrc_domain *domain = xrc_domain_find_inode(engine, device, file);

	engine_assert_locked(engine);
	if (domain)
		domain->xrcds++;
	return domain;
}

/*
 * Adds a domain to the engine's list after the daemon opened it (a domain without inode is local to
 * the process). If another thread opened the same inode at the same time, that thread's domain is
 * returned.
 */
static struct xrc_domain *enlist(struct engine *engine, struct xrc_domain *domain,
				 const struct stat *file)
{
	struct xrc_domain *known = NULL;

	engine_lock(engine);
	if (domain->id)
		known = open_again(engine, domain->device, file);
	if (!known) {
		domain->xrcds = 1;
		list_add_tail(&domain->node, &engine->xrc.domains);
	}
	engine_unlock(engine);
	if (!known)
		return domain;
	xrc_domain_close(engine, domain);
	return known;
}

/* Opens a domain that is not yet open in this process. */
static int open_new(struct engine *engine, struct device *device, int file_fd, int oflags,
		    const struct stat *file, struct xrc_domain **opened)
{
	struct xrc_domain *domain = calloc(1, sizeof(*domain));
	int ret = 0;

	if (!domain)
		return -ENOMEM;
	domain->device = device;
	list_init(&domain->node);
	if (file_fd != -1) {
		domain->st_dev = file->st_dev;
		domain->st_ino = file->st_ino;
		send_closings(engine);
		ret = xrc_domain_ask_daemon(engine, file_fd, oflags, domain);
	}
	if (!ret)
		*opened = enlist(engine, domain, file);
	else
		free(domain);
	return ret;
}

int xrc_domain_open(struct engine *engine, struct device *device, int file_fd, int oflags,
		    struct xrc_domain **opened)
{
	bool is_exclusive = oflags == (O_CREAT | O_EXCL);
	struct stat file = {0};

	engine_assert_unlocked(engine);
	if (file_fd != -1) {
		if (fstat(file_fd, &file))
			return -errno;
		engine_lock(engine);
		*opened = is_exclusive ? xrc_domain_find_inode(engine, device, &file) :
					 open_again(engine, device, &file);
		engine_unlock(engine);
		if (*opened)
			return is_exclusive ? -EINVAL : 0;
	}
	return open_new(engine, device, file_fd, is_exclusive ? oflags : oflags & O_CREAT, &file,
			opened);
}

struct xrc_domain *xrc_domain_put(struct engine *engine, struct xrc_domain *domain)
{
	engine_assert_locked(engine);
	if (--domain->xrcds)
		return NULL;
	if (!engine->is_orphan)
		xrc_forward_domain_closed(engine, domain);
	list_del(&domain->node);
	/*
	 * A child after fork() has no connection to the daemon, and its parent still has the domain
	 * open.
	 */
	if (domain->id && !engine->is_orphan && !engine->is_fatal)
		return domain;
	free(domain);
	return NULL;
}

/*
 * Delay before IPC_XRCD_CLOSE is retried after -EAGAIN: another thread waits for the daemon, or the
 * socket is full.
 */
#define CLOSING_RETRY_NS (10 * CLOCK_NS_PER_MS)

static void closing_timer(struct timer *timer, uint64_t now_ns)
{
	struct engine *engine = container_of(timer, struct engine, xrc.closing_timer);
	struct xrc_domain *domain, *tmp;

	list_for_each_entry_safe(domain, tmp, &engine->xrc.closing, node) {
		struct ipc_xrcd_close req = {.hdr.type = IPC_XRCD_CLOSE, .domain_id = domain->id};

		if (engine_try_send_request(engine, &req, sizeof(req)) == -EAGAIN) {
			timer_add(&engine->timers, timer, now_ns + CLOSING_RETRY_NS);
			engine_timer_added(engine);
			return;
		}
		/* Other errors mean that the daemon has exited, and the opened domain with it. */
		list_del(&domain->node);
		free(domain);
	}
}

void xrc_domain_close_later(struct engine *engine, struct xrc_domain *domain)
{
	engine_assert_locked(engine);
	list_add_tail(&domain->node, &engine->xrc.closing);
	closing_timer(&engine->xrc.closing_timer, clock_now_ns());
}

void xrc_domains_init(struct engine *engine)
{
	list_init(&engine->xrc.domains);
	list_init(&engine->xrc.closing);
	timer_init(&engine->xrc.closing_timer, closing_timer);
}
