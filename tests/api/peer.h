/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_TESTS_API_PEER_H
#define USRDMA_TESTS_API_PEER_H

#include "fixture.h"

#include <sys/types.h>

/*
 * A queue pair in another process: this test program, executed again, which does what it is told over a socket, one
 * command and one answer at a time. Owned by the test, which ends it with peer_stop.
 */
struct peer {
	pid_t pid;
	int sock;
	uint32_t qpn;
	uint64_t addr; /* of its buffer of SIDE_BUF_BYTES */
	uint32_t rkey;
};

/* What keeps processes out of one another's memory. */
enum peer_flavour {
	PEER_PLAIN,
	PEER_NO_VM_CALLS, /* its own process_vm_readv and process_vm_writev are refused, as by a container's filter */
	PEER_UNDUMPABLE, /* others may not look into it */
	PEER_FLAVOURS
};

enum peer_op {
	PEER_CONNECT, /* value: QPN; access: of its QP */
	PEER_RECV,    /* offset, length, wr_id */
	PEER_SEND, /* opcode, send_flags, offset, length, wr_id, value: rkey, remote_addr, operands */
	PEER_WC,   /* answers the next completion */
	PEER_FILL,  /* offset, length, value: seed */
	PEER_CHECK, /* the same; answers whether it is there: 0, or -1 */
	PEER_WORD,  /* answers the 8 bytes at offset */
	PEER_ADD,   /* adds value to them, atomically, `length` times one after the other */
	PEER_DEREG, /* its buffer */
	PEER_UNMAP, /* its buffer, still registered */
	PEER_HIDE,  /* from here on others may not look into it */
	PEER_SPIN,  /* answers, then never makes another call */
	PEER_STORM, /* WRITEs again and again: answers the first completion, and the one that failed */
	PEER_OPS
};

struct peer_command {
	enum peer_op op;
	uint32_t opcode;
	uint32_t send_flags;
	unsigned int access;
	uint64_t offset;
	uint32_t length;
	uint64_t wr_id;
	uint64_t value;
	uint64_t remote_addr;
	uint64_t compare_add;
	uint64_t swap;
};

struct peer_answer {
	int ret; /* errno of the call, or as the command says */
	uint64_t value;
	struct ibv_wc wc;
};

/* First thing in main(): true if this process is a peer, whose work is then done and whose exit status is *status. */
bool peer_main(int argc, char **argv, int *status);

void peer_start(struct peer *peer, enum peer_flavour flavour, const struct pair_options *options);
/* Connects it and `pair`'s side a, whose peer it then is. */
void peer_connect(struct peer *peer, struct pair *pair);
/* Tells it to end, and asserts that it does so well, or that it was killed, if it was. */
void peer_stop(struct peer *peer);

struct peer_answer peer_do(struct peer *peer, struct peer_command command);
/* Without waiting for the answer; peer_answer gets it later. */
void peer_tell(struct peer *peer, struct peer_command command);
struct peer_answer peer_answer(struct peer *peer);

/* The commands that tests give often; each asserts that the call worked. */
void peer_recv(struct peer *peer, uint64_t offset, uint32_t length, uint64_t wr_id);
void peer_fill(struct peer *peer, uint64_t offset, uint32_t length, uint8_t seed);
bool peer_holds(struct peer *peer, uint64_t offset, uint32_t length, uint8_t seed);
struct ibv_wc peer_wc(struct peer *peer, uint64_t wr_id, enum ibv_wc_status status);

#endif
