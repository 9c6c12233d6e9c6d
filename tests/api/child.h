/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_TESTS_API_CHILD_H
#define USRDMA_TESTS_API_CHILD_H

#include <stdbool.h>

/* Asks in a fork()ed child, and asserts that the answer is yes. */
void child_agrees(bool (*question)(void *arg), void *arg);

#endif
