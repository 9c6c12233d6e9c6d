/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Verbs: devices, memory, queues and work requests of RDMA.
 *
 * How to read the pages in this header. They say what usrdma does, which is what rdma-core's
 * manual pages and the InfiniBand Architecture Specification ask for, on a device made of
 * software. Unless a page says otherwise:
 *
 * - A call that returns int answers 0, or a positive errno value; one that returns a pointer
 *   answers NULL with errno set. ibv_query_gid, ibv_query_pkey, ibv_get_pkey_index,
 *   ibv_get_cq_event, ibv_get_async_event, ibv_init_ah_from_wc and ibv_dm_export_dmabuf_fd answer
 *   -1 with errno set
 *   instead.
 * - Pointers may not be NULL. A structure passed in is read, or filled, during the call only. An
 *   object that a call returns belongs to the caller, until the destroying call of its kind has
 *   answered 0, and it must be destroyed before the objects that it was made from.
 * - Any thread may make any call at any time. Nobody may use an object while, or after, it is
 *   being destroyed. Nothing here is async-signal-safe.
 * - "Does not block" means: no waiting for the application, for peers or for I/O. Short internal
 *   locks are taken.
 * - EOPNOTSUPP is the answer for everything a device has no feature for: the same one that
 *   programs know from hardware.
 * - EIO is the answer of a call that would have to change something when the daemon is gone (see
 *   IBV_EVENT_DEVICE_FATAL), and for objects that were made before fork() in the child.
 * - A structure with a comp_mask grows at its end: the mask says which of the added members the
 *   caller filled in. Unknown bits are answered with EINVAL or EOPNOTSUPP.
 * - __be16, __be32, __be64 are big-endian as on the wire, all other integers are in host order.
 * - "Since" names the version of the exported symbol. Inline calls are not exported, they reach
 *   the library through struct verbs_context, and carry the version of rdma-core that they
 *   appeared in.
 */
#ifndef INFINIBAND_VERBS_H
#define INFINIBAND_VERBS_H

#include <errno.h>
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <time.h>
#include <sys/types.h>
#include <linux/if_ether.h>
#include <linux/types.h>
#include <infiniband/verbs_api.h>

#ifdef __GNUC__
#define __attribute_const __attribute__((const))
#else
#define __attribute_const
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* Public names are visible, also in a library built with -fvisibility=hidden. */
#pragma GCC visibility push(default)

struct ibv_ah;
struct ibv_buf;
struct ibv_context;
struct ibv_cq;
struct ibv_device;
struct ibv_dm;
struct ibv_mr;
struct ibv_mw;
struct ibv_pd;
struct ibv_qp;
struct ibv_srq;
struct ibv_wq;

#define ETHERNET_LL_SIZE ETH_ALEN

/* ---- GIDs ---- */

/**
 * A GID: 16 bytes as on the wire, an IPv6 address by form. RoCE v2 GIDs are the interface's IPv6
 * addresses, and its IPv4 addresses as ::ffff:a.b.c.d. Source: IBA 1.x §4.1.1, IBA A17.
 */
union ibv_gid {
	uint8_t raw[16];
	struct {
		__be64 subnet_prefix;
		__be64 interface_id;
	} global;
};

/**
 * How packets with this GID are encapsulated. Every GID of a usrdma device is
 * IBV_GID_TYPE_ROCE_V2.
 */
enum ibv_gid_type {
	IBV_GID_TYPE_IB,      /* InfiniBand link */
	IBV_GID_TYPE_ROCE_V1, /* Ethernet, EtherType 0x8915 */
	IBV_GID_TYPE_ROCE_V2, /* UDP port 4791 */
};

/**
 * One entry of a port's GID table, filled by ibv_query_gid_ex() and ibv_query_gid_table(). 32
 * bytes.
 */
struct ibv_gid_entry {
	union ibv_gid gid;
	uint32_t gid_index;    /* sgid_index of ibv_global_route */
	uint32_t port_num;     /* from 1 */
	uint32_t gid_type;     /* enum ibv_gid_type */
	uint32_t ndev_ifindex; /* of the network interface, 0: none */
};

/* ---- Devices ---- */

/** What kind of node a device is. usrdma devices are IBV_NODE_CA. */
enum ibv_node_type {
	IBV_NODE_UNKNOWN = -1,
	IBV_NODE_CA = 1,
	IBV_NODE_SWITCH,
	IBV_NODE_ROUTER,
	IBV_NODE_RNIC,
	IBV_NODE_USNIC,
	IBV_NODE_USNIC_UDP,
	IBV_NODE_UNSPECIFIED,
};

/** What protocol family a device speaks. usrdma devices are IBV_TRANSPORT_IB. */
enum ibv_transport_type {
	IBV_TRANSPORT_UNKNOWN = -1,
	IBV_TRANSPORT_IB = 0,
	IBV_TRANSPORT_IWARP,
	IBV_TRANSPORT_USNIC,
	IBV_TRANSPORT_USNIC_UDP,
	IBV_TRANSPORT_UNSPECIFIED,
};

/**
 * Optional features, the bits of ibv_device_attr.device_cap_flags. A usrdma device sets a bit only
 * if the feature works. Source: IBA 1.x §11.2.1 (Query HCA).
 */
enum ibv_device_cap_flags {
	IBV_DEVICE_RESIZE_MAX_WR = 1 << 0,	 /* IBV_QP_CAP in ibv_modify_qp() */
	IBV_DEVICE_BAD_PKEY_CNTR = 1 << 1,	 /* ibv_port_attr.bad_pkey_cntr counts */
	IBV_DEVICE_BAD_QKEY_CNTR = 1 << 2,	 /* ibv_port_attr.qkey_viol_cntr counts */
	IBV_DEVICE_RAW_MULTI = 1 << 3,		 /* multicast on raw QPs */
	IBV_DEVICE_AUTO_PATH_MIG = 1 << 4,	 /* alternate paths */
	IBV_DEVICE_CHANGE_PHY_PORT = 1 << 5,	 /* a QP may change its port in SQD */
	IBV_DEVICE_UD_AV_PORT_ENFORCE = 1 << 6,	 /* an AH's port must be the UD QP's */
	IBV_DEVICE_CURR_QP_STATE_MOD = 1 << 7,	 /* IBV_QP_CUR_STATE is looked at */
	IBV_DEVICE_SHUTDOWN_PORT = 1 << 8,	 /* ports can be shut down */
	IBV_DEVICE_INIT_TYPE = 1 << 9,		 /* ibv_port_attr.init_type_reply means something */
	IBV_DEVICE_PORT_ACTIVE_EVENT = 1 << 10,	 /* IBV_EVENT_PORT_ACTIVE is reported */
	IBV_DEVICE_SYS_IMAGE_GUID = 1 << 11,	 /* sys_image_guid is one for the whole system */
	IBV_DEVICE_RC_RNR_NAK_GEN = 1 << 12,	 /* RNR NAKs are sent */
	IBV_DEVICE_SRQ_RESIZE = 1 << 13,	 /* IBV_SRQ_MAX_WR in ibv_modify_srq() */
	IBV_DEVICE_N_NOTIFY_CQ = 1 << 14,	 /* notify after n completions */
	IBV_DEVICE_MEM_WINDOW = 1 << 17,	 /* type 1 memory windows */
	IBV_DEVICE_UD_IP_CSUM = 1 << 18,	 /* checksum offload on UD QPs */
	IBV_DEVICE_XRC = 1 << 20,		 /* extended reliable connections */
	IBV_DEVICE_MEM_MGT_EXTENSIONS = 1 << 21, /* LOCAL_INV and SEND_WITH_INV */
	IBV_DEVICE_MEM_WINDOW_TYPE_2A = 1 << 23, /* type 2 windows, bound to a QP */
	IBV_DEVICE_MEM_WINDOW_TYPE_2B = 1 << 24, /* type 2 windows, bound to QP and PD */
	IBV_DEVICE_RC_IP_CSUM = 1 << 25,	 /* checksum offload on RC QPs */
	IBV_DEVICE_RAW_IP_CSUM = 1 << 26,	 /* checksum offload on raw QPs */
	IBV_DEVICE_MANAGED_FLOW_STEERING = 1 << 29, /* ibv_create_flow() */
};

/*
 * Bits of ibv_device_attr_ex.device_cap_flags_ex above the enum's 32: raw packets with their FCS,
 * padding of the last PCI write, and a confidential guest whose DMA goes through bounce buffers.
 */
#define IBV_DEVICE_RAW_SCATTER_FCS	 (1ULL << 34)
#define IBV_DEVICE_PCI_WRITE_END_PADDING (1ULL << 36)
#define IBV_DEVICE_CC_DMA_BOUNCE	 (1ULL << 41)

/** Against whom atomics are atomic. */
enum ibv_atomic_cap {
	IBV_ATOMIC_NONE, /* no atomics */
	IBV_ATOMIC_HCA,	 /* against other atomics through the same device */
	IBV_ATOMIC_GLOB, /* against everybody, the CPU's atomic instructions included */
};

/**
 * What a device can do, filled by ibv_query_device(). Limits are upper bounds that one object may
 * be asked for; the sum of all objects is bounded by memory as well. usrdma keeps every limit it
 * names. Members for EE contexts, raw QPs and FMRs, which usrdma lacks, are 0.
 * Source: ibv_query_device(3), IBA 1.x §11.2.1.
 */
struct ibv_device_attr {
	char fw_ver[64];  /* for people to read, NUL-terminated */
	__be64 node_guid; /* never 0, stays the same for an interface */
	__be64 sys_image_guid;
	uint64_t max_mr_size;	/* bytes */
	uint64_t page_size_cap; /* bit n: pages of 2^n bytes */
	uint32_t vendor_id;	/* IEEE OUI */
	uint32_t vendor_part_id;
	uint32_t hw_ver;
	int max_qp;
	int max_qp_wr;		       /* WRs in one send or receive queue */
	unsigned int device_cap_flags; /* enum ibv_device_cap_flags */
	int max_sge;		       /* SGEs of a WR */
	int max_sge_rd;		       /* SGEs of a READ */
	int max_cq;
	int max_cqe; /* completions in one CQ */
	int max_mr;
	int max_pd;
	int max_qp_rd_atom; /* max_dest_rd_atomic: READs and atomics served at once */
	int max_ee_rd_atom;
	int max_res_rd_atom;	 /* … of all QPs together */
	int max_qp_init_rd_atom; /* max_rd_atomic: READs and atomics under way at once */
	int max_ee_init_rd_atom;
	enum ibv_atomic_cap atomic_cap;
	int max_ee;
	int max_rdd;
	int max_mw;
	int max_raw_ipv6_qp;
	int max_raw_ethy_qp;
	int max_mcast_grp;
	int max_mcast_qp_attach;
	int max_total_mcast_qp_attach;
	int max_ah;
	int max_fmr;
	int max_map_per_fmr;
	int max_srq;
	int max_srq_wr;
	int max_srq_sge;
	uint16_t max_pkeys;	    /* P_Key table entries per port */
	uint8_t local_ca_ack_delay; /* 4.096 us * 2^n until an ACK leaves */
	uint8_t phys_port_cnt;	    /* ports are 1 … phys_port_cnt */
};

/** Reserved: comp_mask has no bits yet and is 0. */
struct ibv_query_device_ex_input {
	uint32_t comp_mask;
};

/**
 * On-demand paging as a whole. All usrdma memory is paged on demand: nothing is ever pinned.
 */
enum ibv_odp_general_caps {
	IBV_ODP_SUPPORT = 1 << 0,
	IBV_ODP_SUPPORT_IMPLICIT = 1 << 1,
};

/** Operations that on-demand paging works for, per transport. */
enum ibv_odp_transport_cap_bits {
	IBV_ODP_SUPPORT_SEND = 1 << 0,
	IBV_ODP_SUPPORT_RECV = 1 << 1,
	IBV_ODP_SUPPORT_WRITE = 1 << 2,
	IBV_ODP_SUPPORT_READ = 1 << 3,
	IBV_ODP_SUPPORT_ATOMIC = 1 << 4,
	IBV_ODP_SUPPORT_SRQ_RECV = 1 << 5,
	IBV_ODP_SUPPORT_FLUSH = 1 << 6,
	IBV_ODP_SUPPORT_ATOMIC_WRITE = 1 << 7,
};

/**
 * On-demand paging: what is offered in general (enum ibv_odp_general_caps) and per transport (enum
 * ibv_odp_transport_cap_bits).
 */
struct ibv_odp_caps {
	uint64_t general_caps;
	struct {
		uint32_t rc_odp_caps;
		uint32_t uc_odp_caps;
		uint32_t ud_odp_caps;
	} per_transport_caps;
};

/** Segmentation offload; all 0 on usrdma. */
struct ibv_tso_caps {
	uint32_t max_tso;	 /* bytes */
	uint32_t supported_qpts; /* bit n: QP type n, see ibv_is_qpt_supported() */
};

/** Hash functions of receive side scaling. */
enum ibv_rx_hash_function_flags {
	IBV_RX_HASH_FUNC_TOEPLITZ = 1 << 0,
};

/**
 * Packet fields that a receive side scaling hash covers. IPv4 excludes IPv6, TCP excludes UDP.
 */
enum ibv_rx_hash_fields {
	IBV_RX_HASH_SRC_IPV4 = 1 << 0,
	IBV_RX_HASH_DST_IPV4 = 1 << 1,
	IBV_RX_HASH_SRC_IPV6 = 1 << 2,
	IBV_RX_HASH_DST_IPV6 = 1 << 3,
	IBV_RX_HASH_SRC_PORT_TCP = 1 << 4,
	IBV_RX_HASH_DST_PORT_TCP = 1 << 5,
	IBV_RX_HASH_SRC_PORT_UDP = 1 << 6,
	IBV_RX_HASH_DST_PORT_UDP = 1 << 7,
	IBV_RX_HASH_IPSEC_SPI = 1 << 8,
	IBV_RX_HASH_INNER = 1UL << 31, /* the fields of the encapsulated packet */
};

/** Receive side scaling; all 0 on usrdma. */
struct ibv_rss_caps {
	uint32_t supported_qpts; /* bit n: QP type n */
	uint32_t max_rwq_indirection_tables;
	uint32_t max_rwq_indirection_table_size;
	uint64_t rx_hash_fields_mask; /* enum ibv_rx_hash_fields */
	uint8_t rx_hash_function;     /* enum ibv_rx_hash_function_flags */
};

/** Rate limits in kbit/s that ibv_qp_attr.rate_limit can have; all 0 on usrdma. */
struct ibv_packet_pacing_caps {
	uint32_t qp_rate_limit_min;
	uint32_t qp_rate_limit_max;
	uint32_t supported_qpts; /* bit n: QP type n */
};

/** Features of raw packet QPs; none on usrdma. */
enum ibv_raw_packet_caps {
	IBV_RAW_PACKET_CAP_CVLAN_STRIPPING = 1 << 0,
	IBV_RAW_PACKET_CAP_SCATTER_FCS = 1 << 1,
	IBV_RAW_PACKET_CAP_IP_CSUM = 1 << 2,
	IBV_RAW_PACKET_CAP_DELAY_DROP = 1 << 3,
};

/** Transports with tag matching; none on usrdma. */
enum ibv_tm_cap_flags {
	IBV_TM_CAP_RC = 1 << 0,
};

/** Tag matching; all 0 on usrdma. */
struct ibv_tm_caps {
	uint32_t max_rndv_hdr_size; /* bytes of a rendezvous request */
	uint32_t max_num_tags;	    /* buffers waiting in one SRQ */
	uint32_t flags;		    /* enum ibv_tm_cap_flags */
	uint32_t max_ops;	    /* list operations outstanding */
	uint32_t max_sge;	    /* SGEs of a tagged buffer */
};

/** The most that ibv_modify_cq() takes for completion event moderation. */
struct ibv_cq_moderation_caps {
	uint16_t max_cq_count;	/* completions */
	uint16_t max_cq_period; /* us */
};

/** Operand sizes of atomics over PCI. */
enum ibv_pci_atomic_op_size {
	IBV_PCI_ATOMIC_OPERATION_4_BYTE_SIZE_SUP = 1 << 0,
	IBV_PCI_ATOMIC_OPERATION_8_BYTE_SIZE_SUP = 1 << 1,
	IBV_PCI_ATOMIC_OPERATION_16_BYTE_SIZE_SUP = 1 << 2,
};

/**
 * Atomics over PCI, each a mask of enum ibv_pci_atomic_op_size; all 0 on usrdma: there is no bus.
 */
struct ibv_pci_atomic_caps {
	uint16_t fetch_add;
	uint16_t swap;
	uint16_t compare_swap;
};

/**
 * What a device can do, also newer things; filled by ibv_query_device_ex() with 0 for what the
 * library does not know. Grows at the end.
 */
struct ibv_device_attr_ex {
	struct ibv_device_attr orig_attr;
	uint32_t comp_mask; /* reserved, 0 */
	struct ibv_odp_caps odp_caps;
	/* bits that a completion timestamp has; 0: none */
	uint64_t completion_timestamp_mask;
	uint64_t hca_core_clock;      /* kHz of the timestamps */
	uint64_t device_cap_flags_ex; /* enum ibv_device_cap_flags and higher bits */
	struct ibv_tso_caps tso_caps;
	struct ibv_rss_caps rss_caps;
	uint32_t max_wq_type_rq; /* WQs of type IBV_WQT_RQ */
	struct ibv_packet_pacing_caps packet_pacing_caps;
	uint32_t raw_packet_caps; /* enum ibv_raw_packet_caps */
	struct ibv_tm_caps tm_caps;
	struct ibv_cq_moderation_caps cq_mod_caps;
	uint64_t max_dm_size; /* bytes for ibv_alloc_dm() */
	struct ibv_pci_atomic_caps pci_atomic_caps;
	uint32_t xrc_odp_caps;	   /* enum ibv_odp_transport_cap_bits */
	uint32_t phys_port_cnt_ex; /* as phys_port_cnt, for more than 255 */
};

/** What ibv_query_rt_values_ex() is to read. */
enum ibv_values_mask {
	IBV_VALUES_MASK_RAW_CLOCK = 1 << 0,
	IBV_VALUES_MASK_RESERVED = 1 << 1,
};

/** Values that change all the time, for ibv_query_rt_values_ex(). */
struct ibv_values_ex {
	uint32_t comp_mask;	   /* in: enum ibv_values_mask asked for; out: answered */
	struct timespec raw_clock; /* the clock of completion timestamps */
};

/** Answer of ibv_is_fork_initialized(). */
enum ibv_fork_status {
	IBV_FORK_DISABLED, /* fork() after registering memory is not safe */
	IBV_FORK_ENABLED,  /* ibv_fork_init() made it safe */
	IBV_FORK_UNNEEDED, /* it is always safe */
};

/* ---- Ports ---- */

/** Payload bytes per packet, as a code. Source: IBA 1.x §14.2.5.6 (PortInfo). */
enum ibv_mtu {
	IBV_MTU_256 = 1,
	IBV_MTU_512 = 2,
	IBV_MTU_1024 = 3,
	IBV_MTU_2048 = 4,
	IBV_MTU_4096 = 5,
};

/**
 * Logical link state of a port. A usrdma port is ACTIVE while its interface is up, else DOWN.
 * Source: IBA 1.x §14.2.5.6 (PortInfo).
 */
enum ibv_port_state {
	IBV_PORT_NOP = 0,
	IBV_PORT_DOWN = 1,
	IBV_PORT_INIT = 2,
	IBV_PORT_ARMED = 3,
	IBV_PORT_ACTIVE = 4,
	IBV_PORT_ACTIVE_DEFER = 5,
};

/** ibv_port_attr.link_layer. Read UNSPECIFIED as INFINIBAND. usrdma ports are ETHERNET. */
enum {
	IBV_LINK_LAYER_UNSPECIFIED,
	IBV_LINK_LAYER_INFINIBAND,
	IBV_LINK_LAYER_ETHERNET,
};

/**
 * Capabilities of a port, for ibv_port_attr.port_cap_flags. These are the PortInfo CapabilityMask, but for bit 26,
 * which says that the GIDs of the port are made of IP addresses. Source: IBA 1.x §14.2.5.6.
 */
enum ibv_port_cap_flags {
	IBV_PORT_SM = 1 << 1,
	IBV_PORT_NOTICE_SUP = 1 << 2,
	IBV_PORT_TRAP_SUP = 1 << 3,
	IBV_PORT_OPT_IPD_SUP = 1 << 4,
	IBV_PORT_AUTO_MIGR_SUP = 1 << 5,
	IBV_PORT_SL_MAP_SUP = 1 << 6,
	IBV_PORT_MKEY_NVRAM = 1 << 7,
	IBV_PORT_PKEY_NVRAM = 1 << 8,
	IBV_PORT_LED_INFO_SUP = 1 << 9,
	IBV_PORT_SYS_IMAGE_GUID_SUP = 1 << 11,
	IBV_PORT_PKEY_SW_EXT_PORT_TRAP_SUP = 1 << 12,
	IBV_PORT_EXTENDED_SPEEDS_SUP = 1 << 14,
	IBV_PORT_CAP_MASK2_SUP = 1 << 15,
	IBV_PORT_CM_SUP = 1 << 16,
	IBV_PORT_SNMP_TUNNEL_SUP = 1 << 17,
	IBV_PORT_REINIT_SUP = 1 << 18,
	IBV_PORT_DEVICE_MGMT_SUP = 1 << 19,
	IBV_PORT_VENDOR_CLASS_SUP = 1 << 20,
	IBV_PORT_DR_NOTICE_SUP = 1 << 21,
	IBV_PORT_CAP_MASK_NOTICE_SUP = 1 << 22,
	IBV_PORT_BOOT_MGMT_SUP = 1 << 23,
	IBV_PORT_LINK_LATENCY_SUP = 1 << 24,
	IBV_PORT_CLIENT_REG_SUP = 1 << 25,
	IBV_PORT_IP_BASED_GIDS = 1 << 26,
};

/**
 * ibv_port_attr.port_cap_flags2: PortInfo CapabilityMask2, valid with IBV_PORT_CAP_MASK2_SUP.
 */
enum ibv_port_cap_flags2 {
	IBV_PORT_SET_NODE_DESC_SUP = 1 << 0,
	IBV_PORT_INFO_EXT_SUP = 1 << 1,
	IBV_PORT_VIRT_SUP = 1 << 2,
	IBV_PORT_SWITCH_PORT_STATE_TABLE_SUP = 1 << 3,
	IBV_PORT_LINK_WIDTH_2X_SUP = 1 << 4,
	IBV_PORT_LINK_SPEED_HDR_SUP = 1 << 5,
	IBV_PORT_LINK_SPEED_NDR_SUP = 1 << 10,
	IBV_PORT_LINK_SPEED_XDR_SUP = 1 << 12,
};

/**
 * State and attributes of a port, filled by ibv_query_port(). Programs compiled against an older
 * header know only its first 48 or 52 bytes, and are given only those. Members of the subnet
 * manager (lid, sm_lid, lmc, sm_sl, …) are 0: RoCE has none. Source: ibv_query_port(3), IBA 1.x
 * §11.2.1.
 */
struct ibv_port_attr {
	enum ibv_port_state state;
	enum ibv_mtu max_mtu;	 /* what the device can */
	enum ibv_mtu active_mtu; /* largest that fits the interface's MTU */
	int gid_tbl_len;	 /* entries, also empty ones */
	uint32_t port_cap_flags; /* enum ibv_port_cap_flags */
	uint32_t max_msg_sz;	 /* bytes of one message */
	uint32_t bad_pkey_cntr;	 /* packets that this process was sent under another P_Key … */
	uint32_t qkey_viol_cntr; /* … and datagrams under another Q_Key; 65535 is that or more */
	uint16_t pkey_tbl_len;	 /* entries */
	uint16_t lid;
	uint16_t sm_lid;
	uint8_t lmc;
	uint8_t max_vl_num;
	uint8_t sm_sl;
	uint8_t subnet_timeout;
	uint8_t init_type_reply;
	uint8_t active_width; /* 1: 1x, 2: 4x, 4: 8x, 8: 12x, 16: 2x */
	/* per lane: 1 2.5, 2 5, 4 or 8 10, 16 14, 32 25, 64 50, 128 100 Gbit/s */
	uint8_t active_speed;
	uint8_t phys_state;	  /* 2: polling, 3: disabled, 5: link up */
	uint8_t link_layer;	  /* IBV_LINK_LAYER_* */
	uint8_t flags;		  /* IBV_QPF_GRH_REQUIRED */
	uint16_t port_cap_flags2; /* enum ibv_port_cap_flags2 */
	/* as active_speed, 32 bits; 0: see active_speed. Since v49 */
	uint32_t active_speed_ex;
};

/* ---- Asynchronous events ---- */

/**
 * Asynchronous events, fetched by ibv_get_async_event(). The comment names the member of
 * ibv_async_event.element that is set; none: the event is about the whole device.
 * Source: ibv_get_async_event(3), IBA 1.x §11.6.3.
 */
enum ibv_event_type {
	IBV_EVENT_CQ_ERR,	       /* cq: it overflowed, completions are lost */
	IBV_EVENT_QP_FATAL,	       /* qp: the QP failed where no completion can tell */
	IBV_EVENT_QP_REQ_ERR,	       /* qp: a bad request came from the peer */
	IBV_EVENT_QP_ACCESS_ERR,       /* qp: the peer touched what it may not */
	IBV_EVENT_COMM_EST,	       /* qp: first message came while in RTR */
	IBV_EVENT_SQ_DRAINED,	       /* qp: in SQD, all sends under way are done */
	IBV_EVENT_PATH_MIG,	       /* qp: moved to the alternate path */
	IBV_EVENT_PATH_MIG_ERR,	       /* qp: could not move */
	IBV_EVENT_DEVICE_FATAL,	       /* the daemon is gone: all QPs are dead, close the device */
	IBV_EVENT_PORT_ACTIVE,	       /* port_num */
	IBV_EVENT_PORT_ERR,	       /* port_num: the link went down */
	IBV_EVENT_LID_CHANGE,	       /* port_num; not on RoCE */
	IBV_EVENT_PKEY_CHANGE,	       /* port_num */
	IBV_EVENT_SM_CHANGE,	       /* port_num; not on RoCE */
	IBV_EVENT_SRQ_ERR,	       /* srq: it failed, its QPs too */
	IBV_EVENT_SRQ_LIMIT_REACHED,   /* srq: fewer WRs than its limit; disarms it */
	IBV_EVENT_QP_LAST_WQE_REACHED, /* qp: in ERR, takes no more from its SRQ */
	IBV_EVENT_CLIENT_REREGISTER,   /* port_num; not on RoCE */
	IBV_EVENT_GID_CHANGE,	       /* port_num: read the GID table again */
	IBV_EVENT_WQ_FATAL,	       /* wq */
	IBV_EVENT_DEVICE_SPEED_CHANGE, /* port_num: read the speed again */
};

/**
 * One asynchronous event: filled by ibv_get_async_event(), handed back to ibv_ack_async_event().
 */
struct ibv_async_event {
	union {
		struct ibv_cq *cq;
		struct ibv_qp *qp;
		struct ibv_srq *srq;
		struct ibv_wq *wq;
		int port_num;
	} element; /* which member is set: see enum ibv_event_type */
	enum ibv_event_type event_type;
};

/* ---- Protection domains, thread domains, XRC domains ---- */

/**
 * Protection domain: memory and queues of one PD may be used together, those of two may not. Made
 * by ibv_alloc_pd(), dies in ibv_dealloc_pd(). Source: IBA 1.x §10.2.3.
 */
struct ibv_pd {
	struct ibv_context *context;
	uint32_t handle; /* number of the PD, the library's own */
};

/** Reserved: comp_mask is 0. */
struct ibv_td_init_attr {
	uint32_t comp_mask;
};

/** Thread domain: objects that one thread only will use, as it promises. */
struct ibv_td {
	struct ibv_context *context;
};

/** Which members of ibv_parent_domain_init_attr are filled in, and permissions (the last). */
enum ibv_parent_domain_init_attr_mask {
	IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS = 1 << 0,
	IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT = 1 << 1,
	IBV_PARENT_DOMAIN_INIT_ATTR_ALLOW_CC_UNPROTECTED_ALLOC = 1 << 2,
};

/* What an ibv_parent_domain_init_attr.alloc may return to have the library allocate. */
#define IBV_ALLOCATOR_USE_DEFAULT ((void *)-1)

/** A PD with a thread domain and allocators for queue memory; for ibv_alloc_parent_domain(). */
struct ibv_parent_domain_init_attr {
	struct ibv_pd *pd;
	struct ibv_td *td;  /* may be NULL */
	uint32_t comp_mask; /* enum ibv_parent_domain_init_attr_mask */
	/* given to alloc and free */
	void *(*alloc)(struct ibv_pd *pd, void *pd_context, size_t size, size_t alignment,
		       uint64_t resource_type);
	void (*free)(struct ibv_pd *pd, void *pd_context, void *ptr, uint64_t resource_type);
	void *pd_context;
};

/** Which members of ibv_xrcd_init_attr are filled in; both are needed. */
enum ibv_xrcd_init_attr_mask {
	IBV_XRCD_INIT_ATTR_FD = 1 << 0,
	IBV_XRCD_INIT_ATTR_OFLAGS = 1 << 1,
	IBV_XRCD_INIT_ATTR_RESERVED = 1 << 2,
};

/** For ibv_open_xrcd(): the file whose inode names the domain, and O_CREAT, O_EXCL. */
struct ibv_xrcd_init_attr {
	uint32_t comp_mask; /* enum ibv_xrcd_init_attr_mask */
	int fd;		    /* -1: a domain that is opened but once */
	int oflags;
};

/**
 * XRC domain: joins XRC receive QPs and SRQs, also those of several processes. Made by
 * ibv_open_xrcd(), dies in ibv_close_xrcd(). Source: IBA A14.
 */
struct ibv_xrcd {
	struct ibv_context *context;
};

/* ---- Memory regions and windows ---- */

/**
 * Rights: what may be done to a memory region, to a QP's memory by its peer (the REMOTE bits of
 * ibv_qp_attr.qp_access_flags), or through a memory window. Reading locally is always allowed.
 * Bits 20 to 29 (IBV_ACCESS_OPTIONAL_RANGE) are hints that a device may ignore, and usrdma does.
 * Source: ibv_reg_mr(3), IBA 1.x §10.6.
 */
enum ibv_access_flags {
	/* receives, READ results: needed by REMOTE_WRITE, _ATOMIC */
	IBV_ACCESS_LOCAL_WRITE = 1 << 0,
	IBV_ACCESS_REMOTE_WRITE = 1 << 1,
	IBV_ACCESS_REMOTE_READ = 1 << 2,
	IBV_ACCESS_REMOTE_ATOMIC = 1 << 3,
	IBV_ACCESS_MW_BIND = 1 << 4,	      /* windows may be bound to it */
	IBV_ACCESS_ZERO_BASED = 1 << 5,	      /* addresses count from 0 at the start of the MR */
	IBV_ACCESS_ON_DEMAND = 1 << 6,	      /* not pinned, which usrdma never does anyway */
	IBV_ACCESS_HUGETLB = 1 << 7,	      /* promise: huge pages only */
	IBV_ACCESS_FLUSH_GLOBAL = 1 << 8,     /* FLUSH to where all can see it: of MR and QP */
	IBV_ACCESS_FLUSH_PERSISTENT = 1 << 9, /* FLUSH to where it survives power loss */
	/* writes may land in any order */
	IBV_ACCESS_RELAXED_ORDERING = IBV_ACCESS_OPTIONAL_FIRST,
};

/**
 * Memory region: a range of the process's memory with keys for the queues of its PD and for peers.
 * Made by ibv_reg_mr() and its kin, dies in ibv_dereg_mr(). Members are for reading.
 */
struct ibv_mr {
	struct ibv_context *context;
	struct ibv_pd *pd;
	void *addr;
	size_t length; /* bytes */
	uint32_t handle;
	uint32_t lkey; /* for ibv_sge.lkey */
	uint32_t rkey; /* for the peer's wr.rdma.rkey */
};

/** What ibv_rereg_mr() is to change. */
enum ibv_rereg_mr_flags {
	IBV_REREG_MR_CHANGE_TRANSLATION = 1 << 0, /* addr and length */
	IBV_REREG_MR_CHANGE_PD = 1 << 1,
	IBV_REREG_MR_CHANGE_ACCESS = 1 << 2,
	IBV_REREG_MR_FLAGS_SUPPORTED = (1 << 3) - 1,
};

/** What ibv_rereg_mr() answers instead of an errno: whether the MR is still good. */
enum ibv_rereg_mr_err_code {
	IBV_REREG_MR_ERR_INPUT = -1,		   /* bad argument; the MR is as before */
	IBV_REREG_MR_ERR_DONT_FORK_NEW = -2,	   /* the MR is as before */
	IBV_REREG_MR_ERR_DO_FORK_OLD = -3,	   /* the MR was changed */
	IBV_REREG_MR_ERR_CMD = -4,		   /* the MR is no good: deregister it */
	IBV_REREG_MR_ERR_CMD_AND_DO_FORK_NEW = -5, /* the MR is no good: deregister it */
};

/** Which members of ibv_mr_init_attr are filled in. ADDR and FD exclude one another. */
enum ibv_mr_init_attr_mask {
	IBV_REG_MR_MASK_IOVA = 1 << 0,
	IBV_REG_MR_MASK_ADDR = 1 << 1,
	IBV_REG_MR_MASK_FD = 1 << 2,
	IBV_REG_MR_MASK_FD_OFFSET = 1 << 3,
	IBV_REG_MR_MASK_DMAH = 1 << 4,
	IBV_REG_MR_MASK_BUF = 1 << 5,
};

/** DMA handle: hints for PCIe traffic. Not offered by usrdma. */
struct ibv_dmah {
	struct ibv_context *context;
};

/**
 * What ibv_reg_mr_ex() is to register. Length and access always count, the rest by comp_mask.
 */
struct ibv_mr_init_attr {
	size_t length;	    /* bytes */
	int access;	    /* enum ibv_access_flags */
	uint64_t comp_mask; /* enum ibv_mr_init_attr_mask */
	uint64_t iova;	    /* address that keys count from; default: addr */
	void *addr;
	int fd;		    /* a dma-buf */
	uint64_t fd_offset; /* bytes into it */
	struct ibv_dmah *dmah;
	struct ibv_buf *buf; /* from ibv_alloc_buf(), with addr in it */
};

/** Kind of memory, a PCIe processing hint. */
enum ibv_tph_mem_type {
	IBV_TPH_MEM_TYPE_VM, /* volatile */
	IBV_TPH_MEM_TYPE_PM, /* persistent */
};

/** Which members of ibv_dmah_init_attr are filled in. */
enum ibv_dmah_init_attr_mask {
	IBV_DMAH_INIT_ATTR_MASK_CPU_ID = 1 << 0,
	IBV_DMAH_INIT_ATTR_MASK_PH = 1 << 1,
	IBV_DMAH_INIT_ATTR_MASK_TPH_MEM_TYPE = 1 << 2,
};

/** Processing hints for ibv_alloc_dmah(). */
struct ibv_dmah_init_attr {
	uint32_t comp_mask;   /* enum ibv_dmah_init_attr_mask */
	uint32_t cpu_id;      /* whose cache the data is for */
	uint8_t ph;	      /* the two PH bits of a PCIe request */
	uint8_t tph_mem_type; /* enum ibv_tph_mem_type */
};

/**
 * Memory windows: type 1 is bound by ibv_bind_mw(), type 2 by a work request. Source: IBA 1.x
 * §10.6.
 */
enum ibv_mw_type {
	IBV_MW_TYPE_1 = 1,
	IBV_MW_TYPE_2 = 2,
};

/** Memory window: a part of an MR with an rkey of its own. */
struct ibv_mw {
	struct ibv_context *context;
	struct ibv_pd *pd;
	uint32_t rkey; /* changes with every bind */
	uint32_t handle;
	enum ibv_mw_type type;
};

/** What a memory window is to show. */
struct ibv_mw_bind_info {
	struct ibv_mr *mr; /* NULL, with length 0: unbind */
	uint64_t addr;
	uint64_t length;	      /* bytes */
	unsigned int mw_access_flags; /* enum ibv_access_flags */
};

/** A bind for ibv_bind_mw(), completed as IBV_WC_BIND_MW. */
struct ibv_mw_bind {
	uint64_t wr_id;
	unsigned int send_flags; /* enum ibv_send_flags */
	struct ibv_mw_bind_info bind_info;
};

/** For ibv_alloc_dm(). */
struct ibv_alloc_dm_attr {
	size_t length;		/* bytes */
	uint32_t log_align_req; /* alignment is 2^n bytes */
	uint32_t comp_mask;	/* reserved, 0 */
};

/** Which optional members of ibv_dm are set. */
enum ibv_dm_mask {
	IBV_DM_MASK_HANDLE = 1 << 0,
};

/** Device memory: on usrdma memory of the process, that is reached through these calls and MRs alone. */
struct ibv_dm {
	struct ibv_context *context;
	int (*memcpy_to_dm)(struct ibv_dm *dm, uint64_t dm_offset, const void *host_addr,
			    size_t length);
	int (*memcpy_from_dm)(void *host_addr, struct ibv_dm *dm, uint64_t dm_offset,
			      size_t length);
	uint32_t comp_mask; /* enum ibv_dm_mask */
	uint32_t handle;
};

/* ---- Addresses ---- */

/**
 * Where a packet goes beyond its subnet: the GRH part of an address. On RoCE it is the IP header.
 */
struct ibv_global_route {
	union ibv_gid dgid;  /* the peer's GID */
	uint32_t flow_label; /* the low 20 bits count; on RoCE v2 it chooses the UDP source port */
	uint8_t sgid_index;  /* ours, in the port's GID table */
	uint8_t hop_limit;   /* TTL; RoCE replaces 0 by its own */
	uint8_t traffic_class; /* DSCP and ECN */
};

/**
 * The 40 bytes in front of the payload that a UD receive gets. On RoCE, where IBV_WC_GRH is always
 * set, they are the packet's IPv6 header, or 20 bytes of 0 and its IPv4 header; a datagram from
 * this machine has the same. Source: IBA 1.x §8.3, IBA A17.
 */
struct ibv_grh {
	__be32 version_tclass_flow; /* 4, 8 and 20 bits */
	__be16 paylen;		    /* bytes after the GRH */
	uint8_t next_hdr;	    /* 0x1B: a BTH follows; RoCE v2: 17, UDP */
	uint8_t hop_limit;
	union ibv_gid sgid;
	union ibv_gid dgid;
};

/**
 * Static rates, as coded in a path. The order is the standard's. usrdma ignores them: it sends as
 * fast as the receiver takes. Source: IBA 1.x §9.11.1.
 */
enum ibv_rate {
	IBV_RATE_MAX = 0, /* the port's own */
	IBV_RATE_2_5_GBPS = 2,
	IBV_RATE_10_GBPS = 3,
	IBV_RATE_30_GBPS = 4,
	IBV_RATE_5_GBPS = 5,
	IBV_RATE_20_GBPS = 6,
	IBV_RATE_40_GBPS = 7,
	IBV_RATE_60_GBPS = 8,
	IBV_RATE_80_GBPS = 9,
	IBV_RATE_120_GBPS = 10,
	IBV_RATE_14_GBPS = 11,
	IBV_RATE_56_GBPS = 12,
	IBV_RATE_112_GBPS = 13,
	IBV_RATE_168_GBPS = 14,
	IBV_RATE_25_GBPS = 15,
	IBV_RATE_100_GBPS = 16,
	IBV_RATE_200_GBPS = 17,
	IBV_RATE_300_GBPS = 18,
	IBV_RATE_28_GBPS = 19,
	IBV_RATE_50_GBPS = 20,
	IBV_RATE_400_GBPS = 21,
	IBV_RATE_600_GBPS = 22,
	IBV_RATE_800_GBPS = 23,
	IBV_RATE_1200_GBPS = 24,
};

/**
 * Address vector: how to reach a peer, for ibv_create_ah() and ibv_qp_attr. On RoCE only grh and
 * port_num matter, and is_global must be 1.
 */
struct ibv_ah_attr {
	struct ibv_global_route grh;
	uint16_t dlid;	       /* not on RoCE */
	uint8_t sl;	       /* service level, 0 to 15 */
	uint8_t src_path_bits; /* not on RoCE */
	uint8_t static_rate;   /* enum ibv_rate */
	uint8_t is_global;     /* grh is filled in */
	uint8_t port_num;      /* from 1 */
};

/**
 * Address handle: an address vector made ready for UD sends. Made by ibv_create_ah(), dies in
 * ibv_destroy_ah(); sends that are queued then are sent all the same. Source: IBA 1.x §10.2.2.
 */
struct ibv_ah {
	struct ibv_context *context;
	struct ibv_pd *pd;
	uint32_t handle;
};

/* ---- Work requests ---- */

/**
 * Scatter/gather entry: one piece of local memory, inside the MR that lkey names. A length of 0 is
 * an empty piece. Which MR it is, and whether it may be used, is checked when the WR is carried
 * out.
 */
struct ibv_sge {
	uint64_t addr;	 /* in the MR's address space (its iova) */
	uint32_t length; /* bytes */
	uint32_t lkey;	 /* ibv_mr.lkey; not looked at for inline data */
};

/** A piece of memory for ibv_wr_set_inline_data_list(); no MR needed. */
struct ibv_data_buf {
	void *addr;
	size_t length; /* bytes */
};

/** An array of file descriptors, for providers. */
struct ibv_fd_arr {
	int *arr;
	uint32_t count;
};

/**
 * What a send WR does. In brackets the QP types that a usrdma device takes it on; XRC_SEND takes
 * what RC does, but for FLUSH and ATOMIC_WRITE; on others ibv_post_send() answers EINVAL. Source:
 * IBA 1.x §10.8.3, §11.4.1.1, IBA A19.
 */
enum ibv_wr_opcode {
	IBV_WR_RDMA_WRITE,	     /* [RC UC] write to the peer's memory, unseen by it */
	IBV_WR_RDMA_WRITE_WITH_IMM,  /* [RC UC] … and complete one of its receives */
	IBV_WR_SEND,		     /* [RC UC] message into the peer's oldest receive WR */
	IBV_WR_SEND_WITH_IMM,	     /* [RC UC] … with 4 bytes in its completion */
	IBV_WR_RDMA_READ,	     /* [RC] read the peer's memory */
	IBV_WR_ATOMIC_CMP_AND_SWP,   /* [RC] 8 bytes; the original value comes back */
	IBV_WR_ATOMIC_FETCH_AND_ADD, /* [RC] 8 bytes; the original value comes back */
	IBV_WR_LOCAL_INV,	     /* [RC] take an rkey of ours out of use */
	IBV_WR_BIND_MW,		     /* [RC UC] bind a type 2 memory window */
	IBV_WR_SEND_WITH_INV,	     /* [RC] SEND, and take an rkey of the peer's out of use */
	IBV_WR_TSO,		     /* [] one large frame, cut by the device */
	IBV_WR_DRIVER1,		     /* [] a provider's own */
	/* [RC] make earlier WRITEs visible, or persistent: ibv_wr_flush() alone */
	IBV_WR_FLUSH = 14,
	IBV_WR_ATOMIC_WRITE = 15, /* [RC] 8 bytes, seen whole or not at all */
};

/**
 * Flags of a send WR. Unless IBV_SEND_SIGNALED is set, or the QP has sq_sig_all, a WR that
 * succeeds makes no completion; a WR that fails always makes one.
 */
enum ibv_send_flags {
	IBV_SEND_FENCE = 1 << 0,     /* wait for earlier READs, atomics, FLUSHes. RC */
	IBV_SEND_SIGNALED = 1 << 1,  /* completion also on success */
	IBV_SEND_SOLICITED = 1 << 2, /* wake a peer that asked for solicited events */
	/* data is copied by the call: buffers are free at once, no lkey */
	IBV_SEND_INLINE = 1 << 3,
	IBV_SEND_IP_CSUM = 1 << 4, /* for raw packets; ignored */
};

/** How far a FLUSH has to bring data. */
enum ibv_placement_type {
	IBV_FLUSH_GLOBAL = 1U << 0,	/* where all can see it */
	IBV_FLUSH_PERSISTENT = 1U << 1, /* where it survives power loss */
};

/** What a FLUSH covers. */
enum ibv_selectivity_level {
	IBV_FLUSH_RANGE = 0, /* the address range */
	IBV_FLUSH_MR,	     /* the whole region */
};

/**
 * A send work request, for ibv_post_send(). It is copied by the call, SGE array included; only the
 * memory that the SGEs name stays in use until the WR completes. An unsignaled WR has completed
 * when a later WR of the same queue has.
 */
struct ibv_send_wr {
	uint64_t wr_id;		  /* yours; comes back in the completion */
	struct ibv_send_wr *next; /* NULL: last of the list */
	struct ibv_sge *sg_list;  /* may be NULL if num_sge is 0 */
	int num_sge;		  /* 0 is a message without bytes */
	enum ibv_wr_opcode opcode;
	unsigned int send_flags; /* enum ibv_send_flags */
	union {
		__be32 imm_data;	  /* *_WITH_IMM: as on the wire */
		uint32_t invalidate_rkey; /* LOCAL_INV, SEND_WITH_INV */
	};
	union {
		struct {
			uint64_t remote_addr;
			uint32_t rkey;
		} rdma;
		struct {
			uint64_t remote_addr;
			uint64_t compare_add; /* value to compare with, or to add */
			uint64_t swap;
			uint32_t rkey;
		} atomic;
		struct {
			struct ibv_ah *ah;    /* of the QP's PD */
			uint32_t remote_qpn;  /* 0xffffff: a multicast group */
			uint32_t remote_qkey; /* with its high bit set the QP's own Q_Key is sent */
		} ud;
	} wr;
	union {
		struct {
			uint32_t remote_srqn;
		} xrc;
	} qp_type;
	union {
		struct {
			struct ibv_mw *mw;
			uint32_t rkey;
			struct ibv_mw_bind_info bind_info;
		} bind_mw;
		struct {
			void *hdr;
			uint16_t hdr_sz;
			uint16_t mss;
		} tso;
	};
};

/**
 * A receive work request, for ibv_post_recv() and ibv_post_srq_recv(): copied by the call. On UD
 * the first 40 bytes are for the GRH; a message that is longer than the rest is dropped and the
 * receive stays, but for one of an SRQ, which completes with IBV_WC_LOC_LEN_ERR.
 */
struct ibv_recv_wr {
	uint64_t wr_id;		  /* yours; comes back in the completion */
	struct ibv_recv_wr *next; /* NULL: last of the list */
	struct ibv_sge *sg_list;  /* may be NULL if num_sge is 0 */
	int num_sge;
};

/** Operations on the tag list of an SRQ. */
enum ibv_ops_wr_opcode {
	IBV_WR_TAG_ADD,
	IBV_WR_TAG_DEL,
	IBV_WR_TAG_SYNC,
};

/** Flags of ibv_ops_wr. */
enum ibv_ops_flags {
	IBV_OPS_SIGNALED = 1 << 0,
	IBV_OPS_TM_SYNC = 1 << 1,
};

/** An operation on a tag matching SRQ, for ibv_post_srq_ops(). Not offered by usrdma. */
struct ibv_ops_wr {
	uint64_t wr_id;
	struct ibv_ops_wr *next;
	enum ibv_ops_wr_opcode opcode;
	int flags; /* enum ibv_ops_flags */
	struct {
		uint32_t unexpected_cnt; /* unexpected messages the application has seen */
		uint32_t handle;	 /* of the tag; set by ADD, used by DEL */
		struct {
			uint64_t recv_wr_id;
			struct ibv_sge *sg_list;
			int num_sge;
			uint64_t tag;
			uint64_t mask;
		} add;
	} tm;
};

/* ---- Work completions ---- */

/**
 * How a work request ended. After any status but SUCCESS the QP is in ERR (a UC or UD QP whose send
 * failed: in SQE), its unfinished WRs follow as WR_FLUSH_ERR, in order, and of the completion only
 * wr_id, status, qp_num and vendor_err count; vendor_err says which check failed. LOC: found here;
 * REM: the peer found it. Nothing befalls a UD QP whose receive from an SRQ is too short.
 * Source: IBA 1.x §11.6.2.
 */
enum ibv_wc_status {
	IBV_WC_SUCCESS,		  /* done */
	IBV_WC_LOC_LEN_ERR,	  /* send over max_msg_sz (UD: the MTU); message over the receive */
	IBV_WC_LOC_QP_OP_ERR,	  /* WR that the QP cannot carry out; an AH of another PD */
	IBV_WC_LOC_EEC_OP_ERR,	  /* not used: EE contexts */
	IBV_WC_LOC_PROT_ERR,	  /* an SGE is not inside an MR of this PD, or lacks LOCAL_WRITE */
	IBV_WC_WR_FLUSH_ERR,	  /* not carried out: the QP was in ERR, or went there */
	IBV_WC_MW_BIND_ERR,	  /* bind or invalidation not permitted */
	IBV_WC_BAD_RESP_ERR,	  /* the peer's answer makes no sense */
	IBV_WC_LOC_ACCESS_ERR,	  /* receive hit by a WRITE that broke off */
	IBV_WC_REM_INV_REQ_ERR,	  /* the peer cannot do this: receive too short, bad alignment */
	IBV_WC_REM_ACCESS_ERR,	  /* rkey, bounds or rights of the peer's memory */
	IBV_WC_REM_OP_ERR,	  /* the peer failed by itself, as when its receive WR is bad */
	IBV_WC_RETRY_EXC_ERR,	  /* no answer, retry_cnt times; the peer is gone or not ready */
	IBV_WC_RNR_RETRY_EXC_ERR, /* no receive posted at the peer, rnr_retry times */
	IBV_WC_LOC_RDD_VIOL_ERR,  /* not used: reliable datagrams */
	IBV_WC_REM_INV_RD_REQ_ERR, /* not used: reliable datagrams */
	IBV_WC_REM_ABORT_ERR,	   /* the peer aborted */
	IBV_WC_INV_EECN_ERR,	   /* not used: EE contexts */
	IBV_WC_INV_EEC_STATE_ERR,  /* not used: EE contexts */
	IBV_WC_FATAL_ERR,	   /* the device failed */
	IBV_WC_RESP_TIMEOUT_ERR,   /* the response took too long */
	IBV_WC_GENERAL_ERR,	   /* anything else */
	IBV_WC_TM_ERR,		   /* not used: tag matching */
	IBV_WC_TM_RNDV_INCOMPLETE, /* not used: tag matching */
};

/** What completed. Valid on success; opcode & IBV_WC_RECV is true for receives. */
enum ibv_wc_opcode {
	IBV_WC_SEND,	   /* every kind of SEND */
	IBV_WC_RDMA_WRITE, /* with or without immediate */
	IBV_WC_RDMA_READ,
	IBV_WC_COMP_SWAP,
	IBV_WC_FETCH_ADD,
	IBV_WC_BIND_MW,
	IBV_WC_LOCAL_INV,
	IBV_WC_TSO,
	IBV_WC_FLUSH,
	IBV_WC_ATOMIC_WRITE = 9,
	IBV_WC_RECV = 1 << 7,
	IBV_WC_RECV_RDMA_WITH_IMM, /* a WRITE_WITH_IMM of the peer took a receive */
	IBV_WC_TM_ADD,
	IBV_WC_TM_DEL,
	IBV_WC_TM_SYNC,
	IBV_WC_TM_RECV,
	IBV_WC_TM_NO_TAG,
	IBV_WC_DRIVER1,
	IBV_WC_DRIVER2,
	IBV_WC_DRIVER3,
};

/** Bit number of IBV_WC_IP_CSUM_OK. */
enum {
	IBV_WC_IP_CSUM_OK_SHIFT = 2,
};

/** What else a completion carries. */
enum ibv_wc_flags {
	IBV_WC_GRH = 1 << 0,				  /* UD: the first 40 bytes are a GRH */
	IBV_WC_WITH_IMM = 1 << 1,			  /* imm_data is set */
	IBV_WC_IP_CSUM_OK = 1 << IBV_WC_IP_CSUM_OK_SHIFT, /* raw packets */
	IBV_WC_WITH_INV = 1 << 3,			  /* invalidated_rkey is set */
	IBV_WC_TM_SYNC_REQ = 1 << 4,			  /* tag matching */
	IBV_WC_TM_MATCH = 1 << 5,			  /* tag matching */
	IBV_WC_TM_DATA_VALID = 1 << 6,			  /* tag matching */
};

/**
 * A work completion, filled by ibv_poll_cq(). 48 bytes. Source: ibv_poll_cq(3), IBA 1.x §11.4.2.1.
 */
struct ibv_wc {
	uint64_t wr_id; /* of the WR */
	enum ibv_wc_status status;
	enum ibv_wc_opcode opcode; /* on success */
	uint32_t vendor_err;	   /* which check failed; 0 on success */
	uint32_t byte_len;	   /* received, or read; for atomics 8 */
	union {
		__be32 imm_data;	   /* IBV_WC_WITH_IMM: as on the wire */
		uint32_t invalidated_rkey; /* IBV_WC_WITH_INV */
	};
	uint32_t qp_num;	/* the local QP */
	uint32_t src_qp;	/* the peer's, on UD */
	unsigned int wc_flags;	/* enum ibv_wc_flags */
	uint16_t pkey_index;	/* of GSI QPs */
	uint16_t slid;		/* not on RoCE */
	uint8_t sl;		/* UD */
	uint8_t dlid_path_bits; /* not on RoCE */
};

/* ---- Completion queues ---- */

/**
 * Completion channel: a file descriptor that is readable while completion events wait. It may be
 * polled, put into O_NONBLOCK and inherited, but read by ibv_get_cq_event() only. Made by
 * ibv_create_comp_channel(), dies in ibv_destroy_comp_channel().
 */
struct ibv_comp_channel {
	struct ibv_context *context;
	int fd;	    /* owned by the channel */
	int refcnt; /* CQs on it */
};

/**
 * Completion queue. Made by ibv_create_cq() or ibv_create_cq_ex(), dies in ibv_destroy_cq().
 * Members are for reading; those from mutex on count events for ibv_destroy_cq() and are the
 * library's own.
 * Source: IBA 1.x §10.2.8.
 */
struct ibv_cq {
	struct ibv_context *context;
	struct ibv_comp_channel *channel; /* NULL: no completion events */
	void *cq_context;		  /* yours */
	uint32_t handle;
	int cqe; /* capacity in completions, at least what was asked for */

	pthread_mutex_t mutex;
	pthread_cond_t cond;
	uint32_t comp_events_completed;
	uint32_t async_events_completed;
};

/**
 * What the completions of an ibv_cq_ex can be asked for. A flag that the device cannot serve makes
 * ibv_create_cq_ex() fail with EOPNOTSUPP: on usrdma CVLAN, FLOW_TAG and TM_INFO.
 */
enum ibv_create_cq_wc_flags {
	IBV_WC_EX_WITH_BYTE_LEN = 1 << 0,
	IBV_WC_EX_WITH_IMM = 1 << 1,
	IBV_WC_EX_WITH_QP_NUM = 1 << 2,
	IBV_WC_EX_WITH_SRC_QP = 1 << 3,
	IBV_WC_EX_WITH_SLID = 1 << 4,
	IBV_WC_EX_WITH_SL = 1 << 5,
	IBV_WC_EX_WITH_DLID_PATH_BITS = 1 << 6,
	IBV_WC_EX_WITH_COMPLETION_TIMESTAMP = 1 << 7,
	IBV_WC_EX_WITH_CVLAN = 1 << 8,
	IBV_WC_EX_WITH_FLOW_TAG = 1 << 9,
	IBV_WC_EX_WITH_TM_INFO = 1 << 10,
	IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK = 1 << 11,
};

/** Masks of enum ibv_create_cq_wc_flags: what every device has, and all that there is. */
enum {
	IBV_WC_STANDARD_FLAGS = IBV_WC_EX_WITH_BYTE_LEN | IBV_WC_EX_WITH_IMM |
				IBV_WC_EX_WITH_QP_NUM | IBV_WC_EX_WITH_SRC_QP |
				IBV_WC_EX_WITH_SLID | IBV_WC_EX_WITH_SL |
				IBV_WC_EX_WITH_DLID_PATH_BITS,
	IBV_CREATE_CQ_SUP_WC_FLAGS = IBV_WC_STANDARD_FLAGS | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP |
				     IBV_WC_EX_WITH_CVLAN | IBV_WC_EX_WITH_FLOW_TAG |
				     IBV_WC_EX_WITH_TM_INFO |
				     IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK,
};

/** Which members of ibv_cq_init_attr_ex are filled in. */
enum ibv_cq_init_attr_mask {
	IBV_CQ_INIT_ATTR_MASK_FLAGS = 1 << 0,
	IBV_CQ_INIT_ATTR_MASK_PD = 1 << 1,
};

/** Properties of a new CQ. */
enum ibv_create_cq_attr_flags {
	IBV_CREATE_CQ_ATTR_SINGLE_THREADED = 1 << 0, /* one thread polls: no lock */
	IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN = 1 << 1,  /* when full, the oldest is lost */
};

/** What ibv_create_cq_ex() is to make. */
struct ibv_cq_init_attr_ex {
	uint32_t cqe;			  /* completions it has to hold, 1 to max_cqe */
	void *cq_context;		  /* yours */
	struct ibv_comp_channel *channel; /* may be NULL */
	uint32_t comp_vector;		  /* below num_comp_vectors */
	uint64_t wc_flags;		  /* enum ibv_create_cq_wc_flags */
	uint32_t comp_mask;		  /* enum ibv_cq_init_attr_mask */
	uint32_t flags;			  /* enum ibv_create_cq_attr_flags */
	struct ibv_pd *parent_domain;
};

/** What ibv_modify_cq() is to change. */
enum ibv_cq_attr_mask {
	IBV_CQ_ATTR_MODERATE = 1 << 0,
	IBV_CQ_ATTR_RESERVED = 1 << 1,
};

/** Completion event moderation: one event per so many completions, or after so long; both 0: at once. */
struct ibv_moderate_cq {
	uint16_t cq_count; /* 0: any number waits for cq_period */
	uint16_t cq_period; /* us from the first one that is waiting; 0: it waits for cq_count, for ever */
};

/** For ibv_modify_cq(). */
struct ibv_modify_cq_attr {
	uint32_t attr_mask; /* enum ibv_cq_attr_mask */
	struct ibv_moderate_cq moderate;
};

/** Reserved: comp_mask is 0. */
struct ibv_poll_cq_attr {
	uint32_t comp_mask;
};

/** What a tag matching completion tells, for ibv_wc_read_tm_info(). */
struct ibv_wc_tm_info {
	uint64_t tag;  /* of the message */
	uint32_t priv; /* ibv_tmh.app_ctx */
};

/**
 * A CQ whose completions are read where they lie: ibv_start_poll(), then status, wr_id and the
 * ibv_wc_read_*() calls, ibv_next_poll() for each further one, ibv_end_poll(). Begins like struct
 * ibv_cq and is one (ibv_cq_ex_to_cq()). Compiled programs read status and wr_id, and call the
 * functions, at these offsets.
 */
struct ibv_cq_ex {
	struct ibv_context *context;
	struct ibv_comp_channel *channel;
	void *cq_context;
	uint32_t handle;
	int cqe;

	pthread_mutex_t mutex;
	pthread_cond_t cond;
	uint32_t comp_events_completed;
	uint32_t async_events_completed;

	uint32_t comp_mask;
	enum ibv_wc_status status; /* of the current completion */
	uint64_t wr_id;		   /* of the current completion */
	int (*start_poll)(struct ibv_cq_ex *current, struct ibv_poll_cq_attr *attr);
	int (*next_poll)(struct ibv_cq_ex *current);
	void (*end_poll)(struct ibv_cq_ex *current);
	enum ibv_wc_opcode (*read_opcode)(struct ibv_cq_ex *current);
	uint32_t (*read_vendor_err)(struct ibv_cq_ex *current);
	uint32_t (*read_byte_len)(struct ibv_cq_ex *current);
	__be32 (*read_imm_data)(struct ibv_cq_ex *current);
	uint32_t (*read_qp_num)(struct ibv_cq_ex *current);
	uint32_t (*read_src_qp)(struct ibv_cq_ex *current);
	unsigned int (*read_wc_flags)(struct ibv_cq_ex *current);
	uint32_t (*read_slid)(struct ibv_cq_ex *current);
	uint8_t (*read_sl)(struct ibv_cq_ex *current);
	uint8_t (*read_dlid_path_bits)(struct ibv_cq_ex *current);
	uint64_t (*read_completion_ts)(struct ibv_cq_ex *current);
	uint16_t (*read_cvlan)(struct ibv_cq_ex *current);
	uint32_t (*read_flow_tag)(struct ibv_cq_ex *current);
	void (*read_tm_info)(struct ibv_cq_ex *current, struct ibv_wc_tm_info *tm_info);
	uint64_t (*read_completion_wallclock_ns)(struct ibv_cq_ex *current);
};

/* ---- Shared receive queues ---- */

/** Kinds of SRQ. usrdma has BASIC and XRC. */
enum ibv_srq_type {
	IBV_SRQT_BASIC,
	IBV_SRQT_XRC,
	IBV_SRQT_TM,
};

/** What ibv_modify_srq() is to change. */
enum ibv_srq_attr_mask {
	IBV_SRQ_MAX_WR = 1 << 0, /* max_wr: resize */
	IBV_SRQ_LIMIT = 1 << 1,	 /* srq_limit: arm the limit event */
};

/** Attributes of an SRQ. */
struct ibv_srq_attr {
	uint32_t max_wr;    /* WRs it can hold */
	uint32_t max_sge;   /* SGEs of a WR */
	uint32_t srq_limit; /* event when fewer WRs wait; 0: not armed */
};

/**
 * What ibv_create_srq() is to make. max_wr and max_sge come back as what they became, not less;
 * srq_limit is not looked at.
 */
struct ibv_srq_init_attr {
	void *srq_context; /* yours */
	struct ibv_srq_attr attr;
};

/** Which members of ibv_srq_init_attr_ex are filled in. */
enum ibv_srq_init_attr_mask {
	IBV_SRQ_INIT_ATTR_TYPE = 1 << 0,
	IBV_SRQ_INIT_ATTR_PD = 1 << 1,
	IBV_SRQ_INIT_ATTR_XRCD = 1 << 2,
	IBV_SRQ_INIT_ATTR_CQ = 1 << 3,
	IBV_SRQ_INIT_ATTR_TM = 1 << 4,
	IBV_SRQ_INIT_ATTR_RESERVED = 1 << 5,
};

/** Size of a tag matching SRQ. */
struct ibv_tm_cap {
	uint32_t max_num_tags;
	uint32_t max_ops;
};

/** What ibv_create_srq_ex() is to make; begins like struct ibv_srq_init_attr. */
struct ibv_srq_init_attr_ex {
	void *srq_context;
	struct ibv_srq_attr attr;

	uint32_t comp_mask; /* enum ibv_srq_init_attr_mask */
	enum ibv_srq_type srq_type;
	struct ibv_pd *pd;
	struct ibv_xrcd *xrcd; /* XRC */
	struct ibv_cq *cq;     /* XRC, TM */
	struct ibv_tm_cap tm_cap;
};

/**
 * Shared receive queue: receive WRs for many QPs, taken in order by whoever needs one. Made by
 * ibv_create_srq(), dies in ibv_destroy_srq(). Members from mutex on are the library's own.
 * Source: IBA 1.x §10.2.9.
 */
struct ibv_srq {
	struct ibv_context *context;
	void *srq_context; /* yours */
	struct ibv_pd *pd;
	uint32_t handle;

	pthread_mutex_t mutex;
	pthread_cond_t cond;
	uint32_t events_completed;
};

/* ---- Work queues and indirection tables ---- */

/** Kinds of WQ. */
enum ibv_wq_type {
	IBV_WQT_RQ,
};

/** Which members of ibv_wq_init_attr are filled in. */
enum ibv_wq_init_attr_mask {
	IBV_WQ_INIT_ATTR_FLAGS = 1 << 0,
	IBV_WQ_INIT_ATTR_RESERVED = 1 << 1,
};

/** Properties of a WQ. */
enum ibv_wq_flags {
	IBV_WQ_FLAGS_CVLAN_STRIPPING = 1 << 0,
	IBV_WQ_FLAGS_SCATTER_FCS = 1 << 1,
	IBV_WQ_FLAGS_DELAY_DROP = 1 << 2,
	IBV_WQ_FLAGS_PCI_WRITE_END_PADDING = 1 << 3,
	IBV_WQ_FLAGS_RESERVED = 1 << 4,
};

/** What ibv_create_wq() is to make. */
struct ibv_wq_init_attr {
	void *wq_context;
	enum ibv_wq_type wq_type;
	uint32_t max_wr;
	uint32_t max_sge;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	uint32_t comp_mask;    /* enum ibv_wq_init_attr_mask */
	uint32_t create_flags; /* enum ibv_wq_flags */
};

/** States of a WQ. */
enum ibv_wq_state {
	IBV_WQS_RESET,
	IBV_WQS_RDY,
	IBV_WQS_ERR,
	IBV_WQS_UNKNOWN,
};

/** What ibv_modify_wq() is to change. */
enum ibv_wq_attr_mask {
	IBV_WQ_ATTR_STATE = 1 << 0,
	IBV_WQ_ATTR_CURR_STATE = 1 << 1,
	IBV_WQ_ATTR_FLAGS = 1 << 2,
	IBV_WQ_ATTR_RESERVED = 1 << 3,
};

/** For ibv_modify_wq(). */
struct ibv_wq_attr {
	uint32_t attr_mask; /* enum ibv_wq_attr_mask */
	enum ibv_wq_state wq_state;
	enum ibv_wq_state curr_wq_state; /* the caller believes that it is in */
	uint32_t flags;			 /* enum ibv_wq_flags */
	uint32_t flags_mask;		 /* which of them count */
};

/**
 * A receive queue that is not part of a QP, the target of receive side scaling. Not offered by
 * usrdma.
 */
struct ibv_wq {
	struct ibv_context *context;
	void *wq_context;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	uint32_t wq_num;
	uint32_t handle;
	enum ibv_wq_state state;
	enum ibv_wq_type wq_type;
	int (*post_recv)(struct ibv_wq *current, struct ibv_recv_wr *recv_wr,
			 struct ibv_recv_wr **bad_recv_wr);

	pthread_mutex_t mutex;
	pthread_cond_t cond;
	uint32_t events_completed;
	uint32_t comp_mask;
};

/** Reserved. */
enum ibv_ind_table_init_attr_mask {
	IBV_CREATE_IND_TABLE_RESERVED = 1 << 0,
};

/** What ibv_create_rwq_ind_table() is to make: 2^log_ind_tbl_size WQs. */
struct ibv_rwq_ind_table_init_attr {
	uint32_t log_ind_tbl_size;
	struct ibv_wq **ind_tbl;
	uint32_t comp_mask;
};

/** Indirection table: which WQ a hash value leads to. Not offered by usrdma. */
struct ibv_rwq_ind_table {
	struct ibv_context *context;
	int ind_tbl_handle;
	int ind_tbl_num;
	uint32_t comp_mask;
};

/* ---- Queue pairs ---- */

/**
 * Transport services. usrdma offers RC, UC, UD and both halves of XRC. Source: IBA 1.x §9.2, §10.2.4,
 * IBA A14.
 */
enum ibv_qp_type {
	IBV_QPT_RC = 2,		/* reliable connection */
	IBV_QPT_UC = 3,		/* unreliable connection */
	IBV_QPT_UD = 4,		/* unreliable datagram */
	IBV_QPT_RAW_PACKET = 8, /* Ethernet frames */
	IBV_QPT_XRC_SEND = 9,	/* extended reliable connection, initiator */
	IBV_QPT_XRC_RECV = 10,	/* … target */
	IBV_QPT_DRIVER = 0xff,	/* a provider's own */
};

/**
 * Size of a QP's queues: asked for in ibv_create_qp(), answered with what they became, never less.
 * Depth costs no memory until it is used.
 */
struct ibv_qp_cap {
	uint32_t max_send_wr;
	uint32_t max_recv_wr;	  /* 0 with an SRQ */
	uint32_t max_send_sge;	  /* SGEs of a send WR */
	uint32_t max_recv_sge;	  /* SGEs of a receive WR */
	uint32_t max_inline_data; /* bytes with IBV_SEND_INLINE */
};

/** What ibv_create_qp() is to make. */
struct ibv_qp_init_attr {
	void *qp_context; /* yours */
	struct ibv_cq *send_cq;
	struct ibv_cq *recv_cq; /* may be send_cq */
	struct ibv_srq *srq;	/* NULL: a receive queue of its own */
	struct ibv_qp_cap cap;	/* in and out */
	enum ibv_qp_type qp_type;
	int sq_sig_all; /* 1: every send WR is signaled */
};

/** Which members of ibv_qp_init_attr_ex are filled in. PD is required but for XRC_RECV. */
enum ibv_qp_init_attr_mask {
	IBV_QP_INIT_ATTR_PD = 1 << 0,
	IBV_QP_INIT_ATTR_XRCD = 1 << 1,
	IBV_QP_INIT_ATTR_CREATE_FLAGS = 1 << 2,
	IBV_QP_INIT_ATTR_MAX_TSO_HEADER = 1 << 3,
	IBV_QP_INIT_ATTR_IND_TABLE = 1 << 4,
	IBV_QP_INIT_ATTR_RX_HASH = 1 << 5,
	IBV_QP_INIT_ATTR_SEND_OPS_FLAGS = 1 << 6,
};

/** Properties of a new QP. usrdma has the first, for UD. */
enum ibv_qp_create_flags {
	IBV_QP_CREATE_BLOCK_SELF_MCAST_LB = 1 << 1, /* hears no multicast that it sent itself */
	IBV_QP_CREATE_SCATTER_FCS = 1 << 8,
	IBV_QP_CREATE_CVLAN_STRIPPING = 1 << 9,
	IBV_QP_CREATE_SOURCE_QPN = 1 << 10,
	IBV_QP_CREATE_PCI_WRITE_END_PADDING = 1 << 11,
};

/**
 * Which ibv_wr_*() calls will be used on a QP made by ibv_create_qp_ex(): the others may not be
 * called. A bit for an opcode that the QP type lacks (enum ibv_wr_opcode) is answered with
 * EOPNOTSUPP.
 */
enum ibv_qp_create_send_ops_flags {
	IBV_QP_EX_WITH_RDMA_WRITE = 1 << 0,
	IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM = 1 << 1,
	IBV_QP_EX_WITH_SEND = 1 << 2,
	IBV_QP_EX_WITH_SEND_WITH_IMM = 1 << 3,
	IBV_QP_EX_WITH_RDMA_READ = 1 << 4,
	IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP = 1 << 5,
	IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD = 1 << 6,
	IBV_QP_EX_WITH_LOCAL_INV = 1 << 7,
	IBV_QP_EX_WITH_BIND_MW = 1 << 8,
	IBV_QP_EX_WITH_SEND_WITH_INV = 1 << 9,
	IBV_QP_EX_WITH_TSO = 1 << 10,
	IBV_QP_EX_WITH_FLUSH = 1 << 11,
	IBV_QP_EX_WITH_ATOMIC_WRITE = 1 << 12,
};

/** Receive side scaling: function, key and fields. Not offered by usrdma. */
struct ibv_rx_hash_conf {
	uint8_t rx_hash_function; /* enum ibv_rx_hash_function_flags */
	uint8_t rx_hash_key_len;  /* bytes */
	uint8_t *rx_hash_key;
	uint64_t rx_hash_fields_mask; /* enum ibv_rx_hash_fields */
};

/** What ibv_create_qp_ex() is to make; begins like struct ibv_qp_init_attr. */
struct ibv_qp_init_attr_ex {
	void *qp_context;
	struct ibv_cq *send_cq;
	struct ibv_cq *recv_cq;
	struct ibv_srq *srq;
	struct ibv_qp_cap cap;
	enum ibv_qp_type qp_type;
	int sq_sig_all;

	uint32_t comp_mask; /* enum ibv_qp_init_attr_mask */
	struct ibv_pd *pd;
	struct ibv_xrcd *xrcd;
	uint32_t create_flags;	 /* enum ibv_qp_create_flags */
	uint16_t max_tso_header; /* bytes */
	struct ibv_rwq_ind_table *rwq_ind_tbl;
	struct ibv_rx_hash_conf rx_hash_conf;
	uint32_t source_qpn;	 /* with IBV_QP_CREATE_SOURCE_QPN */
	uint64_t send_ops_flags; /* enum ibv_qp_create_send_ops_flags */
};

/** Which members of ibv_qp_open_attr are filled in. */
enum ibv_qp_open_attr_mask {
	IBV_QP_OPEN_ATTR_NUM = 1 << 0,
	IBV_QP_OPEN_ATTR_XRCD = 1 << 1,
	IBV_QP_OPEN_ATTR_CONTEXT = 1 << 2,
	IBV_QP_OPEN_ATTR_TYPE = 1 << 3,
	IBV_QP_OPEN_ATTR_RESERVED = 1 << 4,
};

/** The XRC receive QP that ibv_open_qp() is to join. */
struct ibv_qp_open_attr {
	uint32_t comp_mask; /* enum ibv_qp_open_attr_mask */
	uint32_t qp_num;
	struct ibv_xrcd *xrcd;
	void *qp_context;
	enum ibv_qp_type qp_type;
};

/** Which members of ibv_qp_attr ibv_modify_qp() is to set, and ibv_query_qp() is asked for. */
enum ibv_qp_attr_mask {
	IBV_QP_STATE = 1 << 0,		     /* qp_state */
	IBV_QP_CUR_STATE = 1 << 1,	     /* cur_qp_state: believed to be the state now */
	IBV_QP_EN_SQD_ASYNC_NOTIFY = 1 << 2, /* en_sqd_async_notify */
	IBV_QP_ACCESS_FLAGS = 1 << 3,	     /* qp_access_flags */
	IBV_QP_PKEY_INDEX = 1 << 4,	     /* pkey_index */
	IBV_QP_PORT = 1 << 5,		     /* port_num */
	IBV_QP_QKEY = 1 << 6,		     /* qkey */
	IBV_QP_AV = 1 << 7,		     /* ah_attr */
	IBV_QP_PATH_MTU = 1 << 8,	     /* path_mtu */
	IBV_QP_TIMEOUT = 1 << 9,	     /* timeout */
	IBV_QP_RETRY_CNT = 1 << 10,	     /* retry_cnt */
	IBV_QP_RNR_RETRY = 1 << 11,	     /* rnr_retry */
	IBV_QP_RQ_PSN = 1 << 12,	     /* rq_psn */
	IBV_QP_MAX_QP_RD_ATOMIC = 1 << 13,   /* max_rd_atomic */
	/* alt_ah_attr, alt_pkey_index, alt_port_num, alt_timeout */
	IBV_QP_ALT_PATH = 1 << 14,
	IBV_QP_MIN_RNR_TIMER = 1 << 15,	     /* min_rnr_timer */
	IBV_QP_SQ_PSN = 1 << 16,	     /* sq_psn */
	IBV_QP_MAX_DEST_RD_ATOMIC = 1 << 17, /* max_dest_rd_atomic */
	IBV_QP_PATH_MIG_STATE = 1 << 18,     /* path_mig_state */
	IBV_QP_CAP = 1 << 19,		     /* cap */
	IBV_QP_DEST_QPN = 1 << 20,	     /* dest_qp_num */
	IBV_QP_RATE_LIMIT = 1 << 25,	     /* rate_limit */
};

/** States of a QP. Source: IBA 1.x §10.3.1. */
enum ibv_qp_state {
	IBV_QPS_RESET,	 /* new; nothing can be posted */
	IBV_QPS_INIT,	 /* receives can be posted */
	IBV_QPS_RTR,	 /* ready to receive: receives are carried out */
	IBV_QPS_RTS,	 /* ready to send: sends too */
	IBV_QPS_SQD,	 /* send queue drained: new sends wait */
	IBV_QPS_SQE,	 /* send queue error, of UC and UD: sends are flushed, receives go on */
	IBV_QPS_ERR,	 /* everything is flushed */
	IBV_QPS_UNKNOWN, /* not a state */
};

/** Where a QP stands with its alternate path. Always MIGRATED on usrdma, which has one path. */
enum ibv_mig_state {
	IBV_MIG_MIGRATED,
	IBV_MIG_REARM,
	IBV_MIG_ARMED,
};

/**
 * Attributes of a QP, for ibv_modify_qp() and ibv_query_qp(). Which of them a transition needs,
 * and which it permits, is the table at ibv_modify_qp().
 */
struct ibv_qp_attr {
	enum ibv_qp_state qp_state;
	enum ibv_qp_state cur_qp_state;
	enum ibv_mtu path_mtu; /* RC, UC: not more than the port's active_mtu */
	enum ibv_mig_state path_mig_state;
	uint32_t qkey;	      /* UD */
	uint32_t rq_psn;      /* 24 bits, others are ignored: first PSN from the peer. RC, UC */
	uint32_t sq_psn;      /* 24 bits, others are ignored: first PSN to the peer */
	uint32_t dest_qp_num; /* 24 bits: the peer's QPN. RC, UC */
	/* what the peer may do; REMOTE bits of ibv_access_flags */
	unsigned int qp_access_flags;
	struct ibv_qp_cap cap;
	struct ibv_ah_attr ah_attr; /* path to the peer. RC, UC */
	struct ibv_ah_attr alt_ah_attr;
	uint16_t pkey_index;
	uint16_t alt_pkey_index;
	uint8_t en_sqd_async_notify; /* 1: IBV_EVENT_SQ_DRAINED when drained */
	uint8_t sq_draining;	     /* query: 1 while draining */
	uint8_t max_rd_atomic;	     /* READs and atomics under way at once; 0 is as 1. RC */
	uint8_t max_dest_rd_atomic;  /* READs and atomics served at once; 0 is as 1. RC */
	uint8_t min_rnr_timer;	     /* 0 to 31, how long the peer waits after an RNR NAK. RC */
	uint8_t port_num;	     /* from 1 */
	uint8_t timeout;	     /* 0 to 31: wait 4.096 us * 2^n for an ACK, 0: for ever. RC */
	uint8_t retry_cnt;	     /* 0 to 7. RC */
	uint8_t rnr_retry;	     /* 0 to 6, 7: for ever. RC */
	uint8_t alt_port_num;
	uint8_t alt_timeout;
	uint32_t rate_limit; /* kbit/s, 0: none */
};

/** How ibv_query_qp_data_in_order() is to answer. */
enum ibv_query_qp_data_in_order_flags {
	IBV_QUERY_QP_DATA_IN_ORDER_RETURN_CAPS = 1 << 0, /* a mask of _caps, not 0 or 1 */
	/* what the device does, not the CPU */
	IBV_QUERY_QP_DATA_IN_ORDER_DEVICE_ONLY = 1 << 1,
};

/** Promises of ibv_query_qp_data_in_order(). */
enum ibv_query_qp_data_in_order_caps {
	IBV_QUERY_QP_DATA_IN_ORDER_WHOLE_MSG = 1 << 0, /* first byte first, over the message */
	IBV_QUERY_QP_DATA_IN_ORDER_ALIGNED_128_BYTES = 1 << 1, /* within each aligned block */
};

/** For ibv_modify_qp_rate_limit(). Not offered by usrdma. */
struct ibv_qp_rate_limit_attr {
	uint32_t rate_limit;	 /* kbit/s */
	uint32_t max_burst_sz;	 /* bytes */
	uint16_t typical_pkt_sz; /* bytes */
	uint32_t comp_mask;	 /* reserved, 0 */
};

/**
 * Enhanced connection establishment: options between devices of one vendor. usrdma has none.
 */
struct ibv_ece {
	uint32_t vendor_id; /* IEEE OUI; 0: none */
	uint32_t options;
	uint32_t comp_mask; /* reserved, 0 */
};

/**
 * Queue pair. Made by ibv_create_qp() or ibv_create_qp_ex(), dies in ibv_destroy_qp(). Members are
 * for reading; those from mutex on are the library's own. Source: IBA 1.x §10.2.4.
 */
struct ibv_qp {
	struct ibv_context *context;
	void *qp_context;
	struct ibv_pd *pd;
	struct ibv_cq *send_cq;
	struct ibv_cq *recv_cq;
	struct ibv_srq *srq;
	uint32_t handle;
	uint32_t qp_num; /* 24 bits */
	/* as of the last modify or query, not what happened since */
	enum ibv_qp_state state;
	enum ibv_qp_type qp_type;

	pthread_mutex_t mutex;
	pthread_cond_t cond;
	uint32_t events_completed;
};

/**
 * A QP on which work requests are built by calls: ibv_wr_start(), for each WR wr_id and wr_flags,
 * one operation and its setters, then ibv_wr_complete(). Got from ibv_qp_to_qp_ex(). Begins with
 * struct ibv_qp. Compiled programs set wr_id and wr_flags, and call the functions, at these
 * offsets.
 */
struct ibv_qp_ex {
	struct ibv_qp qp_base;
	uint64_t comp_mask; /* reserved */

	uint64_t wr_id;	       /* of the next WR; set before its operation */
	unsigned int wr_flags; /* enum ibv_send_flags of the next WR */

	void (*wr_atomic_cmp_swp)(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t remote_addr,
				  uint64_t compare, uint64_t swap);
	void (*wr_atomic_fetch_add)(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t remote_addr,
				    uint64_t add);
	void (*wr_bind_mw)(struct ibv_qp_ex *qp, struct ibv_mw *mw, uint32_t rkey,
			   const struct ibv_mw_bind_info *bind_info);
	void (*wr_local_inv)(struct ibv_qp_ex *qp, uint32_t invalidate_rkey);
	void (*wr_rdma_read)(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t remote_addr);
	void (*wr_rdma_write)(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t remote_addr);
	void (*wr_rdma_write_imm)(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t remote_addr,
				  __be32 imm_data);
	void (*wr_send)(struct ibv_qp_ex *qp);
	void (*wr_send_imm)(struct ibv_qp_ex *qp, __be32 imm_data);
	void (*wr_send_inv)(struct ibv_qp_ex *qp, uint32_t invalidate_rkey);
	void (*wr_send_tso)(struct ibv_qp_ex *qp, void *hdr, uint16_t hdr_sz, uint16_t mss);
	void (*wr_set_ud_addr)(struct ibv_qp_ex *qp, struct ibv_ah *ah, uint32_t remote_qpn,
			       uint32_t remote_qkey);
	void (*wr_set_xrc_srqn)(struct ibv_qp_ex *qp, uint32_t remote_srqn);
	void (*wr_set_inline_data)(struct ibv_qp_ex *qp, void *addr, size_t length);
	void (*wr_set_inline_data_list)(struct ibv_qp_ex *qp, size_t num_buf,
					const struct ibv_data_buf *buf_list);
	void (*wr_set_sge)(struct ibv_qp_ex *qp, uint32_t lkey, uint64_t addr, uint32_t length);
	void (*wr_set_sge_list)(struct ibv_qp_ex *qp, size_t num_sge,
				const struct ibv_sge *sg_list);
	void (*wr_start)(struct ibv_qp_ex *qp);
	int (*wr_complete)(struct ibv_qp_ex *qp);
	void (*wr_abort)(struct ibv_qp_ex *qp);
	void (*wr_atomic_write)(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t remote_addr,
				const void *atomic_wr);
	/* Since v45. */
	void (*wr_flush)(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t remote_addr, size_t len,
			 uint8_t type, uint8_t level);
};

/* ---- Flow steering ---- */

/**
 * Flags of a flow rule. All flow types serve ibv_create_flow(), which usrdma does not offer.
 */
enum ibv_flow_flags {
	IBV_FLOW_ATTR_FLAGS_DONT_TRAP = 1 << 1,
	IBV_FLOW_ATTR_FLAGS_EGRESS = 1 << 2,
};

/** Kinds of flow rule. */
enum ibv_flow_attr_type {
	IBV_FLOW_ATTR_NORMAL = 0,      /* packets that match the specs */
	IBV_FLOW_ATTR_ALL_DEFAULT = 1, /* all that no other rule takes */
	IBV_FLOW_ATTR_MC_DEFAULT = 2,  /* multicast that no other rule takes */
	IBV_FLOW_ATTR_SNIFFER = 3,     /* a copy of everything */
};

/**
 * Which ibv_flow_spec_* a spec is. IBV_FLOW_SPEC_INNER is a bit: the encapsulated packet's header.
 */
enum ibv_flow_spec_type {
	IBV_FLOW_SPEC_ETH = 0x20,
	IBV_FLOW_SPEC_IPV4 = 0x30,
	IBV_FLOW_SPEC_IPV6 = 0x31,
	IBV_FLOW_SPEC_IPV4_EXT = 0x32,
	IBV_FLOW_SPEC_ESP = 0x34,
	IBV_FLOW_SPEC_TCP = 0x40,
	IBV_FLOW_SPEC_UDP = 0x41,
	IBV_FLOW_SPEC_VXLAN_TUNNEL = 0x50,
	IBV_FLOW_SPEC_GRE = 0x51,
	IBV_FLOW_SPEC_MPLS = 0x60,
	IBV_FLOW_SPEC_INNER = 0x100,
	IBV_FLOW_SPEC_ACTION_TAG = 0x1000,
	IBV_FLOW_SPEC_ACTION_DROP = 0x1001,
	IBV_FLOW_SPEC_ACTION_HANDLE = 0x1002,
	IBV_FLOW_SPEC_ACTION_COUNT = 0x1003,
};

/** Ethernet header, big-endian; vlan_tag as in 802.1Q. */
struct ibv_flow_eth_filter {
	uint8_t dst_mac[ETHERNET_LL_SIZE];
	uint8_t src_mac[ETHERNET_LL_SIZE];
	uint16_t ether_type;
	uint16_t vlan_tag;
};

/**
 * Match on the Ethernet header: val where mask has ones. So for all specs with val and mask; size
 * is that of the spec in bytes.
 */
struct ibv_flow_spec_eth {
	enum ibv_flow_spec_type type;
	uint16_t size;
	struct ibv_flow_eth_filter val;
	struct ibv_flow_eth_filter mask;
};

/** IPv4 addresses, big-endian. */
struct ibv_flow_ipv4_filter {
	uint32_t src_ip;
	uint32_t dst_ip;
};

/** Match on IPv4 addresses. */
struct ibv_flow_spec_ipv4 {
	enum ibv_flow_spec_type type;
	uint16_t size;
	struct ibv_flow_ipv4_filter val;
	struct ibv_flow_ipv4_filter mask;
};

/** IPv4 header, big-endian. */
struct ibv_flow_ipv4_ext_filter {
	uint32_t src_ip;
	uint32_t dst_ip;
	uint8_t proto;
	uint8_t tos;
	uint8_t ttl;
	uint8_t flags;
};

/** Match on the IPv4 header. */
struct ibv_flow_spec_ipv4_ext {
	enum ibv_flow_spec_type type;
	uint16_t size;
	struct ibv_flow_ipv4_ext_filter val;
	struct ibv_flow_ipv4_ext_filter mask;
};

/** IPv6 header, big-endian. */
struct ibv_flow_ipv6_filter {
	uint8_t src_ip[16];
	uint8_t dst_ip[16];
	uint32_t flow_label;
	uint8_t next_hdr;
	uint8_t traffic_class;
	uint8_t hop_limit;
};

/** Match on the IPv6 header. */
struct ibv_flow_spec_ipv6 {
	enum ibv_flow_spec_type type;
	uint16_t size;
	struct ibv_flow_ipv6_filter val;
	struct ibv_flow_ipv6_filter mask;
};

/** ESP header, big-endian. */
struct ibv_flow_esp_filter {
	uint32_t spi;
	uint32_t seq;
};

/** Match on the ESP header. */
struct ibv_flow_spec_esp {
	enum ibv_flow_spec_type type;
	uint16_t size;
	struct ibv_flow_esp_filter val;
	struct ibv_flow_esp_filter mask;
};

/** Ports, big-endian. */
struct ibv_flow_tcp_udp_filter {
	uint16_t dst_port;
	uint16_t src_port;
};

/** Match on TCP or UDP ports. */
struct ibv_flow_spec_tcp_udp {
	enum ibv_flow_spec_type type;
	uint16_t size;
	struct ibv_flow_tcp_udp_filter val;
	struct ibv_flow_tcp_udp_filter mask;
};

/** GRE header, big-endian; RFC 2784, RFC 2890. */
struct ibv_flow_gre_filter {
	uint16_t c_ks_res0_ver; /* checksum, key and sequence bits; version */
	uint16_t protocol;
	uint32_t key;
};

/** Match on the GRE header. */
struct ibv_flow_spec_gre {
	enum ibv_flow_spec_type type;
	uint16_t size;
	struct ibv_flow_gre_filter val;
	struct ibv_flow_gre_filter mask;
};

/** MPLS label stack entry, big-endian; RFC 3032. */
struct ibv_flow_mpls_filter {
	uint32_t label;
};

/** Match on an MPLS label stack entry. */
struct ibv_flow_spec_mpls {
	enum ibv_flow_spec_type type;
	uint16_t size;
	struct ibv_flow_mpls_filter val;
	struct ibv_flow_mpls_filter mask;
};

/** Tunnel id (VXLAN's VNI), big-endian. */
struct ibv_flow_tunnel_filter {
	uint32_t tunnel_id;
};

/** Match on a tunnel id. */
struct ibv_flow_spec_tunnel {
	enum ibv_flow_spec_type type;
	uint16_t size;
	struct ibv_flow_tunnel_filter val;
	struct ibv_flow_tunnel_filter mask;
};

/** Action: tag the completion (ibv_wc_read_flow_tag()). */
struct ibv_flow_spec_action_tag {
	enum ibv_flow_spec_type type;
	uint16_t size;
	uint32_t tag_id;
};

/** Action: drop. */
struct ibv_flow_spec_action_drop {
	enum ibv_flow_spec_type type;
	uint16_t size;
};

/** An action made by ibv_create_flow_action_esp(). */
struct ibv_flow_action {
	struct ibv_context *context;
};

/** Action: as made before. */
struct ibv_flow_spec_action_handle {
	enum ibv_flow_spec_type type;
	uint16_t size;
	const struct ibv_flow_action *action;
};

/** A set of counters, made by ibv_create_counters(). Not offered by usrdma. */
struct ibv_counters {
	struct ibv_context *context;
};

/** Action: count. */
struct ibv_flow_spec_counter_action {
	enum ibv_flow_spec_type type;
	uint16_t size;
	struct ibv_counters *counters;
};

/** Any spec: hdr tells which. */
struct ibv_flow_spec {
	union {
		struct {
			enum ibv_flow_spec_type type;
			uint16_t size;
		} hdr;
		struct ibv_flow_spec_eth eth;
		struct ibv_flow_spec_ipv4 ipv4;
		struct ibv_flow_spec_tcp_udp tcp_udp;
		struct ibv_flow_spec_ipv4_ext ipv4_ext;
		struct ibv_flow_spec_ipv6 ipv6;
		struct ibv_flow_spec_esp esp;
		struct ibv_flow_spec_tunnel tunnel;
		struct ibv_flow_spec_gre gre;
		struct ibv_flow_spec_mpls mpls;
		struct ibv_flow_spec_action_tag flow_tag;
		struct ibv_flow_spec_action_drop drop;
		struct ibv_flow_spec_action_handle handle;
		struct ibv_flow_spec_counter_action flow_count;
	};
};

/** A flow rule: this header, then num_of_specs specs without gaps. */
struct ibv_flow_attr {
	uint32_t comp_mask; /* reserved, 0 */
	enum ibv_flow_attr_type type;
	uint16_t size;	   /* bytes, with the specs */
	uint16_t priority; /* 0 is looked at first */
	uint8_t num_of_specs;
	uint8_t port;	/* from 1 */
	uint32_t flags; /* enum ibv_flow_flags */
};

/** A flow rule in force. */
struct ibv_flow {
	uint32_t comp_mask;
	struct ibv_context *context;
	uint32_t handle;
};

/** Which members of ibv_flow_action_esp_attr are filled in. */
enum ibv_flow_action_esp_mask {
	IBV_FLOW_ACTION_ESP_MASK_ESN = 1UL << 0,
};

/** IPsec ESP as a flow action: keys, replay window and encapsulation. */
struct ibv_flow_action_esp_attr {
	struct ibv_flow_action_esp *esp_attr;

	enum ibv_flow_action_esp_keymat keymat_proto;
	uint16_t keymat_len; /* bytes */
	void *keymat_ptr;

	enum ibv_flow_action_esp_replay replay_proto;
	uint16_t replay_len; /* bytes */
	void *replay_ptr;

	struct ibv_flow_action_esp_encap *esp_encap;

	uint32_t comp_mask; /* enum ibv_flow_action_esp_mask */
	uint32_t esn;	    /* upper half of extended sequence numbers */
};

/** Reserved: comp_mask is 0. */
struct ibv_counters_init_attr {
	uint32_t comp_mask;
};

/** What a counter counts. */
enum ibv_counter_description {
	IBV_COUNTER_PACKETS,
	IBV_COUNTER_BYTES,
};

/** Where ibv_attach_counters_point_flow() is to count what. */
struct ibv_counter_attach_attr {
	enum ibv_counter_description counter_desc;
	uint32_t index;	    /* in the array of ibv_read_counters() */
	uint32_t comp_mask; /* reserved, 0 */
};

/** How ibv_read_counters() is to read. */
enum ibv_read_counters_flags {
	IBV_READ_COUNTERS_ATTR_PREFER_CACHED = 1 << 0, /* a little old is good enough */
};

/* ---- Device and context objects: layout history lives here ---- */

/**
 * Two pointers that device drivers had here before 2007. Nobody calls them; the room stays because
 * name and what follows are read at their offsets.
 */
struct _ibv_device_ops {
	struct ibv_context *(*_dummy1)(struct ibv_device *device, int cmd_fd);
	void (*_dummy2)(struct ibv_context *context);
};

/** Sizes of the strings in struct ibv_device, final NUL included. */
enum {
	IBV_SYSFS_NAME_MAX = 64,
	IBV_SYSFS_PATH_MAX = 256,
};

/**
 * A device, as ibv_get_device_list() names it. Owned by the library. Compiled programs know these
 * 664 bytes; what lies behind them is the library's own.
 */
struct ibv_device {
	struct _ibv_device_ops _ops;
	enum ibv_node_type node_type;
	enum ibv_transport_type transport_type;
	char name[IBV_SYSFS_NAME_MAX];	     /* the device's name: that of its network interface */
	char dev_name[IBV_SYSFS_NAME_MAX];   /* "uverbs" and the index; there is no such file */
	char dev_path[IBV_SYSFS_PATH_MAX];   /* where hardware has it; there is no such file */
	char ibdev_path[IBV_SYSFS_PATH_MAX]; /* in sysfs; there is no such directory */
};

/*
 * The first 48 bytes of struct ibv_port_attr, all that the exported ibv_query_port() may write.
 */
struct _compat_ibv_port_attr;

/**
 * Functions behind the calls of an open device. Compiled programs call them straight through ibv_context.ops, without
 * looking whether they are there: alloc_mw, bind_mw, dealloc_mw, poll_cq, req_notify_cq, post_srq_recv, post_send,
 * post_recv are never NULL. The others are the calls of programs compiled before 2018, when everything went this way;
 * only their places are kept, and the first two are still filled in.
 */
struct ibv_context_ops {
	int (*_compat_query_device)(struct ibv_context *context,
				    struct ibv_device_attr *device_attr);
	int (*_compat_query_port)(struct ibv_context *context, uint8_t port_num,
				  struct _compat_ibv_port_attr *port_attr);
	void *(*_compat_alloc_pd)(void);
	void *(*_compat_dealloc_pd)(void);
	void *(*_compat_reg_mr)(void);
	void *(*_compat_rereg_mr)(void);
	void *(*_compat_dereg_mr)(void);
	struct ibv_mw *(*alloc_mw)(struct ibv_pd *pd, enum ibv_mw_type type);
	int (*bind_mw)(struct ibv_qp *qp, struct ibv_mw *mw, struct ibv_mw_bind *mw_bind);
	int (*dealloc_mw)(struct ibv_mw *mw);
	void *(*_compat_create_cq)(void);
	int (*poll_cq)(struct ibv_cq *cq, int num_entries, struct ibv_wc *wc);
	int (*req_notify_cq)(struct ibv_cq *cq, int solicited_only);
	void *(*_compat_cq_event)(void);
	void *(*_compat_resize_cq)(void);
	void *(*_compat_destroy_cq)(void);
	void *(*_compat_create_srq)(void);
	void *(*_compat_modify_srq)(void);
	void *(*_compat_query_srq)(void);
	void *(*_compat_destroy_srq)(void);
	int (*post_srq_recv)(struct ibv_srq *srq, struct ibv_recv_wr *recv_wr,
			     struct ibv_recv_wr **bad_recv_wr);
	void *(*_compat_create_qp)(void);
	void *(*_compat_query_qp)(void);
	void *(*_compat_modify_qp)(void);
	void *(*_compat_destroy_qp)(void);
	int (*post_send)(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad_wr);
	int (*post_recv)(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr);
	void *(*_compat_create_ah)(void);
	void *(*_compat_destroy_ah)(void);
	void *(*_compat_attach_mcast)(void);
	void *(*_compat_detach_mcast)(void);
	void *(*_compat_async_event)(void);
};

/**
 * An open device. Made by ibv_open_device(), dies in ibv_close_device(). Members are for reading.
 * Lies at the end of a struct verbs_context.
 */
struct ibv_context {
	struct ibv_device *device;
	struct ibv_context_ops ops;
	int cmd_fd;	      /* names the context to ibv_import_device(); to be copied, not read */
	int async_fd;	      /* readable while an async event waits; poll it, do not read it */
	int num_comp_vectors; /* comp_vector is below this */
	pthread_mutex_t mutex; /* the library's own */
	void *abi_compat;      /* all ones: a struct verbs_context is around */
};

struct verbs_ex_private;

/**
 * What an open device is in memory, found backwards from the struct ibv_context at its end.
 *
 * It grows at its beginning: a new call gets a new first member, so that the distance of every
 * member from the end never changes. sz, at a fixed place in front of the context, is the size
 * that the library was built with: a program that knows more members than the library finds, by
 * its own arithmetic, that they lie outside (verbs_get_ctx_op()). A member is NULL if the device
 * lacks the call. Only the inline functions of this header read it.
 *
 * The placeholders are members of releases long gone. Keep them; fill in nothing.
 */
struct verbs_context {
	void (*free_buf)(struct ibv_buf *buf);
	void *(*alloc_buf)(struct ibv_pd *pd, size_t size, struct ibv_buf **buf);
	int (*dm_export_dmabuf_fd)(struct ibv_dm *dm);
	struct ibv_mr *(*reg_mr_ex)(struct ibv_pd *pd, struct ibv_mr_init_attr *mr_init_attr);
	int (*dealloc_dmah)(struct ibv_dmah *dmah);
	struct ibv_dmah *(*alloc_dmah)(struct ibv_context *context,
				       struct ibv_dmah_init_attr *attr);
	int (*query_port)(struct ibv_context *context, uint8_t port_num,
			  struct ibv_port_attr *port_attr, size_t port_attr_len);
	int (*advise_mr)(struct ibv_pd *pd, enum ibv_advise_mr_advice advice, uint32_t flags,
			 struct ibv_sge *sg_list, uint32_t num_sges);
	struct ibv_mr *(*alloc_null_mr)(struct ibv_pd *pd);
	int (*read_counters)(struct ibv_counters *counters, uint64_t *counters_value,
			     uint32_t ncounters, uint32_t flags);
	int (*attach_counters_point_flow)(struct ibv_counters *counters,
					  struct ibv_counter_attach_attr *attr,
					  struct ibv_flow *flow);
	struct ibv_counters *(*create_counters)(struct ibv_context *context,
						struct ibv_counters_init_attr *init_attr);
	int (*destroy_counters)(struct ibv_counters *counters);
	struct ibv_mr *(*reg_dm_mr)(struct ibv_pd *pd, struct ibv_dm *dm, uint64_t dm_offset,
				    size_t length, unsigned int access);
	struct ibv_dm *(*alloc_dm)(struct ibv_context *context, struct ibv_alloc_dm_attr *attr);
	int (*free_dm)(struct ibv_dm *dm);
	int (*modify_flow_action_esp)(struct ibv_flow_action *action,
				      struct ibv_flow_action_esp_attr *attr);
	int (*destroy_flow_action)(struct ibv_flow_action *action);
	struct ibv_flow_action *(*create_flow_action_esp)(struct ibv_context *context,
							  struct ibv_flow_action_esp_attr *attr);
	int (*modify_qp_rate_limit)(struct ibv_qp *qp, struct ibv_qp_rate_limit_attr *attr);
	struct ibv_pd *(*alloc_parent_domain)(struct ibv_context *context,
					      struct ibv_parent_domain_init_attr *attr);
	int (*dealloc_td)(struct ibv_td *td);
	struct ibv_td *(*alloc_td)(struct ibv_context *context, struct ibv_td_init_attr *init_attr);
	int (*modify_cq)(struct ibv_cq *cq, struct ibv_modify_cq_attr *attr);
	int (*post_srq_ops)(struct ibv_srq *srq, struct ibv_ops_wr *op, struct ibv_ops_wr **bad_op);
	int (*destroy_rwq_ind_table)(struct ibv_rwq_ind_table *rwq_ind_table);
	struct ibv_rwq_ind_table *(*create_rwq_ind_table)(
		struct ibv_context *context, struct ibv_rwq_ind_table_init_attr *init_attr);
	int (*destroy_wq)(struct ibv_wq *wq);
	int (*modify_wq)(struct ibv_wq *wq, struct ibv_wq_attr *wq_attr);
	struct ibv_wq *(*create_wq)(struct ibv_context *context,
				    struct ibv_wq_init_attr *wq_init_attr);
	int (*query_rt_values)(struct ibv_context *context, struct ibv_values_ex *values);
	struct ibv_cq_ex *(*create_cq_ex)(struct ibv_context *context,
					  struct ibv_cq_init_attr_ex *init_attr);
	struct verbs_ex_private *priv; /* the library's own */
	int (*query_device_ex)(struct ibv_context *context,
			       const struct ibv_query_device_ex_input *input,
			       struct ibv_device_attr_ex *attr, size_t attr_size);
	int (*ibv_destroy_flow)(struct ibv_flow *flow);
	void (*ABI_placeholder2)(void);
	struct ibv_flow *(*ibv_create_flow)(struct ibv_qp *qp, struct ibv_flow_attr *flow_attr);
	void (*ABI_placeholder1)(void);
	struct ibv_qp *(*open_qp)(struct ibv_context *context, struct ibv_qp_open_attr *attr);
	struct ibv_qp *(*create_qp_ex)(struct ibv_context *context,
				       struct ibv_qp_init_attr_ex *qp_init_attr_ex);
	int (*get_srq_num)(struct ibv_srq *srq, uint32_t *srq_num);
	struct ibv_srq *(*create_srq_ex)(struct ibv_context *context,
					 struct ibv_srq_init_attr_ex *srq_init_attr_ex);
	struct ibv_xrcd *(*open_xrcd)(struct ibv_context *context,
				      struct ibv_xrcd_init_attr *xrcd_init_attr);
	int (*close_xrcd)(struct ibv_xrcd *xrcd);
	uint64_t _ABI_placeholder3;
	size_t sz;		    /* bytes; stays right before context */
	struct ibv_context context; /* stays last */
};

/*
 * Whether a member of a structure that grows at its end lies within the sz bytes that a caller
 * passed.
 */
#define vext_field_avail(type, fld, sz) (offsetof(type, fld) < (sz))

/*
 * ibv_context.abi_compat of a context inside a struct verbs_context. Libraries before 2012 left
 * NULL.
 */
#define __VERBS_ABI_IS_EXTENDED ((void *)UINTPTR_MAX)

/**
 * Finds the struct verbs_context around a context. What the inline calls of this header use;
 * applications have no need of it.
 *
 * *ctx*: of ibv_open_device().
 * Returns the struct, or NULL if the library is too old to have one.
 * Threads: any. Pure.
 * Since v13, inline. Source: rdma-core's header.
 */
static inline struct verbs_context *verbs_get_ctx(struct ibv_context *ctx)
{
	if (ctx->abi_compat != __VERBS_ABI_IS_EXTENDED)
		return NULL;
	return (struct verbs_context *)((uintptr_t)ctx - offsetof(struct verbs_context, context));
}

/*
 * The struct verbs_context around ctx if it has a member op and the device fills it in, else NULL.
 * "Has" is told by size, measured from the end: see struct verbs_context. Evaluates ctx once.
 */
#define verbs_get_ctx_op(ctx, op)                                                         \
	({                                                                                \
		struct verbs_context *__vctx = verbs_get_ctx(ctx);                        \
		if (__vctx &&                                                             \
		    (__vctx->sz < sizeof(*__vctx) - offsetof(struct verbs_context, op) || \
		     !__vctx->op))                                                        \
			__vctx = NULL;                                                    \
		__vctx;                                                                   \
	})

/* ---- Device list ---- */

/**
 * Lists the RDMA devices: one for each network interface that is up and has an address.
 *
 * *num_devices*: set to their number; may be NULL.
 * Returns an array that ends with NULL, to be given back to ibv_free_device_list(). Devices that
 * reach other hosts come first, `lo` last. Without a daemon, or without interfaces, the array is
 * empty, not NULL. The pointers stay good for the life of the process, and the same device has the
 * same pointer in every list. NULL with errno if that cannot be told.
 * Errors: EACCES: the daemon here is another user's (one line in the log says what to do); EPROTO: the daemon is of another
 * version (the same); ENOSPC: 511 processes have devices already; EDQUOT: the daemon has as many connections as it lets
 * this user have, or all have; EINVAL: USRDMA_TRANSPORT names no transport (one line in the log); EMFILE, ENFILE: no file
 * descriptor left; ENOMEM: no memory.
 * Threads: any. Asks the daemon, and starts it if there is none: may take some milliseconds.
 * State: makes the process's engine, if it has none. After fork() the child's first call makes a
 * new one.
 * Since IBVERBS_1.1. Source: ibv_get_device_list(3). See also: ibv_open_device().
 */
struct ibv_device **ibv_get_device_list(int *num_devices);

/**
 * Frees an array of ibv_get_device_list(), not the devices.
 *
 * *list*: the array; NULL is allowed.
 * Threads: any. Does not block.
 * Since IBVERBS_1.1. Source: ibv_free_device_list(3). See also: ibv_get_device_list().
 */
void ibv_free_device_list(struct ibv_device **list);

/**
 * The device's name: that of its network interface.
 *
 * *device*: of ibv_get_device_list().
 * Returns a string that lives as long as the process. Never NULL.
 * Threads: any. Does not block.
 * Since IBVERBS_1.1. Source: ibv_get_device_name(3). See also: ibv_get_device_index().
 */
const char *ibv_get_device_name(struct ibv_device *device);

/**
 * A number for the device, unique in its network namespace as long as the interface exists.
 *
 * *device*: of ibv_get_device_list().
 * Returns the number, at least 0; usrdma always knows it (others answer -1 if not).
 * Threads: any. Does not block.
 * Since IBVERBS_1.9. Source: ibv_get_device_index(3). See also: ibv_get_device_name().
 */
int ibv_get_device_index(struct ibv_device *device);

/**
 * The device's node GUID, without opening it.
 *
 * *device*: of ibv_get_device_list().
 * Returns the GUID in network byte order, never 0, the same each time.
 * Threads: any. Does not block.
 * Since IBVERBS_1.1. Source: ibv_get_device_guid(3). See also: ibv_device_attr.node_guid.
 */
__be64 ibv_get_device_guid(struct ibv_device *device);

/**
 * Opens a device: makes the context from which all objects are made.
 *
 * *device*: of ibv_get_device_list(); the list may be freed afterwards. Any number of contexts may
 * be open on it.
 * Returns the context, or NULL with errno.
 * Errors: ENODEV: the interface is gone, or the daemon, and no other can be started; EMFILE, ENFILE: no file descriptor
 * left; EAGAIN: no thread could be started; ENOMEM: no memory; of a process whose daemon died also as
 * ibv_get_device_list().
 * Threads: any. May ask the daemon.
 * Events: from now on the device's asynchronous events come to async_fd.
 * Since IBVERBS_1.1. Source: ibv_open_device(3), IBA 1.x §11.2.1. See also: ibv_close_device(),
 * ibv_get_async_event().
 */
struct ibv_context *ibv_open_device(struct ibv_device *device);

/**
 * Closes a context.
 *
 * *context*: not to be used afterwards; its async_fd and cmd_fd are closed. Objects that are left
 * stop working (QPs go to ERR, MRs can no longer be reached) and can still be destroyed, or be
 * forgotten until the process ends.
 * Returns 0.
 * Threads: any. Waits for remote accesses that are going on in such MRs.
 * Since IBVERBS_1.1. Source: ibv_close_device(3), IBA 1.x §11.2.1. See also: ibv_open_device().
 */
int ibv_close_device(struct ibv_context *context);

/**
 * Opens a device once more, by the command file of a context on it.
 *
 * *cmd_fd*: a copy (dup(), SCM_RIGHTS, fork()) of ibv_context.cmd_fd, of this process or of another on the same
 * network namespace. Belongs to the new context once this succeeds, as its cmd_fd.
 * Returns the context, or NULL with errno, and *cmd_fd* is still the caller's.
 * Errors: EBADF: not a descriptor; EINVAL: not a command file of this library; ENODEV: the device is of another
 * network namespace, or gone; and those of ibv_open_device().
 * Threads: any. Asks the daemon.
 * State: within the process, objects of either context can be imported into the other, and live until the last of these
 * contexts is closed. A context from another process works like one that was opened here, and has none of that one's
 * objects.
 * Events: as ibv_open_device(): ports' and the device's come to each context, an object's to the context it was made on.
 * Since IBVERBS_1.10. Source: ibv_import_device(3). See also: ibv_open_device(), ibv_close_device(), ibv_import_pd().
 */
struct ibv_context *ibv_import_device(int cmd_fd);

/**
 * Makes one more name of a PD.
 *
 * *context*: the PD's own, or one made of that by ibv_import_device().
 * *pd_handle*: ibv_pd.handle; that of a parent domain gives its PD.
 * Returns the PD's new name, good for all that a PD is, or NULL with errno.
 * Errors: EINVAL: no PD of this context or of those it was imported from; EOPNOTSUPP: the context is of another process,
 * whose objects cannot be used from here; EIO: fork()ed child, or the daemon died; ENOMEM: no memory.
 * Threads: any. Does not block.
 * State: the PD exists until its last name was given to ibv_dealloc_pd() or ibv_unimport_pd(); ibv_dealloc_pd() answers
 * EBUSY while anything was made in it by any name.
 * Since IBVERBS_1.10. Source: ibv_import_pd(3). See also: ibv_unimport_pd(), ibv_import_mr().
 */
struct ibv_pd *ibv_import_pd(struct ibv_context *context, uint32_t pd_handle);

/**
 * Gives up one name of a PD, and destroys nothing but the last.
 *
 * *pd*: of ibv_import_pd() or ibv_alloc_pd(), not to be used afterwards. What was made in it by this name stays.
 * Threads: any. Does not block.
 * Since IBVERBS_1.10. Source: ibv_import_pd(3). See also: ibv_import_pd(), ibv_dealloc_pd().
 */
void ibv_unimport_pd(struct ibv_pd *pd);

/**
 * Makes one more name of an MR.
 *
 * *pd*: the MR's PD, under any of its names.
 * *mr_handle*: ibv_mr.handle.
 * Returns the MR's new name, with its keys and length and addr NULL, or NULL with errno.
 * Errors: EINVAL: *pd* has no such MR; EOPNOTSUPP: the context is of another process, whose memory is not here; EIO:
 * fork()ed child, or the daemon died; ENOMEM: no memory.
 * Threads: any. Does not block.
 * State: ibv_dereg_mr() of any name ends the MR; the other names can then only be given to ibv_unimport_mr().
 * ibv_rereg_mr() wants the name that registered it.
 * Since IBVERBS_1.10. Source: ibv_import_mr(3). See also: ibv_unimport_mr(), ibv_dereg_mr().
 */
struct ibv_mr *ibv_import_mr(struct ibv_pd *pd, uint32_t mr_handle);

/**
 * Gives up one name of an MR, and deregisters nothing.
 *
 * *mr*: of ibv_import_mr() or a registration, not to be used afterwards.
 * Threads: any. Does not block.
 * Since IBVERBS_1.10. Source: ibv_import_mr(3). See also: ibv_import_mr(), ibv_dereg_mr().
 */
void ibv_unimport_mr(struct ibv_mr *mr);

/**
 * Makes one more name of device memory.
 *
 * *context*: its own, or one made of that by ibv_import_device().
 * *dm_handle*: ibv_dm.handle.
 * Returns the new name, or NULL with errno.
 * Errors: EINVAL: no device memory of this context or of those it was imported from; EOPNOTSUPP: the context is of another
 * process, whose memory is not here; EIO: fork()ed child, or the daemon died; ENOMEM: no memory.
 * Threads: any. Does not block.
 * State: the memory exists until its last name was given to ibv_free_dm() or ibv_unimport_dm(), and its last MR is gone.
 * Since IBVERBS_1.13. Source: ibv_import_dm(3). See also: ibv_unimport_dm(), ibv_alloc_dm().
 */
struct ibv_dm *ibv_import_dm(struct ibv_context *context, uint32_t dm_handle);

/**
 * Gives up one name of device memory; it goes with the last name and the last MR.
 *
 * *dm*: of ibv_import_dm() or ibv_alloc_dm(), not to be used afterwards.
 * Threads: any. Does not block.
 * Since IBVERBS_1.13. Source: ibv_import_dm(3). See also: ibv_import_dm(), ibv_free_dm().
 */
void ibv_unimport_dm(struct ibv_dm *dm);

/**
 * Asks that fork() be safe while memory is registered. With usrdma it always is: nothing is
 * pinned.
 *
 * Returns 0.
 * Threads: any. Does not block.
 * State: none is changed. In the child, objects made before fork() answer EIO and its own must be
 * made anew, beginning with ibv_get_device_list(); the parent is not disturbed.
 * Since IBVERBS_1.1. Source: ibv_fork_init(3). See also: ibv_is_fork_initialized().
 */
int ibv_fork_init(void);

/**
 * Whether fork() is safe while memory is registered.
 *
 * Returns IBV_FORK_UNNEEDED: it always is.
 * Threads: any. Does not block.
 * Since IBVERBS_1.13. Source: ibv_is_fork_initialized(3). See also: ibv_fork_init().
 */
enum ibv_fork_status ibv_is_fork_initialized(void);

/* ---- Asynchronous events ---- */

/**
 * Takes the oldest asynchronous event of a context.
 *
 * *context*: whose events.
 * *event*: filled in; to be given to ibv_ack_async_event() exactly once.
 * Returns 0, or -1 with errno.
 * Errors: EAGAIN: none waits, and async_fd is O_NONBLOCK; EINTR: a signal came while waiting; EIO: in a fork()ed child.
 * Threads: any; each event goes to one caller. Blocks until there is one, unless async_fd is
 * O_NONBLOCK. async_fd is readable as long as events wait.
 * State: an object whose event was taken cannot be destroyed until the event is acknowledged.
 * Since IBVERBS_1.1. Source: ibv_get_async_event(3), IBA 1.x §11.5. See also:
 * ibv_ack_async_event(), enum ibv_event_type.
 */
int ibv_get_async_event(struct ibv_context *context, struct ibv_async_event *event);

/**
 * Acknowledges an asynchronous event. As far as this event goes, its object may be destroyed.
 *
 * *event*: as it was filled in. The object that it names must still exist.
 * Threads: any. Does not block; wakes a thread that waits in the object's destroying call.
 * Since IBVERBS_1.1. Source: ibv_get_async_event(3). See also: ibv_get_async_event().
 */
void ibv_ack_async_event(struct ibv_async_event *event);

/* ---- Device and port queries ---- */

/**
 * Asks for a device's limits and features.
 *
 * *context*: the device.
 * *device_attr*: filled in.
 * Returns 0.
 * A fork()ed child may ask of its parent's device too.
 * Threads: any. May ask the daemon, if it said that something changed.
 * Since IBVERBS_1.1. Source: ibv_query_device(3), IBA 1.x §11.2.1. See also:
 * ibv_query_device_ex().
 */
int ibv_query_device(struct ibv_context *context, struct ibv_device_attr *device_attr);

/**
 * Asks for a device's limits and features, also newer ones.
 *
 * *context*: the device.
 * *input*: may be NULL; else its comp_mask is 0.
 * *attr*: filled in, with 0 for what the library does not know.
 * Returns 0 or an errno.
 * Errors: EINVAL: *input* has a comp_mask.
 * Threads: any. May ask the daemon, if it said that something changed.
 * Since v13, inline. Source: ibv_query_device_ex(3), IBA 1.x §11.2.1. See also:
 * ibv_query_device().
 */
static inline int ibv_query_device_ex(struct ibv_context *context,
				      const struct ibv_query_device_ex_input *input,
				      struct ibv_device_attr_ex *attr)
{
	struct verbs_context *vctx = verbs_get_ctx_op(context, query_device_ex);

	if (input && input->comp_mask)
		return EINVAL;
	if (vctx) {
		int ret = vctx->query_device_ex(context, input, attr, sizeof(*attr));

		if (ret != EOPNOTSUPP && ret != ENOSYS)
			return ret;
	}
	memset(attr, 0, sizeof(*attr));
	return ibv_query_device(context, &attr->orig_attr);
}

/**
 * Reads the device's clock, as it is now.
 *
 * *context*: the device.
 * *values*: comp_mask says what is asked for, and afterwards what was answered. raw_clock is then
 * the clock of ibv_wc_read_completion_ts() in its unit: ticks, all of them in tv_nsec, with tv_sec
 * 0.
 * Returns 0 or an errno.
 * Errors: EINVAL: nothing that is asked for is known; EIO: in a fork()ed child.
 * Threads: any. Does not block.
 * Since v13, inline. Source: ibv_query_rt_values_ex(3). See also:
 * ibv_device_attr_ex.hca_core_clock.
 */
static inline int ibv_query_rt_values_ex(struct ibv_context *context, struct ibv_values_ex *values)
{
	struct verbs_context *vctx = verbs_get_ctx_op(context, query_rt_values);

	return vctx ? vctx->query_rt_values(context, values) : EOPNOTSUPP;
}

/**
 * Asks for a port's state and attributes. A macro of the same name takes its place: with it *port_attr* is a whole
 * struct ibv_port_attr, and the length that the caller knows goes along.
 *
 * *context*: the device.
 * *port_num*: port, from 1. usrdma devices have port 1.
 * *port_attr*: filled in. The exported function, for programs compiled before 2018, writes the
 * first 48 bytes only.
 * Returns 0 or an errno.
 * Errors: EINVAL: no such port; EIO: in a fork()ed child.
 * Threads: any. May ask the daemon, if it said that something changed.
 * Since IBVERBS_1.1. Source: ibv_query_port(3), IBA 1.x §11.2.1. See also: IBV_EVENT_PORT_ACTIVE,
 * IBV_EVENT_PORT_ERR.
 */
int ibv_query_port(struct ibv_context *context, uint8_t port_num,
		   struct _compat_ibv_port_attr *port_attr);

/*
 * What ibv_query_port() becomes: passes the caller's size of struct ibv_port_attr, if the library
 * can be told.
 */
static inline int ___ibv_query_port(struct ibv_context *context, uint8_t port_num,
				    struct ibv_port_attr *port_attr)
{
	struct verbs_context *vctx = verbs_get_ctx_op(context, query_port);

	if (vctx)
		return vctx->query_port(context, port_num, port_attr, sizeof(*port_attr));
	memset(port_attr, 0, sizeof(*port_attr));
	return ibv_query_port(context, port_num, (struct _compat_ibv_port_attr *)port_attr);
}

/* ibv_query_port(): see above. */
#define ibv_query_port(context, port_num, port_attr) ___ibv_query_port(context, port_num, port_attr)

/**
 * Asks for a port's effective speed: that of its interface, or 10 Gbit/s if it does not tell.
 *
 * *context*, *port_num*: device; port, from 1.
 * *port_speed*: set to the speed in units of 100 Mbit/s.
 * Returns 0 or an errno.
 * Errors: EINVAL: no such port; EIO: in a fork()ed child.
 * Threads: any. May ask the daemon, if it said that something changed.
 * Since IBVERBS_1.16. Source: ibv_query_port_speed(3). See also: ibv_query_port().
 */
int ibv_query_port_speed(struct ibv_context *context, uint32_t port_num, uint64_t *port_speed);

/**
 * Reads an entry of a port's GID table.
 *
 * *context*, *port_num*: device; port, from 1.
 * *index*: 0 to gid_tbl_len - 1. Entry 0 is always filled.
 * *gid*: set; all zero for an empty entry.
 * Returns 0, or -1 with errno.
 * Errors: EINVAL: no such port, or index out of range; EIO: in a fork()ed child.
 * Threads: any. May ask the daemon, if it said that something changed.
 * Events: IBV_EVENT_GID_CHANGE when an entry has changed. An address keeps its entry while it
 * exists.
 * Since IBVERBS_1.1. Source: ibv_query_gid(3), IBA 1.x §11.2.1. See also: ibv_query_gid_ex(),
 * ibv_query_gid_table().
 */
int ibv_query_gid(struct ibv_context *context, uint8_t port_num, int index, union ibv_gid *gid);

/*
 * What ibv_query_gid_ex() calls, with the size of ibv_gid_entry that the program was compiled
 * with. Since IBVERBS_1.11.
 */
int _ibv_query_gid_ex(struct ibv_context *context, uint32_t port_num, uint32_t gid_index,
		      struct ibv_gid_entry *entry, uint32_t flags, size_t entry_size);

/**
 * Reads an entry of a port's GID table, with its type and interface.
 *
 * *context*, *port_num*, *gid_index*: device; port, from 1; 0 to gid_tbl_len - 1.
 * *entry*: filled in.
 * *flags*: 0.
 * Returns 0 or an errno.
 * Errors: EINVAL: no such port, index out of range, flags not 0; ENODATA: the entry is empty; EIO:
 * in a fork()ed child.
 * Threads: any. May ask the daemon, if it said that something changed.
 * Since IBVERBS_1.11. Source: ibv_query_gid_ex(3). See also: ibv_query_gid_table().
 */
static inline int ibv_query_gid_ex(struct ibv_context *context, uint32_t port_num,
				   uint32_t gid_index, struct ibv_gid_entry *entry, uint32_t flags)
{
	return _ibv_query_gid_ex(context, port_num, gid_index, entry, flags, sizeof(*entry));
}

/*
 * What ibv_query_gid_table() calls, with the size of ibv_gid_entry that the program was compiled
 * with. Since IBVERBS_1.11.
 */
ssize_t _ibv_query_gid_table(struct ibv_context *context, struct ibv_gid_entry *entries,
			     size_t max_entries, uint32_t flags, size_t entry_size);

/**
 * Reads all filled entries of the device's GID tables.
 *
 * *context*: the device.
 * *entries*: array of *max_entries*, filled from the start.
 * *max_entries*: must be at least the number of filled entries; the sum of gid_tbl_len always
 * suffices.
 * *flags*: 0.
 * Returns the number of entries, or a negative errno (-EINVAL, not EINVAL).
 * Errors: EINVAL: *max_entries* is too small, or flags not 0; EIO: in a fork()ed child.
 * Threads: any. May ask the daemon, if it said that something changed.
 * Since IBVERBS_1.11. Source: ibv_query_gid_table(3). See also: ibv_query_gid_ex().
 */
static inline ssize_t ibv_query_gid_table(struct ibv_context *context,
					  struct ibv_gid_entry *entries, size_t max_entries,
					  uint32_t flags)
{
	return _ibv_query_gid_table(context, entries, max_entries, flags, sizeof(*entries));
}

/**
 * Reads an entry of a port's P_Key table.
 *
 * *context*, *port_num*, *index*: device; port, from 1; 0 to pkey_tbl_len - 1.
 * *pkey*: set. A usrdma port has one entry: 0xffff, the default partition.
 * Returns 0, or -1 with errno.
 * Errors: EINVAL: no such port, or index out of range; EIO: in a fork()ed child.
 * Threads: any. Does not block.
 * Since IBVERBS_1.1. Source: ibv_query_pkey(3), IBA 1.x §10.9. See also: ibv_get_pkey_index().
 */
int ibv_query_pkey(struct ibv_context *context, uint8_t port_num, int index, __be16 *pkey);

/**
 * Finds a P_Key in a port's table.
 *
 * *context*, *port_num*, *pkey*: device; port, from 1; what ibv_query_pkey() would give.
 * Returns the index, or -1 with errno.
 * Errors: ENOENT: the table lacks this P_Key; EINVAL: no such port; EIO: in a fork()ed child.
 * Threads: any. Does not block.
 * Since IBVERBS_1.5. Source: ibv_get_pkey_index(3). See also: ibv_query_pkey().
 */
int ibv_get_pkey_index(struct ibv_context *context, uint8_t port_num, __be16 pkey);

/* ---- Domains ---- */

/**
 * Makes a protection domain.
 *
 * *context*: the device.
 * Returns the PD, or NULL with errno.
 * Errors: ENOMEM: no memory, or max_pd of them exist; EIO: the daemon is gone.
 * Threads: any. Does not block.
 * Since IBVERBS_1.1. Source: ibv_alloc_pd(3), IBA 1.x §11.2.1. See also: ibv_dealloc_pd().
 */
struct ibv_pd *ibv_alloc_pd(struct ibv_context *context);

/**
 * Destroys a protection domain.
 *
 * *pd*: freed on success.
 * Returns 0 or an errno.
 * Errors: EBUSY: an MR, QP, SRQ or AH of it exists; nothing is changed.
 * Threads: any. Does not block.
 * Since IBVERBS_1.1. Source: ibv_alloc_pd(3), IBA 1.x §11.2.1. See also: ibv_alloc_pd().
 */
int ibv_dealloc_pd(struct ibv_pd *pd);

/**
 * Makes a thread domain: a promise that what is made in it is used by one thread at a time. On usrdma
 * it changes nothing else, since one lock serves the whole process.
 *
 * *context*, *init_attr*: device; comp_mask is 0.
 * Returns the domain, owned by the caller until ibv_dealloc_td(); NULL with errno set.
 * Errors: EINVAL: comp_mask; ENOMEM; EIO: a forked child's device, or the device is gone.
 * Threads: any. Does not block.
 * Since v17, inline. Source: ibv_alloc_td(3). See also: ibv_alloc_parent_domain().
 */
static inline struct ibv_td *ibv_alloc_td(struct ibv_context *context,
					  struct ibv_td_init_attr *init_attr)
{
	struct verbs_context *vctx = verbs_get_ctx_op(context, alloc_td);

	if (vctx)
		return vctx->alloc_td(context, init_attr);
	errno = EOPNOTSUPP;
	return NULL;
}

/**
 * Destroys a thread domain.
 *
 * *td*: of ibv_alloc_td().
 * Returns 0, or EBUSY while a parent domain uses it.
 * Threads: any. Does not block.
 * Since v17, inline. Source: ibv_alloc_td(3).
 */
static inline int ibv_dealloc_td(struct ibv_td *td)
{
	struct verbs_context *vctx = verbs_get_ctx_op(td->context, dealloc_td);

	return vctx ? vctx->dealloc_td(td) : EOPNOTSUPP;
}

/**
 * Makes a parent domain: a PD under another name, with a thread domain and an allocator for the
 * queues of what is made in it. Objects of the parent and of attr->pd may be used with each other.
 *
 * *context*: the device.
 * *attr*: pd: a PD of the device that is no parent domain itself; td or NULL; with ALLOCATORS alloc
 * and free, both. alloc(pd, pd_context, size, alignment, type) is called by the thread that makes a
 * QP or SRQ, or resizes one; type is 1 for a send queue, 2 for a receive queue, 3 for an SRQ. It
 * returns memory, NULL (the call fails with ENOMEM) or IBV_ALLOCATOR_USE_DEFAULT. free() gets back
 * what alloc() gave, when the object is destroyed.
 * Returns the domain, for every call that takes a PD, until ibv_dealloc_pd(); NULL with errno set.
 * Errors: EINVAL: unknown comp_mask, a foreign or missing pd or td, one allocator without the other;
 * ENOMEM; EIO: a forked child's device, or the device is gone.
 * Threads: any. Does not block.
 * Since v17, inline. Source: ibv_alloc_parent_domain(3). See also: ibv_alloc_pd().
 */
static inline struct ibv_pd *ibv_alloc_parent_domain(struct ibv_context *context,
						     struct ibv_parent_domain_init_attr *attr)
{
	struct verbs_context *vctx = verbs_get_ctx_op(context, alloc_parent_domain);

	if (vctx)
		return vctx->alloc_parent_domain(context, attr);
	errno = EOPNOTSUPP;
	return NULL;
}

/**
 * Opens or makes an XRC domain.
 *
 * *context*: the device.
 * *xrcd_init_attr*: fd: a file whose inode names the domain, which stays yours and need not stay
 * open, or -1: nobody else can open it; oflags: O_CREAT: make it if it is not there; with O_EXCL:
 * fail if it is. All who open it by the same inode on the same device have the same domain, in
 * whatever process of this host: a packet to an XRC receive QP of one may name an SRQ of another, and
 * has that one's receives, completion queue and PD. Who may open the file is who may join.
 * Returns the domain, or NULL with errno.
 * Errors: EINVAL: comp_mask is not FD and OFLAGS, other oflags, fd -1 without O_CREAT, or O_CREAT
 * with O_EXCL and it is there; EAGAIN: it is not there, and no O_CREAT; EBADF: no such descriptor, or
 * one of O_PATH; EDQUOT: this user has too many open; ENOMEM: no memory; EIO: the daemon is gone.
 * Threads: any. Blocks while the daemon answers.
 * Since v13, inline. Source: ibv_open_xrcd(3), IBA A14. See also: ibv_close_xrcd().
 */
static inline struct ibv_xrcd *ibv_open_xrcd(struct ibv_context *context,
					     struct ibv_xrcd_init_attr *xrcd_init_attr)
{
	struct verbs_context *vctx = verbs_get_ctx_op(context, open_xrcd);

	if (vctx)
		return vctx->open_xrcd(context, xrcd_init_attr);
	errno = EOPNOTSUPP;
	return NULL;
}

/**
 * Closes an XRC domain, which is gone when all who opened it have closed it.
 *
 * *xrcd*: of ibv_open_xrcd(); freed on success.
 * Returns 0 or an errno.
 * Errors: EBUSY: an SRQ or QP was made with it and is not destroyed; nothing is changed.
 * Threads: any. Blocks while the daemon answers.
 * Since v13, inline. Source: ibv_open_xrcd(3).
 */
static inline int ibv_close_xrcd(struct ibv_xrcd *xrcd)
{
	struct verbs_context *vctx = verbs_get_ctx_op(xrcd->context, close_xrcd);

	return vctx ? vctx->close_xrcd(xrcd) : EOPNOTSUPP;
}

/* ---- Memory ---- */

/**
 * Registers memory, with all flags. This is what ibv_reg_mr() and ibv_reg_mr_iova() become when their flags are not
 * known at compile time, or contain optional ones (IBV_ACCESS_OPTIONAL_RANGE).
 *
 * *pd*, *addr*, *length*, *iova*, *access*: as ibv_reg_mr_iova().
 * Returns, errors, threads: as ibv_reg_mr().
 * Since IBVERBS_1.8. Source: ibv_reg_mr(3).
 */
struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova,
				unsigned int access);

/**
 * Registers memory, so that work requests of a PD and, if allowed, peers can use it. A macro of the same name takes its
 * place.
 *
 * *pd*: the protection domain.
 * *addr*: start; any memory of the process: heap, stack, files, shared memory. No alignment.
 * *length*: bytes, up to max_mr_size; 0 is allowed.
 * *access*: enum ibv_access_flags. Flags of the optional range are hints.
 * Returns the MR, with lkey and rkey (the same number) set, or NULL with errno.
 * Errors: EFAULT: not mapped, or access asks for what the mapping does not permit (not looked at
 * with IBV_ACCESS_ON_DEMAND); EINVAL: REMOTE_WRITE or REMOTE_ATOMIC without LOCAL_WRITE, unknown
 * flag, range too long or past the end of the address space; EOPNOTSUPP: FLUSH_PERSISTENT, which no memory of a process
 * is; ENOMEM: no memory, or max_mr exist; EIO: the daemon is gone.
 * Threads: any. Does not block. Nothing is pinned and RLIMIT_MEMLOCK does not count; the cost does
 * not grow with the length.
 * State: the memory must stay mapped, since nothing pins it. Where one side moves the bytes by itself (READ and WRITE
 * between processes of one user on one host), work that meets a hole fails with a protection or access error; everywhere
 * else the process that has the hole gets SIGSEGV, as if it had used the memory itself. With IBV_ACCESS_ON_DEMAND each
 * use looks first, at the price of some system calls, and fails with an error everywhere.
 * Since IBVERBS_1.1. Source: ibv_reg_mr(3), IBA 1.x §10.6.3. See also: ibv_reg_mr_iova(),
 * ibv_rereg_mr(), ibv_dereg_mr().
 */
struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access);

__attribute__((__always_inline__)) static inline struct ibv_mr *
__ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t length, unsigned int access, int is_access_const)
{
	if (is_access_const && !(access & IBV_ACCESS_OPTIONAL_RANGE))
		return ibv_reg_mr(pd, addr, length, (int)access);
	return ibv_reg_mr_iova2(pd, addr, length, (uintptr_t)addr, access);
}

/*
 * ibv_reg_mr(): the plain call if the flags are known to be plain when compiling, else
 * ibv_reg_mr_iova2().
 */
#define ibv_reg_mr(pd, addr, length, access)   \
	__ibv_reg_mr(pd, addr, length, access, \
		     __builtin_constant_p(((int)(access)&IBV_ACCESS_OPTIONAL_RANGE) == 0))

/**
 * Registers memory whose addresses, in SGEs and for peers, count from *iova* instead of *addr*. A macro of the same
 * name takes its place.
 *
 * *pd*, *addr*, *length*, *access*: as ibv_reg_mr().
 * *iova*: the address that stands for *addr*; IBV_ACCESS_ZERO_BASED makes it 0.
 * Returns, errors, threads: as ibv_reg_mr(); EINVAL also if iova + length wraps.
 * Since IBVERBS_1.7. Source: ibv_reg_mr(3). See also: ibv_reg_mr().
 */
struct ibv_mr *ibv_reg_mr_iova(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova,
			       int access);

__attribute__((__always_inline__)) static inline struct ibv_mr *
__ibv_reg_mr_iova(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova, unsigned int access,
		  int is_access_const)
{
	if (is_access_const && !(access & IBV_ACCESS_OPTIONAL_RANGE))
		return ibv_reg_mr_iova(pd, addr, length, iova, (int)access);
	return ibv_reg_mr_iova2(pd, addr, length, iova, access);
}

/* ibv_reg_mr_iova(): likewise. */
#define ibv_reg_mr_iova(pd, addr, length, iova, access)   \
	__ibv_reg_mr_iova(pd, addr, length, iova, access, \
			  __builtin_constant_p(((int)(access)&IBV_ACCESS_OPTIONAL_RANGE) == 0))

/**
 * Registers memory by a descriptor, by mapping it: a dma-buf whose exporter lets the CPU map it, or memory that can
 * stand for one, a memfd with F_SEAL_SHRINK or a file of memfd_secret().
 *
 * *pd*: the protection domain.
 * *offset*, *length*: bytes from the beginning of *fd*, on no special boundary; bytes, > 0.
 * *iova*: the address that stands for *offset*, as ibv_reg_mr_iova().
 * *fd*: may be closed afterwards, the MR keeps the memory.
 * *access*: as ibv_reg_mr(), without IBV_ACCESS_ON_DEMAND.
 * Returns the MR, its addr NULL, or NULL with errno.
 * Errors: EBADF: not a descriptor; EINVAL: *fd* could shrink under the MR, as files and memfds without that seal, or
 * the range is not all inside it, or its exporter lets nobody map it, and as ibv_reg_mr(); EACCES, EPERM: it may not be
 * mapped as *access* needs; EOPNOTSUPP: IBV_ACCESS_ON_DEMAND; EAGAIN: RLIMIT_MEMLOCK, of memfd_secret(); EIO: fork()ed
 * child, or the daemon died; ENOMEM: no memory, or max_mr of them exist.
 * Threads: any. Does not block.
 * State: pages that the exporter takes back make what uses them fail as an unmapped MR does. ibv_rereg_mr() answers
 * EOPNOTSUPP.
 * Since IBVERBS_1.12. Source: ibv_reg_mr(3), memfd_create(2). See also: ibv_reg_mr(), ibv_reg_mr_ex().
 */
struct ibv_mr *ibv_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t length, uint64_t iova,
				 int fd, int access);

/**
 * Registers memory as a structure describes it.
 *
 * *pd*: the protection domain.
 * *mr_init_attr*: length, access, and what comp_mask names: ADDR, or FD with or without FD_OFFSET (0), each with or
 * without IOVA (the address, or the offset); with ADDR also BUF, which then has to hold the memory, as for
 * ibv_reg_buf_mr().
 * Returns the MR, or NULL with errno.
 * Errors: as ibv_reg_mr() and, with FD, ibv_reg_dmabuf_mr(); EINVAL also for unknown bits, FD_OFFSET without FD, or both or
 * neither of ADDR and FD, FD with BUF, or memory outside of BUF; EOPNOTSUPP: DMAH.
 * Threads: any. Does not block.
 * Since IBVERBS_1.15. Source: ibv_reg_mr_ex(3). See also: ibv_reg_mr().
 */
struct ibv_mr *ibv_reg_mr_ex(struct ibv_pd *pd, struct ibv_mr_init_attr *mr_init_attr);

/**
 * Changes an MR: its memory, its PD, its access rights. The keys stay.
 *
 * *mr*: the region.
 * *flags*: enum ibv_rereg_mr_flags: which of the following count; not 0.
 * *pd*: new PD, of the same context.
 * *addr*, *length*: new memory, neither NULL nor 0; addresses then count from *addr*.
 * *access*: new rights, enum ibv_access_flags.
 * Returns 0, or a negative enum ibv_rereg_mr_err_code with errno set: ERR_INPUT: the MR is as
 * before; ERR_CMD: deregister it.
 * Errors: with ERR_INPUT: those of ibv_reg_mr(), EINVAL also for unknown flags or another
 * context's PD; with ERR_CMD: EIO.
 * Threads: any. Waits for remote accesses to the MR that are going on.
 * State: work requests that are under way may meet the old MR or the new one.
 * Since IBVERBS_1.1. Source: ibv_rereg_mr(3), IBA 1.x §10.6.3. See also: ibv_reg_mr().
 */
int ibv_rereg_mr(struct ibv_mr *mr, int flags, struct ibv_pd *pd, void *addr, size_t length,
		 int access);

/**
 * Takes memory out of use.
 *
 * *mr*: freed on success.
 * Returns 0 or an errno.
 * Errors: EBUSY: a memory window is bound to it; EINVAL: it was deregistered by another of its names (ibv_import_mr()), and
 * this one is for ibv_unimport_mr(). Nothing is changed then.
 * Threads: any. Waits for remote accesses that are going on: once it has returned, no peer reads
 * or writes the memory any more.
 * State: work requests that still name its keys fail with a protection or access error. The keys
 * are not given out again soon.
 * Since IBVERBS_1.1. Source: ibv_reg_mr(3), IBA 1.x §10.6.3. See also: ibv_reg_mr().
 */
int ibv_dereg_mr(struct ibv_mr *mr);

/**
 * Makes an MR that swallows what is written to it and reads as zeros, at any address and length. Only
 * its lkey is for use: the peer may not name it.
 *
 * *pd*: the protection domain.
 * Returns the MR, to be given to ibv_dereg_mr(); NULL with errno set.
 * Errors: ENOMEM; EIO: a forked child's device, or the device is gone.
 * Threads: any. Does not block. The first one takes 8 GiB of addresses, and memory for what is written
 * to it, at most 32 MiB, until the process ends.
 * Since v20, inline. Source: ibv_alloc_null_mr(3). See also: ibv_reg_mr().
 */
static inline struct ibv_mr *ibv_alloc_null_mr(struct ibv_pd *pd)
{
	struct verbs_context *vctx = verbs_get_ctx_op(pd->context, alloc_null_mr);

	if (vctx)
		return vctx->alloc_null_mr(pd);
	errno = EOPNOTSUPP;
	return NULL;
}

/**
 * Tells what memory will be used, so that it can be paged in. For MRs with IBV_ACCESS_ON_DEMAND.
 *
 * *pd*: domain of the MRs.
 * *advice*: IBV_ADVISE_MR_ADVICE_PREFETCH for reading, PREFETCH_WRITE for writing, PREFETCH_NO_FAULT for
 * what is in memory already.
 * *flags*: 0 or IBV_ADVISE_MR_FLAG_FLUSH: wait until it is done; usrdma always does.
 * *sg_list*, *num_sge*: ranges of MRs by their lkeys, and their number, not 0; not kept.
 * Returns 0 or an errno; ranges before the one that failed may have been paged in.
 * Errors: EOPNOTSUPP: unknown advice; EINVAL: unknown flag, no range, an MR that is not on demand;
 * EFAULT: no such lkey in this PD, outside the MR, no right to write, memory that is not mapped; EIO.
 * Threads: any. Waits for the kernel to bring in pages.
 * Since v22, inline. Source: ibv_advise_mr(3). See also: madvise(2).
 */
static inline int ibv_advise_mr(struct ibv_pd *pd, enum ibv_advise_mr_advice advice, uint32_t flags,
				struct ibv_sge *sg_list, uint32_t num_sge)
{
	struct verbs_context *vctx = verbs_get_ctx_op(pd->context, advise_mr);

	return vctx ? vctx->advise_mr(pd, advice, flags, sg_list, num_sge) : EOPNOTSUPP;
}

/**
 * Allocates memory in the way that suits the device best. For usrdma all memory does: these are pages of
 * the process, zeroed, taken when they are touched.
 *
 * *pd*: for MRs of which it will be; cannot be deallocated before the buffer is freed.
 * *size*: bytes, 1 to max_mr_size.
 * *buf*: set to a handle for ibv_reg_buf_mr() and ibv_free_buf().
 * Returns the memory, at the beginning of a page, or NULL with errno.
 * Errors: EINVAL: size out of range; ENOMEM: no memory; EIO: fork()ed child, or the daemon died.
 * Threads: any. Does not block.
 * Since IBVERBS_1.17. Source: ibv_alloc_buf(3). See also: ibv_reg_mr().
 */
void *ibv_alloc_buf(struct ibv_pd *pd, size_t size, struct ibv_buf **buf);

/**
 * Frees memory of ibv_alloc_buf().
 *
 * *buf*: of ibv_alloc_buf(); NULL: nothing happens.
 * Threads: any. Does not block.
 * State: an MR that still names the memory is one whose pages were unmapped; deregister it first.
 * Since IBVERBS_1.17. Source: ibv_alloc_buf(3). See also: ibv_dereg_mr().
 */
void ibv_free_buf(struct ibv_buf *buf);

/**
 * Registers memory of ibv_alloc_buf(), or a part of it, once or several times.
 *
 * *pd*: the one that *buf* was allocated for.
 * *buf*: of ibv_alloc_buf().
 * *addr*, *length*, *access*: as ibv_reg_mr(), all inside *buf*.
 * Returns the MR, or NULL with errno.
 * Errors: EINVAL: no buffer, another PD, outside the buffer, and as ibv_reg_mr(); EOPNOTSUPP, ENOMEM, EIO: as
 * ibv_reg_mr().
 * Threads: any. Does not block.
 * Since IBVERBS_1.17. Source: ibv_alloc_buf(3). See also: ibv_reg_mr(), ibv_reg_mr_ex().
 */
struct ibv_mr *ibv_reg_buf_mr(struct ibv_pd *pd, struct ibv_buf *buf, void *addr, size_t length,
			      int access);

/**
 * Makes a DMA handle, which tells a PCIe device where its writes are best placed. Not offered by usrdma: there
 * is no PCIe, and the CPU that moves the bytes places them.
 *
 * *context*, *attr*: device; hints.
 * Returns NULL with errno EOPNOTSUPP.
 * Threads: any. Does not block.
 * Since IBVERBS_1.15. Source: ibv_alloc_dmah(3). See also: ibv_reg_mr_ex().
 */
struct ibv_dmah *ibv_alloc_dmah(struct ibv_context *context, struct ibv_dmah_init_attr *attr);

/**
 * Destroys a DMA handle.
 *
 * *dmah*: of ibv_alloc_dmah().
 * Returns EOPNOTSUPP.
 * Threads: any. Does not block.
 * Since IBVERBS_1.15. Source: ibv_alloc_dmah(3).
 */
int ibv_dealloc_dmah(struct ibv_dmah *dmah);

/**
 * Allocates memory on the device. On usrdma it is memory of the process, zeroed.
 *
 * *context*, *attr*: device; length, 1 to max_dm_size bytes, alignment, at most a page, and comp_mask 0.
 * Returns the memory, owned by the caller until ibv_free_dm(); NULL with errno set.
 * Errors: EINVAL: length, alignment or comp_mask; ENOMEM; EIO: the device is gone.
 * Threads: any. Does not block.
 * Since v18, inline. Source: ibv_alloc_dm(3). See also: ibv_reg_dm_mr().
 */
static inline struct ibv_dm *ibv_alloc_dm(struct ibv_context *context,
					  struct ibv_alloc_dm_attr *attr)
{
	struct verbs_context *vctx = verbs_get_ctx_op(context, alloc_dm);

	if (vctx)
		return vctx->alloc_dm(context, attr);
	errno = EOPNOTSUPP;
	return NULL;
}

/**
 * Frees device memory.
 *
 * *dm*: of ibv_alloc_dm().
 * Returns 0, or EBUSY while an MR shows it.
 * Threads: any. Does not block.
 * Since v18, inline. Source: ibv_alloc_dm(3).
 */
static inline int ibv_free_dm(struct ibv_dm *dm)
{
	struct verbs_context *vctx = verbs_get_ctx_op(dm->context, free_dm);

	return vctx ? vctx->free_dm(dm) : EOPNOTSUPP;
}

/**
 * Copies into device memory: calls the function that ibv_alloc_dm() put into *dm*.
 *
 * *dm*, *dm_offset*, *host_addr*, *length*: device memory; bytes into it; source; bytes. Offset and length
 * are multiples of 4.
 * Returns 0, or EINVAL: not a multiple of 4, or outside.
 * Threads: any. Does not block.
 * Since v18, inline. Source: ibv_alloc_dm(3).
 */
static inline int ibv_memcpy_to_dm(struct ibv_dm *dm, uint64_t dm_offset, const void *host_addr,
				   size_t length)
{
	return dm->memcpy_to_dm(dm, dm_offset, host_addr, length);
}

/**
 * Copies out of device memory: calls the function that ibv_alloc_dm() put into *dm*.
 *
 * *host_addr*, *dm*, *dm_offset*, *length*: destination; device memory; bytes into it; bytes. Offset and
 * length are multiples of 4.
 * Returns 0, or EINVAL: not a multiple of 4, or outside.
 * Threads: any. Does not block.
 * Since v18, inline. Source: ibv_alloc_dm(3).
 */
static inline int ibv_memcpy_from_dm(void *host_addr, struct ibv_dm *dm, uint64_t dm_offset,
				     size_t length)
{
	return dm->memcpy_from_dm(host_addr, dm, dm_offset, length);
}

/**
 * Registers device memory. The MR's addresses count from 0.
 *
 * *pd*, *dm*, *dm_offset*, *length*, *access*: domain; device memory; bytes into it; bytes; enum
 * ibv_access_flags, IBV_ACCESS_ZERO_BASED among them.
 * Returns the MR, to be given to ibv_dereg_mr() before the memory is freed; NULL with errno set.
 * Errors: EINVAL: outside the memory, not zero-based, another context's PD; those of ibv_reg_mr().
 * Threads: any. Does not block.
 * Since v18, inline. Source: ibv_alloc_dm(3). See also: ibv_alloc_dm().
 */
static inline struct ibv_mr *ibv_reg_dm_mr(struct ibv_pd *pd, struct ibv_dm *dm, uint64_t dm_offset,
					   size_t length, unsigned int access)
{
	struct verbs_context *vctx = verbs_get_ctx_op(pd->context, reg_dm_mr);

	if (vctx)
		return vctx->reg_dm_mr(pd, dm, dm_offset, length, access);
	errno = EOPNOTSUPP;
	return NULL;
}

/**
 * A dma-buf for device memory. Not offered by usrdma.
 *
 * *dm*: of ibv_alloc_dm().
 * Returns -1 with errno EOPNOTSUPP.
 * Threads: any. Does not block.
 * Since IBVERBS_1.16. Source: ibv_alloc_dm(3).
 */
int ibv_dm_export_dmabuf_fd(struct ibv_dm *dm);

/* ---- Memory windows ---- */

/**
 * Makes a memory window, not bound yet: a part of an MR under an rkey of its own, which can be
 * made, moved and taken away by work requests.
 *
 * *pd*, *type*: domain, which cannot be deallocated before the window; enum ibv_mw_type. Type 1 is
 * bound by ibv_bind_mw() and serves every QP of the domain; type 2 by IBV_WR_BIND_MW or
 * ibv_wr_bind_mw(), under an rkey whose low 8 bits the application chooses, and serves the QP that
 * it was bound over (type 2A).
 * Returns the window, owned by the caller until ibv_dealloc_mw(); NULL with errno set.
 * Errors: EINVAL: no such type; ENOMEM, also with max_mw windows; EIO: a forked child's device, or the
 * device is gone.
 * Threads: any. Does not block.
 * Since v13, inline. Source: ibv_alloc_mw(3), IBA 1.x §10.6. See also: ibv_bind_mw().
 */
static inline struct ibv_mw *ibv_alloc_mw(struct ibv_pd *pd, enum ibv_mw_type type)
{
	if (pd->context->ops.alloc_mw)
		return pd->context->ops.alloc_mw(pd, type);
	errno = EOPNOTSUPP;
	return NULL;
}

/**
 * Destroys a memory window, bound or not: its rkey is good for nothing when the call returns.
 *
 * *mw*: of ibv_alloc_mw(); a bind that was posted and has not completed fails with
 * IBV_WC_MW_BIND_ERR.
 * Returns 0.
 * Threads: any. Does not block.
 * Since v13, inline. Source: ibv_alloc_mw(3), IBA 1.x §11.2.10.13.
 */
static inline int ibv_dealloc_mw(struct ibv_mw *mw)
{
	return mw->context->ops.dealloc_mw(mw);
}

/**
 * The next rkey for a type 2 memory window. Only the low 8 bits, the part that is the application's, count up.
 *
 * *rkey*: the present one.
 * Returns the next; 255 is followed by 0.
 * Threads: any. Pure.
 * Since v13, inline. Source: ibv_inc_rkey(3), IBA 1.x §10.6. See also: ibv_bind_mw().
 */
static inline uint32_t ibv_inc_rkey(uint32_t rkey)
{
	return (rkey & 0xffffff00u) | ((rkey + 1) & 0xffu);
}

/**
 * Binds a type 1 memory window to part of an MR, by a work request on a QP.
 *
 * *qp*, *mw*: RC or UC QP that may send, and the window; mw->rkey is the new rkey when the call
 * returns, and good once the bind has completed.
 * *mw_bind*: what to bind, copied; the MR must have IBV_ACCESS_MW_BIND, and IBV_ACCESS_LOCAL_WRITE
 * for a window that lets peers write. mr NULL with addr and length 0 unbinds.
 * Returns 0 or an errno.
 * Errors: EINVAL: window of type 2, a range without MR, access or send flags that a bind cannot have,
 * QP state or type; EPERM: MR and window of different PDs; ENOMEM: the send queue is full; EIO.
 * Completes as IBV_WC_BIND_MW; a bind that the MR does not permit with IBV_WC_MW_BIND_ERR, and the QP
 * errs. While a window is bound, ibv_dereg_mr() of its MR answers EBUSY.
 * Threads: any. Does not block.
 * Since v13, inline. Source: ibv_bind_mw(3), IBA 1.x §10.6. See also: IBV_WR_BIND_MW.
 */
static inline int ibv_bind_mw(struct ibv_qp *qp, struct ibv_mw *mw, struct ibv_mw_bind *mw_bind)
{
	const struct ibv_mw_bind_info *info = &mw_bind->bind_info;

	if (mw->type != IBV_MW_TYPE_1)
		return EINVAL;
	if (!info->mr && (info->addr || info->length))
		return EINVAL;
	if (info->mr && info->mr->pd != mw->pd)
		return EPERM;
	return mw->context->ops.bind_mw(qp, mw, mw_bind);
}

/* ---- Completion channels and queues ---- */

/**
 * Makes a completion channel: what CQs report events on, and a thread can sleep on.
 *
 * *context*: the device.
 * Returns the channel, or NULL with errno.
 * Errors: EMFILE, ENFILE: no file descriptor left; ENOMEM: no memory; EIO: the daemon is gone.
 * Threads: any. Does not block.
 * Since IBVERBS_1.0. Source: ibv_create_comp_channel(3), IBA 1.x §11.5. See also:
 * ibv_get_cq_event(), ibv_req_notify_cq().
 */
struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *context);

/**
 * Destroys a completion channel.
 *
 * *channel*: freed on success; its fd is closed.
 * Returns 0 or an errno.
 * Errors: EBUSY: a CQ still reports on it; nothing is changed.
 * Threads: any. Does not block.
 * Since IBVERBS_1.0. Source: ibv_create_comp_channel(3). See also: ibv_create_comp_channel().
 */
int ibv_destroy_comp_channel(struct ibv_comp_channel *channel);

/**
 * Makes a completion queue.
 *
 * *context*: the device.
 * *cqe*: completions it has to hold, 1 to max_cqe; ibv_cq.cqe says how many it became. Room costs
 * no memory until it is used.
 * *cq_context*: yours, given back by ibv_get_cq_event(); may be NULL.
 * *channel*: where events go, of the same context; NULL: none.
 * *comp_vector*: 0 to num_comp_vectors - 1; without effect.
 * Returns the CQ, or NULL with errno.
 * Errors: EINVAL: *cqe* or *comp_vector* out of range, or a channel of another context; ENOMEM: no memory, or max_cq
 * exist; EIO: the daemon is gone.
 * Threads: any. Does not block.
 * State: a CQ that overflows is dead: IBV_EVENT_CQ_ERR once, no more completions; what is in it can
 * still be polled. Each QP that loses a completion so enters ERR, with IBV_EVENT_QP_FATAL. Size it
 * for all WRs that can be outstanding on its QPs.
 * Since IBVERBS_1.1. Source: ibv_create_cq(3), IBA 1.x §11.2. See also: ibv_create_cq_ex(),
 * ibv_resize_cq(), ibv_destroy_cq().
 */
struct ibv_cq *ibv_create_cq(struct ibv_context *context, int cqe, void *cq_context,
			     struct ibv_comp_channel *channel, int comp_vector);

/**
 * Makes a completion queue to be read in place.
 *
 * *context*: the device.
 * *cq_attr*: size, channel, what completions are to carry.
 * Returns the CQ, or NULL with errno. ibv_wc_read_*() calls may be used for what wc_flags asked
 * for only.
 * Errors: as ibv_create_cq(); EINVAL also for unknown bits in comp_mask or flags, or a parent domain that is
 * none; EOPNOTSUPP: wc_flags asks for CVLAN, FLOW_TAG, TM_INFO or what is unknown.
 * Threads: any. Does not block. With IBV_CREATE_CQ_ATTR_SINGLE_THREADED only one thread at a time
 * may poll.
 * State: with IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN a full CQ loses its oldest completions instead of
 * dying.
 * Since v13, inline. Source: ibv_create_cq_ex(3), IBA 1.x §11.2. See also: ibv_start_poll(),
 * ibv_cq_ex_to_cq().
 */
static inline struct ibv_cq_ex *ibv_create_cq_ex(struct ibv_context *context,
						 struct ibv_cq_init_attr_ex *cq_attr)
{
	struct verbs_context *vctx = verbs_get_ctx_op(context, create_cq_ex);

	if (vctx)
		return vctx->create_cq_ex(context, cq_attr);
	errno = EOPNOTSUPP;
	return NULL;
}

/**
 * The same CQ for calls that take a struct ibv_cq.
 *
 * *cq*: of ibv_create_cq_ex().
 * Returns it.
 * Threads: any. Pure.
 * Since v13, inline. Source: ibv_create_cq_ex(3). See also: ibv_create_cq_ex().
 */
static inline struct ibv_cq *ibv_cq_ex_to_cq(struct ibv_cq_ex *cq)
{
	return (struct ibv_cq *)cq;
}

/**
 * Changes a CQ's size. What it holds stays, in order.
 *
 * *cq*: the CQ; its cqe is updated.
 * *cqe*: completions it has to hold, 1 to max_cqe.
 * Returns 0 or an errno.
 * Errors: EINVAL: out of range, or fewer than the CQ holds now; ENOMEM: no memory; EIO: the daemon is gone. The CQ is
 * then as before.
 * Threads: any, also while others poll and work completes. Does not block.
 * Since IBVERBS_1.1. Source: ibv_resize_cq(3), IBA 1.x §11.2. See also: ibv_create_cq().
 */
int ibv_resize_cq(struct ibv_cq *cq, int cqe);

/**
 * Changes a CQ's event moderation: an event that ibv_req_notify_cq() asked for comes when cq_count
 * completions of the kind that was asked for are there, or the first of them is cq_period old,
 * whichever is earlier. It says nothing about when completions can be polled, which is at once.
 *
 * *cq*: any; without a channel it has no events.
 * *attr*: attr_mask is IBV_CQ_ATTR_MODERATE, or 0 for nothing; moderate: see struct ibv_moderate_cq. Up to
 * the cq_mod_caps of ibv_query_device_ex().
 * Returns 0 or an errno.
 * Errors: EINVAL: an unknown bit in attr_mask; EIO: in a fork()ed child. Nothing is changed then.
 * Threads: any. Does not block.
 * State: what is waiting goes by the new values from now on; with both 0 its event comes at once.
 * Since v16, inline. Source: ibv_modify_cq(3). See also: ibv_req_notify_cq(), ibv_query_device_ex().
 */
static inline int ibv_modify_cq(struct ibv_cq *cq, struct ibv_modify_cq_attr *attr)
{
	struct verbs_context *vctx = verbs_get_ctx_op(cq->context, modify_cq);

	return vctx ? vctx->modify_cq(cq, attr) : EOPNOTSUPP;
}

/**
 * Destroys a completion queue, with the completions and events that nobody took.
 *
 * *cq*: freed on success.
 * Returns 0 or an errno.
 * Errors: EBUSY: a QP uses it; nothing is changed.
 * Threads: any. Blocks until every event that was taken (ibv_get_cq_event(),
 * ibv_get_async_event()) is acknowledged; do not call it with one unacknowledged in the same
 * thread. After two seconds USRDMA_LOG=warn says so.
 * Since IBVERBS_1.1. Source: ibv_create_cq(3), IBA 1.x §11.2. See also: ibv_ack_cq_events().
 */
int ibv_destroy_cq(struct ibv_cq *cq);

/**
 * Takes the oldest event of a completion channel.
 *
 * *channel*: the channel.
 * *cq*, *cq_context*: set to the CQ that it is of, and that CQ's context.
 * Returns 0, or -1 with errno.
 * Errors: EAGAIN: none waits, and the channel's fd is O_NONBLOCK; EINTR: a signal came while waiting; EIO: in a
 * fork()ed child.
 * Threads: any; each event goes to one caller. Blocks until there is one, unless fd is O_NONBLOCK.
 * fd is readable as long as events wait.
 * State: the CQ is no longer armed; call ibv_req_notify_cq() again, then poll it empty. It cannot
 * be destroyed before ibv_ack_cq_events().
 * Since IBVERBS_1.1. Source: ibv_get_cq_event(3), IBA 1.x §11.5. See also: ibv_req_notify_cq(),
 * ibv_ack_cq_events().
 */
int ibv_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq, void **cq_context);

/**
 * Acknowledges completion events, so that the CQ may be destroyed.
 *
 * *cq*: the CQ.
 * *nevents*: how many of its events; acknowledging in bulk is cheaper, for each call takes a
 * mutex.
 * Threads: any. Does not block; wakes a thread that waits in ibv_destroy_cq().
 * Since IBVERBS_1.1. Source: ibv_get_cq_event(3). See also: ibv_get_cq_event(), ibv_destroy_cq().
 */
void ibv_ack_cq_events(struct ibv_cq *cq, unsigned int nevents);

/**
 * Arms a CQ: the next completion makes one event on its channel.
 *
 * *cq*: the CQ. Without a channel nothing happens.
 * *solicited_only*: not 0: only completions of receives whose sender set IBV_SEND_SOLICITED, and
 * failures. If both kinds were asked for, any completion counts.
 * Returns 0 or an errno.
 * Errors: EIO: in a fork()ed child.
 * Threads: any. Does not block.
 * State: completions that are in the CQ already make no event: poll after arming.
 * Events: one on the channel (ibv_get_cq_event()), which disarms.
 * Since v13, inline. Source: ibv_req_notify_cq(3), IBA 1.x §11.4.2.2. See also:
 * ibv_get_cq_event().
 */
static inline int ibv_req_notify_cq(struct ibv_cq *cq, int solicited_only)
{
	return cq->context->ops.req_notify_cq(cq, solicited_only);
}

/**
 * Takes completions out of a CQ, oldest first.
 *
 * *cq*: the CQ.
 * *num_entries*: room in *wc*.
 * *wc*: filled from the start.
 * Returns how many, 0 if the CQ is empty. usrdma never answers the negative number that the call
 * can in general answer for failure.
 * Threads: any; each completion goes to one caller. Does not block. On an empty CQ it carries the
 * process's communication forward for a moment; progress does not depend on it.
 * State: the slots that the WRs took in the work queues are free once their completion (or a later
 * one of the same queue) was taken.
 * Since v13, inline. Source: ibv_poll_cq(3), IBA 1.x §11.4.2.1. See also: ibv_req_notify_cq(),
 * struct ibv_wc.
 */
static inline int ibv_poll_cq(struct ibv_cq *cq, int num_entries, struct ibv_wc *wc)
{
	return cq->context->ops.poll_cq(cq, num_entries, wc);
}

/**
 * Begins to read a CQ in place, at its oldest completion.
 *
 * *cq*: of ibv_create_cq_ex().
 * *attr*: comp_mask is 0.
 * Returns 0: cq->status, cq->wr_id and the ibv_wc_read_*() calls are about that completion, until
 * ibv_next_poll() or ibv_end_poll(). Else an errno, and ibv_end_poll() must not be called.
 * Errors: ENOENT: the CQ is empty; EINVAL: comp_mask is not 0; EIO: in a fork()ed child.
 * Threads: one at a time between ibv_start_poll() and ibv_end_poll(); other threads wait there,
 * unless the CQ is IBV_CREATE_CQ_ATTR_SINGLE_THREADED. Other verbs calls may be made in between.
 * Since v13, inline. Source: ibv_create_cq_ex(3), IBA 1.x §11.4.2.1. See also: ibv_next_poll(),
 * ibv_end_poll().
 */
static inline int ibv_start_poll(struct ibv_cq_ex *cq, struct ibv_poll_cq_attr *attr)
{
	return cq->start_poll(cq, attr);
}

/**
 * Goes on to the next completion.
 *
 * *cq*: between ibv_start_poll() and ibv_end_poll().
 * Returns 0, or ENOENT: there are no more; ibv_end_poll() is still due.
 * Threads: that of ibv_start_poll(). Does not block.
 * Since v13, inline. Source: ibv_create_cq_ex(3). See also: ibv_start_poll().
 */
static inline int ibv_next_poll(struct ibv_cq_ex *cq)
{
	return cq->next_poll(cq);
}

/**
 * Ends what ibv_start_poll() began. The completions that were read are gone from the CQ.
 *
 * *cq*: the CQ.
 * Threads: that of ibv_start_poll(). Does not block.
 * Since v13, inline. Source: ibv_create_cq_ex(3). See also: ibv_start_poll().
 */
static inline void ibv_end_poll(struct ibv_cq_ex *cq)
{
	cq->end_poll(cq);
}

/**
 * Reads the current completion of a CQ in place. This and the calls beside it may be made between
 * ibv_start_poll() and ibv_end_poll(), in the thread that made the former. ibv_wc_read_opcode()
 * tells what completed. Those that need a flag need it in ibv_cq_init_attr_ex.wc_flags; without,
 * what they answer means nothing. After a failure only status, wr_id, vendor_err and qp_num
 * count.
 *
 * *cq*: the CQ, of ibv_create_cq_ex().
 * Returns enum ibv_wc_opcode.
 * Threads: that of ibv_start_poll(). Does not block.
 * State: a completion is current: ibv_start_poll() or ibv_next_poll() answered 0.
 * Since v13, inline. Source: ibv_create_cq_ex(3), IBA 1.x §11.4.2.1. See also: ibv_start_poll(),
 * enum ibv_wc_opcode, enum ibv_wc_flags.
 */
static inline enum ibv_wc_opcode ibv_wc_read_opcode(struct ibv_cq_ex *cq)
{
	return cq->read_opcode(cq);
}

/**
 * Tells which check failed, as ibv_wc.vendor_err.
 *
 * Returns the number of the check; 0 on success.
 * Since v13, inline. Page: ibv_wc_read_opcode().
 */
static inline uint32_t ibv_wc_read_vendor_err(struct ibv_cq_ex *cq)
{
	return cq->read_vendor_err(cq);
}

/**
 * Tells how much was received or read. Needs the flag BYTE_LEN.
 *
 * Returns the number of bytes; for atomics 8.
 * Since v13, inline. Page: ibv_wc_read_opcode().
 */
static inline uint32_t ibv_wc_read_byte_len(struct ibv_cq_ex *cq)
{
	return cq->read_byte_len(cq);
}

/**
 * Tells the immediate data, if ibv_wc_read_wc_flags() has IBV_WC_WITH_IMM. Needs the flag IMM.
 *
 * Returns the 4 bytes as on the wire.
 * Since v13, inline. Page: ibv_wc_read_opcode().
 */
static inline __be32 ibv_wc_read_imm_data(struct ibv_cq_ex *cq)
{
	return cq->read_imm_data(cq);
}

/**
 * Tells which rkey the peer took out of use, if ibv_wc_read_wc_flags() has IBV_WC_WITH_INV. Needs
 * the flag IMM.
 *
 * Returns the rkey.
 * Since v15, inline. Page: ibv_wc_read_opcode().
 */
static inline uint32_t ibv_wc_read_invalidated_rkey(struct ibv_cq_ex *cq)
{
	return cq->read_imm_data(cq);
}

/**
 * Tells the local QP. Needs the flag QP_NUM.
 *
 * Returns its QPN.
 * Since v13, inline. Page: ibv_wc_read_opcode().
 */
static inline uint32_t ibv_wc_read_qp_num(struct ibv_cq_ex *cq)
{
	return cq->read_qp_num(cq);
}

/**
 * Tells the sender, for receives on UD. Needs the flag SRC_QP.
 *
 * Returns its QPN.
 * Since v13, inline. Page: ibv_wc_read_opcode().
 */
static inline uint32_t ibv_wc_read_src_qp(struct ibv_cq_ex *cq)
{
	return cq->read_src_qp(cq);
}

/**
 * Tells what else the completion carries.
 *
 * Returns enum ibv_wc_flags.
 * Since v13, inline. Page: ibv_wc_read_opcode().
 */
static inline unsigned int ibv_wc_read_wc_flags(struct ibv_cq_ex *cq)
{
	return cq->read_wc_flags(cq);
}

/**
 * Tells the sender's LID. Needs the flag SLID.
 *
 * Returns the LID: 0 on RoCE.
 * Since v13, inline. Page: ibv_wc_read_opcode().
 */
static inline uint32_t ibv_wc_read_slid(struct ibv_cq_ex *cq)
{
	return cq->read_slid(cq);
}

/**
 * Tells the service level. Needs the flag SL.
 *
 * Returns the level: 0 on RoCE.
 * Since v13, inline. Page: ibv_wc_read_opcode().
 */
static inline uint8_t ibv_wc_read_sl(struct ibv_cq_ex *cq)
{
	return cq->read_sl(cq);
}

/**
 * Tells the low bits of the LID that was addressed. Needs the flag DLID_PATH_BITS.
 *
 * Returns the bits: 0 on RoCE.
 * Since v13, inline. Page: ibv_wc_read_opcode().
 */
static inline uint8_t ibv_wc_read_dlid_path_bits(struct ibv_cq_ex *cq)
{
	return cq->read_dlid_path_bits(cq);
}

/**
 * Tells when the work completed. Needs the flag COMPLETION_TIMESTAMP.
 *
 * Returns the time in units of ibv_device_attr_ex.hca_core_clock: on usrdma nanoseconds of
 * CLOCK_MONOTONIC.
 * Since v13, inline. Page: ibv_wc_read_opcode().
 */
static inline uint64_t ibv_wc_read_completion_ts(struct ibv_cq_ex *cq)
{
	return cq->read_completion_ts(cq);
}

/**
 * Tells when the work completed. Needs the flag COMPLETION_TIMESTAMP_WALLCLOCK.
 *
 * Returns nanoseconds since 1970.
 * Since v17, inline. Page: ibv_wc_read_opcode().
 */
static inline uint64_t ibv_wc_read_completion_wallclock_ns(struct ibv_cq_ex *cq)
{
	return cq->read_completion_wallclock_ns(cq);
}

/**
 * Tells the packet's VLAN tag. Needs the flag CVLAN, which usrdma does not offer.
 *
 * Returns the tag.
 * Since v14, inline. Page: ibv_wc_read_opcode().
 */
static inline uint16_t ibv_wc_read_cvlan(struct ibv_cq_ex *cq)
{
	return cq->read_cvlan(cq);
}

/**
 * Tells the flow rule's tag. Needs the flag FLOW_TAG, which usrdma does not offer.
 *
 * Returns the tag.
 * Since v14, inline. Page: ibv_wc_read_opcode().
 */
static inline uint32_t ibv_wc_read_flow_tag(struct ibv_cq_ex *cq)
{
	return cq->read_flow_tag(cq);
}

/**
 * Tells the message's tag and application word. Needs the flag TM_INFO, which usrdma does not
 * offer.
 *
 * *tm_info*: filled in.
 * Since v16, inline. Page: ibv_wc_read_opcode().
 */
static inline void ibv_wc_read_tm_info(struct ibv_cq_ex *cq, struct ibv_wc_tm_info *tm_info)
{
	cq->read_tm_info(cq, tm_info);
}

/* ---- Shared receive queues ---- */

/**
 * Makes a shared receive queue.
 *
 * *pd*: its protection domain, of which the memory is that its receives name; QPs of any domain of the
 * device can use it.
 * *srq_init_attr*: attr.max_wr and max_sge come back as what they became, not less.
 * Returns the SRQ, or NULL with errno.
 * Errors: EINVAL: max_wr or max_sge is 0 or over max_srq_wr or max_srq_sge; ENOMEM: no memory, or max_srq exist; EIO:
 * the daemon is gone.
 * Threads: any. Does not block.
 * Since IBVERBS_1.1. Source: ibv_create_srq(3), IBA 1.x §11.2. See also: ibv_post_srq_recv(),
 * ibv_modify_srq(), ibv_destroy_srq().
 */
struct ibv_srq *ibv_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *srq_init_attr);

/**
 * Makes a shared receive queue of any type.
 *
 * *context*: the device.
 * *srq_init_attr_ex*: with TYPE absent or IBV_SRQT_BASIC and PD, and nothing more, it is
 * ibv_create_srq(). IBV_SRQT_XRC wants XRCD and CQ as well: senders reach it by its number through
 * any XRC receive QP of the domain, its PD says what they may, and its receives complete to the CQ.
 * Returns the SRQ, or NULL with errno.
 * Errors: as ibv_create_srq(); EINVAL also for unknown bits, no PD, or of XRC no xrcd or cq, or one
 * of another context; EOPNOTSUPP: type TM, which usrdma does not offer.
 * Threads: any. Does not block.
 * Since v13, inline. Source: ibv_create_srq_ex(3). See also: ibv_create_srq().
 */
static inline struct ibv_srq *ibv_create_srq_ex(struct ibv_context *context,
						struct ibv_srq_init_attr_ex *srq_init_attr_ex)
{
	struct verbs_context *vctx;
	uint32_t mask = srq_init_attr_ex->comp_mask;
	int is_basic = !(mask & IBV_SRQ_INIT_ATTR_TYPE) ||
		       srq_init_attr_ex->srq_type == IBV_SRQT_BASIC;

	if (is_basic &&
	    (mask | IBV_SRQ_INIT_ATTR_TYPE) == (IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_TYPE))
		return ibv_create_srq(srq_init_attr_ex->pd,
				      (struct ibv_srq_init_attr *)srq_init_attr_ex);
	vctx = verbs_get_ctx_op(context, create_srq_ex);
	if (vctx)
		return vctx->create_srq_ex(context, srq_init_attr_ex);
	errno = EOPNOTSUPP;
	return NULL;
}

/**
 * Resizes an SRQ, or arms its limit event.
 *
 * *srq*: the SRQ.
 * *srq_attr*: max_wr, srq_limit.
 * *srq_attr_mask*: enum ibv_srq_attr_mask: which of them count.
 * Returns 0 or an errno.
 * Errors: EINVAL: unknown bit; max_wr is 0, over max_srq_wr, below an armed limit, or fewer than
 * are posted; srq_limit over max_wr; ENOMEM: no memory; EIO: the daemon is gone. Nothing is then changed.
 * Threads: any. Does not block.
 * Events: IBV_EVENT_SRQ_LIMIT_REACHED once, when fewer than srq_limit WRs are left, at once if it
 * is so already. That disarms it.
 * Since IBVERBS_1.1. Source: ibv_modify_srq(3), IBA 1.x §11.2. See also: ibv_query_srq().
 */
int ibv_modify_srq(struct ibv_srq *srq, struct ibv_srq_attr *srq_attr, int srq_attr_mask);

/**
 * Asks for an SRQ's attributes.
 *
 * *srq*: the SRQ.
 * *srq_attr*: filled in; srq_limit is 0 if not armed, or if the event has come.
 * Returns 0 or an errno.
 * Errors: EIO: in a fork()ed child.
 * Threads: any. Does not block.
 * Since IBVERBS_1.1. Source: ibv_query_srq(3), IBA 1.x §11.2. See also: ibv_modify_srq().
 */
int ibv_query_srq(struct ibv_srq *srq, struct ibv_srq_attr *srq_attr);

/**
 * The number by which XRC senders name an SRQ.
 *
 * *srq*: one of type IBV_SRQT_XRC.
 * *srq_num*: set to its number, of 24 bits.
 * Returns 0 or an errno.
 * Errors: EOPNOTSUPP: an SRQ of another type, which has none.
 * Threads: any. Does not block.
 * Since v13, inline. Source: ibv_get_srq_num(3), IBA A14.
 */
static inline int ibv_get_srq_num(struct ibv_srq *srq, uint32_t *srq_num)
{
	struct verbs_context *vctx = verbs_get_ctx_op(srq->context, get_srq_num);

	return vctx ? vctx->get_srq_num(srq, srq_num) : EOPNOTSUPP;
}

/**
 * Destroys a shared receive queue, with the WRs that nobody took; they do not complete.
 *
 * *srq*: freed on success.
 * Returns 0 or an errno.
 * Errors: EBUSY: a QP uses it; nothing is changed.
 * Threads: any. Blocks until every event of it that was taken is acknowledged.
 * Since IBVERBS_1.1. Source: ibv_create_srq(3), IBA 1.x §11.2. See also: ibv_ack_async_event().
 */
int ibv_destroy_srq(struct ibv_srq *srq);

/**
 * Posts receive work requests to an SRQ.
 *
 * *srq*: the SRQ.
 * *recv_wr*: list, in order; copied.
 * *bad_recv_wr*: on failure set to the first WR that was not posted; those before it are.
 * Returns 0 or an errno.
 * Errors: EINVAL: more SGEs than the SRQ's max_sge, or fewer than 0; ENOMEM: the SRQ is full; EIO:
 * in a fork()ed child.
 * Threads: any. Does not block.
 * Events: each WR completes on the receive CQ of the QP that takes it.
 * Since v13, inline. Source: ibv_post_srq_recv(3), IBA 1.x §11.4.1. See also: ibv_post_recv().
 */
static inline int ibv_post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *recv_wr,
				    struct ibv_recv_wr **bad_recv_wr)
{
	return srq->context->ops.post_srq_recv(srq, recv_wr, bad_recv_wr);
}

/**
 * Works on the tag list of a tag matching SRQ. Not offered by usrdma.
 *
 * *srq*, *op*, *bad_op*: SRQ; list; set to *op*.
 * Returns EOPNOTSUPP.
 * Threads: any. Does not block.
 * Since v16, inline. Source: ibv_post_srq_ops(3). See also: ibv_create_srq_ex().
 */
static inline int ibv_post_srq_ops(struct ibv_srq *srq, struct ibv_ops_wr *op,
				   struct ibv_ops_wr **bad_op)
{
	struct verbs_context *vctx = verbs_get_ctx_op(srq->context, post_srq_ops);

	if (vctx)
		return vctx->post_srq_ops(srq, op, bad_op);
	*bad_op = op;
	return EOPNOTSUPP;
}

/* ---- Queue pairs ---- */

/**
 * Makes a queue pair, in state RESET.
 *
 * *pd*: its protection domain.
 * *qp_init_attr*: CQs of the same context, type, sizes; cap comes back as what it became, not
 * less. With an srq, its receive sizes are 0.
 * Returns the QP, or NULL with errno.
 * Errors: EINVAL: a size over max_qp_wr, max_sge or the inline limit, no send_cq or recv_cq, an
 * object of another context, an srq on a UC QP or one of type XRC, no such type, or
 * IBV_QPT_XRC_RECV, which wants ibv_create_qp_ex(); EOPNOTSUPP: a type that usrdma does not offer;
 * ENOMEM: no memory, or max_qp exist; EIO: the daemon is gone.
 * Threads: any. Does not block.
 * State: nothing can be posted before ibv_modify_qp() to INIT.
 * Since IBVERBS_1.1. Source: ibv_create_qp(3), IBA 1.x §11.2. See also: ibv_create_qp_ex(),
 * ibv_modify_qp(), ibv_destroy_qp(), rdma_create_qp().
 */
struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *qp_init_attr);

/**
 * Makes a queue pair, with more choice.
 *
 * *context*: the device.
 * *qp_init_attr_ex*: with PD alone in comp_mask it is ibv_create_qp(); with SEND_OPS_FLAGS the QP
 * takes ibv_wr_*() calls, those that send_ops_flags names. IBV_QPT_XRC_SEND receives nothing: recv_cq,
 * srq and the receive sizes do not count. IBV_QPT_XRC_RECV wants XRCD and nothing else, and nothing
 * can be posted to it: each message that comes in is for the SRQ that it names.
 * Returns the QP, or NULL with errno.
 * Errors: as ibv_create_qp(); EINVAL also for unknown bits in comp_mask, no PD, XRCD for another type
 * than XRC_RECV, or an xrcd of another context; EOPNOTSUPP also for an operation that the type lacks,
 * for TSO or RSS, and for create_flags but IBV_QP_CREATE_BLOCK_SELF_MCAST_LB of a UD QP.
 * Threads: any. Does not block.
 * Since v13, inline. Source: ibv_create_qp_ex(3), IBA 1.x §11.2. See also: ibv_qp_to_qp_ex().
 */
static inline struct ibv_qp *ibv_create_qp_ex(struct ibv_context *context,
					      struct ibv_qp_init_attr_ex *qp_init_attr_ex)
{
	struct verbs_context *vctx;

	if (qp_init_attr_ex->comp_mask == IBV_QP_INIT_ATTR_PD)
		return ibv_create_qp(qp_init_attr_ex->pd,
				     (struct ibv_qp_init_attr *)qp_init_attr_ex);
	vctx = verbs_get_ctx_op(context, create_qp_ex);
	if (vctx)
		return vctx->create_qp_ex(context, qp_init_attr_ex);
	errno = EOPNOTSUPP;
	return NULL;
}

/**
 * The same QP for the ibv_wr_*() calls.
 *
 * *qp*: the QP.
 * Returns it, or NULL if it was not made with IBV_QP_INIT_ATTR_SEND_OPS_FLAGS.
 * Threads: any. Pure.
 * Since IBVERBS_1.6. Source: ibv_wr_post(3). See also: ibv_create_qp_ex(), ibv_wr_start().
 */
struct ibv_qp_ex *ibv_qp_to_qp_ex(struct ibv_qp *qp);

/**
 * Joins an XRC receive QP: another handle of it, with events of its own, for ibv_modify_qp(),
 * ibv_query_qp() and ibv_destroy_qp(), which ends the QP when it is called on the last handle. The QP
 * may be of another process; then it ends with that process at the latest, and the handle has
 * IBV_EVENT_QP_FATAL.
 *
 * *context*: the device.
 * *qp_open_attr*: NUM, XRCD and TYPE: a QP of this number in this domain, of IBV_QPT_XRC_RECV;
 * perhaps CONTEXT.
 * Returns the QP, or NULL with errno.
 * Errors: EINVAL: a member is missing or unknown, another type, an xrcd of another context, or no
 * such QP in the domain; ENOMEM: no memory; EIO: the daemon is gone, or was the QP's process while
 * it was asked; ETIMEDOUT: that process answers nothing.
 * Threads: any. Blocks while the QP's process answers, if that is another, for 5 seconds at most; so
 * do the other calls on such a handle.
 * Since v13, inline. Source: ibv_open_qp(3), IBA A14.
 */
static inline struct ibv_qp *ibv_open_qp(struct ibv_context *context,
					 struct ibv_qp_open_attr *qp_open_attr)
{
	struct verbs_context *vctx = verbs_get_ctx_op(context, open_qp);

	if (vctx)
		return vctx->open_qp(context, qp_open_attr);
	errno = EOPNOTSUPP;
	return NULL;
}

/**
 * Moves a QP to another state and sets its attributes.
 *
 * *qp*: the QP; its state is updated if IBV_QP_STATE is set.
 * *attr*: the values.
 * *attr_mask*: enum ibv_qp_attr_mask: which of them count. All of a transition's required
 * attributes must be there, and nothing that is neither required nor permitted. Without
 * IBV_QP_STATE the QP stays in its state.
 *
 * Required, and permitted in brackets, besides IBV_QP_STATE:
 *
 * - to RESET or ERR from any state: nothing [nothing]
 * - RESET to INIT: PKEY_INDEX, PORT, ACCESS_FLAGS
 * - INIT to INIT: [PKEY_INDEX, PORT, ACCESS_FLAGS]
 * - INIT to RTR: AV, PATH_MTU, DEST_QPN, RQ_PSN; RC also MAX_DEST_RD_ATOMIC, MIN_RNR_TIMER
 *   [ALT_PATH, ACCESS_FLAGS, PKEY_INDEX]
 * - RTR to RTS: SQ_PSN; RC also TIMEOUT, RETRY_CNT, RNR_RETRY, MAX_QP_RD_ATOMIC [CUR_STATE,
 *   ACCESS_FLAGS, ALT_PATH, PATH_MIG_STATE; RC also MIN_RNR_TIMER]
 * - RTS to RTS, SQD to RTS: what RTR to RTS permits
 * - RTS to SQD: [EN_SQD_ASYNC_NOTIFY]
 * - SQD to SQD: [AV, ACCESS_FLAGS, PKEY_INDEX, ALT_PATH, PATH_MIG_STATE; RC also PORT, TIMEOUT,
 *   RETRY_CNT, RNR_RETRY, MAX_QP_RD_ATOMIC, MAX_DEST_RD_ATOMIC, MIN_RNR_TIMER]
 * - SQE to RTS, on UC: [CUR_STATE, ACCESS_FLAGS]
 *
 * XRC is as RC, but what is the other half's does not count: MAX_DEST_RD_ATOMIC and MIN_RNR_TIMER
 * of XRC_SEND, MAX_QP_RD_ATOMIC, RETRY_CNT and RNR_RETRY of XRC_RECV.
 *
 * And on UD:
 *
 * - RESET to INIT: PKEY_INDEX, PORT, QKEY
 * - INIT to INIT: [PKEY_INDEX, PORT, QKEY]
 * - INIT to RTR: [PKEY_INDEX, QKEY]
 * - RTR to RTS: SQ_PSN [CUR_STATE, QKEY]
 * - RTS to RTS, SQD to RTS, SQE to RTS: [CUR_STATE, QKEY]
 * - RTS to SQD: [EN_SQD_ASYNC_NOTIFY]
 * - SQD to SQD: [PKEY_INDEX, QKEY]
 *
 * Returns 0 or an errno; on failure nothing is changed.
 * Errors: EINVAL: not such a transition, CUR_STATE is not the state now, or a value out of range
 * (port, GID or P_Key index, MTU over the port's, …); EOPNOTSUPP: nothing carries traffic to that
 * address, or ALT_PATH; ENOMEM: no memory; EIO: the daemon is gone, or the process whose QP was
 * joined by ibv_open_qp(); ETIMEDOUT: that process answers nothing.
 * Threads: any. INIT to RTR may wait for the daemon, which finds out where the peer lives; nothing
 * waits for the peer.
 * State: RESET empties both queues and forgets what the QP has in its CQs; ERR completes all that
 * is queued with IBV_WC_WR_FLUSH_ERR. A QP can also enter ERR by itself; ibv_qp.state does not
 * tell, ibv_query_qp() does.
 * Events: IBV_EVENT_SQ_DRAINED after RTS to SQD, if asked for; IBV_EVENT_QP_LAST_WQE_REACHED on
 * ERR, with an SRQ.
 * Since IBVERBS_1.1. Source: ibv_modify_qp(3), IBA 1.x §11.2, §10.3.1. See also: ibv_query_qp(),
 * rdma_init_qp_attr().
 */
int ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int attr_mask);

/**
 * Asks for a QP's state and attributes.
 *
 * *qp*: the QP; its state is updated.
 * *attr*: filled in.
 * *attr_mask*: enum ibv_qp_attr_mask: what is needed at least; usrdma fills in everything that is
 * set.
 * *init_attr*: filled in as ibv_create_qp() left it.
 * Returns 0 or an errno.
 * Errors: EIO: in a fork()ed child, or the process whose QP was joined by ibv_open_qp() is gone;
 * ETIMEDOUT: that process answers nothing.
 * Threads: any. Does not block, but for a QP of another process (ibv_open_qp()).
 * Since IBVERBS_1.1. Source: ibv_query_qp(3), IBA 1.x §11.2. See also: ibv_modify_qp().
 */
int ibv_query_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int attr_mask,
		 struct ibv_qp_init_attr *init_attr);

/**
 * Destroys a queue pair. What is queued does not complete, and its completions that nobody took
 * are gone, from CQs that stay too: who awaits one polls first. USRDMA_LOG=debug says how many
 * went.
 *
 * *qp*: freed on success. Its peer notices when it next sends, or is told by the connection
 * manager.
 * Returns 0 or an errno.
 * Errors: EBUSY: it is in a multicast group (ibv_detach_mcast()).
 * Threads: any. Blocks until every event of it that was taken is acknowledged.
 * Since IBVERBS_1.1. Source: ibv_create_qp(3), IBA 1.x §11.2. See also: ibv_ack_async_event().
 */
int ibv_destroy_qp(struct ibv_qp *qp);

/**
 * Limits a QP's rate. Not offered by usrdma.
 *
 * *qp*, *attr*: QP; rate and bursts.
 * Returns EOPNOTSUPP.
 * Threads: any. Does not block.
 * Since v18, inline. Source: ibv_modify_qp_rate_limit(3).
 */
static inline int ibv_modify_qp_rate_limit(struct ibv_qp *qp, struct ibv_qp_rate_limit_attr *attr)
{
	struct verbs_context *vctx = verbs_get_ctx_op(qp->context, modify_qp_rate_limit);

	return vctx ? vctx->modify_qp_rate_limit(qp, attr) : EOPNOTSUPP;
}

/**
 * Asks whether the bytes of a message become visible in their order. If so, the last one can be polled for.
 *
 * *qp*, *op*: QP; opcode that is asked about.
 * *flags*: enum ibv_query_qp_data_in_order_flags.
 * Returns 0: usrdma promises no order within a message, on any QP. (Else 1, or with RETURN_CAPS a
 * mask of enum ibv_query_qp_data_in_order_caps.)
 * Threads: any. Does not block.
 * Since IBVERBS_1.14. Source: ibv_query_qp_data_in_order(3). See also: ibv_poll_cq().
 */
int ibv_query_qp_data_in_order(struct ibv_qp *qp, enum ibv_wr_opcode op, uint32_t flags);

/**
 * Proposes vendor options for a connection. Not offered by usrdma, whose QPs have none, as those of
 * Linux's software devices.
 *
 * *qp*, *ece*: QP in INIT; options.
 * Returns EOPNOTSUPP.
 * Threads: any. Does not block.
 * Since IBVERBS_1.10. Source: ibv_set_ece(3). See also: rdma_set_local_ece().
 */
int ibv_set_ece(struct ibv_qp *qp, struct ibv_ece *ece);

/**
 * Asks for the vendor options of a connection. Not offered by usrdma, whose QPs have none, as those
 * of Linux's software devices.
 *
 * *qp*, *ece*: QP; left alone.
 * Returns EOPNOTSUPP.
 * Threads: any. Does not block.
 * Since IBVERBS_1.10. Source: ibv_query_ece(3). See also: rdma_get_remote_ece().
 */
int ibv_query_ece(struct ibv_qp *qp, struct ibv_ece *ece);

/* ---- Posting ---- */

/**
 * Posts work requests to a QP's send queue.
 *
 * *qp*: in RTS; also in SQD (they wait), SQE and ERR (they are flushed).
 * *wr*: list, in order; copied. The memory of its SGEs is in use until completion, but with
 * IBV_SEND_INLINE it was copied too.
 * *bad_wr*: on failure set to the first WR that was not posted; those before it are.
 * Returns 0 or an errno.
 * Errors: EINVAL: state before RTS, an opcode that the QP type lacks, too many SGEs, inline data
 * longer than max_inline_data or on a READ or atomic, on UD no AH or a QPN of more than 24 bits,
 * IBV_WR_FLUSH, for whose types there is no member (ibv_wr_flush());
 * ENOMEM: the queue is full; EIO: in a fork()ed child.
 * Threads: any; lists of two threads do not mix. Does not block. On one host WRITEs, READs and
 * atomics may be carried out by the call itself.
 * Events: a completion on send_cq for each WR that is signaled or fails. Bad keys, lengths and
 * rights are found when the WR is carried out, and are a completion's status, not an errno.
 * Since v13, inline. Source: ibv_post_send(3), IBA 1.x §11.4.1.1. See also: enum ibv_wr_opcode,
 * enum ibv_send_flags, enum ibv_wc_status, ibv_poll_cq().
 */
static inline int ibv_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr,
				struct ibv_send_wr **bad_wr)
{
	return qp->context->ops.post_send(qp, wr, bad_wr);
}

/**
 * Posts work requests to a QP's receive queue.
 *
 * *qp*: not in RESET, and without an SRQ. In ERR they are flushed.
 * *wr*: list, in order; copied.
 * *bad_wr*: on failure set to the first WR that was not posted; those before it are.
 * Returns 0 or an errno.
 * Errors: EINVAL: state RESET, an SRQ, too many SGEs; ENOMEM: the queue is full; EIO: in a
 * fork()ed child.
 * Threads: any. Does not block.
 * Events: each WR makes one completion on recv_cq: a message came, or a WRITE with immediate, or a
 * failure.
 * Since v13, inline. Source: ibv_post_recv(3), IBA 1.x §11.4.1. See also: ibv_post_srq_recv().
 */
static inline int ibv_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr,
				struct ibv_recv_wr **bad_wr)
{
	return qp->context->ops.post_recv(qp, wr, bad_wr);
}

/**
 * Begins a batch of work requests. For each: set qp->wr_id and qp->wr_flags, call an operation
 * (ibv_wr_send() …), then its setters (ibv_wr_set_sge() …). Nothing is sent before
 * ibv_wr_complete().
 *
 * *qp*: of ibv_qp_to_qp_ex().
 * Threads: the batch belongs to the calling thread; others that post to any QP wait until it is
 * completed or aborted. One thread may have batches on several QPs open, and make any other call
 * in between, but for ibv_post_send() and ibv_bind_mw() on the same QP, which answer EINVAL.
 * State: the same as for ibv_post_send().
 * Since v24, inline. Source: ibv_wr_post(3), IBA 1.x §11.4.1.1. See also: ibv_wr_complete(),
 * ibv_wr_abort(), ibv_post_send().
 */
static inline void ibv_wr_start(struct ibv_qp_ex *qp)
{
	qp->wr_start(qp);
}

/**
 * Posts the batch.
 *
 * *qp*: after ibv_wr_start().
 * Returns 0, or the errno of the first call of the batch that failed; then nothing of the batch is
 * posted.
 * Errors: EINVAL, ENOMEM, EIO as ibv_post_send(); EINVAL also for an operation that is not in
 * send_ops_flags, or a setter that does not suit; EOPNOTSUPP: an operation that usrdma does not
 * offer.
 * Threads: that of ibv_wr_start(). Does not block.
 * Events: as ibv_post_send().
 * Since v24, inline. Source: ibv_wr_post(3). See also: ibv_wr_start().
 */
static inline int ibv_wr_complete(struct ibv_qp_ex *qp)
{
	return qp->wr_complete(qp);
}

/**
 * Drops the batch: nothing of it is posted.
 *
 * *qp*: after ibv_wr_start().
 * Threads: that of ibv_wr_start(). Does not block.
 * Since v24, inline. Source: ibv_wr_post(3). See also: ibv_wr_start().
 */
static inline void ibv_wr_abort(struct ibv_qp_ex *qp)
{
	qp->wr_abort(qp);
}

/**
 * Compares 8 bytes of the peer with a value and, if they are equal, replaces them
 * (IBV_WR_ATOMIC_CMP_AND_SWP). One SGE of 8 bytes takes what was there.
 *
 * *rkey*, *remote_addr*: key and address of the peer's memory, the address a multiple of 8.
 * *compare*: what has to be there, in host order.
 * *swap*: what takes its place, in host order.
 * Since v24, inline. Page: ibv_wr_send().
 */
static inline void ibv_wr_atomic_cmp_swp(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t remote_addr,
					 uint64_t compare, uint64_t swap)
{
	qp->wr_atomic_cmp_swp(qp, rkey, remote_addr, compare, swap);
}

/**
 * Adds to 8 bytes of the peer (IBV_WR_ATOMIC_FETCH_AND_ADD). One SGE of 8 bytes takes what was
 * there.
 *
 * *rkey*, *remote_addr*: key and address of the peer's memory, the address a multiple of 8.
 * *add*: what to add, in host order.
 * Since v24, inline. Page: ibv_wr_send().
 */
static inline void ibv_wr_atomic_fetch_add(struct ibv_qp_ex *qp, uint32_t rkey,
					   uint64_t remote_addr, uint64_t add)
{
	qp->wr_atomic_fetch_add(qp, rkey, remote_addr, add);
}

/**
 * Writes 8 bytes that are seen whole or not at all (IBV_WR_ATOMIC_WRITE), on RC. It needs REMOTE_WRITE
 * of MR and QP, takes effect behind earlier WRITEs and FLUSHes, and counts in max_rd_atomic.
 *
 * *rkey*, *remote_addr*: key and address of the peer's memory, the address a multiple of 8; another one
 * ends with IBV_WC_REM_INV_REQ_ERR.
 * *atomic_wr*: the 8 bytes, as they are to lie there; copied. No data setter follows.
 * Since v44, inline. Source: IBA A19. Page: ibv_wr_send().
 */
static inline void ibv_wr_atomic_write(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t remote_addr,
				       const void *atomic_wr)
{
	qp->wr_atomic_write(qp, rkey, remote_addr, atomic_wr);
}

/**
 * Binds a type 2 memory window, as IBV_WR_BIND_MW does.
 *
 * *mw*: the window.
 * *rkey*: its new rkey, of ibv_inc_rkey().
 * *bind_info*: what it is to show.
 * Since v24, inline. Page: ibv_wr_send().
 */
static inline void ibv_wr_bind_mw(struct ibv_qp_ex *qp, struct ibv_mw *mw, uint32_t rkey,
				  const struct ibv_mw_bind_info *bind_info)
{
	qp->wr_bind_mw(qp, mw, rkey, bind_info);
}

/**
 * Brings earlier WRITEs of the QP to where all see them, or where they last (IBV_WR_FLUSH), on RC. It
 * needs IBV_ACCESS_FLUSH_GLOBAL or _PERSISTENT, as its types are, of MR and QP, and counts in
 * max_rd_atomic. Memory of a usrdma device is that of a process: all see it at once, and it does not
 * outlive the power, so it refuses IBV_FLUSH_PERSISTENT (IBV_WC_REM_INV_REQ_ERR); a peer of another make
 * may take it.
 *
 * *rkey*, *remote_addr*: key and address of the peer's memory.
 * *len*: bytes, less than 2^32; address and length mean nothing for IBV_FLUSH_MR.
 * *type*: enum ibv_placement_type, at least one. No data setter follows.
 * *level*: enum ibv_selectivity_level.
 * Errors, of ibv_wr_complete(): EINVAL: no type, an unknown one or level, or a longer range.
 * Since v45, inline. Source: IBA A19. Page: ibv_wr_send().
 */
static inline void ibv_wr_flush(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t remote_addr,
				size_t len, uint8_t type, uint8_t level)
{
	qp->wr_flush(qp, rkey, remote_addr, len, type, level);
}

/**
 * Takes an rkey of ours out of use (IBV_WR_LOCAL_INV).
 *
 * *invalidate_rkey*: that of a type 2 memory window. Any other key fails with IBV_WC_MW_BIND_ERR.
 * Since v24, inline. Page: ibv_wr_send().
 */
static inline void ibv_wr_local_inv(struct ibv_qp_ex *qp, uint32_t invalidate_rkey)
{
	qp->wr_local_inv(qp, invalidate_rkey);
}

/**
 * Reads the peer's memory into our SGEs (IBV_WR_RDMA_READ).
 *
 * *rkey*, *remote_addr*: key and address of the peer's memory.
 * Since v24, inline. Page: ibv_wr_send().
 */
static inline void ibv_wr_rdma_read(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t remote_addr)
{
	qp->wr_rdma_read(qp, rkey, remote_addr);
}

/**
 * Writes our SGEs or inline data to the peer's memory (IBV_WR_RDMA_WRITE).
 *
 * *rkey*, *remote_addr*: key and address of the peer's memory.
 * Since v24, inline. Page: ibv_wr_send().
 */
static inline void ibv_wr_rdma_write(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t remote_addr)
{
	qp->wr_rdma_write(qp, rkey, remote_addr);
}

/**
 * Writes to the peer's memory and completes one of its receives (IBV_WR_RDMA_WRITE_WITH_IMM).
 *
 * *rkey*, *remote_addr*: key and address of the peer's memory.
 * *imm_data*: 4 bytes for that completion, as on the wire.
 * Since v24, inline. Page: ibv_wr_send().
 */
static inline void ibv_wr_rdma_write_imm(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t remote_addr,
					 __be32 imm_data)
{
	qp->wr_rdma_write_imm(qp, rkey, remote_addr, imm_data);
}

/**
 * Adds an operation to the batch of work requests that ibv_wr_start() began. This and the
 * operations beside it take wr_id and wr_flags from *qp*, where they are set before, and are
 * followed by their setters (see ibv_wr_set_sge()). Their bit must be in send_ops_flags.
 * ibv_wr_send() sends a message.
 *
 * *qp*: the QP, after ibv_wr_start().
 * Threads: that of ibv_wr_start(). Does not block.
 * State: what is wrong with an operation is answered by ibv_wr_complete().
 * Events: as those of ibv_post_send().
 * Since v24, inline. Source: ibv_wr_post(3), IBA 1.x §11.4.1.1. See also: ibv_wr_start(),
 * ibv_wr_complete(), ibv_post_send(), enum ibv_wr_opcode, enum ibv_send_flags.
 */
static inline void ibv_wr_send(struct ibv_qp_ex *qp)
{
	qp->wr_send(qp);
}

/**
 * Sends a message with immediate data (IBV_WR_SEND_WITH_IMM).
 *
 * *imm_data*: 4 bytes, as on the wire.
 * Since v24, inline. Page: ibv_wr_send().
 */
static inline void ibv_wr_send_imm(struct ibv_qp_ex *qp, __be32 imm_data)
{
	qp->wr_send_imm(qp, imm_data);
}

/**
 * Sends a message and takes an rkey of the peer's out of use (IBV_WR_SEND_WITH_INV).
 *
 * *invalidate_rkey*: that of a type 2 memory window at the peer.
 * Since v24, inline. Page: ibv_wr_send().
 */
static inline void ibv_wr_send_inv(struct ibv_qp_ex *qp, uint32_t invalidate_rkey)
{
	qp->wr_send_inv(qp, invalidate_rkey);
}

/**
 * Sends a large frame in segments (IBV_WR_TSO). Not offered by usrdma.
 *
 * *hdr*, *hdr_sz*: the header and its bytes.
 * *mss*: payload bytes of a segment.
 * Since v24, inline. Page: ibv_wr_send().
 */
static inline void ibv_wr_send_tso(struct ibv_qp_ex *qp, void *hdr, uint16_t hdr_sz, uint16_t mss)
{
	qp->wr_send_tso(qp, hdr, hdr_sz, mss);
}

/**
 * Tells where the message goes. For UD.
 *
 * *ah*: the address, of the QP's PD.
 * *remote_qpn*, *remote_qkey*: the peer's QPN, 24 bits, and Q_Key; with the Q_Key's high bit set the
 * QP's own is sent. Each message is told once, or the batch fails with EINVAL.
 * Since v24, inline. Page: ibv_wr_set_sge().
 */
static inline void ibv_wr_set_ud_addr(struct ibv_qp_ex *qp, struct ibv_ah *ah, uint32_t remote_qpn,
				      uint32_t remote_qkey)
{
	qp->wr_set_ud_addr(qp, ah, remote_qpn, remote_qkey);
}

/**
 * Names the peer's SRQ, once for each operation of an XRC QP.
 *
 * *remote_srqn*: its number at the peer (ibv_get_srq_num()), of 24 bits.
 * Since v24, inline. Page: ibv_wr_set_sge().
 */
static inline void ibv_wr_set_xrc_srqn(struct ibv_qp_ex *qp, uint32_t remote_srqn)
{
	qp->wr_set_xrc_srqn(qp, remote_srqn);
}

/**
 * Gives the bytes themselves, which are copied by the call.
 *
 * *addr*: any memory; NULL if *length* is 0.
 * *length*: bytes, up to max_inline_data.
 * Since v24, inline. Page: ibv_wr_set_sge().
 */
static inline void ibv_wr_set_inline_data(struct ibv_qp_ex *qp, void *addr, size_t length)
{
	qp->wr_set_inline_data(qp, addr, length);
}

/**
 * Gives the bytes themselves, from several places; they are copied by the call.
 *
 * *num_buf*: how many places.
 * *buf_list*: the places, together up to max_inline_data bytes.
 * Since v24, inline. Page: ibv_wr_set_sge().
 */
static inline void ibv_wr_set_inline_data_list(struct ibv_qp_ex *qp, size_t num_buf,
					       const struct ibv_data_buf *buf_list)
{
	qp->wr_set_inline_data_list(qp, num_buf, buf_list);
}

/**
 * Tells the operation before it what it needs: a setter. One of those that name data is due for
 * each operation that moves any; UD and XRC have one more. ibv_wr_set_sge() names one piece of
 * registered memory.
 *
 * *qp*: the QP, after an operation such as ibv_wr_send().
 * *lkey*, *addr*, *length*: as in struct ibv_sge.
 * Threads: that of ibv_wr_start(). Does not block.
 * State: what is wrong is answered by ibv_wr_complete().
 * Since v24, inline. Source: ibv_wr_post(3). See also: ibv_wr_start(), ibv_wr_send(), struct
 * ibv_sge, struct ibv_data_buf.
 */
static inline void ibv_wr_set_sge(struct ibv_qp_ex *qp, uint32_t lkey, uint64_t addr,
				  uint32_t length)
{
	qp->wr_set_sge(qp, lkey, addr, length);
}

/**
 * Names pieces of registered memory.
 *
 * *num_sge*: how many, up to max_send_sge.
 * *sg_list*: the pieces, in order; copied.
 * Since v24, inline. Page: ibv_wr_set_sge().
 */
static inline void ibv_wr_set_sge_list(struct ibv_qp_ex *qp, size_t num_sge,
				       const struct ibv_sge *sg_list)
{
	qp->wr_set_sge_list(qp, num_sge, sg_list);
}

/* ---- Work queues and RSS ---- */

/**
 * Makes a receive queue of its own. Not offered by usrdma (max_wq_type_rq is 0).
 *
 * *context*, *wq_init_attr*: device; type, sizes, PD and CQ.
 * Returns NULL with errno EOPNOTSUPP.
 * Threads: any. Does not block.
 * Since v13, inline. Source: ibv_create_wq(3). See also: ibv_create_srq().
 */
static inline struct ibv_wq *ibv_create_wq(struct ibv_context *context,
					   struct ibv_wq_init_attr *wq_init_attr)
{
	struct verbs_context *vctx = verbs_get_ctx_op(context, create_wq);
	struct ibv_wq *wq;

	if (!vctx) {
		errno = EOPNOTSUPP;
		return NULL;
	}
	wq = vctx->create_wq(context, wq_init_attr);
	if (!wq)
		return NULL;
	wq->wq_context = wq_init_attr->wq_context;
	wq->events_completed = 0;
	pthread_mutex_init(&wq->mutex, NULL);
	pthread_cond_init(&wq->cond, NULL);
	return wq;
}

/**
 * Changes a WQ's state or flags.
 *
 * *wq*, *wq_attr*: of ibv_create_wq(); what to change.
 * Returns EOPNOTSUPP.
 * Threads: any. Does not block.
 * Since v13, inline. Source: ibv_modify_wq(3).
 */
static inline int ibv_modify_wq(struct ibv_wq *wq, struct ibv_wq_attr *wq_attr)
{
	struct verbs_context *vctx = verbs_get_ctx_op(wq->context, modify_wq);

	return vctx ? vctx->modify_wq(wq, wq_attr) : EOPNOTSUPP;
}

/**
 * Destroys a WQ.
 *
 * *wq*: of ibv_create_wq().
 * Returns EOPNOTSUPP.
 * Threads: any. Does not block.
 * Since v13, inline. Source: ibv_create_wq(3).
 */
static inline int ibv_destroy_wq(struct ibv_wq *wq)
{
	struct verbs_context *vctx = verbs_get_ctx_op(wq->context, destroy_wq);

	return vctx ? vctx->destroy_wq(wq) : EOPNOTSUPP;
}

/**
 * Posts receive work requests to a WQ: calls the function that ibv_create_wq() put into it.
 *
 * *wq*, *recv_wr*, *bad_recv_wr*: of ibv_create_wq(); as ibv_post_recv().
 * Returns 0 or an errno.
 * Threads: any. Does not block.
 * Since v13, inline. Source: ibv_create_wq(3).
 */
static inline int ibv_post_wq_recv(struct ibv_wq *wq, struct ibv_recv_wr *recv_wr,
				   struct ibv_recv_wr **bad_recv_wr)
{
	return wq->post_recv(wq, recv_wr, bad_recv_wr);
}

/**
 * Makes an indirection table for receive side scaling. Not offered by usrdma.
 *
 * *context*, *init_attr*: device; the WQs.
 * Returns NULL with errno EOPNOTSUPP.
 * Threads: any. Does not block.
 * Since v13, inline. Source: ibv_create_rwq_ind_table(3).
 */
static inline struct ibv_rwq_ind_table *
ibv_create_rwq_ind_table(struct ibv_context *context, struct ibv_rwq_ind_table_init_attr *init_attr)
{
	struct verbs_context *vctx = verbs_get_ctx_op(context, create_rwq_ind_table);

	if (vctx)
		return vctx->create_rwq_ind_table(context, init_attr);
	errno = EOPNOTSUPP;
	return NULL;
}

/**
 * Destroys an indirection table.
 *
 * *rwq_ind_table*: of ibv_create_rwq_ind_table().
 * Returns EOPNOTSUPP.
 * Threads: any. Does not block.
 * Since v13, inline. Source: ibv_create_rwq_ind_table(3).
 */
static inline int ibv_destroy_rwq_ind_table(struct ibv_rwq_ind_table *rwq_ind_table)
{
	struct verbs_context *vctx = verbs_get_ctx_op(rwq_ind_table->context,
						      destroy_rwq_ind_table);

	return vctx ? vctx->destroy_rwq_ind_table(rwq_ind_table) : EOPNOTSUPP;
}

/* ---- Address handles and multicast ---- */

/**
 * Makes an address handle, for UD sends.
 *
 * *pd*: its protection domain.
 * *attr*: the peer's address, or a multicast group: grh with a filled sgid_index, port_num,
 * is_global 1.
 * Returns the AH, or NULL with errno.
 * Errors: EINVAL: is_global is 0, no such port, an empty or missing GID table entry, sl out
 * of range, one address is IPv4 and the other is not; EOPNOTSUPP: nothing carries
 * traffic to that address; ENOMEM: no memory; EIO: the daemon is gone.
 * Threads: any. May wait for the daemon, which knows the addresses of this machine; not for a peer.
 * Since IBVERBS_1.1. Source: ibv_create_ah(3), IBA 1.x §11.2.2. See also: ibv_create_ah_from_wc(),
 * ibv_destroy_ah().
 */
struct ibv_ah *ibv_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *attr);

/**
 * Makes the address of a UD message's sender, from its completion.
 *
 * *context*, *port_num*: device; port, from 1.
 * *wc*: the receive's completion, with IBV_WC_GRH.
 * *grh*: the first 40 bytes of the receive: an IPv6 header, or 20 bytes and an IPv4 header.
 * *ah_attr*: filled in on success.
 * Returns 0, or -1 with errno.
 * Errors: EINVAL: no such port, no IBV_WC_GRH, or no header; ENOENT: the message was not addressed to a GID
 * of the port; EIO: in a fork()ed child.
 * Threads: any. May ask the daemon, if it said that something changed.
 * Since IBVERBS_1.1. Source: ibv_create_ah_from_wc(3), IBA A17. See also: ibv_create_ah_from_wc().
 */
int ibv_init_ah_from_wc(struct ibv_context *context, uint8_t port_num, struct ibv_wc *wc,
			struct ibv_grh *grh, struct ibv_ah_attr *ah_attr);

/**
 * Makes an address handle for the sender of a UD message.
 *
 * *pd*: its protection domain.
 * *wc*, *grh*, *port_num*: as ibv_init_ah_from_wc().
 * Returns the AH, or NULL with errno.
 * Errors: as ibv_init_ah_from_wc() and ibv_create_ah().
 * Threads: any. May ask the daemon, if it said that something changed.
 * Since IBVERBS_1.1. Source: ibv_create_ah_from_wc(3). See also: ibv_create_ah().
 */
struct ibv_ah *ibv_create_ah_from_wc(struct ibv_pd *pd, struct ibv_wc *wc, struct ibv_grh *grh,
				     uint8_t port_num);

/**
 * Destroys an address handle.
 *
 * *ah*: freed. Sends that name it and are still queued are sent all the same.
 * Returns 0.
 * Threads: any. Does not block.
 * Since IBVERBS_1.1. Source: ibv_create_ah(3), IBA 1.x §11.2.2. See also: ibv_create_ah().
 */
int ibv_destroy_ah(struct ibv_ah *ah);

/**
 * Finds the MAC address and VLAN behind a GID. Not offered by usrdma: its packets go through the
 * host's IP stack, which does this itself.
 *
 * *context*, *attr*: device; the address.
 * *eth_mac*, *vid*: set on success.
 * Returns EOPNOTSUPP.
 * Threads: any. Does not block.
 * Since IBVERBS_1.1. Source: rdma-core's header; there is no manual page.
 */
int ibv_resolve_eth_l2_from_gid(struct ibv_context *context, struct ibv_ah_attr *attr,
				uint8_t eth_mac[ETHERNET_LL_SIZE], uint16_t *vid);

/**
 * Attaches a UD QP to a multicast group: from here on it gets a copy of what is sent to the group,
 * what it sends itself included unless it was made with IBV_QP_CREATE_BLOCK_SELF_MCAST_LB.
 *
 * *qp*: a UD QP, in any state. It can be destroyed only when it is in no group any more.
 * *gid*: the group: an IPv6 address of ff00::/8, or an IPv4 one of 224.0.0.0/4 as ::ffff:a.b.c.d.
 * The machine joins it on the interface of the QP's device, by IGMP or MLD.
 * *lid*: of no meaning on RoCE.
 * Returns 0, also for a QP that is in the group already, or an errno.
 * Errors: EINVAL: not a UD QP, or not a group; ENOMEM: more groups or QPs than ibv_query_device()
 * says, or no memory; EOPNOTSUPP: no RoCE to other hosts here, because UDP port 4791 is taken or by
 * USRDMA_TRANSPORT; ENODEV: the interface is gone; EIO: the daemon is gone, or in a fork()ed child.
 * Threads: any. Does not block.
 * Since IBVERBS_1.1. Source: ibv_attach_mcast(3), IBA 1.x §10.5, §11.3. See also:
 * ibv_detach_mcast(), rdma_join_multicast().
 */
int ibv_attach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid);

/**
 * Takes a UD QP out of a multicast group. The machine leaves the group with the last QP of the
 * process.
 *
 * *qp*, *gid*, *lid*: as ibv_attach_mcast().
 * Returns 0 or an errno.
 * Errors: EINVAL: the QP is not in that group; EIO: in a fork()ed child.
 * Threads: any. Does not block.
 * Since IBVERBS_1.1. Source: ibv_attach_mcast(3), IBA 1.x §11.3. See also: ibv_attach_mcast().
 */
int ibv_detach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid);

/* UDP source ports that RoCE v2 packets use, and the bits of a flow label. */
#define IB_ROCE_UDP_ENCAP_VALID_PORT_MIN (0xC000)
#define IB_ROCE_UDP_ENCAP_VALID_PORT_MAX (0xFFFF)
#define IB_GRH_FLOWLABEL_MASK		 (0x000FFFFF)

/**
 * The UDP source port of RoCE v2 packets with a flow label: all 20 bits have a say in it.
 *
 * *fl*: flow label, 20 bits.
 * Returns a port from IB_ROCE_UDP_ENCAP_VALID_PORT_MIN up.
 * Threads: any. Pure.
 * Since v29, inline. Source: IBA A17. See also: ibv_global_route.flow_label.
 */
static inline uint16_t ibv_flow_label_to_udp_sport(uint32_t fl)
{
	uint32_t folded = (fl & 0x3fff) ^ ((fl & 0xfc000) >> 14);

	return (uint16_t)(folded | IB_ROCE_UDP_ENCAP_VALID_PORT_MIN);
}

/* ---- Flow steering and counters ---- */

/**
 * Steers packets that match a rule to a raw packet QP. Not offered by usrdma.
 *
 * *qp*, *flow*: QP; the rule.
 * Returns NULL with errno EOPNOTSUPP.
 * Threads: any. Does not block.
 * Since v13, inline. Source: ibv_create_flow(3).
 */
static inline struct ibv_flow *ibv_create_flow(struct ibv_qp *qp, struct ibv_flow_attr *flow)
{
	struct verbs_context *vctx = verbs_get_ctx_op(qp->context, ibv_create_flow);

	if (vctx)
		return vctx->ibv_create_flow(qp, flow);
	errno = EOPNOTSUPP;
	return NULL;
}

/**
 * Removes a flow rule.
 *
 * *flow_id*: of ibv_create_flow().
 * Returns EOPNOTSUPP.
 * Threads: any. Does not block.
 * Since v13, inline. Source: ibv_create_flow(3).
 */
static inline int ibv_destroy_flow(struct ibv_flow *flow_id)
{
	struct verbs_context *vctx = verbs_get_ctx_op(flow_id->context, ibv_destroy_flow);

	return vctx ? vctx->ibv_destroy_flow(flow_id) : EOPNOTSUPP;
}

/**
 * Makes an IPsec ESP action for flow rules. Not offered by usrdma.
 *
 * *ctx*, *esp*: device; keys, replay window, encapsulation.
 * Returns NULL with errno EOPNOTSUPP.
 * Threads: any. Does not block.
 * Since v18, inline. Source: ibv_create_flow_action(3).
 */
static inline struct ibv_flow_action *
ibv_create_flow_action_esp(struct ibv_context *ctx, struct ibv_flow_action_esp_attr *esp)
{
	struct verbs_context *vctx = verbs_get_ctx_op(ctx, create_flow_action_esp);

	if (vctx)
		return vctx->create_flow_action_esp(ctx, esp);
	errno = EOPNOTSUPP;
	return NULL;
}

/**
 * Changes an ESP action.
 *
 * *action*, *esp*: of ibv_create_flow_action_esp(); what to change.
 * Returns EOPNOTSUPP.
 * Threads: any. Does not block.
 * Since v18, inline. Source: ibv_create_flow_action(3).
 */
static inline int ibv_modify_flow_action_esp(struct ibv_flow_action *action,
					     struct ibv_flow_action_esp_attr *esp)
{
	struct verbs_context *vctx = verbs_get_ctx_op(action->context, modify_flow_action_esp);

	return vctx ? vctx->modify_flow_action_esp(action, esp) : EOPNOTSUPP;
}

/**
 * Destroys a flow action.
 *
 * *action*: of ibv_create_flow_action_esp().
 * Returns EOPNOTSUPP.
 * Threads: any. Does not block.
 * Since v18, inline. Source: ibv_create_flow_action(3).
 */
static inline int ibv_destroy_flow_action(struct ibv_flow_action *action)
{
	struct verbs_context *vctx = verbs_get_ctx_op(action->context, destroy_flow_action);

	return vctx ? vctx->destroy_flow_action(action) : EOPNOTSUPP;
}

/**
 * Makes a set of counters for flow rules. Not offered by usrdma, which has no flow rules that could count
 * (ibv_create_flow()); what a process sends and receives is counted for `usrdma status`.
 *
 * *context*, *init_attr*: device; comp_mask is 0.
 * Returns NULL with errno EOPNOTSUPP.
 * Threads: any. Does not block.
 * Since v19, inline. Source: ibv_create_counters(3).
 */
static inline struct ibv_counters *ibv_create_counters(struct ibv_context *context,
						       struct ibv_counters_init_attr *init_attr)
{
	struct verbs_context *vctx = verbs_get_ctx_op(context, create_counters);

	if (vctx)
		return vctx->create_counters(context, init_attr);
	errno = EOPNOTSUPP;
	return NULL;
}

/**
 * Destroys a set of counters.
 *
 * *counters*: of ibv_create_counters().
 * Returns EOPNOTSUPP.
 * Threads: any. Does not block.
 * Since v19, inline. Source: ibv_create_counters(3).
 */
static inline int ibv_destroy_counters(struct ibv_counters *counters)
{
	struct verbs_context *vctx = verbs_get_ctx_op(counters->context, destroy_counters);

	return vctx ? vctx->destroy_counters(counters) : EOPNOTSUPP;
}

/**
 * Has a counter count what a flow rule takes.
 *
 * *counters*, *attr*, *flow*: of ibv_create_counters(); what to count; the rule.
 * Returns EOPNOTSUPP.
 * Threads: any. Does not block.
 * Since v19, inline. Source: ibv_attach_counters_point_flow(3).
 */
static inline int ibv_attach_counters_point_flow(struct ibv_counters *counters,
						 struct ibv_counter_attach_attr *attr,
						 struct ibv_flow *flow)
{
	struct verbs_context *vctx = verbs_get_ctx_op(counters->context,
						      attach_counters_point_flow);

	return vctx ? vctx->attach_counters_point_flow(counters, attr, flow) : EOPNOTSUPP;
}

/**
 * Reads a set of counters.
 *
 * *counters*, *counters_value*, *ncounters*, *flags*: of ibv_create_counters(); array and its
 * length; enum ibv_read_counters_flags.
 * Returns EOPNOTSUPP.
 * Threads: any. Does not block.
 * Since v19, inline. Source: ibv_read_counters(3).
 */
static inline int ibv_read_counters(struct ibv_counters *counters, uint64_t *counters_value,
				    uint32_t ncounters, uint32_t flags)
{
	struct verbs_context *vctx = verbs_get_ctx_op(counters->context, read_counters);

	return vctx ? vctx->read_counters(counters, counters_value, ncounters, flags) : EOPNOTSUPP;
}

/* ---- Names and conversions ---- */

/**
 * A completion status in words, as rdma-core has them.
 *
 * *status*: any value.
 * Returns a string that lives as long as the process; "unknown" for what is no status. Never NULL.
 * Threads: any. Pure.
 * Since IBVERBS_1.1. Source: ibv_poll_cq(3). See also: enum ibv_wc_status.
 */
const char *ibv_wc_status_str(enum ibv_wc_status status);

/**
 * An opcode in words.
 *
 * *opcode*: any value.
 * Returns a string that lives as long as the process; "unknown" for what is not an opcode. Never NULL.
 * Threads: any. Pure.
 * Since IBVERBS_PRIVATE_64, where rdma-core has it. Source: rdma-core's header. See also: enum
 * ibv_wr_opcode.
 */
const char *ibv_wr_opcode_str(enum ibv_wr_opcode opcode);

/**
 * A node type in words.
 *
 * *node_type*: any value.
 * Returns a string that lives as long as the process; "unknown" for what is not a node type. Never NULL.
 * Threads: any. Pure.
 * Since IBVERBS_1.1. Source: ibv_node_type_str(3). See also: enum ibv_node_type.
 */
const char *ibv_node_type_str(enum ibv_node_type node_type);

/**
 * A port state in words.
 *
 * *port_state*: any value.
 * Returns a string that lives as long as the process; "unknown" for what is not a port state. Never NULL.
 * Threads: any. Pure.
 * Since IBVERBS_1.1. Source: ibv_node_type_str(3). See also: enum ibv_port_state.
 */
const char *ibv_port_state_str(enum ibv_port_state port_state);

/**
 * An asynchronous event in words.
 *
 * *event*: any value.
 * Returns a string that lives as long as the process; "unknown" for what is not an event. Never NULL.
 * Threads: any. Pure.
 * Since IBVERBS_1.1. Source: ibv_node_type_str(3). See also: enum ibv_event_type.
 */
const char *ibv_event_type_str(enum ibv_event_type event);

/**
 * A static rate as a multiple of 2.5 Gbit/s: 2 for IBV_RATE_5_GBPS.
 *
 * *rate*: any value.
 * Returns the multiple, or -1 if the rate has none.
 * Threads: any. Pure.
 * Since IBVERBS_1.0. Source: ibv_rate_to_mult(3), IBA 1.x §9.11.1. See also: ibv_rate_to_mbps().
 */
int __attribute_const ibv_rate_to_mult(enum ibv_rate rate);

/**
 * The static rate that is a multiple of 2.5 Gbit/s.
 *
 * *mult*: the multiple.
 * Returns the rate, or IBV_RATE_MAX if there is none.
 * Threads: any. Pure.
 * Since IBVERBS_1.0. Source: ibv_rate_to_mult(3). See also: ibv_rate_to_mult().
 */
enum ibv_rate __attribute_const mult_to_ibv_rate(int mult);

/**
 * A static rate in Mbit/s. It is 5000 for IBV_RATE_5_GBPS, the coded rate of the newer ones (103125 for
 * IBV_RATE_100_GBPS).
 *
 * *rate*: any value.
 * Returns the rate, or -1 for IBV_RATE_MAX and what is no rate.
 * Threads: any. Pure.
 * Since IBVERBS_1.1. Source: ibv_rate_to_mbps(3). See also: ibv_rate_to_mult().
 */
int __attribute_const ibv_rate_to_mbps(enum ibv_rate rate);

/**
 * The static rate of so many Mbit/s.
 *
 * *mbps*: exactly as ibv_rate_to_mbps() answers it.
 * Returns the rate, or IBV_RATE_MAX if there is none.
 * Threads: any. Pure.
 * Since IBVERBS_1.1. Source: ibv_rate_to_mbps(3). See also: ibv_rate_to_mbps().
 */
enum ibv_rate __attribute_const mbps_to_ibv_rate(int mbps);

/**
 * Whether a QP type is in a mask such as ibv_tso_caps.supported_qpts.
 *
 * *caps*, *qpt*: mask; enum ibv_qp_type.
 * Returns 1 or 0.
 * Threads: any. Pure.
 * Since v13, inline. Source: ibv_query_device_ex(3).
 */
static inline int ibv_is_qpt_supported(uint32_t caps, enum ibv_qp_type qpt)
{
	return (unsigned int)qpt < 32 && ((caps >> qpt) & 1);
}

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif

#undef __attribute_const

#endif /* INFINIBAND_VERBS_H */
