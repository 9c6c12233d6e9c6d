/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_TOOL_TRACE_PCAPNG_FORMAT_H
#define USRDMA_TOOL_TRACE_PCAPNG_FORMAT_H

#include <stdint.h>

/*
 * How usrdma stores its records in a pcapng file. Every record is one custom option (code
 * PCAPNG_OPT_CUSTOM): the number TRACE_OPTION_PEN, struct trace_option, the program's name, the
 * device's name, the event without its zero bytes at the end. All numbers have the byte order of
 * the section.
 *
 * The option of a record that is shown as packets belongs to the Enhanced Packet Block of the first
 * packet. The blocks of further packets of the record have an option without event (event_bytes 0).
 * A reader ignores the packet of a block that has such an option and takes the events. The option
 * of any other record belongs to an Interface Statistics Block, which Wireshark does not show as a
 * packet.
 */
#define PCAPNG_OPT_CUSTOM  2989u       /* binary data; copied by programs that edit the file */
#define TRACE_OPTION_PEN   32473u      /* RFC 5612 §2 */
#define TRACE_OPTION_MAGIC 0x31525455u /* "UTR1" */

struct trace_option {
	uint32_t magic; /* TRACE_OPTION_MAGIC */
	uint32_t pid;
	/* CLOCK_REALTIME: low and high half, because the PEN displaces it by 4 bytes */
	uint32_t time_ns[2];
	uint32_t lost[2]; /* low and high half */
	uint16_t event_bytes;
	uint8_t program_bytes;
	uint8_t device_bytes;
	/* the program's name, the device's name and the event follow without padding */
};

#endif
