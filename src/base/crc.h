/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_BASE_CRC_H
#define USRDMA_BASE_CRC_H

#include <stddef.h>
#include <stdint.h>

/*
 * The CRC-32 of Ethernet: polynomial 0x04c11db7, reflected, initial value and final XOR all ones.
 * `crc` is 0 for the first block, and the return value for the preceding bytes to continue.
 */
uint32_t crc32_ethernet(uint32_t crc, const void *bytes, size_t len);

#endif
