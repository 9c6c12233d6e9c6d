/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_LOCAL_XRC_FORWARD_H
#define USRDMA_LOCAL_XRC_FORWARD_H

#include <stdint.h>

#include "core/qp/xrc_forward.h"

struct cell;
struct peer;

/* Messages of XRC forwarding (core/qp/xrc_forward.h) through the FIFOs. */

extern const struct xrc_forward_carrier local_xrc_forward;
void local_xrc_forward_receive(struct peer *peer, const struct cell *cell, const uint8_t *payload);
unsigned int local_xrc_forward_resume(struct peer *peer); /* sends messages that waited for space */

#endif
