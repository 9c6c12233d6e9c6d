/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The owner of shared memory truncates the file while a peer accesses it by RDMA. The peer
 * survives, and its work requests succeed or fail with the status of an unmapped page.
 *
 *	cut_file ADDRESS KIND HANDLER ROUNDS
 *
 * KIND: unsealed, tmpfs or huge (memory_kind.h). HANDLER: none; before, the peer has a handler of
 * SIGBUS before its first access; after, it installs the handler some thousand accesses before the
 * truncation; blocked, the peer blocks the signal; fork, a child of the peer has the handler of its
 * parent and gets a fault of its own.
 */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>

#include "memory_kind.h"

#define BYTES	 (4u << 20)
#define ACCESSES 3000 /* after which the library has noticed a change of the handler */
#define PIECE	 65536u
#define REMOTE	 (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ)
#define PORT	 "7471"

#define must(condition)                                                                \
	do {                                                                           \
		if (!(condition)) {                                                    \
			fprintf(stderr, "cut_file %d: %s: %s\n", getpid(), #condition, \
				strerror(errno));                                      \
			_exit(2);                                                      \
		}                                                                      \
	} while (0)

struct region {
	uint64_t addr;
	uint32_t rkey;
};

static volatile sig_atomic_t handled;
static sigjmp_buf back;

static void on_sigbus(int number)
{
	(void)number;
	handled++;
	siglongjmp(back, 1);
}

static struct rdma_cm_id *endpoint(const char *address, int flags)
{
	struct rdma_addrinfo hints = {.ai_port_space = RDMA_PS_TCP, .ai_flags = flags}, *info;
	struct ibv_qp_init_attr attr = {
		.cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1},
		.sq_sig_all = 1,
	};
	struct rdma_cm_id *id;

	must(!rdma_getaddrinfo(address, PORT, &hints, &info));
	must(!rdma_create_ep(&id, info, NULL, &attr));
	rdma_freeaddrinfo(info);
	return id;
}

/* The peer. */

static enum ibv_wc_status access_once(struct rdma_cm_id *id, struct ibv_mr *mr,
				      const struct region *region, unsigned int number)
{
	uint32_t bytes = number % 3 ? 8 : PIECE;
	uint64_t at = region->addr + (uint64_t)(number * 40503u) % (BYTES - PIECE) / 8 * 8;
	struct ibv_wc wc;
	int n;

	if (number % 2)
		must(!rdma_post_write(id, NULL, mr->addr, bytes, mr, 0, at, region->rkey));
	else
		must(!rdma_post_read(id, NULL, mr->addr, bytes, mr, 0, at, region->rkey));
	while (!(n = ibv_poll_cq(id->send_cq, 1, &wc)))
		;
	must(n == 1);
	return wc.status;
}

/* A fault of the program itself still calls the program's handler. */
static void fault_of_our_own(int expected)
{
	int fd;
	uint8_t *at = memory_of_kind("unsealed", NULL, PIECE, &fd);

	must(!ftruncate(fd, 0));
	if (!sigsetjmp(back, 1))
		*(volatile uint8_t *)at = 1;
	must(handled == expected);
	munmap(at, PIECE);
	close(fd);
}

/* A child has the handler, too. Its own fault ends it. */
static void fault_of_a_child(void)
{
	pid_t pid = fork();
	int status, fd;

	must(pid >= 0);
	if (!pid) {
		uint8_t *at = memory_of_kind("unsealed", NULL, PIECE, &fd);

		must(!ftruncate(fd, 0));
		*(volatile uint8_t *)at = 1;
		_exit(0);
	}
	must(waitpid(pid, &status, 0) == pid);
	must(WIFSIGNALED(status) && WTERMSIG(status) == SIGBUS);
}

static void be_peer(const char *address, const char *handler, int go)
{
	struct rdma_cm_id *id;
	struct rdma_conn_param param = {
		.initiator_depth = 1, .responder_resources = 1, .retry_count = 7};
	struct region region;
	struct ibv_mr *mr;
	unsigned int done = 0;
	enum ibv_wc_status status;
	sigset_t bus;
	void *buffer;

	sigemptyset(&bus);
	sigaddset(&bus, SIGBUS);
	if (!strcmp(handler, "blocked"))
		must(!sigprocmask(SIG_BLOCK, &bus, NULL));
	if (!strcmp(handler, "before"))
		must(signal(SIGBUS, on_sigbus) != SIG_ERR);
	id = endpoint(address, 0);
	must(!rdma_connect(id, &param));
	memcpy(&region, id->event->param.conn.private_data, sizeof(region));
	buffer = calloc(1, PIECE);
	must(buffer);
	mr = rdma_reg_msgs(id, buffer, PIECE);
	must(mr);
	for (; done < ACCESSES; done++)
		must(access_once(id, mr, &region, done) == IBV_WC_SUCCESS);
	if (!strcmp(handler, "after")) {
		must(signal(SIGBUS, on_sigbus) != SIG_ERR);
		for (; done < 2 * ACCESSES; done++)
			must(access_once(id, mr, &region, done) == IBV_WC_SUCCESS);
	}
	if (!strcmp(handler, "fork"))
		fault_of_a_child();
	must(write(go, "", 1) == 1);
	do
		status = access_once(id, mr, &region, done++);
	while (status == IBV_WC_SUCCESS);
	must(status == IBV_WC_REM_OP_ERR);
	must(!handled);
	if (!strcmp(handler, "before") || !strcmp(handler, "after"))
		fault_of_our_own(1);
	/* rdma_disconnect() would wait for the owner, which waits for the end of this process. */
	must(!ibv_dereg_mr(mr));
	rdma_destroy_ep(id);
	_exit(0);
}

/* The owner. */

static struct rdma_cm_id *accept_peer(struct rdma_cm_id *listener, const uint8_t *memory)
{
	struct region region = {.addr = (uintptr_t)memory};
	struct rdma_conn_param param = {.private_data = &region,
					.private_data_len = sizeof(region),
					.responder_resources = 1,
					.initiator_depth = 1};
	struct rdma_cm_id *id;
	struct ibv_mr *mr;

	must(!rdma_get_request(listener, &id));
	mr = ibv_reg_mr(id->pd, (void *)(uintptr_t)memory, BYTES, REMOTE);
	must(mr);
	region.rkey = mr->rkey;
	must(!rdma_accept(id, &param));
	return id;
}

/*
 * ThreadSanitizer must not see the call: the thread that maps files has a descriptor table of its
 * own, in which it used the same numbers.
 */
static void close_pipe(int fd)
{
	syscall(SYS_close, fd);
}

/* go: the owner listens. ready: the peer has mapped the file. */
static void run_round(const char *address, const char *kind, const char *handler, int round)
{
	int go[2], ready[2], fd, status;
	struct rdma_cm_id *listener, *id;
	uint8_t *memory;
	char byte;
	pid_t pid;

	must(!pipe(go) && !pipe(ready));
	pid = fork();
	must(pid >= 0);
	if (!pid) {
		must(read(go[0], &byte, 1) == 1);
		be_peer(address, handler, ready[1]);
	}
	memory = memory_of_kind(kind, NULL, BYTES, &fd);
	listener = endpoint(address, RAI_PASSIVE);
	must(!rdma_listen(listener, 1));
	must(write(go[1], "", 1) == 1);
	id = accept_peer(listener, memory);
	close_pipe(ready[1]);
	must(read(ready[0], &byte, 1) == 1);
	usleep((useconds_t)(round * 37 % 500));
	must(!ftruncate(fd, 0));
	/*
	 * The peer may find the file large again: then its accesses succeed, and it needs another
	 * truncation.
	 */
	if (round % 2) {
		must(!ftruncate(fd, BYTES));
		usleep(100);
		must(!ftruncate(fd, 0));
	}
	must(waitpid(pid, &status, 0) == pid);
	if (status)
		fprintf(stderr, "the peer ended with status 0x%x\n", (unsigned int)status);
	must(!status);
	rdma_destroy_ep(id);
	rdma_destroy_ep(listener);
	munmap(memory, BYTES);
	close(fd);
}

int main(int argc, char **argv)
{
	if (argc != 5)
		return 2;
	/* AddressSanitizer has a handler. */
	must(signal(SIGBUS, SIG_DFL) != SIG_ERR);
	/*
	 * Each round is a process of its own, because a peer must not inherit the library's state.
	 */
	for (int round = 0; round < atoi(argv[4]); round++) {
		pid_t pid = fork();
		int status;

		must(pid >= 0);
		if (!pid) {
			run_round(argv[1], argv[2], argv[3], round);
			_exit(0);
		}
		must(waitpid(pid, &status, 0) == pid && !status);
	}
	printf("the peers survived\n");
	return 0;
}
