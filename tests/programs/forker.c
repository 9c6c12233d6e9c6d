/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A client that forks while its connection is in use.
 *
 *	forker ADDRESS PORT plain
 *	forker ADDRESS PORT fresh OTHER_PORT
 *	forker ADDRESS PORT exec PROGRAM [ARGUMENTS...]
 *
 * plain: the child uses no verbs and ends. fresh: the child opens devices and connects to the
 * server on OTHER_PORT. exec: the child executes PROGRAM. In each case the parent's transfers
 * continue before, during and after the run of the child, and the child can read its copy of the
 * parent's memory.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "endpoint.h"

#define FORKER_BUF_BYTES 65536
#define WRITES_EACH_TIME 1000

static void write_some(struct endpoint *ep)
{
	struct ibv_wc wc;

	for (unsigned int i = 0; i < WRITES_EACH_TIME; i++) {
		int got;

		if (endpoint_post(ep, IBV_WR_RDMA_WRITE, FORKER_BUF_BYTES, i))
			die("ibv_post_send");
		do
			got = ibv_poll_cq(ep->cq, 1, &wc);
		while (got == 0);
		if (got < 0 || wc.status != IBV_WC_SUCCESS)
			die("write %u: %s", i,
			    got < 0 ? "ibv_poll_cq" : ibv_wc_status_str(wc.status));
	}
}

static void connect_afresh(const char *addr, const char *port)
{
	struct endpoint ep;

	endpoint_connect(&ep, addr, port, FORKER_BUF_BYTES);
	write_some(&ep);
	endpoint_disconnect(&ep);
	say("child connected and wrote");
}

static void live_as_child(const struct endpoint *parents, char **argv)
{
	/* A child has a copy of registered memory, as of any other memory. */
	for (size_t i = 0; i < parents->buf_bytes; i++) {
		if (parents->buf[i] != 0x5a)
			die("byte %zu of the parent's buffer reads %#x in the child", i,
			    parents->buf[i]);
	}
	if (!strcmp(argv[3], "fresh"))
		connect_afresh(argv[1], argv[4]);
	if (!strcmp(argv[3], "exec")) {
		execvp(argv[4], argv + 4);
		die("%s: %s", argv[4], strerror(errno));
	}
}

int main(int argc, char **argv)
{
	struct endpoint ep;
	int status;
	pid_t child;

	if (argc < 4 || (strcmp(argv[3], "plain") && argc < 5))
		die("usage: forker ADDRESS PORT plain | fresh OTHER_PORT | exec PROGRAM [ARGUMENTS...]");
	if (ibv_fork_init())
		die("ibv_fork_init: %s", strerror(errno));
	endpoint_connect(&ep, argv[1], argv[2], FORKER_BUF_BYTES);
	memset(ep.buf, 0x5a, ep.buf_bytes);
	write_some(&ep);
	child = fork();
	if (child < 0)
		die("fork: %s", strerror(errno));
	if (child == 0) {
		live_as_child(&ep, argv);
		_exit(0);
	}
	write_some(&ep);
	if (waitpid(child, &status, 0) != child || status != 0)
		die("the child ended with %#x", (unsigned int)status);
	write_some(&ep);
	endpoint_disconnect(&ep);
	say("parent wrote before, during and after");
	return 0;
}
