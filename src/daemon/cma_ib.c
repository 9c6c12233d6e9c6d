/* SPDX-License-Identifier: BSD-2-Clause */
#include "daemon/cma_ib.h"

#include <errno.h>
#include <infiniband/verbs.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"

/*
 * The InfiniBand connection manager: its memory, its work in the event loop, and its table of
 * operations.
 */

/* MADs delivered on this host before the loop serves clients again. */
#define MADS_AT_ONCE 256

static int cma_ib_on_send(void *ctx, const struct cm_path *path, const void *mad)
{
	struct cma_ib *ib = ctx;

	cma_wake(ib->base.cma);
	return gsi_send(&ib->gsi, path, mad);
}

static bool cma_ib_is_local_qp(void *ctx, uint32_t qpn)
{
	const struct cma_ib *ib = ctx;
	const struct cma *cma = ib->base.cma;

	return !cma->qpn_is_known || cma->qpn_is_known(cma->qpn_known_ctx, qpn);
}

static const struct cm_callbacks cma_ib_callbacks = {
	.send = cma_ib_on_send,
	.request = cma_ib_on_request,
	.is_local_qp = cma_ib_is_local_qp,
	.event = cma_ib_on_event,
	.sidr_request = cma_ib_on_sidr_request,
	.sidr_event = cma_ib_on_sidr_event,
};

static int cma_ib_open(struct cma *cma, struct cma_cm **cm)
{
	struct cma_ib *ib = calloc(1, sizeof(*ib));
	int ret;

	(void)cma;
	if (!ib)
		return -ENOMEM;
	gsi_init(&ib->gsi);
	ib->gsi.tag = cma_ib_on_tag;
	ib->gsi.ctx = ib;
	ret = random_open(&ib->random);
	if (ret) {
		log_warn("getrandom() failed: %s", strerror(-ret));
		goto err_random;
	}
	ib->cm = cm_new(&cma_ib_callbacks, ib, &ib->random);
	if (!ib->cm) {
		ret = -ENOMEM;
		goto err_random;
	}
	*cm = &ib->base;
	return 0;

err_random:
	free(ib);
	return ret;
}

static void cma_ib_on_closed(uv_handle_t *handle)
{
	free(container_of(handle, struct cma_ib, wire_poll));
}

static void cma_ib_close(struct cma_cm *cm)
{
	struct cma_ib *ib = cma_ib_of(cm);
	bool has_handle = ib->gsi.wire;

	cm_free(ib->cm);
	if (has_handle)
		uv_close((uv_handle_t *)&ib->wire_poll, cma_ib_on_closed);
	gsi_fini(&ib->gsi);
	if (!has_handle)
		free(ib);
}

static void cma_ib_on_wire(uv_poll_t *poll, int status, int events)
{
	struct cma_ib *ib = container_of(poll, struct cma_ib, wire_poll);

	(void)events;
	if (status < 0)
		return;
	/*
	 * Level-triggered: remaining datagrams wake the loop again, after the clients were served.
	 */
	(void)gsi_wire_receive(&ib->gsi, ib->cm, clock_now_ns());
	gsi_wire_errors(ib->gsi.wire, ib->cm, clock_now_ns());
	cma_wake(ib->base.cma);
}

int cma_attach_wire(struct cma *cma, int fd)
{
	struct cma_cm *cm = cma_cms_find(&cma->cms, &cma_ib_ops);
	struct cma_ib *ib = cm ? cma_ib_of(cm) : NULL;
	int ret;

	if (!ib) {
		close(fd);
		return -EOPNOTSUPP;
	}
	ib->gsi.wire = gsi_wire_open(fd);
	if (!ib->gsi.wire) {
		ret = -errno;
		close(fd);
		return ret;
	}
	ret = uv_poll_init(cma->loop, &ib->wire_poll, gsi_wire_fd(ib->gsi.wire));
	if (ret)
		goto err_poll;
	return uv_poll_start(&ib->wire_poll, UV_READABLE, cma_ib_on_wire);

err_poll:
	gsi_wire_close(ib->gsi.wire);
	ib->gsi.wire = NULL;
	return ret;
}

static bool cma_ib_deliver(struct cma_cm *cm, uint64_t now_ns)
{
	struct cma_ib *ib = cma_ib_of(cm);

	return gsi_run(&ib->gsi, ib->cm, MADS_AT_ONCE, now_ns);
}

static uint64_t cma_ib_next_deadline(const struct cma_cm *cm)
{
	const struct cma_ib *ib = cma_ib_of(cm);
	uint64_t cm_ns = cm_next_deadline(ib->cm), delayed_ns = gsi_delay_next(&ib->gsi.delay);

	return delayed_ns < cm_ns ? delayed_ns : cm_ns;
}

static void cma_ib_run_timers(struct cma_cm *cm, uint64_t now_ns)
{
	struct cma_ib *ib = cma_ib_of(cm);

	gsi_delay_run(&ib->gsi, ib->cm, now_ns);
	cm_run(ib->cm, now_ns);
}

static int cma_ib_listen(struct cma_cm *cm, uint64_t service_id)
{
	return cm_listen(cma_ib_of(cm)->cm, service_id);
}

static void cma_ib_unlisten(struct cma_cm *cm, uint64_t service_id)
{
	cm_unlisten(cma_ib_of(cm)->cm, service_id);
}

static bool cma_ib_reaches(const struct cma_cm *cm, const uint8_t gid[GID_BYTES])
{
	return gsi_reaches(&cma_ib_of(cm)->gsi, gid);
}

static void cma_ib_destroy(struct cma_id *id)
{
	if (cma_is_datagram(id))
		cm_sidr_destroy(id->conn, clock_now_ns());
	else
		cm_destroy(id->conn, clock_now_ns());
}

static const char *cma_ib_state_name(const struct cma_id *id)
{
	return cma_is_datagram(id) ? cm_sidr_state_name(cm_sidr_state_of(id->conn)) :
				     cm_state_name(cm_conn_state(id->conn));
}

static size_t cma_ib_conn_count(const struct cma_cm *cm)
{
	return cm_conn_count(cma_ib_of(cm)->cm);
}

void cma_ib_path(const struct cma_id *id, struct cm_path *path)
{
	const struct ipc_cm_route *route = &id->route;

	memset(path, 0, sizeof(*path));
	memcpy(path->sgid, route->sgid, GID_BYTES);
	memcpy(path->dgid, route->dgid, GID_BYTES);
	path->dev_id = route->dev_id;
	path->flow_label = route->flow_label;
	path->traffic_class = route->traffic_class;
	path->hop_limit = route->hop_limit;
}

/*
 * Whether an address in a request's private data, which the sender writes, matches the GID of the
 * packet. All loopback addresses share one GID (cma_addr.c).
 */
static bool is_of_gid(const struct sockaddr_storage *addr, const uint8_t gid[GID_BYTES])
{
	uint8_t named[GID_BYTES];

	if (!gid_from_sockaddr(named, (const struct sockaddr *)addr))
		return false;
	return !memcmp(named, gid, GID_BYTES) || (gid_is_loopback(named) && gid_is_loopback(gid) &&
						  gid_is_ipv4(named) && gid_is_ipv4(gid));
}

bool cma_ib_request_fill(struct cma_request *request, struct cma_ib *ib, void *conn,
			 const struct cm_path *path, uint64_t service_id, const void *private_data)
{
	struct cma_addrs *addrs = &request->addrs;
	struct cm_ip_hdr ip;

	memset(request, 0, sizeof(*request));
	request->cm = &ib->base;
	request->conn = conn;
	request->service_id = service_id;
	request->dev_id = path->dev_id;
	memcpy(request->sgid, path->sgid, GID_BYTES);
	memcpy(request->dgid, path->dgid, GID_BYTES);
	if (cm_ip_hdr_parse(&ip, private_data))
		return true;
	cm_ip_hdr_addrs(&ip, (uint16_t)service_id, &addrs->theirs, &addrs->ours);
	if (is_of_gid(&addrs->theirs, path->dgid) && is_of_gid(&addrs->ours, path->sgid))
		return true;
	memset(addrs, 0, sizeof(*addrs));
	return false;
}

void cma_ib_request_init(struct cma_request *request, struct cma_ib *ib, void *conn,
			 const struct cm_path *path, uint64_t service_id, const void *private_data)
{
	if (!cma_ib_request_fill(request, ib, conn, path, service_id, private_data))
		ib->base.cma->counters.misaddressed++;
}

const struct cm_ops cma_ib_ops = {
	.transport_type = IBV_TRANSPORT_IB,
	.private_bytes =
		{
			.request = CMA_IB_REQ_PRIVATE_BYTES,
			.accept = CM_REP_PRIVATE_BYTES,
			.reject = CM_REJ_PRIVATE_BYTES,
			.sidr_request = CMA_IB_SIDR_REQ_PRIVATE_BYTES,
			.sidr_response = CM_SIDR_REP_PRIVATE_BYTES,
		},
	.open = cma_ib_open,
	.close = cma_ib_close,
	.deliver = cma_ib_deliver,
	.next_deadline = cma_ib_next_deadline,
	.run_timers = cma_ib_run_timers,
	.listen = cma_ib_listen,
	.unlisten = cma_ib_unlisten,
	.reaches = cma_ib_reaches,
	.connect = cma_ib_connect,
	.accept = cma_ib_accept,
	.reject = cma_ib_reject,
	.establish = cma_ib_establish,
	.disconnect = cma_ib_disconnect,
	.notify = cma_ib_notify,
	.resolve = cma_ib_resolve,
	.respond = cma_ib_respond,
	.destroy = cma_ib_destroy,
	.waiting = cma_ib_waiting,
	.state_name = cma_ib_state_name,
	.conn_count = cma_ib_conn_count,
	.report = cma_ib_report,
};
