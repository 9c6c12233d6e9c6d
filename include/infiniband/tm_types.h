/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Tag matching headers in wire format, which precede the payload of eager and rendezvous messages
 * to a tag matching SRQ. All fields are in network byte order. usrdma does not support tag matching
 * SRQs (ibv_create_srq_ex() fails with EOPNOTSUPP). The structures are for programs that create or
 * parse these headers.
 */
#ifndef _TM_TYPES_H
#define _TM_TYPES_H

#include <linux/types.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Operation in ibv_tmh.opcode. */
enum ibv_tmh_op {
	IBV_TMH_NO_TAG = 0, /* delivered in order of arrival, the tag is ignored */
	IBV_TMH_RNDV = 1,   /* rendezvous request: an ibv_rvh follows */
	IBV_TMH_FIN = 2,    /* rendezvous finished */
	IBV_TMH_EAGER = 3,  /* payload follows, to be matched by tag */
};

/* Tag matching header, 16 bytes, first in the message. */
struct ibv_tmh {
	uint8_t opcode;	     /* enum ibv_tmh_op */
	uint8_t reserved[3]; /* 0 */
	__be32 app_ctx;	     /* value of the sender for the receiver */
	__be64 tag;
};

/* Rendezvous header, 16 bytes: where the receiver can read the payload. */
struct ibv_rvh {
	__be64 va;
	__be32 rkey;
	__be32 len; /* bytes */
};

#ifdef __cplusplus
}
#endif

#endif /* _TM_TYPES_H */
