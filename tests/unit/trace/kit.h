/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_TEST_TRACE_KIT_H
#define USRDMA_TEST_TRACE_KIT_H

#include "tools/usrdma/trace/model.h"
#include "tools/usrdma/trace/read.h"
#include "wire/packet.h"

/* Models of captures and of packets that a test makes. */

/* Reads a capture of tests/golden into a model that the caller closes. */
void kit_read_golden(struct model *model, struct trace_read_counts *counts, const char *name);

/* Reads a file in memory; the result of trace_read_stream(). The caller closes the model. */
int kit_read_bytes(struct model *model, struct trace_read_counts *counts, const void *bytes,
		   size_t len);

/* A file of tests/golden. The caller frees it. */
uint8_t *kit_load_golden(const char *name, size_t *len);

/* Two hosts with one QP each: A is 10.0.0.1 with QPN 0x11, B is 10.0.0.2 with QPN 0x22. */
#define KIT_QPN_A 0x11
#define KIT_QPN_B 0x22
#define KIT_MTU	  1024

struct kit {
	struct model *model;
	uint64_t now_ns;
	uint64_t step_ns; /* between two packets; 10 us */
};

void kit_open(struct kit *kit, struct model *model);

/* Adds a packet that A (or B, if from_b) sends; dest_qpn and pkey are set. */
void kit_send(struct kit *kit, bool from_b, struct packet packet);

/* SEND of one packet from A, an ACK of B with this syndrome, and both. */
void kit_send_only(struct kit *kit, uint32_t psn, size_t bytes);
void kit_ack(struct kit *kit, uint32_t psn, uint8_t syndrome);

/* WRITE Only packet from A. */
void kit_write_only(struct kit *kit, uint32_t psn, uint64_t va, uint32_t bytes, bool is_solicited);

/* READ request from A. */
void kit_read_request(struct kit *kit, uint32_t psn, uint64_t va, uint32_t bytes,
		      bool is_solicited);

/* A completion at A. */
void kit_complete(struct kit *kit, uint64_t wr_id, uint32_t status);

/* The text that a function writes to a file; the caller frees it. */
char *kit_diagram(const struct model *model, uint32_t conn_index);

#endif
