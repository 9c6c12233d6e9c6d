/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_TESTS_ULP_H
#define USRDMA_TESTS_ULP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <rdma/rdma_cma.h>

/*
 * Connections and messages for programs that use the protocols of the kernel's RDMA services. If a
 * call fails that must succeed, each function prints a line on standard output and ends the process
 * with status 1.
 *
 * A message is received into one of ULP_DEPTH slots of slot_bytes each. Used by one thread only.
 */
#define ULP_DEPTH	  32
#define ULP_PRIVATE_BYTES 56
#define ULP_REGIONS	  8

struct ulp {
	struct rdma_event_channel *channel;
	struct rdma_cm_id *id;
	struct ibv_cq *cq;
	size_t slot_bytes;
	uint8_t *recv_buf; /* ULP_DEPTH slots */
	uint8_t *send_buf; /* one slot */
	struct ibv_mr *recv_mr;
	struct ibv_mr *send_mr;
	struct ibv_mr *regions[ULP_REGIONS];
	unsigned int region_count;
	bool send_is_outstanding;
	/* The private data of the peer's REP. */
	uint8_t private_data[ULP_PRIVATE_BYTES];
	/* Of the last received message. */
	bool is_invalidated;
	uint32_t invalidated_rkey;
};

void ulp_say(const char *format, ...) __attribute__((format(printf, 1, 2)));
void ulp_die(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));
/* Ends the process if the condition is false. */
#define ulp_require(condition, ...)           \
	do {                                  \
		if (!(condition))             \
			ulp_die(__VA_ARGS__); \
	} while (0)

/* Connects, with receives posted in all slots. */
void ulp_connect(struct ulp *ulp, const char *addr, const char *port, const void *private_data,
		 uint8_t private_bytes, size_t slot_bytes);
void ulp_disconnect(struct ulp *ulp);
/*
 * The parts that the passive side uses too: creates the queue pair of ulp->id, with receives posted
 * in all slots; releases everything but the event channel after the connection has ended. The
 * completion channel may be NULL.
 */
void ulp_make_queues(struct ulp *ulp, struct ibv_comp_channel *completions, size_t slot_bytes);
void ulp_free(struct ulp *ulp, struct ibv_comp_channel *completions);

/* Allocates and registers zeroed memory. It is freed by ulp_disconnect(). */
struct ibv_mr *ulp_region(struct ulp *ulp, size_t bytes);
/* Sends the first bytes of send_buf. */
void ulp_send(struct ulp *ulp, size_t bytes);
/* Waits for the completion of ulp_send(), if no reply is expected. */
void ulp_wait_sent(struct ulp *ulp);
/* Waits for a message. The slot is valid until ulp_release(). Returns the number of bytes. */
size_t ulp_receive(struct ulp *ulp, uint8_t **message);
void ulp_release(struct ulp *ulp, const uint8_t *message);

/* Allocates a type 2 memory window. */
struct ibv_mw *ulp_window(struct ulp *ulp);
/* Binds the window to the whole region and waits for the completion. */
void ulp_bind(struct ulp *ulp, struct ibv_mw *mw, struct ibv_mr *mr);

/* A pattern that depends on the seed and on the position. */
void ulp_fill(uint8_t *at, size_t bytes, uint32_t seed);
/* Returns the number of bytes that differ from the pattern. */
size_t ulp_count_wrong(const uint8_t *at, size_t bytes, uint32_t seed);

/* Integers at any alignment. */
void ulp_put_le(void *at, uint64_t value, unsigned int bytes);
uint64_t ulp_get_le(const void *at, unsigned int bytes);
void ulp_put_be(void *at, uint64_t value, unsigned int bytes);
uint64_t ulp_get_be(const void *at, unsigned int bytes);

#endif
