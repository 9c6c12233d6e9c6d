/* SPDX-License-Identifier: BSD-2-Clause */
#include <string.h>

#include "nfs_server.h"

/* The bits of ACCESS (RFC 1813 §3.3.4) */
#define ACCESS_READ    0x01
#define ACCESS_LOOKUP  0x02
#define ACCESS_MODIFY  0x04
#define ACCESS_EXTEND  0x08
#define ACCESS_EXECUTE 0x20

/* The properties of FSINFO: file attributes are the same everywhere, and times can be set. */
#define FSINFO_PROPERTIES 0x18

#define STABLE_MAX 2 /* FILE_SYNC */

/*
 * Whether the arguments were read completely, and nothing follows. Otherwise the call fails with
 * GARBAGE_ARGS.
 */
static bool args_end(struct nfs_call *call)
{
	if (xdr_left(&call->args))
		call->args.is_bad = true;
	return !call->args.is_bad;
}

static void execute_null(struct nfs_call *call)
{
	args_end(call);
}

static void execute_getattr(struct nfs_call *call)
{
	struct nfs_file *file;
	enum nfs_status status = nfs_get_handle(call, &file);

	if (!args_end(call))
		return;
	xdr_put(&call->reply, status);
	if (file)
		nfs_put_attributes(call, file);
}

static void execute_setattr(struct nfs_call *call)
{
	struct nfs_file *file, before;
	enum nfs_status status = nfs_get_handle(call, &file);

	if (file)
		before = *file;
	if (status == NFS_OK)
		status = nfs_set_attributes(call, file);
	else
		nfs_set_attributes(call, NULL);
	if (!args_end(call)) {
		if (file)
			*file = before;
		return;
	}
	xdr_put(&call->reply, status);
	nfs_put_change(call, file ? &before : NULL, file);
}

static bool is_name(const uint8_t *name, size_t bytes, const char *wanted)
{
	return bytes == strlen(wanted) && !memcmp(name, wanted, bytes);
}

static const struct nfs_file *find_file(const struct nfs_call *call, const uint8_t *name,
					size_t bytes)
{
	if (is_name(name, bytes, ".."))
		return &call->files[NFS_ROOT];
	for (unsigned int id = NFS_ROOT; id < NFS_FILE_END; id++)
		if (is_name(name, bytes, call->files[id].name))
			return &call->files[id];
	return NULL;
}

static void execute_lookup(struct nfs_call *call)
{
	const struct nfs_file *found = NULL;
	struct nfs_file *directory;
	enum nfs_status status = nfs_get_handle(call, &directory);
	size_t bytes;
	const uint8_t *name = xdr_get_opaque(&call->args, NFS_NAME_MAX, &bytes);

	if (!args_end(call))
		return;
	if (status == NFS_OK && directory->data)
		status = NFS_NOTDIR;
	if (status == NFS_OK) {
		found = find_file(call, name, bytes);
		status = found ? NFS_OK : NFS_NOENT;
	}
	xdr_put(&call->reply, status);
	if (found) {
		nfs_put_handle(call, found);
		nfs_put_optional_attributes(call, found);
	}
	nfs_put_optional_attributes(call, directory);
}

static void execute_access(struct nfs_call *call)
{
	struct nfs_file *file;
	enum nfs_status status = nfs_get_handle(call, &file);
	uint32_t asked = xdr_get(&call->args), granted = ACCESS_READ;

	if (!args_end(call))
		return;
	xdr_put(&call->reply, status);
	nfs_put_optional_attributes(call, file);
	if (!file)
		return;
	granted |= file->data ? 0 : ACCESS_LOOKUP | ACCESS_EXECUTE;
	granted |= file->capacity ? ACCESS_MODIFY | ACCESS_EXTEND : 0;
	xdr_put(&call->reply, asked & granted);
}

static void execute_read(struct nfs_call *call)
{
	struct nfs_file *file;
	enum nfs_status status = nfs_get_handle(call, &file);
	uint64_t offset = xdr_get64(&call->args);
	uint32_t count = xdr_get(&call->args);

	if (!args_end(call))
		return;
	if (status == NFS_OK && !file->data)
		status = NFS_ISDIR;
	xdr_put(&call->reply, status);
	nfs_put_optional_attributes(call, file);
	if (status != NFS_OK)
		return;
	if (count > NFS_DATA_MAX)
		count = NFS_DATA_MAX;
	if (offset > file->bytes)
		offset = file->bytes;
	if (count > file->bytes - offset)
		count = (uint32_t)(file->bytes - offset);
	call->payload.mr = file->mr;
	call->payload.at = file->data + offset;
	call->payload.bytes = count;
	xdr_put(&call->reply, count);
	xdr_put(&call->reply, offset + count == file->bytes);
	xdr_put(&call->reply, count); /* the length of the data, which follows */
}

/* Constant while the server runs: after a restart, data that was not committed would be lost. */
static void put_write_verifier(struct nfs_call *call)
{
	static struct timespec start;

	if (!start.tv_sec)
		clock_gettime(CLOCK_REALTIME, &start);
	xdr_put(&call->reply, (uint32_t)start.tv_sec);
	xdr_put(&call->reply, (uint32_t)start.tv_nsec);
}

static enum nfs_status write_data(struct nfs_file *file, uint64_t offset, const uint8_t *data,
				  size_t bytes)
{
	if (!file->data)
		return NFS_ISDIR;
	if (!file->capacity)
		return NFS_ROFS;
	if (offset > file->capacity || bytes > file->capacity - offset)
		return NFS_NOSPC;
	if (offset > file->bytes)
		memset(file->data + file->bytes, 0, offset - file->bytes);
	memcpy(file->data + offset, data, bytes);
	if (offset + bytes > file->bytes)
		file->bytes = (uint32_t)(offset + bytes);
	nfs_touch(file);
	return NFS_OK;
}

static void execute_write(struct nfs_call *call)
{
	struct nfs_file *file, before;
	enum nfs_status status = nfs_get_handle(call, &file);
	uint64_t offset = xdr_get64(&call->args);
	uint32_t count = xdr_get(&call->args);
	uint32_t stable = xdr_get(&call->args);
	size_t bytes;
	const uint8_t *data = xdr_get_opaque(&call->args, NFS_DATA_MAX, &bytes);

	if (stable > STABLE_MAX)
		call->args.is_bad = true;
	if (!args_end(call))
		return;
	if (file)
		before = *file;
	if (status == NFS_OK)
		status = count == bytes ? write_data(file, offset, data, bytes) : NFS_INVAL;
	xdr_put(&call->reply, status);
	nfs_put_change(call, file ? &before : NULL, file);
	if (status != NFS_OK)
		return;
	xdr_put(&call->reply, count);
	xdr_put(&call->reply, stable);
	put_write_verifier(call);
}

static void execute_commit(struct nfs_call *call)
{
	struct nfs_file *file;
	enum nfs_status status = nfs_get_handle(call, &file);

	xdr_get64(&call->args); /* offset and count: all data is stable already */
	xdr_get(&call->args);
	if (!args_end(call))
		return;
	xdr_put(&call->reply, status);
	nfs_put_change(call, file, file);
	if (status == NFS_OK)
		put_write_verifier(call);
}

/* One entry of READDIR and READDIRPLUS. The cookie 1 is ".", 2 is "..", and then come the files. */
static void put_entry(struct nfs_call *call, uint64_t cookie, bool has_attributes)
{
	const struct nfs_file *file = &call->files[cookie <= 2 ? (uint64_t)NFS_ROOT : cookie - 1];
	const char *name = cookie == 2 ? ".." : file->name;

	xdr_put(&call->reply, 1);
	xdr_put64(&call->reply, nfs_file_number(call, file));
	xdr_put_opaque(&call->reply, name, strlen(name));
	xdr_put64(&call->reply, cookie);
	if (!has_attributes)
		return;
	nfs_put_optional_attributes(call, file);
	xdr_put(&call->reply, 1);
	nfs_put_handle(call, file);
}

/* As many entries as fit in max_bytes of the result, with the end of the list. */
static void put_entries(struct nfs_call *call, uint64_t cookie, size_t max_bytes,
			bool has_attributes)
{
	struct xdr *reply = &call->reply, start = *reply, before;
	uint64_t last = NFS_FILE_END;
	bool is_full = false;

	xdr_put(reply, NFS_OK);
	nfs_put_optional_attributes(call, &call->files[NFS_ROOT]);
	xdr_put64(reply, 0); /* the cookie verifier */
	for (cookie++; cookie <= last && !is_full; cookie++) {
		before = *reply;
		put_entry(call, cookie, has_attributes);
		is_full = (size_t)(reply->at - start.at) + 8 > max_bytes;
	}
	if (is_full)
		*reply = before;
	xdr_put(reply, 0);
	xdr_put(reply, !is_full);
	if (!reply->is_bad && (size_t)(reply->at - start.at) <= max_bytes)
		return;
	*reply = start;
	xdr_put(reply, NFS_TOOSMALL);
	nfs_put_optional_attributes(call, &call->files[NFS_ROOT]);
}

static void list_directory(struct nfs_call *call, bool has_attributes)
{
	struct nfs_file *directory;
	enum nfs_status status = nfs_get_handle(call, &directory);
	uint64_t cookie = xdr_get64(&call->args);
	uint32_t max_bytes;

	xdr_get64(&call->args); /* the cookie verifier */
	if (has_attributes)
		xdr_get(&call->args); /* the number of bytes without attributes */
	max_bytes = xdr_get(&call->args);
	if (!args_end(call))
		return;
	if (max_bytes > NFS_DIRECTORY_MAX)
		max_bytes = NFS_DIRECTORY_MAX;
	if (status == NFS_OK && directory->data)
		status = NFS_NOTDIR;
	else if (status == NFS_OK && cookie > NFS_FILE_END)
		status = NFS_BAD_COOKIE;
	if (status == NFS_OK) {
		put_entries(call, cookie, max_bytes, has_attributes);
		return;
	}
	xdr_put(&call->reply, status);
	nfs_put_optional_attributes(call, directory);
}

static void execute_readdir(struct nfs_call *call)
{
	list_directory(call, false);
}

static void execute_readdirplus(struct nfs_call *call)
{
	list_directory(call, true);
}

/* FSSTAT, FSINFO and PATHCONF have the same arguments and the same begin of the result. */
static bool begin_information(struct nfs_call *call)
{
	struct nfs_file *file;
	enum nfs_status status = nfs_get_handle(call, &file);

	if (!args_end(call))
		return false;
	xdr_put(&call->reply, status);
	nfs_put_optional_attributes(call, file);
	return status == NFS_OK;
}

static void execute_fsstat(struct nfs_call *call)
{
	uint64_t free_bytes = NFS_WRITTEN_MAX - call->files[NFS_WRITTEN_FILE].bytes;

	if (!begin_information(call))
		return;
	xdr_put64(&call->reply, (uint64_t)NFS_WRITTEN_MAX + call->files[NFS_READ_FILE].bytes);
	xdr_put64(&call->reply, free_bytes);
	xdr_put64(&call->reply, free_bytes);
	xdr_put64(&call->reply, NFS_FILE_END - NFS_ROOT); /* files */
	xdr_put64(&call->reply, 0);
	xdr_put64(&call->reply, 0);
	xdr_put(&call->reply, 0); /* seconds for which this is valid */
}

static void execute_fsinfo(struct nfs_call *call)
{
	if (!begin_information(call))
		return;
	for (unsigned int i = 0; i < 2; i++) { /* of READ and of WRITE */
		xdr_put(&call->reply, NFS_DATA_MAX);
		xdr_put(&call->reply, NFS_DATA_MAX); /* preferred */
		xdr_put(&call->reply, 1);	     /* a multiple of it */
	}
	xdr_put(&call->reply, NFS_DIRECTORY_MAX);
	xdr_put64(&call->reply, NFS_WRITTEN_MAX);
	xdr_put(&call->reply, 0); /* resolution of times: 1 ns */
	xdr_put(&call->reply, 1);
	xdr_put(&call->reply, FSINFO_PROPERTIES);
}

static void execute_pathconf(struct nfs_call *call)
{
	if (!begin_information(call))
		return;
	xdr_put(&call->reply, 1); /* links */
	xdr_put(&call->reply, NFS_NAME_MAX);
	xdr_put(&call->reply, 1); /* longer names are errors */
	xdr_put(&call->reply, 1); /* the owner can be changed by root only */
	xdr_put(&call->reply, 0); /* names are not case-insensitive, and keep their case */
	xdr_put(&call->reply, 1);
}

static const struct {
	const char *name;
	void (*execute)(struct nfs_call *call);
} procedures[NFS_PROCEDURES_COUNT] = {
	[0] = {"NULL", execute_null},
	[1] = {"GETATTR", execute_getattr},
	[2] = {"SETATTR", execute_setattr},
	[3] = {"LOOKUP", execute_lookup},
	[4] = {"ACCESS", execute_access},
	[5] = {"READLINK", NULL},
	[6] = {"READ", execute_read},
	[7] = {"WRITE", execute_write},
	[8] = {"CREATE", NULL},
	[9] = {"MKDIR", NULL},
	[10] = {"SYMLINK", NULL},
	[11] = {"MKNOD", NULL},
	[12] = {"REMOVE", NULL},
	[13] = {"RMDIR", NULL},
	[14] = {"RENAME", NULL},
	[15] = {"LINK", NULL},
	[16] = {"READDIR", execute_readdir},
	[17] = {"READDIRPLUS", execute_readdirplus},
	[18] = {"FSSTAT", execute_fsstat},
	[19] = {"FSINFO", execute_fsinfo},
	[20] = {"PATHCONF", execute_pathconf},
	[21] = {"COMMIT", execute_commit},
};

const char *nfs_procedure_name(uint32_t procedure)
{
	return procedure < NFS_PROCEDURES_COUNT ? procedures[procedure].name : "unknown";
}

enum rpc_accept nfs_execute(struct nfs_call *call, uint32_t procedure)
{
	if (procedure >= NFS_PROCEDURES_COUNT || !procedures[procedure].execute)
		return RPC_PROCEDURE_UNAVAILABLE;
	procedures[procedure].execute(call);
	return call->args.is_bad ? RPC_GARBAGE_ARGS : RPC_SUCCESS;
}
