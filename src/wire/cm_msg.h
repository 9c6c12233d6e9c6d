/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_WIRE_CM_MSG_H
#define USRDMA_WIRE_CM_MSG_H

#include <stddef.h>
#include <stdint.h>

#include "wire/gid.h"
#include "wire/mad.h"

/*
 * The messages of the communication manager (IBA 1.x §12.6), each as a struct in host order. Names
 * follow the standard: "local" is the sender of the message, "remote" its recipient.
 */
enum cm_msg_type {
	CM_MSG_REQ,
	CM_MSG_MRA,
	CM_MSG_REJ,
	CM_MSG_REP,
	CM_MSG_RTU,
	CM_MSG_DREQ,
	CM_MSG_DREP,
	CM_MSG_SIDR_REQ,
	CM_MSG_SIDR_REP,
	CM_MSG_LAP,
	CM_MSG_APR,
	CM_MSG_COUNT
};

/* The attribute ID of a message is this plus its enum cm_msg_type. */
#define CM_ATTR_FIRST	 0x0010
#define CM_CLASS_VERSION 2

#define CM_REQ_PRIVATE_BYTES	  92
#define CM_MRA_PRIVATE_BYTES	  222
#define CM_REJ_PRIVATE_BYTES	  148
#define CM_REJ_ARI_BYTES	  72
#define CM_REP_PRIVATE_BYTES	  196
#define CM_RTU_PRIVATE_BYTES	  224
#define CM_DREQ_PRIVATE_BYTES	  220
#define CM_DREP_PRIVATE_BYTES	  224
#define CM_SIDR_REQ_PRIVATE_BYTES 216
#define CM_SIDR_REP_PRIVATE_BYTES 136
#define CM_SIDR_REP_INFO_BYTES	  72
#define CM_APR_INFO_BYTES	  72
#define CM_APR_PRIVATE_BYTES	  148
#define CM_LAP_PRIVATE_BYTES	  168

/* The message that an MRA or a REJ refers to. */
enum cm_about {
	CM_ABOUT_REQ = 0,
	CM_ABOUT_REP = 1,
	CM_ABOUT_OTHER = 2, /* MRA: a LAP; REJ: no message or any other message */
};

/* The REJ reasons (IBA 1.x §12.6.7.2) that this project sends or prints by name. */
/*
 * Service ID 0 belongs to no service: a SIDR_REQ for it is an address challenge (cm/validation.h).
 */
#define CM_SERVICE_NONE UINT64_C(0)

enum cm_rej_reason {
	CM_REJ_NO_QP = 1,
	CM_REJ_NO_RESOURCES = 3,
	CM_REJ_TIMEOUT = 4,
	CM_REJ_UNSUPPORTED = 5,
	CM_REJ_INVALID_COMM_ID = 6,
	CM_REJ_INVALID_COMM_INSTANCE = 7,
	CM_REJ_INVALID_SERVICE_ID = 8,
	CM_REJ_INVALID_TRANSPORT = 9,
	CM_REJ_STALE_CONN = 10,
	CM_REJ_INVALID_GID = 12,
	CM_REJ_INVALID_MTU = 26,
	CM_REJ_CONSUMER = 28,
	CM_REJ_VENDOR_OPTION = 35,
};

enum cm_transport_type {
	CM_TRANSPORT_RC = 0,
	CM_TRANSPORT_UC = 1,
	CM_TRANSPORT_RD = 2,
	CM_TRANSPORT_EXTENDED = 3, /* cm_req.extended_transport applies */
};

/*
 * cm_req.extended_transport (IBA A14). The QPN of the passive side is then cm_rep.local_eecn, not
 * cm_rep.local_qpn.
 */
enum cm_extended_transport { CM_EXTENDED_XRC = 1 };

enum cm_sidr_status {
	CM_SIDR_VALID = 0,
	CM_SIDR_UNSUPPORTED = 1,
	CM_SIDR_REJECTED = 2,
	CM_SIDR_NO_QP = 3,
	CM_SIDR_REDIRECT = 4,
	CM_SIDR_UNSUPPORTED_VERSION = 5,
};

/* One path of a REQ. */
struct cm_path_fields {
	uint16_t local_lid;
	uint16_t remote_lid;
	uint8_t local_gid[GID_BYTES];
	uint8_t remote_gid[GID_BYTES];
	uint32_t flow_label;
	uint8_t packet_rate;
	uint8_t traffic_class;
	uint8_t hop_limit;
	uint8_t sl;
	uint8_t subnet_local;
	uint8_t local_ack_timeout;
};

/*
 * vendor_id and vendor_options are for enhanced connection establishment (ECE): two devices of one
 * vendor negotiate options. The vendor ID is in 24 formerly reserved bits of REQ and REP; the
 * options are in the attribute modifier of the MAD.
 */
struct cm_req {
	uint32_t local_comm_id;
	uint32_t vendor_id;
	uint32_t vendor_options;
	uint64_t service_id;
	uint64_t local_ca_guid;
	uint32_t local_qkey;
	uint32_t local_qpn;
	uint8_t responder_resources;
	uint32_t local_eecn;
	uint8_t initiator_depth;
	uint32_t remote_eecn;
	uint8_t remote_cm_response_timeout;
	uint8_t transport_type;
	uint8_t end_to_end_flow_control;
	uint32_t starting_psn;
	uint8_t local_cm_response_timeout;
	uint8_t retry_count;
	uint16_t pkey;
	uint8_t path_mtu;
	uint8_t rdc_exists;
	uint8_t rnr_retry_count;
	uint8_t max_cm_retries;
	uint8_t srq;
	uint8_t extended_transport;
	struct cm_path_fields primary;
	struct cm_path_fields alternate;
	uint8_t private_data[CM_REQ_PRIVATE_BYTES];
};

struct cm_mra {
	uint32_t local_comm_id;
	uint32_t remote_comm_id;
	uint8_t about; /* enum cm_about */
	uint8_t service_timeout;
	uint8_t private_data[CM_MRA_PRIVATE_BYTES];
};

struct cm_rej {
	uint32_t local_comm_id;
	uint32_t remote_comm_id;
	uint8_t about;	     /* enum cm_about */
	uint8_t info_length; /* bytes of ari */
	uint16_t reason;     /* enum cm_rej_reason */
	uint8_t ari[CM_REJ_ARI_BYTES];
	uint8_t private_data[CM_REJ_PRIVATE_BYTES];
};

struct cm_rep {
	uint32_t local_comm_id;
	uint32_t remote_comm_id;
	uint32_t local_qkey;
	uint32_t local_qpn;
	uint32_t local_eecn;
	uint32_t starting_psn;
	uint8_t responder_resources;
	uint8_t initiator_depth;
	uint8_t target_ack_delay;
	uint8_t failover_accepted;
	uint8_t end_to_end_flow_control;
	uint8_t rnr_retry_count;
	uint8_t srq;
	uint64_t local_ca_guid;
	uint8_t vendor_id_high; /* 24 bits, not contiguous */
	uint8_t vendor_id_middle;
	uint8_t vendor_id_low;
	uint32_t vendor_options;
	uint8_t private_data[CM_REP_PRIVATE_BYTES];
};

struct cm_rtu {
	uint32_t local_comm_id;
	uint32_t remote_comm_id;
	uint8_t private_data[CM_RTU_PRIVATE_BYTES];
};

struct cm_dreq {
	uint32_t local_comm_id;
	uint32_t remote_comm_id;
	uint32_t remote_qpn;
	uint8_t private_data[CM_DREQ_PRIVATE_BYTES];
};

struct cm_drep {
	uint32_t local_comm_id;
	uint32_t remote_comm_id;
	uint8_t private_data[CM_DREP_PRIVATE_BYTES];
};

struct cm_sidr_req {
	uint32_t request_id;
	uint16_t pkey;
	uint64_t service_id;
	uint8_t private_data[CM_SIDR_REQ_PRIVATE_BYTES];
};

struct cm_sidr_rep {
	uint32_t request_id;
	uint8_t status; /* enum cm_sidr_status */
	uint8_t info_length;
	uint32_t qpn;
	uint64_t service_id;
	uint32_t qkey;
	uint8_t info[CM_SIDR_REP_INFO_BYTES];
	uint8_t private_data[CM_SIDR_REP_PRIVATE_BYTES];
};

/*
 * Alternate paths are not supported: only the fields of a LAP that its APR needs are parsed; the
 * path is kept as bytes.
 */
#define CM_LAP_PATH_BYTES 44
struct cm_lap {
	uint32_t local_comm_id;
	uint32_t remote_comm_id;
	uint32_t remote_qpn;
	uint8_t remote_cm_response_timeout;
	uint8_t path[CM_LAP_PATH_BYTES];
	uint8_t private_data[CM_LAP_PRIVATE_BYTES];
};

enum cm_apr_status {
	CM_APR_LOADED = 0,
	CM_APR_INVALID_COMM_INSTANCE = 1,
	CM_APR_UNSUPPORTED = 2,
};

struct cm_apr {
	uint32_t local_comm_id;
	uint32_t remote_comm_id;
	uint8_t info_length;
	uint8_t status; /* enum cm_apr_status */
	uint8_t info[CM_APR_INFO_BYTES];
	uint8_t private_data[CM_APR_PRIVATE_BYTES];
};

struct cm_msg {
	enum cm_msg_type type;
	uint64_t tid;
	uint16_t mad_status;
	union {
		struct cm_req req;
		struct cm_mra mra;
		struct cm_rej rej;
		struct cm_rep rep;
		struct cm_rtu rtu;
		struct cm_dreq dreq;
		struct cm_drep drep;
		struct cm_sidr_req sidr_req;
		struct cm_sidr_rep sidr_rep;
		struct cm_lap lap;
		struct cm_apr apr;
	};
};

/*
 * The result of cm_msg_parse(): the reason why a MAD is not a valid CM message. Each reason has a
 * counter.
 */
enum cm_msg_fault {
	CM_FAULT_NONE,
	CM_FAULT_LENGTH,	/* not MAD_BYTES */
	CM_FAULT_BASE_VERSION,	/* unsupported MAD base version */
	CM_FAULT_CLASS,		/* not the communication management class */
	CM_FAULT_CLASS_VERSION, /* unsupported version of the class */
	CM_FAULT_METHOD,	/* not Send */
	CM_FAULT_ATTRIBUTE,	/* unknown message type */
	CM_FAULT_COUNT
};

/* Returns for example "wrong class"; never NULL. */
const char *cm_msg_fault_name(enum cm_msg_fault fault);

/* Field values are not checked, reserved bits are ignored. */
enum cm_msg_fault cm_msg_parse(struct cm_msg *msg, const void *mad, size_t len)
	__attribute__((warn_unused_result));

/* Writes all MAD_BYTES; reserved bits are 0. Values are truncated to the width of their field. */
void cm_msg_build(const struct cm_msg *msg, void *mad);

const char *cm_msg_name(enum cm_msg_type type);

/* NULL for a reason that is not in enum cm_rej_reason. */
const char *cm_rej_reason_name(uint16_t reason);

/* NULL for a status that is not in enum cm_sidr_status. */
const char *cm_sidr_status_name(uint8_t status);

/*
 * The position of a field in the 232 bytes after the MAD header and in its struct. The same tables
 * serve for parsing, building and printing; tests compare them with a packet analyser.
 */
enum cm_format {
	CM_FORMAT_HEX,
	CM_FORMAT_DEC,
	CM_FORMAT_GID,
	CM_FORMAT_BYTES,
};

struct cm_field {
	const char *name;
	uint16_t bit;	 /* from the start of the payload, most significant first */
	uint16_t bits;	 /* up to 64, or whole bytes for GID and BYTES */
	uint16_t offset; /* of the member in the message's struct */
	uint8_t size_bytes;
	uint8_t format; /* enum cm_format */
};

/* The fields of a message in wire order, and their count. */
const struct cm_field *cm_msg_fields(enum cm_msg_type type, size_t *count);

/* The value of a field; only for CM_FORMAT_HEX and CM_FORMAT_DEC. */
uint64_t cm_field_get(const struct cm_field *field, const void *members);

/*
 * The header that rdma_cm puts before the private data of the user in REQ and SIDR_REQ (IBA A11):
 * the IP addresses of both sides and the source port. An IPv4 address is in the last 4 of its 16
 * bytes; the others are 0. The destination port is in the service ID.
 */
#define CM_IP_HDR_BYTES 36

struct cm_ip_hdr {
	uint8_t ip_version; /* 4 or 6 */
	uint16_t src_port;
	uint8_t src[16];
	uint8_t dst[16];
};

/* -EPROTO: another major version, or an IP version that is neither 4 nor 6. */
int cm_ip_hdr_parse(struct cm_ip_hdr *hdr, const void *data) __attribute__((warn_unused_result));
void cm_ip_hdr_build(const struct cm_ip_hdr *hdr, void *data);

/* Converts to socket addresses; the caller takes `dst_port` from the service ID. */
void cm_ip_hdr_addrs(const struct cm_ip_hdr *hdr, uint16_t dst_port, struct sockaddr_storage *src,
		     struct sockaddr_storage *dst);

/* -EAFNOSUPPORT unless both addresses are IPv4 or both IPv6. */
int cm_ip_hdr_from_addrs(struct cm_ip_hdr *hdr, const struct sockaddr *src,
			 const struct sockaddr *dst) __attribute__((warn_unused_result));

#endif
