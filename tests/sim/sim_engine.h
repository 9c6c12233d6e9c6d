/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TESTS_SIM_SIM_ENGINE_H
#define TESTS_SIM_SIM_ENGINE_H

#include <infiniband/verbs.h>
#include <stdbool.h>

#include "core/engine/engine.h"
#include "core/object/objects.h"
#include "roce/roce.h"

/*
 * Parts of the simulators: an engine without daemon, thread and clock, and the connection of its
 * queue pairs.
 */

/* Aborts if the set-up of a test fails. */
#define sim_must(condition) sim_must_at((condition), __FILE__, __LINE__)

void sim_must_at(bool is_true, const char *file, int line);

/* An engine with the QPN range `slot`. Its only transport is roce. */
void sim_engine_open(struct engine *engine, uint32_t slot);
void sim_engine_close(struct engine *engine);

/* A device with one address, and a context of it. The caller closes async_fd; it may be -1. */
void sim_device_open(struct device *device, const uint8_t gid[GID_BYTES]);
void sim_context_open(struct context *context, struct engine *engine, struct device *device,
		      int async_fd);

/* Attributes of a connection. */
struct world_qp_attr {
	enum ibv_qp_type type;
	enum ibv_mtu mtu;
	uint32_t psns[2]; /* the first PSN that each side sends */
	uint8_t timeout;
	uint8_t retry_cnt;
	uint8_t rnr_retry;
	uint8_t min_rnr_timer;
	uint8_t rd_atomic;
	unsigned access;
	uint32_t qkey; /* for UD, which otherwise uses the first PSN and max_wr only */
	uint32_t max_wr;
	bool has_srq; /* uses its node's SRQ */
};

/* Brings one side of a connection to RTS. */
void world_connect_to(struct ibv_qp *qp, const uint8_t *peer_gid, uint32_t peer_qpn,
		      uint32_t rq_psn, uint32_t sq_psn, const struct world_qp_attr *attr);

/* Polls the oldest completion without running the engine. */
bool world_poll(struct ibv_cq *cq, struct ibv_wc *wc);

#endif
