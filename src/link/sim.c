/* SPDX-License-Identifier: BSD-2-Clause */
#include "link/sim.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/be.h"
#include "base/list.h"
#include "base/timer.h"
#include "link/sim_rules.h"

#define NODES_MAX  64
#define GROUPS_MAX 16
#define PORT_FIRST 0xc000u
/* In a BTH (IBA 1.x §9.2.1). */
#define DEST_QPN_OFFSET 5

#define ECN_MASK    0x03
#define ECN_CAPABLE 0x02
#define ECN_MARKED  0x03

/* A reordered datagram arrives after this time, even if no later ones follow. */
#define REORDER_NS UINT64_C(10000000)

/*
 * A datagram: in the network's heap until it arrives, then in its receiver's list. Freed after
 * recv() returned it.
 */
struct datagram {
	struct timer arrival;
	struct list_head node;
	struct sim_link *to;
	struct list_head flight; /* to->coming */
	/* REORDER: number of datagrams for the QP that are still to overtake this one; else 0 */
	uint64_t followers;
	struct link_rx rx;
	uint8_t bytes[PACKET_MAX];
};

/* A membership; no two of a link are the same. */
struct sim_group {
	uint32_t ifindex;
	uint8_t gid[GID_BYTES];
};

struct sim_link {
	struct link link;
	struct sim_net *net;
	uint8_t gid[GID_BYTES];
	uint32_t first_qpn;
	uint32_t qpn_count; /* 0: all */
	struct sim_group groups[GROUPS_MAX];
	unsigned group_count;
	bool is_cut;
	uint64_t last_arrival_ns;
	struct list_head coming;      /* struct datagram.flight */
	unsigned int reordered_count; /* of them with followers */
	struct list_head ready;	      /* struct datagram.node */
	uint32_t ready_pkts;
	struct list_head given; /* returned by the last recv() */
	uint8_t last_sent[PACKET_MAX];
	size_t last_sent_bytes;
};

/* Owned by the caller of sim_net_new(). One thread uses the network and all its links. */
struct sim_net {
	uint64_t random;
	uint64_t now_ns;
	struct sim_faults faults; /* without its member `rules` */
	struct sim_rules *rules;  /* or NULL */
	struct timer_heap flights;
	struct sim_link *links[NODES_MAX];
	unsigned link_count;
};

/* The splitmix64 generator. */
static uint64_t random_next(struct sim_net *net)
{
	uint64_t z = net->random += UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
	return z ^ z >> 31;
}

static uint64_t random_below(struct sim_net *net, uint64_t n)
{
	return n ? random_next(net) % n : 0;
}

static bool chance(struct sim_net *net, unsigned of_certain)
{
	return of_certain && random_below(net, SIM_CERTAIN) < of_certain;
}

struct sim_net *sim_net_new(uint64_t seed, const struct sim_faults *faults)
{
	struct sim_net *net = calloc(1, sizeof(*net));

	if (!net)
		return NULL;
	net->random = seed;
	timer_heap_init(&net->flights);
	sim_net_set_faults(net, faults);
	if (!faults->rules || net->rules)
		return net;
	free(net);
	return NULL;
}

void sim_net_set_faults(struct sim_net *net, const struct sim_faults *faults)
{
	sim_rules_free(net->rules);
	net->rules = faults->rules ? sim_rules_new(faults->rules, net->now_ns) : NULL;
	net->faults = *faults;
	net->faults.rules = NULL;
}

void sim_net_free(struct sim_net *net)
{
	sim_rules_free(net->rules);
	free(net);
}

void sim_net_advance(struct sim_net *net, uint64_t now_ns)
{
	net->now_ns = now_ns;
	timer_expire(&net->flights, now_ns);
}

uint64_t sim_net_next(const struct sim_net *net)
{
	return timer_next_deadline(&net->flights);
}

static struct sim_link *to_sim(struct link *link)
{
	return (struct sim_link *)(void *)link;
}

static const struct sim_link *to_sim_const(const struct link *link)
{
	return (const struct sim_link *)(const void *)link;
}

static bool sim_socket_is_full(const struct sim_link *link)
{
	uint32_t max = link->net->faults.socket_pkts;

	return max && link->ready_pkts >= max;
}

static void arrive(struct timer *timer, uint64_t now_ns)
{
	struct datagram *datagram = container_of(timer, struct datagram, arrival);

	(void)now_ns;
	list_del(&datagram->flight);
	datagram->to->reordered_count -= datagram->followers != 0;
	if (datagram->to->is_cut || sim_socket_is_full(datagram->to)) {
		free(datagram);
		return;
	}
	datagram->to->ready_pkts++;
	list_add_tail(&datagram->node, &datagram->to->ready);
}

/* The QPN, read without any other check of the packet, as the kernel's filter does. */
static bool takes_qpn(const struct sim_link *link, const uint8_t *bytes)
{
	uint32_t qpn = be_load24(bytes + DEST_QPN_OFFSET);

	return !link->qpn_count || qpn - link->first_qpn < link->qpn_count;
}

static struct sim_link *sim_find(struct sim_net *net, const uint8_t gid[GID_BYTES],
				 const uint8_t *bytes)
{
	for (unsigned i = 0; i < net->link_count; i++) {
		if (net->links[i] && !memcmp(net->links[i]->gid, gid, GID_BYTES) &&
		    takes_qpn(net->links[i], bytes))
			return net->links[i];
	}
	return NULL;
}

static struct datagram *datagram_new(struct sim_link *to, const uint8_t from_gid[GID_BYTES],
				     uint16_t src_port, const void *bytes, size_t len)
{
	struct datagram *datagram = calloc(1, sizeof(*datagram));

	if (!datagram)
		return NULL;
	timer_init(&datagram->arrival, arrive);
	list_init(&datagram->node);
	list_init(&datagram->flight);
	datagram->to = to;
	memcpy(datagram->rx.local_gid, to->gid, GID_BYTES);
	memcpy(datagram->rx.remote_gid, from_gid, GID_BYTES);
	datagram->rx.src_port = src_port;
	datagram->rx.is_ip_id_known = !to->net->faults.hides_ip_id;
	memcpy(datagram->bytes, bytes, len);
	datagram->rx.bytes = datagram->bytes;
	datagram->rx.len = len;
	return datagram;
}

static void mark_congestion(uint8_t *traffic_class)
{
	if ((*traffic_class & ECN_MASK) == ECN_CAPABLE)
		*traffic_class |= ECN_MARKED;
}

static void damage(struct sim_net *net, struct datagram *datagram, const struct fault *fault)
{
	if (fault && fault->action == FAULT_CORRUPT)
		fault_corrupt(fault, datagram->bytes, datagram->rx.len);
	if (fault && fault->action == FAULT_MARK)
		mark_congestion(&datagram->rx.traffic_class);
	if (chance(net, net->faults.cut))
		datagram->rx.len = (size_t)random_below(net, datagram->rx.len);
}

/*
 * The queue at the receiver's end is longer than the marking threshold, by its instantaneous length
 * (RFC 3168 §5).
 */
static bool sim_queue_marks(const struct sim_net *net, uint64_t at_ns)
{
	const struct sim_faults *faults = &net->faults;

	return faults->mark_queue_ns &&
	       at_ns > net->now_ns + faults->delay_ns + faults->jitter_ns + faults->mark_queue_ns;
}

/*
 * The time of arrival of a datagram that is sent now; TIMER_NEVER_NS: the queue is full. `fault`
 * may be NULL.
 */
static uint64_t arrival_ns(struct sim_net *net, struct sim_link *to, const struct fault *fault)
{
	const struct sim_faults *faults = &net->faults;
	uint64_t at_ns = net->now_ns + faults->delay_ns + random_below(net, faults->jitter_ns);

	if (fault && fault->action == FAULT_DELAY)
		return at_ns + fault->delay_ns;
	if (fault && fault->action == FAULT_REORDER)
		return at_ns + REORDER_NS;
	/* A datagram that is not delayed does not overtake the one before it. */
	if (at_ns <= to->last_arrival_ns + faults->packet_ns)
		at_ns = to->last_arrival_ns + faults->packet_ns + 1;
	if (faults->queue_ns &&
	    at_ns > net->now_ns + faults->delay_ns + faults->jitter_ns + faults->queue_ns)
		return TIMER_NEVER_NS;
	to->last_arrival_ns = at_ns;
	return at_ns;
}

/* A datagram will arrive at at_ns: those that it was the last to overtake arrive after it. */
static void sim_overtake(struct sim_link *to, const uint8_t *bytes, uint64_t at_ns)
{
	struct datagram *datagram;

	if (!to->reordered_count)
		return;
	list_for_each_entry(datagram, &to->coming, flight) {
		if (!datagram->followers ||
		    memcmp(datagram->bytes + DEST_QPN_OFFSET, bytes + DEST_QPN_OFFSET, 3) != 0)
			continue;
		if (--datagram->followers)
			continue;
		to->reordered_count--;
		timer_cancel(&to->net->flights, &datagram->arrival);
		timer_add(&to->net->flights, &datagram->arrival, at_ns + 1);
	}
}

/*
 * `group`: the receiver's membership if the destination is a multicast group, else NULL. `fault`
 * may be NULL; it is not a loss or a duplication.
 */
static void launch(struct sim_link *from, struct sim_link *to, const struct sim_group *group,
		   const struct link_path *path, const struct fault *fault)
{
	struct sim_net *net = from->net;
	bool is_reordered = fault && fault->action == FAULT_REORDER;
	struct datagram *datagram;
	uint64_t at_ns = arrival_ns(net, to, fault);

	if (at_ns == TIMER_NEVER_NS)
		return;
	datagram = datagram_new(to, from->gid, path->src_port, from->last_sent,
				from->last_sent_bytes);
	if (!datagram)
		return;
	datagram->rx.traffic_class = path->traffic_class;
	datagram->rx.hop_limit = path->hop_limit;
	datagram->rx.flow_label = path->flow_label;
	if (group) {
		memcpy(datagram->rx.local_gid, group->gid, GID_BYTES);
		datagram->rx.ifindex = group->ifindex;
	}
	damage(net, datagram, fault);
	if (sim_queue_marks(net, at_ns))
		mark_congestion(&datagram->rx.traffic_class);
	if (is_reordered)
		datagram->followers = fault->count;
	else
		sim_overtake(to, from->last_sent, at_ns);
	to->reordered_count += is_reordered;
	list_add_tail(&datagram->flight, &to->coming);
	timer_add(&net->flights, &datagram->arrival, at_ns);
}

static size_t assemble(const struct link_tx *tx, uint8_t *to)
{
	size_t len = tx->hdr_bytes;

	memcpy(to, tx->hdr, tx->hdr_bytes);
	for (int i = 0; i < tx->payload_count; i++) {
		memcpy(to + len, tx->payload[i].iov_base, tx->payload[i].iov_len);
		len += tx->payload[i].iov_len;
	}
	memcpy(to + len, tx->trailer, tx->trailer_bytes);
	return len + tx->trailer_bytes;
}

/* Delivers the last datagram to one receiver. */
static void deliver(struct sim_link *from, struct sim_link *to, const struct sim_group *group,
		    const struct link_path *path)
{
	const struct sim_passage passage = {
		.path = path,
		.from_gid = from->gid,
		.bytes = from->last_sent,
		.len = from->last_sent_bytes,
	};
	struct sim_net *net = from->net;
	struct fault fault;

	if (!net->rules || !sim_rules_decide(net->rules, &passage, net->now_ns, &fault)) {
		launch(from, to, group, path, NULL);
	} else if (fault.action == FAULT_DUPLICATE) {
		launch(from, to, group, path, NULL);
		launch(from, to, group, path, NULL);
	} else if (fault.action != FAULT_DROP) {
		launch(from, to, group, path, &fault);
	}
}

/* The first membership of a group, or NULL. */
static const struct sim_group *member(const struct sim_link *sim, const uint8_t gid[GID_BYTES])
{
	for (unsigned i = 0; i < sim->group_count; i++) {
		if (!memcmp(sim->groups[i].gid, gid, GID_BYTES))
			return &sim->groups[i];
	}
	return NULL;
}

/* A multicast datagram reaches all members of the group, also its sender if that is a member. */
static void sim_deliver_to_group(struct sim_link *from, const struct link_path *path)
{
	struct sim_net *net = from->net;

	for (unsigned i = 0; i < net->link_count; i++) {
		const struct sim_group *group = net->links[i] ?
							member(net->links[i], path->remote_gid) :
							NULL;

		if (group)
			deliver(from, net->links[i], group, path);
	}
}

static int sim_send(struct link *link, const struct link_tx *tx, int n)
{
	struct sim_link *from = to_sim(link);
	struct sim_net *net = from->net;

	for (int i = 0; i < n; i++) {
		const struct link_path *path = tx[i].path;
		struct sim_link *to;

		if (chance(net, net->faults.refuse))
			return i;
		from->last_sent_bytes = assemble(&tx[i], from->last_sent);
		to = sim_find(net, path->remote_gid, from->last_sent);
		if (from->is_cut)
			continue;
		if (gid_is_multicast(path->remote_gid))
			sim_deliver_to_group(from, path);
		else if (to)
			deliver(from, to, NULL, path);
	}
	return n;
}

static void free_all(struct list_head *list)
{
	while (!list_is_empty(list)) {
		struct datagram *datagram = list_first_entry(list, struct datagram, node);

		list_del(&datagram->node);
		free(datagram);
	}
}

static int sim_recv(struct link *link, struct link_rx *rx, int max)
{
	struct sim_link *sim = to_sim(link);
	int n = 0;

	free_all(&sim->given);
	while (n < max && !list_is_empty(&sim->ready)) {
		struct datagram *datagram = list_first_entry(&sim->ready, struct datagram, node);

		list_move_tail(&datagram->node, &sim->given);
		sim->ready_pkts--;
		rx[n++] = datagram->rx;
	}
	return n;
}

static int sim_fd(struct link *link)
{
	(void)link;
	return -1;
}

static int sim_path_open(struct link *link, struct link_path *path)
{
	struct sim_link *sim = to_sim(link);

	path->src_port = (uint16_t)(PORT_FIRST + (path->remote_gid[15] ^ sim->gid[15]));
	return 0;
}

static void sim_path_close(struct link *link, struct link_path *path)
{
	(void)link;
	(void)path;
}

static int sim_join(struct link *link, uint32_t ifindex, const uint8_t group[GID_BYTES])
{
	struct sim_link *sim = to_sim(link);
	struct sim_group *made = &sim->groups[sim->group_count];

	if (sim->group_count == GROUPS_MAX)
		return -ENOBUFS;
	made->ifindex = ifindex;
	memcpy(made->gid, group, GID_BYTES);
	sim->group_count++;
	return 0;
}

static void sim_leave(struct link *link, uint32_t ifindex, const uint8_t group[GID_BYTES])
{
	struct sim_link *sim = to_sim(link);

	for (unsigned i = 0; i < sim->group_count; i++) {
		if (sim->groups[i].ifindex != ifindex ||
		    memcmp(sim->groups[i].gid, group, GID_BYTES) != 0)
			continue;
		sim->groups[i] = sim->groups[--sim->group_count];
		return;
	}
}

static void sim_close(struct link *link)
{
	struct sim_link *sim = to_sim(link);
	struct sim_net *net = sim->net;

	while (!list_is_empty(&sim->coming)) {
		struct datagram *datagram = list_first_entry(&sim->coming, struct datagram, flight);

		timer_cancel(&net->flights, &datagram->arrival);
		list_del(&datagram->flight);
		free(datagram);
	}
	sim->reordered_count = 0;
	free_all(&sim->ready);
	free_all(&sim->given);
	for (unsigned i = 0; i < net->link_count; i++) {
		if (net->links[i] == sim)
			net->links[i] = NULL;
	}
	free(sim);
}

static const struct link_ops sim_ops = {
	.name = "sim",
	.send = sim_send,
	.recv = sim_recv,
	.fd = sim_fd,
	.path_open = sim_path_open,
	.path_close = sim_path_close,
	.join = sim_join,
	.leave = sim_leave,
	.close = sim_close,
};

static int sim_add(struct sim_net *net, struct sim_link *sim)
{
	for (unsigned i = 0; i < NODES_MAX; i++) {
		if (net->links[i])
			continue;
		net->links[i] = sim;
		if (i == net->link_count)
			net->link_count++;
		return 0;
	}
	return -ENOSPC;
}

struct link *sim_link_new(struct sim_net *net, const uint8_t gid[GID_BYTES])
{
	struct sim_link *sim = calloc(1, sizeof(*sim));

	if (!sim)
		return NULL;
	sim->link.ops = &sim_ops;
	sim->net = net;
	memcpy(sim->gid, gid, GID_BYTES);
	list_init(&sim->coming);
	list_init(&sim->ready);
	list_init(&sim->given);
	if (!sim_add(net, sim))
		return &sim->link;
	free(sim);
	return NULL;
}

void sim_link_share(struct link *link, uint32_t first_qpn, uint32_t count)
{
	to_sim(link)->first_qpn = first_qpn;
	to_sim(link)->qpn_count = count;
}

void sim_link_cut(struct link *link, bool is_cut)
{
	to_sim(link)->is_cut = is_cut;
}

bool sim_link_has_rx(const struct link *link)
{
	return !list_is_empty(&to_sim_const(link)->ready);
}

int sim_link_inject(struct link *link, const uint8_t from_gid[GID_BYTES], uint16_t src_port,
		    const void *bytes, size_t len)
{
	struct sim_link *sim = to_sim(link);
	struct datagram *datagram;

	if (len > PACKET_MAX)
		len = PACKET_MAX;
	datagram = datagram_new(sim, from_gid, src_port, bytes, len);
	if (!datagram)
		return -ENOMEM;
	sim->ready_pkts++;
	list_add_tail(&datagram->node, &sim->ready);
	return 0;
}

size_t sim_link_last_sent(const struct link *link, const uint8_t **bytes)
{
	const struct sim_link *sim = to_sim_const(link);

	*bytes = sim->last_sent;
	return sim->last_sent_bytes;
}
