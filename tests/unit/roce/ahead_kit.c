/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "ahead_kit.h"

#define READS_OUT 4

int ahead_kit_open(void **state)
{
	static struct peer peer;

	peer_open_reads(&peer, IBV_QPT_RC, IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ,
			READS_OUT);
	*state = &peer;
	return 0;
}

int ahead_kit_close(void **state)
{
	peer_close(*state);
	return 0;
}

void answer(struct peer *peer, uint32_t n, bool takes_ahead)
{
	peer_send(peer,
		  (struct packet){.opcode = OPCODE(RC, ACK),
				  .psn = OWN_PSN(n),
				  .syndrome = ACK_SYNDROME,
				  .msn = n + 1,
				  .takes_ahead = takes_ahead},
		  NULL, 0);
	peer_settle(peer);
}
