/* SPDX-License-Identifier: BSD-2-Clause */
#include "arena/pages.h"

#include <errno.h>
#include <string.h>

#include "arena/calls.h"

#define LEAF_PAGES    512u
#define LEAF_BYTES    (LEAF_PAGES * sizeof(struct span *))
#define STRUCTS_BYTES (64u * 1024)

/* Spans of one list that are examined; larger lists have only spans that fit. */
#define FIRST_FIT_MAX 64

static void *pages_memory(size_t bytes)
{
	void *memory = call_mmap(NULL, bytes, PROT_READ | PROT_WRITE,
				 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	return memory == MAP_FAILED ? NULL : memory;
}

static size_t pages_table_bytes(uint64_t limit)
{
	return (limit / LEAF_PAGES + 1) * sizeof(struct span **);
}

int pages_init(struct pages *pages, uint64_t limit)
{
	memset(pages, 0, sizeof(*pages));
	for (int state = 0; state < SPAN_STATES; state++)
		for (int i = 0; i < PAGES_BINS; i++)
			list_init(&pages->bins[state][i]);
	list_init(&pages->kept);
	pages->limit = limit;
	pages->leaves = pages_memory(pages_table_bytes(limit));
	return pages->leaves ? 0 : -ENOMEM;
}

void pages_fini(struct pages *pages)
{
	char *structs = pages->fresh ? pages->fresh + pages->fresh_bytes - STRUCTS_BYTES : NULL;

	for (uint64_t i = 0; i < pages->limit / LEAF_PAGES + 1; i++)
		if (pages->leaves[i])
			call_munmap(pages->leaves[i], LEAF_BYTES);
	call_munmap(pages->leaves, pages_table_bytes(pages->limit));
	/* The last pointer of each block refers to the block before. */
	while (structs) {
		char *earlier;

		memcpy(&earlier, structs + STRUCTS_BYTES - sizeof(earlier), sizeof(earlier));
		call_munmap(structs, STRUCTS_BYTES);
		structs = earlier;
	}
}

/* Four lists for each power of two; a larger span is in the same or in a later list. */
static unsigned int bin_of(uint64_t count)
{
	unsigned int log = 63u - (unsigned int)__builtin_clzll(count);
	unsigned int quarter = log < 2 ? 0 : (unsigned int)(count >> (log - 2)) & 3u;
	unsigned int bin = log * 4 + quarter;

	return bin < PAGES_BINS ? bin : PAGES_BINS - 1;
}

static struct span *table_get(const struct pages *pages, uint64_t page)
{
	struct span **leaf = page < pages->top ? pages->leaves[page / LEAF_PAGES] : NULL;

	return leaf ? leaf[page % LEAF_PAGES] : NULL;
}

static bool table_has(struct pages *pages, uint64_t page)
{
	struct span ***leaf = &pages->leaves[page / LEAF_PAGES];

	if (!*leaf)
		*leaf = pages_memory(LEAF_BYTES);
	return *leaf;
}

/* The leaf exists: it was made before the page became the end of a span. */
static void table_set(struct pages *pages, uint64_t page, struct span *span)
{
	pages->leaves[page / LEAF_PAGES][page % LEAF_PAGES] = span;
}

static uint64_t span_last(const struct span *span)
{
	return span->first + span->count - 1;
}

static void span_enter(struct pages *pages, struct span *span)
{
	table_set(pages, span->first, span);
	table_set(pages, span_last(span), span);
	pages->count[span->state] += span->count;
	if (span->state != SPAN_USED)
		list_add(&span->bin, &pages->bins[span->state][bin_of(span->count)]);
}

static void span_leave(struct pages *pages, struct span *span)
{
	table_set(pages, span->first, NULL);
	table_set(pages, span_last(span), NULL);
	pages->count[span->state] -= span->count;
	if (span->state != SPAN_USED)
		list_del(&span->bin);
}

static bool structs_add(struct pages *pages)
{
	char *memory = pages_memory(STRUCTS_BYTES);
	char *earlier = pages->fresh ? pages->fresh + pages->fresh_bytes - STRUCTS_BYTES : NULL;

	if (!memory)
		return false;
	memcpy(memory + STRUCTS_BYTES - sizeof(earlier), &earlier, sizeof(earlier));
	pages->fresh = memory;
	pages->fresh_bytes = STRUCTS_BYTES;
	return true;
}

static struct span *span_new(struct pages *pages)
{
	struct span *span = pages->spare;

	if (span) {
		struct list_head *next = span->bin.next;

		pages->spare = next ? container_of(next, struct span, bin) : NULL;
	} else {
		if (pages->fresh_bytes < sizeof(*span) + sizeof(char *) && !structs_add(pages))
			return NULL;
		span = (struct span *)(void *)pages->fresh;
		pages->fresh += sizeof(*span);
		pages->fresh_bytes -= sizeof(*span);
	}
	memset(span, 0, sizeof(*span));
	list_init(&span->bin);
	return span;
}

static void span_delete(struct pages *pages, struct span *span)
{
	span->bin.next = pages->spare ? &pages->spare->bin : NULL;
	pages->spare = span;
}

/*
 * Divides [first, first + count) into up to three spans; the middle one is `span` itself. The parts
 * have the state of the span. The table has all leaves, so that the function fails only if it has
 * no struct.
 */
static bool span_cut(struct pages *pages, struct span *span, uint64_t first, uint64_t count)
{
	struct span *head = NULL, *tail = NULL;
	const struct span whole = *span;

	if (!table_has(pages, first) || !table_has(pages, first + count - 1))
		return false;
	if (first > whole.first && (!table_has(pages, first - 1) || !(head = span_new(pages))))
		return false;
	if (span_last(&whole) >= first + count &&
	    (!table_has(pages, first + count) || !(tail = span_new(pages)))) {
		if (head)
			span_delete(pages, head);
		return false;
	}
	span_leave(pages, span);
	span->first = first;
	span->count = count;
	if (head) {
		*head = whole;
		head->count = first - whole.first;
		span_enter(pages, head);
	}
	if (tail) {
		*tail = whole;
		tail->first = first + count;
		tail->count = span_last(&whole) + 1 - tail->first;
		span_enter(pages, tail);
	}
	span_enter(pages, span);
	return true;
}

static uint64_t align_up(uint64_t page, uint64_t align)
{
	return (page + align - 1) & ~(align - 1);
}

static bool span_fits(const struct span *span, uint64_t count, uint64_t align)
{
	uint64_t first = align_up(span->first, align);

	return first - span->first < span->count && span->count - (first - span->first) >= count;
}

/* The first span that fits, from the list of the size upward. */
static struct span *bins_search(struct pages *pages, enum span_state state, uint64_t count,
				uint64_t align)
{
	for (unsigned int bin = bin_of(count); bin < PAGES_BINS; bin++) {
		struct list_head *head = &pages->bins[state][bin];
		struct list_head *node = head->next;

		for (int tries = 0; node != head && tries < FIRST_FIT_MAX; tries++) {
			struct span *span = container_of(node, struct span, bin);

			if (span_fits(span, count, align))
				return span;
			node = node->next;
		}
	}
	return NULL;
}

/* Moves `top` upward. The pages become an unmapped span. */
static struct span *top_extend(struct pages *pages, uint64_t count, uint64_t align)
{
	uint64_t first = pages->top;
	uint64_t end = align_up(first, align) + count;
	struct span *span;

	if (end > pages->limit || end < count)
		return NULL;
	if (!table_has(pages, first) || !table_has(pages, end - 1) || !(span = span_new(pages)))
		return NULL;
	pages->top = end;
	span->first = first;
	span->count = end - first;
	span->state = SPAN_USED;
	span_enter(pages, span);
	return pages_free(pages, span, SPAN_UNMAPPED);
}

void pages_use(struct pages *pages, struct span *span)
{
	span_leave(pages, span);
	span->state = SPAN_USED;
	span_enter(pages, span);
}

struct span *pages_alloc(struct pages *pages, uint64_t count, uint64_t align,
			 enum span_state *before)
{
	struct span *span = NULL;

	for (int state = SPAN_DIRTY; !span && state < SPAN_STATES; state++)
		span = bins_search(pages, (enum span_state)state, count, align);
	if (!span)
		span = top_extend(pages, count, align);
	if (!span || !span_cut(pages, span, align_up(span->first, align), count))
		return NULL;
	*before = span->state;
	pages_use(pages, span);
	return span;
}

/* Merges `with` into span, if `with` is free and in the same state. */
static void span_merge(struct pages *pages, struct span *span, struct span *with)
{
	if (!with || with->state != span->state)
		return;
	span_leave(pages, with);
	span_leave(pages, span);
	if (with->first < span->first)
		span->first = with->first;
	span->count += with->count;
	span_enter(pages, span);
	span_delete(pages, with);
}

struct span *pages_free(struct pages *pages, struct span *span, enum span_state state)
{
	span_leave(pages, span);
	span->state = state;
	span->is_private = false;
	span->is_changed = false;
	span->is_replaced = false;
	span_enter(pages, span);
	if (span->first)
		span_merge(pages, span, table_get(pages, span->first - 1));
	span_merge(pages, span, table_get(pages, span_last(span) + 1));
	return span;
}

struct span *pages_split(struct pages *pages, struct span *span, uint64_t count)
{
	if (!span_cut(pages, span, span->first, count))
		return NULL;
	return table_get(pages, span->first + count);
}

struct span *pages_at(const struct pages *pages, uint64_t page)
{
	struct span *span = table_get(pages, page);

	return span && span->first == page ? span : NULL;
}

struct span *pages_find(const struct pages *pages, uint64_t page)
{
	if (page >= pages->top)
		return NULL;
	for (;;) {
		struct span **leaf = pages->leaves[page / LEAF_PAGES];

		if (leaf && leaf[page % LEAF_PAGES])
			return leaf[page % LEAF_PAGES];
		if (!leaf)
			page -= page % LEAF_PAGES;
		if (!page)
			return NULL;
		page--;
	}
}

struct span *pages_keep(struct pages *pages, uint64_t first, uint64_t count)
{
	struct span *kept = span_new(pages);

	if (!kept)
		return NULL;
	kept->first = first;
	kept->count = count;
	list_add(&kept->bin, &pages->kept);
	return kept;
}

void pages_unkeep(struct pages *pages, struct span *kept)
{
	list_del(&kept->bin);
	span_delete(pages, kept);
}

void pages_forget_kept(struct pages *pages)
{
	while (!list_is_empty(&pages->kept))
		list_del(pages->kept.next);
}

bool pages_are_kept(const struct pages *pages, const struct span *span)
{
	const struct span *kept;

	list_for_each_entry(kept, &pages->kept, bin) {
		if (kept->first <= span_last(span) && span->first <= span_last(kept))
			return true;
	}
	return false;
}

struct span *pages_largest(struct pages *pages, enum span_state state)
{
	for (unsigned int bin = PAGES_BINS; bin-- > 0;) {
		struct list_head *head = &pages->bins[state][bin];

		if (!list_is_empty(head))
			return container_of(head->next, struct span, bin);
	}
	return NULL;
}
