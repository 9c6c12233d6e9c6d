/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CORE_COMPAT_H
#define CORE_COMPAT_H

/*
 * Exports of libibverbs beyond <infiniband/verbs.h>. rdma-core declares these calls in internal
 * headers, but they are part of the binary interface, and other programs (ibv_devinfo, pyverbs,
 * Debian's librdmacm) call them.
 */

#include <infiniband/sa.h>
#include <infiniband/verbs.h>
#include <stddef.h>
#include <stdint.h>

struct ib_user_path_rec;
struct ib_uverbs_ah_attr;
struct ib_uverbs_qp_attr;

/* The GID types in sysfs, which does not distinguish InfiniBand from RoCE v1. */
enum ibv_gid_type_sysfs { IBV_GID_TYPE_SYSFS_IB_ROCE_V1, IBV_GID_TYPE_SYSFS_ROCE_V2 };

#pragma GCC visibility push(default)

/*
 * Convert the structures of the kernel's uverbs and rdma_cm to and from those of the API. Source
 * and destination must not be NULL. Every field of the destination is written, except qp_state and
 * rate_limit of QP attributes: those belong to the caller.
 */
void ibv_copy_ah_attr_from_kern(struct ibv_ah_attr *dst, struct ib_uverbs_ah_attr *src);
void ibv_copy_qp_attr_from_kern(struct ibv_qp_attr *dst, struct ib_uverbs_qp_attr *src);
void ibv_copy_path_rec_from_kern(struct ibv_sa_path_rec *dst, struct ib_user_path_rec *src);
void ibv_copy_path_rec_to_kern(struct ib_user_path_rec *dst, struct ibv_sa_path_rec *src);

/*
 * The mount point of sysfs: the environment variable SYSFS_PATH without trailing slashes, or
 * "/sys". Set-uid programs get "/sys". Determined once; the string is valid until the process ends.
 */
const char *ibv_get_sysfs_path(void);

/*
 * Reads the file named *file* in *dir* into *buf* of *size* bytes as a string without its last
 * newline. Returns its length, or -1 with errno: of open(2) and read(2); EINVAL: size is 0 or above
 * INT_MAX; ENAMETOOLONG: the path is too long; EOVERFLOW: the content does not fit.
 */
int ibv_read_sysfs_file(const char *dir, const char *file, char *buf, size_t size);

/*
 * Stores the type of the GID at *index* in *type*, IB_ROCE_V1 for an empty entry. Returns 0, or -1
 * with the errno of ibv_query_gid_ex().
 */
int ibv_query_gid_type(struct ibv_context *context, uint8_t port_num, unsigned int index,
		       enum ibv_gid_type_sysfs *type);

/*
 * Exclude [*base*, *base* + *size*) from the memory of a fork()ed child, or include it again.
 * Providers of rdma-core call these for pages that their devices write to. No-ops here (fork.c).
 * Return 0.
 */
int ibv_dontfork_range(void *base, size_t size);
int ibv_dofork_range(void *base, size_t size);

#pragma GCC visibility pop

#endif
