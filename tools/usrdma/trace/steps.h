/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_TOOL_TRACE_STEPS_H
#define USRDMA_TOOL_TRACE_STEPS_H

#include "model.h"

/*
 * The rows of a sequence diagram: the items of one connection, with the packets of a message joined
 * and runs folded.
 */

#define STEP_PERIOD_MAX 12
#define STEP_TEXT_BYTES 160

enum step_kind {
	STEP_ARROW, /* from side `side` to the other */
	STEP_NOTE,  /* an event at side `side` */
	STEP_FOLD, /* `repeats` more repetitions of the `period` steps before it, or hidden steps */
	STEP_PHASE, /* a line across both sides */
};

/* The meaning of a step; each has a colour and an entry in the legend. */
enum step_style {
	STYLE_CM,
	STYLE_MESSAGE, /* SEND, WRITE */
	STYLE_READ,    /* READ, atomics and their responses */
	STYLE_ACK,
	STYLE_AGAIN, /* retransmission */
	STYLE_RNR,
	STYLE_ERROR, /* NAK, REJ, failed completion */
	STYLE_LOST,
	STYLE_DONE, /* completion with success */
	STYLE_INFO,
	STYLE_FAULT, /* injected */
	STYLE_COUNT
};

enum step_phase { PHASE_CONNECTED, PHASE_DISCONNECT };

struct step {
	uint64_t time_ns;
	uint64_t end_ns; /* of the last packet of a message; arrival if known */
	uint64_t bytes;
	uint64_t signature; /* equal for steps that a fold may join */
	uint32_t item;	    /* the first */
	uint32_t packets;
	uint32_t last_psn;
	uint32_t repeats; /* STEP_FOLD */
	uint32_t hidden;  /* STEP_FOLD: steps that are not shown; 0: repetitions */
	/* a retransmission: the item after which its sender waited, or MODEL_NONE */
	uint32_t wait_item;
	uint8_t period; /* STEP_FOLD */
	uint8_t kind;	/* enum step_kind */
	uint8_t style;	/* enum step_style */
	uint8_t side;
	uint8_t phase;
	bool is_notable;
	bool is_lost;
	bool is_complete; /* the last packet of the message is in the trace */
};

struct steps {
	const struct model *model;
	const struct conn *conn;
	uint32_t conn_index;
	struct step *list;
	uint32_t count, size;
};

/*
 * Creates the steps of a connection, at most about `rows_max`. 0 or -ENOMEM. The caller calls
 * steps_close(), also on failure.
 */
int steps_open(struct steps *steps, const struct model *model, uint32_t conn_index,
	       uint32_t rows_max) __attribute__((warn_unused_result));
void steps_close(struct steps *steps);

/* Joins repetitions: steps_open() calls it. */
void steps_fold(struct steps *steps);
void steps_hide(struct steps *steps, uint32_t rows_max);

/*
 * What happened, for example "RDMA WRITE 9,000 bytes"; numbers of the step, for example "PSN 5 to
 * 13 · 9 packets".
 */
void step_label(const struct steps *steps, const struct step *step, char out[STEP_TEXT_BYTES]);
void step_detail(const struct steps *steps, const struct step *step, char out[STEP_TEXT_BYTES]);
/* For a fold: the steps that are repeated, `index` is the fold's. */
void step_fold_label(const struct steps *steps, uint32_t index, char out[STEP_TEXT_BYTES]);

const char *step_style_name(enum step_style style);

/* Numbers as text: "1,234,567"; "12.3 ms"; "12.345 ms"; "4.5 MB". */
#define NUMBER_BYTES 40
const char *text_of_count(char out[NUMBER_BYTES], uint64_t count);
const char *text_of_time(char out[NUMBER_BYTES], uint64_t time_ns);
const char *text_of_moment(char out[NUMBER_BYTES], uint64_t time_ns);
const char *text_of_bytes(char out[NUMBER_BYTES], uint64_t bytes);

#endif
