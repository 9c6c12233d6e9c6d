/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_TOOL_TRACE_DIAGRAM_H
#define USRDMA_TOOL_TRACE_DIAGRAM_H

#include <stdio.h>

#include "model.h"

/* Rows of a diagram; longer traces are shortened. */
#define DIAGRAM_ROWS_MAX 240u

/*
 * The connection that a diagram shows: the first one with this QPN; with qpn 0 the first one with
 * an error, or else that with the most packets. MODEL_NONE: no such connection.
 */
uint32_t diagram_choose(const struct model *model, uint32_t qpn);

/*
 * Writes a sequence diagram of a connection as SVG, without XML declaration if it is part of an
 * HTML page. 0 or -ENOMEM.
 */
int diagram_svg(FILE *out, const struct model *model, uint32_t conn_index, const char *source,
		bool is_inline) __attribute__((warn_unused_result));

/* Writes text with the escapes of XML. Bytes that are not printable UTF-8 become '?'. */
void xml_text(FILE *out, const char *text);

#endif
