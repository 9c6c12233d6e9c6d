/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_TESTS_API_CM_FIXTURE_H
#define USRDMA_TESTS_API_CM_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>

#include "refusal.h"

/*
 * Shared by the tests of the rdma_cm: the two sides of a connection in one thread, each with an
 * event channel. Every helper asserts that its calls succeed.
 */
struct ends {
	struct sockaddr_storage addr; /* address and port of the listener */
	struct rdma_event_channel *server;
	struct rdma_event_channel *client;
	struct rdma_cm_id *listener;
	struct rdma_cm_id *active;
	struct rdma_cm_id *passive;
	struct rdma_cm_event *request; /* CONNECT_REQUEST, not acknowledged yet */
};

#define CM_ADDRS_MAX   4
#define CM_LOOPBACKS   2 /* number of loopback addresses, which cm_addrs() returns first */
#define CM_PORT_NOBODY 1 /* a port without a listener */

/*
 * Bytes of private data that an RDMA_PS_TCP message carries for the application (rdma_connect(3),
 * rdma_accept(3)).
 */
#define CM_REQ_BYTES 56
#define CM_REP_BYTES 196
#define CM_REJ_BYTES 148

/*
 * Fills in 127.0.0.1, ::1 and the first other address of this host of each family, with port 0;
 * returns their number.
 */
size_t cm_addrs(struct sockaddr_storage *addrs);
void cm_set_port(struct sockaddr_storage *addr, __be16 port);
/* 127.0.0.1 with this port (host byte order). */
struct sockaddr_storage cm_loopback(uint16_t port);

/* The port space of every id that these helpers create; RDMA_PS_TCP by default. */
extern enum rdma_port_space cm_ps;

struct rdma_event_channel *cm_channel(void);
struct rdma_cm_id *cm_id(struct rdma_event_channel *channel);

/*
 * Returns the next event; it must arrive within ten seconds and have this type. The caller
 * acknowledges it.
 */
struct rdma_cm_event *cm_get(struct rdma_event_channel *channel, enum rdma_cm_event_type type);
/* As cm_get(), but the event must have this id and status 0, and is acknowledged. */
void cm_pass(struct rdma_event_channel *channel, struct rdma_cm_id *id,
	     enum rdma_cm_event_type type);
/* As cm_pass(), but the event must have this status. */
void cm_fail(struct rdma_event_channel *channel, enum rdma_cm_event_type type, int status);
bool cm_readable(const struct rdma_event_channel *channel, int timeout_ms);
/* Acknowledges all events up to the first one of this type. */
void cm_skip_to(struct rdma_event_channel *channel, enum rdma_cm_event_type type);

/* The steps of a connection, in this order. */
void ends_listen(struct ends *ends, const struct sockaddr_storage *addr, int backlog);
void ends_resolve(struct ends *ends);
void ends_create_qp(struct rdma_cm_id *id);
void ends_request(struct ends *ends, struct rdma_conn_param *param);
void ends_establish(struct ends *ends);
/* Performs all steps, with queue pairs, over this address (NULL: IPv4 loopback). */
void ends_open(struct ends *ends, const struct sockaddr_storage *addr);
/* Destroys all objects that exist. */
void ends_close(struct ends *ends);

enum ibv_qp_state cm_qp_state(struct rdma_cm_id *id);

#endif
