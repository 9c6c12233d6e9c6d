/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_TOOL_TRACE_SVG_STYLE_H
#define USRDMA_TOOL_TRACE_SVG_STYLE_H

#include "steps.h"

/* The look of the diagram: colours in light and dark, and texts of the heading. */
extern const char svg_style_sheet[];

/* The class of a step's colour in the style sheet. */
const char *svg_class(enum step_style style);

/* Writes the errors of a connection in one line; false: it has none. */
bool svg_trouble(const struct conn *conn, char *out, size_t out_bytes);

#endif
