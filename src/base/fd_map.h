/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_BASE_FD_MAP_H
#define USRDMA_BASE_FD_MAP_H

#include <pthread.h>
#include <stdatomic.h>

/*
 * Maps descriptors of the process to objects. The map holds one reference to each object. A lookup
 * returns another reference, so an object is not freed while a thread uses it, even if another
 * thread closes the descriptor. The map is an array in pages. A page is allocated when one of its
 * descriptors is first used, and never freed. FD_MAP_LOCKS locks guard the entries; a lookup of an
 * unused descriptor takes no lock. Safe from any thread.
 *
 * A map is a static object and is never destroyed.
 */
#define FD_MAP_PAGE_SLOTS 1024
#define FD_MAP_PAGES	  1024
#define FD_MAP_LOCKS	  64

struct fd_map {
	void (*ref)(void *object); /* adds a reference */
	void *_Atomic *_Atomic pages[FD_MAP_PAGES];
	pthread_mutex_t locks[FD_MAP_LOCKS];
};

#define FD_MAP_INIT(ref_object)                                              \
	{                                                                    \
		.ref = (ref_object), .locks = {                              \
			[0 ... FD_MAP_LOCKS - 1] = PTHREAD_MUTEX_INITIALIZER \
		}                                                            \
	}

/*
 * Maps a descriptor to an object and takes over the caller's reference. *before: the object that
 * the descriptor had, with the map's reference, or NULL. 0; -EMFILE: the descriptor is out of
 * range; -ENOMEM.
 */
int fd_map_set(struct fd_map *map, int fd, void *object, void **before)
	__attribute__((warn_unused_result));

/*
 * The same unless the descriptor has an object: -EEXIST, and *present is that object with a new
 * reference.
 */
int fd_map_add(struct fd_map *map, int fd, void *object, void **present)
	__attribute__((warn_unused_result));

/* Returns the object of a descriptor with a new reference, or NULL. */
void *fd_map_get(struct fd_map *map, int fd);

/* Removes the object of a descriptor and returns it with the map's reference, or NULL. */
void *fd_map_remove(struct fd_map *map, int fd);

/*
 * To be called in the child of a fork(): reinitialises the locks, because a thread that exists only
 * in the parent may have acquired them.
 */
void fd_map_after_fork(struct fd_map *map);

/*
 * Iterates over the map, starting with *fd 0: returns the first object whose descriptor is at least
 * *fd, with a new reference, and sets *fd to the next descriptor. NULL: the end. Objects that are
 * added or removed during the iteration may be missed.
 */
void *fd_map_next(struct fd_map *map, int *fd);

#endif
