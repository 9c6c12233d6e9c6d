/* SPDX-License-Identifier: BSD-2-Clause */
#include "diagram.h"

#include <string.h>

#include "base/printable.h"

uint32_t diagram_choose(const struct model *model, uint32_t qpn)
{
	uint32_t best = MODEL_NONE;
	bool best_has_trouble = false;

	for (uint32_t i = 0; i < model->conn_count; i++) {
		const struct conn *conn = &model->conns[i];
		bool has_trouble = conn_has_trouble(conn);

		if (qpn && (conn->side[0].qpn == qpn || conn->side[1].qpn == qpn))
			return i;
		if (qpn || !conn->item_count)
			continue;
		if (best != MODEL_NONE && (best_has_trouble || !has_trouble) &&
		    (has_trouble != best_has_trouble ||
		     conn->packets <= model->conns[best].packets))
			continue;
		best = i;
		best_has_trouble = has_trouble;
	}
	return best;
}

void xml_text(FILE *out, const char *text)
{
	while (*text) {
		size_t bytes = printable_bytes(text, strnlen(text, 3));

		if (*text == '<')
			fputs("&lt;", out);
		else if (*text == '>')
			fputs("&gt;", out);
		else if (*text == '&')
			fputs("&amp;", out);
		else if (*text == '"')
			fputs("&quot;", out);
		else if (bytes)
			fwrite(text, 1, bytes, out);
		else
			fputc('?', out);
		text += bytes ? bytes : 1;
	}
}
