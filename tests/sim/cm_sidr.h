/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TESTS_SIM_CM_SIDR_H
#define TESTS_SIM_CM_SIDR_H

#include "cm_model.h"

/*
 * Service ID resolution (SIDR) in the simulator. A requester gets exactly one result in time: the
 * response to its own request, or a timeout. The service's owner gets each request once, as long as
 * the CM stores its response.
 */
#define CM_ASKERS_MAX 64

/* One SIDR request; valid until the end of the run. */
struct cm_asker {
	uint32_t number; /* from 1; contained in the private data of its messages */
	struct cm_node *node;
	struct cm_node *remote; /* NULL: no host has this address */
	uint8_t remote_gid[GID_BYTES];
	struct cm_sidr *sidr; /* NULL: not sent yet, completed or destroyed, or the host crashed */
	uint64_t plan_ns;     /* time of the request; 0: sent */
	uint64_t leave_ns;    /* time at which the requester destroys the request; 0: never */
	uint64_t asked_ns;
	uint64_t timeout_ns;
	uint64_t service_id;
	bool is_dead;
	bool is_over;
};

/* A SIDR request that was reported to a service's owner. */
struct cm_answerer {
	struct cm_node *node;
	unsigned incarnation;
	struct cm_asker *asker;
	struct cm_sidr *sidr; /* NULL: answered, or the host crashed */
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
	uint64_t responses;
	uint64_t silences;
};

void cm_sidr_model_open(struct cm_sidr_model *sidr, struct cm_model *model);

/* Plans a request to `to` at at_ns; NULL: to an address without a host. */
void cm_sidr_model_ask(struct cm_sidr_model *sidr, struct cm_node *from, struct cm_node *to,
		       uint64_t at_ns);
void cm_sidr_model_died(struct cm_sidr_model *sidr, const struct cm_node *node);

uint64_t cm_sidr_model_next(const struct cm_sidr_model *sidr);
void cm_sidr_model_act(struct cm_sidr_model *sidr);

void cm_sidr_model_check_rest(struct cm_sidr_model *sidr);
void cm_sidr_model_leave(struct cm_sidr_model *sidr);

/* Called by the hooks of the world. */
void *cm_sidr_model_request(struct cm_node *node, struct cm_sidr *resolution,
			    const struct cm_path *path, const struct cm_sidr_req *req,
			    uint8_t *status);
void cm_sidr_model_event(struct cm_node *node, struct cm_sidr *resolution, void *owner,
			 const struct cm_sidr_rep *rep);

#endif
