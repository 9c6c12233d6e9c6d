/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_TEST_CMA_DESK_H
#define USRDMA_TEST_CMA_DESK_H

#include <rdma/rdma_cma.h>
#include <stdint.h>
#include <uv.h>

#include "daemon/cma.h"
#include "fake_netdev.h"
#include "ipc/msg_cm.h"

/*
 * A cma with two clients, one of them root, in one process: requests are function calls, events are
 * read from sockets.
 */
#define DESK_PORT 7174

struct desk_client {
	struct cma_client *client;
	int fd; /* the client's end of its channel */
	uint32_t channel;
};

extern uv_loop_t desk_loop;
extern struct cma *desk_cma;
extern struct desk_client root, user;

/* Attributes of new ids; RC over PS_TCP unless a test changes it. */
extern uint32_t desk_ps;
extern uint8_t desk_qp_type;
/* The connection managers that desk_open() opens: InfiniBand's; a test may set the second one. */
extern const struct cm_ops *desk_cms[];

int desk_open(void **state);
int desk_close(void **state);

/* The process of the client ends. */
void desk_client_dies(struct desk_client *client);

/* Runs the loop as long as it has work other than timers. */
void desk_run(void);
/* Also waits for timers, until an event has arrived. */
void desk_wait_event(const struct desk_client *client);

/* Each returns the status of the request. */
int desk_ask(struct desk_client *client, void *req, uint16_t type, uint32_t len, void *reply);
int desk_channel(struct desk_client *client, int *fd, uint32_t *channel);
int desk_create(struct desk_client *client, uint32_t *id, uint64_t cookie);
int desk_id_call(struct desk_client *client, uint16_t type, uint32_t id);
int desk_bind(struct desk_client *client, uint32_t id, const char *addr, uint16_t port,
	      struct ipc_cm_route *route);
int desk_listen(struct desk_client *client, uint32_t id, uint32_t backlog);
int desk_resolve(struct desk_client *client, uint32_t id, const char *dst, uint16_t port);
int desk_resolve_route(struct desk_client *client, uint32_t id);
int desk_connect(struct desk_client *client, uint32_t id, struct ipc_cm_param *param);
int desk_accept(struct desk_client *client, uint32_t id, uint64_t cookie,
		struct ipc_cm_param *param);
int desk_reject(struct desk_client *client, uint32_t id, uint32_t reason, const void *data,
		uint32_t len);
int desk_option(struct desk_client *client, uint32_t id, uint32_t level, uint32_t name, int value,
		uint32_t len);
int desk_destroy(struct desk_client *client, uint32_t id, uint64_t *events);

/* Creates a listener on addr:DESK_PORT. */
uint32_t desk_listener(struct desk_client *client, const char *addr);
/* Creates an id and resolves it up to ROUTE_RESOLVED; its two events have been read. */
uint32_t desk_resolved(struct desk_client *client, const char *dst, uint16_t port);
void desk_param(struct ipc_cm_param *param, uint32_t qp_num, const char *private_data);

/* Reads the next event of a socket, which must be there and have this type. */
void desk_take(int fd, struct ipc_cm_event *event, uint32_t type);
void desk_expect_none(int fd);

/* Establishes a connection from `from` to a new listener of `to`; returns the ids of each side. */
void desk_connection(struct desk_client *from, struct desk_client *to, uint32_t *active,
		     uint32_t *passive, uint32_t *listener);

/* Creates the complete report: "listeners", "connections", "multicast_joins" and "cm". */
void desk_report(json_object *report, json_object *counters);

void desk_addr(struct sockaddr_storage *out, const char *text, uint16_t port);

#endif
