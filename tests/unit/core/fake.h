/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_TESTS_UNIT_CORE_FAKE_H
#define USRDMA_TESTS_UNIT_CORE_FAKE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/ah.h"
#include "core/context.h"
#include "core/transport.h"

/*
 * An engine without a daemon and a thread, one context on one device of one GID, and two transports that carry nothing
 * but write down what they are asked. A test that links fake.c has these transports instead of those of the build.
 */
struct fake {
	struct engine engine;
	struct device device;
	struct context context;
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
};

/* What the transports were asked, since fake_open or fake_forget. */
struct fake_calls {
	unsigned int bind_first; /* of the one that is never the right one, unless first_takes */
	unsigned int bind;
	unsigned int ready;
	unsigned int halt;
	unsigned int unbind;
	unsigned int kick;
	unsigned int recv_posted;
	unsigned int publish_qp;
	unsigned int publish_mr;
	unsigned int revoke_mr;
	enum ibv_qp_state state_at_bind;
	enum ibv_qp_state state_at_halt;
	bool first_takes;
	int bind_error; /* what bind answers, once set */
	unsigned int ah_open;
	unsigned int ah_close;
	int ah_error;	   /* what ah_open answers */
	unsigned int sent; /* datagrams, the last one of which was … */
	struct datagram_tx datagram;
	const struct ah *sent_ah;
	uint8_t sent_bytes[64];
	int send_error;		/* what send_datagram answers instead of taking one */
	unsigned int send_room; /* … after so many more, if not 0 */
	unsigned int datagrams_end;
	unsigned int join;
	unsigned int leave;
	int join_error; /* what join answers, once set */
	uint32_t joined_ifindex;
	uint32_t left_ifindex;
	union ibv_gid joined;
	union ibv_gid left;
};

extern struct fake_calls fake_calls;

void fake_open(struct fake *fake);
/* Asserts that nothing of the context is left. */
void fake_close(struct fake *fake);

/* A QP with 16 WRs and 4 SGEs each way, in RESET. */
struct ibv_qp *fake_qp(struct fake *fake, enum ibv_qp_type type, struct ibv_srq *srq);

/* Attributes that are right for every transition of RC, and the mask of those that one needs. */
struct ibv_qp_attr fake_attr(enum ibv_qp_state state);
int fake_mask(enum ibv_qp_type type, enum ibv_qp_state state);
int fake_modify(struct ibv_qp *qp, enum ibv_qp_state state);
/* Along RESET, INIT, RTR, RTS, SQD up to state; asserts success. */
void fake_walk(struct ibv_qp *qp, enum ibv_qp_state state);

/* The next async event, acknowledged, must be this one; or there is none. */
void fake_expect_event(struct fake *fake, enum ibv_event_type type, const void *element);
void fake_expect_no_event(struct fake *fake);

#endif
