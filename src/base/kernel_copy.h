/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_BASE_KERNEL_COPY_H
#define USRDMA_BASE_KERNEL_COPY_H

#include <stdbool.h>

/*
 * Which aligned words the kernel's copy function stores and loads whole in process_vm_writev(2) and
 * process_vm_readv(2), if the piece begins at a multiple of the word's size on both sides.
 */
enum kernel_words {
	KERNEL_WORDS_NONE, /* words of any size can be divided */
	KERNEL_WORDS_LONG, /* words of 8 bytes stay whole */
	KERNEL_WORDS_ALL,  /* words of 2, 4 and 8 bytes stay whole */
};

/* What determines the copy function of an x86 kernel. */
struct kernel_copy_x86 {
	/* enhanced REP MOVSB: CPUID leaf 7, EBX bit 9 (Intel SDM volume 2A, CPUID) */
	bool has_erms;
	bool has_fsrm; /* fast short REP MOV: the same leaf, EDX bit 4 */
	bool is_amd;
	unsigned int family, model;
	unsigned int kernel_major, kernel_minor;
};

/* The rule of docs/adr/0071 for x86. */
enum kernel_words kernel_copy_x86_words(const struct kernel_copy_x86 *x86);

/*
 * The words that stay whole on this machine. The first call determines them; later calls return the
 * same value.
 */
enum kernel_words kernel_copy_words(void);

#endif
