/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/engine/wake.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "base/syscalls.h"
#include "core/engine/channel.h"
#include "core/engine/engine.h"
#include "core/engine/lock_check.h"
#include "core/object/event_fd.h"

struct doorbell *doorbell_new(int fd)
{
	struct doorbell *doorbell = malloc(sizeof(*doorbell));

	if (doorbell)
		*doorbell = (struct doorbell){.fd = fd, .references = 1};
	return doorbell;
}

struct doorbell *doorbell_new_eventfd(int fd)
{
	struct doorbell *doorbell = doorbell_new(fd);

	if (doorbell)
		doorbell->is_eventfd = true;
	return doorbell;
}

struct doorbell *doorbell_get(struct doorbell *doorbell)
{
	if (doorbell)
		__atomic_add_fetch(&doorbell->references, 1, __ATOMIC_RELAXED);
	return doorbell;
}

bool doorbell_is_shared(const struct doorbell *doorbell)
{
	return __atomic_load_n(&doorbell->references, __ATOMIC_ACQUIRE) > 1;
}

void doorbell_put(struct doorbell *doorbell)
{
	if (!doorbell || __atomic_sub_fetch(&doorbell->references, 1, __ATOMIC_ACQ_REL))
		return;
	if (doorbell->fd >= 0)
		sys_close(doorbell->fd);
	free(doorbell);
}

void doorbell_disown(struct doorbell *doorbell)
{
	if (doorbell->fd >= 0)
		sys_close(doorbell->fd);
	doorbell->fd = -1;
}

/* If the buffer of the socket is full, the peer has a message to read already. */
void doorbell_ring(const struct doorbell *doorbell)
{
	if (doorbell->is_eventfd)
		event_fd_post(doorbell->fd, 1);
	else
		(void)sys_send(doorbell->fd, "", 1, MSG_DONTWAIT | MSG_NOSIGNAL);
}

void doorbell_ring_late(struct engine *engine, struct doorbell *doorbell)
{
	struct wakes *wakes = &engine->wakes;

	engine_assert_locked(engine);
	if (wakes->doorbell_count == WAKES_MAX) {
		doorbell_ring(doorbell);
		return;
	}
	wakes->doorbells[wakes->doorbell_count++] = doorbell_get(doorbell);
}

void engine_wake_late(struct engine *engine)
{
	engine_assert_locked(engine);
	engine->wakes.wakes_thread = true;
}

void wakes_forget(struct engine *engine)
{
	engine->wakes = (struct wakes){0};
}

void engine_unlock_and_wake(struct engine *engine)
{
	struct wakes wakes;
	int saved = errno;

	engine_assert_locked(engine);
	if (biased_lock_is_nested(&engine->lock)) {
		biased_lock_release(&engine->lock);
		return;
	}
	wakes = engine->wakes;
	engine->wakes = (struct wakes){0};
	channels_signal(engine);
	for (unsigned int i = 0; i < wakes.doorbell_count; i++) {
		doorbell_ring(wakes.doorbells[i]);
		doorbell_put(wakes.doorbells[i]);
	}
	if (wakes.wakes_thread)
		engine_wake(engine);
	errno = saved;
}
