/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "core/engine.h"
#include "core/relay.h"
#include "core/xrc.h"

/*
 * XRC domains as this process knows them. Which of them other processes have open only the daemon knows: it looks at the
 * file itself, and gives all who opened the same one the same id, which nobody else can guess.
 */

static struct xrc_domain *find_inode(const struct engine *engine, const struct device *device,
				     const struct stat *file)
{
	struct xrc_domain *domain;

	list_for_each_entry(domain, &engine->xrc_domains, node) {
		if (domain->id && domain->device == device && domain->st_dev == file->st_dev &&
		    domain->st_ino == file->st_ino)
			return domain;
	}
	return NULL;
}

struct xrc_domain *xrc_domain_of_id(const struct engine *engine, uint64_t id)
{
	struct xrc_domain *domain;

	list_for_each_entry(domain, &engine->xrc_domains, node) {
		if (id && domain->id == id)
			return domain;
	}
	return NULL;
}

static struct xrc_domain *domain_new(struct engine *engine, struct device *device)
{
	struct xrc_domain *domain = calloc(1, sizeof(*domain));

	if (!domain)
		return NULL;
	domain->device = device;
	list_add_tail(&domain->node, &engine->xrc_domains);
	return domain;
}

static void domain_free(struct xrc_domain *domain)
{
	list_del(&domain->node);
	free(domain);
}

static int ask_daemon(struct engine *engine, int file_fd, int oflags, struct xrc_domain *domain)
{
	struct ipc_xrcd_open req = {
		.hdr.type = IPC_XRCD_OPEN,
		.dev_id = domain->device->info.dev_id,
		.flags = (oflags & O_CREAT ? IPC_XRCD_CREATE : 0u) |
			 (oflags & O_EXCL ? IPC_XRCD_EXCLUSIVE : 0u),
	};
	struct ipc_xrcd_open_reply reply;
	int ret = ipc_call(&engine->client, &req, sizeof(req), &file_fd, 1, &reply, sizeof(reply));

	if (!ret)
		domain->id = reply.domain_id;
	return ret;
}

/* The first opening of an inode in this process. */
static int open_inode(struct engine *engine, struct device *device, int file_fd, int oflags,
		      const struct stat *file, struct xrc_domain **opened)
{
	struct xrc_domain *domain = domain_new(engine, device);
	int ret;

	if (!domain)
		return -ENOMEM;
	domain->st_dev = file->st_dev;
	domain->st_ino = file->st_ino;
	ret = ask_daemon(engine, file_fd, oflags, domain);
	if (ret) {
		domain_free(domain);
		return ret == -ENODEV ? -EIO : ret;
	}
	*opened = domain;
	return 0;
}

int xrc_domain_open(struct engine *engine, struct device *device, int file_fd, int oflags,
		    struct xrc_domain **opened)
{
	bool is_exclusive = oflags == (O_CREAT | O_EXCL);
	struct xrc_domain *domain;
	struct stat file;
	int ret = 0;

	if (file_fd == -1) {
		domain = domain_new(engine, device);
		ret = domain ? 0 : -ENOMEM;
	} else if (fstat(file_fd, &file)) {
		return -errno;
	} else {
		domain = find_inode(engine, device, &file);
		if (domain && is_exclusive)
			return -EINVAL;
		if (!domain)
			ret = open_inode(engine, device, file_fd,
					 is_exclusive ? oflags : oflags & O_CREAT, &file, &domain);
	}
	if (ret)
		return ret;
	domain->xrcds++;
	*opened = domain;
	return 0;
}

/* A child after fork() has no daemon to tell, and its parent has the domain open still. */
static void tell_daemon(struct engine *engine, const struct xrc_domain *domain)
{
	struct ipc_xrcd_close req = {.hdr.type = IPC_XRCD_CLOSE, .domain_id = domain->id};
	struct ipc_reply reply;

	if (!domain->id || engine->is_orphan || engine->is_fatal)
		return;
	(void)!ipc_call(&engine->client, &req, sizeof(req), NULL, 0, &reply, sizeof(reply));
}

void xrc_domain_put(struct engine *engine, struct xrc_domain *domain)
{
	if (--domain->xrcds)
		return;
	if (!engine->is_orphan)
		relay_domain_closed(engine, domain);
	tell_daemon(engine, domain);
	domain_free(domain);
}
