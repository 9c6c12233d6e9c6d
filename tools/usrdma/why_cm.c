/* SPDX-License-Identifier: BSD-2-Clause */
/* Sentences of usrdma why about connections and about calls of librdmacm. */
#include <arpa/inet.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <inttypes.h>
#include <rdma/rdma_cma.h>
#include <string.h>

#include "port_holder.h"
#include "why.h"
#include "wire/cm_msg.h"
#include "wire/gid.h"

#define HOLDER_BYTES 128
/* Of an IPv4 address in its mapped form. */
#define IPV4_OFFSET 12

static void write_ip(FILE *out, const uint8_t ip[16])
{
	bool is_v4 = gid_is_ipv4(ip);
	char text[INET6_ADDRSTRLEN];

	if (inet_ntop(is_v4 ? AF_INET : AF_INET6, is_v4 ? ip + IPV4_OFFSET : ip, text,
		      sizeof(text)))
		fputs(text, out);
}

static void write_address(FILE *out, const uint8_t ip[16], uint16_t port)
{
	static const uint8_t v4_prefix[12] = {[10] = 0xff, [11] = 0xff};
	static const uint8_t none[16];
	bool is_v4 = memcmp(ip, v4_prefix, sizeof(v4_prefix)) == 0;
	char text[INET6_ADDRSTRLEN];

	if (memcmp(ip, none, sizeof(none)) == 0)
		fprintf(out, "port %u", port);
	else if (inet_ntop(is_v4 ? AF_INET : AF_INET6, is_v4 ? ip + sizeof(v4_prefix) : ip, text,
			   sizeof(text)))
		fprintf(out, is_v4 ? "%s:%u" : "[%s]:%u", text, port);
}

static void write_remote(FILE *out, const struct ipc_failure *failure)
{
	write_address(out, failure->remote_ip, failure->remote_port);
}

static void write_attempts(FILE *out, const struct ipc_failure *failure, const char *message)
{
	if (failure->numbers[0] == 0)
		fprintf(out, "%s was not sent, because the address challenge had no reply in ",
			message);
	else if (failure->numbers[0] == 1)
		fprintf(out, "%s was sent once in ", message);
	else
		fprintf(out, "%s was sent %" PRIu64 " times in ", message, failure->numbers[0]);
	why_write_duration(out, failure->numbers[1]);
}

static bool is_about_connection(const struct ipc_failure *failure)
{
	return failure->kind == IPC_FAILURE_CM || failure->kind == IPC_FAILURE_WARNING;
}

/*
 * The report of the passive side that waits for an RTU, in answer to the REQ of this active side;
 * NULL: none.
 */
static const struct ipc_failure *passive_side(const struct why_list *list, size_t root)
{
	const struct ipc_failure *active = &list->failures[root].is;

	for (size_t i = list->count; i-- > 0;) {
		const struct ipc_failure *other = &list->failures[i].is;

		if (is_about_connection(other) && other->reason == IPC_REASON_CM_NO_RTU &&
		    why_is_same_connection(active, other))
			return other;
	}
	return NULL;
}

static void write_no_rep(FILE *out, const struct why_list *list, size_t root)
{
	const struct ipc_failure *failure = &list->failures[root].is;
	const struct ipc_failure *passive = passive_side(list, root);

	fputs("connection to ", out);
	write_remote(out, failure);
	if (passive) {
		fprintf(out, ": the REP is lost: %s (pid %d) accepted the REQ, and ",
			passive->program, passive->pid);
		write_attempts(out, passive, "its REP");
		fputs(", but no REP arrived; ", out);
		write_attempts(out, failure, "the REQ");
	} else {
		fputs(": no response to the REQ; ", out);
		write_attempts(out, failure, "it");
	}
	if (failure->kind == IPC_FAILURE_WARNING)
		fputs("; the attempt continues", out);
}

static void write_no_rtu(FILE *out, const struct ipc_failure *failure)
{
	fputs("connection from ", out);
	write_remote(out, failure);
	fputs(": no RTU confirmed the REP: ", out);
	write_attempts(out, failure, "it");
	if (failure->kind == IPC_FAILURE_WARNING)
		fputs("; the attempt continues", out);
}

/* Whether the network reported an error (ICMP), which ends the attempt before the timeout. */
static bool is_network_error(const struct ipc_failure *failure)
{
	return failure->event == RDMA_CM_EVENT_UNREACHABLE && failure->error < 0 &&
	       failure->error > INT32_MIN && failure->error != -ETIMEDOUT;
}

static void write_network_error(FILE *out, const struct ipc_failure *failure)
{
	fputs(failure->reason == IPC_REASON_CM_NO_RTU ? "connection from " : "connection to ", out);
	write_remote(out, failure);
	if (failure->error == -ECONNREFUSED)
		fputs(": its host answered that no program holds UDP port 4791 (ICMP port unreachable)",
		      out);
	else
		fprintf(out, ": the network reported %s: %s", why_errno_name(-failure->error),
			strerror(-failure->error));
}

static void write_rejected(FILE *out, const struct ipc_failure *failure)
{
	const char *name = failure->error >= 0 && failure->error <= UINT16_MAX ?
				   cm_rej_reason_name((uint16_t)failure->error) :
				   NULL;

	fputs("connection to ", out);
	write_remote(out, failure);
	fputs(" rejected: ", out);
	switch (failure->error) {
	case CM_REJ_INVALID_SERVICE_ID:
		fprintf(out, "no process listens on port %u there", failure->remote_port);
		break;
	case CM_REJ_CONSUMER:
		fputs("the application of the peer called rdma_reject()", out);
		break;
	case CM_REJ_STALE_CONN:
		fprintf(out, "the peer still has a connection with QP 0x%06x of this host",
			failure->qpn);
		break;
	case CM_REJ_TIMEOUT:
		fputs("the peer gave up waiting for the next message", out);
		break;
	case CM_REJ_INVALID_MTU:
		fputs("the path MTU is invalid", out);
		break;
	default:
		fputs(name ? name : "unknown reason", out);
		break;
	}
	fprintf(out, " (REJ reason %d)", failure->error);
}

/*
 * As in Linux, a SIDR_REP that rejects the request is reported as UNREACHABLE with the positive
 * SIDR status.
 */
static bool is_sidr_rejection(const struct ipc_failure *failure)
{
	return failure->event == RDMA_CM_EVENT_UNREACHABLE && failure->error > 0;
}

static void write_sidr_rejection(FILE *out, const struct ipc_failure *failure)
{
	const char *name = failure->error <= UINT8_MAX ?
				   cm_sidr_status_name((uint8_t)failure->error) :
				   NULL;

	fputs("service ID resolution at ", out);
	write_remote(out, failure);
	fputs(" rejected: ", out);
	switch (failure->error) {
	case CM_SIDR_UNSUPPORTED:
		fprintf(out, "no process listens on port %u there", failure->remote_port);
		break;
	case CM_SIDR_REJECTED:
		fputs("the application of the peer called rdma_reject() or rdma_destroy_id()", out);
		break;
	default:
		fputs(name ? name : "unknown status", out);
		break;
	}
	fprintf(out, " (SIDR status %d)", failure->error);
}

/*
 * The program that has the port now is not always the one that had it at the time of the failure.
 */
static void write_no_port(FILE *out)
{
	char holder[HOLDER_BYTES];

	fprintf(out, " failed: UDP port %d of this host, which RoCEv2 uses, was in use", ROCE_PORT);
	if (port_holder_describe(holder, sizeof(holder)))
		fprintf(out, "; it belongs to %s", holder);
}

static void write_event(FILE *out, const struct ipc_failure *failure)
{
	int error = failure->error == INT32_MIN ? INT32_MAX : abs(failure->error);

	switch (failure->event) {
	case RDMA_CM_EVENT_ADDR_ERROR:
		fputs("rdma_resolve_addr() to ", out);
		break;
	case RDMA_CM_EVENT_ROUTE_ERROR:
		fputs("rdma_resolve_route() to ", out);
		break;
	case RDMA_CM_EVENT_DISCONNECTED:
		fputs("connection with ", out);
		write_remote(out, failure);
		fputs(failure->reason == IPC_REASON_CM_NO_DREP ?
			      " ended, and the peer did not confirm it (no DREP)" :
		      failure->reason == IPC_REASON_CM_DREQ ?
			      " ended by the peer: rdma_disconnect(), rdma_destroy_id(), or the end of its process" :
			      " ended by this process",
		      out);
		return;
	default:
		fputs("connection to ", out);
		break;
	}
	write_remote(out, failure);
	if (failure->reason == IPC_REASON_CM_NO_PORT)
		write_no_port(out);
	else if (error)
		fprintf(out, " failed: %s: %s", why_errno_name(error), strerror(error));
	else
		fprintf(out, ": %s", why_cm_event_name(failure->event));
}

void why_write_connection(FILE *out, const struct why_list *list, size_t root)
{
	const struct ipc_failure *failure = &list->failures[root].is;

	if (is_network_error(failure))
		write_network_error(out, failure);
	else if (failure->reason == IPC_REASON_CM_NO_REP)
		write_no_rep(out, list, root);
	else if (failure->reason == IPC_REASON_CM_NO_RTU)
		write_no_rtu(out, failure);
	else if (failure->event == RDMA_CM_EVENT_REJECTED)
		write_rejected(out, failure);
	else if (is_sidr_rejection(failure))
		write_sidr_rejection(out, failure);
	else
		write_event(out, failure);
}

static const char *family_name(uint64_t family)
{
	return family == AF_INET ? "IPv4" : family == AF_INET6 ? "IPv6" : "of another family";
}

/* The states of enum cma_state (daemon/cma_priv.h). */
static const char *state_name(uint64_t state)
{
	static const char *const names[] = {
		"idle",
		"bound",
		"listening",
		"resolving an address",
		"address resolved",
		"route resolved",
		"connecting",
		"requested",
		"connected",
		"ended",
		"device removed",
	};

	return state < sizeof(names) / sizeof(names[0]) ? names[state] : "unknown";
}

void why_write_cm_reason(FILE *out, const struct ipc_failure *failure)
{
	switch (failure->reason) {
	case IPC_REASON_CM_STATE:
		fprintf(out, "the id is in the state '%s', in which the call is not valid",
			state_name(failure->numbers[0]));
		break;
	case IPC_REASON_CM_PRIVATE_DATA:
		fprintf(out,
			"%" PRIu64 " bytes of private data; the message has space for %" PRIu64,
			failure->numbers[0], failure->numbers[1]);
		break;
	case IPC_REASON_CM_FAMILY:
		fprintf(out, "the source address is %s, the destination %s",
			family_name(failure->numbers[0]), family_name(failure->numbers[1]));
		break;
	default:
		fputs(strerror(failure->error), out);
		break;
	}
}

void why_write_call_address(FILE *out, const struct ipc_failure *failure)
{
	if (failure->remote_port || failure->remote_ip[15]) {
		fputs(" to ", out);
		write_remote(out, failure);
	} else if (failure->local_port || failure->local_ip[15]) {
		fputs(" of ", out);
		write_address(out, failure->local_ip, failure->local_port);
	}
}

static const char *no_listener_advice(void)
{
	return "start the server first, and check address, port and port space (RDMA_PS_*); usrdma status lists the listeners";
}

static const char *rejected_advice(const struct ipc_failure *failure)
{
	switch (failure->error) {
	case CM_REJ_INVALID_SERVICE_ID:
		return no_listener_advice();
	case CM_REJ_CONSUMER:
		return "look at the private data of the REJECTED event, in which many applications pass their reason";
	case CM_REJ_STALE_CONN:
		return "connect again with a new queue pair";
	default:
		return NULL;
	}
}

const char *why_connection_advice(const struct ipc_failure *failure)
{
	if (failure->reason == IPC_REASON_CM_NO_PORT)
		return "end the program that has the port (usrdma doctor names it; rdma link show lists the kernel's rxe devices), and start this one again";
	if (failure->reason == IPC_REASON_CM_NO_RTU && !is_network_error(failure))
		return "the path back to the peer is broken: check the route, ip route get ADDRESS, and packet filters with usrdma doctor HOST";
	if (failure->event == RDMA_CM_EVENT_REJECTED)
		return rejected_advice(failure);
	if (is_sidr_rejection(failure))
		return failure->error == CM_SIDR_UNSUPPORTED ? no_listener_advice() : NULL;
	if (failure->event == RDMA_CM_EVENT_DISCONNECTED)
		return NULL;
	if (is_network_error(failure))
		return failure->error == -ECONNREFUSED ?
			       "start usrdmad or a program that uses RDMA on that host; usrdmad runs while a program uses it" :
			       "check the network with usrdma doctor HOST, and ip route get ADDRESS";
	if (failure->reason == IPC_REASON_CM_NO_REP)
		return "check the network with usrdma doctor HOST, and that the server calls rdma_accept(); USRDMA_CM_TIMEOUT shortens the wait";
	if (failure->event == RDMA_CM_EVENT_ADDR_ERROR)
		return "check the address, and ip route get ADDRESS";
	return NULL;
}

const char *why_cm_call_advice(const struct ipc_failure *failure)
{
	switch (failure->reason) {
	case IPC_REASON_CM_STATE:
		return "wait for the event of the preceding call (rdma_cm(7))";
	case IPC_REASON_CM_PRIVATE_DATA:
		return "send less private data: the rest can be the first message of the connection";
	case IPC_REASON_CM_FAMILY:
		return "use addresses of one family";
	default:
		break;
	}
	if (failure->error == EADDRINUSE)
		return "another id has this port: usrdma status lists the listeners";
	if (failure->error == EADDRNOTAVAIL)
		return "no device has this address: usrdma status lists the devices";
	return NULL;
}

void why_write_advice(FILE *out, const struct ipc_failure *failure, const char *advice)
{
	static const char *const words[] = {"HOST", "ADDRESS"};
	static const uint8_t unknown[16];
	bool is_known = memcmp(failure->remote_ip, unknown, sizeof(unknown)) != 0;

	while (*advice) {
		size_t len = 0;

		for (size_t i = 0; is_known && i < sizeof(words) / sizeof(words[0]); i++) {
			if (strncmp(advice, words[i], strlen(words[i])) == 0)
				len = strlen(words[i]);
		}
		if (len)
			write_ip(out, failure->remote_ip);
		else
			fputc(*advice, out);
		advice += len ? len : 1;
	}
}
