/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_CORE_DEVICE_COMMAND_FILE_H
#define USRDMA_CORE_DEVICE_COMMAND_FILE_H

#include <stdint.h>

#include "ipc/msg.h"

/*
 * The file of ibv_context.cmd_fd (ADR 0018): a sealed memfd that identifies the device and the
 * context. A holder of a copy of the descriptor can import them. The file grants no access: except
 * for the token it contains public data, and the token identifies a context only in the process
 * that has it open.
 */
struct command_file {
	uint32_t magic;
	uint32_t version;
	/* of the context, random; equal in contexts that were imported from one another */
	uint64_t token[2];
	/* network namespace of the device; 0: the kernel does not report it */
	uint64_t netns_cookie;
	uint64_t node_guid;
	uint32_t dev_id;
	uint32_t rail; /* device.rail in the process that created the file */
	char name[sizeof(((struct ipc_device_reply *)0)->name)];
};

/* Creates the file for a device and fills in *file. Returns a descriptor, or -errno. */
int command_file_make(const struct ipc_device_reply *device, unsigned int rail,
		      struct command_file *file) __attribute__((warn_unused_result));

/*
 * Reads a command file from any descriptor. 0; -EINVAL: not a command file; -ENODEV: of another
 * network namespace; -EBADF.
 */
int command_file_read(int fd, struct command_file *file) __attribute__((warn_unused_result));

#endif
