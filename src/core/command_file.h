/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_CORE_COMMAND_FILE_H
#define USRDMA_CORE_COMMAND_FILE_H

#include <stdint.h>

#include "ipc/msg.h"

/*
 * What stands behind ibv_context.cmd_fd (ADR 0018): a sealed memfd that names the device and the context, so that
 * whoever has a copy of the descriptor can import them. It grants nothing: everything in it but the token is known to
 * all, and the token leads to a context only in the process that has it open.
 */
struct command_file {
	uint32_t magic;
	uint32_t version;
	uint64_t token[2]; /* of the context, random; contexts imported from one another have the same */
	uint64_t netns_cookie; /* of the network namespace that the device is in; 0: the kernel cannot tell */
	uint64_t node_guid;
	uint32_t dev_id;
	uint32_t reserved;
	char name[sizeof(((struct ipc_device_reply *)0)->name)];
};

/* Makes one for a device and fills in *file: a descriptor, or -errno. */
int command_file_make(const struct ipc_device_reply *device, struct command_file *file)
	__attribute__((warn_unused_result));

/* Reads a copy of it, which may be anything: 0; -EINVAL: none of ours; -ENODEV: of another network namespace; -EBADF. */
int command_file_read(int fd, struct command_file *file) __attribute__((warn_unused_result));

#endif
