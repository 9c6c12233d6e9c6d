/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_CORE_XRC_H
#define USRDMA_CORE_XRC_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "core/objects.h"

/*
 * Extended reliable connections (IBA A14): a domain joins SRQs, each with a number, and XRC receive QPs. Every request that
 * comes in on such a QP names an SRQ of its domain, and with it PD, receives and completion queue.
 */

/*
 * What ibv_open_xrcd() opened, once or more often under one inode, here and perhaps in other processes. On
 * engine.xrc_domains; guarded by engine.lock; dies with its last xrcd.
 */
struct xrc_domain {
	struct list_head node;
	struct device *device;
	uint64_t id; /* the daemon's, a secret of those who opened the inode; 0: no inode, nobody can open it again */
	dev_t st_dev;
	ino_t st_ino;
	unsigned int xrcds;
};

/* One ibv_open_xrcd. Owned by the application; dies in ibv_close_xrcd. */
struct xrcd {
	struct ibv_xrcd pub;
	struct context *context;
	struct xrc_domain *domain;
	unsigned int users; /* SRQs and QPs made with it; engine.lock */
};

static inline struct xrcd *to_xrcd(struct ibv_xrcd *xrcd)
{
	return (struct xrcd *)xrcd;
}

static inline bool qp_is_xrc(enum ibv_qp_type type)
{
	return type == IBV_QPT_XRC_SEND || type == IBV_QPT_XRC_RECV;
}

/*
 * xrc_domain.c: the domain of that file on that device, found, or made if `oflags` permit it; file_fd -1: a new one. The
 * daemon is asked whether it is there and who else has it. 0 or -errno. engine.lock held.
 */
int xrc_domain_open(struct engine *engine, struct device *device, int file_fd, int oflags,
		    struct xrc_domain **opened) __attribute__((warn_unused_result));
void xrc_domain_put(struct engine *engine, struct xrc_domain *domain);
/* The domain that the daemon gave this id, or NULL: this process has not opened it. */
struct xrc_domain *xrc_domain_of_id(const struct engine *engine, uint64_t id);

/* An SRQ with an xrcd and a cq gets its number, or loses it. engine.lock held. 0 or -errno. */
int xrc_srq_add(struct srq *srq) __attribute__((warn_unused_result));
void xrc_srq_remove(struct srq *srq);

/*
 * What comes next to an XRC receive QP is for the SRQ of that number: it lends the QP its PD, its receives and its
 * completion queue, until the next call or xrc_unaim(). false: the QP's domain has no such SRQ, and the QP has nothing
 * of them. Nothing is aimed between two calls into a transport, so an SRQ may go at any time. engine.lock held.
 */
bool xrc_aim(struct qp *qp, uint32_t srqn);
void xrc_unaim(struct qp *qp);

/* Provider entry points behind verbs_context. */
struct ibv_xrcd *xrcd_open(struct ibv_context *context, struct ibv_xrcd_init_attr *attr);
int xrcd_close(struct ibv_xrcd *xrcd);
struct ibv_qp *xrc_open_qp(struct ibv_context *context, struct ibv_qp_open_attr *attr);

/*
 * Ends one name of an XRC receive QP, of ibv_create_qp_ex() or ibv_open_qp(). true: it was the last, and the QP that
 * they named is the caller's to remove. engine.lock held.
 */
bool xrc_qp_put_name(struct qp *name);

/* ibv_destroy_qp() of a name of another process's QP. */
int xrc_destroy_far(struct qp *name);

/* Nobody has a name of it any more. */
bool xrc_qp_is_forsaken(const struct qp *qp);

/* The QP itself, whichever of its names this is. */
static inline struct qp *qp_of_name(struct qp *name)
{
	return name->opened ? name->opened : name;
}

#endif
