/* SPDX-License-Identifier: BSD-2-Clause */
#include "wire/mad.h"

#include <errno.h>

#include "base/be.h"

int mad_parse(struct mad_hdr *hdr, const void *mad, size_t len)
{
	const uint8_t *b = mad;

	if (len != MAD_BYTES)
		return -EMSGSIZE;
	if (b[0] != MAD_BASE_VERSION)
		return -EPROTO;
	hdr->base_version = b[0];
	hdr->mgmt_class = b[1];
	hdr->class_version = b[2];
	hdr->method = b[3];
	hdr->status = be_load16(b + 4);
	hdr->class_specific = be_load16(b + 6);
	hdr->tid = be_load64(b + 8);
	hdr->attr_id = be_load16(b + 16);
	hdr->attr_mod = be_load32(b + 20);
	return 0;
}

void mad_build(const struct mad_hdr *hdr, void *mad)
{
	uint8_t *b = mad;

	b[0] = hdr->base_version;
	b[1] = hdr->mgmt_class;
	b[2] = hdr->class_version;
	b[3] = hdr->method;
	be_store16(b + 4, hdr->status);
	be_store16(b + 6, hdr->class_specific);
	be_store64(b + 8, hdr->tid);
	be_store16(b + 16, hdr->attr_id);
	be_store16(b + 18, 0);
	be_store32(b + 20, hdr->attr_mod);
}
