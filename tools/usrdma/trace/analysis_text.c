/* SPDX-License-Identifier: BSD-2-Clause */
#include <inttypes.h>
#include <string.h>

#include "analysis.h"
#include "steps.h"

static void print_file(FILE *out, const struct analysis *analysis)
{
	const struct trace_read_counts *counts = analysis->counts;

	if (!counts)
		return;
	fprintf(out, "%s: ", analysis->source);
	if (counts->packets || !counts->events)
		fprintf(out, "%" PRIu64 " packets, %" PRIu64 " of RoCEv2, ", counts->packets,
			counts->roce);
	if (counts->events)
		fprintf(out, "%" PRIu64 " events of usrdma, ", counts->events);
	fprintf(out, "%u connection%s\n", analysis->model->conn_count,
		analysis->model->conn_count == 1 ? "" : "s");
	if (counts->icrc_wrong)
		fprintf(out,
			"wrong ICRC: %" PRIu64 " of %" PRIu64 " packets that were captured whole\n",
			counts->icrc_wrong, counts->icrc_wrong + counts->icrc_right);
	if (counts->cut)
		fprintf(out,
			"%" PRIu64
			" packets are not evaluated: the capture cut their headers off\n",
			counts->cut);
	if (counts->fragments)
		fprintf(out, "%" PRIu64 " IP fragments are not evaluated\n", counts->fragments);
	if (counts->events_skipped)
		fprintf(out, "%" PRIu64 " events of another version of usrdma are not evaluated\n",
			counts->events_skipped);
	if (counts->is_truncated)
		fprintf(out, "the file ends within a packet\n");
	if (analysis->model->items_left_out)
		fprintf(out, "%" PRIu64 " records above the limit of %u are not evaluated\n",
			analysis->model->items_left_out, MODEL_ITEMS_MAX);
	if (analysis->model->records_lost)
		fprintf(out, "%" PRIu64 " records were lost while the trace was recorded\n",
			analysis->model->records_lost);
}

static void print_row(FILE *out, const char *name, const char *first, const char *second)
{
	fprintf(out, "  %-22s %18s %18s\n", name, first, second);
}

static void print_counts(FILE *out, const char *name, uint64_t first, uint64_t second, bool always)
{
	char texts[2][NUMBER_BYTES];

	if (always || first || second)
		print_row(out, name, text_of_count(texts[0], first),
			  text_of_count(texts[1], second));
}

static void print_rates(FILE *out, const struct conn *conn)
{
	char rates[2][NUMBER_BYTES + 8], bytes[NUMBER_BYTES];

	for (int side = 0; side < 2; side++)
		snprintf(rates[side], sizeof(rates[side]), "%s/s",
			 text_of_bytes(bytes, analysis_bytes_per_s(conn, &conn->dir[side])));
	print_row(out, "throughput", rates[0], rates[1]);
}

static void print_rtts(FILE *out, const struct conn *conn)
{
	static const char *const names[] = {"response time, min", "average", "max"};
	char texts[2][NUMBER_BYTES];

	if (!conn->dir[0].rtt_count && !conn->dir[1].rtt_count)
		return;
	for (int kind = 0; kind < 3; kind++) {
		for (int side = 0; side < 2; side++) {
			const struct conn_dir *dir = &conn->dir[side];
			uint64_t value = kind == 0 ? dir->rtt_min_ns : dir->rtt_max_ns;

			strcpy(texts[side], "-");
			if (!dir->rtt_count)
				continue;
			if (kind == 1)
				value = dir->rtt_sum_ns / dir->rtt_count;
			text_of_time(texts[side], value);
		}
		print_row(out, names[kind], texts[0], texts[1]);
	}
}

static uint64_t sum_naks(const struct conn_dir *dir)
{
	uint64_t sum = 0;

	for (int code = 0; code < AETH_CODES; code++)
		sum += dir->naks[code];
	return sum;
}

static void print_data(FILE *out, const struct conn *conn)
{
	const struct conn_dir *a = &conn->dir[0], *b = &conn->dir[1];
	char texts[2][NUMBER_BYTES];

	print_row(out, "requester", "first side", "second side");
	print_counts(out, "packets sent", a->packets, b->packets, true);
	print_counts(out, "SEND", a->sends, b->sends, false);
	print_counts(out, "RDMA WRITE", a->writes, b->writes, false);
	print_counts(out, "RDMA READ", a->reads, b->reads, false);
	print_counts(out, "atomic", a->atomics, b->atomics, false);
	print_row(out, "payload", text_of_bytes(texts[0], a->bytes),
		  text_of_bytes(texts[1], b->bytes));
	print_rates(out, conn);
	print_rtts(out, conn);
	print_counts(out, "packets sent again", a->retransmitted_packets, b->retransmitted_packets,
		     false);
	print_counts(out, "responses sent again", a->retransmitted_responses,
		     b->retransmitted_responses, false);
	print_counts(out, "RNR NAKs received", a->rnr_naks, b->rnr_naks, false);
	print_counts(out, "NAKs received", sum_naks(a), sum_naks(b), false);
	print_counts(out, "repeated ACKs", a->duplicate_acks, b->duplicate_acks, false);
	print_counts(out, "missing PSNs", a->missing_packets, b->missing_packets, false);
	print_counts(out, "out of order", a->out_of_order_packets, b->out_of_order_packets, false);
	print_counts(out, "lost packets", a->lost_packets, b->lost_packets, false);
}

static void print_cm(FILE *out, const struct conn_cm *cm)
{
	char reply[NUMBER_BYTES], total[NUMBER_BYTES];

	if (!cm->req_ns || !cm->rep_ns)
		return;
	if (cm->is_sidr)
		fprintf(out, "  service ID resolved in %s\n",
			text_of_time(reply, cm->rep_ns - cm->req_ns));
	else if (cm->rtu_ns)
		fprintf(out, "  connected in %s: REQ to REP %s\n",
			text_of_time(total, cm->rtu_ns - cm->req_ns),
			text_of_time(reply, cm->rep_ns - cm->req_ns));
	if (cm->dreq_ns && cm->drep_ns)
		fprintf(out, "  disconnected in %s\n",
			text_of_time(reply, cm->drep_ns - cm->dreq_ns));
}

static void print_finding(void *ctx, const char *sentence)
{
	fprintf(ctx, "  ! %s\n", sentence);
}

void analysis_print(FILE *out, const struct analysis *analysis)
{
	const struct model *model = analysis->model;

	print_file(out, analysis);
	for (uint32_t i = 0; i < model->conn_count; i++) {
		const struct conn *conn = &model->conns[i];
		char sides[2][FINDING_BYTES];

		if (!analysis_wants(analysis, i))
			continue;
		fprintf(out, "\n%s %s <-> %s", analysis_transport(conn),
			analysis_side(model, &conn->side[0], sides[0]),
			analysis_side(model, &conn->side[1], sides[1]));
		if (conn->mtu_bytes)
			fprintf(out, ", path MTU %u", conn->mtu_bytes);
		fputc('\n', out);
		print_cm(out, &conn->cm);
		if (conn->has_data)
			print_data(out, conn);
		analysis_find(model, conn, print_finding, out);
	}
}
