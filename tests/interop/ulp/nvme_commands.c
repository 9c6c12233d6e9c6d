/* SPDX-License-Identifier: BSD-2-Clause */
/* The commands of nvme_target.c. */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "nvme_target.h"
#include "ulp.h"

#define CONTROLLER_ID	 1
#define VERSION		 0x00010300
#define TIMEOUT_500MS	 30
#define KEEP_ALIVE_100MS 10
#define SGLS_KEYED	 0x00000005 /* SGLs of any alignment, keyed SGLs */
#define FEATURE_QUEUES	 0x07
#define MDTS		 5 /* 128 KiB */
/*
 * The result of Connect Invalid Parameters is the offset of the parameter, here in the Connect
 * data.
 */
#define RESULT_OF_CONNECT_DATA 0x10000

static uint64_t property(const struct target *target, uint32_t offset)
{
	bool is_enabled = target->configuration & 1;
	bool is_shut_down = target->configuration & NVME_CC_SHUTDOWN;

	switch (offset) {
	case NVME_CAP:
		/* queues are contiguous, NVM command set */
		return (TARGET_ENTRIES - 1) | 1u << 16 | TIMEOUT_500MS << 24 | UINT64_C(1) << 37;
	case NVME_VS:
		return VERSION;
	case NVME_CC:
		return target->configuration;
	case NVME_CSTS:
		return (is_enabled ? 1u : 0u) | (is_shut_down ? 2u << 2 : 0u);
	default:
		return 0;
	}
}

static void execute_fabrics(struct target *target, struct queue *queue, struct slot *slot)
{
	const uint8_t *sqe = slot->sqe;
	uint32_t offset = (uint32_t)ulp_get_le(sqe + SQE_PROPERTY_OFFSET, 4);

	switch (sqe[SQE_FABRICS_TYPE]) {
	case NVME_CONNECT:
		ulp_put_le(slot->cqe + CQE_RESULT, CONTROLLER_ID, 8);
		target_transfer(target, queue, slot, IBV_WR_RDMA_READ, slot->data, queue->slots_mr,
				NVME_CONNECT_BYTES);
		return;
	case NVME_PROPERTY_GET:
		ulp_put_le(slot->cqe + CQE_RESULT, property(target, offset), 8);
		break;
	case NVME_PROPERTY_SET:
		if (offset == NVME_CC)
			target->configuration = (uint32_t)ulp_get_le(sqe + SQE_PROPERTY_VALUE, 4);
		break;
	default:
		target_respond(target, queue, slot, STATUS_INVALID_OPCODE);
		return;
	}
	target_respond(target, queue, slot, 0);
}

static void describe_controller(const struct target *target, uint8_t *data)
{
	memset(data + 4, ' ', 68);
	memcpy(data + 4, "1", 1);
	memcpy(data + 24, "usrdma test", 11);
	memcpy(data + 64, "1", 1);
	data[77] = MDTS;
	ulp_put_le(data + 78, CONTROLLER_ID, 2);
	ulp_put_le(data + 80, VERSION, 4);
	data[111] = 1; /* an I/O controller */
	ulp_put_le(data + 320, KEEP_ALIVE_100MS, 2);
	data[512] = 0x66; /* entries of 64 and of 16 bytes */
	data[513] = 0x44;
	ulp_put_le(data + 514, TARGET_ENTRIES, 2);
	ulp_put_le(data + 516, 1, 4);
	data[525] = 1; /* a volatile write cache: the host sends Flush */
	ulp_put_le(data + 536, SGLS_KEYED, 4);
	snprintf((char *)data + 768, 256, "%s", target->subsystem);
	ulp_put_le(data + 1792, NVME_SQE_BYTES / 16, 4);
	ulp_put_le(data + 1796, NVME_CQE_BYTES / 16, 4);
}

static void describe_namespace(const struct target *target, uint8_t *data)
{
	uint64_t blocks = target->disk_bytes >> TARGET_BLOCK_SHIFT;

	for (unsigned int at = 0; at < 24; at += 8)
		ulp_put_le(data + at, blocks, 8);
	data[130] = TARGET_BLOCK_SHIFT;
}

static void identify(struct target *target, struct queue *queue, struct slot *slot)
{
	static const uint8_t uuid[20] = {3, 16, 0, 0, 'u', 's', 'r', 'd', 'm', 'a'};
	bool is_first = ulp_get_le(slot->sqe + SQE_NAMESPACE, 4) == 1;
	uint8_t *data = slot->data;

	memset(data, 0, NVME_IDENTIFY_BYTES);
	switch (slot->sqe[SQE_CDW10]) {
	case NVME_CNS_CONTROLLER:
		describe_controller(target, data);
		break;
	case NVME_CNS_NAMESPACE:
		if (is_first)
			describe_namespace(target, data);
		break;
	case NVME_CNS_NAMESPACE_LIST:
		/* The namespaces with a greater ID than that of the command. */
		if (!ulp_get_le(slot->sqe + SQE_NAMESPACE, 4))
			data[0] = 1;
		break;
	case NVME_CNS_DESCRIPTORS:
		memcpy(data, uuid, sizeof(uuid));
		break;
	default:
		target_respond(target, queue, slot, STATUS_INVALID_FIELD);
		return;
	}
	target_transfer(target, queue, slot, IBV_WR_RDMA_WRITE, data, queue->slots_mr,
			NVME_IDENTIFY_BYTES);
}

static void execute_admin(struct target *target, struct queue *queue, struct slot *slot)
{
	switch (slot->sqe[SQE_OPCODE]) {
	case NVME_IDENTIFY:
		identify(target, queue, slot);
		return;
	case NVME_SET_FEATURES:
		/*
		 * One I/O submission and completion queue, each minus 1. Other features have no
		 * effect.
		 */
		ulp_put_le(slot->cqe + CQE_RESULT, 0, 4);
		break;
	case NVME_KEEP_ALIVE:
		break;
	case NVME_ASYNC_EVENT:
		/* No event ever occurs: the command stays outstanding. */
		return;
	case NVME_ABORT:
		ulp_put_le(slot->cqe + CQE_RESULT, 1, 4);
		break;
	default:
		target_respond(target, queue, slot, STATUS_INVALID_OPCODE);
		return;
	}
	target_respond(target, queue, slot, 0);
}

static void execute_io(struct target *target, struct queue *queue, struct slot *slot)
{
	uint8_t opcode = slot->sqe[SQE_OPCODE];
	uint64_t block = ulp_get_le(slot->sqe + SQE_SLBA, 8);
	uint64_t blocks = ulp_get_le(slot->sqe + SQE_NLB, 2) + 1;
	uint64_t capacity = target->disk_bytes >> TARGET_BLOCK_SHIFT;

	if (opcode == NVME_FLUSH) {
		target_respond(target, queue, slot, 0);
		return;
	}
	if (opcode != NVME_READ && opcode != NVME_WRITE) {
		target_respond(target, queue, slot, STATUS_INVALID_OPCODE);
		return;
	}
	if (block > capacity || blocks > capacity - block) {
		target_respond(target, queue, slot, STATUS_OUT_OF_RANGE);
		return;
	}
	target_transfer(target, queue, slot,
			opcode == NVME_READ ? IBV_WR_RDMA_WRITE : IBV_WR_RDMA_READ,
			target->disk + (block << TARGET_BLOCK_SHIFT), target->disk_mr,
			(uint32_t)(blocks << TARGET_BLOCK_SHIFT));
}

void target_execute(struct target *target, struct queue *queue, struct slot *slot)
{
	if (slot->sqe[SQE_OPCODE] == NVME_FABRICS)
		execute_fabrics(target, queue, slot);
	else if (!queue->qid)
		execute_admin(target, queue, slot);
	else
		execute_io(target, queue, slot);
}

/* Compares the subsystem of the Connect data with that of the target. */
static uint16_t check_connect(const struct target *target, struct slot *slot)
{
	const char *subsystem = (const char *)slot->data + CONNECT_SUBSYSTEM;

	if (!strncmp(subsystem, target->subsystem, NVME_NQN_BYTES)) {
		ulp_say("Connect: host %.200s, queue %u", (const char *)slot->data + CONNECT_HOST,
			(unsigned int)ulp_get_le(slot->sqe + SQE_CONNECT_QID, 2));
		return 0;
	}
	ulp_say("Connect: subsystem '%.200s' is not '%s'", subsystem, target->subsystem);
	ulp_put_le(slot->cqe + CQE_RESULT, CONNECT_SUBSYSTEM | RESULT_OF_CONNECT_DATA, 8);
	return STATUS_CONNECT_INVALID;
}

uint16_t target_data_arrived(const struct target *target, struct slot *slot)
{
	return slot->sqe[SQE_OPCODE] == NVME_FABRICS ? check_connect(target, slot) : 0;
}
