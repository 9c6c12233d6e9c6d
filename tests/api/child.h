/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_TESTS_API_CHILD_H
#define USRDMA_TESTS_API_CHILD_H

#include <stdbool.h>

/* Calls question() in a fork()ed child, and asserts that it returns true. */
void child_agrees(bool (*question)(void *arg), void *arg);

#endif
