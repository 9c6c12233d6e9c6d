/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_LOCAL_GUARDED_COPY_H
#define USRDMA_LOCAL_GUARDED_COPY_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

#include "local/rseq_area.h"

/*
 * Calls process_vm_readv(2) or process_vm_writev(2) only while the guards have the values with
 * which the access was checked. The comparison and the entry into the system call are one
 * restartable sequence: if the thread is preempted, stopped or signalled between them, it does not
 * enter the system call and returns GUARDED_PREEMPTED.
 */
struct guarded_call {
	bool is_read;
	pid_t tid; /* any thread of the process that owns the memory of `remote` */
	const struct iovec *local;
	unsigned long local_count;
	const struct iovec *remote;
	unsigned long remote_count;
	struct guard guards[GUARDS];
};

/*
 * Whether the calling thread can make guarded calls: the C library has registered a restartable
 * sequence area for the thread (glibc 2.35 or later, x86_64 or aarch64, a kernel with rseq(2)).
 */
bool guarded_copy_is_available(void);

/*
 * How the kernel stores the bytes of a piece of `local` (process_vm_rw_pages() of
 * mm/process_vm_access.c, and the copy function of the architecture). The words that
 * kernel_copy_words() names are loaded and stored whole if the piece begins at a multiple of 8 on
 * both sides. With GUARDED_COPY_ALIGNS_STORES, it is stored whole if the destination begins at a
 * multiple of 8: other processors than x86 align the source.
 */
#if defined(__x86_64__)
#define GUARDED_COPY_ALIGNS_STORES true
#else
#define GUARDED_COPY_ALIGNS_STORES false
#endif

/* Makes one call. With GUARDED_CALLED, *moved is the number of bytes, or -errno. */
enum guarded_outcome guarded_copy(const struct guarded_call *call, ssize_t *moved)
	__attribute__((warn_unused_result));

#endif
