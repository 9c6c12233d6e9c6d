/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Every trace point of the libraries writes its line, and every fault point has the effect of each
 * action that it supports. Effects that depend on virtual time or on counters are checked in
 * tests/unit/roce/test_probe.c. A process reads USRDMA_LOG and USRDMA_FAULT once, so each case runs
 * in a process of its own: this program, executed again with the case's name. The first process
 * checks its exit status and its standard error.
 */
#include "datagram.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <rdma/rdma_cma.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define MESSAGE_BYTES	    1000
#define OUTPUT_BYTES	    (1u << 20)
#define WORDS_MAX	    10
#define VENDOR_ERR_INJECTED 23
#define IPC_DELAY_NS	    2000000u

/* Parts of lines of the trace. */
#define RETRANSMITTED "retransmission: qpn 0x"
#define SENT_REQUEST  "packet sent: rc send only qpn 0x"

struct probe_case {
	const char *name;
	const char *transport; /* USRDMA_TRANSPORT, "": unset */
	const char *fault;     /* USRDMA_FAULT, "": unset */
	void (*run)(void **state);
	const char *words[WORDS_MAX]; /* each must be in the trace, in any order */
};

/* The text behind the first occurrence of `word`, or NULL. */
static const char *after(const char *text, const char *word)
{
	const char *at = text ? strstr(text, word) : NULL;

	return at ? at + strlen(word) : NULL;
}

/* The time of the line of the first occurrence of `word`, in ns; 0: no such line. */
static uint64_t time_of(const char *trace, const char *word)
{
	const char *at = trace ? strstr(trace, word) : NULL;
	unsigned long long s, ns;

	while (at && at > trace && at[-1] != '\n')
		at--;
	at = at ? strstr(at, " trace: ") : NULL;
	return at && sscanf(at, " trace: %llu.%llu", &s, &ns) == 2 ? s * 1000000000 + ns : 0;
}

/*
 * The first "packet sent" of a request is followed by one with the same PSN, without a
 * retransmission in between.
 */
static bool has_sent_a_request_twice(const char *trace)
{
	const char *first = after(trace, SENT_REQUEST), *second = after(first, SENT_REQUEST);
	unsigned int qpn, psn, other_qpn, other_psn;

	return second && sscanf(first, "%x psn %u", &qpn, &psn) == 2 &&
	       sscanf(second, "%x psn %u", &other_qpn, &other_psn) == 2 && qpn == other_qpn &&
	       psn == other_psn &&
	       memmem(first, (size_t)(second - first), RETRANSMITTED, strlen(RETRANSMITTED)) ==
		       NULL;
}

/*
 * sys_sleep_ns() sleeps at least for the delay, so the bound is exact on a loaded machine as well.
 */
static bool has_delayed_the_request(const char *trace)
{
	uint64_t fault_ns = time_of(trace, "fault: ipc.call delay pass 1 ");
	uint64_t request_ns = time_of(after(trace, "fault: ipc.call delay pass 1 "),
				      "ipc request: ");

	return fault_ns && request_ns >= fault_ns + IPC_DELAY_NS;
}

/* Sends a message from side a to side b, and checks that it arrives complete and once. */
static void send_arrives(struct pair *pair, uint64_t wr_id)
{
	struct ibv_sge sge = sge_of(&pair->a, 0, MESSAGE_BYTES);
	struct ibv_sge recv = sge_of(&pair->b, 0, MESSAGE_BYTES);
	struct ibv_send_wr wr = send_wr(IBV_WR_SEND, &sge, NULL, 0, wr_id);

	fill_pattern(pair->a.buf, MESSAGE_BYTES, (uint8_t)wr_id);
	post_recv_ok(&pair->b, &recv, 1, wr_id);
	post_send_ok(&pair->a, &wr);
	wc_expect(pair->a.cq, wr_id, IBV_WC_SUCCESS);
	wc_expect(pair->b.cq, wr_id, IBV_WC_SUCCESS);
	assert_memory_equal(pair->b.buf, pair->a.buf, MESSAGE_BYTES);
	wc_none(pair->b.cq);
}

static void fault_messages_arrive(void **state)
{
	struct pair pair;

	pair_open(&pair, *state, NULL);
	for (uint64_t i = 1; i <= 3; i++)
		send_arrives(&pair, i);
	pair_close(&pair);
}

static void message_and_error(void **state)
{
	struct ibv_send_wr wr;
	struct ibv_sge sge;
	struct pair pair;

	pair_open(&pair, *state, NULL);
	send_arrives(&pair, 1);
	sge = sge_of(&pair.a, 0, 8);
	sge.lkey ^= 0xff00;
	wr = send_wr(IBV_WR_SEND, &sge, NULL, 0, 0x77);
	post_send_ok(&pair.a, &wr);
	wc_expect(pair.a.cq, 0x77, IBV_WC_LOC_PROT_ERR);
	pair_close(&pair);
}

static void fault_second_post_fails(void **state)
{
	struct ibv_send_wr wr, *bad = NULL;
	struct pair pair;

	pair_open(&pair, *state, NULL);
	send_arrives(&pair, 1);
	wr = send_wr(IBV_WR_RDMA_WRITE, NULL, NULL, 0, 2);
	assert_int_equal(ibv_post_send(pair.a.qp, &wr, &bad), ENOMEM);
	assert_ptr_equal(bad, &wr);
	send_arrives(&pair, 3);
	pair_close(&pair);
}

static void fault_second_wr_fails(void **state)
{
	struct pair_options options = {.is_sig_all = false};
	struct ibv_send_wr wr;
	struct pair pair;
	struct ibv_wc wc;

	pair_open(&pair, *state, &options);
	send_arrives(&pair, 1);
	wr = send_wr(IBV_WR_RDMA_WRITE, NULL, NULL, 0, 2);
	wr.send_flags = 0;
	post_send_ok(&pair.a, &wr);
	wc = wc_expect(pair.a.cq, 2, IBV_WC_REM_ACCESS_ERR);
	assert_int_equal(wc.vendor_err, VENDOR_ERR_INJECTED);
	assert_int_equal(qp_state(pair.a.qp), IBV_QPS_ERR);
	pair_close(&pair);
}

static void fault_second_datagram_fails(void **state)
{
	struct ibv_send_wr wr;
	struct ibv_sge sge;
	struct ibv_wc wc;
	struct ud ud;

	ud_open(&ud, *state, NULL);
	ud_recv(&ud.pair.b, MESSAGE_BYTES);
	ud_send(&ud, &ud.pair.a, &ud.pair.b, 8);
	wr = ud_wr(&ud, &ud.pair.a, &ud.pair.b, &sge, 16);
	post_send_ok(&ud.pair.a, &wr);
	wc = wc_expect(ud.pair.a.cq, 16, IBV_WC_GENERAL_ERR);
	assert_int_equal(wc.vendor_err, VENDOR_ERR_INJECTED);
	assert_int_equal(qp_state(ud.pair.a.qp), IBV_QPS_SQE);
	ud_close(&ud);
}

/* Posts receives 1 to 3, sends datagrams of 8 and of 16 bytes. */
static void send_two_datagrams(struct ud *ud)
{
	for (int i = 0; i < 3; i++)
		ud_recv(&ud->pair.b, MESSAGE_BYTES);
	ud_send(ud, &ud->pair.a, &ud->pair.b, 8);
	ud_send(ud, &ud->pair.a, &ud->pair.b, 16);
}

static void fault_first_datagram_is_lost(void **state)
{
	struct ud ud;

	ud_open(&ud, *state, NULL);
	send_two_datagrams(&ud);
	assert_int_equal(wc_next(ud.pair.b.cq).byte_len, GRH_BYTES + 16);
	wc_none(ud.pair.b.cq);
	ud_close(&ud);
}

static void fault_first_datagram_arrives_twice(void **state)
{
	struct ud ud;

	ud_open(&ud, *state, NULL);
	send_two_datagrams(&ud);
	assert_int_equal(wc_next(ud.pair.b.cq).byte_len, GRH_BYTES + 8);
	assert_int_equal(wc_next(ud.pair.b.cq).byte_len, GRH_BYTES + 8);
	assert_int_equal(wc_next(ud.pair.b.cq).byte_len, GRH_BYTES + 16);
	ud_close(&ud);
}

/* The disposition of the first datagram depends on the flipped bit; the second arrives. */
static void fault_second_datagram_arrives(void **state)
{
	struct ibv_wc wc;
	struct ud ud;

	ud_open(&ud, *state, NULL);
	send_two_datagrams(&ud);
	do {
		wc = wc_next(ud.pair.b.cq);
	} while (wc.byte_len != GRH_BYTES + 16);
	ud_close(&ud);
}

static void fault_first_modify_fails(void **state)
{
	struct pair_options options = {.stays_unconnected = true};
	struct pair pair;

	pair_open(&pair, *state, &options);
	assert_int_equal(qp_to_init(pair.a.qp, IBV_ACCESS_REMOTE_WRITE), EBUSY);
	assert_int_equal(qp_state(pair.a.qp), IBV_QPS_RESET);
	assert_int_equal(qp_to_init(pair.a.qp, IBV_ACCESS_REMOTE_WRITE), 0);
	pair_close(&pair);
}

static void fault_first_channel_fails(void **state)
{
	struct rdma_event_channel *channel;

	(void)state;
	errno = 0;
	assert_null(rdma_create_event_channel());
	assert_int_equal(errno, ENOMEM);
	channel = rdma_create_event_channel();
	assert_non_null(channel);
	rdma_destroy_event_channel(channel);
}

static void channel_is_created(void **state)
{
	struct rdma_event_channel *channel = rdma_create_event_channel();

	(void)state;
	assert_non_null(channel);
	rdma_destroy_event_channel(channel);
}

static void fault_address_is_resolved(void **state)
{
	struct sockaddr_in addr = {.sin_family = AF_INET,
				   .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct rdma_cm_event *event;
	struct rdma_cm_id *id;

	(void)state;
	assert_non_null(channel);
	assert_int_equal(rdma_create_id(channel, &id, NULL, RDMA_PS_TCP), 0);
	assert_int_equal(rdma_resolve_addr(id, NULL, (struct sockaddr *)&addr, 5000), 0);
	assert_int_equal(rdma_get_cm_event(channel, &event), 0);
	assert_int_equal(event->event, RDMA_CM_EVENT_ADDR_RESOLVED);
	assert_int_equal(rdma_ack_cm_event(event), 0);
	assert_int_equal(rdma_destroy_id(id), 0);
	rdma_destroy_event_channel(channel);
}

static const struct probe_case cases[] = {
	{"trace_has_every_event_between_processes",
	 "",
	 "",
	 message_and_error,
	 {"ipc request: device_get seq", "ipc reply: device_get seq", " from RESET to INIT",
	  " from RTR to RTS", "receive posted: qpn 0x", " SEND length 1000 sges 1 ",
	  "fifo element sent: SEND from qpn 0x", "fifo element received: ACK from qpn 0x",
	  " wr_id 0x77 SEND local protection error: "}},
	{"trace_has_every_event_over_roce",
	 "roce",
	 "",
	 message_and_error,
	 {"packet sent: rc send only qpn 0x", "packet received: rc send only qpn 0x",
	  "packet received: rc ack qpn 0x", " payload 1000 bytes from ",
	  "congestion window: qpn 0x", " SEND length 1000: success",
	  " receive length 1000: success", " from RTS to ERR"}},
	{"trace_has_every_message_of_the_daemon",
	 "",
	 "",
	 fault_address_is_resolved,
	 {"ipc request: cm_resolve_addr seq", "ipc reply: cm_resolve_addr seq",
	  "ipc notice: cm_event seq"}},
	{"packet_send_drop",
	 "roce",
	 "packet.send:drop:nth=1",
	 fault_messages_arrive,
	 {"fault: packet.send drop pass 1", RETRANSMITTED, "loss recovery: qpn 0x",
	  " to open after ACK of all that was lost"}},
	{"packet_send_duplicate",
	 "roce",
	 "packet.send:duplicate:times=3",
	 fault_messages_arrive,
	 {"fault: packet.send duplicate pass 3"}},
	{"packet_send_corrupt",
	 "roce",
	 "packet.send:corrupt:nth=1",
	 fault_messages_arrive,
	 {"fault: packet.send corrupt pass 1", RETRANSMITTED}},
	{"packet_send_delay",
	 "roce",
	 "packet.send:delay=5ms:times=2",
	 fault_messages_arrive,
	 {"fault: packet.send delay pass 2 5000 us"}},
	{"packet_receive_drop",
	 "roce",
	 "packet.receive:drop:nth=1",
	 fault_messages_arrive,
	 {"fault: packet.receive drop pass 1", RETRANSMITTED}},
	{"packet_receive_duplicate",
	 "roce",
	 "packet.receive:duplicate:times=3",
	 fault_messages_arrive,
	 {"fault: packet.receive duplicate pass 3"}},
	{"packet_receive_corrupt",
	 "roce",
	 "packet.receive:corrupt:nth=1",
	 fault_messages_arrive,
	 {"fault: packet.receive corrupt pass 1", RETRANSMITTED}},
	{"packet_receive_delay",
	 "roce",
	 "packet.receive:delay=5ms:times=2",
	 fault_messages_arrive,
	 {"fault: packet.receive delay pass 2 5000 us"}},
	{"packet_send_random",
	 "roce",
	 "seed=6;packet.send:drop:p=0.2:times=4;packet.receive:duplicate:p=0.5:times=9",
	 fault_messages_arrive,
	 {"fault: packet.receive duplicate pass"}},
	{"fifo_send_fail",
	 "",
	 "fifo.send:fail:times=3",
	 fault_messages_arrive,
	 {"fault: fifo.send fail pass 3"}},
	{"fifo_receive_drop",
	 "",
	 "fifo.receive:drop:nth=1",
	 fault_first_datagram_is_lost,
	 {"fault: fifo.receive drop pass 1"}},
	{"fifo_receive_duplicate",
	 "",
	 "fifo.receive:duplicate:nth=1",
	 fault_first_datagram_arrives_twice,
	 {"fault: fifo.receive duplicate pass 1"}},
	{"fifo_receive_corrupt",
	 "",
	 "fifo.receive:corrupt:nth=1",
	 fault_second_datagram_arrives,
	 {"fault: fifo.receive corrupt pass 1"}},
	{"wr_post_fail",
	 "",
	 "wr.post:fail=ENOMEM:nth=2",
	 fault_second_post_fails,
	 {"fault: wr.post fail pass 2 code 12"}},
	{"wr_execute_fail_between_processes",
	 "",
	 "wr.execute:fail=REM_ACCESS_ERR:nth=2",
	 fault_second_wr_fails,
	 {"fault: wr.execute fail pass 2 code 10",
	  "USRDMA_FAULT injected the failure (vendor_err 23)"}},
	{"wr_execute_fail_over_roce",
	 "roce",
	 "wr.execute:fail=REM_ACCESS_ERR:nth=2",
	 fault_second_wr_fails,
	 {"fault: wr.execute fail pass 2 code 10"}},
	{"wr_execute_fail_of_datagram",
	 "",
	 "wr.execute:fail=GENERAL_ERR:nth=2",
	 fault_second_datagram_fails,
	 {"fault: wr.execute fail pass 2 code 21"}},
	{"qp_modify_fail",
	 "",
	 "qp.modify:fail=EBUSY:nth=1",
	 fault_first_modify_fails,
	 {"fault: qp.modify fail pass 1 code 16"}},
	{"ipc_call_fail",
	 "",
	 "ipc.call:fail=ENOMEM:nth=1",
	 fault_first_channel_fails,
	 {"fault: ipc.call fail pass 1 code 12"}},
	{"ipc_call_delay",
	 "",
	 "ipc.call:delay=2ms:times=2",
	 channel_is_created,
	 {"fault: ipc.call delay pass 1 2000 us"}},
};

#define CASES (sizeof(cases) / sizeof(cases[0]))

/*
 * Cases whose effect is visible in the trace only. In the other cases run() or `words` checks it.
 */
static const struct {
	const char *name;
	bool (*is_shown)(const char *trace);
} effects[] = {
	{"packet_send_duplicate", has_sent_a_request_twice},
	{"ipc_call_delay", has_delayed_the_request},
};

/* Some cases do not use the device: their first request to the daemon fails. */
static bool needs_device(const struct probe_case *probe_case)
{
	return probe_case->run != fault_first_channel_fails &&
	       probe_case->run != channel_is_created &&
	       probe_case->run != fault_address_is_resolved;
}

/* Runs in the process that was executed again. */
static int run_case(const char *name)
{
	for (size_t i = 0; i < CASES; i++) {
		const struct CMUnitTest tests[] = {{cases[i].name, cases[i].run, NULL, NULL, NULL}};
		bool has_device = needs_device(&cases[i]);

		if (!strcmp(cases[i].name, name))
			return cmocka_run_group_tests(tests, has_device ? api_setup : NULL,
						      has_device ? api_teardown : NULL);
	}
	return 1;
}

static void be_case(const struct probe_case *probe_case, int output)
{
	char *argv[] = {"api-probes", (char *)(uintptr_t)probe_case->name, NULL};

	dup2(output, STDOUT_FILENO);
	dup2(output, STDERR_FILENO);
	setenv("USRDMA_LOG", "trace", 1);
	if (*probe_case->fault)
		setenv("USRDMA_FAULT", probe_case->fault, 1);
	if (*probe_case->transport)
		setenv("USRDMA_TRANSPORT", probe_case->transport, 1);
	execv("/proc/self/exe", argv);
	_exit(127);
}

/* A file instead of a pipe needs no reader while the case runs. */
static char *read_output(int fd)
{
	static char text[OUTPUT_BYTES];
	ssize_t len = pread(fd, text, sizeof(text) - 1, 0);

	assert_true(len >= 0);
	text[len] = '\0';
	return text;
}

static void fault_case_passes(void **state)
{
	const struct probe_case *probe_case = *state;
	int output = memfd_create("output", MFD_CLOEXEC);
	const char *text;
	int status;
	pid_t pid;

	assert_true(output >= 0);
	pid = fork();
	assert_true(pid >= 0);
	if (!pid)
		be_case(probe_case, output);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	text = read_output(output);
	close(output);
	if (status)
		fail_msg("exit status 0x%x: %s", (unsigned int)status, text);
	for (size_t i = 0; i < WORDS_MAX && probe_case->words[i]; i++) {
		if (!strstr(text, probe_case->words[i]))
			fail_msg("the trace lacks \"%s\": %s", probe_case->words[i], text);
	}
	for (size_t i = 0; i < sizeof(effects) / sizeof(effects[0]); i++) {
		if (!strcmp(effects[i].name, probe_case->name) && !effects[i].is_shown(text))
			fail_msg("no effect: %s", text);
	}
}

int main(int argc, char **argv)
{
	struct CMUnitTest tests[CASES];

	if (argc > 1)
		return run_case(argv[1]);
	for (size_t i = 0; i < CASES; i++)
		tests[i] = (struct CMUnitTest){cases[i].name, fault_case_passes, NULL, NULL,
					       (void *)(uintptr_t)&cases[i]};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
