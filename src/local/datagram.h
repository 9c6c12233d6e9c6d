/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_LOCAL_DATAGRAM_H
#define USRDMA_LOCAL_DATAGRAM_H

#include <stdint.h>

struct ah;
struct cell;
struct datagram_tx;
struct peer;
struct qp;
struct timer;

/* UD datagrams between processes of this host. */

int local_ah_open(struct ah *ah);
int local_datagram_send(struct qp *qp, struct ah *ah, const struct datagram_tx *datagram);
/* Fills and commits the reserved cell. `at` is its payload, which begins with the GRH. */
int local_datagram_write(uint32_t src_qpn, const struct datagram_tx *datagram, struct peer *peer,
			 struct cell *cell, uint8_t *at);
void local_datagram_receive(struct peer *peer, const struct cell *cell, const uint8_t *payload);
void local_datagram_has_room(struct peer *peer); /* tx has space for datagrams again */
void local_datagram_timer(struct timer *timer, uint64_t now_ns);

#endif
