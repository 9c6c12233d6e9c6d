/* SPDX-License-Identifier: BSD-2-Clause */
#include "wire/cm_msg.h"

#include <assert.h>

#include "base/be.h"
#include "base/util.h"

/*
 * One field: its member of the struct, its first byte and bit, its width in bits, its print format.
 */
#define FIELD(type, member, byte, first_bit, width, fmt)                                    \
	{                                                                                   \
		.name = #member, .bit = (byte)*8 + (first_bit), .bits = (width),            \
		.offset = offsetof(struct type, member),                                    \
		.size_bytes = sizeof(((struct type *)0)->member), .format = CM_FORMAT_##fmt \
	}

/* IBA 1.x §12.6.5 */
#define REQ(...) FIELD(cm_req, __VA_ARGS__)
static const struct cm_field req_fields[] = {
	REQ(local_comm_id, 0, 0, 32, HEX),
	REQ(vendor_id, 5, 0, 24, HEX),
	REQ(service_id, 8, 0, 64, HEX),
	REQ(local_ca_guid, 16, 0, 64, HEX),
	REQ(local_qkey, 28, 0, 32, HEX),
	REQ(local_qpn, 32, 0, 24, HEX),
	REQ(responder_resources, 35, 0, 8, DEC),
	REQ(local_eecn, 36, 0, 24, HEX),
	REQ(initiator_depth, 39, 0, 8, DEC),
	REQ(remote_eecn, 40, 0, 24, HEX),
	REQ(remote_cm_response_timeout, 43, 0, 5, DEC),
	REQ(transport_type, 43, 5, 2, DEC),
	REQ(end_to_end_flow_control, 43, 7, 1, DEC),
	REQ(starting_psn, 44, 0, 24, DEC),
	REQ(local_cm_response_timeout, 47, 0, 5, DEC),
	REQ(retry_count, 47, 5, 3, DEC),
	REQ(pkey, 48, 0, 16, HEX),
	REQ(path_mtu, 50, 0, 4, DEC),
	REQ(rdc_exists, 50, 4, 1, DEC),
	REQ(rnr_retry_count, 50, 5, 3, DEC),
	REQ(max_cm_retries, 51, 0, 4, DEC),
	REQ(srq, 51, 4, 1, DEC),
	REQ(extended_transport, 51, 5, 3, DEC),
	REQ(primary.local_lid, 52, 0, 16, DEC),
	REQ(primary.remote_lid, 54, 0, 16, DEC),
	REQ(primary.local_gid, 56, 0, 128, GID),
	REQ(primary.remote_gid, 72, 0, 128, GID),
	REQ(primary.flow_label, 88, 0, 20, HEX),
	REQ(primary.packet_rate, 91, 2, 6, DEC),
	REQ(primary.traffic_class, 92, 0, 8, DEC),
	REQ(primary.hop_limit, 93, 0, 8, DEC),
	REQ(primary.sl, 94, 0, 4, DEC),
	REQ(primary.subnet_local, 94, 4, 1, DEC),
	REQ(primary.local_ack_timeout, 95, 0, 5, DEC),
	REQ(alternate.local_lid, 96, 0, 16, DEC),
	REQ(alternate.remote_lid, 98, 0, 16, DEC),
	REQ(alternate.local_gid, 100, 0, 128, GID),
	REQ(alternate.remote_gid, 116, 0, 128, GID),
	REQ(alternate.flow_label, 132, 0, 20, HEX),
	REQ(alternate.packet_rate, 135, 2, 6, DEC),
	REQ(alternate.traffic_class, 136, 0, 8, DEC),
	REQ(alternate.hop_limit, 137, 0, 8, DEC),
	REQ(alternate.sl, 138, 0, 4, DEC),
	REQ(alternate.subnet_local, 138, 4, 1, DEC),
	REQ(alternate.local_ack_timeout, 139, 0, 5, DEC),
	REQ(private_data, 140, 0, 736, BYTES),
};

/* IBA 1.x §12.6.6 */
#define MRA(...) FIELD(cm_mra, __VA_ARGS__)
static const struct cm_field mra_fields[] = {
	MRA(local_comm_id, 0, 0, 32, HEX),
	MRA(remote_comm_id, 4, 0, 32, HEX),
	MRA(about, 8, 0, 2, DEC),
	MRA(service_timeout, 9, 0, 5, DEC),
	MRA(private_data, 10, 0, 1776, BYTES),
};

/* IBA 1.x §12.6.7 */
#define REJ(...) FIELD(cm_rej, __VA_ARGS__)
static const struct cm_field rej_fields[] = {
	REJ(local_comm_id, 0, 0, 32, HEX),
	REJ(remote_comm_id, 4, 0, 32, HEX),
	REJ(about, 8, 0, 2, DEC),
	REJ(info_length, 9, 0, 7, DEC),
	REJ(reason, 10, 0, 16, DEC),
	REJ(ari, 12, 0, 576, BYTES),
	REJ(private_data, 84, 0, 1184, BYTES),
};

/* IBA 1.x §12.6.8 */
#define REP(...) FIELD(cm_rep, __VA_ARGS__)
static const struct cm_field rep_fields[] = {
	REP(local_comm_id, 0, 0, 32, HEX),     REP(remote_comm_id, 4, 0, 32, HEX),
	REP(local_qkey, 8, 0, 32, HEX),	       REP(local_qpn, 12, 0, 24, HEX),
	REP(vendor_id_high, 15, 0, 8, HEX),    REP(local_eecn, 16, 0, 24, HEX),
	REP(vendor_id_middle, 19, 0, 8, HEX),  REP(starting_psn, 20, 0, 24, DEC),
	REP(vendor_id_low, 23, 0, 8, HEX),     REP(responder_resources, 24, 0, 8, DEC),
	REP(initiator_depth, 25, 0, 8, DEC),   REP(target_ack_delay, 26, 0, 5, DEC),
	REP(failover_accepted, 26, 5, 2, DEC), REP(end_to_end_flow_control, 26, 7, 1, DEC),
	REP(rnr_retry_count, 27, 0, 3, DEC),   REP(srq, 27, 3, 1, DEC),
	REP(local_ca_guid, 28, 0, 64, HEX),    REP(private_data, 36, 0, 1568, BYTES),
};

/* IBA 1.x §12.6.9 */
#define RTU(...) FIELD(cm_rtu, __VA_ARGS__)
static const struct cm_field rtu_fields[] = {
	RTU(local_comm_id, 0, 0, 32, HEX),
	RTU(remote_comm_id, 4, 0, 32, HEX),
	RTU(private_data, 8, 0, 1792, BYTES),
};

/* IBA 1.x §12.6.10 */
#define DREQ(...) FIELD(cm_dreq, __VA_ARGS__)
static const struct cm_field dreq_fields[] = {
	DREQ(local_comm_id, 0, 0, 32, HEX),
	DREQ(remote_comm_id, 4, 0, 32, HEX),
	DREQ(remote_qpn, 8, 0, 24, HEX),
	DREQ(private_data, 12, 0, 1760, BYTES),
};

/* IBA 1.x §12.6.11 */
#define DREP(...) FIELD(cm_drep, __VA_ARGS__)
static const struct cm_field drep_fields[] = {
	DREP(local_comm_id, 0, 0, 32, HEX),
	DREP(remote_comm_id, 4, 0, 32, HEX),
	DREP(private_data, 8, 0, 1792, BYTES),
};

/* IBA 1.x §12.11.1 */
#define SIDR_REQ(...) FIELD(cm_sidr_req, __VA_ARGS__)
static const struct cm_field sidr_req_fields[] = {
	SIDR_REQ(request_id, 0, 0, 32, HEX),
	SIDR_REQ(pkey, 4, 0, 16, HEX),
	SIDR_REQ(service_id, 8, 0, 64, HEX),
	SIDR_REQ(private_data, 16, 0, 1728, BYTES),
};

/* IBA 1.x §12.11.2 */
#define SIDR_REP(...) FIELD(cm_sidr_rep, __VA_ARGS__)
static const struct cm_field sidr_rep_fields[] = {
	SIDR_REP(request_id, 0, 0, 32, HEX),  SIDR_REP(status, 4, 0, 8, DEC),
	SIDR_REP(info_length, 5, 0, 8, DEC),  SIDR_REP(qpn, 8, 0, 24, HEX),
	SIDR_REP(service_id, 12, 0, 64, HEX), SIDR_REP(qkey, 20, 0, 32, HEX),
	SIDR_REP(info, 24, 0, 576, BYTES),    SIDR_REP(private_data, 96, 0, 1088, BYTES),
};

/* IBA 1.x §12.8.1 */
#define LAP(...) FIELD(cm_lap, __VA_ARGS__)
static const struct cm_field lap_fields[] = {
	LAP(local_comm_id, 0, 0, 32, HEX), LAP(remote_comm_id, 4, 0, 32, HEX),
	LAP(remote_qpn, 12, 0, 24, HEX),   LAP(remote_cm_response_timeout, 15, 0, 5, DEC),
	LAP(path, 20, 0, 352, BYTES),	   LAP(private_data, 64, 0, 1344, BYTES),
};

/* IBA 1.x §12.8.2 */
#define APR(...) FIELD(cm_apr, __VA_ARGS__)
static const struct cm_field apr_fields[] = {
	APR(local_comm_id, 0, 0, 32, HEX), APR(remote_comm_id, 4, 0, 32, HEX),
	APR(info_length, 8, 0, 8, DEC),	   APR(status, 9, 0, 8, DEC),
	APR(info, 12, 0, 576, BYTES),	   APR(private_data, 84, 0, 1184, BYTES),
};

#define LAYOUT(name, fields)                                           \
	{                                                              \
		(name), (fields), sizeof(fields) / sizeof((fields)[0]) \
	}

static const struct {
	const char *name;
	const struct cm_field *fields;
	size_t count;
} layouts[] = {
	[CM_MSG_REQ] = LAYOUT("REQ", req_fields),
	[CM_MSG_MRA] = LAYOUT("MRA", mra_fields),
	[CM_MSG_REJ] = LAYOUT("REJ", rej_fields),
	[CM_MSG_REP] = LAYOUT("REP", rep_fields),
	[CM_MSG_RTU] = LAYOUT("RTU", rtu_fields),
	[CM_MSG_DREQ] = LAYOUT("DREQ", dreq_fields),
	[CM_MSG_DREP] = LAYOUT("DREP", drep_fields),
	[CM_MSG_SIDR_REQ] = LAYOUT("SIDR_REQ", sidr_req_fields),
	[CM_MSG_SIDR_REP] = LAYOUT("SIDR_REP", sidr_rep_fields),
	[CM_MSG_LAP] = LAYOUT("LAP", lap_fields),
	[CM_MSG_APR] = LAYOUT("APR", apr_fields),
};
static_assert(COUNT(layouts) == CM_MSG_COUNT, "every message has its layout");

const char *cm_msg_name(enum cm_msg_type type)
{
	return (unsigned)type < CM_MSG_COUNT ? layouts[type].name : "?";
}

const struct cm_field *cm_msg_fields(enum cm_msg_type type, size_t *count)
{
	*count = layouts[type].count;
	return layouts[type].fields;
}

static const char *const rej_reasons[] = {
	[CM_REJ_NO_QP] = "no qp available",
	[CM_REJ_NO_RESOURCES] = "no resources",
	[CM_REJ_TIMEOUT] = "timeout",
	[CM_REJ_UNSUPPORTED] = "unsupported request",
	[CM_REJ_INVALID_COMM_ID] = "invalid communication id",
	[CM_REJ_INVALID_COMM_INSTANCE] = "invalid communication instance",
	[CM_REJ_INVALID_SERVICE_ID] = "no listener",
	[CM_REJ_INVALID_TRANSPORT] = "invalid transport type",
	[CM_REJ_STALE_CONN] = "stale connection",
	[CM_REJ_INVALID_GID] = "invalid gid",
	[CM_REJ_INVALID_MTU] = "invalid path mtu",
	[CM_REJ_CONSUMER] = "rejected by the consumer",
	[CM_REJ_VENDOR_OPTION] = "vendor option not supported",
};

const char *cm_rej_reason_name(uint16_t reason)
{
	return reason < COUNT(rej_reasons) ? rej_reasons[reason] : NULL;
}

static const char *const sidr_statuses[] = {
	[CM_SIDR_VALID] = "valid",
	[CM_SIDR_UNSUPPORTED] = "service ID not supported",
	[CM_SIDR_REJECTED] = "rejected by the service provider",
	[CM_SIDR_NO_QP] = "no qp available",
	[CM_SIDR_REDIRECT] = "redirect",
	[CM_SIDR_UNSUPPORTED_VERSION] = "unsupported version",
};

const char *cm_sidr_status_name(uint8_t status)
{
	return status < COUNT(sidr_statuses) ? sidr_statuses[status] : NULL;
}

uint64_t cm_field_get(const struct cm_field *field, const void *members)
{
	const uint8_t *at = (const uint8_t *)members + field->offset;
	uint16_t u16;
	uint32_t u32;
	uint64_t u64;

	switch (field->size_bytes) {
	case 1:
		return *at;
	case 2:
		memcpy(&u16, at, sizeof(u16));
		return u16;
	case 4:
		memcpy(&u32, at, sizeof(u32));
		return u32;
	default:
		memcpy(&u64, at, sizeof(u64));
		return u64;
	}
}

static void field_set(const struct cm_field *field, void *members, uint64_t value)
{
	uint8_t *at = (uint8_t *)members + field->offset;
	uint16_t u16 = (uint16_t)value;
	uint32_t u32 = (uint32_t)value;

	switch (field->size_bytes) {
	case 1:
		*at = (uint8_t)value;
		return;
	case 2:
		memcpy(at, &u16, sizeof(u16));
		return;
	case 4:
		memcpy(at, &u32, sizeof(u32));
		return;
	default:
		memcpy(at, &value, sizeof(value));
	}
}

static bool is_bytes(const struct cm_field *field)
{
	return field->format == CM_FORMAT_BYTES || field->format == CM_FORMAT_GID;
}

/* Reads a field that need not start or end at a byte boundary. */
static uint64_t bits_load(const uint8_t *payload, unsigned bit, unsigned bits)
{
	uint64_t value = 0;

	while (bits > 0) {
		unsigned room = 8 - bit % 8;
		unsigned take = bits < room ? bits : room;
		unsigned byte = (unsigned)payload[bit / 8] >> (room - take) & ((1u << take) - 1);

		value = value << take | byte;
		bit += take;
		bits -= take;
	}
	return value;
}

/* Writes such a field. Its bits in the payload must be 0. */
static void bits_store(uint8_t *payload, unsigned bit, unsigned bits, uint64_t value)
{
	while (bits > 0) {
		unsigned room = 8 - bit % 8;
		unsigned take = bits < room ? bits : room;
		unsigned byte = (unsigned)(value >> (bits - take)) & ((1u << take) - 1);

		payload[bit / 8] = (uint8_t)(payload[bit / 8] | byte << (room - take));
		bit += take;
		bits -= take;
	}
}

static const char *const fault_names[] = {
	[CM_FAULT_NONE] = "none",
	[CM_FAULT_LENGTH] = "wrong length",
	[CM_FAULT_BASE_VERSION] = "wrong base version",
	[CM_FAULT_CLASS] = "wrong class",
	[CM_FAULT_CLASS_VERSION] = "wrong class version",
	[CM_FAULT_METHOD] = "wrong method",
	[CM_FAULT_ATTRIBUTE] = "unknown attribute",
};
static_assert(COUNT(fault_names) == CM_FAULT_COUNT, "every fault has its name");

const char *cm_msg_fault_name(enum cm_msg_fault fault)
{
	return (unsigned)fault < CM_FAULT_COUNT ? fault_names[fault] : "?";
}

static enum cm_msg_fault cm_msg_header_check(const struct mad_hdr *hdr)
{
	if (hdr->mgmt_class != MAD_CLASS_CM)
		return CM_FAULT_CLASS;
	if (hdr->class_version != CM_CLASS_VERSION)
		return CM_FAULT_CLASS_VERSION;
	if (hdr->method != MAD_METHOD_SEND)
		return CM_FAULT_METHOD;
	if (hdr->attr_id < CM_ATTR_FIRST || hdr->attr_id - CM_ATTR_FIRST >= CM_MSG_COUNT)
		return CM_FAULT_ATTRIBUTE;
	return CM_FAULT_NONE;
}

/*
 * The offset in struct cm_msg of the member that is sent as the attribute modifier; 0 if the
 * message does not use it.
 */
static size_t modifier_of(enum cm_msg_type type)
{
	switch (type) {
	case CM_MSG_REQ:
		return offsetof(struct cm_msg, req.vendor_options);
	case CM_MSG_REP:
		return offsetof(struct cm_msg, rep.vendor_options);
	default:
		return 0;
	}
}

enum cm_msg_fault cm_msg_parse(struct cm_msg *msg, const void *mad, size_t len)
{
	const uint8_t *payload = (const uint8_t *)mad + MAD_HDR_BYTES;
	const struct cm_field *fields;
	enum cm_msg_fault fault;
	struct mad_hdr hdr;
	size_t count;

	if (len != MAD_BYTES)
		return CM_FAULT_LENGTH;
	if (mad_parse(&hdr, mad, len))
		return CM_FAULT_BASE_VERSION;
	fault = cm_msg_header_check(&hdr);
	if (fault != CM_FAULT_NONE)
		return fault;

	msg->type = (enum cm_msg_type)(hdr.attr_id - CM_ATTR_FIRST);
	msg->tid = hdr.tid;
	msg->mad_status = hdr.status;
	if (modifier_of(msg->type))
		memcpy((uint8_t *)msg + modifier_of(msg->type), &hdr.attr_mod,
		       sizeof(hdr.attr_mod));
	fields = cm_msg_fields(msg->type, &count);
	for (size_t i = 0; i < count; i++) {
		const struct cm_field *field = &fields[i];

		if (is_bytes(field))
			memcpy((uint8_t *)&msg->req + field->offset, payload + field->bit / 8,
			       field->size_bytes);
		else
			field_set(field, &msg->req, bits_load(payload, field->bit, field->bits));
	}
	return CM_FAULT_NONE;
}

void cm_msg_build(const struct cm_msg *msg, void *mad)
{
	uint8_t *payload = (uint8_t *)mad + MAD_HDR_BYTES;
	const struct cm_field *fields;
	struct mad_hdr hdr = {
		.base_version = MAD_BASE_VERSION,
		.mgmt_class = MAD_CLASS_CM,
		.class_version = CM_CLASS_VERSION,
		.method = MAD_METHOD_SEND,
		.status = msg->mad_status,
		.tid = msg->tid,
		.attr_id = (uint16_t)(CM_ATTR_FIRST + (unsigned)msg->type),
	};
	size_t count;

	assert((unsigned)msg->type < CM_MSG_COUNT);
	if (modifier_of(msg->type))
		memcpy(&hdr.attr_mod, (const uint8_t *)msg + modifier_of(msg->type),
		       sizeof(hdr.attr_mod));
	memset(mad, 0, MAD_BYTES);
	mad_build(&hdr, mad);
	fields = cm_msg_fields(msg->type, &count);
	for (size_t i = 0; i < count; i++) {
		const struct cm_field *field = &fields[i];

		if (is_bytes(field))
			memcpy(payload + field->bit / 8, (const uint8_t *)&msg->req + field->offset,
			       field->size_bytes);
		else
			bits_store(payload, field->bit, field->bits,
				   cm_field_get(field, &msg->req));
	}
}
