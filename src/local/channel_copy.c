/* SPDX-License-Identifier: BSD-2-Clause */
#include "local/channel_copy.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fdpass.h"
#include "base/syscalls.h"
#include "core/engine/engine.h"
#include "core/engine/lock_check.h"
#include "local/peer.h"
#include "local/ring.h"

#define PATH_BYTES 64

/* Number of channels of one peer of which this process keeps copies. */
#define COPIES 16

/* Guarded by engine.lock. */
struct channel_copies {
	struct channel_copy {
		uint32_t channel;
		struct doorbell *bell; /* NULL: the entry is unused */
	} entries[COPIES];
};

void channel_copy_request(struct peer *peer, uint32_t channel)
{
	peer->has_sent |= ring_write_notice(&peer->tx, CELL_CHANNEL_REQUEST, channel);
}

static struct comp_channel *find_channel(struct engine *engine, uint32_t number)
{
	struct cq *cq;

	list_for_each_entry(cq, &engine->tables.cqs, node) {
		if (cq->channel && cq->channel->number == number)
			return cq->channel;
	}
	return NULL;
}

/* If the socket has no space, the peer requests the descriptor again later. */
void channel_copy_answer(struct peer *peer, uint32_t channel)
{
	struct channel_answer answer = {.channel = channel};
	const struct comp_channel *found;

	engine_assert_locked(peer->engine);
	if (!peer->may_reach_ours || !peer->doorbell) {
		peer_count(peer, LOCAL_BAD_CELLS);
		return;
	}
	found = channel ? find_channel(peer->engine, channel) : NULL;
	if (found)
		(void)!fdpass_send(peer->doorbell->fd, &answer, sizeof(answer), &found->pub.fd, 1,
				   MSG_DONTWAIT);
}

/* A unit that is written to another file than an eventfd could change it. */
static bool is_eventfd(int fd)
{
	static const char name[] = "anon_inode:[eventfd]";
	char path[PATH_BYTES], link[PATH_BYTES];
	ssize_t bytes;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	bytes = readlink(path, link, sizeof(link));
	return bytes == (ssize_t)strlen(name) && !memcmp(link, name, (size_t)bytes);
}

/*
 * The entry for a new copy: an unused one, or one whose copy is not in use. NULL: all are in use.
 */
static struct channel_copy *free_entry(struct channel_copies *copies)
{
	struct channel_copy *found = NULL;

	for (size_t i = 0; i < COPIES; i++) {
		struct channel_copy *entry = &copies->entries[i];

		if (!entry->bell)
			return entry;
		if (!found && !doorbell_is_shared(entry->bell))
			found = entry;
	}
	return found;
}

/* engine.lock held. NULL: no copy. */
static struct doorbell *find_copy(const struct peer *main, uint32_t channel)
{
	const struct channel_copies *copies = main->channel_copies;

	engine_assert_locked(main->engine);
	for (size_t i = 0; copies && i < COPIES; i++) {
		if (copies->entries[i].bell && copies->entries[i].channel == channel)
			return copies->entries[i].bell;
	}
	return NULL;
}

void channel_copy_take(struct peer *main, uint32_t channel, int fd)
{
	struct channel_copies *copies = main->channel_copies;
	struct channel_copy *entry;
	struct doorbell *bell;

	engine_assert_locked(main->engine);
	if (!copies)
		copies = main->channel_copies = calloc(1, sizeof(*copies));
	if (!copies || find_copy(main, channel) || !is_eventfd(fd))
		goto err_fd;
	entry = free_entry(copies);
	bell = entry ? doorbell_new_eventfd(fd) : NULL;
	if (!bell)
		goto err_fd;
	doorbell_put(entry->bell);
	*entry = (struct channel_copy){.channel = channel, .bell = bell};
	atomic_fetch_add_explicit(&main->channels_taken, 1, memory_order_release);
	return;

err_fd:
	sys_close(fd);
}

struct doorbell *channel_copy_find(struct peer *peer, uint32_t channel)
{
	struct doorbell *bell;

	engine_lock_base(peer->engine);
	bell = doorbell_get(find_copy(peer->main, channel));
	engine_unlock_base(peer->engine);
	return bell;
}

void channel_copies_close(struct peer *main)
{
	struct channel_copies *copies = main->channel_copies;

	engine_assert_locked(main->engine);
	if (!copies)
		return;
	for (size_t i = 0; i < COPIES; i++)
		doorbell_put(copies->entries[i].bell);
	free(copies);
	main->channel_copies = NULL;
}

void channel_copies_disown(struct peer *main)
{
	const struct channel_copies *copies = main->channel_copies;

	for (size_t i = 0; copies && i < COPIES; i++) {
		if (copies->entries[i].bell)
			doorbell_disown(copies->entries[i].bell);
	}
}
