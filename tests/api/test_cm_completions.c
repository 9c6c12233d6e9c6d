/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Completions and DISCONNECTED: when the event arrives, all sends that the peer has acknowledged
 * before its DREQ have completions in the CQ. The peer is another process.
 */
#include "cm_fixture.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define ROUNDS 100
/* Sufficient polls of an empty CQ that the library considers the application spinning. */
#define POLLS 20000

static atomic_bool is_over;

/*
 * Holds locks of the library most of the time: a poll of an empty CQ that cannot acquire a lock
 * does not wait.
 */
static void *contend(void *arg)
{
	static char memory[4096];

	while (!atomic_load(&is_over)) {
		struct ibv_mr *mr = ibv_reg_mr(arg, memory, sizeof(memory), 0);

		if (!mr || ibv_dereg_mr(mr))
			abort();
	}
	return NULL;
}

static struct rdma_cm_id *peer_open(struct sockaddr_storage *addr)
{
	struct ibv_qp_init_attr attr = {
		.cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1},
		.qp_type = IBV_QPT_RC,
	};
	struct rdma_addrinfo hints = {.ai_port_space = RDMA_PS_TCP,
				      .ai_dst_addr = (struct sockaddr *)addr,
				      .ai_dst_len = sizeof(*addr)};
	struct rdma_addrinfo *info;
	struct rdma_cm_id *id;

	if (rdma_getaddrinfo(NULL, NULL, &hints, &info) || rdma_create_ep(&id, info, NULL, &attr))
		abort();
	rdma_freeaddrinfo(info);
	return id;
}

/* Receives one message and disconnects. */
static void peer_receive(struct sockaddr_storage *addr)
{
	struct rdma_cm_id *id = peer_open(addr);
	struct ibv_mr *mr;
	struct ibv_wc wc;
	char text[8];
	int count;

	mr = rdma_reg_msgs(id, text, sizeof(text));
	if (!mr || rdma_post_recv(id, NULL, text, sizeof(text), mr) || rdma_connect(id, NULL))
		abort();
	do
		count = ibv_poll_cq(id->recv_cq, 1, &wc);
	while (!count);
	if (count < 0 || wc.status || rdma_disconnect(id) || rdma_dereg_mr(mr))
		abort();
	rdma_destroy_ep(id);
}

static pid_t start_peer(int *port_fd)
{
	struct sockaddr_storage addr;
	int pipe_fds[2];
	pid_t pid;

	assert_int_equal(pipe(pipe_fds), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid) {
		close(pipe_fds[0]);
		*port_fd = pipe_fds[1];
		return pid;
	}
	close(pipe_fds[1]);
	if (read(pipe_fds[0], &addr, sizeof(addr)) != sizeof(addr))
		_exit(1);
	for (int i = 0; i < ROUNDS; i++)
		peer_receive(&addr);
	exit(0);
}

static void accept_and_send(struct ends *ends)
{
	char text[8] = "message";
	struct ibv_mr *mr;
	struct ibv_wc wc;

	ends->request = cm_get(ends->server, RDMA_CM_EVENT_CONNECT_REQUEST);
	ends->passive = ends->request->id;
	ends_create_qp(ends->passive);
	mr = rdma_reg_msgs(ends->passive, text, sizeof(text));
	assert_non_null(mr);
	assert_int_equal(rdma_accept(ends->passive, NULL), 0);
	assert_int_equal(rdma_ack_cm_event(ends->request), 0);
	ends->request = NULL;
	cm_pass(ends->server, ends->passive, RDMA_CM_EVENT_ESTABLISHED);
	for (int i = 0; i < POLLS; i++)
		assert_int_equal(ibv_poll_cq(ends->passive->send_cq, 1, &wc), 0);
	assert_int_equal(
		rdma_post_send(ends->passive, NULL, text, sizeof(text), mr, IBV_SEND_SIGNALED), 0);
	cm_pass(ends->server, ends->passive, RDMA_CM_EVENT_DISCONNECTED);
	assert_int_equal(ibv_poll_cq(ends->passive->send_cq, 1, &wc), 1);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	assert_int_equal(rdma_disconnect(ends->passive), 0);
	assert_int_equal(rdma_dereg_mr(mr), 0);
	rdma_destroy_qp(ends->passive);
	assert_int_equal(rdma_destroy_id(ends->passive), 0);
	ends->passive = NULL;
}

static void rdma_get_cm_event_disconnected_sends_have_completed(void **state)
{
	int port_fd, status;
	pid_t pid = start_peer(&port_fd);
	pthread_t thread;
	struct ends ends;

	(void)state;
	ends_listen(&ends, NULL, 4);
	assert_non_null(ends.listener->pd);
	assert_int_equal(pthread_create(&thread, NULL, contend, ends.listener->pd), 0);
	assert_int_equal(write(port_fd, &ends.addr, sizeof(ends.addr)), sizeof(ends.addr));
	close(port_fd);
	for (int i = 0; i < ROUNDS; i++)
		accept_and_send(&ends);
	atomic_store(&is_over, true);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	ends_close(&ends);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rdma_get_cm_event_disconnected_sends_have_completed),
	};

	return cmocka_run_group_tests_name("api/cm_completions", tests, NULL, NULL);
}
