/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_BASE_SEAL_H
#define USRDMA_BASE_SEAL_H

#include <fcntl.h>
#include <stdbool.h>

#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif

/*
 * Adds the seals to a memfd, and F_SEAL_FUTURE_WRITE: existing writable mappings stay, and a
 * process that receives the descriptor can only read. Linux before 5.1 lacks this seal. Then *fd is
 * replaced by a descriptor that is open for reading only, and the mode of the file permits its
 * owner to read, and other users nothing. Processes of the same user could change the mode; they
 * could also write into this process by ptrace(2). 0 or -errno; on failure *fd is unchanged.
 */
int seal_future_writes(int *fd, int seals) __attribute__((warn_unused_result));

/* Whether the descriptor has these seals, and cannot be mapped for writing or written. */
bool seal_has_future_writes(int fd, int seals);

#endif
