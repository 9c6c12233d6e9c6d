/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_ARENA_PAGES_H
#define USRDMA_ARENA_PAGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/list.h"

/*
 * An allocator of page numbers. It divides [0, top) into spans, without gaps: each page belongs to
 * one span. It never accesses the pages, and its own memory comes from mmap(), because it works
 * inside of malloc functions. The caller serialises all calls.
 *
 * A table has an entry for each page; the entries of the first and the last page of a span refer to
 * the span, all others are NULL. Free spans of one state are merged when they become adjacent
 * (boundary tags, Knuth, The Art of Computer Programming, volume 1, §2.5). They are in lists by
 * size, four for each power of two (segregated fit).
 */

enum span_state {
	SPAN_USED,
	SPAN_DIRTY,    /* free, the file is mapped there and may store data */
	SPAN_CLEAN,    /* free, the file is mapped there and stores nothing */
	SPAN_UNMAPPED, /* free, the address range has no mapping and the file stores nothing */
	SPAN_STATES,
};

struct span {
	struct list_head bin; /* of a free span: the list of its size */
	uint64_t first;
	uint64_t count;
	enum span_state state;
	bool is_private;  /* a copy that fork() made; not the file */
	bool is_changed;  /* the program has changed protection or attributes of a part */
	bool is_foreign;  /* used by a mapping that is not the arena's */
	bool is_replaced; /* the program has replaced the mapping of a part */
};

#define PAGES_BINS 160

struct pages {
	struct span ***leaves; /* the table, in two levels */
	uint64_t limit;	       /* the maximum of `top` */
	uint64_t top;
	uint64_t count[SPAN_STATES]; /* the number of pages in each state */
	struct list_head bins[SPAN_STATES][PAGES_BINS];
	struct span *spare;    /* unused structs, linked by bin.next */
	struct list_head kept; /* of pages_keep(), linked by bin */
	char *fresh;	       /* memory for further structs */
	size_t fresh_bytes;
};

/* Prepares for up to `limit` pages. 0, -ENOMEM. */
int pages_init(struct pages *pages, uint64_t limit) __attribute__((warn_unused_result));

/* Frees the memory of the structs. For tests; the library keeps its memory. */
void pages_fini(struct pages *pages);

/*
 * Allocates `count` pages, at a multiple of `align` (a power of two). Free spans are used in the
 * order of the states. Returns a span in state SPAN_USED and stores the state that the pages had;
 * NULL: no memory or no pages.
 */
struct span *pages_alloc(struct pages *pages, uint64_t count, uint64_t align,
			 enum span_state *before);

/* Frees a span, or gives a free span another state. Returns the span after merging. */
struct span *pages_free(struct pages *pages, struct span *span, enum span_state state);

/* Makes a free span a used span, without a change of its pages. */
void pages_use(struct pages *pages, struct span *span);

/* Divides a used span. Returns the second part, or NULL: no memory. */
struct span *pages_split(struct pages *pages, struct span *span, uint64_t count);

/* Returns the span of this page, or NULL. */
struct span *pages_find(const struct pages *pages, uint64_t page);

/* Returns the span that begins with this page, or NULL. */
struct span *pages_at(const struct pages *pages, uint64_t page);

/*
 * Notes that the file is used for these pages, whichever blocks they belong to, until
 * pages_unkeep(). NULL: no memory. Ranges may overlap.
 */
struct span *pages_keep(struct pages *pages, uint64_t first, uint64_t count);
void pages_unkeep(struct pages *pages, struct span *kept);
/*
 * Ends the notes of the parent, in the child of a fork(). pages_unkeep() of each of them is still
 * valid.
 */
void pages_forget_kept(struct pages *pages);
/* Whether the file is used for a page of the span. Reads all notes. */
bool pages_are_kept(const struct pages *pages, const struct span *span);

/*
 * Returns the largest free span of this state, or NULL. The size of the result is within a quarter
 * of the largest.
 */
struct span *pages_largest(struct pages *pages, enum span_state state);

#endif
