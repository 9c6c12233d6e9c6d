/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_CM_TAG_H
#define USRDMA_CM_TAG_H

#include <stdbool.h>
#include <stdint.h>

#include "cm/cm.h"
#include "cm/sidr.h"

/*
 * The process that a connection or resolution belongs to, as the consumer describes it. A copy
 * remains with the connection after cm_destroy(), so that its last messages can be assigned to the
 * process, too.
 */
struct cm_tag {
	uint32_t uid;
	int32_t pid; /* 0: not set */
	char program[16];
};

void cm_conn_set_tag(struct cm_conn *conn, const struct cm_tag *tag);
void cm_sidr_set_tag(struct cm_sidr *sidr, const struct cm_tag *tag);

/*
 * The tag of the connection or resolution that a message belongs to. is_received: this CM received
 * the message; otherwise it sends it. NULL: the message belongs to no connection or resolution, or
 * no tag was set.
 */
const struct cm_tag *cm_tag_of(const struct cm *cm, const struct cm_path *path,
			       const struct cm_msg *msg, bool is_received);

#endif
