/* SPDX-License-Identifier: BSD-2-Clause */
#include <arpa/inet.h>
#include <string.h>

#include "verbs_random.h"

static const char *const vr_kind_names[VR_KINDS] = {
	[VR_SEND] = "SEND",	    [VR_SEND_IMM] = "SEND_IMM",	  [VR_SEND_INV] = "SEND_INV",
	[VR_WRITE] = "WRITE",	    [VR_WRITE_MW] = "WRITE_MW",	  [VR_WRITE_IMM] = "WRITE_IMM",
	[VR_READ] = "READ",	    [VR_READ_BACK] = "READ_BACK", [VR_FETCH_ADD] = "FETCH_ADD",
	[VR_CMP_SWAP] = "CMP_SWAP",
};

static const char *const vr_service_names[VR_SERVICES] = {
	[VR_RC] = "RC", [VR_RC_SRQ] = "RC_SRQ", [VR_UC] = "UC", [VR_UD] = "UD", [VR_XRC] = "XRC",
};

const char *vr_kind_name(enum vr_kind kind)
{
	return vr_kind_names[kind];
}

const char *vr_service_name(enum vr_service service)
{
	return vr_service_names[service];
}

/* The output function of SplitMix64. */
uint64_t vr_mix(uint64_t value)
{
	value += UINT64_C(0x9e3779b97f4a7c15);
	value = (value ^ value >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	value = (value ^ value >> 27) * UINT64_C(0x94d049bb133111eb);
	return value ^ value >> 31;
}

static uint32_t vr_draw(uint64_t *dice, uint32_t sides)
{
	*dice = vr_mix(*dice);
	return (uint32_t)((*dice >> 32) % sides);
}

uint32_t vr_roll(struct vr_round *r, uint32_t sides)
{
	return vr_draw(&r->dice, sides);
}

static void vr_plan_sizes(struct vr_plan *plan, uint64_t *dice)
{
	static const uint32_t slot_bytes[] = {64, 512, 4096, 16384, 65536};
	uint32_t size = vr_draw(dice, 5);

	plan->slot_bytes = slot_bytes[size];
	plan->window = size < 3 && vr_draw(dice, 2) ? VR_WINDOW_MAX : VR_WINDOW_MAX / 2;
	plan->ops = 40 + vr_draw(dice, size < 3 ? VR_OPS_MAX - 40 : 120);
	plan->recv_wrs = 2 + vr_draw(dice, 15);
	if (plan->service == VR_UD && plan->slot_bytes > VR_DATAGRAM_BYTES)
		plan->slot_bytes = VR_DATAGRAM_BYTES;
}

/*
 * The ACK timeout of 1 s with 7 retries cannot expire because the machine is busy. The shorter one
 * of the soak can, if a process does not run for 2 s.
 */
void vr_make_plan(struct vr_plan *plan, uint64_t seed, unsigned int pair, uint32_t round,
		  bool is_soak)
{
	static const enum vr_service services[] = {VR_RC, VR_RC, VR_RC, VR_RC_SRQ, VR_RC_SRQ,
						   VR_UC, VR_UC, VR_UD, VR_XRC,	   VR_XRC};
	uint64_t dice = vr_mix(vr_mix(vr_mix(seed) ^ pair) ^ round);

	memset(plan, 0, sizeof(*plan));
	plan->key = dice;
	plan->service = services[vr_draw(&dice, 10)];
	vr_plan_sizes(plan, &dice);
	plan->qkey = (uint32_t)vr_mix(dice) >> 1;
	plan->rd_atomic = (uint8_t)(1 + vr_draw(&dice, 16));
	plan->timeout = is_soak && !vr_draw(&dice, 4) ? 14 : 18;
	plan->mtu = (enum ibv_mtu)(IBV_MTU_256 + vr_draw(&dice, 5));
	plan->is_all_signaled = !vr_draw(&dice, 4);
	plan->has_two_cqs = vr_draw(&dice, 2);
	plan->has_cq_ex = vr_draw(&dice, 2);
	for (unsigned int side = 0; side < 2; side++) {
		plan->memory[side] = (enum vr_memory)vr_draw(&dice, VR_MEMORIES);
		plan->wait[side] = (enum vr_wait)vr_draw(&dice, VR_WAITS);
		if (plan->memory[side] == VR_STACK && plan->slot_bytes > 4096)
			plan->memory[side] = VR_ALIGNED;
	}
	if (plan->service != VR_UD && !vr_draw(&dice, 3))
		plan->action = (enum vr_action)(1 + vr_draw(&dice, VR_ACTIONS - 1));
	plan->victim = vr_draw(&dice, 2);
}

bool vr_takes_receive(enum vr_kind kind)
{
	return kind == VR_SEND || kind == VR_SEND_IMM || kind == VR_SEND_INV ||
	       kind == VR_WRITE_IMM;
}

static enum vr_kind vr_plan_kind(const struct vr_plan *plan, uint32_t index, uint64_t *dice)
{
	static const enum vr_kind rc[] = {VR_SEND,	VR_SEND,      VR_SEND_IMM, VR_WRITE,
					  VR_WRITE,	VR_WRITE_IMM, VR_READ,	   VR_READ_BACK,
					  VR_FETCH_ADD, VR_CMP_SWAP};
	static const enum vr_kind uc[] = {VR_SEND, VR_SEND_IMM, VR_WRITE, VR_WRITE_IMM};
	uint32_t draw = vr_draw(dice, 20);
	bool has_window = plan->service == VR_RC || plan->service == VR_RC_SRQ;

	/*
	 * The peer acknowledges when it has received a message, so some messages of each window
	 * take a receive.
	 */
	if (index % 8 == 7 || index + 1 == plan->ops)
		return draw % 2 ? VR_SEND : VR_SEND_IMM;
	if (plan->service == VR_UD)
		return uc[draw % 2];
	if (plan->service == VR_UC)
		return uc[draw % 4];
	if (has_window && index % 64 == 40)
		return VR_WRITE_MW;
	if (has_window && index % 64 == 41)
		return VR_SEND_INV;
	return rc[draw % 10];
}

static uint32_t vr_plan_bytes(const struct vr_plan *plan, enum vr_kind kind, uint64_t *dice)
{
	bool is_reliable = plan->service != VR_UC && plan->service != VR_UD;
	/* Without order, the first word of a SEND contains its index. */
	uint32_t least = is_reliable || kind != VR_SEND ? 0 : 8;
	uint32_t most = vr_draw(dice, 2) && plan->slot_bytes > VR_INLINE_MAX ? VR_INLINE_MAX :
									       plan->slot_bytes;

	if (!vr_draw(dice, 16))
		return least;
	if (!vr_draw(dice, 8))
		return plan->slot_bytes;
	return least + vr_draw(dice, most - least + 1);
}

struct vr_op vr_plan_op(const struct vr_plan *plan, unsigned int side, uint32_t index)
{
	uint64_t dice = vr_mix(plan->key ^ (uint64_t)(side + 1) << 32 ^ index);
	struct vr_op op = {.index = index, .sges = 1};

	op.kind = vr_plan_kind(plan, index, &dice);
	op.bytes = vr_plan_bytes(plan, op.kind, &dice);
	op.is_signaled = vr_draw(&dice, 3) == 0;
	op.is_inline = op.bytes <= VR_INLINE_MAX && vr_draw(&dice, 2);
	op.sges = 1 + vr_draw(&dice, VR_SGES);
	op.counter = vr_draw(&dice, VR_COUNTERS);
	op.add = vr_mix(dice);
	op.is_match = vr_draw(&dice, 2);
	if (op.kind == VR_READ_BACK) {
		/* The slot of a WRITE is not written again before `window` further operations. */
		for (uint32_t back = 1; back <= 3 && back <= index; back++) {
			struct vr_op before = {0};
			uint64_t other = vr_mix(plan->key ^ (uint64_t)(side + 1) << 32 ^
						(index - back));

			before.kind = vr_plan_kind(plan, index - back, &other);
			if (before.kind != VR_WRITE && before.kind != VR_WRITE_IMM)
				continue;
			op.source = index - back;
			op.bytes = vr_plan_bytes(plan, before.kind, &other);
			break;
		}
		if (!op.source)
			op.kind = VR_READ;
	}
	if (op.kind == VR_READ)
		op.offset = vr_draw(&dice, plan->slot_bytes - op.bytes + 1);
	if (op.kind == VR_FETCH_ADD || op.kind == VR_CMP_SWAP)
		op.bytes = 8;
	if (op.kind >= VR_READ)
		op.is_inline = false;
	if (op.bytes < op.sges)
		op.sges = 1;
	return op;
}

uint32_t vr_imm_be(const struct vr_plan *plan, uint32_t index)
{
	return htonl((uint32_t)(vr_mix(plan->key ^ ~(uint64_t)index) << 24) | index);
}

/*
 * The low 24 bits of a word are the index of its message, so that a wrong word shows where it is
 * from.
 */
static uint64_t vr_word(const struct vr_plan *plan, unsigned int side, uint32_t index, size_t word)
{
	return vr_mix(vr_mix(plan->key + side) ^ (uint64_t)index << 32 ^ word) << 24 | index;
}

void vr_fill(const struct vr_plan *plan, unsigned int side, uint32_t index, uint8_t *data,
	     size_t bytes)
{
	for (size_t i = 0; i < bytes; i += 8) {
		uint64_t word = vr_word(plan, side, index, i / 8);

		memcpy(data + i, &word, bytes - i < 8 ? bytes - i : 8);
	}
}

static uint8_t vr_byte(const struct vr_plan *plan, unsigned int side, uint32_t index, size_t at)
{
	return (uint8_t)(vr_word(plan, side, index, at / 8) >> 8 * (at % 8));
}

static void vr_fail_byte(const struct vr_round *r, const char *what, uint32_t index, size_t at,
			 size_t bytes, uint8_t expected, uint8_t seen, uint64_t word)
{
	vr_fail(r,
		"%s of message %u: byte %zu of %zu: expected 0x%02x, seen 0x%02x in the word "
		"0x%016llx, which names message %u",
		what, index, at, bytes, expected, seen, (unsigned long long)word,
		(uint32_t)(word & 0xffffff));
}

static uint64_t vr_load(const uint8_t *data, size_t at, size_t bytes)
{
	uint64_t word = 0;

	memcpy(&word, data + at, bytes - at < 8 ? bytes - at : 8);
	return word;
}

void vr_expect(const struct vr_round *r, const char *what, unsigned int side, uint32_t index,
	       size_t offset, const uint8_t *data, size_t bytes)
{
	size_t i = 0;

	atomic_fetch_add_explicit(&vr.tally->bytes, bytes, memory_order_relaxed);
	while (i < bytes) {
		if ((offset + i) % 8 == 0 && bytes - i >= 8) {
			if (vr_load(data, i, bytes) ==
			    vr_word(&r->plan, side, index, (offset + i) / 8)) {
				i += 8;
				continue;
			}
		}
		if (data[i] != vr_byte(&r->plan, side, index, offset + i))
			vr_fail_byte(r, what, index, i, bytes,
				     vr_byte(&r->plan, side, index, offset + i), data[i],
				     vr_load(data,
					     i - (offset + i) % 8 < bytes ? i - (offset + i) % 8 :
									    i,
					     bytes));
		i++;
	}
}

void vr_expect_byte(const struct vr_round *r, const char *what, uint8_t byte, const uint8_t *data,
		    size_t bytes)
{
	for (size_t i = 0; i < bytes; i++) {
		if (data[i] != byte)
			vr_fail_byte(r, what, 0, i, bytes, byte, data[i], vr_load(data, i, bytes));
	}
}

static bool vr_is_fresh(const uint8_t *data, size_t bytes)
{
	for (size_t i = 0; i < bytes; i++) {
		if (data[i] != VR_FRESH)
			return false;
	}
	return true;
}

/* Whether these bytes, at most a word, are those of message `index` from `at` on. */
static bool vr_is_part(const struct vr_round *r, unsigned int side, uint32_t index, size_t at,
		       const uint8_t *data, size_t bytes)
{
	for (size_t i = 0; i < bytes; i++) {
		if (data[i] != vr_byte(&r->plan, side, index, at + i))
			return false;
	}
	return true;
}

/*
 * A message may end within a word, and the rest of the word is from a longer message or fresh. Each
 * byte is looked up.
 */
static bool vr_is_mixed(const struct vr_round *r, unsigned int side, uint32_t slot, size_t at,
			const uint8_t *data)
{
	for (size_t i = 0; i < 8; i++) {
		bool is_found = data[i] == VR_FRESH;

		for (uint32_t j = slot; !is_found && j < r->plan.ops; j += r->plan.window)
			is_found = vr_is_part(r, side, j, at + i, data + i, 1);
		if (!is_found)
			return false;
	}
	return true;
}

void vr_expect_any(const struct vr_round *r, unsigned int side, uint32_t slot, const uint8_t *data,
		   size_t bytes)
{
	for (size_t i = 0; i + 8 <= bytes; i += 8) {
		uint32_t index = (uint32_t)(vr_load(data, i, bytes) & 0xffffff);

		if (vr_is_fresh(data + i, 8))
			continue;
		if (index % r->plan.window == slot && index < r->plan.ops &&
		    vr_is_part(r, side, index, i, data + i, 8))
			continue;
		if (!vr_is_mixed(r, side, slot, i, data + i))
			vr_fail_byte(r, "slot", slot, i, bytes, VR_FRESH, data[i],
				     vr_load(data, i, bytes));
	}
}
