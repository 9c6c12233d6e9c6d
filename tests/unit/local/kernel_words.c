/* SPDX-License-Identifier: BSD-2-Clause */
#include "kernel_words.h"

enum kernel_words kernel_words = KERNEL_WORDS_ALL;

enum kernel_words __wrap_kernel_copy_words(void);

enum kernel_words __wrap_kernel_copy_words(void)
{
	return kernel_words;
}
