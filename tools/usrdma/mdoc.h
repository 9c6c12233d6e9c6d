/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TOOLS_USRDMA_MDOC_H
#define TOOLS_USRDMA_MDOC_H

#include <stdio.h>

/*
 * Prints a page of the manual as text in lines of `width` characters, for machines without man(1).
 * Renders the macros of mdoc(7) that the pages of this project use; the arguments of others are
 * printed as text.
 */
void mdoc_print(FILE *page, FILE *out, int width);

#endif
