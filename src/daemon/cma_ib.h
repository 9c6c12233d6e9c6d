/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_DAEMON_CMA_IB_H
#define USRDMA_DAEMON_CMA_IB_H

#include "base/random.h"
#include "cm/cm.h"
#include "cm/sidr.h"
#include "daemon/cm_ops.h"
#include "daemon/cma_priv.h"
#include "daemon/gsi.h"

/*
 * InfiniBand's communication manager as a connection manager of the daemon: converts the requests
 * of ids to calls of cm/, and the events of cm/ to calls of cma_on_*(). QP1 carries its MADs.
 * id->conn is a struct cm_conn, or a struct cm_sidr if the id is a datagram id.
 *
 * Allocated by cma_ib_ops.open(), freed when the libuv handle is closed after cma_ib_ops.close().
 */
struct cma_ib {
	struct cma_cm base;
	struct cm *cm;
	struct random random;
	struct gsi gsi;
	uv_poll_t wire_poll; /* used while gsi.wire is not NULL */
};

/*
 * The first bytes of the private data of a REQ or SIDR_REQ hold the addresses of both sides (IBA
 * A11).
 */
#define CMA_IB_REQ_PRIVATE_BYTES      (CM_REQ_PRIVATE_BYTES - CM_IP_HDR_BYTES)
#define CMA_IB_SIDR_REQ_PRIVATE_BYTES (CM_SIDR_REQ_PRIVATE_BYTES - CM_IP_HDR_BYTES)

static inline struct cma_ib *cma_ib_of(const struct cma_cm *cm)
{
	return container_of(cm, struct cma_ib, base);
}

/* The client's timeout for a response, limited; 0 selects the default. */
uint64_t cma_ib_timeout(uint64_t timeout_ns);

/* The path of an id's MADs. */
void cma_ib_path(const struct cma_id *id, struct cm_path *path);

/*
 * Prepares a request to the listener that its service ID and private data specify. An invalid
 * address matches no listener. false: the addresses in the private data are not those of the
 * packet; cma_ib_request_init() counts such requests.
 */
bool cma_ib_request_fill(struct cma_request *request, struct cma_ib *ib, void *conn,
			 const struct cm_path *path, uint64_t service_id, const void *private_data);
void cma_ib_request_init(struct cma_request *request, struct cma_ib *ib, void *conn,
			 const struct cm_path *path, uint64_t service_id, const void *private_data);

/* cma_ib_conn.c: operations and callbacks of connections */
int cma_ib_connect(struct cma_id *id, const struct ipc_cm_param *param, uint64_t timeout_ns);
int cma_ib_accept(struct cma_id *id, const struct ipc_cm_param *param, uint64_t timeout_ns);
int cma_ib_reject(struct cma_id *id, const struct ipc_cm_reject *req);
int cma_ib_establish(struct cma_id *id);
int cma_ib_disconnect(struct cma_id *id);
bool cma_ib_waiting(const struct cma_id *id, enum ipc_failure_reason *reason, uint64_t numbers[2]);
int cma_ib_notify(struct cma_id *id);
void *cma_ib_on_request(void *ctx, struct cm_conn *conn, const struct cm_path *path,
			const struct cm_req *req, uint16_t *reason);
void cma_ib_on_event(void *ctx, struct cm_conn *conn, void *owner, enum cm_event_type type,
		     const struct cm_msg *msg, uint64_t now_ns);

/* cma_ib_sidr.c: the same for service ID resolution */
int cma_ib_resolve(struct cma_id *id, const struct ipc_cm_param *param, uint64_t timeout_ns);
int cma_ib_respond(struct cma_id *id, bool accepts, const struct ipc_cm_param *param);
void *cma_ib_on_sidr_request(void *ctx, struct cm_sidr *sidr, const struct cm_path *path,
			     const struct cm_sidr_req *req, uint8_t *status);
void cma_ib_on_sidr_event(void *ctx, struct cm_sidr *sidr, void *owner,
			  const struct cm_sidr_rep *rep, uint64_t now_ns);

/* cma_ib_tag.c: the processes that connections and MADs belong to */
void cma_ib_tag(struct cma_id *id, struct cm_tag *tag);
bool cma_ib_on_tag(void *ctx, const struct cm_path *path, const struct cm_msg *msg,
		   bool is_received, struct cm_tag *tag);

/* cma_ib_report.c */
void cma_ib_report(const struct cma_cm *cm, json_object *out, json_object *counters);

#endif
