/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TESTS_UNIT_LOCAL_MAPPINGS_H
#define TESTS_UNIT_LOCAL_MAPPINGS_H

/*
 * Returns the number of shared mappings in this process of the memory object that is mapped at
 * `at`.
 */
unsigned int mappings_of(const void *at);

#endif
