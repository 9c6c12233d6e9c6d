/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_WIRE_MAD_H
#define USRDMA_WIRE_MAD_H

#include <stddef.h>
#include <stdint.h>

#define MAD_BYTES     256
#define MAD_HDR_BYTES 24

#define MAD_BASE_VERSION 1
#define MAD_CLASS_CM	 0x07
#define MAD_METHOD_SEND	 0x03

/* GSI MADs are sent from QP1 to QP1 with this Q_Key in the default partition. */
#define MAD_QPN	 1
#define MAD_QKEY 0x80010000u
#define MAD_PKEY 0xffff

/* The header of every management datagram (IBA 1.x §13.4.2), in host byte order. */
struct mad_hdr {
	uint8_t base_version;
	uint8_t mgmt_class;
	uint8_t class_version;
	uint8_t method;
	uint16_t status;
	uint16_t class_specific;
	uint64_t tid;
	uint16_t attr_id;
	uint32_t attr_mod;
};

/* -EMSGSIZE if len is not MAD_BYTES, -EPROTO for another base version. */
int mad_parse(struct mad_hdr *hdr, const void *mad, size_t len) __attribute__((warn_unused_result));

/* Writes the first MAD_HDR_BYTES of a MAD. */
void mad_build(const struct mad_hdr *hdr, void *mad);

#endif
