/* SPDX-License-Identifier: BSD-2-Clause */
/*
 *	storm ADDRESS PORT PROCESSES SECONDS SEED
 *
 * Each process listens on a port of its own, from PORT on, and connects, accepts, rejects, sends,
 * disconnects, destroys ids and exits at random. Processes that ended are replaced, and some are
 * killed or stopped at random times. At the end all clean up. The exit status is 0 if each process
 * could clean up and all other errors were caused by the end of a peer. The random numbers follow
 * from the seed; the results also depend on the scheduling of the processes.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "endpoint.h"

#define CONNECTIONS_MAX	   24
#define MESSAGE_BYTES	   64
#define DEPTH		   4
#define CQ_ENTRIES	   (CONNECTIONS_MAX * DEPTH * 2 * 16)
#define RESOLVE_TIMEOUT_MS 5000
#define CLEAN_UP_MS	   60000

/* Counters of all processes, in memory shared with the parent. */
struct tally {
	atomic_uint connects;
	atomic_uint established;
	atomic_uint rejected;
	atomic_uint disconnected;
	atomic_uint messages;
};

/* Parameters of every process; set before the first fork(). */
static struct {
	struct sockaddr_in addr;
	unsigned int port;
	unsigned int processes;
	struct tally *tally;
} field;

static volatile sig_atomic_t is_told_to_end;

static void on_term(int signo)
{
	(void)signo;
	is_told_to_end = 1;
}

/* xorshift64*; each process has its own state. */
static uint64_t dice = 1;

static void seed_dice(uint64_t seed, uint64_t number)
{
	dice = (seed + 1) * UINT64_C(0x9e3779b97f4a7c15) ^
	       (number + 1) * UINT64_C(0xd6e8feb86659fd93);
	if (!dice)
		dice = 1;
}

static unsigned int roll(unsigned int sides)
{
	dice ^= dice >> 12;
	dice ^= dice << 25;
	dice ^= dice >> 27;
	return (unsigned int)(dice * UINT64_C(2685821657736338717) >> 33) % sides;
}

static bool is_one_in(unsigned int sides)
{
	return roll(sides) == 0;
}

/*
 * An id other than the listener; context of its rdma_cm_id. Owned by its element in the worker's
 * array.
 */
struct talk {
	struct rdma_cm_id *id;
	bool is_asked; /* a connection request that was not answered yet */
	bool is_established;
	uint8_t buf[MESSAGE_BYTES];
};

/* One process; single-threaded. */
struct worker {
	unsigned int index;
	struct rdma_event_channel *channel;
	struct rdma_cm_id *listener;
	struct ibv_context *verbs;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_mr *mr; /* buffers of all talks */
	struct talk talks[CONNECTIONS_MAX];
};

static void share(struct worker *worker, struct ibv_context *verbs)
{
	if (worker->verbs)
		return;
	worker->verbs = verbs;
	worker->pd = ibv_alloc_pd(verbs);
	worker->cq = ibv_create_cq(verbs, CQ_ENTRIES, NULL, NULL, 0);
	if (!worker->pd || !worker->cq)
		die("ibv_alloc_pd or ibv_create_cq: %s", strerror(errno));
	worker->mr = ibv_reg_mr(worker->pd, worker->talks, sizeof(worker->talks),
				IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	if (!worker->mr)
		die("ibv_reg_mr: %s", strerror(errno));
}

static struct talk *free_place(struct worker *worker)
{
	for (unsigned int i = 0; i < CONNECTIONS_MAX; i++) {
		if (!worker->talks[i].id)
			return &worker->talks[i];
	}
	return NULL;
}

/* Returns a random talk, or NULL if the selected element has no id. */
static struct talk *some_talk(struct worker *worker)
{
	struct talk *talk = &worker->talks[roll(CONNECTIONS_MAX)];

	return talk->id ? talk : NULL;
}

static void end_talk(struct talk *talk)
{
	struct rdma_cm_id *id = talk->id;

	talk->id = NULL;
	if (id->qp)
		rdma_destroy_qp(id);
	if (rdma_destroy_id(id))
		die("rdma_destroy_id: %s", strerror(errno));
}

/*
 * Daemon and library are never killed. Returns -1 for an error that a peer's end can cause; any
 * other error ends the process.
 */
static int outcome(const char *what, int ret)
{
	if (ret == 0 || errno == EINVAL || errno == EISCONN || errno == ENOTCONN)
		return ret;
	die("%s: %s", what, strerror(errno));
}

static void create_qp(struct worker *worker, struct talk *talk)
{
	struct ibv_qp_init_attr attr = {
		.qp_type = IBV_QPT_RC,
		.cap = {.max_send_wr = DEPTH,
			.max_recv_wr = DEPTH,
			.max_send_sge = 1,
			.max_recv_sge = 1},
	};
	struct ibv_sge sge = {.addr = (uintptr_t)talk->buf, .length = sizeof(talk->buf)};
	struct ibv_recv_wr recv = {.sg_list = &sge, .num_sge = 1}, *bad;

	share(worker, talk->id->verbs);
	attr.send_cq = worker->cq;
	attr.recv_cq = worker->cq;
	sge.lkey = worker->mr->lkey;
	if (rdma_create_qp(talk->id, worker->pd, &attr))
		die("rdma_create_qp: %s", strerror(errno));
	for (unsigned int i = 0; i < DEPTH; i++) {
		if (ibv_post_recv(talk->id->qp, &recv, &bad))
			die("ibv_post_recv");
	}
}

/* Accepts or rejects a request, or destroys its id; false: the talk was ended. */
static bool response(struct worker *worker, struct talk *talk)
{
	struct rdma_conn_param param = {.rnr_retry_count = 7};
	static const char no[] = "no";

	talk->is_asked = false;
	if (is_one_in(5)) {
		(void)outcome("rdma_reject", rdma_reject(talk->id, no, sizeof(no)));
		end_talk(talk);
		return false;
	}
	if (is_one_in(8)) {
		end_talk(talk);
		return false;
	}
	create_qp(worker, talk);
	if (!outcome("rdma_accept", rdma_accept(talk->id, &param)))
		return true;
	end_talk(talk);
	return false;
}

static void send_one(struct worker *worker, struct talk *talk)
{
	struct ibv_sge sge = {.addr = (uintptr_t)talk->buf,
			      .length = sizeof(talk->buf),
			      .lkey = worker->mr->lkey};
	struct ibv_send_wr send = {.sg_list = &sge,
				   .num_sge = 1,
				   .opcode = IBV_WR_SEND,
				   .send_flags = IBV_SEND_SIGNALED},
			   *bad;

	/* A full send queue or a disconnected peer is not an error. */
	if (!ibv_post_send(talk->id->qp, &send, &bad))
		atomic_fetch_add(&field.tally->messages, 1);
}

static void connect_some(struct worker *worker)
{
	struct talk *talk = free_place(worker);
	struct sockaddr_in dst = field.addr;

	if (!talk)
		return;
	dst.sin_port = htons((uint16_t)(field.port + roll(field.processes)));
	if (rdma_create_id(worker->channel, &talk->id, talk, RDMA_PS_TCP))
		die("rdma_create_id: %s", strerror(errno));
	talk->is_asked = false;
	talk->is_established = false;
	if (rdma_resolve_addr(talk->id, NULL, (struct sockaddr *)&dst, RESOLVE_TIMEOUT_MS))
		die("rdma_resolve_addr: %s", strerror(errno));
	atomic_fetch_add(&field.tally->connects, 1);
}

/*
 * Another process may have had the port until it was killed. Then the port has no listener for a
 * while.
 */
static void listen_again(struct worker *worker)
{
	struct sockaddr_in addr = field.addr;

	if (worker->listener) {
		if (rdma_destroy_id(worker->listener))
			die("rdma_destroy_id: %s", strerror(errno));
		worker->listener = NULL;
	}
	addr.sin_port = htons((uint16_t)(field.port + worker->index));
	if (rdma_create_id(worker->channel, &worker->listener, NULL, RDMA_PS_TCP))
		die("rdma_create_id: %s", strerror(errno));
	if (!rdma_bind_addr(worker->listener, (struct sockaddr *)&addr) &&
	    !rdma_listen(worker->listener, (int)roll(16)))
		return;
	if (errno != EADDRINUSE)
		die("rdma_listen: %s", strerror(errno));
	if (rdma_destroy_id(worker->listener))
		die("rdma_destroy_id: %s", strerror(errno));
	worker->listener = NULL;
}

/* Stores the new id of a request; returns it if the caller must destroy it. */
static struct rdma_cm_id *take_request(struct worker *worker, struct rdma_cm_id *id)
{
	struct talk *talk = free_place(worker);

	if (!talk)
		return id;
	*talk = (struct talk){.id = id, .is_asked = true};
	id->context = talk;
	if (!is_one_in(6))
		(void)response(worker, talk);
	return NULL;
}

/* Performs the next step of a talk that this side initiated; false: the talk is to be ended. */
static bool go_on(struct worker *worker, struct talk *talk, enum rdma_cm_event_type event)
{
	struct rdma_conn_param param = {.retry_count = 7, .rnr_retry_count = 7};

	if (is_one_in(12))
		return false;
	if (event == RDMA_CM_EVENT_ADDR_RESOLVED) {
		create_qp(worker, talk);
		return !outcome("rdma_resolve_route",
				rdma_resolve_route(talk->id, RESOLVE_TIMEOUT_MS));
	}
	return !outcome("rdma_connect", rdma_connect(talk->id, &param));
}

/* Returns the id that is to be destroyed after the event has been acknowledged, or NULL. */
static struct rdma_cm_id *act(struct worker *worker, const struct rdma_cm_event *event)
{
	struct talk *talk = event->id->context;
	bool lives = true;

	switch (event->event) {
	case RDMA_CM_EVENT_CONNECT_REQUEST:
		return take_request(worker, event->id);
	case RDMA_CM_EVENT_ADDR_RESOLVED:
	case RDMA_CM_EVENT_ROUTE_RESOLVED:
		lives = go_on(worker, talk, event->event);
		break;
	case RDMA_CM_EVENT_ESTABLISHED:
		atomic_fetch_add(&field.tally->established, 1);
		talk->is_established = true;
		send_one(worker, talk);
		break;
	case RDMA_CM_EVENT_REJECTED:
		atomic_fetch_add(&field.tally->rejected, 1);
		lives = false;
		break;
	case RDMA_CM_EVENT_DISCONNECTED:
		atomic_fetch_add(&field.tally->disconnected, 1);
		lives = false;
		break;
	case RDMA_CM_EVENT_UNREACHABLE:
	case RDMA_CM_EVENT_CONNECT_ERROR:
		lives = false;
		break;
	case RDMA_CM_EVENT_TIMEWAIT_EXIT:
		break;
	default:
		die("event %s with status %d", rdma_event_str(event->event), event->status);
	}
	if (lives)
		return NULL;
	talk->id = NULL;
	return event->id;
}

static void one_event(struct worker *worker)
{
	struct rdma_cm_event *event;
	struct rdma_cm_id *over;
	struct talk place;

	if (rdma_get_cm_event(worker->channel, &event)) {
		if (errno == EAGAIN || errno == EINTR)
			return;
		die("rdma_get_cm_event: %s", strerror(errno));
	}
	over = act(worker, event);
	rdma_ack_cm_event(event);
	if (!over)
		return;
	place.id = over;
	end_talk(&place);
}

static void take_completions(struct worker *worker)
{
	struct ibv_wc wc[16];

	if (worker->cq && ibv_poll_cq(worker->cq, 16, wc) < 0)
		die("ibv_poll_cq");
}

static void clean_up(struct worker *worker)
{
	for (unsigned int i = 0; i < CONNECTIONS_MAX; i++) {
		if (worker->talks[i].id)
			end_talk(&worker->talks[i]);
	}
	if (worker->listener && rdma_destroy_id(worker->listener))
		die("rdma_destroy_id: %s", strerror(errno));
	rdma_destroy_event_channel(worker->channel);
	if (worker->verbs &&
	    (ibv_dereg_mr(worker->mr) || ibv_destroy_cq(worker->cq) || ibv_dealloc_pd(worker->pd)))
		die("what all connections shared is still used");
	exit(0);
}

/* Performs a random action. */
static void whim(struct worker *worker)
{
	struct talk *talk = some_talk(worker);

	switch (roll(12)) {
	case 0:
	case 1:
	case 2:
		connect_some(worker);
		break;
	case 3:
		if (talk && talk->is_established)
			(void)outcome("rdma_disconnect", rdma_disconnect(talk->id));
		break;
	case 4:
		if (talk && is_one_in(2))
			end_talk(talk);
		break;
	case 5:
		if (talk && talk->is_asked)
			(void)response(worker, talk);
		break;
	case 6:
	case 7:
		if (talk && talk->is_established)
			send_one(worker, talk);
		break;
	case 8:
		if (!worker->listener || is_one_in(30))
			listen_again(worker);
		break;
	case 9:
		if (is_one_in(100))
			raise(SIGKILL);
		if (is_one_in(100))
			_exit(0);
		if (is_one_in(50))
			clean_up(worker);
		break;
	default:
		take_completions(worker);
		break;
	}
}

static void work(unsigned int index)
{
	static struct worker worker;
	struct pollfd ready = {.events = POLLIN};

	worker.index = index;
	worker.channel = rdma_create_event_channel();
	if (!worker.channel)
		die("rdma_create_event_channel: %s", strerror(errno));
	ready.fd = worker.channel->fd;
	listen_again(&worker);
	while (!is_told_to_end) {
		if (poll(&ready, 1, (int)roll(4)) == 1)
			one_event(&worker);
		whim(&worker);
	}
	clean_up(&worker);
}

static pid_t spawn(unsigned int index, uint64_t seed, uint64_t number)
{
	pid_t parent = getpid(), pid;

	fflush(stdout);
	pid = fork();
	if (pid < 0)
		die("fork: %s", strerror(errno));
	if (pid > 0)
		return pid;
	/* The kernel kills the process if its parent ends. */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(1);
	seed_dice(seed, number);
	work(index);
	_exit(1);
}

/* Checks the exit status of a process: cleaned up, exited without cleanup, or killed. */
static void check_end(pid_t pid, int status)
{
	if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
		return;
	if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL)
		return;
	die("process %ld ended with status 0x%x", (long)pid, (unsigned int)status);
}

static void replace_dead(pid_t *pids, uint64_t seed, uint64_t *number)
{
	int status;
	pid_t pid;

	while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
		check_end(pid, status);
		for (unsigned int i = 0; i < field.processes; i++) {
			if (pids[i] == pid)
				pids[i] = spawn(i, seed, ++*number);
		}
	}
}

/* Requests all processes to clean up and waits for their end. */
static void end_all(const pid_t *pids)
{
	uint64_t deadline_ms = now_ms() + CLEAN_UP_MS;
	unsigned int left = field.processes;
	int status;

	for (unsigned int i = 0; i < field.processes; i++) {
		kill(pids[i], SIGTERM);
		kill(pids[i], SIGCONT);
	}
	while (left > 0) {
		pid_t pid = waitpid(-1, &status, WNOHANG);

		if (pid > 0) {
			check_end(pid, status);
			left--;
			continue;
		}
		if (now_ms() > deadline_ms)
			die("%u processes do not come to their end", left);
		usleep(1000);
	}
}

static void storm(unsigned int seconds, uint64_t seed)
{
	pid_t *pids = calloc(field.processes, sizeof(*pids));
	uint64_t deadline_ms = now_ms() + seconds * UINT64_C(1000);
	uint64_t number = 0;
	unsigned int killed = 0;

	if (!pids)
		die("no memory");
	seed_dice(seed, UINT64_MAX - 1);
	for (unsigned int i = 0; i < field.processes; i++)
		pids[i] = spawn(i, seed, ++number);
	while (now_ms() < deadline_ms) {
		pid_t victim = pids[roll(field.processes)];

		usleep(1000 * (1 + roll(30)));
		if (is_one_in(3)) {
			kill(victim, is_one_in(2) ? SIGSTOP : SIGCONT);
		} else {
			kill(victim, SIGKILL);
			killed++;
		}
		replace_dead(pids, seed, &number);
	}
	end_all(pids);
	free(pids);
	say("processes %llu killed %u connects %u established %u rejected %u disconnected %u "
	    "messages %u",
	    (unsigned long long)number, killed, field.tally->connects, field.tally->established,
	    field.tally->rejected, field.tally->disconnected, field.tally->messages);
}

int main(int argc, char **argv)
{
	struct sigaction term = {.sa_handler = on_term};

	if (argc != 6 || inet_pton(AF_INET, argv[1], &field.addr.sin_addr) != 1)
		die("usage: storm ADDRESS PORT PROCESSES SECONDS SEED");
	field.addr.sin_family = AF_INET;
	field.port = (unsigned int)strtoul(argv[2], NULL, 0);
	field.processes = (unsigned int)strtoul(argv[3], NULL, 0);
	field.tally = mmap(NULL, sizeof(*field.tally), PROT_READ | PROT_WRITE,
			   MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (!field.processes || field.tally == MAP_FAILED)
		die("no processes or no memory");
	sigaction(SIGTERM, &term, NULL);
	storm((unsigned int)strtoul(argv[4], NULL, 0), strtoull(argv[5], NULL, 0));
	return 0;
}
