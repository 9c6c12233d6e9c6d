/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_BASE_LIBRDMACM_CALLS_H
#define USRDMA_BASE_LIBRDMACM_CALLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct epoll_event;
struct ibv_comp_channel;
struct ibv_context;
struct ibv_device;
struct ibv_qp;
struct ibv_qp_attr;

/*
 * What libibverbs does for librdmacm only (core/serve_call.c, core/copy_call.c,
 * core/device/device.c, core/qp/qp_modify.c); no interface for applications. A thread that waits
 * for rsockets runs the transports itself, as a thread in ibv_get_cq_event() does (docs/adr/0045).
 */

/*
 * Handles of the caller's descriptors, in epoll_event.data.u64. Lower ones belong to the library.
 */
#define SERVE_HANDLE_MIN (UINT64_C(1) << 63)

/* The descriptors that one thread at a time waits for. */
struct usrdma_serve {
	/* the caller adds its descriptors; -1: the process lost the set by a fork() */
	int epoll_fd;
};

#pragma GCC visibility push(default)

/*
 * A set for the device's process state. 0; -EMFILE: there are too many sets; -EIO: the device is
 * unusable; other -errno.
 */
int usrdma_serve_open(struct ibv_context *context, struct usrdma_serve **serve)
	__attribute__((warn_unused_result));

/*
 * The child of a fork() does not have to call it: the library has closed the descriptor of its
 * copy.
 */
void usrdma_serve_close(struct usrdma_serve *serve);

/*
 * As epoll_wait() on the set; runs the transports in this time. Returns only events of the caller's
 * descriptors. -EINTR: as epoll_wait(), also if the signal handler was installed with SA_RESTART.
 * -EIO: the device is unusable, or another thread polls and runs the transports; the caller waits
 * with poll(2). A cancellation point.
 */
int usrdma_serve_wait(struct usrdma_serve *serve, struct epoll_event *events, int max,
		      int timeout_ms) __attribute__((warn_unused_result));

/*
 * The calling thread begins to wait for channels by other means, or has ended this wait: the
 * library's own thread runs the transports.
 */
void usrdma_wait_begins(struct ibv_context *context);
void usrdma_wait_ends(struct ibv_context *context);

/*
 * As ibv_modify_qp(), but for a peer from which a CM message was received: the link-layer address
 * of its next hop is not resolved, so that the call does not wait for the kernel.
 */
int usrdma_modify_qp(struct ibv_qp *qp, const struct ibv_qp_attr *attr, int attr_mask);

/*
 * Copy from and to the buffers of an application's call (base/user_copy.h), of which libibverbs has
 * the only handler of faults. false: a page of the buffer cannot be accessed; a part of the bytes
 * may be copied.
 */
bool usrdma_copy_from_user(void *to, const void *user, size_t bytes)
	__attribute__((warn_unused_result));
bool usrdma_copy_to_user(void *user, const void *from, size_t bytes)
	__attribute__((warn_unused_result));

/*
 * A number for the device, unique in its network namespace as long as the interface exists: the
 * interface's index, or another one.
 */
uint32_t usrdma_device_id(struct ibv_device *device);

/*
 * Processes the messages and ACKs that have arrived, so that ibv_poll_cq() returns their
 * completions. Waits for the locks; a poll of an empty CQ does not.
 */
void usrdma_catch_up(struct ibv_context *context);

/*
 * As ibv_get_cq_event() on a non-blocking channel, but without effect on the progress of the
 * transports: 0 or -EAGAIN.
 */
int usrdma_take_cq_event(struct ibv_comp_channel *channel) __attribute__((warn_unused_result));

#pragma GCC visibility pop

#endif
