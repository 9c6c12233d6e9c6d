/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Connects and disconnects repeatedly, for the test that memory, descriptors and threads do not
 * grow.
 *
 *	rounds serve ADDRESS PORT COUNT		COUNT connections, one after the other
 *	rounds drive ADDRESS PORT COUNT
 *
 * Each side prints "after N: F fds, K KiB, T threads" several times; the first after a tenth of the
 * rounds, when every table has grown to its usual size.
 */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "endpoint.h"

#define ROUND_BUF_BYTES 4096

static unsigned int count_entries(const char *path)
{
	unsigned int count = 0;
	DIR *dir = opendir(path);

	if (!dir)
		die("%s: %s", path, strerror(errno));
	for (struct dirent *entry; (entry = readdir(dir));)
		count += entry->d_name[0] != '.';
	closedir(dir);
	return count;
}

/*
 * Private memory only. Keys and QPNs are random, so a process touches the pages of its shared
 * segment's tables gradually.
 */
static unsigned long private_kib(void)
{
	unsigned long size_pages, resident_pages, shared_pages;
	FILE *file = fopen("/proc/self/statm", "r");

	if (!file || fscanf(file, "%lu %lu %lu", &size_pages, &resident_pages, &shared_pages) != 3)
		die("/proc/self/statm: %s", strerror(errno));
	fclose(file);
	return (resident_pages - shared_pages) * (unsigned long)sysconf(_SC_PAGESIZE) / 1024;
}

static void report(unsigned int round)
{
	/* Minus the descriptor of the directory that is being read. */
	say("after %u: %u fds, %lu KiB, %u threads", round, count_entries("/proc/self/fd") - 1,
	    private_kib(), count_entries("/proc/self/task"));
}

/* Sends one message in each direction, which verifies the connection. */
static void exchange(struct endpoint *ep)
{
	unsigned int left = 2;
	struct ibv_wc wc;

	if (endpoint_post(ep, IBV_WR_SEND, 64, 1))
		die("ibv_post_send");
	while (left) {
		int got = ibv_poll_cq(ep->cq, 1, &wc);

		if (got < 0)
			die("ibv_poll_cq: %d", got);
		if (got && wc.status != IBV_WC_SUCCESS)
			die("completion: %s", ibv_wc_status_str(wc.status));
		left -= (unsigned int)got;
	}
}

static void serve(const char *addr, const char *port, unsigned int rounds)
{
	struct rdma_cm_id *listener = endpoint_listen(addr, port);
	struct rdma_event_channel *channel = listener->channel;
	struct rdma_cm_event *event;

	for (unsigned int i = 1; i <= rounds; i++) {
		struct endpoint ep;

		endpoint_accept(&ep, listener, ROUND_BUF_BYTES);
		endpoint_post_recv(&ep, 2);
		exchange(&ep);
		if (rdma_get_cm_event(ep.channel, &event))
			die("rdma_get_cm_event: %s", strerror(errno));
		if (event->event != RDMA_CM_EVENT_DISCONNECTED)
			die("event %s", rdma_event_str(event->event));
		rdma_ack_cm_event(event);
		rdma_disconnect(ep.id);
		endpoint_close(&ep);
		if (i == rounds / 10 || i == rounds / 2 || i == rounds)
			report(i);
	}
	rdma_destroy_id(listener);
	rdma_destroy_event_channel(channel);
}

static void drive(const char *addr, const char *port, unsigned int rounds)
{
	for (unsigned int i = 1; i <= rounds; i++) {
		struct endpoint ep;

		endpoint_connect(&ep, addr, port, ROUND_BUF_BYTES);
		endpoint_post_recv(&ep, 2);
		exchange(&ep);
		endpoint_disconnect(&ep);
		if (i == rounds / 10 || i == rounds / 2 || i == rounds)
			report(i);
	}
}

int main(int argc, char **argv)
{
	if (argc == 5 && !strcmp(argv[1], "serve"))
		serve(argv[2], argv[3], (unsigned int)strtoul(argv[4], NULL, 0));
	else if (argc == 5 && !strcmp(argv[1], "drive"))
		drive(argv[2], argv[3], (unsigned int)strtoul(argv[4], NULL, 0));
	else
		die("usage: rounds serve|drive ADDRESS PORT COUNT");
	return 0;
}
