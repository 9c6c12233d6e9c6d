/* SPDX-License-Identifier: BSD-2-Clause */
#include "fake.h"

#include <errno.h>
#include <string.h>

static int first_bind(struct qp *qp)
{
	(void)qp;
	fake_calls.bind_first++;
	return fake_calls.first_takes ? 0 : -EOPNOTSUPP;
}

static int fake_bind(struct qp *qp)
{
	fake_calls.bind++;
	fake_calls.state_at_bind = qp->state;
	return fake_calls.bind_error;
}

static void ready(struct qp *qp)
{
	assert_int_equal(qp->state, IBV_QPS_RTS);
	fake_calls.ready++;
}

static void halt(struct qp *qp)
{
	fake_calls.halt++;
	fake_calls.state_at_halt = qp->state;
}

static void unbind(struct qp *qp)
{
	(void)qp;
	fake_calls.unbind++;
}

static void kick(struct qp *qp)
{
	(void)qp;
	fake_calls.kick++;
}

static void recv_posted(struct qp *qp)
{
	(void)qp;
	fake_calls.recv_posted++;
}

static void publish_qp(struct qp *qp)
{
	(void)qp;
	fake_calls.publish_qp++;
}

static void publish_mr(struct engine *engine, const struct mr *mr)
{
	(void)engine;
	assert_non_null(mr->pd);
	fake_calls.publish_mr++;
}

static int revoke_mr(struct engine *engine, const struct mr *mr)
{
	void (*while_revoking)(void) = fake_calls.while_revoking;

	assert_non_null(mr->pd);
	fake_calls.revoke_mr++;
	if (while_revoking) {
		fake_calls.while_revoking = NULL;
		engine_unlock(engine);
		while_revoking();
		engine_lock(engine);
	}
	return fake_calls.revoke_error;
}

static int revoke_qp(struct qp *qp)
{
	(void)qp;
	fake_calls.revoke_qp++;
	return fake_calls.revoke_error;
}

static int fake_ah_open(struct ah *ah)
{
	if (fake_calls.ah_error)
		return fake_calls.ah_error;
	ah->transport_ah = &fake_calls;
	fake_calls.ah_open++;
	return 0;
}

static void fake_ah_close(struct ah *ah)
{
	assert_ptr_equal(ah->transport_ah, &fake_calls);
	fake_calls.ah_close++;
}

static int fake_send_datagram(struct qp *qp, struct ah *ah, const struct datagram_tx *datagram)
{
	size_t at = 0;

	assert_int_equal(qp->type, IBV_QPT_UD);
	if (fake_calls.send_error && !fake_calls.send_room)
		return fake_calls.send_error;
	if (fake_calls.send_error)
		fake_calls.send_room--;
	fake_calls.sent++;
	fake_calls.datagram = *datagram;
	fake_calls.sent_ah = ah;
	for (int i = 0; i < datagram->iov_count; i++) {
		size_t bytes = datagram->iov[i].iov_len;

		if (bytes > sizeof(fake_calls.sent_bytes) - at)
			bytes = sizeof(fake_calls.sent_bytes) - at;
		memcpy(fake_calls.sent_bytes + at, datagram->iov[i].iov_base, bytes);
		at += bytes;
	}
	return 0;
}

static bool fake_datagrams_end(struct engine *engine, bool may_wait)
{
	(void)engine;
	fake_calls.datagrams_end++;
	if (!may_wait || !fake_calls.datagrams_wait)
		fake_calls.sent_ended = fake_calls.sent;
	fake_calls.sent_waiting = fake_calls.sent - fake_calls.sent_ended;
	return fake_calls.sent_waiting;
}

static int fake_join(struct engine *engine, uint32_t ifindex, const union ibv_gid *group)
{
	(void)engine;
	if (fake_calls.join_error)
		return fake_calls.join_error;
	fake_calls.join++;
	fake_calls.joined_ifindex = ifindex;
	fake_calls.joined = *group;
	return 0;
}

static void fake_leave(struct engine *engine, uint32_t ifindex, const union ibv_gid *group)
{
	(void)engine;
	fake_calls.leave++;
	fake_calls.left_ifindex = ifindex;
	fake_calls.left = *group;
}

static unsigned int run(struct engine *engine)
{
	(void)engine;
	return 0;
}

static const struct transport first_transport = {
	.name = "first", .bind = first_bind, .kick = kick, .run = run};

static struct transport fake_transport = {
	.name = "fake",
	.bind = fake_bind,
	.ready = ready,
	.halt = halt,
	.unbind = unbind,
	.kick = kick,
	.recv_posted = recv_posted,
	.publish_qp = publish_qp,
	.publish_mr = publish_mr,
	.revoke_mr = revoke_mr,
	.revoke_qp = revoke_qp,
	.ah_open = fake_ah_open,
	.ah_close = fake_ah_close,
	.send_datagram = fake_send_datagram,
	.datagrams_end = fake_datagrams_end,
	.join = fake_join,
	.leave = fake_leave,
	.run = run,
};

const struct transport *const transports[] = {&first_transport, &fake_transport, NULL};

void fake_route(bool is_routed)
{
	fake_transport.is_routed = is_routed;
}

int transports_register_notices(struct engine *engine)
{
	(void)engine;
	return 0;
}
