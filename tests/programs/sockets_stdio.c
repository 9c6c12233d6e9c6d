/* SPDX-License-Identifier: BSD-2-Clause */

/* Cases of `sockets`: stdio streams over sockets. */

#include "sockets.h"

#include <unistd.h>

/* A socket is not seekable, so fflush() keeps the input that the program has not read (fflush(3)). */
void fflush_keeps_unread_input_of_a_socket(void)
{
	FILE *file = fdopen(dup(client), "r+");
	char line[64];

	MUST(file);
	MUST(write(server, "first\nsecond\n", 13) == 13);
	MUST(fgets(line, sizeof(line), file) && !strcmp(line, "first\n"));
	MUST(!fflush(file));
	MUST(fgets(line, sizeof(line), file) && !strcmp(line, "second\n"));
	MUST(fputs("request\n", file) >= 0 && !fflush(file));
	get("request\n");
	MUST(ftell(file) == -1 && errno == ESPIPE);
	MUST(!fclose(file));
}
