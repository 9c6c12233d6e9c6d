/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_BASE_FD_MAP_H
#define USRDMA_BASE_FD_MAP_H

#include <pthread.h>
#include <stdatomic.h>

/*
 * What a process's descriptors stand for. The map holds one reference to each object in it; a lookup
 * gives out another, so that an object lives while any thread is at it, whatever a second thread
 * closes. Descriptors are small numbers, so the map is an array, cut into pages that are made when
 * one of their descriptors is first used, and stay. A slot is guarded by one of a few locks, taken
 * for an instant; that a descriptor stands for nothing is seen without any. Safe from any thread.
 *
 * Static, and lives as long as the process.
 */
#define FD_MAP_PAGE_SLOTS 1024
#define FD_MAP_PAGES	  1024
#define FD_MAP_LOCKS	  64

struct fd_map {
	void (*ref)(void *object); /* one more reference */
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
 * Puts an object, whose reference becomes the map's, in a descriptor's place. What was there is the
 * caller's, in *before. -EMFILE: no such descriptor; -ENOMEM.
 */
int fd_map_set(struct fd_map *map, int fd, void *object, void **before)
	__attribute__((warn_unused_result));

/* With a reference, or NULL. */
void *fd_map_get(struct fd_map *map, int fd);

/* The same, and the map's own reference is the caller's from now on. */
void *fd_map_remove(struct fd_map *map, int fd);

/*
 * In the child of a fork(), where a thread that was left behind may have held a lock: makes the
 * locks anew.
 */
void fd_map_after_fork(struct fd_map *map);

/*
 * The first object whose descriptor is at least *fd, with a reference, and *fd becomes the number
 * after it; NULL: there is none. Starting with 0, all are met that are there all the time.
 */
void *fd_map_next(struct fd_map *map, int *fd);

#endif
