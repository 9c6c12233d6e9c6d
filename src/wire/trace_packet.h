/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_WIRE_TRACE_PACKET_H
#define USRDMA_WIRE_TRACE_PACKET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "base/trace.h"

/*
 * Trace points of RoCEv2 packets and MADs. Events of packets contain the destination QPN and the
 * PSN.
 */
extern const struct trace_point trace_packet_sent;
extern const struct trace_point trace_packet_received;
extern const struct trace_point trace_mad_sent;
extern const struct trace_point trace_mad_received;

/*
 * Appends a piece of a packet or MAD. Bytes beyond TRACE_PACKET_BYTES are counted in wire_bytes but
 * not captured.
 */
void trace_packet_append(struct trace_packet *packet, const void *bytes, size_t len);
/* The same for pieces of application memory. Bytes that cannot be read are captured as zeros. */
void trace_packet_append_user(struct trace_packet *packet, const struct iovec *pieces, int count);

/* Whether the bytes of a packet are an ACK with a NAK or RNR NAK code. false for other bytes. */
bool trace_packet_is_nak(const uint8_t *bytes, size_t len);

/* Copies the destination QPN and the PSN of the appended packet to the head of the event. */
void trace_packet_fill_head(struct trace_event *event);

#endif
