/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TOOLS_USRDMA_BUG_REPORT_REDACT_H
#define TOOLS_USRDMA_BUG_REPORT_REDACT_H

#include <stdio.h>

/*
 * Names that identify a machine or a person besides addresses. NULL: not known. redact_names()
 * reads those of this process.
 */
struct redact_names {
	const char *host; /* as gethostname(2) returns it */
	const char *home; /* the directory */
};

/* The strings stay valid until the next call. */
void redact_names(struct redact_names *names);

/*
 * Writes an HTML page. Outside of tags and style sheets, these parts of its text are replaced:
 * - an IP address or GID by "address-N", an Ethernet address by "mac-N", a GUID by "guid-N". N is
 *   the same for each occurrence of an address, of which an IPv4 address and its IPv4-mapped GID
 *   are one. The addresses of the loopback interface and the unspecified ones stay.
 * - the name of the host by "[host]", the home directory by "~", the name of another user's home
 *   directory by "[user]".
 * 0 or -ENOMEM.
 */
int redact_page(FILE *out, const char *page, const struct redact_names *names)
	__attribute__((warn_unused_result));

#endif
