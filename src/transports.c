/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/transport.h"

extern const struct transport local_transport;

const struct transport *const transports[] = {
	&local_transport,
	NULL,
};
