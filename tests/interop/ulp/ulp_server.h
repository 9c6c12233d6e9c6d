/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_TESTS_ULP_SERVER_H
#define USRDMA_TESTS_ULP_SERVER_H

#include "ulp.h"

/*
 * The passive side of one connection at a time. Completions of receives are queued while the server
 * waits for those of its own WRs. If a call fails that must succeed, each function ends the
 * process, as in ulp.h. Used by one thread only.
 */
struct ulp_server {
	struct rdma_cm_id *listener;
	struct ulp ulp; /* of the connection; its private data is that of the client */
	struct ibv_comp_channel *completions;
	bool is_armed;
	unsigned int outstanding; /* WRs of the send queue */
	/* Received messages that were not returned yet: a ring. */
	struct {
		unsigned int slot;
		uint32_t bytes;
	} queued[ULP_DEPTH];
	unsigned int queued_first;
	unsigned int queued_count;
};

/* Local and remote memory of an RDMA operation. */
struct ulp_transfer {
	void *at;
	const struct ibv_mr *mr;
	uint32_t bytes;
	uint64_t remote_addr;
	uint32_t rkey;
};

void ulp_listen(struct ulp_server *server, const char *addr, const char *port);
/*
 * Waits for a client and accepts it, with receives posted in all slots. The next client can connect
 * after ulp_close().
 */
void ulp_accept(struct ulp_server *server, const void *private_data, uint8_t private_bytes,
		size_t slot_bytes);
/*
 * Waits for the next message, and before for the completion of all WRs. Returns false when the
 * client has disconnected.
 */
bool ulp_next(struct ulp_server *server, uint8_t **message, size_t *bytes);
/* Posts an RDMA READ or WRITE. ulp_settle() or ulp_next() waits for it. */
void ulp_transfer(struct ulp_server *server, enum ibv_wr_opcode opcode,
		  const struct ulp_transfer *transfer);
/* Waits for the completion of all posted WRs. Returns false when the client has disconnected. */
bool ulp_settle(struct ulp_server *server);
/* Sends the first bytes of send_buf, and invalidates the client's rkey unless it is 0. */
void ulp_reply(struct ulp_server *server, size_t bytes, uint32_t invalidated_rkey);
/* Releases the connection. The listener remains. */
void ulp_close(struct ulp_server *server);
void ulp_stop_listening(struct ulp_server *server);

#endif
