/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_TESTS_NFS_SERVER_H
#define USRDMA_TESTS_NFS_SERVER_H

#include <time.h>

#include "rpc_rdma_server.h"
#include "xdr.h"

/* A minimal server of NFS version 3 (RFC 1813): one directory with two files in memory. */
#define NFS_VERSION	     3
#define NFS_HANDLE_MAX	     64
#define NFS_WRITTEN_MAX	     (1u << 20)
#define NFS_DATA_MAX	     RPCRDMA_PAYLOAD_MAX /* of a READ and a WRITE */
#define NFS_DIRECTORY_MAX    4096u
#define NFS_NAME_MAX	     255
#define NFS_PATH_MAX	     1024
#define NFS_VERIFIER_BYTES   8
#define NFS_FILE_SYSTEM_ID   0x75737264
#define NFS_PROCEDURES_COUNT 22

/* The accept_stat of a reply (RFC 5531 §9). */
enum rpc_accept {
	RPC_SUCCESS = 0,
	RPC_PROGRAM_UNAVAILABLE = 1,
	RPC_PROGRAM_MISMATCH = 2,
	RPC_PROCEDURE_UNAVAILABLE = 3,
	RPC_GARBAGE_ARGS = 4,
};

enum nfs_status {
	NFS_OK = 0,
	NFS_NOENT = 2,
	NFS_ACCES = 13,
	NFS_NOTDIR = 20,
	NFS_ISDIR = 21,
	NFS_INVAL = 22,
	NFS_NOSPC = 28,
	NFS_ROFS = 30,
	NFS_STALE = 70,
	NFS_BADHANDLE = 10001,
	NFS_NOT_SYNC = 10002,
	NFS_BAD_COOKIE = 10003,
	NFS_TOOSMALL = 10005,
};

enum nfs_file_id { NFS_ROOT = 1, NFS_READ_FILE, NFS_WRITTEN_FILE, NFS_FILE_END };

struct nfs_file {
	const char *name;
	uint8_t *data;	   /* NULL: the directory */
	struct ibv_mr *mr; /* of the data, while a client is connected */
	uint32_t bytes;
	uint32_t capacity; /* 0: the file cannot be written */
	uint32_t mode;
	uint32_t uid;
	uint32_t gid;
	struct timespec accessed;
	struct timespec modified;
	struct timespec changed;
};

/* A call during its execution. A procedure reads the arguments and adds the result to the reply. */
struct nfs_call {
	struct nfs_file *files; /* by enum nfs_file_id */
	struct xdr args;
	struct xdr reply;
	struct rpcrdma_payload payload;
};

/* Executes a procedure. Unless it returns RPC_SUCCESS, `reply` is unchanged. */
enum rpc_accept nfs_execute(struct nfs_call *call, uint32_t procedure);
const char *nfs_procedure_name(uint32_t procedure);

/* File handles and attributes, in nfs_attributes.c. */

/* Reads a file handle. Stores NULL for the file and returns the status if it is invalid. */
enum nfs_status nfs_get_handle(struct nfs_call *call, struct nfs_file **file);
void nfs_put_handle(struct nfs_call *call, const struct nfs_file *file);
uint64_t nfs_file_number(const struct nfs_call *call, const struct nfs_file *file);
void nfs_put_attributes(struct nfs_call *call, const struct nfs_file *file);
/* post_op_attr; without attributes if the file is NULL. */
void nfs_put_optional_attributes(struct nfs_call *call, const struct nfs_file *file);
/* wcc_data, with the attributes of the file from before the change, unless it is NULL. */
void nfs_put_change(struct nfs_call *call, const struct nfs_file *before,
		    const struct nfs_file *after);
/* Reads a sattr3 and, if `file` is not NULL and all of it is valid, applies it. */
enum nfs_status nfs_set_attributes(struct nfs_call *call, struct nfs_file *file);
/* The data has changed now. */
void nfs_touch(struct nfs_file *file);

#endif
