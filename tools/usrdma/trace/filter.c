/* SPDX-License-Identifier: BSD-2-Clause */
#include "filter.h"

#include <string.h>

static bool filter_is_of_process(const struct trace_filter *filter,
				 const struct trace_record *record)
{
	uint32_t pid = filter->options->pid;

	return !pid || record->pid == pid || record->event.pid == pid;
}

/* The second QP of an event; 0: none, or unknown. */
static uint32_t other_qpn(const struct trace_event *event)
{
	switch (event->type) {
	case TRACE_FIFO_SENT:
	case TRACE_FIFO_RECEIVED:
		return event->fifo.src_qpn;
	case TRACE_ONE_SIDED:
		return event->one_sided.remote_qpn;
	case TRACE_DROP:
		return event->drop.src_qpn;
	default:
		return 0;
	}
}

static bool filter_is_of_qp(struct trace_filter *filter, const struct trace_record *record)
{
	const struct trace_event *event = &record->event;
	uint32_t qpn = filter->options->qpn;
	bool is_packet = event->type == TRACE_PACKET_SENT || event->type == TRACE_PACKET_RECEIVED;

	if (!qpn || !event->qpn || event->qpn == qpn || other_qpn(event) == qpn) {
		if (qpn && event->type == TRACE_QP_PATH && event->qpn == qpn)
			filter->peer_qpn = event->qp_path.remote_qpn;
		return true;
	}
	return is_packet && filter->peer_qpn && event->qpn == filter->peer_qpn;
}

static bool filter_is_of_device(const struct trace_filter *filter,
				const struct trace_record *record)
{
	const char *device = filter->options->device;

	return !device || !*record->device || strcmp(record->device, device) == 0;
}

static int filter_put(void *ctx, const struct trace_record *record)
{
	struct trace_filter *filter = ctx;

	if (!filter_is_of_process(filter, record) || !filter_is_of_qp(filter, record) ||
	    !filter_is_of_device(filter, record))
		return 0;
	return filter->next.put(filter->next.ctx, record);
}

static int filter_end(void *ctx)
{
	struct trace_filter *filter = ctx;

	return filter->next.end(filter->next.ctx);
}

struct trace_out trace_filter_out(struct trace_filter *filter)
{
	return (struct trace_out){.put = filter_put, .end = filter_end, .ctx = filter};
}

static int tee_put(void *ctx, const struct trace_record *record)
{
	struct trace_tee *tee = ctx;
	int ret = 0;

	for (int i = 0; i < tee->count && !ret; i++)
		ret = tee->outs[i].put(tee->outs[i].ctx, record);
	return ret;
}

/* The first error; every consumer ends. */
static int tee_end(void *ctx)
{
	struct trace_tee *tee = ctx;
	int first = 0;

	for (int i = 0; i < tee->count; i++) {
		int ret = tee->outs[i].end(tee->outs[i].ctx);

		if (!first)
			first = ret;
	}
	return first;
}

struct trace_out trace_tee_out(struct trace_tee *tee)
{
	return (struct trace_out){.put = tee_put, .end = tee_end, .ctx = tee};
}
