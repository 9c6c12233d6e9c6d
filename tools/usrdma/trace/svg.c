/* SPDX-License-Identifier: BSD-2-Clause */
/* The sequence diagram as SVG: drawing of the steps (steps.h). */
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "diagram.h"
#include "steps.h"
#include "svg_private.h"
#include "svg_style.h"
#include "wire/cm_msg.h"
#include "wire/line.h"

static int middle_of(const struct drawing *drawing)
{
	return (drawing->life_x[0] + drawing->life_x[1]) / 2;
}

static __attribute__((format(printf, 5, 6))) void
draw_text(const struct drawing *drawing, int x, int y, const char *classes, const char *format, ...)
{
	char text[512];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	fprintf(drawing->out, "<text x=\"%d\" y=\"%d\" class=\"%s\">", x, y, classes);
	xml_text(drawing->out, text);
	fputs("</text>\n", drawing->out);
}

/* One lifeline, dotted where time is left out. */
static void draw_lifeline(const struct drawing *drawing, int x)
{
	int from = BOX_Y + BOX_HEIGHT;

	for (uint32_t i = 0; i < drawing->steps->count; i++) {
		const struct row *row = &drawing->rows[i];
		int end = row->y - 42;
		int gap = PAUSE_HEIGHT - 4;

		if (drawing->steps->list[i].kind == STEP_FOLD) {
			end = row->y - 14;
			gap = 28;
		} else if (!row->pause_ns) {
			continue;
		}
		if (end > from)
			fprintf(drawing->out,
				"<line x1=\"%d\" y1=\"%d\" x2=\"%d\" y2=\"%d\" class=\"life\"/>\n",
				x, from, x, end);
		fprintf(drawing->out,
			"<line x1=\"%d\" y1=\"%d\" x2=\"%d\" y2=\"%d\" class=\"life gap\"/>\n", x,
			end, x, end + gap);
		from = end + gap;
	}
	fprintf(drawing->out, "<line x1=\"%d\" y1=\"%d\" x2=\"%d\" y2=\"%d\" class=\"life\"/>\n", x,
		from, x, drawing->height);
}

static void draw_time(const struct drawing *drawing, uint32_t index)
{
	const struct step *step = &drawing->steps->list[index];
	const struct row *row = &drawing->rows[index];
	uint64_t since_ns = step->time_ns - drawing->steps->conn->first_ns;
	char text[NUMBER_BYTES];

	if (row->pause_ns)
		draw_text(drawing, AXIS_X, row->y - 29, "t pause", "+ %s",
			  text_of_time(text, row->pause_ns));
	if (!row->joins_previous && step->kind != STEP_PHASE)
		draw_text(drawing, AXIS_X, row->y + 4, "t", "%s", text_of_moment(text, since_ns));
}

/* Cuts a text to a number of characters. UTF-8 sequences stay whole. */
static void cut_text(char *text, size_t chars)
{
	size_t count = 0;
	char *at;

	for (at = text; *at; at++) {
		if ((*at & 0xc0) == 0x80)
			continue;
		if (++count == chars && strlen(at) > 3) {
			strcpy(at, "\342\200\246");
			return;
		}
	}
}

/* The text above an arrow: what happened, and its numbers in a weaker colour. */
static void draw_arrow_text(const struct drawing *drawing, const struct step *step, int y)
{
	char label[STEP_TEXT_BYTES], detail[STEP_TEXT_BYTES];
	size_t used;

	step_label(drawing->steps, step, label);
	step_detail(drawing->steps, step, detail);
	used = strlen(label) + (step->style == STYLE_AGAIN ? 18 : 0);
	cut_text(detail, used < LABEL_CHARS - 10 ? LABEL_CHARS - used : 10);
	fprintf(drawing->out, "<text x=\"%d\" y=\"%d\" class=\"m\"><tspan class=\"l %s\">",
		middle_of(drawing), y - 7, svg_class(step->style));
	if (step->style == STYLE_AGAIN)
		fputs("\342\206\273 ", drawing->out);
	xml_text(drawing->out, label);
	if (step->style == STYLE_AGAIN)
		fputs(" again", drawing->out);
	fputs("</tspan>", drawing->out);
	if (*detail) {
		fputs("<tspan class=\"d\" dx=\"10\">", drawing->out);
		xml_text(drawing->out, detail);
		fputs("</tspan>", drawing->out);
	}
	fputs("</text>\n", drawing->out);
}

static void draw_head(const struct drawing *drawing, int x, int y, bool to_right, const char *class)
{
	int back = to_right ? -10 : 10;

	fprintf(drawing->out, "<polygon points=\"%d,%d %d,%d %d,%d\" class=\"%s f\"/>\n", x, y,
		x + back, y - 5, x + back, y + 4, class);
}

static void draw_arrow(const struct drawing *drawing, uint32_t index)
{
	const struct step *step = &drawing->steps->list[index];
	int y = drawing->rows[index].y;
	bool to_right = !step->side;
	int from = drawing->life_x[step->side] + (to_right ? 5 : -5);
	int to = drawing->life_x[!step->side] + (to_right ? -5 : 5);
	const char *class = svg_class(step->style);
	char label[STEP_TEXT_BYTES], detail[STEP_TEXT_BYTES], time[NUMBER_BYTES];
	bool is_thick = step->packets > 1;
	int end_y = y + SLANT;

	step_label(drawing->steps, step, label);
	step_detail(drawing->steps, step, detail);
	fputs("<g><title>", drawing->out);
	xml_text(drawing->out, label);
	fputs("\n", drawing->out);
	xml_text(drawing->out, detail);
	fprintf(drawing->out, "\nat %s</title>\n",
		text_of_moment(time, step->time_ns - drawing->steps->conn->first_ns));
	if (step->is_lost) {
		to = from + (to - from) * 3 / 4;
		end_y = y + SLANT * 3 / 4;
	}
	fprintf(drawing->out,
		"<line x1=\"%d\" y1=\"%d\" x2=\"%d\" y2=\"%d\" class=\"a %s%s%s\"/>\n", from, y,
		to + (step->is_lost ? 0 :
		      to_right	    ? -8 :
				      8),
		end_y, class, is_thick ? " thick" : "", step->style == STYLE_ACK ? " thin" : "");
	if (step->is_lost)
		fprintf(drawing->out,
			"<path d=\"M%d %d l12 12 m0 -12 l-12 12\" class=\"a thick %s\"/>\n", to - 6,
			end_y - 6, class);
	else
		draw_head(drawing, to, end_y, to_right, class);
	draw_arrow_text(drawing, step, y);
	fputs("</g>\n", drawing->out);
}

static void draw_note(const struct drawing *drawing, uint32_t index)
{
	const struct step *step = &drawing->steps->list[index];
	int x = step->side ? drawing->life_x[1] + NOTE_GAP :
			     drawing->life_x[0] - NOTE_GAP - NOTE_WIDTH;
	int y = drawing->rows[index].y - NOTE_HEIGHT / 2 + 2;
	const char *class = svg_class(step->style);
	char label[STEP_TEXT_BYTES], detail[STEP_TEXT_BYTES], full[STEP_TEXT_BYTES];

	step_label(drawing->steps, step, label);
	step_detail(drawing->steps, step, detail);
	strcpy(full, label);
	cut_text(label, NOTE_CHARS);
	cut_text(detail, NOTE_CHARS + 4);
	fputs("<g><title>", drawing->out);
	xml_text(drawing->out, full);
	fputs("</title>\n", drawing->out);
	fprintf(drawing->out,
		"<line x1=\"%d\" y1=\"%d\" x2=\"%d\" y2=\"%d\" class=\"a thin %s\"/>\n",
		drawing->life_x[step->side], y + NOTE_HEIGHT / 2,
		step->side ? drawing->life_x[1] + NOTE_GAP : drawing->life_x[0] - NOTE_GAP,
		y + NOTE_HEIGHT / 2, class);
	fprintf(drawing->out,
		"<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" rx=\"6\" class=\"note %s\"/>\n",
		x, y, NOTE_WIDTH, NOTE_HEIGHT, class);
	fprintf(drawing->out, "<text x=\"%d\" y=\"%d\" class=\"s %s\">", x + 8,
		y + (*detail ? 13 : 19), class);
	if (step->style == STYLE_ERROR)
		fputs("\342\234\225 ", drawing->out);
	else if (step->style == STYLE_DONE)
		fputs("\342\234\223 ", drawing->out);
	xml_text(drawing->out, label);
	fputs("</text>\n", drawing->out);
	if (*detail)
		draw_text(drawing, x + 8, y + 25, "x", "%s", detail);
	fputs("</g>\n", drawing->out);
}

static void draw_fold(const struct drawing *drawing, uint32_t index)
{
	const struct step *step = &drawing->steps->list[index];
	char label[STEP_TEXT_BYTES], bytes[NUMBER_BYTES], time[NUMBER_BYTES];
	int y = drawing->rows[index].y;
	uint64_t took_ns = step->end_ns > step->time_ns ? step->end_ns - step->time_ns : 0;

	step_fold_label(drawing->steps, index, label);
	cut_text(label, 76);
	fprintf(drawing->out,
		"<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"32\" rx=\"8\" class=\"fold\"/>\n",
		drawing->life_x[0] + 24, y - 16, drawing->life_x[1] - drawing->life_x[0] - 48);
	draw_text(drawing, middle_of(drawing), y - 2, "m fl", "\342\213\257 %s \342\213\257",
		  label);
	if (step->hidden)
		draw_text(drawing, middle_of(drawing), y + 11, "m d", "%s",
			  text_of_time(time, took_ns));
	else
		draw_text(drawing, middle_of(drawing), y + 11, "m d", "%s in %s",
			  text_of_bytes(bytes, step->bytes), text_of_time(time, took_ns));
}

static void draw_phase(const struct drawing *drawing, uint32_t index)
{
	const struct step *step = &drawing->steps->list[index];
	const struct conn *conn = drawing->steps->conn;
	int y = drawing->rows[index].y - 6;
	char time[NUMBER_BYTES];

	fprintf(drawing->out, "<line x1=\"%d\" y1=\"%d\" x2=\"%d\" y2=\"%d\" class=\"phase\"/>\n",
		drawing->life_x[0], y, drawing->life_x[1], y);
	fprintf(drawing->out,
		"<rect x=\"%d\" y=\"%d\" width=\"200\" height=\"20\" rx=\"10\" class=\"pill\"/>\n",
		middle_of(drawing) - 100, y - 10);
	if (step->phase == PHASE_CONNECTED)
		draw_text(drawing, middle_of(drawing), y + 4, "m p", "connected after %s",
			  text_of_time(time, step->time_ns - conn->cm.req_ns));
	else
		draw_text(drawing, middle_of(drawing), y + 4, "m p", "disconnecting");
}

/* A bar on the lifeline of a requester that waits before it sends again. */
static void draw_wait(const struct drawing *drawing, uint32_t index)
{
	const struct steps *steps = drawing->steps;
	const struct step *step = &steps->list[index];
	uint32_t at = index;
	int from;

	if (step->wait_item == MODEL_NONE || step->kind != STEP_ARROW)
		return;
	while (at && index - at < WAIT_BACK && steps->list[at].item != step->wait_item)
		at--;
	if (at == index || steps->list[at].item != step->wait_item ||
	    steps->list[at].kind != STEP_ARROW)
		return;
	from = drawing->rows[at].y + (steps->list[at].side != step->side ? SLANT : 0);
	fprintf(drawing->out,
		"<rect x=\"%d\" y=\"%d\" width=\"8\" height=\"%d\" rx=\"2\" class=\"wait %s\"/>\n",
		drawing->life_x[step->side] - 4, from, drawing->rows[index].y - from,
		svg_class(steps->list[at].style == STYLE_RNR ? STYLE_RNR : STYLE_AGAIN));
}

static void draw_box(const struct drawing *drawing, uint8_t side, int y)
{
	const struct model *model = drawing->steps->model;
	const struct conn_side *end = &drawing->steps->conn->side[side];
	int x = drawing->life_x[side], left = x - BOX_WIDTH / 2;
	char address[64] = "unknown host", program[80];
	struct line line = {.out = address, .room = sizeof(address)};

	if (end->host != MODEL_NONE) {
		address[0] = '\0';
		line_add_gid(&line, model->hosts[end->host].gid);
	}
	fprintf(drawing->out,
		"<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" rx=\"10\" class=\"box\"/>\n",
		left, y, BOX_WIDTH, BOX_HEIGHT);
	if (end->process != MODEL_NONE) {
		const struct model_process *process = &model->processes[end->process];

		snprintf(program, sizeof(program), "%s",
			 *process->program ? process->program : "process");
		draw_text(drawing, x, y + 22, "m h", "%s (pid %u)", program, process->pid);
		draw_text(drawing, x, y + 40, "m d", "%s", address);
	} else {
		draw_text(drawing, x, y + 26, "m h", "%s", address);
	}
	if (end->qpn == 0xffffff)
		draw_text(drawing, x, y + 57, "m d", "multicast group");
	else if (end->qpn)
		draw_text(drawing, x, y + (end->process != MODEL_NONE ? 57 : 48), "m d", "QP 0x%x",
			  end->qpn);
	else
		draw_text(drawing, x, y + (end->process != MODEL_NONE ? 57 : 48), "m d",
			  "QP unknown");
}

static void draw_title(const struct drawing *drawing, const char *source)
{
	const struct conn *conn = drawing->steps->conn;
	static const char *const transports[] = {
		[OPCODE_TRANSPORT_RC] = "RC",	      [OPCODE_TRANSPORT_UC] = "UC",
		[OPCODE_TRANSPORT_RD] = "RD",	      [OPCODE_TRANSPORT_UD] = "UD",
		[OPCODE_TRANSPORT_CNP] = "CNP",	      [OPCODE_TRANSPORT_XRC] = "XRC",
		[OPCODE_TRANSPORT_VENDOR] = "vendor",
	};
	char packets[NUMBER_BYTES], messages[NUMBER_BYTES], bytes[NUMBER_BYTES], time[NUMBER_BYTES];
	char text[256], when[40] = "";
	time_t seconds = (time_t)(conn->first_ns / 1000000000u);
	struct line line = {.out = text, .room = sizeof(text)};
	struct tm utc;

	if (conn->first_ns && gmtime_r(&seconds, &utc))
		strftime(when, sizeof(when), "%Y-%m-%d %H:%M:%S UTC", &utc);
	draw_text(drawing, EDGE, 34, "title", "%s connection", transports[conn->transport]);
	draw_text(drawing, drawing->width - EDGE, 34, "t", "%s", source);
	draw_text(drawing, drawing->width - EDGE, 54, "t", "%s", when);
	if (conn->has_data)
		line_add(&line, "%s packets, %s messages, %s in %s",
			 text_of_count(packets, conn->packets),
			 text_of_count(messages, conn->dir[0].messages + conn->dir[1].messages),
			 text_of_bytes(bytes, conn->dir[0].bytes + conn->dir[1].bytes),
			 text_of_time(time, conn->last_data_ns - conn->first_data_ns));
	else
		line_add(&line, "no packet of a QP");
	if (drawing->steps->model->conn_count > 1)
		line_add(&line, ", connection %u of %u", drawing->steps->conn_index + 1,
			 drawing->steps->model->conn_count);
	if (conn->mtu_bytes)
		line_add(&line, ", path MTU %u", conn->mtu_bytes);
	draw_text(drawing, EDGE, 56, "sub", "%s", text);
	if (svg_trouble(conn, text, sizeof(text)))
		draw_text(drawing, EDGE, 76, "sub err", "%s", text);
	else
		draw_text(drawing, EDGE, 76, "sub ok", "no retransmission, NAK or error");
}

static int legend_height(const struct drawing *drawing)
{
	int columns = (drawing->width - EDGE) / LEGEND_WIDTH;
	int entries = __builtin_popcount(drawing->used);

	return (entries + columns - 1) / columns * LEGEND_ROW + 6;
}

static void draw_legend(const struct drawing *drawing, int y)
{
	int x = EDGE;

	for (uint32_t style = 0; style < STYLE_COUNT; style++) {
		const char *class = svg_class((enum step_style)style);

		if (!(drawing->used & 1u << style))
			continue;
		if (x + LEGEND_WIDTH > drawing->width) {
			x = EDGE;
			y += LEGEND_ROW;
		}
		fprintf(drawing->out,
			"<line x1=\"%d\" y1=\"%d\" x2=\"%d\" y2=\"%d\" class=\"a thick %s\"/>\n", x,
			y, x + 22, y, class);
		draw_text(drawing, x + 30, y + 4, "x", "%s",
			  step_style_name((enum step_style)style));
		x += LEGEND_WIDTH;
	}
}

static void draw_step(const struct drawing *drawing, uint32_t index)
{
	const struct step *step = &drawing->steps->list[index];

	draw_time(drawing, index);
	switch (step->kind) {
	case STEP_ARROW:
		draw_arrow(drawing, index);
		break;
	case STEP_NOTE:
		draw_note(drawing, index);
		break;
	case STEP_FOLD:
		draw_fold(drawing, index);
		break;
	default:
		draw_phase(drawing, index);
		break;
	}
}

static void draw_all(const struct drawing *drawing, const char *source, bool is_inline)
{
	bool is_tall = drawing->height > 1000;
	int boxes_y = drawing->height + 4;
	int legend_y = drawing->height + (is_tall ? BOX_HEIGHT + 32 : 26);
	int height = legend_y + legend_height(drawing);

	if (!is_inline)
		fputs("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n", drawing->out);
	fprintf(drawing->out,
		"<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" width=\"%d\" "
		"height=\"%d\" role=\"img\">\n<title>Sequence diagram of an RDMA connection</title>\n",
		drawing->width, height, drawing->width, height);
	fputs(svg_style_sheet, drawing->out);
	fprintf(drawing->out, "<rect width=\"%d\" height=\"%d\" rx=\"12\" class=\"bg\"/>\n",
		drawing->width, height);
	draw_title(drawing, source);
	draw_lifeline(drawing, drawing->life_x[0]);
	draw_lifeline(drawing, drawing->life_x[1]);
	for (uint8_t side = 0; side < 2; side++) {
		draw_box(drawing, side, BOX_Y);
		if (is_tall)
			draw_box(drawing, side, boxes_y);
	}
	for (uint32_t i = 0; i < drawing->steps->count; i++)
		draw_wait(drawing, i);
	for (uint32_t i = 0; i < drawing->steps->count; i++)
		draw_step(drawing, i);
	draw_legend(drawing, legend_y);
	fputs("</svg>\n", drawing->out);
}

int diagram_svg(FILE *out, const struct model *model, uint32_t conn_index, const char *source,
		bool is_inline)
{
	struct steps steps;
	struct drawing drawing = {.out = out, .steps = &steps};
	int error = steps_open(&steps, model, conn_index, DIAGRAM_ROWS_MAX);

	if (!error) {
		drawing.rows = calloc(steps.count + 1, sizeof(*drawing.rows));
		error = drawing.rows ? 0 : -1;
	}
	if (!error) {
		svg_lay_out(&drawing);
		draw_all(&drawing, source, is_inline);
	}
	free(drawing.rows);
	steps_close(&steps);
	return error;
}
