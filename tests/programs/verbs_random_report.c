/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "verbs_random.h"

/* No call may last this many seconds in which the process ran; checked in the soak only. */
#define CALL_SECONDS 60u

/* A round number for lines outside of a round. */
static unsigned int vr_number(const struct vr_round *r)
{
	return r ? r->number : 0;
}

uint64_t vr_now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

void vr_line(const struct vr_round *r, const char *format, ...)
{
	uint64_t now = vr_now_ns();
	char text[256];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	printf("@ pair=%u side=%u run=%u round=%u from=%llu to=%llu service=%s action=%u end=%d %s\n",
	       vr.pair, vr.side, vr.run, vr_number(r), (unsigned long long)(r ? r->start_ns : now),
	       (unsigned long long)now, r ? vr_service_name(r->plan.service) : "none",
	       r && r->is_in_flood ? r->plan.action : 0, r && r->has_sent_end, text);
	fflush(stdout);
}

void vr_fail(const struct vr_round *r, const char *format, ...)
{
	char text[512];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	printf("FAIL seed=%llu pair=%u side=%u run=%u round=%u %s: %s\n",
	       (unsigned long long)vr.seed, vr.pair, vr.side, vr.run, vr_number(r),
	       r ? vr_service_name(r->plan.service) : "", text);
	fflush(stdout);
	_exit(1);
}

/* Whether this call and errno are new in this round. */
static bool vr_is_new(struct vr_round *r, const char *name, int err)
{
	uint32_t key = (uint32_t)err;

	for (const char *c = name; *c; c++)
		key = key * 31 + (uint8_t)*c;
	for (unsigned int i = 0; i < r->reported_count; i++) {
		if (r->reported[i] == key)
			return false;
	}
	if (r->reported_count == 16)
		return false;
	r->reported[r->reported_count++] = key;
	return true;
}

void vr_call_repeats(struct vr_round *r, const char *name, int err)
{
	if (vr_is_new(r, name, err))
		vr_line(r, "what=call name=%s errno=%d", name, err);
}

void vr_call_failed(struct vr_round *r, const char *name, int err)
{
	vr_call_repeats(r, name, err);
	r->is_broken = true;
}

void vr_enter(const char *call)
{
	atomic_store(&vr.call_tick, atomic_load(&vr.ticks));
	atomic_store(&vr.call, call);
}

void vr_leave(uint64_t since_ns)
{
	uint64_t us = (vr_now_ns() - since_ns) / 1000;
	uint64_t longest = atomic_load_explicit(&vr.tally->longest_call_us, memory_order_relaxed);

	atomic_store(&vr.call, NULL);
	while (us > longest &&
	       !atomic_compare_exchange_weak(&vr.tally->longest_call_us, &longest, us))
		;
}

/*
 * A second counts only if this thread ran in it, so the time in which the process is stopped does
 * not count.
 */
static void *vr_watch(void *unused)
{
	(void)unused;
	for (;;) {
		struct timespec second = {.tv_sec = 1};
		const char *call;

		nanosleep(&second, NULL);
		atomic_fetch_add(&vr.ticks, 1);
		call = atomic_load(&vr.call);
		if (vr.is_soak && call &&
		    atomic_load(&vr.ticks) - atomic_load(&vr.call_tick) > CALL_SECONDS)
			vr_fail(NULL, "%s has not returned for %u s", call, CALL_SECONDS);
	}
	return NULL;
}

void vr_start_watchdog(void)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, vr_watch, NULL))
		vr_fail(NULL, "pthread_create");
	pthread_detach(thread);
}

void vr_send_message(struct vr_round *r, struct vr_message *message)
{
	/* VR_END is the last message of a round. */
	if (r->has_sent_end)
		return;
	r->has_sent_end = message->type == VR_END;
	message->round = r->number;
	while (!vr.is_peer_gone &&
	       send(vr.peer_fd, message, sizeof(*message), MSG_NOSIGNAL) != sizeof(*message)) {
		if (errno == EINTR)
			continue;
		vr.is_peer_gone = true;
		r->is_broken = true;
	}
}

void vr_send(struct vr_round *r, enum vr_message_type type, uint64_t a, uint64_t b)
{
	struct vr_message message = {.type = type, .a = a, .b = b};

	vr_send_message(r, &message);
}
