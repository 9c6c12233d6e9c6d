/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef INFINIBAND_IB_H
#define INFINIBAND_IB_H

/*
 * Native InfiniBand socket addresses (family AF_IB), layout as in the kernel's <rdma/ib.h>. An
 * address is a GID, a P_Key and a 64-bit service ID with a mask. It has no IP address and port.
 */

#include <linux/types.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The number of the family on Linux. Older C libraries do not define it. */
#ifndef AF_IB
#define AF_IB 27
#endif
#ifndef PF_IB
#define PF_IB AF_IB
#endif

/**
 * A GID, 16 bytes in network byte order, as elements of 1, 2, 4 or 8 bytes.
 */
struct ib_addr {
	union {
		__u8 uib_addr8[16];
		__be16 uib_addr16[8];
		__be32 uib_addr32[4];
		__be64 uib_addr64[2];
	} ib_u;
#define sib_addr8	  ib_u.uib_addr8
#define sib_addr16	  ib_u.uib_addr16
#define sib_addr32	  ib_u.uib_addr32
#define sib_addr64	  ib_u.uib_addr64
#define sib_raw		  ib_u.uib_addr8
#define sib_subnet_prefix ib_u.uib_addr64[0]
#define sib_interface_id  ib_u.uib_addr64[1]
};

/**
 * Checks whether an address is the unspecified address, all zero.
 *
 * *a*: the address.
 * Returns 1 or 0.
 * Threads: any. Pure. Inline. Source: rdma-core's header.
 */
static inline int ib_addr_any(const struct ib_addr *a)
{
	return !a->sib_subnet_prefix && !a->sib_interface_id;
}

/**
 * Checks whether an address is the loopback address, ::1.
 *
 * *a*: the address.
 * Returns 1 or 0.
 * Threads: any. Pure. Inline. Source: rdma-core's header.
 */
static inline int ib_addr_loopback(const struct ib_addr *a)
{
	int i;

	for (i = 0; i < 15; i++) {
		if (a->sib_addr8[i])
			return 0;
	}
	return a->sib_addr8[15] == 1;
}

/**
 * Sets an address from four words.
 *
 * *addr*: set.
 * *w1*, *w2*, *w3*, *w4*: the words, each already in network order, the most significant first.
 * Threads: any. Does not block. Inline. Source: rdma-core's header.
 */
static inline void ib_addr_set(struct ib_addr *addr, __be32 w1, __be32 w2, __be32 w3, __be32 w4)
{
	addr->sib_addr32[0] = w1;
	addr->sib_addr32[1] = w2;
	addr->sib_addr32[2] = w3;
	addr->sib_addr32[3] = w4;
}

/**
 * Compares two addresses.
 *
 * *a1*, *a2*: the addresses.
 * Returns 0 if they are equal, else the sign of their bytewise order, as memcmp(3).
 * Threads: any. Pure. Inline. Source: rdma-core's header.
 */
static inline int ib_addr_cmp(const struct ib_addr *a1, const struct ib_addr *a2)
{
	return memcmp(a1->sib_raw, a2->sib_raw, sizeof(a1->sib_raw));
}

/**
 * An AF_IB socket address. *sib_sid_mask* selects the bits of *sib_sid* that a listening id
 * compares. *sib_scope_id* is in host byte order, all other members of more than one byte are in
 * network byte order.
 */
struct sockaddr_ib {
	unsigned short int sib_family;
	__be16 sib_pkey;
	__be32 sib_flowinfo;
	struct ib_addr sib_addr;
	__be64 sib_sid;
	__be64 sib_sid_mask;
	__u64 sib_scope_id;
};

#ifdef __cplusplus
}
#endif

#endif /* INFINIBAND_IB_H */
