/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * NVMe over RDMA, the host: connects an admin and an I/O queue to a subsystem, enables and
 * identifies the controller, writes blocks, reads them and compares them.
 *
 *	nvme_host ADDRESS PORT SUBSYSTEM
 *
 * Each transfer is read twice: into a memory region, and into a memory window that the controller
 * invalidates with the response (SEND with Invalidate).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "nvme.h"
#include "ulp.h"

#define QUEUE_ENTRIES  32
#define TRANSFER_BYTES (128u << 10)
#define TRANSFERS      16
#define ENABLE_TRIES   1000
#define ENABLE_WAIT_US 10000
/* log2 of the block size: 512 bytes to 64 KiB */
#define LBADS_MIN 9
#define LBADS_MAX 16

struct nvme_queue {
	struct ulp ulp;
	uint16_t id;
	uint16_t last_command;
	uint64_t result; /* of the last command */
};

static void connect_transport(struct nvme_queue *queue, const char *addr, const char *port,
			      uint16_t id, uint16_t controller)
{
	uint8_t private_data[NVME_PRIVATE_BYTES] = {0};

	memset(queue, 0, sizeof(*queue));
	queue->id = id;
	ulp_put_le(private_data + REQ_QID, id, 2);
	ulp_put_le(private_data + REQ_HRQSIZE, QUEUE_ENTRIES, 2);
	ulp_put_le(private_data + REQ_HSQSIZE, QUEUE_ENTRIES - 1, 2);
	ulp_put_le(private_data + REQ_CONTROLLER, controller, 2);
	ulp_connect(&queue->ulp, addr, port, private_data, sizeof(private_data), NVME_SQE_BYTES);
	ulp_say("queue %u: connected, the controller's receive queue has %u entries", id,
		(unsigned int)ulp_get_le(queue->ulp.private_data + 2, 2));
}

/* Begins a command in the send buffer. */
static uint8_t *command(struct nvme_queue *queue, enum nvme_opcode opcode)
{
	uint8_t *sqe = queue->ulp.send_buf;

	memset(sqe, 0, NVME_SQE_BYTES);
	sqe[SQE_OPCODE] = (uint8_t)opcode;
	sqe[SQE_FLAGS] = NVME_FLAGS_SGL;
	ulp_put_le(sqe + SQE_COMMAND_ID, ++queue->last_command, 2);
	sqe[SQE_DATA + SGL_TYPE] = NVME_SGL_KEYED;
	return sqe;
}

static void set_data(uint8_t *sqe, const struct ibv_mr *mr, uint32_t bytes, uint32_t rkey,
		     uint8_t subtype)
{
	ulp_put_le(sqe + SQE_DATA + SGL_ADDR, (uintptr_t)mr->addr, 8);
	ulp_put_le(sqe + SQE_DATA + SGL_BYTES, bytes, 3);
	ulp_put_le(sqe + SQE_DATA + SGL_KEY, rkey, 4);
	sqe[SQE_DATA + SGL_TYPE] = NVME_SGL_KEYED | subtype;
}

/*
 * Sends the command and waits for its response, which must report success. The name is used in
 * messages.
 */
static void execute(struct nvme_queue *queue, const char *name)
{
	uint8_t *cqe;
	size_t bytes;
	uint16_t status;

	ulp_send(&queue->ulp, NVME_SQE_BYTES);
	bytes = ulp_receive(&queue->ulp, &cqe);
	ulp_require(bytes == NVME_CQE_BYTES, "%s: a response of %zu bytes", name, bytes);
	ulp_require(ulp_get_le(cqe + CQE_COMMAND_ID, 2) == queue->last_command,
		    "%s: the response of another command", name);
	status = (uint16_t)(ulp_get_le(cqe + CQE_STATUS, 2) >> 1);
	ulp_require(!status, "%s: NVMe status %#x", name, status);
	queue->result = ulp_get_le(cqe + CQE_RESULT, 8);
	ulp_release(&queue->ulp, cqe);
}

/* Fabrics Connect. Returns the controller ID. */
static uint16_t connect_queue(struct nvme_queue *queue, const char *subsystem, uint16_t controller)
{
	struct ibv_mr *mr = ulp_region(&queue->ulp, NVME_CONNECT_BYTES);
	uint8_t *data = mr->addr, *sqe = command(queue, NVME_FABRICS);

	memcpy(data + CONNECT_HOST_ID, "usrdma test host", 16);
	ulp_put_le(data + CONNECT_CONTROLLER, controller, 2);
	snprintf((char *)data + CONNECT_SUBSYSTEM, NVME_NQN_BYTES, "%s", subsystem);
	snprintf((char *)data + CONNECT_HOST, NVME_NQN_BYTES, "nqn.2014-08.org.nvmexpress:uuid:%s",
		 "75737264-6d61-4074-6573-7420686f7374");
	sqe[SQE_FABRICS_TYPE] = NVME_CONNECT;
	ulp_put_le(sqe + SQE_CONNECT_QID, queue->id, 2);
	ulp_put_le(sqe + SQE_CONNECT_SQSIZE, QUEUE_ENTRIES - 1, 2);
	set_data(sqe, mr, NVME_CONNECT_BYTES, mr->rkey, 0);
	execute(queue, "Connect");
	return (uint16_t)queue->result;
}

static uint64_t property_get(struct nvme_queue *queue, enum nvme_property property)
{
	uint8_t *sqe = command(queue, NVME_FABRICS);

	sqe[SQE_FABRICS_TYPE] = NVME_PROPERTY_GET;
	sqe[SQE_PROPERTY_ATTRIB] = property == NVME_CAP;
	ulp_put_le(sqe + SQE_PROPERTY_OFFSET, property, 4);
	execute(queue, "Property Get");
	return queue->result;
}

static void property_set(struct nvme_queue *queue, enum nvme_property property, uint32_t value)
{
	uint8_t *sqe = command(queue, NVME_FABRICS);

	sqe[SQE_FABRICS_TYPE] = NVME_PROPERTY_SET;
	ulp_put_le(sqe + SQE_PROPERTY_OFFSET, property, 4);
	ulp_put_le(sqe + SQE_PROPERTY_VALUE, value, 8);
	execute(queue, "Property Set");
}

static void enable(struct nvme_queue *admin)
{
	uint32_t version = (uint32_t)property_get(admin, NVME_VS);
	unsigned int tries = 0;

	ulp_say("controller: version %u.%u, capabilities %#llx", version >> 16, version >> 8 & 0xff,
		(unsigned long long)property_get(admin, NVME_CAP));
	property_set(admin, NVME_CC, NVME_CC_ENABLE);
	while (!(property_get(admin, NVME_CSTS) & 1)) {
		ulp_require(++tries < ENABLE_TRIES, "the controller does not become ready");
		usleep(ENABLE_WAIT_US);
	}
}

static void identify(struct nvme_queue *admin, struct ibv_mr *mr, enum nvme_cns cns,
		     uint32_t namespace_id)
{
	uint8_t *sqe = command(admin, NVME_IDENTIFY);

	ulp_put_le(sqe + SQE_NAMESPACE, namespace_id, 4);
	sqe[SQE_CDW10] = (uint8_t)cns;
	set_data(sqe, mr, NVME_IDENTIFY_BYTES, mr->rkey, 0);
	execute(admin, "Identify");
}

/* Returns the block size of namespace 1. */
static uint32_t identify_all(struct nvme_queue *admin, const char *subsystem)
{
	struct ibv_mr *mr = ulp_region(&admin->ulp, NVME_IDENTIFY_BYTES);
	const uint8_t *data = mr->addr;
	uint32_t block_bytes;
	uint64_t blocks;
	uint8_t lbads;

	identify(admin, mr, NVME_CNS_CONTROLLER, 0);
	ulp_require(!strncmp((const char *)data + 768, subsystem, NVME_NQN_BYTES),
		    "the subsystem is '%.255s'", (const char *)data + 768);
	ulp_say("controller: model %.40s, SGL support %#x", (const char *)data + 24,
		(unsigned int)ulp_get_le(data + 536, 4));
	identify(admin, mr, NVME_CNS_NAMESPACE, 1);
	blocks = ulp_get_le(data, 8);
	lbads = data[128 + 4 * (data[26] & 15) + 2];
	ulp_require(lbads >= LBADS_MIN && lbads <= LBADS_MAX,
		    "namespace 1 has the LBA data size 2^%u bytes (2^%d to 2^%d)", lbads, LBADS_MIN,
		    LBADS_MAX);
	block_bytes = 1u << lbads;
	ulp_say("namespace 1: %llu blocks of %u bytes", (unsigned long long)blocks, block_bytes);
	ulp_require(blocks >= TRANSFERS * (TRANSFER_BYTES / block_bytes),
		    "namespace 1 is too small");
	return block_bytes;
}

static void transfer(struct nvme_queue *io, enum nvme_opcode opcode, const struct ibv_mr *mr,
		     unsigned int number, uint32_t block_bytes, const struct ibv_mw *mw)
{
	uint32_t blocks = TRANSFER_BYTES / block_bytes;
	uint8_t *sqe = command(io, opcode);

	ulp_put_le(sqe + SQE_NAMESPACE, 1, 4);
	ulp_put_le(sqe + SQE_SLBA, (uint64_t)number * blocks, 8);
	ulp_put_le(sqe + SQE_NLB, blocks - 1, 2);
	set_data(sqe, mr, TRANSFER_BYTES, mw ? mw->rkey : mr->rkey, mw ? NVME_SGL_INVALIDATE : 0);
	execute(io, opcode == NVME_WRITE ? "Write" : "Read");
	ulp_require(io->ulp.is_invalidated == !!mw, "the response is %s SEND with Invalidate",
		    mw ? "not a" : "a");
	ulp_require(!mw || io->ulp.invalidated_rkey == mw->rkey,
		    "rkey %#x was invalidated, not %#x", io->ulp.invalidated_rkey,
		    mw ? mw->rkey : 0);
}

static void read_and_compare(struct nvme_queue *io, struct ibv_mr *mr, uint32_t block_bytes,
			     struct ibv_mw *mw)
{
	for (unsigned int i = 0; i < TRANSFERS; i++) {
		size_t wrong;

		memset(mr->addr, 0, TRANSFER_BYTES);
		if (mw)
			ulp_bind(&io->ulp, mw, mr);
		transfer(io, NVME_READ, mr, i, block_bytes, mw);
		wrong = ulp_count_wrong(mr->addr, TRANSFER_BYTES, i);
		ulp_require(!wrong, "transfer %u: %zu wrong bytes", i, wrong);
	}
	ulp_say("read %u transfers of %u bytes%s: all bytes are right", TRANSFERS, TRANSFER_BYTES,
		mw ? " with invalidation" : "");
}

int main(int argc, char **argv)
{
	struct nvme_queue admin, io;
	struct ibv_mr *mr;
	struct ibv_mw *mw;
	uint32_t block_bytes;
	uint16_t controller;
	uint8_t *sqe;

	ulp_require(argc == 4, "usage: nvme_host ADDRESS PORT SUBSYSTEM");
	connect_transport(&admin, argv[1], argv[2], 0, NVME_ANY_CONTROLLER);
	controller = connect_queue(&admin, argv[3], NVME_ANY_CONTROLLER);
	enable(&admin);
	block_bytes = identify_all(&admin, argv[3]);
	connect_transport(&io, argv[1], argv[2], 1, controller);
	connect_queue(&io, argv[3], controller);
	mr = ulp_region(&io.ulp, TRANSFER_BYTES);
	mw = ulp_window(&io.ulp);
	for (unsigned int i = 0; i < TRANSFERS; i++) {
		ulp_fill(mr->addr, TRANSFER_BYTES, i);
		transfer(&io, NVME_WRITE, mr, i, block_bytes, NULL);
	}
	sqe = command(&io, NVME_FLUSH);
	ulp_put_le(sqe + SQE_NAMESPACE, 1, 4);
	execute(&io, "Flush");
	ulp_say("wrote %u transfers of %u bytes", TRANSFERS, TRANSFER_BYTES);
	read_and_compare(&io, mr, block_bytes, NULL);
	read_and_compare(&io, mr, block_bytes, mw);
	ulp_require(!ibv_dealloc_mw(mw), "ibv_dealloc_mw failed");
	ulp_disconnect(&io.ulp);
	property_set(&admin, NVME_CC, NVME_CC_ENABLE | NVME_CC_SHUTDOWN);
	ulp_disconnect(&admin.ulp);
	ulp_say("disconnected");
	return 0;
}
