/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_TESTS_API_DATAGRAM_H
#define USRDMA_TESTS_API_DATAGRAM_H

#include "fixture.h"

#define GRH_BYTES 40

/* Offset of receives in the buffer of a side. */
#define RECV_AT (SIDE_BUF_BYTES / 2)

/*
 * A pair of UD queue pairs, and one address handle that works in both directions and for loopback.
 */
struct ud {
	struct pair pair;
	struct ibv_ah *ah;
};

void ud_open(struct ud *ud, struct api *api, const struct pair_options *options);
void ud_close(struct ud *ud);

/* The address handle's source and destination are the device's GID with this index. */
struct ibv_ah *ud_create_ah(struct ibv_pd *pd, uint8_t gid_index);
/* Returns the index of the first GID of that family that is not link-local. */
uint8_t ud_gid_index(struct ibv_context *ctx, bool is_ipv4);

/* A SEND of the first `bytes` of `from`'s buffer to `to`; its wr_id is the length. */
struct ibv_send_wr ud_wr(const struct ud *ud, const struct side *from, const struct side *to,
			 struct ibv_sge *sge, uint32_t bytes);
/* Posts such a WR and waits for its completion. */
void ud_send(const struct ud *ud, struct side *from, const struct side *to, uint32_t bytes);
/* Posts a receive of `bytes` bytes at RECV_AT, GRH included; its wr_id is the length. */
void ud_recv(struct side *side, uint32_t bytes);
/* Asserts that the receive with this wr_id completed with the first `bytes` of `from`'s buffer. */
struct ibv_wc ud_expect(const struct side *side, uint64_t wr_id, const struct side *from,
			uint32_t bytes);

#endif
