/* SPDX-License-Identifier: BSD-2-Clause */
#include "sysfs/counters.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stddef.h>
#include <unistd.h>

#include "base/util.h"
#include "sysfs/write.h"

#define PCI_VENDOR_MELLANOX 0x15b3u

/* A file of the tree that contains the value of all counters. */
#define ZERO "zero_counter"

/* The time in milliseconds for which the kernel keeps the values of hw_counters/ before it reads them again. */
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

int counters_add(int root_fd, int port_fd, const struct profile *profile)
{
	bool is_mlx5 = profile_value(profile, PROFILE_PCI_VENDOR, 0) == PCI_VENDOR_MELLANOX;
	int ret = 0;

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
