/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdlib.h>

#include "daemon/cma.h"

/* A daemon built without the communication manager: every request of it is refused. */

struct cma {
	uv_loop_t *loop;
};

struct cma_client {
	struct cma *cma;
};

#define WEAK __attribute__((weak))

WEAK struct cma *cma_open(uv_loop_t *loop)
{
	struct cma *cma = calloc(1, sizeof(*cma));

	if (cma)
		cma->loop = loop;
	return cma;
}

WEAK void cma_close(struct cma *cma)
{
	free(cma);
}

WEAK struct cma_client *cma_client_new(struct cma *cma, const struct cma_peer *peer)
{
	struct cma_client *client = calloc(1, sizeof(*client));

	(void)peer;
	if (client)
		client->cma = cma;
	return client;
}

WEAK void cma_client_gone(struct cma_client *client)
{
	free(client);
}

WEAK uint32_t cma_request(struct cma_client *client, const struct ipc_hdr *req, int *fds, int nfds,
			  void *reply)
{
	struct ipc_hdr *hdr = reply;

	(void)client;
	(void)fds;
	(void)nfds;
	*hdr = (struct ipc_hdr){
		.type = req->type, .seq = req->seq, .status = -EOPNOTSUPP, .len = sizeof(*hdr)};
	return hdr->len;
}

WEAK void cma_netdev_changed(struct cma *cma, uint32_t dev_id, uint32_t what)
{
	(void)cma;
	(void)dev_id;
	(void)what;
}

WEAK void cma_set_qpn_check(struct cma *cma,
			    int (*check)(void *ctx, const struct cma_peer *peer, uint32_t qpn),
			    void *ctx)
{
	(void)cma;
	(void)check;
	(void)ctx;
}

WEAK void cma_report(const struct cma *cma, json_object *report)
{
	(void)cma;
	(void)report;
}
