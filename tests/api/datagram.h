/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_TESTS_API_DATAGRAM_H
#define USRDMA_TESTS_API_DATAGRAM_H

#include "fixture.h"

#define GRH_BYTES 40

/* Where in its buffer a side receives. */
#define RECV_AT (SIDE_BUF_BYTES / 2)

/* A pair of UD queue pairs, and an address handle that leads from either to the other, and to itself. */
struct ud {
	struct pair pair;
	struct ibv_ah *ah;
};

void ud_open(struct ud *ud, struct api *api, const struct pair_options *options);
void ud_close(struct ud *ud);

/* From an address of the device to the same one; `gid_index` is of its GID table. */
struct ibv_ah *ud_create_ah(struct ibv_pd *pd, uint8_t gid_index);
/* The first GID with an address of that family that is not link-local. */
uint8_t ud_gid_index(struct ibv_context *ctx, bool is_ipv4);

/* A SEND of the first `bytes` of `from` to `to`, numbered by its length. */
struct ibv_send_wr ud_wr(const struct ud *ud, const struct side *from, const struct side *to,
			 struct ibv_sge *sge, uint32_t bytes);
/* Posts that and awaits its completion. */
void ud_send(const struct ud *ud, struct side *from, const struct side *to, uint32_t bytes);
/* A receive of so many bytes at RECV_AT, the header's included, numbered by its length. */
void ud_recv(struct side *side, uint32_t bytes);
/* The receive of that number holds the first `bytes` of `from`. */
struct ibv_wc ud_expect(const struct side *side, uint64_t wr_id, const struct side *from,
			uint32_t bytes);

#endif
