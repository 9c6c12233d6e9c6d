/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Queue pairs controlled by a test: one command in each line of standard input, one line of output
 * for each command.
 *
 *	target DEVICE GID_INDEX
 *
 *	info				"GID ADDRESS RKEY BYTES" of the buffer of all queue pairs
 *	new TYPE			creates a queue pair, rc, uc or ud, in INIT: "INDEX QPN"
 *	connect INDEX QPN GID PSN SENDS	to RTS; PSN: expected from the peer, SENDS: first own
 *					PSN; no ACK timeout
 *	recv INDEX BYTES		posts a receive of BYTES bytes
 *	post INDEX OPCODE OFFSET BYTES REMOTE_ADDRESS RKEY
 *					posts send, write, read or add, from or to buffer +
 *					OFFSET
 *	sent INDEX, received INDEX	waits for the next completion: its status and, of a
 *					receive, the bytes
 *	pending INDEX			number of unread completions of both CQs, which it discards
 *	fill OFFSET BYTES SEED, sum OFFSET BYTES
 *					fills the buffer, or computes its checksum
 *	state INDEX, event		"RTS", "QP_ACCESS_ERR" or "none"
 *	destroy INDEX
 *
 * Public verbs only. Receives of queue pair n go to its own part of the buffer's second half.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <poll.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define QPS_MAX	   4096
#define BUF_BYTES  (1u << 20)
#define RECV_BASE  (BUF_BYTES / 2)
#define SLOT_BYTES 4096u
#define DEPTH	   64
#define WAIT_S	   20
#define QKEY	   0x11112222u
#define WORDS_MAX  8

struct target {
	struct ibv_qp *qp;
	struct ibv_cq *send_cq;
	struct ibv_cq *recv_cq;
	struct ibv_ah *ah;
	uint32_t remote_qpn;
	unsigned int received;
};

static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_mr *mr;
static uint8_t *buf;
static int gid_index;
static struct target targets[QPS_MAX];
static int target_count;

static void __attribute__((format(printf, 1, 2), noreturn)) die(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fprintf(stderr, ": %s\n", strerror(errno));
	exit(EXIT_FAILURE);
}

static void __attribute__((format(printf, 1, 2))) response(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vprintf(format, args);
	va_end(args);
	putchar('\n');
	fflush(stdout);
}

static uint64_t number(const char *word)
{
	char *end;
	uint64_t value = strtoull(word ? word : "", &end, 0);

	if (!word || end == word || *end)
		die("\"%s\" is no number", word ? word : "");
	return value;
}

static struct target *target_of(const char *word)
{
	uint64_t index = number(word);

	if (index >= (uint64_t)target_count)
		die("no queue pair %s", word);
	return &targets[index];
}

static uint8_t *part_of(const char *offset, const char *bytes)
{
	if (number(offset) > BUF_BYTES || number(bytes) > BUF_BYTES - number(offset))
		die("outside the buffer");
	return buf + number(offset);
}

static void open_device(const char *name)
{
	struct ibv_device **list = ibv_get_device_list(NULL);

	for (int i = 0; list && list[i]; i++) {
		if (!strcmp(ibv_get_device_name(list[i]), name))
			context = ibv_open_device(list[i]);
	}
	if (!context)
		die("%s", name);
	ibv_free_device_list(list);
	pd = ibv_alloc_pd(context);
	buf = calloc(1, BUF_BYTES);
	if (pd && buf)
		mr = ibv_reg_mr(pd, buf, BUF_BYTES,
				IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
					IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC);
	if (!mr || fcntl(context->async_fd, F_SETFL, O_NONBLOCK))
		die("%s", name);
}

static void command_info(char **words)
{
	char text[INET6_ADDRSTRLEN];
	union ibv_gid gid;

	(void)words;
	if (ibv_query_gid(context, 1, gid_index, &gid))
		die("GID %d", gid_index);
	inet_ntop(AF_INET6, gid.raw, text, sizeof(text));
	response("%s %llu %u %u", text, (unsigned long long)(uintptr_t)buf, mr->rkey, BUF_BYTES);
}

static enum ibv_qp_type type_of(const char *word)
{
	if (word && !strcmp(word, "rc"))
		return IBV_QPT_RC;
	if (word && !strcmp(word, "uc"))
		return IBV_QPT_UC;
	if (word && !strcmp(word, "ud"))
		return IBV_QPT_UD;
	die("no type \"%s\"", word ? word : "");
}

static void to_init(struct target *target)
{
	bool is_ud = target->qp->qp_type == IBV_QPT_UD;
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT,
		.port_num = 1,
		.qkey = QKEY,
		.qp_access_flags = target->qp->qp_type == IBV_QPT_RC ?
					   IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
						   IBV_ACCESS_REMOTE_ATOMIC :
					   IBV_ACCESS_REMOTE_WRITE,
	};

	if (ibv_modify_qp(target->qp, &attr,
			  IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
				  (is_ud ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS)))
		die("INIT");
}

static void command_new(char **words)
{
	struct target *target = &targets[target_count];
	struct ibv_qp_init_attr attr = {
		.cap = {.max_send_wr = DEPTH,
			.max_recv_wr = DEPTH,
			.max_send_sge = 1,
			.max_recv_sge = 1},
		.qp_type = type_of(words[0]),
		.sq_sig_all = 1,
	};

	if (target_count == QPS_MAX)
		die("too many queue pairs");
	target->send_cq = ibv_create_cq(context, DEPTH, NULL, NULL, 0);
	target->recv_cq = ibv_create_cq(context, DEPTH, NULL, NULL, 0);
	attr.send_cq = target->send_cq;
	attr.recv_cq = target->recv_cq;
	target->qp = target->send_cq && target->recv_cq ? ibv_create_qp(pd, &attr) : NULL;
	if (!target->qp)
		die("queue pair");
	to_init(target);
	response("%d %u", target_count++, target->qp->qp_num);
}

static int to_rtr(struct target *target, const struct ibv_ah_attr *ah, uint32_t psn)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = target->remote_qpn,
		.rq_psn = psn,
		.max_dest_rd_atomic = 4,
		.min_rnr_timer = 1,
		.ah_attr = *ah,
	};
	int mask = IBV_QP_STATE;

	if (target->qp->qp_type != IBV_QPT_UD)
		mask |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
	if (target->qp->qp_type == IBV_QPT_RC)
		mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
	return ibv_modify_qp(target->qp, &attr, mask);
}

static int to_rts(struct target *target, uint32_t psn)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTS,
		.sq_psn = psn,
		.retry_cnt = 7,
		.rnr_retry = 7,
		.max_rd_atomic = 4,
	};
	int mask = IBV_QP_STATE | IBV_QP_SQ_PSN;

	if (target->qp->qp_type == IBV_QPT_RC)
		mask |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
			IBV_QP_MAX_QP_RD_ATOMIC;
	return ibv_modify_qp(target->qp, &attr, mask);
}

static void command_connect(char **words)
{
	struct target *target = target_of(words[0]);
	struct ibv_ah_attr ah = {.is_global = 1, .port_num = 1};

	target->remote_qpn = (uint32_t)number(words[1]);
	if (!words[2] || inet_pton(AF_INET6, words[2], ah.grh.dgid.raw) != 1)
		die("GID");
	ah.grh.sgid_index = (uint8_t)gid_index;
	ah.grh.hop_limit = 64;
	if (to_rtr(target, &ah, (uint32_t)number(words[3])) ||
	    to_rts(target, (uint32_t)number(words[4])))
		die("connect");
	if (target->qp->qp_type == IBV_QPT_UD) {
		target->ah = ibv_create_ah(pd, &ah);
		if (!target->ah)
			die("address handle");
	}
	response("ok");
}

static uint8_t *slot_of(const struct target *target, uint64_t wr_id)
{
	size_t slots = (BUF_BYTES - RECV_BASE) / SLOT_BYTES;

	return buf + RECV_BASE + ((size_t)(target - targets) * 7 + wr_id) % slots * SLOT_BYTES;
}

static void command_recv(char **words)
{
	struct target *target = target_of(words[0]);
	struct ibv_sge sge = {.length = (uint32_t)number(words[1]), .lkey = mr->lkey};
	struct ibv_recv_wr wr = {.wr_id = target->received, .sg_list = &sge, .num_sge = 1}, *bad;

	if (sge.length > SLOT_BYTES)
		die("a receive that is too long");
	sge.addr = (uintptr_t)slot_of(target, target->received++);
	errno = ibv_post_recv(target->qp, &wr, &bad);
	if (errno)
		die("ibv_post_recv");
	response("ok");
}

static enum ibv_wr_opcode opcode_of(const char *word)
{
	static const struct {
		const char *name;
		enum ibv_wr_opcode opcode;
	} opcodes[] = {
		{"send", IBV_WR_SEND},
		{"write", IBV_WR_RDMA_WRITE},
		{"read", IBV_WR_RDMA_READ},
		{"add", IBV_WR_ATOMIC_FETCH_AND_ADD},
	};

	for (size_t i = 0; i < sizeof(opcodes) / sizeof(opcodes[0]); i++) {
		if (word && !strcmp(word, opcodes[i].name))
			return opcodes[i].opcode;
	}
	die("no opcode \"%s\"", word ? word : "");
}

static void command_post(char **words)
{
	struct target *target = target_of(words[0]);
	struct ibv_sge sge = {.lkey = mr->lkey};
	struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1}, *bad;

	wr.opcode = opcode_of(words[1]);
	sge.addr = (uintptr_t)part_of(words[2], words[3]);
	sge.length = (uint32_t)number(words[3]);
	if (target->qp->qp_type == IBV_QPT_UD) {
		wr.wr.ud.ah = target->ah;
		wr.wr.ud.remote_qpn = target->remote_qpn;
		wr.wr.ud.remote_qkey = QKEY;
	} else if (wr.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr.wr.atomic.remote_addr = number(words[4]);
		wr.wr.atomic.rkey = (uint32_t)number(words[5]);
		wr.wr.atomic.compare_add = 1;
	} else if (wr.opcode != IBV_WR_SEND) {
		wr.wr.rdma.remote_addr = number(words[4]);
		wr.wr.rdma.rkey = (uint32_t)number(words[5]);
	}
	errno = ibv_post_send(target->qp, &wr, &bad);
	if (errno)
		die("ibv_post_send");
	response("ok");
}

static bool wait_for(struct ibv_cq *cq, struct ibv_wc *wc)
{
	time_t deadline = time(NULL) + WAIT_S;
	int n;

	do {
		n = ibv_poll_cq(cq, 1, wc);
		if (n < 0)
			die("ibv_poll_cq");
		if (!n)
			poll(NULL, 0, 0);
	} while (!n && time(NULL) < deadline);
	return n == 1;
}

static void command_sent(char **words)
{
	struct ibv_wc wc;

	if (wait_for(target_of(words[0])->send_cq, &wc))
		response("%s", ibv_wc_status_str(wc.status));
	else
		response("nothing");
}

static void command_received(char **words)
{
	const struct target *target = target_of(words[0]);
	struct ibv_wc wc;
	const uint8_t *at;

	if (!wait_for(target->recv_cq, &wc)) {
		response("nothing");
		return;
	}
	at = slot_of(target, wc.wr_id);
	printf("%s ", ibv_wc_status_str(wc.status));
	for (uint32_t i = 0; wc.status == IBV_WC_SUCCESS && i < wc.byte_len; i++)
		printf("%02x", at[i]);
	response("%s", "");
}

static void command_pending(char **words)
{
	const struct target *target = target_of(words[0]);
	struct ibv_wc wcs[DEPTH];

	response("%d", ibv_poll_cq(target->send_cq, DEPTH, wcs) +
			       ibv_poll_cq(target->recv_cq, DEPTH, wcs));
}

static void command_fill(char **words)
{
	uint8_t *at = part_of(words[0], words[1]);
	uint8_t seed = (uint8_t)number(words[2]);

	for (uint64_t i = 0; i < number(words[1]); i++)
		at[i] = (uint8_t)(seed + i * 3);
	response("ok");
}

static void command_sum(char **words)
{
	const uint8_t *at = part_of(words[0], words[1]);
	uint64_t sum = 0;

	for (uint64_t i = 0; i < number(words[1]); i++)
		sum += (i + 1) * at[i];
	response("%llu", (unsigned long long)sum);
}

static void command_state(char **words)
{
	static const char *const names[] = {"RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR"};
	struct ibv_qp_init_attr init_attr;
	struct ibv_qp_attr attr;

	if (ibv_query_qp(target_of(words[0])->qp, &attr, IBV_QP_STATE, &init_attr))
		die("ibv_query_qp");
	response("%s", names[attr.qp_state]);
}

static void command_event(char **words)
{
	static const struct {
		enum ibv_event_type type;
		const char *name;
	} events[] = {
		{IBV_EVENT_QP_FATAL, "QP_FATAL"},
		{IBV_EVENT_QP_REQ_ERR, "QP_REQ_ERR"},
		{IBV_EVENT_QP_ACCESS_ERR, "QP_ACCESS_ERR"},
		{IBV_EVENT_COMM_EST, "COMM_EST"},
	};
	struct ibv_async_event event;
	const char *name = "another";

	(void)words;
	if (ibv_get_async_event(context, &event)) {
		response("none");
		return;
	}
	for (size_t i = 0; i < sizeof(events) / sizeof(events[0]); i++) {
		if (events[i].type == event.event_type)
			name = events[i].name;
	}
	ibv_ack_async_event(&event);
	response("%s", name);
}

static void command_destroy(char **words)
{
	struct target *target = target_of(words[0]);

	if ((target->ah && ibv_destroy_ah(target->ah)) || ibv_destroy_qp(target->qp) ||
	    ibv_destroy_cq(target->send_cq) || ibv_destroy_cq(target->recv_cq))
		die("destroy");
	response("ok");
}

static const struct {
	const char *name;
	void (*run)(char **words);
} commands[] = {
	{"info", command_info},	      {"new", command_new},	      {"connect", command_connect},
	{"recv", command_recv},	      {"post", command_post},	      {"sent", command_sent},
	{"fill", command_fill},	      {"received", command_received}, {"pending", command_pending},
	{"sum", command_sum},	      {"state", command_state},	      {"event", command_event},
	{"destroy", command_destroy},
};

/* Splits the line into words; missing words are NULL. */
static void run(char *line)
{
	char *words[WORDS_MAX] = {NULL};
	char *rest = NULL;

	for (int i = 0; i < WORDS_MAX; i++) {
		words[i] = strtok_r(i ? NULL : line, " \n", &rest);
		if (!words[i])
			break;
	}
	for (size_t i = 0; words[0] && i < sizeof(commands) / sizeof(commands[0]); i++) {
		if (!strcmp(words[0], commands[i].name)) {
			commands[i].run(words + 1);
			return;
		}
	}
	die("no command \"%s\"", words[0] ? words[0] : "");
}

int main(int argc, char **argv)
{
	char line[512];

	if (argc != 3)
		die("target DEVICE GID_INDEX");
	gid_index = (int)number(argv[2]);
	open_device(argv[1]);
	while (fgets(line, sizeof(line), stdin))
		run(line);
	return EXIT_SUCCESS;
}
