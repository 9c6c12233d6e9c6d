/* SPDX-License-Identifier: BSD-2-Clause */
#include "daemon/xrcds.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/list.h"
#include "daemon/reserve.h"
#include "daemon/session.h"

#define PROC_PATH_BYTES 32

struct inode {
	dev_t dev;
	uint64_t number;
};

/* An open XRC domain. In server.xrc_domains; freed with its last opening. */
struct xrc_domain {
	struct list_head node;
	uint64_t id;
	uint32_t dev_id;
	struct inode inode;
	int inode_fd; /* keeps the inode number from being reused */
	unsigned int openings;
};

/* One XRCD_OPEN. In session.xrcds; freed by XRCD_CLOSE or when the session ends. */
struct opening {
	struct list_head node;
	struct xrc_domain *domain;
};

static struct xrc_domain *xrcds_find_inode(const struct server *server, uint32_t dev_id,
					   const struct inode *inode)
{
	struct xrc_domain *domain;

	list_for_each_entry(domain, &server->xrc_domains, node) {
		if (domain->dev_id == dev_id && domain->inode.dev == inode->dev &&
		    domain->inode.number == inode->number)
			return domain;
	}
	return NULL;
}

static bool is_id_taken(const struct server *server, uint64_t id)
{
	const struct xrc_domain *domain;

	list_for_each_entry(domain, &server->xrc_domains, node) {
		if (domain->id == id)
			return true;
	}
	return false;
}

/*
 * Opens the inode again through /proc. A duplicate of the client's descriptor shares its open file
 * description and would keep the client's file locks after the client has closed it. It is used
 * only where /proc is not mounted.
 */
static int hold_inode(int fd)
{
	char path[PROC_PATH_BYTES];
	int held;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	held = open(path, O_PATH | O_CLOEXEC);
	return held < 0 && errno == ENOENT ? fcntl(fd, F_DUPFD_CLOEXEC, 0) : held;
}

static struct xrc_domain *domain_new(struct session *session, uint32_t dev_id,
				     const struct inode *inode, int fd)
{
	struct server *server = session->server;
	struct xrc_domain *domain = calloc(1, sizeof(*domain));

	if (!domain)
		return NULL;
	do {
		if (getrandom(&domain->id, sizeof(domain->id), 0) != sizeof(domain->id))
			goto err_domain;
	} while (!domain->id || is_id_taken(server, domain->id));
	domain->dev_id = dev_id;
	domain->inode = *inode;
	domain->inode_fd = hold_inode(fd);
	if (domain->inode_fd < 0)
		goto err_domain;
	if (reserve_holds(domain->inode_fd)) {
		closer_add(&server->closer, session->cred.uid, domain->inode_fd);
		goto err_domain;
	}
	list_add_tail(&domain->node, &server->xrc_domains);
	return domain;

err_domain:
	free(domain);
	return NULL;
}

static void domain_put(struct session *session, struct xrc_domain *domain)
{
	if (--domain->openings)
		return;
	list_del(&domain->node);
	closer_add(&session->server->closer, session->cred.uid, domain->inode_fd);
	free(domain);
}

static bool may_open_more(const struct session *session)
{
	const struct session *other;
	unsigned int openings = 0;

	if (session->cred.uid == 0)
		return true;
	list_for_each_entry(other, &session->user->sessions, of_user)
		openings += other->xrcd_count;
	return openings < XRCDS_UID_MAX;
}

/*
 * Reads the inode of the client's descriptor, which must prove that the client may open the file.
 * AT_STATX_DONT_SYNC: a file system that the client itself serves might not reply to a request for
 * the attributes.
 */
static int look_at(int fd, struct inode *inode)
{
	int flags = fcntl(fd, F_GETFL);
	struct statx file;

	if (flags < 0)
		return -errno;
	if (flags & O_PATH)
		return -EBADF;
	if (statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_INO, &file))
		return -errno;
	*inode = (struct inode){makedev(file.stx_dev_major, file.stx_dev_minor), file.stx_ino};
	return 0;
}

int xrcds_open(struct session *session, const struct ipc_xrcd_open *req, int fd,
	       uint64_t *domain_id)
{
	struct server *server = session->server;
	struct xrc_domain *domain;
	struct opening *opening;
	struct inode inode;
	int ret = look_at(fd, &inode);

	if (ret)
		return ret;
	domain = xrcds_find_inode(server, req->dev_id, &inode);
	if (domain && req->flags & IPC_XRCD_EXCLUSIVE)
		return -EINVAL;
	if (!domain && !(req->flags & IPC_XRCD_CREATE))
		return -EAGAIN;
	if (!may_open_more(session))
		return -EDQUOT;
	opening = calloc(1, sizeof(*opening));
	if (!opening)
		return -ENOMEM;
	if (!domain)
		domain = domain_new(session, req->dev_id, &inode, fd);
	if (!domain) {
		free(opening);
		return -ENOMEM;
	}
	domain->openings++;
	opening->domain = domain;
	list_add_tail(&opening->node, &session->xrcds);
	session->xrcd_count++;
	*domain_id = domain->id;
	return 0;
}

static void opening_end(struct session *session, struct opening *opening)
{
	list_del(&opening->node);
	session->xrcd_count--;
	domain_put(session, opening->domain);
	free(opening);
}

int xrcds_close(struct session *session, uint64_t domain_id)
{
	struct opening *opening;

	list_for_each_entry(opening, &session->xrcds, node) {
		if (opening->domain->id == domain_id) {
			opening_end(session, opening);
			return 0;
		}
	}
	return -ENOENT;
}

void xrcds_leave(struct session *session)
{
	while (!list_is_empty(&session->xrcds))
		opening_end(session, list_first_entry(&session->xrcds, struct opening, node));
}
