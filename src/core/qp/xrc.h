/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_CORE_QP_XRC_H
#define USRDMA_CORE_QP_XRC_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "core/object/objects.h"

/*
 * Extended reliable connections (IBA A14). An XRC domain contains SRQs, each with a number, and XRC
 * target QPs. Each request that such a QP receives contains the number of an SRQ of its domain, and
 * uses that SRQ's PD, receive WQEs and CQ.
 */

/*
 * An XRC domain as opened by ibv_open_xrcd(), once or more often with one inode, perhaps also in
 * other processes. In engine.xrc.domains; guarded by engine.lock. It leaves that list with its last
 * xrcd, and is freed after the close was sent to the daemon. Until then it is in engine.xrc.closing
 * or owned by the closing caller.
 */
struct xrc_domain {
	struct list_head node;
	struct device *device;
	/* from the daemon, secret of the processes that opened the inode; 0: no inode */
	uint64_t id;
	dev_t st_dev;
	ino_t st_ino;
	unsigned int xrcds;
};

/* The domains and SRQs of XRC. Part of struct engine; guarded by engine.lock. */
struct engine_xrc {
	struct srq **srqs; /* [XRC_SRQNS], indexed by the low bits of the number; NULL: none */
	/* numbers are assigned in sequence, starting from a random number */
	uint32_t srqn_cursor;
	unsigned int srq_count;
	struct list_head domains;
	struct list_head closing; /* struct xrc_domain whose close was not sent to the daemon yet */
	struct timer closing_timer; /* next attempt to send the close to the daemon */
};

/* One ibv_open_xrcd(). Owned by the application; freed by ibv_close_xrcd(). */
struct xrcd {
	struct ibv_xrcd pub;
	struct context *context;
	struct xrc_domain *domain;
	unsigned int users; /* number of SRQs and QPs created with it; engine.lock */
};

static inline struct xrcd *to_xrcd(struct ibv_xrcd *xrcd)
{
	return (struct xrcd *)xrcd;
}

/* xrc_domain.c */
void xrc_domains_init(struct engine *engine);

/*
 * Returns the domain of that file on that device; creates it if `oflags` permit that. file_fd -1: a
 * new domain without an inode. The daemon is asked whether the domain exists in another process.
 * Called without engine.lock, so that a daemon that does not reply delays only the caller. 0 or
 * -errno.
 */
int xrc_domain_open(struct engine *engine, struct device *device, int file_fd, int oflags,
		    struct xrc_domain **opened) __attribute__((warn_unused_result));

/*
 * Ends one opening. engine.lock held. After the last opening of this process the daemon must be
 * notified: then the function returns the domain, which can no longer be found, and the caller
 * passes it to one of the two functions below. Otherwise NULL.
 */
struct xrc_domain *xrc_domain_put(struct engine *engine, struct xrc_domain *domain)
	__attribute__((warn_unused_result));
/* Notifies the daemon and waits for its reply. Without engine.lock. */
void xrc_domain_close(struct engine *engine, struct xrc_domain *domain);
/* Notifies the daemon without waiting. engine.lock held. */
void xrc_domain_close_later(struct engine *engine, struct xrc_domain *domain);

/* The domain with this id of the daemon, or NULL: not open in this process. */
struct xrc_domain *xrc_domain_of_id(const struct engine *engine, uint64_t id);

/*
 * Assigns a number to an SRQ with an xrcd and a cq, or releases it. engine.lock held. 0 or -errno.
 */
int xrc_srq_add(struct srq *srq) __attribute__((warn_unused_result));
void xrc_srq_remove(struct srq *srq);

/*
 * Selects the SRQ of the next request to an XRC target QP: sets the QP's PD, SRQ and CQ until the
 * next call or xrc_unaim(). false: the QP's domain has no such SRQ; these fields are NULL. No SRQ
 * is selected between two calls into a transport, so that an SRQ may be destroyed at any time.
 * engine.lock held.
 */
bool xrc_aim(struct qp *qp, uint32_t srqn);
void xrc_unaim(struct qp *qp);

/* Provider entry points behind verbs_context. */
struct ibv_xrcd *xrcd_open(struct ibv_context *context, struct ibv_xrcd_init_attr *attr);
int xrcd_close(struct ibv_xrcd *xrcd);
struct ibv_qp *xrc_open_qp(struct ibv_context *context, struct ibv_qp_open_attr *attr);

/*
 * Ends one handle of an XRC target QP, made by ibv_create_qp_ex() or ibv_open_qp(). true: it was
 * the last one, and the caller must destroy the QP. engine.lock held.
 */
bool xrc_qp_put_handle(struct qp *handle);

/* ibv_destroy_qp() of a remote handle. */
int xrc_destroy_remote(struct qp *handle);

/* Whether the QP is orphaned: no process has a handle of it. */
bool xrc_qp_is_orphaned(const struct qp *qp);

/* The QP itself, for the QP or one of its local handles. */
static inline struct qp *qp_of_handle(struct qp *handle)
{
	return handle->opened ? handle->opened : handle;
}

#endif
