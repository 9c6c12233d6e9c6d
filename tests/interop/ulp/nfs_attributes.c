/* SPDX-License-Identifier: BSD-2-Clause */
#include <string.h>

#include "nfs_server.h"

#define HANDLE_BYTES   16 /* the magic number and the file ID */
#define TYPE_FILE      1
#define TYPE_DIRECTORY 2
#define MODE_BITS      07777

/* set_time of sattr3 */
#define TIME_UNCHANGED 0
#define TIME_OF_SERVER 1
#define TIME_OF_CLIENT 2

static const uint8_t handle_magic[8] = {'u', 's', 'r', 'd', 'm', 'a'};

uint64_t nfs_file_number(const struct nfs_call *call, const struct nfs_file *file)
{
	return (uint64_t)(file - call->files);
}

enum nfs_status nfs_get_handle(struct nfs_call *call, struct nfs_file **file)
{
	size_t bytes;
	const uint8_t *handle = xdr_get_opaque(&call->args, NFS_HANDLE_MAX, &bytes);
	uint64_t number;

	*file = NULL;
	if (!handle || bytes != HANDLE_BYTES || memcmp(handle, handle_magic, sizeof(handle_magic)))
		return NFS_BADHANDLE;
	number = ulp_get_be(handle + sizeof(handle_magic), 8);
	if (number < NFS_ROOT || number >= NFS_FILE_END)
		return NFS_STALE;
	*file = &call->files[number];
	return NFS_OK;
}

void nfs_put_handle(struct nfs_call *call, const struct nfs_file *file)
{
	xdr_put(&call->reply, HANDLE_BYTES);
	xdr_put_fixed(&call->reply, handle_magic, sizeof(handle_magic));
	xdr_put64(&call->reply, nfs_file_number(call, file));
}

static void put_time(struct nfs_call *call, const struct timespec *time)
{
	xdr_put(&call->reply, (uint32_t)time->tv_sec);
	xdr_put(&call->reply, (uint32_t)time->tv_nsec);
}

void nfs_put_attributes(struct nfs_call *call, const struct nfs_file *file)
{
	struct xdr *reply = &call->reply;

	xdr_put(reply, file->data ? TYPE_FILE : TYPE_DIRECTORY);
	xdr_put(reply, file->mode);
	xdr_put(reply, file->data ? 1 : 2); /* links */
	xdr_put(reply, file->uid);
	xdr_put(reply, file->gid);
	xdr_put64(reply, file->bytes);
	xdr_put64(reply, file->bytes); /* used */
	xdr_put64(reply, 0);	       /* device */
	xdr_put64(reply, NFS_FILE_SYSTEM_ID);
	xdr_put64(reply, nfs_file_number(call, file));
	put_time(call, &file->accessed);
	put_time(call, &file->modified);
	put_time(call, &file->changed);
}

void nfs_put_optional_attributes(struct nfs_call *call, const struct nfs_file *file)
{
	xdr_put(&call->reply, !!file);
	if (file)
		nfs_put_attributes(call, file);
}

void nfs_put_change(struct nfs_call *call, const struct nfs_file *before,
		    const struct nfs_file *after)
{
	xdr_put(&call->reply, !!before);
	if (before) {
		xdr_put64(&call->reply, before->bytes);
		put_time(call, &before->modified);
		put_time(call, &before->changed);
	}
	nfs_put_optional_attributes(call, after);
}

static void get_optional(struct nfs_call *call, uint32_t *value)
{
	if (xdr_get_bool(&call->args))
		*value = xdr_get(&call->args);
}

static void get_time(struct nfs_call *call, struct timespec *time)
{
	switch (xdr_get(&call->args)) {
	case TIME_UNCHANGED:
		break;
	case TIME_OF_SERVER:
		clock_gettime(CLOCK_REALTIME, time);
		break;
	case TIME_OF_CLIENT:
		time->tv_sec = xdr_get(&call->args);
		time->tv_nsec = xdr_get(&call->args);
		break;
	default:
		call->args.is_bad = true;
	}
}

static enum nfs_status set_size(struct nfs_file *file, uint64_t bytes)
{
	if (!file->data)
		return NFS_ISDIR;
	if (bytes > file->capacity)
		return NFS_NOSPC;
	if (bytes > file->bytes)
		memset(file->data + file->bytes, 0, bytes - file->bytes);
	file->bytes = (uint32_t)bytes;
	return NFS_OK;
}

enum nfs_status nfs_set_attributes(struct nfs_call *call, struct nfs_file *file)
{
	struct nfs_file changed = {0};
	enum nfs_status status = NFS_OK;
	struct timespec guard = {0};
	uint64_t bytes = 0;
	bool has_size, has_guard;

	if (file)
		changed = *file;
	get_optional(call, &changed.mode);
	get_optional(call, &changed.uid);
	get_optional(call, &changed.gid);
	has_size = xdr_get_bool(&call->args);
	if (has_size)
		bytes = xdr_get64(&call->args);
	get_time(call, &changed.accessed);
	get_time(call, &changed.modified);
	has_guard = xdr_get_bool(&call->args);
	if (has_guard) {
		guard.tv_sec = xdr_get(&call->args);
		guard.tv_nsec = xdr_get(&call->args);
	}
	if (!file || call->args.is_bad)
		return NFS_OK;
	if (changed.mode & ~(uint32_t)MODE_BITS)
		return NFS_INVAL;
	if (has_guard &&
	    (guard.tv_sec != file->changed.tv_sec || guard.tv_nsec != file->changed.tv_nsec))
		return NFS_NOT_SYNC;
	if (has_size)
		status = set_size(&changed, bytes);
	if (status != NFS_OK)
		return status;
	clock_gettime(CLOCK_REALTIME, &changed.changed);
	if (has_size && changed.bytes != file->bytes)
		changed.modified = changed.changed;
	*file = changed;
	return NFS_OK;
}

void nfs_touch(struct nfs_file *file)
{
	clock_gettime(CLOCK_REALTIME, &file->modified);
	file->changed = file->modified;
}
