/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TOOLS_USRDMA_COLOUR_H
#define TOOLS_USRDMA_COLOUR_H

/*
 * Escape sequences for standard output, if it is a terminal that has colours and the user has not
 * set NO_COLOR (https://no-color.org); otherwise "".
 */
enum colour { COLOUR_NONE, COLOUR_BOLD, COLOUR_GREEN, COLOUR_YELLOW, COLOUR_RED };

const char *colour(enum colour wanted);

#endif
