/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_RSPRELOAD_REPOLL_H
#define USRDMA_RSPRELOAD_REPOLL_H

#include <sys/epoll.h>

/*
 * The repoll calls of librdmacm, looked up at run time. librdmacm of rdma-core before v65 does not have them. With undefined
 * symbols the dynamic loader would refuse to start every program for which LD_PRELOAD is set.
 */
struct repoll_calls {
	int (*create)(int flags);
	int (*ctl)(int epfd, int op, int fd, struct epoll_event *event);
	int (*wait)(int epfd, struct epoll_event *events, int maxevents, int timeout);
};

/* NULL: librdmacm does not have them. */
const struct repoll_calls *repoll_calls(void);

#endif
