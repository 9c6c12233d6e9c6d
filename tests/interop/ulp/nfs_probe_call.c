/* SPDX-License-Identifier: BSD-2-Clause */
#include "nfs_probe.h"

void probe_put(struct probe *probe, uint32_t value)
{
	xdr_put(&probe->call, value);
}

void probe_begin(struct probe *probe, uint32_t version, uint32_t type)
{
	probe->call = (struct xdr){.at = probe->ulp.send_buf,
				   .end = probe->ulp.send_buf + RPCRDMA_INLINE_BYTES};
	probe_put(probe, ++probe->xid);
	probe_put(probe, version);
	probe_put(probe, 1); /* credits */
	probe_put(probe, type);
}

void probe_put_zeros(struct probe *probe, unsigned int lists)
{
	while (lists--)
		probe_put(probe, 0);
}

void probe_put_segment(struct probe *probe, size_t at, uint32_t bytes)
{
	probe_put(probe, probe->data->rkey);
	probe_put(probe, bytes);
	xdr_put64(&probe->call, (uintptr_t)probe->data->addr + at);
}

void probe_put_read_segment(struct probe *probe, uint32_t position, size_t at, uint32_t bytes)
{
	probe_put(probe, 1);
	probe_put(probe, position);
	probe_put_segment(probe, at, bytes);
}

void probe_put_rpc_header(struct probe *probe, uint32_t rpc_version, uint32_t program,
			  uint32_t version, uint32_t procedure)
{
	probe_put(probe, probe->xid);
	probe_put(probe, 0); /* a call */
	probe_put(probe, rpc_version);
	probe_put(probe, program);
	probe_put(probe, version);
	probe_put(probe, procedure);
	probe_put_zeros(probe, 4); /* no credentials and no verifier */
}

void probe_put_nfs(struct probe *probe, uint32_t procedure)
{
	probe_put_rpc_header(probe, RPC_VERSION, PROGRAM_NFS, NFS_VERSION, procedure);
}

void probe_put_handle(struct probe *probe, uint64_t number)
{
	probe_put(probe, 16);
	xdr_put_fixed(&probe->call, "usrdma\0", 8);
	xdr_put64(&probe->call, number);
}

void probe_put_read(struct probe *probe, uint64_t offset, uint32_t bytes)
{
	probe_put_nfs(probe, PROCEDURE_READ);
	probe_put_handle(probe, NFS_READ_FILE);
	xdr_put64(&probe->call, offset);
	probe_put(probe, bytes);
}

void probe_put_write(struct probe *probe, uint64_t offset, uint32_t bytes)
{
	probe_put_nfs(probe, PROCEDURE_WRITE);
	probe_put_handle(probe, NFS_WRITTEN_FILE);
	xdr_put64(&probe->call, offset);
	probe_put(probe, bytes);
	probe_put(probe, 2); /* FILE_SYNC */
	probe_put(probe, bytes);
}

void probe_send(struct probe *probe)
{
	ulp_require(!probe->call.is_bad, "the call is too long");
	ulp_send(&probe->ulp, (size_t)(probe->call.at - probe->ulp.send_buf));
}

void probe_expect(struct probe *probe, const char *name, uint32_t wanted)
{
	uint32_t got = xdr_get(&probe->reply);

	ulp_require(!probe->reply.is_bad && got == wanted, "check %zu: %s is %u, not %u",
		    probe->checks, name, got, wanted);
}

void probe_exchange(struct probe *probe, uint32_t type)
{
	size_t bytes;

	probe->checks++;
	probe_send(probe);
	bytes = ulp_receive(&probe->ulp, &probe->message);
	probe->reply = (struct xdr){.at = probe->message, .end = probe->message + bytes};
	probe_expect(probe, "xid", probe->xid);
	probe_expect(probe, "version", RPCRDMA_VERSION);
	ulp_require(xdr_get(&probe->reply), "no credits");
	probe_expect(probe, "message type", type);
}

void probe_end(struct probe *probe)
{
	ulp_require(!xdr_left(&probe->reply), "check %zu: %zu bytes after the reply", probe->checks,
		    xdr_left(&probe->reply));
	ulp_release(&probe->ulp, probe->message);
}

void probe_expect_error(struct probe *probe, uint32_t error)
{
	probe_exchange(probe, RDMA_ERROR);
	probe_expect(probe, "error", error);
	if (error == ERR_VERS) {
		probe_expect(probe, "lowest version", RPCRDMA_VERSION);
		probe_expect(probe, "highest version", RPCRDMA_VERSION);
	}
	probe_end(probe);
}

void probe_expect_rpc_header(struct probe *probe, uint32_t accept)
{
	probe_expect(probe, "xid", probe->xid);
	probe_expect(probe, "message type", 1);
	probe_expect(probe, "reply status", 0);
	probe_expect(probe, "verifier", AUTH_NONE);
	probe_expect(probe, "length of the verifier", 0);
	probe_expect(probe, "accept status", accept);
}

void probe_expect_accepted(struct probe *probe, uint32_t accept)
{
	probe_exchange(probe, RDMA_MSG);
	for (unsigned int list = 0; list < 3; list++)
		probe_expect(probe, "chunk list", 0);
	probe_expect_rpc_header(probe, accept);
}

void probe_expect_failure(struct probe *probe, uint32_t accept)
{
	probe_expect_accepted(probe, accept);
	if (accept == RPC_PROGRAM_MISMATCH) {
		probe_expect(probe, "lowest version", NFS_VERSION);
		probe_expect(probe, "highest version", NFS_VERSION);
	}
	probe_end(probe);
}

void probe_expect_denied(struct probe *probe, uint32_t reason)
{
	probe_exchange(probe, RDMA_MSG);
	for (unsigned int list = 0; list < 3; list++)
		probe_expect(probe, "chunk list", 0);
	probe_expect(probe, "xid", probe->xid);
	probe_expect(probe, "message type", 1);
	probe_expect(probe, "reply status", 1);
	probe_expect(probe, "reason", reason);
	ulp_release(&probe->ulp, probe->message);
}

/* post_op_attr */
static void skip_attributes(struct probe *probe)
{
	probe_expect(probe, "attributes", 1);
	xdr_get_fixed(&probe->reply, 84);
}

void probe_expect_status(struct probe *probe, uint32_t status)
{
	probe_expect_accepted(probe, RPC_SUCCESS);
	probe_expect(probe, "NFS status", status);
	ulp_release(&probe->ulp, probe->message);
}

void probe_expect_read(struct probe *probe, uint32_t bytes, bool is_end)
{
	probe_expect(probe, "NFS status", NFS_OK);
	skip_attributes(probe);
	probe_expect(probe, "bytes", bytes);
	probe_expect(probe, "end of file", is_end);
	probe_expect(probe, "length", bytes);
}
