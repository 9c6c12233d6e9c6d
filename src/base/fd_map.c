/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/fd_map.h"

#include <errno.h>
#include <stdlib.h>

static pthread_mutex_t *lock_of(struct fd_map *map, int fd)
{
	return &map->locks[fd % FD_MAP_LOCKS];
}

/* The entry of a descriptor, or NULL if its page is not allocated. */
static void *_Atomic *slot_of(struct fd_map *map, int fd)
{
	void *_Atomic *page;

	if (fd < 0 || fd >= FD_MAP_PAGE_SLOTS * FD_MAP_PAGES)
		return NULL;
	page = atomic_load_explicit(&map->pages[fd / FD_MAP_PAGE_SLOTS], memory_order_acquire);
	return page ? &page[fd % FD_MAP_PAGE_SLOTS] : NULL;
}

static int make_page(struct fd_map *map, int fd)
{
	void *_Atomic *fresh, *_Atomic *present = NULL;

	if (fd < 0 || fd >= FD_MAP_PAGE_SLOTS * FD_MAP_PAGES)
		return -EMFILE;
	fresh = calloc(FD_MAP_PAGE_SLOTS, sizeof(*fresh));
	if (!fresh)
		return -ENOMEM;
	if (!atomic_compare_exchange_strong_explicit(&map->pages[fd / FD_MAP_PAGE_SLOTS], &present,
						     fresh, memory_order_acq_rel,
						     memory_order_acquire))
		free(fresh);
	return 0;
}

/* The entry of a descriptor, whose page is allocated if necessary. 0 or -errno. */
static int slot_make(struct fd_map *map, int fd, void *_Atomic **slot)
{
	int ret = 0;

	*slot = slot_of(map, fd);
	if (!*slot) {
		ret = make_page(map, fd);
		*slot = slot_of(map, fd);
	}
	return ret;
}

int fd_map_set(struct fd_map *map, int fd, void *object, void **before)
{
	void *_Atomic *slot;
	int ret = slot_make(map, fd, &slot);

	if (ret)
		return ret;
	pthread_mutex_lock(lock_of(map, fd));
	*before = atomic_exchange_explicit(slot, object, memory_order_acq_rel);
	pthread_mutex_unlock(lock_of(map, fd));
	return 0;
}

int fd_map_add(struct fd_map *map, int fd, void *object, void **present)
{
	void *_Atomic *slot;
	int ret = slot_make(map, fd, &slot);

	if (ret)
		return ret;
	pthread_mutex_lock(lock_of(map, fd));
	*present = atomic_load_explicit(slot, memory_order_relaxed);
	if (*present) {
		map->ref(*present);
		ret = -EEXIST;
	} else {
		atomic_store_explicit(slot, object, memory_order_release);
	}
	pthread_mutex_unlock(lock_of(map, fd));
	return ret;
}

void *fd_map_get(struct fd_map *map, int fd)
{
	void *_Atomic *slot = slot_of(map, fd);
	void *object;

	if (!slot || !atomic_load_explicit(slot, memory_order_relaxed))
		return NULL;
	pthread_mutex_lock(lock_of(map, fd));
	object = atomic_load_explicit(slot, memory_order_relaxed);
	if (object)
		map->ref(object);
	pthread_mutex_unlock(lock_of(map, fd));
	return object;
}

void *fd_map_remove(struct fd_map *map, int fd)
{
	void *_Atomic *slot = slot_of(map, fd);
	void *object;

	if (!slot || !atomic_load_explicit(slot, memory_order_relaxed))
		return NULL;
	pthread_mutex_lock(lock_of(map, fd));
	object = atomic_exchange_explicit(slot, NULL, memory_order_acq_rel);
	pthread_mutex_unlock(lock_of(map, fd));
	return object;
}

void fd_map_after_fork(struct fd_map *map)
{
	for (int i = 0; i < FD_MAP_LOCKS; i++)
		pthread_mutex_init(&map->locks[i], NULL);
}

void *fd_map_next(struct fd_map *map, int *fd)
{
	int at = *fd;

	while (at < FD_MAP_PAGE_SLOTS * FD_MAP_PAGES) {
		void *object;

		if (!slot_of(map, at)) {
			at += FD_MAP_PAGE_SLOTS - at % FD_MAP_PAGE_SLOTS;
			continue;
		}
		object = fd_map_get(map, at++);
		if (!object)
			continue;
		*fd = at;
		return object;
	}
	return NULL;
}
