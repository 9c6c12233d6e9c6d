/* SPDX-License-Identifier: BSD-2-Clause */
#include "redact.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <pwd.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define GUID_DIGITS 16
#define MAC_TEXT    17 /* six bytes of two digits, with separators */
#define GUID_TEXT   19 /* four words of four digits, with separators */

enum redact_kind { REDACT_ADDRESS, REDACT_MAC, REDACT_GUID, REDACT_KINDS };

struct redact_key {
	enum redact_kind kind;
	unsigned int number;
	uint8_t bytes[16];
};

struct redactor {
	FILE *out;
	const struct redact_names *names;
	struct redact_key *keys; /* of the addresses so far */
	size_t count;
	unsigned int numbers[REDACT_KINDS];
};

void redact_names(struct redact_names *names)
{
	static char host[HOST_NAME_MAX + 1];
	const struct passwd *user;

	names->home = getenv("HOME");
	if (!names->home || !*names->home) {
		user = getpwuid(geteuid());
		names->home = user ? user->pw_dir : NULL;
	}
	names->host = gethostname(host, sizeof(host)) == 0 && host[0] ? host : NULL;
}

/* Writes the name of an address. 0 or -ENOMEM. */
static int put_key(struct redactor *to, enum redact_kind kind, const uint8_t bytes[16])
{
	static const char *const kinds[] = {
		[REDACT_ADDRESS] = "address", [REDACT_MAC] = "mac", [REDACT_GUID] = "guid"};
	struct redact_key *more;

	for (size_t i = 0; i < to->count; i++) {
		if (to->keys[i].kind == kind && memcmp(to->keys[i].bytes, bytes, 16) == 0) {
			fprintf(to->out, "%s-%u", kinds[kind], to->keys[i].number);
			return 0;
		}
	}
	more = realloc(to->keys, (to->count + 1) * sizeof(*more));
	if (!more)
		return -ENOMEM;
	to->keys = more;
	more[to->count] = (struct redact_key){.kind = kind, .number = ++to->numbers[kind]};
	memcpy(more[to->count].bytes, bytes, 16);
	fprintf(to->out, "%s-%u", kinds[kind], more[to->count].number);
	to->count++;
	return 0;
}

/* Whether the address is the same on all hosts. */
static bool is_public(const struct in6_addr *address)
{
	const uint8_t *bytes = address->s6_addr;

	if (IN6_IS_ADDR_V4MAPPED(address))
		return bytes[12] == 127 || (!bytes[12] && !bytes[13] && !bytes[14] && !bytes[15]);
	return IN6_IS_ADDR_LOOPBACK(address) || IN6_IS_ADDR_UNSPECIFIED(address);
}

/* Reads an IPv4 or IPv6 address, the first one as IPv4-mapped. */
static bool parse_ip(const char *text, size_t len, struct in6_addr *address)
{
	char copy[INET6_ADDRSTRLEN + 8] = "::ffff:";
	struct in_addr v4;

	if (len >= INET6_ADDRSTRLEN)
		return false;
	memcpy(copy + 7, text, len);
	copy[7 + len] = '\0';
	if (inet_pton(AF_INET6, copy + 7, address) == 1)
		return true;
	return inet_pton(AF_INET, copy + 7, &v4) == 1 && inet_pton(AF_INET6, copy, address) == 1;
}

/* Whether the text has groups of `digits` hexadecimal digits with colons between them. */
static bool parse_groups(const char *text, size_t len, size_t digits, uint8_t bytes[16])
{
	char pair[3] = "";
	size_t count = 0;

	for (size_t i = 0; i < len;) {
		if (i % (digits + 1) == digits) {
			if (text[i++] != ':')
				return false;
			continue;
		}
		if (i + 1 >= len || !isxdigit((unsigned char)text[i]) ||
		    !isxdigit((unsigned char)text[i + 1]))
			return false;
		pair[0] = text[i];
		pair[1] = text[i + 1];
		bytes[count++] = (uint8_t)strtoul(pair, NULL, 16);
		i += 2;
	}
	return true;
}

/*
 * The kind of a whole run of digits, dots and colons. REDACT_KINDS: no address. The bytes are those
 * of the key; *stays: an address that is not replaced.
 */
static enum redact_kind kind_of(const char *text, size_t len, uint8_t bytes[16], bool *stays)
{
	struct in6_addr address;

	memset(bytes, 0, 16);
	*stays = false;
	if (len == MAC_TEXT && parse_groups(text, len, 2, bytes))
		return REDACT_MAC;
	memset(bytes, 0, 16);
	if (len == GUID_TEXT && parse_groups(text, len, 4, bytes))
		return REDACT_GUID;
	memset(bytes, 0, 16);
	if (len == GUID_DIGITS && parse_groups(text, len, GUID_DIGITS, bytes))
		return REDACT_GUID;
	if (!parse_ip(text, len, &address))
		return REDACT_KINDS;
	memcpy(bytes, &address, 16);
	*stays = is_public(&address);
	return REDACT_ADDRESS;
}

/*
 * Writes a run of digits, dots and colons, with an address in it replaced: the run itself, or what
 * stands before a port number or before the end of a sentence. 0 or -ENOMEM.
 */
static int put_run(struct redactor *to, const char *run, size_t len)
{
	size_t used = len;
	enum redact_kind kind;
	uint8_t bytes[16];
	bool stays;
	int error = 0;

	kind = kind_of(run, used, bytes, &stays);
	while (kind == REDACT_KINDS && used && strchr(".:", run[used - 1]))
		kind = kind_of(run, --used, bytes, &stays);
	if (kind == REDACT_KINDS) {
		const char *port = memchr(run, ':', len);

		used = port ? (size_t)(port - run) : len;
		kind = kind_of(run, used, bytes, &stays);
	}
	if (kind == REDACT_KINDS || stays)
		used = 0;
	else
		error = put_key(to, kind, bytes);
	fwrite(run + used, 1, len - used, to->out);
	return error;
}

static bool is_word(char c)
{
	return isalnum((unsigned char)c) || c == '_' || c == '&' || c == '#';
}

/* The length of `name` if the text continues with it as a whole word, otherwise 0. */
static size_t word_at(const char *at, const char *name)
{
	size_t len = name ? strlen(name) : 0;

	return len && strncasecmp(at, name, len) == 0 && !is_word(at[len]) && at[len] != '-' ? len :
											       0;
}

/* Writes a name in place of one that identifies the machine or a person. Returns what it is for. */
static size_t put_name(struct redactor *to, const char *at)
{
	static const char homes[] = "/home/";
	const char *home = to->names->home;
	char label[HOST_NAME_MAX + 1] = "";
	size_t len = home && strlen(home) > 1 ? word_at(at, home) : 0;

	if (len) {
		fputc('~', to->out);
		return len;
	}
	if (strncmp(at, homes, strlen(homes)) == 0) {
		fprintf(to->out, "%s[user]", homes);
		return strlen(homes) + strcspn(at + strlen(homes), "/ :;,'<&\n");
	}
	if (to->names->host && strcmp(to->names->host, "localhost") != 0) {
		snprintf(label, sizeof(label), "%.*s", (int)strcspn(to->names->host, "."),
			 to->names->host);
		len = word_at(at, to->names->host);
		if (!len)
			len = word_at(at, label);
	}
	if (len)
		fputs("[host]", to->out);
	return len;
}

/* Writes the next part of a text outside of tags, and stores its length. 0 or -ENOMEM. */
static int put_part(struct redactor *to, const char *at, bool is_start, size_t *len)
{
	size_t run = is_start ? strspn(at, "0123456789abcdefABCDEF.:") : 0;

	*len = is_start ? put_name(to, at) : 0;
	if (*len)
		return 0;
	if (run > 1) {
		*len = run;
		return put_run(to, at, run);
	}
	fputc(*at, to->out);
	*len = 1;
	return 0;
}

int redact_page(FILE *out, const char *page, const struct redact_names *names)
{
	static const char style[] = "<style>", style_end[] = "</style>";
	struct redactor to = {.out = out, .names = names};
	char before = ' ';
	size_t len;
	int error = 0;

	while (*page && !error) {
		if (*page == '<') {
			bool is_style = strncmp(page, style, strlen(style)) == 0;
			const char *end = strstr(page, is_style ? style_end : ">");

			len = end ? (size_t)(end - page) + (is_style ? strlen(style_end) : 1) :
				    strlen(page);
			fwrite(page, 1, len, out);
		} else {
			error = put_part(&to, page, !is_word(before), &len);
		}
		before = page[0] == '<' ? ' ' : page[len - 1];
		page += len;
	}
	free(to.keys);
	return error;
}
