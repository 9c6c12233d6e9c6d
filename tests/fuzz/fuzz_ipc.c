/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A hostile client: sends sequences of messages over sockets to a complete daemon in this process.
 * Targets: ipc_request_check, session.c, peers.c, push.c and the request side of cma.
 *
 * The input is a list of records. The first byte selects one of three connections and the
 * corrections of the message (bit 2: make the header consistent; bit 3: pad the message to the size
 * of its type). The second byte is the number of descriptors and the index of the first one. The
 * third byte is the length of the message, which follows. Without corrections hardly any input
 * would pass the length checks.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>
#include <uv.h>

#include "base/fdpass.h"
#include "base/log.h"
#include "daemon/cma.h"
#include "daemon/neigh_wait.h"
#include "daemon/netdev.h"
#include "daemon/server.h"
#include "daemon/session.h"
#include "ipc/client.h"

#define CLIENTS	      3
#define FD_KINDS      4
#define OFFERED_BYTES 4096

#define OP_CLIENT     0x03
#define OP_CONSISTENT 0x04
#define OP_PADDED     0x08

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static uv_loop_t loop;
static struct server server;
static int clients[CLIENTS]; /* the client's ends; -1: not connected */
static int offered[FD_KINDS]
		  [2];	 /* descriptors to pass: [0] of each kind; [1] keeps the other end open */
static uint32_t last_id; /* id that the daemon created last; inputs refer to it by 0xffffffff */

static void must(bool is_true)
{
	if (!is_true)
		abort();
}

static void on_device_change(void *ctx, uint32_t dev_id, uint32_t what)
{
	(void)ctx;
	(void)dev_id;
	(void)what;
}

static void daemon_make(void)
{
	static const struct cm_ops *const connection_managers[] = {&cma_ib_ops, NULL};
	static bool is_made;
	int listen_fd;

	if (is_made)
		return;
	is_made = true;
	log_set_level(LOG_LEVEL_OFF);
	listen_fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	must(listen_fd >= 0);
	/* The kernel chooses the name, so that no other process connects. */
	must(bind(listen_fd, &(struct sockaddr){.sa_family = AF_UNIX}, sizeof(sa_family_t)) == 0);
	must(listen(listen_fd, 1) == 0);
	must(uv_loop_init(&loop) == 0);
	must(netdev_open(&loop, on_device_change, NULL) == 0);
	must(neigh_waits_open(&loop) == 0);
	server.cma = cma_open(&loop, connection_managers);
	must(server.cma);
	must(server_start(&server, &loop, listen_fd, 0) == 0);

	offered[0][0] = memfd_create("segment", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	must(ftruncate(offered[0][0], OFFERED_BYTES) == 0);
	must(fcntl(offered[0][0], F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE) ==
	     0);
	must(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0, offered[1]) == 0);
	must(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, offered[2]) == 0);
	must(pipe2(offered[3], O_NONBLOCK) == 0);
}

/* Receives the daemon's replies to one client and checks that they are well-formed. */
static void drain(int client)
{
	static union {
		struct ipc_hdr hdr;
		struct ipc_cm_create_reply create;
		uint8_t bytes[IPC_MSG_MAX];
	} reply;
	ssize_t len;
	int nfds, fds[IPC_FDS_MAX];

	if (clients[client] < 0)
		return;
	while ((len = fdpass_recv(clients[client], reply.bytes, sizeof(reply), fds, IPC_FDS_MAX,
				  &nfds, MSG_DONTWAIT)) > 0) {
		const struct ipc_type_info *info = ipc_type_info(reply.hdr.type);

		fdpass_close(fds, nfds);

		must((size_t)len >= sizeof(reply.hdr) && reply.hdr.len == (uint32_t)len);
		must(reply.hdr.status <= 0 && reply.hdr.flags == 0);
		/* The reply to a HELLO of another version may have an unknown type. */
		if (reply.hdr.status)
			continue;
		must(info && info->reply_bytes == (uint32_t)len && info->reply_fds == nfds);
		if (reply.hdr.type == IPC_CM_CREATE || reply.hdr.type == IPC_CM_CHANNEL_CREATE)
			last_id = reply.create.id;
	}
	if (len == -EAGAIN)
		return;
	close(clients[client]);
	clients[client] = -1;
}

static void turn(void)
{
	uv_run(&loop, UV_RUN_NOWAIT);
	for (int i = 0; i < CLIENTS; i++)
		drain(i);
}

/*
 * The first two connections send HELLO at once, as an engine and as a CM client. The third sends
 * only the input.
 */
static void connect_client(int client)
{
	struct ipc_hello hello = {
		.hdr = {.type = IPC_HELLO, .seq = 1, .len = sizeof(hello)},
		.magic = IPC_MAGIC,
		.version = IPC_VERSION,
		.role = client == 0 ? IPC_ROLE_VERBS : IPC_ROLE_CM,
	};
	int pair[2];

	must(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) == 0);
	clients[client] = pair[0];
	must(session_open(&server, pair[1]) == 0);
	if (client < 2)
		must(ipc_send(clients[client], &hello, sizeof(hello), NULL, 0) == 0);
}

/* Corrects a message as the record specifies; returns its length. */
static uint32_t mend(uint8_t *msg, uint32_t len, uint8_t op)
{
	struct ipc_hdr hdr;
	const struct ipc_type_info *info;

	if (!(op & (OP_CONSISTENT | OP_PADDED)) || len < sizeof(uint16_t))
		return len;
	memcpy(&hdr, msg, sizeof(hdr));
	hdr.type %= IPC_TYPE_COUNT;
	info = ipc_type_info(hdr.type);
	if (op & OP_PADDED && info && info->request_bytes)
		len = info->request_bytes;
	if (len < sizeof(hdr))
		len = sizeof(hdr);
	hdr.flags &= IPC_UNANSWERED;
	if (info && !info->may_be_unanswered)
		hdr.flags = 0;
	hdr.status = 0;
	hdr.len = len;
	memcpy(msg, &hdr, sizeof(hdr));
	if (info && info->request_bytes == len) {
		for (int i = 0; i < IPC_ZERO_FIELDS; i++)
			memset(msg + info->zero[i].at, 0, info->zero[i].len);
	}
	return len;
}

/* The word after the header is the id or channel of most requests. */
static void name_last_id(uint8_t *msg, uint32_t len)
{
	uint32_t id;

	if (len < sizeof(struct ipc_hdr) + sizeof(id))
		return;
	memcpy(&id, msg + sizeof(struct ipc_hdr), sizeof(id));
	if (id == UINT32_MAX)
		memcpy(msg + sizeof(struct ipc_hdr), &last_id, sizeof(last_id));
}

static void speak(const uint8_t *record, uint32_t len)
{
	static uint8_t msg[IPC_MSG_MAX];
	int client = (record[0] & OP_CLIENT) % CLIENTS;
	int nfds = record[1] & 0x07, fds[8];

	memset(msg, 0, sizeof(msg));
	memcpy(msg, record + 3, len);
	len = mend(msg, len, record[0]);
	name_last_id(msg, len);
	for (int i = 0; i < nfds; i++)
		fds[i] = offered[((record[1] >> 3) + i) % FD_KINDS][0];
	if (clients[client] < 0)
		connect_client(client);
	/*
	 * ipc_send() fails if the socket is full or the daemon has closed it; both are permitted.
	 */
	if (ipc_send(clients[client], msg, len, fds, nfds))
		turn();
	turn();
}

/* The lowest free descriptor number. It changes if descriptors leak. */
static int lowest_free(void)
{
	int fd = dup(offered[0][0]);

	must(fd >= 0);
	close(fd);
	return fd;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	int free_before;

	daemon_make();
	free_before = lowest_free();
	for (int i = 0; i < CLIENTS; i++)
		connect_client(i);
	turn();
	while (size >= 3) {
		uint32_t len = data[2];

		if (len > size - 3)
			len = (uint32_t)(size - 3);
		speak(data, len);
		data += 3 + len;
		size -= 3 + len;
	}
	for (int i = 0; i < CLIENTS; i++) {
		if (clients[i] >= 0)
			close(clients[i]);
		clients[i] = -1;
	}
	/*
	 * All sessions and their resources must be freed, so that inputs do not affect one another.
	 */
	while (server.session_count > 0 || server.closer.pending > 0)
		uv_run(&loop, UV_RUN_ONCE);
	uv_run(&loop, UV_RUN_NOWAIT);
	must(server.slots.free_count == IPC_SLOTS - 1);
	must(lowest_free() == free_before);
	return 0;
}
