/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_LOCAL_PEER_FILE_H
#define USRDMA_LOCAL_PEER_FILE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * A file that a peer has open or has mapped. The file is opened through the peer's directory in
 * /proc, which requires the permission that process_vm_writev(2) requires.
 */
struct peer_file {
	pid_t pid;
	pid_t tid;	/* a thread of the peer */
	int fd;		/* the peer's descriptor; -1: unknown */
	uint64_t start; /* without a descriptor: the peer's mapping [start, end) of the file */
	uint64_t end;
	uint64_t dev; /* as st_dev and st_ino of stat(2); another file is not mapped */
	uint64_t ino;
	uint64_t bytes; /* a smaller file, or a part of a huge page, is not mapped */
};

/*
 * Maps the whole file. NULL: it cannot be opened or mapped. can_shrink: the file can become shorter
 * than the mapping. Does not affect the locks (fcntl(2), F_SETLK) that this process holds on the
 * file, which close(2) releases: a thread with a descriptor table of its own opens and closes the
 * file. Blocks as long as the file system of the file does not reply.
 */
uint8_t *peer_file_map(const struct peer_file *file, bool *can_shrink)
	__attribute__((warn_unused_result));

#endif
