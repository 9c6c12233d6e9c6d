/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_TESTS_API_HOST_ADDRESS_H
#define USRDMA_TESTS_API_HOST_ADDRESS_H

#include <sys/socket.h>

/*
 * Wait for up to forty seconds until the daemon has the address as an address of the host, or no
 * longer has it. The kernel notifies the daemon after the change, and no event of the API reports
 * the addresses of a new interface: these functions bind ids until the result is the wanted one.
 * The port of the address has no effect.
 */
void host_wait_address(const struct sockaddr_storage *addr);
void host_wait_no_address(const struct sockaddr_storage *addr);

#endif
