/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef INFINIBAND_ARCH_H
#define INFINIBAND_ARCH_H

/*
 * 64-bit byte order conversion under its pre-glibc names, kept so that old sources build. New code
 * uses htobe64() and be64toh() of <endian.h>.
 */

#include <endian.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#ifndef ntohll
#undef htonll
/**
 * *x* in network byte order.
 */
static inline __attribute__((deprecated("use htobe64"))) uint64_t htonll(uint64_t x)
{
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
	return __builtin_bswap64(x);
#else
	return x;
#endif
}

/**
 * *x*, read in network byte order, in the host's.
 */
static inline __attribute__((deprecated("use be64toh"))) uint64_t ntohll(uint64_t x)
{
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
	return __builtin_bswap64(x);
#else
	return x;
#endif
}

#define htonll htonll
#define ntohll ntohll
#endif

#ifdef __cplusplus
}
#endif

#endif /* INFINIBAND_ARCH_H */
