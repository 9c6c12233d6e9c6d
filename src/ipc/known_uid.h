/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_IPC_KNOWN_UID_H
#define USRDMA_IPC_KNOWN_UID_H

#include <stdbool.h>
#include <sys/types.h>

/*
 * In a user namespace the kernel shows all users without a mapping as the overflow uid
 * (user_namespaces(7)), which may also be the uid of a mapped user.
 */

/* The overflow uid. */
uid_t known_uid_overflow(void);

/*
 * Whether a uid that the kernel reports identifies one user. The overflow uid does so only in a
 * namespace that maps all uids, such as the initial one. Also false if /proc cannot be read.
 */
bool known_uid(uid_t uid);

/* Whether the text of a uid_map (user_namespaces(7)) maps every uid. */
bool known_uid_map_is_full(const char *map);

#endif
