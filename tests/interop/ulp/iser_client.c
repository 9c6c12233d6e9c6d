/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * iSER (RFC 7145), the initiator: logs in to a target (RFC 7143), sends INQUIRY, writes blocks,
 * reads them, compares them, and logs out.
 *
 *	iser_client ADDRESS PORT TARGET
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ulp.h"

#define SLOT_BYTES     8320 /* headers and 8 KiB */
#define TRANSFER_BYTES (64u << 10)
#define TRANSFERS      8
#define BLOCK_BYTES    512
#define LOGIN_STEPS    8
#define READY_TRIES    4
#define INITIATOR_NAME "InitiatorName=iqn.2026-01.test.usrdma:initiator"

/*
 * The private data of the REQ: neither zero-based addresses nor remote invalidation are supported.
 */
#define PRIVATE_FLAGS 0xc0

/* The iSER header of a control-type PDU, and the basic header segment that follows */
#define ISER_BYTES	28
#define ISER_FLAGS	0
#define ISER_WRITE_STAG 4
#define ISER_WRITE_VA	8
#define ISER_READ_STAG	16
#define ISER_READ_VA	20
#define ISER_CONTROL	0x10
#define ISER_HAS_WRITE	0x08
#define ISER_HAS_READ	0x04
#define BHS_BYTES	48

enum bhs {
	BHS_OPCODE = 0,
	BHS_FLAGS = 1,
	BHS_RESPONSE = 2, /* of a SCSI command and of a logout: 0 is success */
	BHS_SCSI_STATUS = 3,
	BHS_DATA_BYTES = 5, /* 3 bytes */
	BHS_ISID = 8,
	BHS_TAG = 16,
	BHS_EXPECTED_BYTES = 20,
	BHS_COMMAND_NUMBER = 24, /* in a response: of the status */
	BHS_STATUS_NUMBER = 28,
	BHS_CDB = 32,
	BHS_LOGIN_STATUS = 36,
};

enum opcode {
	SCSI_COMMAND = 0x01,
	LOGIN_REQUEST = 0x43, /* immediate */
	LOGOUT_REQUEST = 0x46,
	SCSI_RESPONSE = 0x21,
	LOGIN_RESPONSE = 0x23,
	LOGOUT_RESPONSE = 0x26,
};

/* The operational stage, with a transition to the full feature phase */
#define LOGIN_TRANSIT	  0x80
#define LOGIN_OPERATIONAL 0x07
#define FLAG_FINAL	  0x80
#define FLAG_READ	  0x40
#define FLAG_WRITE	  0x20
#define FLAG_SIMPLE	  0x01

#define SCSI_TEST_UNIT_READY 0x00
#define SCSI_INQUIRY	     0x12
#define SCSI_READ_10	     0x28
#define SCSI_WRITE_10	     0x2a

struct session {
	struct ulp ulp;
	uint32_t tag;
	uint32_t command_number;
	uint32_t status_number; /* the next one */
};

/* Begins a PDU in the send buffer. Returns its basic header segment. */
static uint8_t *begin(struct session *session, enum opcode opcode, uint8_t flags)
{
	uint8_t *bhs = session->ulp.send_buf + ISER_BYTES;

	memset(session->ulp.send_buf, 0, ISER_BYTES + BHS_BYTES);
	session->ulp.send_buf[ISER_FLAGS] = ISER_CONTROL;
	bhs[BHS_OPCODE] = (uint8_t)opcode;
	bhs[BHS_FLAGS] = flags;
	ulp_put_be(bhs + BHS_TAG, session->tag, 4);
	ulp_put_be(bhs + BHS_COMMAND_NUMBER, session->command_number, 4);
	ulp_put_be(bhs + BHS_STATUS_NUMBER, session->status_number, 4);
	return bhs;
}

/*
 * Sends the PDU with data_bytes of data and waits for its response, which contains all bytes of its
 * data segment. Returns the response's basic header segment.
 */
static uint8_t *exchange(struct session *session, size_t data_bytes, enum opcode wanted)
{
	uint8_t *message, *bhs;
	size_t bytes, data_segment_bytes;

	ulp_send(&session->ulp, ISER_BYTES + BHS_BYTES + data_bytes);
	bytes = ulp_receive(&session->ulp, &message);
	ulp_require(bytes >= ISER_BYTES + BHS_BYTES, "a PDU of %zu bytes", bytes);
	bhs = message + ISER_BYTES;
	data_segment_bytes = ulp_get_be(bhs + BHS_DATA_BYTES, 3);
	ulp_require(data_segment_bytes <= bytes - ISER_BYTES - BHS_BYTES,
		    "a data segment of %zu bytes in a PDU of %zu bytes", data_segment_bytes, bytes);
	ulp_require((bhs[BHS_OPCODE] & 0x3f) == wanted, "a PDU with the opcode %#x instead of %#x",
		    bhs[BHS_OPCODE], wanted);
	ulp_require(ulp_get_be(bhs + BHS_TAG, 4) == session->tag, "the response has another tag");
	session->status_number = (uint32_t)ulp_get_be(bhs + BHS_COMMAND_NUMBER, 4) + 1;
	return bhs;
}

static void release(struct session *session, const uint8_t *bhs)
{
	ulp_release(&session->ulp, bhs - ISER_BYTES);
}

/* The keys of the login, each terminated by a zero byte. Returns the number of bytes. */
static size_t put_keys(uint8_t *at, const char *target)
{
	static const char *const keys[] = {INITIATOR_NAME,
					   "SessionType=Normal",
					   "HeaderDigest=None",
					   "DataDigest=None",
					   "RDMAExtensions=Yes",
					   "InitialR2T=Yes",
					   "ImmediateData=No",
					   "MaxBurstLength=262144",
					   "FirstBurstLength=65536",
					   "MaxConnections=1",
					   "MaxOutstandingR2T=1",
					   "ErrorRecoveryLevel=0",
					   "DefaultTime2Wait=2",
					   "DefaultTime2Retain=0",
					   "DataPDUInOrder=Yes",
					   "DataSequenceInOrder=Yes",
					   "InitiatorRecvDataSegmentLength=262144",
					   "TargetRecvDataSegmentLength=8192"};
	char *end = (char *)at;

	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
		end += sprintf(end, "%s", keys[i]) + 1;
	end += sprintf(end, "TargetName=%s", target) + 1;
	return (size_t)(end - (char *)at);
}

/* Prints the keys of the target's response. */
static void print_keys(const uint8_t *bhs)
{
	const char *key = (const char *)bhs + BHS_BYTES;
	const char *end = key + ulp_get_be(bhs + BHS_DATA_BYTES, 3);

	while (key < end) {
		size_t bytes = strnlen(key, (size_t)(end - key));

		ulp_say("target: %.*s", (int)bytes, key);
		key += bytes + 1;
	}
}

static void log_in(struct session *session, const char *target)
{
	for (unsigned int step = 0; step < LOGIN_STEPS; step++) {
		uint8_t *bhs = begin(session, LOGIN_REQUEST, LOGIN_TRANSIT | LOGIN_OPERATIONAL);
		size_t bytes = step ? 0 : put_keys(bhs + BHS_BYTES, target);
		bool is_complete;

		ulp_put_be(bhs + BHS_DATA_BYTES, bytes, 3);
		bhs[BHS_ISID] = 0x80; /* a random ISID */
		bhs[BHS_ISID + 3] = 1;
		bhs = exchange(session, (bytes + 3) & ~(size_t)3, LOGIN_RESPONSE);
		ulp_require(!bhs[BHS_LOGIN_STATUS], "login status: class %u, detail %u",
			    bhs[BHS_LOGIN_STATUS], bhs[BHS_LOGIN_STATUS + 1]);
		print_keys(bhs);
		is_complete = bhs[BHS_FLAGS] & LOGIN_TRANSIT;
		release(session, bhs);
		if (is_complete)
			return;
	}
	ulp_die("the target does not complete the login");
}

/* Sends a SCSI command. The region is NULL, or the memory of the data. Returns the SCSI status. */
static uint8_t execute(struct session *session, const uint8_t *cdb, uint8_t direction,
		       const struct ibv_mr *mr, uint32_t bytes)
{
	uint8_t *bhs, *iser = session->ulp.send_buf;
	uint8_t status;
	bool is_read = direction == FLAG_READ;

	session->tag++;
	bhs = begin(session, SCSI_COMMAND, FLAG_FINAL | FLAG_SIMPLE | direction);
	session->command_number++;
	if (mr) {
		iser[ISER_FLAGS] |= is_read ? ISER_HAS_READ : ISER_HAS_WRITE;
		ulp_put_be(iser + (is_read ? ISER_READ_STAG : ISER_WRITE_STAG), mr->rkey, 4);
		ulp_put_be(iser + (is_read ? ISER_READ_VA : ISER_WRITE_VA), (uintptr_t)mr->addr, 8);
	}
	ulp_put_be(bhs + BHS_EXPECTED_BYTES, bytes, 4);
	memcpy(bhs + BHS_CDB, cdb, 16);
	bhs = exchange(session, 0, SCSI_RESPONSE);
	ulp_require(!bhs[BHS_RESPONSE],
		    "SCSI response code %#x: the target did not complete the command",
		    bhs[BHS_RESPONSE]);
	status = bhs[BHS_SCSI_STATUS];
	release(session, bhs);
	return status;
}

static void inquire(struct session *session, const struct ibv_mr *mr)
{
	const uint8_t inquiry[16] = {SCSI_INQUIRY, 0, 0, 0, 96}, ready[16] = {SCSI_TEST_UNIT_READY};
	unsigned int tries = 0;

	ulp_require(!execute(session, inquiry, FLAG_READ, mr, 96), "INQUIRY failed");
	ulp_say("INQUIRY: %.8s %.16s", (const char *)mr->addr + 8, (const char *)mr->addr + 16);
	/* The first command reports the reset of the unit. */
	while (execute(session, ready, 0, NULL, 0))
		ulp_require(++tries < READY_TRIES, "the unit does not become ready");
}

static void transfer(struct session *session, uint8_t opcode, const struct ibv_mr *mr,
		     unsigned int number)
{
	uint8_t cdb[16] = {opcode};
	uint8_t status;

	ulp_put_be(cdb + 2, number * (TRANSFER_BYTES / BLOCK_BYTES), 4);
	ulp_put_be(cdb + 7, TRANSFER_BYTES / BLOCK_BYTES, 2);
	status = execute(session, cdb, opcode == SCSI_READ_10 ? FLAG_READ : FLAG_WRITE, mr,
			 TRANSFER_BYTES);
	ulp_require(!status, "transfer %u: SCSI status %#x", number, status);
}

static void write_and_compare(struct session *session, const struct ibv_mr *mr)
{
	for (unsigned int i = 0; i < TRANSFERS; i++) {
		ulp_fill(mr->addr, TRANSFER_BYTES, i);
		transfer(session, SCSI_WRITE_10, mr, i);
	}
	for (unsigned int i = 0; i < TRANSFERS; i++) {
		size_t wrong;

		memset(mr->addr, 0, TRANSFER_BYTES);
		transfer(session, SCSI_READ_10, mr, i);
		wrong = ulp_count_wrong(mr->addr, TRANSFER_BYTES, i);
		ulp_require(!wrong, "transfer %u: %zu wrong bytes", i, wrong);
	}
	ulp_say("wrote and read %u transfers of %u bytes: all bytes are right", TRANSFERS,
		TRANSFER_BYTES);
}

static void log_out(struct session *session)
{
	uint8_t *bhs;

	session->tag++;
	begin(session, LOGOUT_REQUEST, FLAG_FINAL);
	bhs = exchange(session, 0, LOGOUT_RESPONSE);
	ulp_require(!bhs[BHS_RESPONSE], "logout response %u", bhs[BHS_RESPONSE]);
	release(session, bhs);
}

int main(int argc, char **argv)
{
	const uint8_t private_data[4] = {PRIVATE_FLAGS};
	struct session session = {.tag = 1, .command_number = 1};
	struct ibv_mr *mr;

	ulp_require(argc == 4, "usage: iser_client ADDRESS PORT TARGET");
	ulp_connect(&session.ulp, argv[1], argv[2], private_data, sizeof(private_data), SLOT_BYTES);
	ulp_say("connected, flags of the target %#x", session.ulp.private_data[0]);
	mr = ulp_region(&session.ulp, TRANSFER_BYTES);
	log_in(&session, argv[3]);
	inquire(&session, mr);
	write_and_compare(&session, mr);
	log_out(&session);
	ulp_disconnect(&session.ulp);
	ulp_say("logged out");
	return 0;
}
