/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_CORE_QP_XRC_FORWARD_MSG_H
#define USRDMA_CORE_QP_XRC_FORWARD_MSG_H

#include <assert.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "core/object/objects.h"
#include "wire/packet.h"

/*
 * The messages that two processes of a host exchange about an XRC target QP (IBA A14; ADR 0020).
 * The target QP process is the process that created the QP. An executor is a process that owns SRQs
 * of the QP's domain and executes the requests that name them. A remote handle is a handle of the
 * QP in another process (ibv_open_qp(3)).
 *
 * A burst is a series of requests that the target QP process forwards to one executor until all are
 * reported. Bursts and requests are numbered.
 */
enum xrc_forward_type {
	/* target QP process to executor */
	XRC_FORWARD_ATTACH = 1, /* the QP's attributes; sent again after a change */
	XRC_FORWARD_REQUEST,	/* the next request of a burst */
	XRC_FORWARD_REPLAY,	/* a duplicate request whose response is to be sent again */
	XRC_FORWARD_DETACH,	/* the QP was reset or destroyed */
	/* executor to target QP process */
	XRC_FORWARD_REPORT, /* result of the burst's requests up to `serial` */
	/* process with a remote handle to target QP process: the operations of a remote handle */
	XRC_REMOTE_OPEN,
	XRC_REMOTE_CLOSE,
	XRC_REMOTE_QUERY,
	XRC_REMOTE_MODIFY,
	/* target QP process to process with a remote handle */
	XRC_REMOTE_RESULT, /* of the operation with the same serial */
	XRC_REMOTE_EVENT,  /* an asynchronous event of the QP */
	XRC_FORWARD_TYPE_COUNT
};

struct xrc_forward_attach {
	uint64_t domain_id;
	uint32_t dev_id;
	uint32_t remote_qpn; /* of the requester */
	uint32_t path_mtu;   /* enum ibv_mtu */
	uint32_t access;
	uint32_t max_dest_rd_atomic;
	uint32_t min_rnr_timer;
	uint32_t flow_label;
	uint8_t traffic_class;
	uint8_t hop_limit;
	uint8_t reserved[2];
	uint8_t local_gid[16];
	uint8_t remote_gid[16];
};

/* Followed by the packet on the wire. */
struct xrc_forward_request {
	uint32_t burst;
	uint32_t serial;
	uint32_t msn; /* before this request */
	uint32_t reserved;
	struct packet packet;
};

struct xrc_forward_report {
	uint32_t burst;
	uint32_t serial;
	uint32_t psn; /* the executor's expected PSN */
	uint32_t msn;
	/* of the request `serial`: a value of roce/disposition.h, checked by the receiver */
	uint32_t disposition;
	uint8_t is_inside; /* the current message is incomplete */
	uint8_t reserved[3];
};

struct xrc_remote_open {
	uint64_t domain_id; /* proves that the sender has opened the domain */
	uint32_t serial;
	uint32_t reserved;
};

/* CLOSE, QUERY */
struct xrc_remote_operation {
	uint32_t serial;
};

struct xrc_remote_modify {
	uint32_t serial;
	int32_t mask;
	struct ibv_qp_attr attr;
};

struct xrc_remote_result {
	uint32_t serial;
	uint32_t error;		 /* 0 or a positive errno */
	struct ibv_qp_attr attr; /* OPEN, QUERY */
};

struct xrc_remote_event {
	uint32_t event; /* enum ibv_event_type */
};

struct xrc_forward_msg {
	enum xrc_forward_type type;
	uint32_t qpn; /* of the XRC target QP */
	union {
		struct xrc_forward_attach attach;
		struct xrc_forward_request request; /* REQUEST, REPLAY */
		struct xrc_forward_report report;
		struct xrc_remote_open open;
		struct xrc_remote_operation operation; /* CLOSE, QUERY */
		struct xrc_remote_modify modify;
		struct xrc_remote_result result;
		struct xrc_remote_event event;
	};
};

/*
 * The wire format is the type and the QPN, the member of the union, and the packet of REQUEST and
 * REPLAY.
 */
#define XRC_FORWARD_HDR_BYTES (2 * sizeof(uint32_t))

static_assert(sizeof(struct xrc_forward_attach) == 72, "no padding is sent");
static_assert(offsetof(struct xrc_forward_request, packet) == 16, "no padding is sent");
static_assert(sizeof(struct xrc_forward_report) == 24, "no padding is sent");
static_assert(sizeof(struct xrc_remote_open) == 16, "no padding is sent");

/* Maximum length of an encoded message. */
#define XRC_FORWARD_BYTES_MAX \
	(XRC_FORWARD_HDR_BYTES + offsetof(struct xrc_forward_request, packet) + PACKET_MAX)

static_assert(XRC_FORWARD_HDR_BYTES + sizeof(struct xrc_remote_modify) <= XRC_FORWARD_BYTES_MAX &&
		      XRC_FORWARD_HDR_BYTES + sizeof(struct xrc_remote_result) <=
			      XRC_FORWARD_BYTES_MAX,
	      "the longest message contains a packet");

#define XRC_FORWARD_PIECES 3

/* An encoded message. `pieces` refers to the frame and to the payload of the packet. */
struct xrc_forward_frame {
	uint8_t head[XRC_FORWARD_HDR_BYTES + sizeof(struct xrc_remote_result) + PACKET_HDR_MAX];
	uint8_t trailer[PACKET_TRAILER_MAX];
	struct iovec pieces[XRC_FORWARD_PIECES];
	int count;
};

/* The slot of the process that owns a QPN or an XRC SRQ number. */
static inline uint32_t xrc_slot_of(uint32_t number)
{
	return number >> IPC_SLOT_SHIFT & (IPC_SLOTS - 1);
}

void xrc_forward_encode(const struct xrc_forward_msg *msg, struct xrc_forward_frame *frame);

/*
 * Decodes a message from `from_slot` to `to_slot` and checks everything that does not depend on the
 * state of the receiver: type, length, direction, and the range of each field. The packet's payload
 * points into `bytes`. 0 or -EBADMSG.
 */
int xrc_forward_decode(struct xrc_forward_msg *msg, const uint8_t *bytes, uint32_t len,
		       uint32_t from_slot, uint32_t to_slot) __attribute__((warn_unused_result));

const char *xrc_forward_type_name(enum xrc_forward_type type);

#endif
