/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_TESTS_NFS_PROBE_H
#define USRDMA_TESTS_NFS_PROBE_H

#include "nfs_server.h"

/*
 * A client of nfs_server for calls of any form. A reply that differs from the expected one ends the
 * process.
 */
#define PROBE_DATA_BYTES (NFS_DATA_MAX + 4096)

#define PROCEDURE_NULL	  0
#define PROCEDURE_ACCESS  4
#define PROCEDURE_LOOKUP  3
#define PROCEDURE_READ	  6
#define PROCEDURE_WRITE	  7
#define PROCEDURE_CREATE  8
#define PROCEDURE_READDIR 16

struct probe {
	struct ulp ulp;
	struct ibv_mr *data; /* for the chunks */
	uint8_t *content;
	size_t content_bytes;
	uint32_t xid;
	struct xdr call;
	struct xdr reply;
	uint8_t *message; /* the slot of the reply */
	size_t checks;
};

void probe_put(struct probe *probe, uint32_t value);
void probe_begin(struct probe *probe, uint32_t version, uint32_t type);
void probe_put_zeros(struct probe *probe, unsigned int lists);
void probe_put_segment(struct probe *probe, size_t at, uint32_t bytes);
void probe_put_read_segment(struct probe *probe, uint32_t position, size_t at, uint32_t bytes);
void probe_put_rpc_header(struct probe *probe, uint32_t rpc_version, uint32_t program,
			  uint32_t version, uint32_t procedure);
void probe_put_nfs(struct probe *probe, uint32_t procedure);
void probe_put_handle(struct probe *probe, uint64_t number);
void probe_put_read(struct probe *probe, uint64_t offset, uint32_t bytes);
/* A WRITE without its data. */
void probe_put_write(struct probe *probe, uint64_t offset, uint32_t bytes);
void probe_send(struct probe *probe);
void probe_expect(struct probe *probe, const char *name, uint32_t wanted);
/* Sends the call, and checks the begin of the transport header of the reply. */
void probe_exchange(struct probe *probe, uint32_t type);
void probe_end(struct probe *probe);
void probe_expect_error(struct probe *probe, uint32_t error);
void probe_expect_rpc_header(struct probe *probe, uint32_t accept);
/* A reply without chunks, up to the result. */
void probe_expect_accepted(struct probe *probe, uint32_t accept);
/* A call that fails before NFS. */
void probe_expect_failure(struct probe *probe, uint32_t accept);
void probe_expect_denied(struct probe *probe, uint32_t reason);
void probe_expect_status(struct probe *probe, uint32_t status);
/* READ of the whole file or of a part, up to the data. */
void probe_expect_read(struct probe *probe, uint32_t bytes, bool is_end);

#endif
