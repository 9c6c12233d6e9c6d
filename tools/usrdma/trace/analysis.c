/* SPDX-License-Identifier: BSD-2-Clause */
/* The problems of a connection as sentences. */
#include "analysis.h"

#include <inttypes.h>
#include <stdarg.h>
#include <string.h>

#include "names.h"
#include "steps.h"
#include "wire/cm_msg.h"
#include "wire/line.h"

/* RNR NAKs without progress between them that are called a storm. */
#define STORM_RNR_NAKS 8

#define RNR_WAIT_LONGEST_NS UINT64_C(655360000)

struct findings {
	const struct model *model;
	const struct conn *conn;
	void (*found)(void *ctx, const char *sentence);
	void *ctx;
};

bool analysis_wants(const struct analysis *analysis, uint32_t conn_index)
{
	const struct conn *conn = &analysis->model->conns[conn_index];

	return conn->item_count && (!analysis->qpn || conn->side[0].qpn == analysis->qpn ||
				    conn->side[1].qpn == analysis->qpn);
}

const char *analysis_transport(const struct conn *conn)
{
	static const char *const names[] = {
		[OPCODE_TRANSPORT_RC] = "RC",	      [OPCODE_TRANSPORT_UC] = "UC",
		[OPCODE_TRANSPORT_RD] = "RD",	      [OPCODE_TRANSPORT_UD] = "UD",
		[OPCODE_TRANSPORT_CNP] = "CNP",	      [OPCODE_TRANSPORT_XRC] = "XRC",
		[OPCODE_TRANSPORT_VENDOR] = "vendor",
	};

	return names[conn->transport];
}

const char *analysis_side(const struct model *model, const struct conn_side *side,
			  char out[FINDING_BYTES])
{
	struct line line = {.out = out, .room = FINDING_BYTES};

	out[0] = '\0';
	if (side->process != MODEL_NONE) {
		const struct model_process *process = &model->processes[side->process];

		line_add(&line, "%.32s (pid %u) ", *process->program ? process->program : "process",
			 process->pid);
	}
	if (side->host != MODEL_NONE)
		line_add_gid(&line, model->hosts[side->host].gid);
	if (side->qpn)
		line_add(&line, " QP 0x%x", side->qpn);
	else
		line_add(&line, " QP unknown");
	return out;
}

uint64_t analysis_bytes_per_s(const struct conn *conn, const struct conn_dir *dir)
{
	uint64_t took_ns = conn->last_data_ns - conn->first_data_ns;

	return conn->has_data && took_ns ? (uint64_t)((double)dir->bytes * 1e9 / (double)took_ns) :
					   0;
}

static __attribute__((format(printf, 2, 3))) void find(const struct findings *findings,
						       const char *format, ...)
{
	char sentence[4 * FINDING_BYTES];
	va_list args;

	va_start(args, format);
	vsnprintf(sentence, sizeof(sentence), format, args);
	va_end(args);
	findings->found(findings->ctx, sentence);
}

static const char *name_side(const struct findings *findings, int side, char out[FINDING_BYTES])
{
	return analysis_side(findings->model, &findings->conn->side[side], out);
}

static void find_cm(const struct findings *findings)
{
	const struct conn_cm *cm = &findings->conn->cm;
	char side[FINDING_BYTES];
	const char *reason;

	if (cm->rej_ns) {
		reason = cm_rej_reason_name(cm->reject_reason);
		find(findings, "%s rejected the connection: reason %u (%s)",
		     name_side(findings, cm->rejecter, side), cm->reject_reason,
		     reason ? reason : "reserved");
	} else if (cm->req_ns && !cm->rep_ns) {
		find(findings, "no response to the connection request of %s",
		     name_side(findings, 0, side));
	}
	if (cm->repeated)
		find(findings,
		     "%u messages of the communication manager were repeated: a message or its "
		     "response was lost or late",
		     cm->repeated);
}

static void find_rnr(const struct findings *findings, int requester)
{
	const struct conn_dir *dir = &findings->conn->dir[requester];
	char side[FINDING_BYTES], count[NUMBER_BYTES], time[NUMBER_BYTES];

	if (!dir->rnr_naks)
		return;
	find(findings,
	     "%s%s RNR NAKs from %s, which had no receive WR; they demanded a wait of %s in total",
	     dir->rnr_in_sequence_max >= STORM_RNR_NAKS ? "RNR storm: " : "",
	     text_of_count(count, dir->rnr_naks), name_side(findings, !requester, side),
	     text_of_time(time, dir->rnr_wait_ns));
	if (dir->rnr_wait_ns / dir->rnr_naks == RNR_WAIT_LONGEST_NS)
		find(findings,
		     "the RNR NAKs demand the longest wait, 655.36 ms: min_rnr_timer of the "
		     "receiver is 0, which is the default of rdma_cm");
}

/* The end of a plural. */
static const char *plural(uint64_t count)
{
	return count == 1 ? "" : "s";
}

static void find_naks(const struct findings *findings, int requester)
{
	const struct conn *conn = findings->conn;
	const struct conn_dir *dir = &conn->dir[requester];
	char side[FINDING_BYTES], count[NUMBER_BYTES], time[NUMBER_BYTES];

	for (unsigned code = 0; code < AETH_CODES; code++) {
		if (dir->naks[code])
			find(findings, "%s NAK%s (%s) from %s",
			     text_of_count(count, dir->naks[code]), plural(dir->naks[code]),
			     aeth_nak_name(code), name_side(findings, !requester, side));
	}
	if (dir->first_nak_ns)
		find(findings, "the first NAK follows %s after the first packet",
		     text_of_time(time, dir->first_nak_ns - conn->first_data_ns));
}

static void find_retransmissions(const struct findings *findings, int requester)
{
	static const char *const causes[RETRANSMISSION_CAUSES] = {
		[RETRANSMISSION_TIMEOUT] = "after a timeout or a gap",
		[RETRANSMISSION_NAK] = "after a NAK",
		[RETRANSMISSION_RNR] = "after an RNR NAK",
	};
	const struct conn_dir *dir = &findings->conn->dir[requester];
	char side[FINDING_BYTES], count[NUMBER_BYTES], time[NUMBER_BYTES];

	for (int cause = 0; cause < RETRANSMISSION_CAUSES; cause++) {
		if (!dir->retransmissions[cause])
			continue;
		find(findings,
		     "%s retransmitted %s time%s %s, on average %s after the previous packet",
		     name_side(findings, requester, side),
		     text_of_count(count, dir->retransmissions[cause]),
		     plural(dir->retransmissions[cause]), causes[cause],
		     text_of_time(time, dir->retransmission_wait_ns[cause] /
						dir->retransmissions[cause]));
	}
}

static void find_missing(const struct findings *findings, int requester)
{
	const struct conn_dir *dir = &findings->conn->dir[requester];
	char side[FINDING_BYTES], count[NUMBER_BYTES], gaps[NUMBER_BYTES];

	if (dir->missing_packets)
		find(findings,
		     "%s PSN%s missing in the requests of %s or the responses, in %s gap%s",
		     text_of_count(count, dir->missing_packets), plural(dir->missing_packets),
		     name_side(findings, requester, side), text_of_count(gaps, dir->gaps),
		     plural(dir->gaps));
	if (dir->lost_packets)
		find(findings, "%s packet%s of %s did not arrive",
		     text_of_count(count, dir->lost_packets), plural(dir->lost_packets),
		     name_side(findings, requester, side));
	if (dir->congestion_marks || dir->notifications)
		find(findings,
		     "%" PRIu64 " packets of %s have a congestion mark, %" PRIu64
		     " are congestion notifications",
		     dir->congestion_marks, name_side(findings, requester, side),
		     dir->notifications);
}

static void find_events(const struct findings *findings)
{
	const struct conn *conn = findings->conn;
	char side[FINDING_BYTES];

	if (conn->first_status)
		find(findings, "the first failed completion is at %s: %s (vendor error %u)",
		     name_side(findings, conn->first_status_side, side),
		     name_of_wc_status(conn->first_status), conn->first_status_vendor_err);
	if (conn->flushed_completions && !conn_ends_normally(conn))
		find(findings, "%" PRIu64 " completion%s flushed", conn->flushed_completions,
		     plural(conn->flushed_completions));
	if (conn->failed_calls)
		find(findings, "%" PRIu64 " failed call%s", conn->failed_calls,
		     plural(conn->failed_calls));
	if (conn->drops)
		find(findings, "%" PRIu64 " received packet%s dropped", conn->drops,
		     plural(conn->drops));
	if (conn->faults)
		find(findings, "%" PRIu64 " injected fault%s", conn->faults, plural(conn->faults));
}

void analysis_find(const struct model *model, const struct conn *conn,
		   void (*found)(void *ctx, const char *sentence), void *ctx)
{
	struct findings findings = {model, conn, found, ctx};

	find_cm(&findings);
	for (int requester = 0; requester < 2; requester++) {
		find_rnr(&findings, requester);
		find_naks(&findings, requester);
		find_retransmissions(&findings, requester);
		find_missing(&findings, requester);
	}
	find_events(&findings);
}
