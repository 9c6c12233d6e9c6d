/* SPDX-License-Identifier: BSD-2-Clause */
#include "diagram.h"

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

/* The length of a UTF-8 sequence of printable text at `text`; 0: invalid. */
static int utf8_bytes(const char *text)
{
	const unsigned char *at = (const unsigned char *)text;
	int bytes = at[0] < 0x80 ? 1 : at[0] >= 0xc2 && at[0] < 0xe0 ? 2 : at[0] >> 4 == 14 ? 3 : 0;

	if (bytes == 1)
		return at[0] >= ' ' && at[0] != 0x7f;
	for (int i = 1; i < bytes; i++) {
		if ((at[i] & 0xc0) != 0x80)
			return 0;
	}
	/* C1 controls, overlong forms, surrogates and noncharacters are not XML text. */
	if ((at[0] == 0xc2 && at[1] < 0xa0) || (at[0] == 0xe0 && at[1] < 0xa0) ||
	    (at[0] == 0xed && at[1] >= 0xa0) || (at[0] == 0xef && at[1] == 0xbf))
		return 0;
	return bytes;
}

void xml_text(FILE *out, const char *text)
{
	while (*text) {
		int bytes = utf8_bytes(text);

		if (*text == '<')
			fputs("&lt;", out);
		else if (*text == '>')
			fputs("&gt;", out);
		else if (*text == '&')
			fputs("&amp;", out);
		else if (*text == '"')
			fputs("&quot;", out);
		else if (bytes)
			fwrite(text, 1, (size_t)bytes, out);
		else
			fputc('?', out);
		text += bytes ? bytes : 1;
	}
}
