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
 * What the tests of the rdma_cm share: the two sides of a connection in one thread, each with an
 * event channel. Every helper asserts that what it does works.
 */
struct ends {
	struct sockaddr_storage addr; /* the listener's, port included */
	struct rdma_event_channel *server;
	struct rdma_event_channel *client;
	struct rdma_cm_id *listener;
	struct rdma_cm_id *active;
	struct rdma_cm_id *passive;
	struct rdma_cm_event *request; /* CONNECT_REQUEST, not yet acknowledged */
};

#define CM_ADDRS_MAX   4
#define CM_LOOPBACKS   2 /* cm_addrs() begins with them */
#define CM_PORT_NOBODY 1 /* nobody listens there */

/*
 * Bytes of private data that a message of RDMA_PS_TCP has for the user (rdma_connect(3),
 * rdma_accept(3)).
 */
#define CM_REQ_BYTES 56
#define CM_REP_BYTES 196
#define CM_REJ_BYTES 148

/*
 * 127.0.0.1, ::1 and this machine's first other address of each family, port 0; returns how many
 * there are.
 */
size_t cm_addrs(struct sockaddr_storage *addrs);
void cm_set_port(struct sockaddr_storage *addr, __be16 port);
/* IPv4 loopback with this port (host order). */
struct sockaddr_storage cm_loopback(uint16_t port);

/* The port space of every id that is made here; RDMA_PS_TCP unless a test says otherwise. */
extern enum rdma_port_space cm_ps;

struct rdma_event_channel *cm_channel(void);
struct rdma_cm_id *cm_id(struct rdma_event_channel *channel);

/* The next event, within ten seconds; it must be of this type. The caller acknowledges it. */
struct rdma_cm_event *cm_get(struct rdma_event_channel *channel, enum rdma_cm_event_type type);
/* … and of this id with status 0, and is acknowledged. */
void cm_pass(struct rdma_event_channel *channel, struct rdma_cm_id *id,
	     enum rdma_cm_event_type type);
/* … and with this status. */
void cm_fail(struct rdma_event_channel *channel, enum rdma_cm_event_type type, int status);
bool cm_readable(const struct rdma_event_channel *channel, int timeout_ms);
/* Acknowledges everything until an event of this type. */
void cm_skip_to(struct rdma_event_channel *channel, enum rdma_cm_event_type type);

/* Steps of a connection, in this order. */
void ends_listen(struct ends *ends, const struct sockaddr_storage *addr, int backlog);
void ends_resolve(struct ends *ends);
void ends_create_qp(struct rdma_cm_id *id);
void ends_request(struct ends *ends, struct rdma_conn_param *param);
void ends_establish(struct ends *ends);
/* All of them, with queue pairs, over this address (NULL: IPv4 loopback). */
void ends_open(struct ends *ends, const struct sockaddr_storage *addr);
/* Destroys whatever is there. */
void ends_close(struct ends *ends);

enum ibv_qp_state cm_qp_state(struct rdma_cm_id *id);

#endif
