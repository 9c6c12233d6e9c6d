/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_BASE_CRC_PLAIN_H
#define USRDMA_BASE_CRC_PLAIN_H

#include <stddef.h>
#include <stdint.h>

/* As crc32_ethernet() (crc.h), without carry-less multiplication: shifts and exclusive ors only. */
uint32_t crc32_plain(uint32_t crc, const void *bytes, size_t len);

#endif
