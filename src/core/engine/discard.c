/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/engine/discard.h"

#include <stdlib.h>
#include <sys/mman.h>

#include "core/engine/engine.h"
#include "core/engine/lock_check.h"

struct discard {
	struct list_head node; /* engine.discards, or unlinked */
	void *addr;
	size_t bytes;
};

void discard_mapping(struct engine *engine, void *addr, size_t bytes)
{
	/* The child of a fork() has no engine thread. */
	bool has_thread = engine->has_thread && !engine->is_orphan;
	struct discard *discard = has_thread ? malloc(sizeof(*discard)) : NULL;

	engine_assert_locked(engine);
	if (!discard) {
		munmap(addr, bytes);
		return;
	}
	*discard = (struct discard){.addr = addr, .bytes = bytes};
	list_add_tail(&discard->node, &engine->discards);
	engine_wake(engine);
}

struct discard *discard_next(struct engine *engine)
{
	struct discard *discard;

	engine_assert_locked(engine);
	if (list_is_empty(&engine->discards))
		return NULL;
	discard = list_first_entry(&engine->discards, struct discard, node);
	list_del(&discard->node);
	return discard;
}

void discard_finish(struct discard *discard)
{
	munmap(discard->addr, discard->bytes);
	free(discard);
}

void discard_all(struct engine *engine)
{
	struct discard *discard;

	while ((discard = discard_next(engine)))
		discard_finish(discard);
}
