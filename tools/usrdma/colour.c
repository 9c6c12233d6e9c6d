/* SPDX-License-Identifier: BSD-2-Clause */
#include "colour.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool wants_colours(void)
{
	const char *no_colour = getenv("NO_COLOR"), *terminal = getenv("TERM");

	return isatty(STDOUT_FILENO) && !(no_colour && *no_colour) && terminal &&
	       strcmp(terminal, "dumb") != 0;
}

const char *colour(enum colour wanted)
{
	static const char *const sequences[] = {
		[COLOUR_NONE] = "\033[0m",   [COLOUR_BOLD] = "\033[1m",
		[COLOUR_GREEN] = "\033[32m", [COLOUR_YELLOW] = "\033[33m",
		[COLOUR_RED] = "\033[1;31m",
	};

	return wants_colours() ? sequences[wanted] : "";
}
