/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_TESTS_KERNEL_WORDS_H
#define USRDMA_TESTS_KERNEL_WORDS_H

#include "base/kernel_copy.h"

/*
 * What kernel_copy_words() returns to the code under test, so that one-sided operations take the
 * same path on every processor. Link with -Wl,--wrap=kernel_copy_words. KERNEL_WORDS_ALL at first.
 */
extern enum kernel_words kernel_words;

#endif
