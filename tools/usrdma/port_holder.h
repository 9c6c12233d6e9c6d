/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TOOLS_USRDMA_PORT_HOLDER_H
#define TOOLS_USRDMA_PORT_HOLDER_H

#include <stdbool.h>
#include <stddef.h>

#define ROCE_PORT 4791

/*
 * Describes the program that has a socket on the UDP port of RoCEv2, as far as this user may see
 * it: "NAME, pid PID", or "a process of another user, or the kernel". false: no socket has the
 * port.
 */
bool port_holder_describe(char *text, size_t size);

#endif
