/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_WIRE_AETH_H
#define USRDMA_WIRE_AETH_H

#include <stdint.h>

/*
 * The syndrome of an AETH (IBA 1.x §9.7.5.1): bit 7 is 0, bits 6:5 are the kind, bits 4:0 are a
 * credit count, an RNR timer code or a NAK code.
 */
enum aeth_kind {
	AETH_KIND_ACK = 0,
	AETH_KIND_RNR_NAK = 1,
	AETH_KIND_RESERVED = 2, /* also if bit 7 is set */
	AETH_KIND_NAK = 3,
};

enum aeth_nak {
	AETH_NAK_PSN_SEQUENCE = 0,
	AETH_NAK_INVALID_REQUEST = 1,
	AETH_NAK_REMOTE_ACCESS = 2,
	AETH_NAK_REMOTE_OPERATION = 3,
	AETH_NAK_INVALID_RD_REQUEST = 4,
	AETH_NAK_COUNT /* this code up to 31 are reserved */
};

#define AETH_CODES 32

/* The credit code of a responder without end-to-end flow control, for example with an SRQ. */
#define AETH_CREDITS_UNLIMITED 31

static inline enum aeth_kind aeth_kind(uint8_t syndrome)
{
	return syndrome & 0x80 ? AETH_KIND_RESERVED : (enum aeth_kind)(syndrome >> 5);
}

/* The low five bits: a credit code, an RNR timer code or an enum aeth_nak. */
static inline unsigned aeth_code(uint8_t syndrome)
{
	return syndrome & (AETH_CODES - 1);
}

static inline uint8_t aeth_make(enum aeth_kind kind, unsigned code)
{
	return (uint8_t)((unsigned)kind << 5 | (code & (AETH_CODES - 1)));
}

/*
 * The minimum time that a requester waits after an RNR NAK (IBA 1.x §9.7.5.2.8). Code 0 is the
 * longest time.
 */
static inline uint64_t aeth_rnr_wait_ns(unsigned timer_code)
{
	static const uint32_t wait_10us[AETH_CODES] = {
		65536, 1,    2,	   3,	 4,    6,     8,     12,    16,	   24,	  32,
		48,    64,   96,   128,	 192,  256,   384,   512,   768,   1024,  1536,
		2048,  3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152,
	};

	return UINT64_C(10000) * wait_10us[timer_code & (AETH_CODES - 1)];
}

/*
 * The number of messages after the acknowledged one that a credit code permits (IBA 1.x §9.7.7.2);
 * UINT32_MAX for AETH_CREDITS_UNLIMITED.
 */
static inline uint32_t aeth_credits(unsigned credit_code)
{
	static const uint16_t credits[AETH_CREDITS_UNLIMITED] = {
		0,    1,    2,	  3,	4,    6,     8,	    12,	   16,	  24,	32,
		48,   64,   96,	  128,	192,  256,   384,   512,   768,	  1024, 1536,
		2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768,
	};

	credit_code &= AETH_CODES - 1;
	return credit_code == AETH_CREDITS_UNLIMITED ? UINT32_MAX : credits[credit_code];
}

/* The largest code that grants at most `credits`; never AETH_CREDITS_UNLIMITED. */
static inline unsigned aeth_credit_code(uint32_t credits)
{
	unsigned code = AETH_CREDITS_UNLIMITED - 1;

	while (aeth_credits(code) > credits)
		code--;
	return code;
}

static inline const char *aeth_nak_name(unsigned nak_code)
{
	static const char *const names[AETH_NAK_COUNT] = {
		[AETH_NAK_PSN_SEQUENCE] = "psn sequence error",
		[AETH_NAK_INVALID_REQUEST] = "invalid request",
		[AETH_NAK_REMOTE_ACCESS] = "remote access error",
		[AETH_NAK_REMOTE_OPERATION] = "remote operational error",
		[AETH_NAK_INVALID_RD_REQUEST] = "invalid rd request",
	};

	return nak_code < AETH_NAK_COUNT ? names[nak_code] : "reserved";
}

#endif
