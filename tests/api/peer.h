/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_TESTS_API_PEER_H
#define USRDMA_TESTS_API_PEER_H

#include "fixture.h"

#include <sys/types.h>

/*
 * A queue pair in another process: this test program, executed again, which executes commands that
 * it receives over a socket, one command and one reply at a time. Owned by the test, which ends it
 * with peer_stop.
 */
struct peer {
	pid_t pid;
	int sock;
	uint32_t qpn;
	uint64_t addr; /* address of its buffer of SIDE_BUF_BYTES */
	uint32_t rkey;
};

/* The restrictions on access to the other process's memory. */
enum peer_flavour {
	PEER_PLAIN,
	/*
	 * its own process_vm_readv and process_vm_writev calls fail, as with a container's filter
	 */
	PEER_NO_VM_CALLS,
	PEER_UNDUMPABLE, /* other processes cannot access its memory */
	PEER_FLAVOURS
};

enum peer_op {
	/* value: QPN; access: rights of its QP. A UD queue pair moves to RTS without a peer */
	PEER_CONNECT,
	PEER_RECV, /* offset, length, wr_id */
	/* opcode, send_flags, offset, length, wr_id, value: rkey, remote_addr, operands */
	PEER_SEND,
	PEER_WC,   /* returns the next completion */
	PEER_FILL, /* offset, length, value: seed */
	/* arguments of PEER_FILL; returns 0 if the buffer contains that pattern, or -1 */
	PEER_CHECK,
	PEER_WORD,   /* returns the 8 bytes at offset */
	PEER_ADD,    /* adds value to the 8 bytes at offset, atomically, `length` times */
	PEER_DEREG,  /* deregisters its buffer */
	PEER_UNMAP,  /* unmaps its buffer, which stays registered */
	PEER_HIDE,   /* denies other processes access to its memory from now on */
	PEER_SPIN,   /* replies, then makes no further call */
	PEER_STORM,  /* WRITEs repeatedly: returns the first completion, and the one that failed */
	PEER_STARVE, /* value: true: no free descriptor is left; false: the former limit */
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
	int ret; /* errno of the call, unless the command defines another value */
	uint64_t value;
	struct ibv_wc wc;
};

/*
 * To be called first in main(). Returns true if this process is a peer; it has then finished, with
 * the exit status *status.
 */
bool peer_main(int argc, char **argv, int *status);

void peer_start(struct peer *peer, enum peer_flavour flavour, const struct pair_options *options);
/* Connects the peer with side a of `pair`. */
void peer_connect(struct peer *peer, struct pair *pair);
/*
 * Ends the peer, and asserts that its exit was successful, or that it was killed if the test killed
 * it.
 */
void peer_stop(struct peer *peer);

struct peer_answer peer_do(struct peer *peer, struct peer_command command);
/* Sends a command without waiting for the reply, which peer_answer returns later. */
void peer_tell(struct peer *peer, struct peer_command command);
struct peer_answer peer_answer(struct peer *peer);

/* Frequent commands; each asserts that its call succeeded. */
void peer_recv(struct peer *peer, uint64_t offset, uint32_t length, uint64_t wr_id);
void peer_fill(struct peer *peer, uint64_t offset, uint32_t length, uint8_t seed);
bool peer_holds(struct peer *peer, uint64_t offset, uint32_t length, uint8_t seed);
struct ibv_wc peer_wc(struct peer *peer, uint64_t wr_id, enum ibv_wc_status status);

#endif
