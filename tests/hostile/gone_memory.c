/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Registered memory becomes inaccessible after its registration, and both processes survive every
 * access to it. The work request completes with the status that the standard names.
 *
 *	gone_memory ADDRESS CHANGE PROGRAM
 *
 * CHANGE: what happens to one page of the memory: none (PROT_NONE), read-only, unmapped, cut
 * (behind the end of its file) or guard (MADV_GUARD_INSTALL). PROGRAM: what the program does with
 * signals: default, handler (handlers of its own, installed before the library's), later (installed
 * some thousand accesses after the registration), blocked (every thread blocks all signals), or off
 * (USRDMA_FAULT_HANDLER).
 */
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>

#ifndef MADV_GUARD_INSTALL
#define MADV_GUARD_INSTALL 102
#endif

#define PAGE   4096u
#define PAGES  4u
#define BROKEN 2u /* the page that becomes inaccessible */
#define BYTES  (PAGES * PAGE)
#define SMALL  16u
#define WARM   1100 /* accesses after which the library has noticed a change of the handlers */
#define PORT   "7471"
#define REMOTE                                                                       \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | \
	 IBV_ACCESS_REMOTE_ATOMIC)

#define must(condition)                                                                   \
	do {                                                                              \
		if (!(condition)) {                                                       \
			fprintf(stderr, "gone_memory %d %s: line %d: %s: %s\n", getpid(), \
				under_test, __LINE__, #condition, strerror(errno));       \
			_exit(2);                                                         \
		}                                                                         \
	} while (0)

static const char *under_test = "";

/* The memory that becomes inaccessible belongs to the owner of the region, or to the requester. */
enum side { OWNERS, REQUESTERS };

static const struct operation {
	const char *name;
	enum ibv_wr_opcode opcode;
	enum side side;
	uint32_t bytes;
	bool writes; /* to the memory that becomes inaccessible */
} operations[] = {
	{"write", IBV_WR_RDMA_WRITE, OWNERS, SMALL, true},
	{"long write", IBV_WR_RDMA_WRITE, OWNERS, 2 * PAGE, true},
	{"read", IBV_WR_RDMA_READ, OWNERS, SMALL, false},
	{"long read", IBV_WR_RDMA_READ, OWNERS, 2 * PAGE, false},
	{"atomic", IBV_WR_ATOMIC_FETCH_AND_ADD, OWNERS, 8, true},
	{"receive", IBV_WR_SEND, OWNERS, SMALL, true},
	{"long receive", IBV_WR_SEND, OWNERS, 2 * PAGE, true},
	{"own write", IBV_WR_RDMA_WRITE, REQUESTERS, SMALL, false},
	{"own long write", IBV_WR_RDMA_WRITE, REQUESTERS, 2 * PAGE, false},
	{"own read", IBV_WR_RDMA_READ, REQUESTERS, SMALL, true},
	{"own long read", IBV_WR_RDMA_READ, REQUESTERS, 2 * PAGE, true},
	{"own atomic", IBV_WR_ATOMIC_FETCH_AND_ADD, REQUESTERS, 8, true},
	{"own send", IBV_WR_SEND, REQUESTERS, SMALL, false},
	{"own long send", IBV_WR_SEND, REQUESTERS, 2 * PAGE, false},
};

#define OPERATIONS (sizeof(operations) / sizeof(operations[0]))

/* The first byte of an access is before the broken page if it is long. */
static uint64_t place_of(const struct operation *operation)
{
	return operation->bytes > PAGE ? BROKEN * PAGE - PAGE + 8 : BROKEN * PAGE + 8;
}

static bool is_allowed(const struct operation *operation, const char *change)
{
	return !strcmp(change, "read-only") && !operation->writes;
}

static uint8_t *memory_open(const char *change)
{
	bool has_file = !strcmp(change, "cut");
	int fd = has_file ? memfd_create("cut", MFD_CLOEXEC) : -1;
	uint8_t *at;

	must(!has_file || (fd >= 0 && !ftruncate(fd, BYTES)));
	at = mmap(NULL, BYTES, PROT_READ | PROT_WRITE,
		  has_file ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS, fd, 0);
	must(at != MAP_FAILED);
	/* Every page is there, as after a use of it. */
	memset(at, 0x11, BYTES);
	if (has_file)
		must(dup2(fd, 100) == 100 && !close(fd));
	return at;
}

static void memory_break(uint8_t *at, const char *change)
{
	uint8_t *page = at + BROKEN * PAGE;

	if (!strcmp(change, "none"))
		must(!mprotect(page, PAGE, PROT_NONE));
	else if (!strcmp(change, "read-only"))
		must(!mprotect(page, PAGE, PROT_READ));
	else if (!strcmp(change, "unmapped"))
		must(!munmap(page, PAGE));
	else if (!strcmp(change, "cut"))
		must(!ftruncate(100, BROKEN * PAGE));
	else
		must(!madvise(page, PAGE, MADV_GUARD_INSTALL));
}

static volatile sig_atomic_t handled;

static void on_fault(int number)
{
	(void)number;
	handled++;
	_exit(3);
}

static void install_handlers(void)
{
	must(signal(SIGSEGV, on_fault) != SIG_ERR && signal(SIGBUS, on_fault) != SIG_ERR);
}

static struct rdma_cm_id *endpoint(const char *address, int flags)
{
	struct rdma_addrinfo hints = {.ai_port_space = RDMA_PS_TCP, .ai_flags = flags}, *info;
	struct ibv_qp_init_attr attr = {
		.cap = {.max_send_wr = 4,
			.max_recv_wr = 4,
			.max_send_sge = 2,
			.max_recv_sge = 2,
			.max_inline_data = 64},
		.sq_sig_all = 1,
	};
	struct rdma_cm_id *id;

	must(!rdma_getaddrinfo(address, PORT, &hints, &info));
	must(!rdma_create_ep(&id, info, NULL, &attr));
	rdma_freeaddrinfo(info);
	return id;
}

struct region {
	uint64_t addr;
	uint32_t rkey;
};

static enum ibv_wc_status post(struct rdma_cm_id *id, const struct operation *operation,
			       uint64_t from, uint32_t lkey, uint64_t to, uint32_t rkey)
{
	struct ibv_sge sge = {from, operation->bytes, lkey};
	struct ibv_send_wr wr = {.opcode = operation->opcode, .sg_list = &sge, .num_sge = 1}, *bad;
	struct ibv_wc wc;
	int n;

	if (operation->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr.wr.atomic.remote_addr = to;
		wr.wr.atomic.rkey = rkey;
	} else {
		wr.wr.rdma.remote_addr = to;
		wr.wr.rdma.rkey = rkey;
	}
	must(!ibv_post_send(id->qp, &wr, &bad));
	while (!(n = ibv_poll_cq(id->send_cq, 1, &wc)))
		;
	must(n == 1);
	return wc.status;
}

/* Inline data is read by the call. */
static void post_inline(struct rdma_cm_id *id, uint64_t from, const struct region *region)
{
	struct ibv_sge sge = {from, SMALL, 0};
	struct ibv_send_wr wr = {.opcode = IBV_WR_RDMA_WRITE,
				 .send_flags = IBV_SEND_INLINE,
				 .sg_list = &sge,
				 .num_sge = 1},
			   *bad = NULL;

	wr.wr.rdma.remote_addr = region->addr;
	wr.wr.rdma.rkey = region->rkey;
	must(ibv_post_send(id->qp, &wr, &bad) == EFAULT && bad == &wr);
}

static void be_requester(const char *address, const struct operation *operation, const char *change,
			 const char *program, int go, int ready)
{
	struct rdma_conn_param param = {
		.initiator_depth = 1, .responder_resources = 1, .retry_count = 7};
	enum ibv_wc_status expected = IBV_WC_SUCCESS, status;
	uint64_t place = place_of(operation), own, remote;
	struct rdma_cm_id *id;
	struct region region;
	struct ibv_mr *mr;
	uint8_t *memory;
	char byte;

	must(read(go, &byte, 1) == 1);
	id = endpoint(address, 0);
	must(!rdma_connect(id, &param));
	memcpy(&region, id->event->param.conn.private_data, sizeof(region));
	memory = memory_open(change);
	mr = ibv_reg_mr(id->pd, memory, BYTES, IBV_ACCESS_LOCAL_WRITE);
	must(mr);
	/* The path of the accesses is chosen, and their memory is mapped if it can be. */
	if (operation->opcode != IBV_WR_SEND) {
		for (int i = 0; i < (strcmp(program, "later") ? 1 : WARM); i++)
			must(post(id, operation, (uintptr_t)memory, mr->lkey, region.addr,
				  region.rkey) == IBV_WC_SUCCESS);
	}
	if (!strcmp(program, "later")) {
		install_handlers();
		for (int i = 0; i < WARM && operation->opcode != IBV_WR_SEND; i++)
			must(post(id, operation, (uintptr_t)memory, mr->lkey, region.addr,
				  region.rkey) == IBV_WC_SUCCESS);
	}
	if (operation->side == REQUESTERS)
		memory_break(memory, change);
	must(write(ready, "", 1) == 1);
	must(read(go, &byte, 1) == 1);
	own = (uintptr_t)memory + (operation->side == REQUESTERS ? place : 0);
	remote = region.addr + (operation->side == OWNERS ? place : 0);
	if (operation->side == REQUESTERS && strcmp(change, "read-only"))
		post_inline(id, (uintptr_t)memory + BROKEN * PAGE, &region);
	status = post(id, operation, own, mr->lkey, remote, region.rkey);
	if (!is_allowed(operation, change))
		expected = operation->side == OWNERS ? IBV_WC_REM_OP_ERR : IBV_WC_LOC_PROT_ERR;
	if (status != expected)
		fprintf(stderr, "%s: %s instead of %s\n", operation->name,
			ibv_wc_status_str(status), ibv_wc_status_str(expected));
	must(status == expected);
	must(write(ready, "", 1) == 1);
	rdma_disconnect(id);
	_exit(0);
}

/*
 * The owner waits in a system call, so that the thread of the library accesses the memory, or polls
 * itself.
 */
static void wait_for_end(struct rdma_cm_id *id, bool polls, int ready)
{
	struct ibv_wc wc;
	char byte;

	if (!polls) {
		must(read(ready, &byte, 1) == 1);
		return;
	}
	for (;;) {
		fd_set set;
		struct timeval now = {0};

		FD_ZERO(&set);
		FD_SET(ready, &set);
		if (select(ready + 1, &set, NULL, NULL, &now) == 1)
			break;
		must(ibv_poll_cq(id->recv_cq, 1, &wc) >= 0);
	}
	must(read(ready, &byte, 1) == 1);
}

static void be_owner(const char *address, const struct operation *operation, const char *change,
		     const char *program, bool polls, int go, int ready)
{
	struct rdma_conn_param param = {.responder_resources = 1, .initiator_depth = 1};
	struct rdma_cm_id *listener = endpoint(address, RAI_PASSIVE), *id;
	uint8_t *memory = memory_open(change);
	struct region region = {.addr = (uintptr_t)memory};
	struct ibv_mr *mr;
	char byte;

	must(!rdma_listen(listener, 1));
	must(write(go, "", 1) == 1);
	must(!rdma_get_request(listener, &id));
	mr = ibv_reg_mr(id->pd, memory, BYTES, REMOTE);
	must(mr);
	region.rkey = mr->rkey;
	param.private_data = &region;
	param.private_data_len = sizeof(region);
	if (operation->opcode == IBV_WR_SEND)
		must(!rdma_post_recv(id, NULL,
				     memory + (operation->side == OWNERS ? place_of(operation) : 0),
				     operation->bytes, mr));
	must(!rdma_accept(id, &param));
	must(read(ready, &byte, 1) == 1);
	if (!strcmp(program, "later"))
		install_handlers();
	if (operation->side == OWNERS)
		memory_break(memory, change);
	must(write(go, "", 1) == 1);
	wait_for_end(id, polls, ready);
	must(!handled);
	rdma_destroy_ep(id);
	must(!ibv_dereg_mr(mr) || errno == EINVAL);
	rdma_destroy_ep(listener);
	_exit(0);
}

static void prepare(const char *program)
{
	sigset_t all;

	/* AddressSanitizer has handlers. */
	must(signal(SIGSEGV, SIG_DFL) != SIG_ERR && signal(SIGBUS, SIG_DFL) != SIG_ERR);
	if (!strcmp(program, "handler"))
		install_handlers();
	sigfillset(&all);
	if (!strcmp(program, "blocked"))
		must(!sigprocmask(SIG_BLOCK, &all, NULL));
	if (!strcmp(program, "off"))
		must(!setenv("USRDMA_FAULT_HANDLER", "off", 1));
}

static void run(const char *address, const struct operation *operation, const char *change,
		const char *program, bool polls)
{
	int go[2], ready[2], status[2];
	pid_t pids[2];

	must(!pipe(go) && !pipe(ready));
	for (int i = 0; i < 2; i++) {
		pids[i] = fork();
		must(pids[i] >= 0);
		if (pids[i])
			continue;
		under_test = operation->name;
		prepare(program);
		if (i)
			be_requester(address, operation, change, program, go[0], ready[1]);
		be_owner(address, operation, change, program, polls, go[1], ready[0]);
	}
	for (int i = 0; i < 2; i++)
		must(waitpid(pids[i], &status[i], 0) == pids[i]);
	if (status[0] || status[1])
		fprintf(stderr, "%s: owner status 0x%x, requester status 0x%x\n", operation->name,
			(unsigned int)status[0], (unsigned int)status[1]);
	must(!status[0] && !status[1]);
	for (int i = 0; i < 2; i++) {
		close(go[i]);
		close(ready[i]);
	}
}

int main(int argc, char **argv)
{
	if (argc != 4)
		return 2;
	for (size_t i = 0; i < OPERATIONS; i++)
		run(argv[1], &operations[i], argv[2], argv[3], i % 2);
	printf("the processes survived\n");
	return 0;
}
