/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_TESTS_NVME_TARGET_H
#define USRDMA_TESTS_NVME_TARGET_H

#include <stdbool.h>

#include <rdma/rdma_cma.h>

#include "nvme.h"

#define TARGET_ENTRIES	   32
#define TARGET_READS	   16
#define TARGET_BLOCK_SHIFT 9

#define STATUS_INVALID_OPCODE  0x4001 /* with Do Not Retry */
#define STATUS_INVALID_FIELD   0x4002
#define STATUS_OUT_OF_RANGE    0x4080
#define STATUS_CONNECT_INVALID 0x4182 /* Connect Invalid Parameters */

/* wr_id of a queue's WRs: a receive is the number of its slot */
#define WR_SLOT	    0xffu
#define WR_RESPONSE 0x100u
#define WR_TRANSFER 0x200u

/* A command, from its arrival until the completion of its response. */
struct slot {
	uint8_t sqe[NVME_SQE_BYTES];
	uint8_t cqe[NVME_CQE_BYTES];
	uint8_t data[NVME_IDENTIFY_BYTES]; /* of Identify and Connect */
};

struct queue {
	struct rdma_cm_id *id;
	struct ibv_cq *cq;
	struct ibv_mr *slots_mr;
	uint16_t qid;
	uint16_t head;
	bool is_closed;
	struct slot slots[TARGET_ENTRIES];
};

struct target {
	const char *subsystem;
	uint8_t *disk;
	size_t disk_bytes;
	struct ibv_pd *pd;
	struct ibv_mr *disk_mr;
	uint32_t configuration;
	unsigned int counts[3];
};

enum target_count { COUNT_WRITE, COUNT_READ, COUNT_INVALIDATE };

/* Executes a command, or starts its data transfer. */
void target_execute(struct target *target, struct queue *queue, struct slot *slot);
/*
 * The data of a Write or of a Connect command is complete. Returns the NVMe status of the command.
 */
uint16_t target_data_arrived(const struct target *target, struct slot *slot);

/* Moves data between the host's buffer of the command and local memory. The response follows. */
void target_transfer(struct target *target, struct queue *queue, struct slot *slot,
		     enum ibv_wr_opcode opcode, void *at, struct ibv_mr *mr, uint32_t bytes);
void target_respond(struct target *target, struct queue *queue, struct slot *slot, uint16_t status);

#endif
