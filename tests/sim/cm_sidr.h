/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TESTS_SIM_CM_SIDR_H
#define TESTS_SIM_CM_SIDR_H

#include "cm_model.h"

/*
 * Datagram services in the simulator: who asks for one hears once, in time, either what the service's owner answered to
 * just this question or that nobody did; the owner is asked about each question once, as long as it is remembered.
 */
#define CM_ASKERS_MAX 64

/* One question; lives as long as its run. */
struct cm_asker {
	uint32_t number; /* from 1; in all that it says */
	struct cm_node *node;
	struct cm_node *remote; /* NULL: nobody lives at that address */
	uint8_t remote_gid[GID_BYTES];
	struct cm_sidr *sidr; /* NULL: not asked yet, over, let go, or its host died */
	uint64_t plan_ns;     /* asks; 0: has asked */
	uint64_t leave_ns;    /* lets go; 0: never */
	uint64_t asked_ns;
	uint64_t patience_ns;
	uint64_t service_id;
	bool is_dead;
	bool is_over;
};

/* A question where it was put to a service's owner. */
struct cm_answerer {
	struct cm_node *node;
	unsigned incarnation;
	struct cm_asker *asker;
	struct cm_sidr *sidr; /* NULL: answered, or its host died */
	uint64_t plan_ns;
	bool has_answered;
	uint64_t answered_ns;
	uint8_t status;
	uint32_t qpn;
	uint32_t qkey;
};

struct cm_sidr_model {
	struct cm_model *model;
	struct cm_asker askers[CM_ASKERS_MAX];
	unsigned asker_count;
	struct cm_answerer answerers[2 * CM_ASKERS_MAX];
	unsigned answerer_count;
	uint64_t answers;
	uint64_t silences;
};

void cm_sidr_model_open(struct cm_sidr_model *sidr, struct cm_model *model);

/* Somebody who will ask `to`, or nobody's address, at that time. */
void cm_sidr_model_ask(struct cm_sidr_model *sidr, struct cm_node *from, struct cm_node *to,
		       uint64_t at_ns);
void cm_sidr_model_died(struct cm_sidr_model *sidr, const struct cm_node *node);

uint64_t cm_sidr_model_next(const struct cm_sidr_model *sidr);
void cm_sidr_model_act(struct cm_sidr_model *sidr);

void cm_sidr_model_check_rest(struct cm_sidr_model *sidr);
void cm_sidr_model_leave(struct cm_sidr_model *sidr);

/* For the world's hooks. */
void *cm_sidr_model_request(struct cm_node *node, struct cm_sidr *resolution,
			    const struct cm_path *path, const struct cm_sidr_req *req,
			    uint8_t *status);
void cm_sidr_model_event(struct cm_node *node, struct cm_sidr *resolution, void *owner,
			 const struct cm_sidr_rep *rep);

#endif
