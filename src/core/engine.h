/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_CORE_ENGINE_H
#define USRDMA_CORE_ENGINE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/id_table.h"
#include "base/list.h"
#include "base/timer.h"
#include "core/datagram.h"
#include "core/objects.h"
#include "core/xrc_far.h"
#include "ipc/client.h"

struct segment_counters;

/*
 * The process's engine: one lock, one thread, one daemon connection. Made by the first call that needs a device, kept
 * until the process ends. After fork() the parent's goes on undisturbed; the child's copy is `is_orphan`, all objects
 * in it answer EIO, and the child's next ibv_get_device_list makes a new one.
 *
 * Progress: whoever finds a CQ empty drives the engine inline (engine_poll); the thread sleeps while somebody polls and
 * takes over when nobody does. Peers ring the doorbell only when asked to (transport.sleep), which is whenever the
 * application is not spinning.
 */
struct engine {
	pthread_mutex_t lock;
	bool is_orphan;	      /* this is a fork()ed child's copy of its parent's engine */
	atomic_bool is_fatal; /* the daemon died; engine_get() looks without the lock */
	struct engine *older; /* that had a daemon before, which died; NULL: none */
	bool has_thread;
	pthread_t thread;
	struct ipc_client client;
	uint32_t slot;
	int doorbell_fd; /* eventfd: this process wakes its own thread */
	int notice_fd;	 /* the daemon's pushes */
	int epoll_fd;
	bool lent_is_readable; /* the thread saw it so, and nobody has looked since */
	int lent_fd; /* where datagrams from other hosts come in, -1: none; belongs to a transport */
	int timer_fd; /* wakes the thread for `timers` */
	struct timer_heap timers;
	uint64_t timer_armed_ns;		/* what timer_fd is set to; UINT64_MAX: nothing */
	const struct transport *only_transport; /* USRDMA_TRANSPORT; NULL: any */
	struct segment_counters *counters; /* in the segment, whose transport sets it; NULL: none */
	void *transport_state;		   /* the local transport's struct local */
	struct roce *roce;		   /* the RoCEv2 transport; NULL: not of this build */
	struct datagrams datagrams;
	uint64_t pkey_violations; /* packets of a partition that is not ours */
	struct mcast *mcast;	  /* multicast groups; NULL: none (mcast.c) */
	struct list_head contexts;
	struct list_head cqs;
	struct id_table mrs;	  /* key -> struct mr; at most MAX_MRS, MR_KEY_BITS */
	struct id_table mws;	  /* handle -> struct mw; MW_HANDLE_BITS */
	struct srq **xrc_srqs;	  /* [XRC_SRQNS], by the low bits of the number; NULL: never any */
	uint32_t xrc_srqn_cursor; /* numbers are given out in turn, as QPNs are */
	unsigned int xrc_srq_count;
	struct list_head xrc_domains;
	struct xrc_fars xrc_fars; /* QPs that have names in other processes than their own */
	struct id_table pds;	  /* id -> struct pd_body; 32-bit handles */
	struct id_table dms;	  /* handle -> struct dm_body; likewise */
	struct qp **qps;	  /* [IPC_SLOT_QPNS], by the low bits of the QPN */
	uint32_t qp_cursor; /* QPNs are given out in turn, so that one is not reused at once */
	unsigned int qp_count;
	unsigned int cq_count;
	unsigned int srq_count;
	atomic_uint polls;	 /* how often somebody polled in vain */
	unsigned int polls_seen; /* as of the thread's last tick */
	atomic_uint poll_streak; /* polls in vain since somebody meant to block */
	bool is_polled; /* doorbells are off: the thread ticks to see that polling goes on */
	bool is_inline; /* run() is called by a spinning application, which will be back in a moment */
};

/* The engine, made and connected if there is none yet. NULL with errno: ENODEV (daemon gone), EACCES, ENOENT, ENOMEM … */
struct engine *engine_get(void) __attribute__((warn_unused_result));

/* Starts the thread if it does not run yet. */
int engine_start(struct engine *engine) __attribute__((warn_unused_result));

/* Its part of that, with engine.lock held. */
int engine_start_thread(struct engine *engine) __attribute__((warn_unused_result));

/* Recursive: between ibv_wr_start and ibv_wr_complete a thread holds the lock, and may make any other call. */
void engine_lock_init(struct engine *engine);

static inline void engine_lock(struct engine *engine)
{
	pthread_mutex_lock(&engine->lock);
}

static inline void engine_unlock(struct engine *engine)
{
	pthread_mutex_unlock(&engine->lock);
}

/* A CQ was found empty: makes progress if nobody else is at it. Takes and releases engine.lock. */
void engine_poll(struct engine *engine);

/* Takes what has come already: before a queue is flushed, what its peers have answered is done. engine.lock held. */
void engine_catch_up(struct engine *engine);

/* The application is about to block (ibv_req_notify_cq, ibv_get_cq_event): have the doorbells rung again. */
void engine_will_block(struct engine *engine);

/* A timer was added under engine.lock: makes sure that the thread wakes for it. */
void engine_timer_added(struct engine *engine);

/* Has the thread take a turn soon: work is left that nobody else may come by to do. */
void engine_wake(struct engine *engine);

/* Has the thread wake when a peer's doorbell rings: a SEQPACKET socket whose messages are one byte. Closing it ends
 * that. 0 or -errno. */
int engine_watch(struct engine *engine, int fd) __attribute__((warn_unused_result));

/* Receives what the daemon pushed and hands it on. engine.lock held. Never blocks. */
void engine_take_notices(struct engine *engine);

/* The daemon connection for a request to the daemon that is made with engine.lock held. */
int engine_introduce(struct engine *engine, uint32_t slot) __attribute__((warn_unused_result));

#endif
