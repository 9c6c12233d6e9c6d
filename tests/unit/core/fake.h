/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_TESTS_UNIT_CORE_FAKE_H
#define USRDMA_TESTS_UNIT_CORE_FAKE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "../../with_locks.h"
#include "core/device/ah.h"
#include "core/device/context.h"
#include "core/engine/transport.h"

/*
 * An engine without a daemon and a thread, and one context on one device with one GID. A test that
 * links fake.c has the transports of fake_transport.c, which carry no data and record their calls,
 * or its own instead of those of the build.
 */
struct fake {
	struct engine engine;
	struct device device;
	struct context context;
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
};

/* The calls of the transports since fake_open(). */
struct fake_calls {
	unsigned int bind_first; /* calls for the first transport */
	unsigned int bind;
	unsigned int ready;
	unsigned int halt;
	unsigned int unbind;
	unsigned int kick;
	unsigned int recv_posted;
	unsigned int publish_qp;
	unsigned int publish_mr;
	unsigned int revoke_mr;
	unsigned int revoke_qp;
	int revoke_error;
	/* Called while revoke_mr() waits, in place of another thread; NULL: no call */
	void (*while_revoking)(void);
	enum ibv_qp_state state_at_bind;
	enum ibv_qp_state state_at_halt;
	bool first_takes;
	int bind_error; /* error that bind returns, once set */
	unsigned int ah_open;
	unsigned int ah_close;
	int ah_error;	   /* error that ah_open returns */
	unsigned int sent; /* number of datagrams; the following fields describe the last one */
	struct datagram_tx datagram;
	const struct ah *sent_ah;
	uint8_t sent_bytes[64];
	int send_error;		/* error that send_datagram returns instead of sending */
	unsigned int send_room; /* … after this many more datagrams, if not 0 */
	unsigned int datagrams_end;
	bool datagrams_wait;	   /* datagrams wait if they may */
	unsigned int sent_waiting; /* number of datagrams that do, of `sent` */
	unsigned int sent_ended;   /* number of datagrams that do not */
	unsigned int join;
	unsigned int leave;
	int join_error; /* error that join returns, once set */
	uint32_t joined_ifindex;
	uint32_t left_ifindex;
	union ibv_gid joined;
	union ibv_gid left;
};

extern struct fake_calls fake_calls;

void fake_open(struct fake *fake);
/* Asserts that no object of the context is left. */
void fake_close(struct fake *fake);

/*
 * Executes a statement with all locks of the engine of a `struct fake fake`, as the callers in the
 * library hold them.
 */
#define LOCKED(statement) WITH_LOCKS(&fake.engine, statement)

/*
 * Whether the transport needs resolved addresses (transport.is_routed); false at the start of the
 * program.
 */
void fake_route(bool is_routed);

/* A QP with 16 WRs and 4 SGEs each way, in RESET. */
struct ibv_qp *fake_qp(struct fake *fake, enum ibv_qp_type type, struct ibv_srq *srq);

/*
 * Attributes that are valid for every transition of RC, and the mask of attributes that the
 * transition requires.
 */
struct ibv_qp_attr fake_attr(enum ibv_qp_state state);
int fake_mask(enum ibv_qp_type type, enum ibv_qp_state state);
int fake_modify(struct ibv_qp *qp, enum ibv_qp_state state);
/* Moves the QP through RESET, INIT, RTR, RTS, SQD up to state; asserts success. */
void fake_walk(struct ibv_qp *qp, enum ibv_qp_state state);

/*
 * Asserts that the next async event is this one and acknowledges it; or that no event is pending.
 */
void fake_expect_event(struct fake *fake, enum ibv_event_type type, const void *element);
void fake_expect_no_event(struct fake *fake);

#endif
