/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Remote procedure calls: each of CONNECTIONS threads keeps DEPTH requests of 64 bytes outstanding,
 * and a thread of the server answers each with BYTES. Over RDMA the server answers with a WRITE
 * into the client's buffer and a SEND. Over TCP each side receives all bytes that have arrived with
 * one system call, and sends all answers or requests that follow with another. The threads wait in
 * ibv_get_cq_event() or recv(2), or in poll(2) for the descriptor of the channel or connection
 * (select), or they poll. Prints the requests answered in a second.
 *
 *	bench-rpc rdma|tcp PORT DEVICE GID-INDEX wait|select|spin
 *		the server, for one client
 *	bench-rpc rdma|tcp PORT DEVICE GID-INDEX wait|select|spin
 *		HOST CONNECTIONS DEPTH BYTES SECONDS
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <infiniband/verbs.h>

#define REQUEST_BYTES	64u
#define DEPTH_MAX	128u
#define CONNECTIONS_MAX 64u
#define RECVS		(2 * DEPTH_MAX)
#define SIGNAL_EVERY	16u
#define PAGE_BYTES	4096u

/* What the two sides of a connection exchange by TCP before the first request. */
struct hello {
	uint32_t connections;
	uint32_t depth;
	uint32_t bytes;
	uint32_t qpn;
	uint32_t rkey;
	uint32_t reserved;
	uint64_t address;
	union ibv_gid gid;
};

struct connection {
	struct hello mine;
	struct hello theirs;
	int fd;
	uint8_t *buffer; /* answers by slot, then requests by slot */
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	struct ibv_mr *mr;
	struct ibv_qp *qp;
	uint32_t posted;
	uint64_t answered;
};

static struct ibv_context *context;
static struct ibv_pd *pd;
static union ibv_gid gid;
static uint8_t gid_index;
static bool is_rdma, spins, selects;
static double end_s;

static void require(bool is_true, const char *what)
{
	if (is_true)
		return;
	fprintf(stderr, "%s: %s\n", what, strerror(errno));
	exit(1);
}

static double now_s(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void select_readable(int fd)
{
	struct pollfd readable = {.fd = fd, .events = POLLIN};

	while (poll(&readable, 1, -1) < 0)
		require(errno == EINTR, "poll");
}

/* Receives at least one byte. Returns the number, or 0 if the peer closed the connection. */
static size_t read_some(int fd, void *to, size_t bytes)
{
	ssize_t n;

	if (selects)
		select_readable(fd);
	do {
		n = recv(fd, to, bytes, spins ? MSG_DONTWAIT : 0);
	} while (n < 0 && errno == EAGAIN);
	return n > 0 ? (size_t)n : 0;
}

/* false: the peer closed the connection. */
static bool read_all(int fd, void *to, size_t bytes)
{
	for (size_t done = 0; done < bytes;) {
		size_t n = read_some(fd, (char *)to + done, bytes - done);

		if (!n)
			return false;
		done += n;
	}
	return true;
}

static bool write_all(int fd, const void *from, size_t bytes)
{
	for (size_t done = 0; done < bytes;) {
		ssize_t n = send(fd, (const char *)from + done, bytes - done, MSG_NOSIGNAL);

		if (n <= 0)
			return false;
		done += (size_t)n;
	}
	return true;
}

static void open_device(const char *name, int index)
{
	struct ibv_device **devices = ibv_get_device_list(NULL);

	for (int i = 0; devices && devices[i]; i++) {
		if (!strcmp(ibv_get_device_name(devices[i]), name))
			context = ibv_open_device(devices[i]);
	}
	gid_index = (uint8_t)index;
	require(context && !ibv_query_gid(context, 1, index, &gid), "opening the device");
	pd = ibv_alloc_pd(context);
	require(pd, "ibv_alloc_pd");
}

/* DEPTH_MAX answers, DEPTH_MAX requests to send, and one received request, in whole pages. */
static size_t buffer_bytes(const struct connection *c)
{
	size_t bytes = (size_t)DEPTH_MAX * (c->mine.bytes + REQUEST_BYTES) + REQUEST_BYTES;

	return (bytes + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES;
}

static void post_recv(const struct connection *c)
{
	struct ibv_sge sge = {c->mine.address +
				      (uint64_t)DEPTH_MAX * (c->mine.bytes + REQUEST_BYTES),
			      REQUEST_BYTES, c->mr->lkey};
	struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = 1}, *bad;

	require(!ibv_post_recv(c->qp, &wr, &bad), "ibv_post_recv");
}

static void rdma_prepare(struct connection *c)
{
	struct ibv_qp_init_attr init = {
		.cap = {.max_send_wr = 4 * DEPTH_MAX,
			.max_recv_wr = RECVS,
			.max_send_sge = 1,
			.max_recv_sge = 1},
		.qp_type = IBV_QPT_RC,
	};

	c->channel = ibv_create_comp_channel(context);
	require(c->channel && (!selects || !fcntl(c->channel->fd, F_SETFL, O_NONBLOCK)),
		"ibv_create_comp_channel");
	c->cq = c->channel ? ibv_create_cq(context, 8 * DEPTH_MAX, NULL, c->channel, 0) : NULL;
	init.send_cq = init.recv_cq = c->cq;
	c->mr = ibv_reg_mr(pd, c->buffer, buffer_bytes(c),
			   IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	c->qp = c->cq ? ibv_create_qp(pd, &init) : NULL;
	require(c->qp && c->mr, "ibv_create_qp or ibv_reg_mr");
	c->mine.qpn = c->qp->qp_num;
	c->mine.rkey = c->mr->rkey;
	c->mine.gid = gid;
}

static void rdma_connect(const struct connection *c)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT,
		.port_num = 1,
		.qp_access_flags = IBV_ACCESS_REMOTE_WRITE,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = c->theirs.qpn,
		.min_rnr_timer = 12,
		.timeout = 14,
		.retry_cnt = 7,
		.rnr_retry = 7,
		.ah_attr = {.is_global = 1,
			    .port_num = 1,
			    .grh = {.dgid = c->theirs.gid, .sgid_index = gid_index, .hop_limit = 8}},
	};

	require(!ibv_modify_qp(c->qp, &attr,
			       IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
				       IBV_QP_ACCESS_FLAGS),
		"INIT");
	for (uint32_t i = 0; i < RECVS; i++)
		post_recv(c);
	attr.qp_state = IBV_QPS_RTR;
	require(!ibv_modify_qp(c->qp, &attr,
			       IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
				       IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
				       IBV_QP_MIN_RNR_TIMER),
		"RTR");
	attr.qp_state = IBV_QPS_RTS;
	require(!ibv_modify_qp(c->qp, &attr,
			       IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
				       IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC),
		"RTS");
	require(!ibv_req_notify_cq(c->cq, 0), "ibv_req_notify_cq");
}

/* Exchanges the parameters; both sides are ready to receive afterwards. */
static void connection_open(struct connection *c, bool is_server)
{
	uint8_t ready = 0;

	if (is_server) {
		require(read_all(c->fd, &c->theirs, sizeof(c->theirs)), "the client's parameters");
		c->mine = c->theirs;
	}
	/*
	 * With USRDMA_SHARE=on, `usrdma run` makes this memory shareable, like the huge pages of
	 * targets of NVMe over Fabrics.
	 */
	c->buffer = aligned_alloc(PAGE_BYTES, buffer_bytes(c));
	require(c->buffer, "aligned_alloc");
	memset(c->buffer, 0, buffer_bytes(c));
	c->mine.address = (uintptr_t)c->buffer;
	if (is_rdma)
		rdma_prepare(c);
	require(write_all(c->fd, &c->mine, sizeof(c->mine)), "the own parameters");
	if (!is_server)
		require(read_all(c->fd, &c->theirs, sizeof(c->theirs)), "the server's parameters");
	if (is_rdma)
		rdma_connect(c);
	require(write_all(c->fd, &ready, 1) && read_all(c->fd, &ready, 1), "the exchange");
}

static void post_send(struct connection *c, uint32_t slot, bool with_answer)
{
	struct ibv_sge data = {c->mine.address + (uint64_t)slot * c->mine.bytes, c->mine.bytes,
			       c->mr->lkey};
	struct ibv_sge head = {c->mine.address + (uint64_t)DEPTH_MAX * c->mine.bytes, REQUEST_BYTES,
			       c->mr->lkey};
	struct ibv_send_wr send = {.sg_list = &head, .num_sge = 1, .opcode = IBV_WR_SEND};
	struct ibv_send_wr write = {
		.next = &send, .sg_list = &data, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE};
	struct ibv_send_wr *bad;

	write.wr.rdma.remote_addr = c->theirs.address + (uint64_t)slot * c->mine.bytes;
	write.wr.rdma.rkey = c->theirs.rkey;
	send.send_flags = ++c->posted % SIGNAL_EVERY ? 0 : IBV_SEND_SIGNALED;
	send.wr_id = c->posted;
	require(!ibv_post_send(c->qp, with_answer ? &write : &send, &bad), "ibv_post_send");
}

/* Waits for messages; returns their number, or -1 at the end. */
static int rdma_receive(struct connection *c)
{
	struct ibv_wc wc[16];
	int messages = 0;

	for (;;) {
		int n = ibv_poll_cq(c->cq, 16, wc);
		struct ibv_cq *cq;
		void *arg;

		require(n >= 0, "ibv_poll_cq");
		for (int i = 0; i < n; i++) {
			if (wc[i].status != IBV_WC_SUCCESS)
				return -1;
			messages += wc[i].opcode == IBV_WC_RECV;
		}
		for (int i = 0; i < n; i++) {
			if (wc[i].opcode == IBV_WC_RECV)
				post_recv(c);
		}
		if (messages)
			return messages;
		if (n || spins)
			continue;
		if (selects)
			select_readable(c->channel->fd);
		require(!ibv_get_cq_event(c->channel, &cq, &arg), "ibv_get_cq_event");
		ibv_ack_cq_events(cq, 1);
		require(!ibv_req_notify_cq(c->cq, 0), "ibv_req_notify_cq");
	}
}

/*
 * Waits for messages of `bytes` at `to`, where *partial bytes of the next one are. Returns their
 * number, or -1 at the end. Only the number of bytes is used, so the last part of a message stays
 * counted but is not moved.
 */
static int tcp_receive(const struct connection *c, uint8_t *to, size_t bytes, size_t *partial)
{
	size_t n;

	do {
		n = read_some(c->fd, to, DEPTH_MAX * bytes);
		if (!n)
			return -1;
		*partial += n;
	} while (*partial < bytes);
	n = *partial / bytes;
	*partial %= bytes;
	return (int)n;
}

static void *tcp_serve(void *arg)
{
	struct connection *c = arg;
	uint8_t *requests = c->buffer + (size_t)DEPTH_MAX * c->mine.bytes;
	size_t partial = 0;
	int n;

	do {
		n = tcp_receive(c, requests, REQUEST_BYTES, &partial);
	} while (n > 0 && write_all(c->fd, c->buffer, (size_t)n * c->mine.bytes));
	return NULL;
}

/*
 * Waits until the client has acknowledged the message that was posted last. The exit of the process
 * ends the QP.
 */
static void rdma_wait_until_sent(const struct connection *c)
{
	struct ibv_wc wc;
	int n;

	do {
		n = ibv_poll_cq(c->cq, 1, &wc);
		require(n >= 0, "ibv_poll_cq");
	} while (!n || (wc.status == IBV_WC_SUCCESS && wc.wr_id != c->posted));
}

static void *rdma_serve(void *arg)
{
	struct connection *c = arg;
	uint32_t slot = 0;
	int n;

	while ((n = rdma_receive(c)) > 0) {
		/*
		 * The last request of a client is all ones. It comes only after the client has all
		 * answers: read after post_send(), the buffer may contain a request that is not
		 * among these n.
		 */
		bool is_last = c->buffer[(size_t)DEPTH_MAX * (c->mine.bytes + REQUEST_BYTES)] ==
			       0xff;

		/*
		 * The answer's number is then a multiple of SIGNAL_EVERY, so that it is signaled.
		 */
		if (is_last)
			c->posted |= SIGNAL_EVERY - 1;
		for (int i = 0; i < n; i++)
			post_send(c, slot++ % c->mine.depth, true);
		if (is_last) {
			rdma_wait_until_sent(c);
			return NULL;
		}
	}
	return NULL;
}

static void send_requests(struct connection *c, uint32_t count)
{
	if (!is_rdma) {
		require(write_all(c->fd, c->buffer + (size_t)DEPTH_MAX * c->mine.bytes,
				  (size_t)count * REQUEST_BYTES),
			"send");
		return;
	}
	for (uint32_t i = 0; i < count; i++)
		post_send(c, 0, false);
}

static void *call(void *arg)
{
	struct connection *c = arg;
	uint32_t outstanding = c->mine.depth;
	size_t partial = 0;

	send_requests(c, outstanding);
	while (outstanding) {
		int n = is_rdma ? rdma_receive(c) :
				  tcp_receive(c, c->buffer, c->mine.bytes, &partial);

		require(n > 0, "the connection");
		outstanding -= (uint32_t)n;
		c->answered += (uint64_t)n;
		if (now_s() >= end_s)
			continue;
		send_requests(c, (uint32_t)n);
		outstanding += (uint32_t)n;
	}
	if (is_rdma) {
		memset(c->buffer + (size_t)DEPTH_MAX * c->mine.bytes, 0xff, REQUEST_BYTES);
		send_requests(c, 1);
		rdma_receive(c);
	}
	return NULL;
}

static void run_all(struct connection *connections, uint32_t count, void *(*run)(void *))
{
	pthread_t threads[CONNECTIONS_MAX];

	for (uint32_t i = 0; i < count; i++)
		require(!pthread_create(&threads[i], NULL, run, &connections[i]), "pthread_create");
	for (uint32_t i = 0; i < count; i++)
		pthread_join(threads[i], NULL);
}

static void server(uint16_t port, struct connection *connections)
{
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
	int listener = socket(AF_INET, SOCK_STREAM, 0), one = 1;
	uint32_t count = 1;

	setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	require(!bind(listener, (struct sockaddr *)&address, sizeof(address)) &&
			!listen(listener, CONNECTIONS_MAX),
		"listen");
	for (uint32_t i = 0; i < count; i++) {
		connections[i].fd = accept(listener, NULL, NULL);
		require(connections[i].fd >= 0, "accept");
		setsockopt(connections[i].fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
		connection_open(&connections[i], true);
		count = connections[i].theirs.connections;
		require(count <= CONNECTIONS_MAX && connections[i].mine.depth <= DEPTH_MAX,
			"the client's parameters");
	}
	run_all(connections, count, is_rdma ? rdma_serve : tcp_serve);
}

static void client(uint16_t port, struct connection *connections, char **argv)
{
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
	const struct hello wanted = {.connections = (uint32_t)atoi(argv[1]),
				     .depth = (uint32_t)atoi(argv[2]),
				     .bytes = (uint32_t)atoi(argv[3])};
	double start_s, seconds = atof(argv[4]);
	uint64_t answered = 0;
	int one = 1;

	require(wanted.connections && wanted.connections <= CONNECTIONS_MAX && wanted.depth &&
			wanted.depth <= DEPTH_MAX && inet_pton(AF_INET, argv[0], &address.sin_addr),
		"invalid parameters");
	for (uint32_t i = 0; i < wanted.connections; i++) {
		struct connection *c = &connections[i];

		c->mine = wanted;
		c->fd = socket(AF_INET, SOCK_STREAM, 0);
		require(!connect(c->fd, (struct sockaddr *)&address, sizeof(address)), "connect");
		setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
		connection_open(c, false);
	}
	start_s = now_s();
	end_s = start_s + seconds;
	run_all(connections, wanted.connections, call);
	for (uint32_t i = 0; i < wanted.connections; i++)
		answered += connections[i].answered;
	printf("requests_per_second %.0f\n", (double)answered / (now_s() - start_s));
}

int main(int argc, char **argv)
{
	struct connection *connections = calloc(CONNECTIONS_MAX, sizeof(*connections));

	require(connections && (argc == 6 || argc == 11), "wrong number of arguments");
	is_rdma = !strcmp(argv[1], "rdma");
	spins = !strcmp(argv[5], "spin");
	selects = !strcmp(argv[5], "select");
	if (is_rdma)
		open_device(argv[3], atoi(argv[4]));
	if (argc == 6)
		server((uint16_t)atoi(argv[2]), connections);
	else
		client((uint16_t)atoi(argv[2]), connections, argv + 6);
	return 0;
}
