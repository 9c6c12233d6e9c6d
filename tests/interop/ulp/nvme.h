/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_TESTS_NVME_H
#define USRDMA_TESTS_NVME_H

/*
 * Values and offsets of NVM Express Base Specification 2.0, NVM Command Set 1.0 and the RDMA
 * Transport 1.0. All integers are little-endian. A submission queue entry has 64 bytes, a
 * completion queue entry 16 bytes.
 */
#define NVME_SQE_BYTES 64
#define NVME_CQE_BYTES 16

enum nvme_opcode {
	NVME_FLUSH = 0x00, /* I/O queues */
	NVME_WRITE = 0x01,
	NVME_READ = 0x02,
	NVME_IDENTIFY = 0x06, /* admin queue */
	NVME_ABORT = 0x08,
	NVME_SET_FEATURES = 0x09,
	NVME_ASYNC_EVENT = 0x0c,
	NVME_KEEP_ALIVE = 0x18,
	NVME_FABRICS = 0x7f,
};

enum nvme_fabrics_type {
	NVME_PROPERTY_SET = 0x00,
	NVME_CONNECT = 0x01,
	NVME_PROPERTY_GET = 0x04,
};

enum nvme_property {
	NVME_CAP = 0x00, /* 8 bytes */
	NVME_VS = 0x08,
	NVME_CC = 0x14,
	NVME_CSTS = 0x1c,
};

enum nvme_cns {
	NVME_CNS_NAMESPACE = 0,
	NVME_CNS_CONTROLLER = 1,
	NVME_CNS_NAMESPACE_LIST = 2,
	NVME_CNS_DESCRIPTORS = 3,
};

/* Offsets in a submission queue entry */
enum nvme_sqe {
	SQE_OPCODE = 0,
	SQE_FLAGS = 1,
	SQE_COMMAND_ID = 2,
	SQE_FABRICS_TYPE = 4,
	SQE_NAMESPACE = 4,
	SQE_DATA = 24, /* keyed SGL data block descriptor */
	SQE_CDW10 = 40,
	SQE_CONNECT_QID = 42,
	SQE_CONNECT_SQSIZE = 44,
	SQE_CONNECT_KATO = 48,
	SQE_PROPERTY_ATTRIB = 40,
	SQE_PROPERTY_OFFSET = 44,
	SQE_PROPERTY_VALUE = 48,
	SQE_SLBA = 40,
	SQE_NLB = 48, /* number of blocks minus 1 */
};

/* Offsets in a keyed SGL data block descriptor */
enum nvme_sgl {
	SGL_ADDR = 0,
	SGL_BYTES = 8, /* 3 bytes */
	SGL_KEY = 11,
	SGL_TYPE = 15,
};

#define NVME_FLAGS_SGL	    0x40
#define NVME_SGL_KEYED	    0x40
#define NVME_SGL_INVALIDATE 0x0f /* subtype: the responder invalidates the key */

/* Offsets in a completion queue entry */
enum nvme_cqe {
	CQE_RESULT = 0,
	CQE_SQ_HEAD = 8,
	CQE_COMMAND_ID = 12,
	CQE_STATUS = 14, /* status code and type, after 1 bit */
};

/* Data of Connect */
#define NVME_CONNECT_BYTES  1024
#define CONNECT_HOST_ID	    0
#define CONNECT_CONTROLLER  16
#define CONNECT_SUBSYSTEM   256
#define CONNECT_HOST	    512
#define NVME_NQN_BYTES	    256 /* with the terminating zero byte */
#define NVME_ANY_CONTROLLER 0xffff
#define NVME_IDENTIFY_BYTES 4096
#define NVME_CC_ENABLE	    0x00460001 /* entries of 64 and 16 bytes */
#define NVME_CC_SHUTDOWN    0x0000c000
#define NVME_PRIVATE_BYTES  32

/*
 * Offsets in the private data of the REQ: record format 0, queue ID, entries of the host's queues
 */
enum nvme_req {
	REQ_QID = 2,
	REQ_HRQSIZE = 4,
	REQ_HSQSIZE = 6, /* minus 1 */
	REQ_CONTROLLER = 8,
};

#endif
