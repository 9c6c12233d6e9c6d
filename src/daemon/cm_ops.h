/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_DAEMON_CM_OPS_H
#define USRDMA_DAEMON_CM_OPS_H

#include <json-c/json.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ipc/msg_cm.h"
#include "ipc/msg_failure.h"

struct cma;
struct cma_cm;
struct cma_id;
struct netdev;

/*
 * The operations of a connection manager, through which daemon/cma_*.c establish and end the
 * connections of ids. A connection manager serves the devices of one transport. It reports what it
 * receives by the functions cma_on_*() of daemon/cma_priv.h.
 *
 * The operations that take an id are called in states of the id in which the request is valid (see
 * cma_request.c). The id is bound to a device of the transport, and id->route is filled in. The int
 * operations return 0 or -errno; on failure nothing was sent. No operation blocks, and none but
 * deliver() and run_timers() calls cma_on_*().
 */
struct cm_ops {
	uint8_t transport_type; /* enum ibv_transport_type of its devices */

	/* Length of the client's private data that its messages can carry. */
	struct {
		uint16_t request;
		uint16_t accept;
		uint16_t reject;
		uint16_t sidr_request;
		uint16_t sidr_response;
	} private_bytes;

	/*
	 * Allocates a connection manager. *cm is the start of the allocation; cma_cms_open() fills
	 * it in.
	 */
	int (*open)(struct cma *cma, struct cma_cm **cm);
	/*
	 * Frees it and all connections. Sends no message and reports no event. The memory may be
	 * freed later by the loop, when libuv handles are closed; *cma may be freed by then.
	 */
	void (*close)(struct cma_cm *cm);

	/*
	 * Called by the loop after cma_wake(), before events are pushed. True: work is left, the
	 * function is called again after the clients were served.
	 */
	bool (*deliver)(struct cma_cm *cm, uint64_t now_ns);
	/* When to call run_timers() next; TIMER_NEVER_NS: no timer is armed. */
	uint64_t (*next_deadline)(const struct cma_cm *cm);
	void (*run_timers)(struct cma_cm *cm, uint64_t now_ns);

	/*
	 * Adds and removes one listener. Requests for a service are reported while it has
	 * listeners. A service ID holds port space and port, see cma_service_id().
	 */
	int (*listen)(struct cma_cm *cm, uint64_t service_id);
	void (*unlisten)(struct cma_cm *cm, uint64_t service_id);

	/* Whether messages can be sent to this GID. */
	bool (*reaches)(const struct cma_cm *cm, const uint8_t gid[16]);

	/*
	 * Connections. connect() allocates id->conn and sends the request; on failure id->conn is
	 * NULL again. timeout_ns is the client's timeout for a response; 0: the default. accept()
	 * offers id->responder_resources and id->initiator_depth, to which the caller has limited
	 * the client's values. notify(): the first packet arrived before the message that
	 * establishes the connection. The CM itself sends the messages that only extend a timeout
	 * (MRA). The caller has checked the length of the private data, and that the QP type is RC,
	 * UC or the XRC type of this side; connect() returns -EINVAL for a QP type that the
	 * transport does not have.
	 */
	int (*connect)(struct cma_id *id, const struct ipc_cm_param *param, uint64_t timeout_ns);
	int (*accept)(struct cma_id *id, const struct ipc_cm_param *param, uint64_t timeout_ns);
	int (*reject)(struct cma_id *id, const struct ipc_cm_reject *req);
	int (*establish)(struct cma_id *id);
	int (*disconnect)(struct cma_id *id);
	int (*notify)(struct cma_id *id);

	/*
	 * Service ID resolution (SIDR) for datagram ids. NULL: the transport has no datagrams.
	 * resolve() allocates id->conn as connect() does. respond() accepts or rejects a request;
	 * on success id->conn is no longer valid, and the caller clears it. A rejection uses only
	 * the private data of `param`.
	 */
	int (*resolve)(struct cma_id *id, const struct ipc_cm_param *param, uint64_t timeout_ns);
	int (*respond)(struct cma_id *id, bool accepts, const struct ipc_cm_param *param);

	/*
	 * Ends the id's use of id->conn, which is not NULL. Sends the message that ends the
	 * connection or rejects the request in its present state. The caller clears id->conn.
	 */
	void (*destroy)(struct cma_id *id);

	/*
	 * Whether the id waits for a response of the peer: *reason is IPC_REASON_CM_NO_REP or
	 * _NO_RTU, numbers[0] the number of messages sent and numbers[1] the time since the first,
	 * in ns. NULL: not known.
	 */
	bool (*waiting)(const struct cma_id *id, enum ipc_failure_reason *reason,
			uint64_t numbers[2]);

	/*
	 * For reports. conn_count() includes connections without an id, such as those in timewait.
	 * report() adds to the object "cm" of the report and to the counters of the daemon.
	 */
	const char *(*state_name)(const struct cma_id *id);
	size_t (*conn_count)(const struct cma_cm *cm);
	void (*report)(const struct cma_cm *cm, json_object *out, json_object *counters);
};

/*
 * One connection manager of the daemon: the first member of the struct that its open() allocates.
 */
struct cma_cm {
	const struct cm_ops *ops;
	struct cma *cma;
};

#define CMA_CMS_MAX 4u

/* The connection managers of the daemon. Embedded in struct cma. */
struct cma_cms {
	struct cma_cm *list[CMA_CMS_MAX];
	unsigned count;
};

/*
 * Opens one connection manager for each entry of `ops`, which ends with NULL. On failure none is
 * open.
 */
int cma_cms_open(struct cma_cms *cms, struct cma *cma, const struct cm_ops *const ops[])
	__attribute__((warn_unused_result));
void cma_cms_close(struct cma_cms *cms);

/* The connection manager with these operations, or of this device; NULL: not found. */
struct cma_cm *cma_cms_find(const struct cma_cms *cms, const struct cm_ops *ops);
struct cma_cm *cma_cms_of(const struct cma_cms *cms, const struct netdev *dev);

/*
 * Adds or removes a listener of one connection manager, or of all if `only` is NULL. On failure no
 * listener was added.
 */
int cma_cms_listen(const struct cma_cms *cms, struct cma_cm *only, uint64_t service_id)
	__attribute__((warn_unused_result));
void cma_cms_unlisten(const struct cma_cms *cms, struct cma_cm *only, uint64_t service_id);

/* The sums or minima over all connection managers. */
bool cma_cms_deliver(const struct cma_cms *cms, uint64_t now_ns);
uint64_t cma_cms_next_deadline(const struct cma_cms *cms);
void cma_cms_run_timers(const struct cma_cms *cms, uint64_t now_ns);
size_t cma_cms_conn_count(const struct cma_cms *cms);
void cma_cms_report(const struct cma_cms *cms, json_object *out, json_object *counters);

#endif
