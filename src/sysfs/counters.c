/* SPDX-License-Identifier: BSD-2-Clause */
#include "sysfs/counters.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/util.h"
#include "ipc/client.h"
#include "sysfs/write.h"

#define PCI_VENDOR_MELLANOX 0x15b3u

/* A file of the tree that contains the value of the counters that are 0. */
#define ZERO "zero_counter"

/*
 * Where a new value is written before it gets the name of the counter, so that no reader finds a
 * part of it.
 */
#define NEW_VALUE "new_counter"

/* A file for each device, with its dev_id. */
#define DEVICE_IDS "device_ids"
#define PORT	   "/ports/1/"
#define TEXT_BYTES 32
#define FILE_MODE  0644

/* port_xmit_data and port_rcv_data count units of 4 bytes (IBA 1.x §16.1.3.5). */
#define DATA_UNIT_BYTES 4

/*
 * How often a request is repeated while the daemon adds up: each one reads thousands of queue
 * pairs.
 */
#define REPEATS_MAX 100000

/*
 * The time in milliseconds for which the kernel keeps the values of hw_counters/ before it reads
 * them again.
 */
#define LIFESPAN_MS "10"

/* Counters of a port (IBA 1.x §16.1.3.5 and §16.1.4.11), by the kernel's names. */
static const char *const port_counters[] = {
	"VL15_dropped",
	"excessive_buffer_overrun_errors",
	"link_downed",
	"link_error_recovery",
	"local_link_integrity_errors",
	"multicast_rcv_packets",
	"multicast_xmit_packets",
	"port_rcv_constraint_errors",
	"port_rcv_data",
	"port_rcv_errors",
	"port_rcv_packets",
	"port_rcv_remote_physical_errors",
	"port_rcv_switch_relay_errors",
	"port_xmit_constraint_errors",
	"port_xmit_data",
	"port_xmit_discards",
	"port_xmit_packets",
	"port_xmit_wait",
	"symbol_error",
	"unicast_rcv_packets",
	"unicast_xmit_packets",
};

static const char *const rxe_counters[] = {
	"ack_deferred",	      "completer_retry_err", "duplicate_request",  "link_downed",
	"out_of_seq_request", "rcvd_pkts",	     "rcvd_rnr_err",	   "rcvd_seq_err",
	"rdma_recvs",	      "rdma_sends",	     "retry_exceeded_err", "retry_rnr_exceeded_err",
	"send_err",	      "send_rnr_err",	     "sent_pkts",
};

static const char *const mlx5_counters[] = {
	"duplicate_request",
	"implied_nak_seq_err",
	"local_ack_timeout_err",
	"np_cnp_sent",
	"np_ecn_marked_roce_packets",
	"out_of_buffer",
	"out_of_sequence",
	"packet_seq_err",
	"req_cqe_error",
	"req_cqe_flush_error",
	"req_remote_access_errors",
	"req_remote_invalid_request",
	"resp_cqe_error",
	"resp_cqe_flush_error",
	"resp_local_length_error",
	"resp_remote_access_errors",
	"rnr_nak_retry_err",
	"roce_adp_retrans",
	"roce_adp_retrans_to",
	"roce_slow_restart",
	"roce_slow_restart_cnps",
	"roce_slow_restart_trans",
	"rp_cnp_handled",
	"rp_cnp_ignored",
	"rx_atomic_requests",
	"rx_icrc_encapsulated",
	"rx_read_requests",
	"rx_write_requests",
};

static int add_zeros(int root_fd, int port_fd, const char *directory, const char *const names[],
		     size_t count)
{
	int fd = write_open_directory(port_fd, directory);
	int ret = 0;

	if (fd < 0)
		return fd;
	for (size_t i = 0; i < count && !ret; i++) {
		/* A file system without hard links has a file for each name. */
		if (write_name(root_fd, ZERO, fd, names[i]))
			write_attribute(&ret, fd, names[i], "0");
	}
	close(fd);
	return ret;
}

static uint64_t sent_data(const struct ipc_usage *total)
{
	return (total->sent_bytes - total->read_bytes) / DATA_UNIT_BYTES;
}

static uint64_t received_data(const struct ipc_usage *total)
{
	return (total->received_bytes + total->read_bytes) / DATA_UNIT_BYTES;
}

static uint64_t sent_packets(const struct ipc_usage *total)
{
	return total->sent_messages;
}

static uint64_t received_packets(const struct ipc_usage *total)
{
	return total->received_messages;
}

static uint64_t rnr_naks(const struct ipc_usage *total)
{
	return total->rnr_naks;
}

/* The counters that have values. hw_counters/ has some of the names only: rxe's or mlx5's. */
static const struct {
	const char *directory;
	const char *name;
	uint64_t (*value)(const struct ipc_usage *total);
} known[] = {
	{"counters", "port_xmit_data", sent_data},
	{"counters", "port_rcv_data", received_data},
	{"counters", "port_xmit_packets", sent_packets},
	{"counters", "port_rcv_packets", received_packets},
	{"counters", "unicast_xmit_packets", sent_packets},
	{"counters", "unicast_rcv_packets", received_packets},
	{"hw_counters", "sent_pkts", sent_packets},
	{"hw_counters", "rcvd_pkts", received_packets},
	{"hw_counters", "rcvd_rnr_err", rnr_naks},
	{"hw_counters", "rnr_nak_retry_err", rnr_naks},
};

static int add_device_id(int root_fd, const struct counters_device *device)
{
	char path[NAME_MAX];
	int ret = write_directory(root_fd, DEVICE_IDS);

	snprintf(path, sizeof(path), DEVICE_IDS "/%s", device->name);
	write_attribute(&ret, root_fd, path, "%" PRIu32, device->dev_id);
	return ret;
}

int counters_add(int root_fd, int port_fd, const struct counters_device *device)
{
	bool is_mlx5 = profile_value(device->profile, PROFILE_PCI_VENDOR, 0) == PCI_VENDOR_MELLANOX;
	int ret = add_device_id(root_fd, device);

	if (faccessat(root_fd, ZERO, F_OK, 0))
		write_attribute(&ret, root_fd, ZERO, "0");
	if (!ret)
		ret = add_zeros(root_fd, port_fd, "counters", port_counters, COUNT(port_counters));
	if (!ret && is_mlx5)
		ret = add_zeros(root_fd, port_fd, "hw_counters", mlx5_counters,
				COUNT(mlx5_counters));
	else if (!ret)
		ret = add_zeros(root_fd, port_fd, "hw_counters", rxe_counters, COUNT(rxe_counters));
	write_attribute(&ret, port_fd, "hw_counters/lifespan", LIFESPAN_MS);
	return ret;
}

/* The dev_id of the device whose name is the last component before `end`; 0: no such device. */
static uint32_t device_id_of(int root_fd, const char *path, const char *end)
{
	char file[NAME_MAX], text[TEXT_BYTES];
	const char *name = end;
	ssize_t len;
	int fd;

	while (name > path && name[-1] != '/')
		name--;
	if (snprintf(file, sizeof(file), DEVICE_IDS "/%.*s", (int)(end - name), name) >=
	    (int)sizeof(file))
		return 0;
	fd = openat(root_fd, file, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0)
		return 0;
	len = read(fd, text, sizeof(text) - 1);
	close(fd);
	text[len > 0 ? len : 0] = '\0';
	return (uint32_t)strtoul(text, NULL, 10);
}

static int total_get(uint32_t dev_id, struct ipc_device_total_reply *reply)
{
	struct ipc_client client;
	int ret = ipc_client_open(&client, IPC_ROLE_CONTROL);

	if (ret)
		return ret;
	reply->more = 1;
	for (int i = 0; i < REPEATS_MAX && !ret && reply->more; i++) {
		struct ipc_device_total req = {.hdr.type = IPC_DEVICE_TOTAL, .dev_id = dev_id};

		ret = ipc_call(&client, &req, sizeof(req), NULL, 0, reply, sizeof(*reply));
	}
	ipc_client_close(&client);
	return !ret && reply->more ? -EAGAIN : ret;
}

/* Replaces the value of a counter, if the port has it. */
static void write_value(int root_fd, int directory_fd, const char *name, uint64_t value)
{
	int ret = faccessat(directory_fd, name, F_OK, 0);

	if (ret)
		return;
	write_attribute(&ret, root_fd, NEW_VALUE, "%" PRIu64, value);
	/* As of the other files of the tree: the program may change its user. */
	if (!ret && !fchmodat(root_fd, NEW_VALUE, FILE_MODE, 0))
		(void)renameat(root_fd, NEW_VALUE, directory_fd, name);
}

/* The length of the name of a directory of `known` at the beginning of the text; 0: none. */
static size_t directory_length(const char *text)
{
	size_t len = strcspn(text, "/");

	for (size_t i = 0; i < COUNT(known); i++) {
		if (strlen(known[i].directory) == len && !strncmp(text, known[i].directory, len))
			return len;
	}
	return 0;
}

/* Whether the text, which may be empty for all counters of the directory, names this counter. */
static bool is_asked(const char *text, const char *name)
{
	return !*text || !strcmp(text, name);
}

/*
 * `port` is the part of the path behind the directory of the port, `len` the length of its first
 * component.
 */
static void refresh(int root_fd, const char *path, const char *port, size_t len)
{
	const char *rest = port + len + strspn(port + len, "/");
	struct ipc_device_total_reply reply;
	char directory[PATH_MAX];
	bool has_total = false;
	int directory_fd;

	snprintf(directory, sizeof(directory), "%.*s", (int)(port + len - path), path);
	directory_fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (directory_fd < 0)
		return;
	for (size_t i = 0; i < COUNT(known); i++) {
		if (strncmp(port, known[i].directory, len) != 0 || known[i].directory[len] ||
		    !is_asked(rest, known[i].name))
			continue;
		if (!has_total &&
		    total_get(device_id_of(root_fd, path, port - strlen(PORT)), &reply))
			break;
		has_total = true;
		write_value(root_fd, directory_fd, known[i].name, known[i].value(&reply.total));
	}
	close(directory_fd);
}

void counters_refresh(const char path[PATH_MAX], size_t root_bytes)
{
	const char *port = strstr(path + root_bytes, PORT);
	char root[PATH_MAX];
	size_t len;
	int root_fd;

	if (!port)
		return;
	port += strlen(PORT);
	len = directory_length(port);
	if (!len)
		return;
	snprintf(root, sizeof(root), "%.*s", (int)root_bytes, path);
	root_fd = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (root_fd < 0)
		return;
	refresh(root_fd, path, port, len);
	close(root_fd);
}
