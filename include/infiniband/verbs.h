/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Verbs: devices, memory, queues and work requests of RDMA.
 *
 * The pages describe usrdma, which implements the interface of rdma-core and the InfiniBand
 * Architecture Specification on a software device. The following holds for every call, unless its
 * page states otherwise:
 *
 * - A call that returns int returns 0 on success and a positive errno value on failure. A call that
 * returns a pointer returns NULL and sets errno on failure. ibv_query_gid, ibv_query_pkey,
 * ibv_get_pkey_index, ibv_get_cq_event, ibv_get_async_event, ibv_init_ah_from_wc and
 * ibv_dm_export_dmabuf_fd return -1 and set errno on failure.
 * - Pointers must not be NULL. A structure that is passed to a call is read or filled during the
 * call only. An object that a call returns belongs to the caller until the corresponding destroying
 * call returns 0. It must be destroyed before the objects from which it was created.
 * - Any thread may make any call at any time. No thread may use an object during or after its
 * destruction. No call is async-signal-safe.
 * - "Does not block" means that the call does not wait for the application, for peers or for I/O.
 * It may take short internal locks.
 * - EOPNOTSUPP: the device does not have the feature. Hardware without the feature reports the same
 * error.
 * - EIO: the call has to change an object and the daemon has ended (see IBV_EVENT_DEVICE_FATAL), or
 * the object was created before fork() and this process is the child.
 * - A structure with a comp_mask can have further members in later versions. The mask states which
 * of these members the caller has set. Unknown bits fail with EINVAL or EOPNOTSUPP.
 * - __be16, __be32 and __be64 are in network byte order. All other integers are in host byte order.
 * - "Since" names the symbol version of an exported call. Inline calls are not exported; they call
 * the library through struct verbs_context. "Since" then names the version of rdma-core in which
 * they appeared.
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
 * A GID: 16 bytes in network byte order with the form of an IPv6 address. RoCE v2 GIDs are the IPv6
 * addresses of the interface, and its IPv4 addresses as ::ffff:a.b.c.d. Source: IBA 1.x §4.1.1, IBA
 * A17.
 */
union ibv_gid {
	uint8_t raw[16];
	struct {
		__be64 subnet_prefix;
		__be64 interface_id;
	} global;
};

/**
 * The encapsulation of packets with a GID. Every GID of a usrdma device is IBV_GID_TYPE_ROCE_V2.
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

/** The node type of a device. usrdma devices are IBV_NODE_CA. */
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

/** The protocol family of a device. usrdma devices are IBV_TRANSPORT_IB. */
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
	IBV_DEVICE_CURR_QP_STATE_MOD = 1 << 7,	 /* IBV_QP_CUR_STATE is checked */
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

/** The scope in which atomic operations are atomic. */
enum ibv_atomic_cap {
	IBV_ATOMIC_NONE, /* no atomics */
	/*
	 * with respect to atomic operations on the same device. usrdma reports this value, as most
	 * NICs do; its atomics are those of IBV_ATOMIC_GLOB.
	 */
	IBV_ATOMIC_HCA,
	IBV_ATOMIC_GLOB, /* with respect to all accesses, also atomic instructions of the CPU */
};

/**
 * Limits and features of a device, filled in by ibv_query_device(). A limit is the maximum for one
 * object or the maximum number of objects. Memory limits the sum of all objects too. Members for EE
 * contexts, raw QPs and FMRs, which usrdma lacks, are 0.
 * Source: ibv_query_device(3), IBA 1.x §11.2.1.
 */
struct ibv_device_attr {
	char fw_ver[64];	/* text, NUL-terminated */
	__be64 node_guid;	/* never 0, constant for an interface */
	__be64 sys_image_guid;	/* the node_guid: each device is an adapter of its own */
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

/** General support of on-demand paging. usrdma does not pin any memory. */
enum ibv_odp_general_caps {
	IBV_ODP_SUPPORT = 1 << 0,
	IBV_ODP_SUPPORT_IMPLICIT = 1 << 1,
};

/** Operations that support on-demand paging, for each transport. */
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
 * Support of on-demand paging: in general (enum ibv_odp_general_caps) and for each transport (enum
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

/** Maximum values of ibv_modify_cq() for completion event moderation. */
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
 * Atomic operations over PCI, each a mask of enum ibv_pci_atomic_op_size. All members are 0 on
 * usrdma, which has no PCI bus.
 */
struct ibv_pci_atomic_caps {
	uint16_t fetch_add;
	uint16_t swap;
	uint16_t compare_swap;
};

/**
 * Limits and features of a device, including those that struct ibv_device_attr does not have.
 * ibv_query_device_ex() fills it in; members that the library does not know are 0. Later versions
 * can have further members.
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

/** The values that ibv_query_rt_values_ex() reads. */
enum ibv_values_mask {
	IBV_VALUES_MASK_RAW_CLOCK = 1 << 0,
	IBV_VALUES_MASK_RESERVED = 1 << 1,
};

/** Values of ibv_query_rt_values_ex(), which change continuously. */
struct ibv_values_ex {
	uint32_t comp_mask; /* in: requested enum ibv_values_mask; out: values that are set */
	struct timespec raw_clock; /* the clock of completion timestamps */
};

/** The result of ibv_is_fork_initialized(). */
enum ibv_fork_status {
	IBV_FORK_DISABLED, /* fork() after registering memory is not safe */
	IBV_FORK_ENABLED,  /* ibv_fork_init() made it safe */
	IBV_FORK_UNNEEDED, /* it is always safe */
};

/* ---- Ports ---- */

/** Code of the number of payload bytes of a packet. Source: IBA 1.x §14.2.5.6 (PortInfo). */
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
 * Capabilities of a port, for ibv_port_attr.port_cap_flags. They are the PortInfo CapabilityMask
 * except for bit 26, which states that the GIDs of the port are formed from IP addresses. Source:
 * IBA 1.x §14.2.5.6.
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
	enum ibv_mtu max_mtu;	 /* maximum of the device */
	enum ibv_mtu active_mtu; /* largest that fits; of lo: at most that of others */
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
 * The type of an asynchronous event. The comment names the member of ibv_async_event.element that
 * is set. Events without a member concern the whole device.
 * Source: ibv_get_async_event(3), IBA 1.x §11.6.3.
 */
enum ibv_event_type {
	IBV_EVENT_CQ_ERR,	 /* cq: it overflowed, completions are lost */
	IBV_EVENT_QP_FATAL,	 /* qp: error that no completion can report */
	IBV_EVENT_QP_REQ_ERR,	 /* qp: invalid request of the peer */
	IBV_EVENT_QP_ACCESS_ERR, /* qp: access violation by the peer */
	IBV_EVENT_COMM_EST,	 /* qp: the first message arrived in RTR */
	IBV_EVENT_SQ_DRAINED,	 /* qp: in SQD, all outstanding sends have completed */
	IBV_EVENT_PATH_MIG,	 /* qp: moved to the alternate path */
	IBV_EVENT_PATH_MIG_ERR,	 /* qp: could not move */
	IBV_EVENT_DEVICE_FATAL,	 /* the daemon has ended: all QPs are in ERR, close the device */
	IBV_EVENT_PORT_ACTIVE,	 /* port_num */
	IBV_EVENT_PORT_ERR,	 /* port_num: the link went down */
	IBV_EVENT_LID_CHANGE,	 /* port_num; not on RoCE */
	IBV_EVENT_PKEY_CHANGE,	 /* port_num */
	IBV_EVENT_SM_CHANGE,	 /* port_num; not on RoCE */
	IBV_EVENT_SRQ_ERR,	 /* srq: it failed, its QPs too */
	IBV_EVENT_SRQ_LIMIT_REACHED,   /* srq: fewer WRs than its limit; disarms it */
	IBV_EVENT_QP_LAST_WQE_REACHED, /* qp: in ERR, consumes no more WRs of its SRQ */
	IBV_EVENT_CLIENT_REREGISTER,   /* port_num; not on RoCE */
	IBV_EVENT_GID_CHANGE,	       /* port_num: read the GID table again */
	IBV_EVENT_WQ_FATAL,	       /* wq */
	IBV_EVENT_DEVICE_SPEED_CHANGE, /* port_num: read the speed again */
};

/**
 * An asynchronous event. ibv_get_async_event() fills it in, ibv_ack_async_event() acknowledges it.
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
 * Protection domain: memory and queues of one PD may be used together, those of two may not.
 * ibv_alloc_pd() creates it and ibv_dealloc_pd() destroys it. Source: IBA 1.x §10.2.3.
 */
struct ibv_pd {
	struct ibv_context *context;
	uint32_t handle; /* number of the PD, the library's own */
};

/** Reserved: comp_mask is 0. */
struct ibv_td_init_attr {
	uint32_t comp_mask;
};

/** Thread domain: a promise that its objects are used by one thread at a time. */
struct ibv_td {
	struct ibv_context *context;
};

/** The members of ibv_parent_domain_init_attr that are set; the last bit is a permission. */
enum ibv_parent_domain_init_attr_mask {
	IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS = 1 << 0,
	IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT = 1 << 1,
	IBV_PARENT_DOMAIN_INIT_ATTR_ALLOW_CC_UNPROTECTED_ALLOC = 1 << 2,
};

/* What an ibv_parent_domain_init_attr.alloc may return to have the library allocate. */
#define IBV_ALLOCATOR_USE_DEFAULT ((void *)-1)

/**
 * Attributes of ibv_alloc_parent_domain(): a PD, a thread domain and allocators for the memory of
 * queues.
 */
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

/** The members of ibv_xrcd_init_attr that are set; both are required. */
enum ibv_xrcd_init_attr_mask {
	IBV_XRCD_INIT_ATTR_FD = 1 << 0,
	IBV_XRCD_INIT_ATTR_OFLAGS = 1 << 1,
	IBV_XRCD_INIT_ATTR_RESERVED = 1 << 2,
};

/**
 * Attributes of ibv_open_xrcd(): the file whose inode identifies the domain, and O_CREAT and
 * O_EXCL.
 */
struct ibv_xrcd_init_attr {
	uint32_t comp_mask; /* enum ibv_xrcd_init_attr_mask */
	int fd;		    /* -1: a domain that is opened but once */
	int oflags;
};

/**
 * XRC domain: joins XRC receive QPs and SRQs, also those of several processes. ibv_open_xrcd()
 * opens it and ibv_close_xrcd() closes it. Source: IBA A14.
 */
struct ibv_xrcd {
	struct ibv_context *context;
};

/* ---- Memory regions and windows ---- */

/**
 * Rights: what may be done to a memory region, to a QP's memory by its peer (the REMOTE bits of
 * ibv_qp_attr.qp_access_flags), or through a memory window. Work requests of the own process can
 * always read an MR. A peer's operation needs the right of its kind in the MR or window, and in the
 * QP.
 *
 * Bits 20 to 29 (IBV_ACCESS_OPTIONAL_RANGE) are hints that a device may ignore, and usrdma does.
 * The page of ibv_reg_mr() describes each flag. Source: ibv_reg_mr(3), IBA 1.x §10.6.
 */
enum ibv_access_flags {
	IBV_ACCESS_LOCAL_WRITE = 1 << 0,      /* receives, and results of READs and atomics */
	IBV_ACCESS_REMOTE_WRITE = 1 << 1,     /* WRITEs of peers; needs LOCAL_WRITE */
	IBV_ACCESS_REMOTE_READ = 1 << 2,      /* READs of peers */
	IBV_ACCESS_REMOTE_ATOMIC = 1 << 3,    /* atomics of peers; needs LOCAL_WRITE */
	IBV_ACCESS_MW_BIND = 1 << 4,	      /* windows may be bound to it */
	IBV_ACCESS_ZERO_BASED = 1 << 5,	      /* addresses count from 0 at the start of the MR */
	IBV_ACCESS_ON_DEMAND = 1 << 6,	      /* pages are examined when they are accessed */
	IBV_ACCESS_HUGETLB = 1 << 7,	      /* promise: huge pages only */
	IBV_ACCESS_FLUSH_GLOBAL = 1 << 8,     /* FLUSH to where all threads can read it */
	IBV_ACCESS_FLUSH_PERSISTENT = 1 << 9, /* FLUSH to where it survives power loss */
	IBV_ACCESS_RELAXED_ORDERING = IBV_ACCESS_OPTIONAL_FIRST, /* writes in any order */
};

/**
 * Memory region: a range of the process's memory with keys for the queues of its PD and for peers.
 * ibv_reg_mr() and the other registering calls create it, ibv_dereg_mr() destroys it. The
 * application must not change its members.
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

/** The properties that ibv_rereg_mr() changes. */
enum ibv_rereg_mr_flags {
	IBV_REREG_MR_CHANGE_TRANSLATION = 1 << 0, /* addr and length */
	IBV_REREG_MR_CHANGE_PD = 1 << 1,
	IBV_REREG_MR_CHANGE_ACCESS = 1 << 2,
	IBV_REREG_MR_FLAGS_SUPPORTED = (1 << 3) - 1,
};

/** Results of ibv_rereg_mr(), which state whether the MR is still valid. */
enum ibv_rereg_mr_err_code {
	IBV_REREG_MR_ERR_INPUT = -1,		   /* bad argument; the MR is as before */
	IBV_REREG_MR_ERR_DONT_FORK_NEW = -2,	   /* the MR is as before */
	IBV_REREG_MR_ERR_DO_FORK_OLD = -3,	   /* the MR was changed */
	IBV_REREG_MR_ERR_CMD = -4,		   /* the MR is no good: deregister it */
	IBV_REREG_MR_ERR_CMD_AND_DO_FORK_NEW = -5, /* the MR is no good: deregister it */
};

/** The members of ibv_mr_init_attr that are set. ADDR and FD exclude each other. */
enum ibv_mr_init_attr_mask {
	IBV_REG_MR_MASK_IOVA = 1 << 0,
	IBV_REG_MR_MASK_ADDR = 1 << 1,
	IBV_REG_MR_MASK_FD = 1 << 2,
	IBV_REG_MR_MASK_FD_OFFSET = 1 << 3,
	IBV_REG_MR_MASK_DMAH = 1 << 4,
	IBV_REG_MR_MASK_BUF = 1 << 5,
};

/** DMA handle: hints for PCIe traffic. usrdma does not support it. */
struct ibv_dmah {
	struct ibv_context *context;
};

/**
 * Attributes of ibv_reg_mr_ex(). length and access are always used, the other members according to
 * comp_mask.
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

/** The members of ibv_dmah_init_attr that are set. */
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
 * Types of memory windows. ibv_bind_mw() binds type 1, a work request binds type 2. Source: IBA 1.x
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

/** The range and the access rights of a memory window. */
struct ibv_mw_bind_info {
	struct ibv_mr *mr; /* NULL, with length 0: unbind */
	uint64_t addr;
	uint64_t length;	      /* bytes */
	unsigned int mw_access_flags; /* enum ibv_access_flags */
};

/** A bind request for ibv_bind_mw(). It completes with the opcode IBV_WC_BIND_MW. */
struct ibv_mw_bind {
	uint64_t wr_id;
	unsigned int send_flags; /* enum ibv_send_flags */
	struct ibv_mw_bind_info bind_info;
};

/** Attributes of ibv_alloc_dm(). */
struct ibv_alloc_dm_attr {
	size_t length;		/* bytes */
	uint32_t log_align_req; /* alignment is 2^n bytes */
	uint32_t comp_mask;	/* reserved, 0 */
};

/** The optional members of ibv_dm that are set. */
enum ibv_dm_mask {
	IBV_DM_MASK_HANDLE = 1 << 0,
};

/**
 * Device memory. On usrdma it is memory of the process, which is accessed through these calls and
 * MRs only.
 */
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
 * The GRH part of an address vector: the destination beyond the subnet. On RoCE it is the IP
 * header.
 */
struct ibv_global_route {
	union ibv_gid dgid;  /* the peer's GID */
	uint32_t flow_label; /* the low 20 bits; NICs derive the UDP source port from it */
	uint8_t sgid_index;  /* index of the local GID in the GID table of the port */
	uint8_t hop_limit; /* TTL of multicast packets, 0: 64; other destinations get the route's */
	uint8_t traffic_class; /* DSCP and ECN */
};

/**
 * The 40 bytes that precede the payload in the buffer of a UD receive. On RoCE, where IBV_WC_GRH is
 * always set, they are the IPv6 header of the packet, or 20 bytes of 0 and its IPv4 header.
 * Datagrams of the same host have them too. Source: IBA 1.x §8.3, IBA A17.
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
 * Static rates as codes of a path; the order is that of the standard. usrdma ignores them:
 * congestion control and flow control determine the rate. Source: IBA 1.x §9.11.1.
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
 * Address vector: the path to a peer, for ibv_create_ah() and ibv_qp_attr. On RoCE only grh and
 * port_num are used, and is_global must be 1.
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
 * Address handle: an address vector that is resolved for UD sends. ibv_create_ah() creates it,
 * ibv_destroy_ah() destroys it. Source: IBA 1.x §10.2.2.
 */
struct ibv_ah {
	struct ibv_context *context;
	struct ibv_pd *pd;
	uint32_t handle;
};

/* ---- Work requests ---- */

/**
 * Scatter/gather entry: a range of local memory inside the MR of lkey. A length of 0 is an empty
 * range. The MR and its access rights are checked when the WR is carried out.
 */
struct ibv_sge {
	uint64_t addr;	 /* in the MR's address space (its iova) */
	uint32_t length; /* bytes */
	uint32_t lkey;	 /* ibv_mr.lkey; ignored for inline data */
};

/** A range of memory for ibv_wr_set_inline_data_list(). It needs no MR. */
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
 * The operation of a send WR. The QP types that support it are in brackets. XRC_SEND supports the
 * operations of RC except FLUSH and ATOMIC_WRITE. On other types ibv_post_send() fails with EINVAL.
 * Source: IBA 1.x §10.8.3, §11.4.1.1, IBA A19.
 */
enum ibv_wr_opcode {
	IBV_WR_RDMA_WRITE,	     /* [RC UC] write to memory of the peer */
	IBV_WR_RDMA_WRITE_WITH_IMM,  /* [RC UC] … and complete one receive of the peer */
	IBV_WR_SEND,		     /* [RC UC UD] message for the oldest receive WR of the peer */
	IBV_WR_SEND_WITH_IMM,	     /* [RC UC UD] … with 4 bytes of immediate data */
	IBV_WR_RDMA_READ,	     /* [RC] read memory of the peer */
	IBV_WR_ATOMIC_CMP_AND_SWP,   /* [RC] 8 bytes; returns the original value */
	IBV_WR_ATOMIC_FETCH_AND_ADD, /* [RC] 8 bytes; returns the original value */
	IBV_WR_LOCAL_INV,	     /* [RC UC] invalidate a local rkey */
	IBV_WR_BIND_MW,		     /* [RC UC] bind a type 2 memory window */
	IBV_WR_SEND_WITH_INV,	     /* [RC] SEND, and invalidate an rkey of the peer */
	IBV_WR_TSO,		     /* [] one large frame that the device segments */
	IBV_WR_DRIVER1,		     /* [] defined by a provider */
	/* [RC] make preceding WRITEs visible or persistent; ibv_wr_flush() only */
	IBV_WR_FLUSH = 14,
	IBV_WR_ATOMIC_WRITE = 15, /* [RC] 8 bytes in one atomic step */
};

/**
 * Flags of a send WR. Unless IBV_SEND_SIGNALED is set, or the QP has sq_sig_all, a WR that
 * succeeds causes no completion. A WR that fails always causes a completion.
 */
enum ibv_send_flags {
	IBV_SEND_FENCE = 1 << 0,     /* wait for preceding READs, atomics, FLUSHes. RC */
	IBV_SEND_SIGNALED = 1 << 1,  /* completion also on success */
	IBV_SEND_SOLICITED = 1 << 2, /* cause a solicited event at the peer */
	/* data is copied by the call: buffers are free at once, no lkey */
	IBV_SEND_INLINE = 1 << 3,
	IBV_SEND_IP_CSUM = 1 << 4, /* for raw packets; ignored */
};

/** The placement that a FLUSH guarantees. */
enum ibv_placement_type {
	IBV_FLUSH_GLOBAL = 1U << 0,	/* global visibility */
	IBV_FLUSH_PERSISTENT = 1U << 1, /* persistence */
};

/** The memory that a FLUSH covers. */
enum ibv_selectivity_level {
	IBV_FLUSH_RANGE = 0, /* the address range */
	IBV_FLUSH_MR,	     /* the whole region */
};

/**
 * A send work request, for ibv_post_send(). The call copies it with its SGE array. The memory of
 * the SGEs is in use until the WR completes. An unsignaled WR has completed when a later WR of the
 * same queue has completed.
 */
struct ibv_send_wr {
	uint64_t wr_id;		  /* of the application; returned in the completion */
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
 * A receive work request, for ibv_post_recv() and ibv_post_srq_recv(), which copy it. On UD the
 * first 40 bytes of the buffer are for the GRH. A message that is longer than the remainder is
 * dropped and the receive remains posted; a receive of an SRQ completes with IBV_WC_LOC_LEN_ERR.
 */
struct ibv_recv_wr {
	uint64_t wr_id;		  /* of the application; returned in the completion */
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

/** An operation on a tag matching SRQ, for ibv_post_srq_ops(). usrdma does not support it. */
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
 * The result of a work request. If the status is not IBV_WC_SUCCESS, only wr_id, status, qp_num and
 * vendor_err of the completion are valid; vendor_err identifies the check that failed. The QP is
 * then in ERR, or in SQE if a send of a UC or UD QP failed, and its outstanding WRs complete in
 * order with IBV_WC_WR_FLUSH_ERR. A UD QP keeps its state if a receive of its SRQ is too short.
 * Names with LOC denote errors that the local side detected, names with REM errors that the peer
 * detected. Source: IBA 1.x §11.6.2.
 */
enum ibv_wc_status {
	IBV_WC_SUCCESS,	       /* done */
	IBV_WC_LOC_LEN_ERR,    /* send over max_msg_sz (UD: the MTU); message over the receive */
	IBV_WC_LOC_QP_OP_ERR,  /* WR that the QP cannot carry out; an AH of another PD */
	IBV_WC_LOC_EEC_OP_ERR, /* not used: EE contexts */
	IBV_WC_LOC_PROT_ERR,   /* an SGE is not inside an MR of this PD, or lacks LOCAL_WRITE */
	IBV_WC_WR_FLUSH_ERR,   /* not carried out: the QP was in ERR, or went there */
	IBV_WC_MW_BIND_ERR,    /* bind or invalidation not permitted */
	IBV_WC_BAD_RESP_ERR,   /* invalid response of the peer, as when path_mtu differs */
	IBV_WC_LOC_ACCESS_ERR, /* receive of an aborted WRITE with immediate data */
	/* request that the peer cannot execute: receive too short, bad alignment, other path_mtu */
	IBV_WC_REM_INV_REQ_ERR,
	IBV_WC_REM_ACCESS_ERR,	   /* invalid rkey, range or access rights at the peer */
	IBV_WC_REM_OP_ERR,	   /* error of the peer, for example an invalid receive WR */
	IBV_WC_RETRY_EXC_ERR,	   /* no ACK after retry_cnt retransmissions */
	IBV_WC_RNR_RETRY_EXC_ERR,  /* RNR NAK after rnr_retry retries: no receive at the peer */
	IBV_WC_LOC_RDD_VIOL_ERR,   /* not used: reliable datagrams */
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

/**
 * The operation that completed. It is valid if the status is IBV_WC_SUCCESS. The bit IBV_WC_RECV is
 * set for receives.
 */
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

/** Further information in a completion. */
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
 * A work completion, which ibv_poll_cq() fills in. It has 48 bytes. Source: ibv_poll_cq(3), IBA 1.x
 * §11.4.2.1.
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
 * Completion channel: a file descriptor that is readable while completion events are pending. The
 * application may poll it, set it to O_NONBLOCK and inherit it; only ibv_get_cq_event() may read
 * it. ibv_create_comp_channel() creates it, ibv_destroy_comp_channel() destroys it.
 */
struct ibv_comp_channel {
	struct ibv_context *context;
	int fd;	    /* owned by the channel */
	int refcnt; /* CQs on it */
};

/**
 * Completion queue. ibv_create_cq() and ibv_create_cq_ex() create it, ibv_destroy_cq() destroys it.
 * The application must not change its members. Those from mutex on count events for
 * ibv_destroy_cq().
 * Source: IBA 1.x §10.2.8.
 */
struct ibv_cq {
	struct ibv_context *context;
	struct ibv_comp_channel *channel; /* NULL: no completion events */
	void *cq_context;		  /* of the application */
	uint32_t handle;
	int cqe; /* capacity in completions, at least the requested number */

	pthread_mutex_t mutex;
	pthread_cond_t cond;
	uint32_t comp_events_completed;
	uint32_t async_events_completed;
};

/**
 * The values that completions of an ibv_cq_ex can carry. If the device does not support a flag,
 * ibv_create_cq_ex() fails with EOPNOTSUPP. usrdma does not support CVLAN, FLOW_TAG and TM_INFO.
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

/** The members of ibv_cq_init_attr_ex that are set. */
enum ibv_cq_init_attr_mask {
	IBV_CQ_INIT_ATTR_MASK_FLAGS = 1 << 0,
	IBV_CQ_INIT_ATTR_MASK_PD = 1 << 1,
};

/** Properties of a new CQ. */
enum ibv_create_cq_attr_flags {
	IBV_CREATE_CQ_ATTR_SINGLE_THREADED = 1 << 0, /* one thread polls: no lock */
	IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN = 1 << 1,  /* when full, the oldest is lost */
};

/** Attributes of ibv_create_cq_ex(). */
struct ibv_cq_init_attr_ex {
	uint32_t cqe;			  /* completions it has to hold, 1 to max_cqe */
	void *cq_context;		  /* of the application */
	struct ibv_comp_channel *channel; /* may be NULL */
	uint32_t comp_vector;		  /* below num_comp_vectors */
	uint64_t wc_flags;		  /* enum ibv_create_cq_wc_flags */
	uint32_t comp_mask;		  /* enum ibv_cq_init_attr_mask */
	uint32_t flags;			  /* enum ibv_create_cq_attr_flags */
	struct ibv_pd *parent_domain;
};

/** Work that a completion counter counts on a queue pair, for ibv_qp_attach_comp_cntr(). */
enum ibv_qp_attach_comp_cntr_op {
	IBV_QP_ATTACH_COMP_CNTR_OP_SEND = 1 << 0,	       /* SENDs of this QP */
	IBV_QP_ATTACH_COMP_CNTR_OP_RECV = 1 << 1,	       /* receive WRs of this QP */
	IBV_QP_ATTACH_COMP_CNTR_OP_RDMA_READ = 1 << 2,	       /* RDMA READs of this QP */
	IBV_QP_ATTACH_COMP_CNTR_OP_REMOTE_RDMA_READ = 1 << 3,  /* RDMA READs of the peer */
	IBV_QP_ATTACH_COMP_CNTR_OP_RDMA_WRITE = 1 << 4,	       /* RDMA WRITEs of this QP */
	IBV_QP_ATTACH_COMP_CNTR_OP_REMOTE_RDMA_WRITE = 1 << 5, /* RDMA WRITEs of the peer */
};

/** Completion counters of a device: the result of ibv_query_comp_cntr_caps(). */
struct ibv_comp_cntr_caps {
	uint64_t max_value;		  /* the next increment wraps to 0 */
	uint32_t max_counters;		  /* per process */
	uint32_t supported_qp_attach_ops; /* mask of enum ibv_qp_attach_comp_cntr_op */
};

/** Completion counter. */
struct ibv_comp_cntr {
	struct ibv_context *context;
	uint32_t handle;
};

/** Unit of a completion counter. */
enum ibv_comp_cntr_type {
	IBV_COMP_CNTR_TYPE_WRS,	  /* work requests */
	IBV_COMP_CNTR_TYPE_BYTES, /* bytes of their messages */
};

/** Attributes of a new completion counter, for ibv_create_comp_cntr(). */
struct ibv_comp_cntr_init_attr {
	uint32_t comp_mask; /* reserved, 0 */
	enum ibv_comp_cntr_type type;
	uint32_t flags; /* reserved, 0 */
};

/** What a completion counter counts on a queue pair, for ibv_qp_attach_comp_cntr(). */
struct ibv_qp_attach_comp_cntr_attr {
	uint32_t comp_mask; /* reserved, 0 */
	uint32_t op_mask;   /* mask of enum ibv_qp_attach_comp_cntr_op, not 0 */
};

/** The properties that ibv_modify_cq() changes. */
enum ibv_cq_attr_mask {
	IBV_CQ_ATTR_MODERATE = 1 << 0,
	IBV_CQ_ATTR_RESERVED = 1 << 1,
};

/**
 * Completion event moderation: an event after a number of completions or a time. If both are 0,
 * each completion causes an event at once.
 */
struct ibv_moderate_cq {
	uint16_t cq_count;  /* 0: cq_period alone decides */
	uint16_t cq_period; /* us after the oldest completion; 0: cq_count alone decides */
};

/** Attributes of ibv_modify_cq(). */
struct ibv_modify_cq_attr {
	uint32_t attr_mask; /* enum ibv_cq_attr_mask */
	struct ibv_moderate_cq moderate;
};

/** Reserved: comp_mask is 0. */
struct ibv_poll_cq_attr {
	uint32_t comp_mask;
};

/** Result of ibv_wc_read_tm_info(): values of a tag matching completion. */
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

/** Types of SRQ. usrdma supports BASIC and XRC. */
enum ibv_srq_type {
	IBV_SRQT_BASIC,
	IBV_SRQT_XRC,
	IBV_SRQT_TM,
};

/** The attributes that ibv_modify_srq() changes. */
enum ibv_srq_attr_mask {
	IBV_SRQ_MAX_WR = 1 << 0, /* max_wr: resize */
	IBV_SRQ_LIMIT = 1 << 1,	 /* srq_limit: arm the limit event */
};

/** Attributes of an SRQ. */
struct ibv_srq_attr {
	uint32_t max_wr;    /* WRs it can hold */
	uint32_t max_sge;   /* SGEs of a WR */
	uint32_t srq_limit; /* event when fewer WRs are posted; 0: not armed */
};

/**
 * Attributes of ibv_create_srq(). The actual max_wr and max_sge are written back; they are not
 * less. srq_limit is ignored.
 */
struct ibv_srq_init_attr {
	void *srq_context; /* of the application */
	struct ibv_srq_attr attr;
};

/** The members of ibv_srq_init_attr_ex that are set. */
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

/** Attributes of ibv_create_srq_ex(). It starts with the members of struct ibv_srq_init_attr. */
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
 * A shared receive queue: receive WRs for many QPs. Each message consumes the oldest WR.
 * ibv_create_srq() creates it and ibv_destroy_srq() destroys it. Members from mutex on are for the
 * library. Source: IBA 1.x §10.2.9.
 */
struct ibv_srq {
	struct ibv_context *context;
	void *srq_context; /* of the application */
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

/** The members of ibv_wq_init_attr that are set. */
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

/** Attributes of ibv_create_wq(). */
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

/** The attributes that ibv_modify_wq() changes. */
enum ibv_wq_attr_mask {
	IBV_WQ_ATTR_STATE = 1 << 0,
	IBV_WQ_ATTR_CURR_STATE = 1 << 1,
	IBV_WQ_ATTR_FLAGS = 1 << 2,
	IBV_WQ_ATTR_RESERVED = 1 << 3,
};

/** Attributes of ibv_modify_wq(). */
struct ibv_wq_attr {
	uint32_t attr_mask; /* enum ibv_wq_attr_mask */
	enum ibv_wq_state wq_state;
	enum ibv_wq_state curr_wq_state; /* state that the caller expects */
	uint32_t flags;			 /* enum ibv_wq_flags */
	uint32_t flags_mask;		 /* which of them count */
};

/**
 * A receive queue that is not part of a QP, the target of receive side scaling. usrdma does not
 * support it.
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

/** Attributes of ibv_create_rwq_ind_table(): 2^log_ind_tbl_size WQs. */
struct ibv_rwq_ind_table_init_attr {
	uint32_t log_ind_tbl_size;
	struct ibv_wq **ind_tbl;
	uint32_t comp_mask;
};

/** Indirection table: maps hash values to WQs. usrdma does not support it. */
struct ibv_rwq_ind_table {
	struct ibv_context *context;
	int ind_tbl_handle;
	int ind_tbl_num;
	uint32_t comp_mask;
};

/* ---- Queue pairs ---- */

/**
 * Types of QP. usrdma supports RC, UC, UD and both halves of XRC. Source: IBA 1.x §9.2, §10.2.4,
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
 * Sizes of the queues of a QP. ibv_create_qp() takes the minimum sizes and returns the actual
 * sizes. Unused entries need no memory.
 */
struct ibv_qp_cap {
	uint32_t max_send_wr;
	uint32_t max_recv_wr;	  /* 0 with an SRQ */
	uint32_t max_send_sge;	  /* SGEs of a send WR */
	uint32_t max_recv_sge;	  /* SGEs of a receive WR */
	uint32_t max_inline_data; /* bytes with IBV_SEND_INLINE */
};

/** Attributes of ibv_create_qp(). */
struct ibv_qp_init_attr {
	void *qp_context; /* of the application */
	struct ibv_cq *send_cq;
	struct ibv_cq *recv_cq; /* may be send_cq */
	struct ibv_srq *srq;	/* NULL: a receive queue of its own */
	struct ibv_qp_cap cap;	/* in and out */
	enum ibv_qp_type qp_type;
	int sq_sig_all; /* 1: every send WR is signaled */
};

/** The members of ibv_qp_init_attr_ex that are set. PD is required, except for XRC_RECV. */
enum ibv_qp_init_attr_mask {
	IBV_QP_INIT_ATTR_PD = 1 << 0,
	IBV_QP_INIT_ATTR_XRCD = 1 << 1,
	IBV_QP_INIT_ATTR_CREATE_FLAGS = 1 << 2,
	IBV_QP_INIT_ATTR_MAX_TSO_HEADER = 1 << 3,
	IBV_QP_INIT_ATTR_IND_TABLE = 1 << 4,
	IBV_QP_INIT_ATTR_RX_HASH = 1 << 5,
	IBV_QP_INIT_ATTR_SEND_OPS_FLAGS = 1 << 6,
};

/** Properties of a new QP. usrdma supports IBV_QP_CREATE_BLOCK_SELF_MCAST_LB, of UD. */
enum ibv_qp_create_flags {
	IBV_QP_CREATE_BLOCK_SELF_MCAST_LB = 1
					    << 1, /* does not receive its own multicast messages */
	IBV_QP_CREATE_SCATTER_FCS = 1 << 8,
	IBV_QP_CREATE_CVLAN_STRIPPING = 1 << 9,
	IBV_QP_CREATE_SOURCE_QPN = 1 << 10,
	IBV_QP_CREATE_PCI_WRITE_END_PADDING = 1 << 11,
};

/**
 * The ibv_wr_*() calls that the application uses on a QP of ibv_create_qp_ex(). It may not use
 * others. A bit of an operation that the QP type does not have (enum ibv_wr_opcode) fails with
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

/** Receive side scaling: function, key and fields. usrdma does not support it. */
struct ibv_rx_hash_conf {
	uint8_t rx_hash_function; /* enum ibv_rx_hash_function_flags */
	uint8_t rx_hash_key_len;  /* bytes */
	uint8_t *rx_hash_key;
	uint64_t rx_hash_fields_mask; /* enum ibv_rx_hash_fields */
};

/** Attributes of ibv_create_qp_ex(). It starts with the members of struct ibv_qp_init_attr. */
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

/** The members of ibv_qp_open_attr that are set. */
enum ibv_qp_open_attr_mask {
	IBV_QP_OPEN_ATTR_NUM = 1 << 0,
	IBV_QP_OPEN_ATTR_XRCD = 1 << 1,
	IBV_QP_OPEN_ATTR_CONTEXT = 1 << 2,
	IBV_QP_OPEN_ATTR_TYPE = 1 << 3,
	IBV_QP_OPEN_ATTR_RESERVED = 1 << 4,
};

/** Attributes of ibv_open_qp(): the XRC receive QP to open. */
struct ibv_qp_open_attr {
	uint32_t comp_mask; /* enum ibv_qp_open_attr_mask */
	uint32_t qp_num;
	struct ibv_xrcd *xrcd;
	void *qp_context;
	enum ibv_qp_type qp_type;
};

/** The members of ibv_qp_attr that ibv_modify_qp() uses, or that ibv_query_qp() needs. */
enum ibv_qp_attr_mask {
	IBV_QP_STATE = 1 << 0,		     /* qp_state */
	IBV_QP_CUR_STATE = 1 << 1,	     /* cur_qp_state: the state that the caller expects */
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

/** State of the alternate path. It is always MIGRATED on usrdma, which has one path. */
enum ibv_mig_state {
	IBV_MIG_MIGRATED,
	IBV_MIG_REARM,
	IBV_MIG_ARMED,
};

/**
 * Attributes of a QP, for ibv_modify_qp() and ibv_query_qp(). The page of ibv_modify_qp() lists the
 * attributes that a transition requires and permits.
 */
struct ibv_qp_attr {
	enum ibv_qp_state qp_state;
	enum ibv_qp_state cur_qp_state;
	enum ibv_mtu path_mtu; /* RC, UC: that of the peer; must fit the interface's MTU */
	enum ibv_mig_state path_mig_state;
	uint32_t qkey;	      /* UD */
	uint32_t rq_psn;      /* 24 bits, others are ignored: first PSN from the peer. RC, UC */
	uint32_t sq_psn;      /* 24 bits, others are ignored: first PSN to the peer */
	uint32_t dest_qp_num; /* 24 bits: the peer's QPN. RC, UC */
	/* access rights of the peer; REMOTE bits of ibv_access_flags */
	unsigned int qp_access_flags;
	struct ibv_qp_cap cap;
	struct ibv_ah_attr ah_attr; /* path to the peer. RC, UC */
	struct ibv_ah_attr alt_ah_attr;
	uint16_t pkey_index;
	uint16_t alt_pkey_index;
	uint8_t en_sqd_async_notify; /* 1: IBV_EVENT_SQ_DRAINED when drained */
	uint8_t sq_draining;	     /* query: 1 while draining */
	uint8_t max_rd_atomic;	     /* outstanding READs and atomics of this side; 0 means 1. RC */
	uint8_t max_dest_rd_atomic;  /* outstanding READs and atomics of the peer; 0: none. RC */
	uint8_t min_rnr_timer;	     /* 0 to 31: time code for the peer after an RNR NAK. RC */
	uint8_t port_num;	     /* from 1 */
	uint8_t timeout;	     /* 0 to 31: ACK timeout 4.096 us * 2^n; 0: infinite. RC */
	uint8_t retry_cnt;	     /* 0 to 7: retransmissions after an ACK timeout. RC */
	uint8_t rnr_retry;	     /* 0 to 6: retransmissions after an RNR NAK; 7: no limit. RC */
	uint8_t alt_port_num;
	uint8_t alt_timeout;
	uint32_t rate_limit; /* kbit/s, 0: none */
};

/** Flags of ibv_query_qp_data_in_order(). */
enum ibv_query_qp_data_in_order_flags {
	IBV_QUERY_QP_DATA_IN_ORDER_RETURN_CAPS = 1 << 0, /* a mask of _caps, not 0 or 1 */
	/* order of the device, not of the CPU */
	IBV_QUERY_QP_DATA_IN_ORDER_DEVICE_ONLY = 1 << 1,
};

/** Guarantees of ibv_query_qp_data_in_order(). */
enum ibv_query_qp_data_in_order_caps {
	IBV_QUERY_QP_DATA_IN_ORDER_WHOLE_MSG = 1 << 0, /* first byte first, over the message */
	IBV_QUERY_QP_DATA_IN_ORDER_ALIGNED_128_BYTES = 1 << 1, /* within each aligned block */
};

/** Attributes of ibv_modify_qp_rate_limit(). usrdma does not support it. */
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
 * Queue pair. ibv_create_qp() and ibv_create_qp_ex() create it, ibv_destroy_qp() destroys it. The
 * application must not change its members. Those from mutex on are for the library. Source: IBA 1.x
 * §10.2.4.
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
	/* state after the last ibv_modify_qp() or ibv_query_qp() with IBV_QP_STATE */
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

/** Flags of a flow rule. Flow types are for ibv_create_flow(), which usrdma does not support. */
enum ibv_flow_flags {
	IBV_FLOW_ATTR_FLAGS_DONT_TRAP = 1 << 1,
	IBV_FLOW_ATTR_FLAGS_EGRESS = 1 << 2,
};

/** Types of flow rules. */
enum ibv_flow_attr_type {
	IBV_FLOW_ATTR_NORMAL = 0,      /* packets that match the specs */
	IBV_FLOW_ATTR_ALL_DEFAULT = 1, /* all that no other rule takes */
	IBV_FLOW_ATTR_MC_DEFAULT = 2,  /* multicast that no other rule takes */
	IBV_FLOW_ATTR_SNIFFER = 3,     /* a copy of everything */
};

/**
 * The type of a flow specification. IBV_FLOW_SPEC_INNER is a bit for the header of the encapsulated
 * packet.
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
 * Match on the Ethernet header: bits of val are compared where mask has ones. The same applies to
 * all specifications with val and mask. size is the size of the specification in bytes.
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

/** An action of ibv_create_flow_action_esp(). */
struct ibv_flow_action {
	struct ibv_context *context;
};

/** Action: an action that was created before. */
struct ibv_flow_spec_action_handle {
	enum ibv_flow_spec_type type;
	uint16_t size;
	const struct ibv_flow_action *action;
};

/** A set of counters of ibv_create_counters(). usrdma does not support it. */
struct ibv_counters {
	struct ibv_context *context;
};

/** Action: count. */
struct ibv_flow_spec_counter_action {
	enum ibv_flow_spec_type type;
	uint16_t size;
	struct ibv_counters *counters;
};

/** Any flow specification; hdr contains its type. */
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

/** A flow rule: this header is followed by num_of_specs contiguous specifications. */
struct ibv_flow_attr {
	uint32_t comp_mask; /* reserved, 0 */
	enum ibv_flow_attr_type type;
	uint16_t size;	   /* bytes, with the specs */
	uint16_t priority; /* 0 has the highest precedence */
	uint8_t num_of_specs;
	uint8_t port;	/* from 1 */
	uint32_t flags; /* enum ibv_flow_flags */
};

/** An active flow rule. */
struct ibv_flow {
	uint32_t comp_mask;
	struct ibv_context *context;
	uint32_t handle;
};

/** The members of ibv_flow_action_esp_attr that are set. */
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

/** The event that a counter counts. */
enum ibv_counter_description {
	IBV_COUNTER_PACKETS,
	IBV_COUNTER_BYTES,
};

/** Attributes of ibv_attach_counters_point_flow(): the event and the counter. */
struct ibv_counter_attach_attr {
	enum ibv_counter_description counter_desc;
	uint32_t index;	    /* in the array of ibv_read_counters() */
	uint32_t comp_mask; /* reserved, 0 */
};

/** Flags of ibv_read_counters(). */
enum ibv_read_counters_flags {
	IBV_READ_COUNTERS_ATTR_PREFER_CACHED = 1 << 0, /* a little old is good enough */
};

/* ---- Device and context objects: layout history lives here ---- */

/**
 * Two pointers of device drivers before 2007. No code calls them. They keep the offsets of name and
 * of the members after it.
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
 * Functions behind the calls of an open device. Compiled programs call them straight through
 * ibv_context.ops, without looking whether they are there: alloc_mw, bind_mw, dealloc_mw, poll_cq,
 * req_notify_cq, post_srq_recv, post_send, post_recv are never NULL. The others are the calls of
 * programs compiled before 2018, when everything went this way; only their places are kept, and the
 * first two are still filled in.
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
 * An open device. ibv_open_device() creates it, ibv_close_device() destroys it. The application
 * must not change its members.
 * Lies at the end of a struct verbs_context.
 */
struct ibv_context {
	struct ibv_device *device;
	struct ibv_context_ops ops;
	int cmd_fd;   /* names the context to ibv_import_device(); to be copied, not read */
	int async_fd; /* readable while an asynchronous event is pending; poll it, do not read it */
	int num_comp_vectors;  /* comp_vector is below this */
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
 * The placeholders are members of old releases. They remain unused.
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
	size_t sz;		    /* bytes; directly before context in all versions */
	struct ibv_context context; /* the last member in all versions */
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
 * The size of the structure, measured from its end, decides whether it has the member: see struct
 * verbs_context. Evaluates ctx once.
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
 * Lists the RDMA devices: one device for each network interface that is up and has an
 * address. A device has the name of its interface, unless USRDMA_DEVICES has another name; named
 * devices come first, and one interface may have several (usrdma(7)).
 *
 * *num_devices*: set to the number of devices; may be NULL.
 * Returns a NULL-terminated array, which the caller passes to ibv_free_device_list(), or NULL with
 * errno. Devices that reach other hosts come first, `lo` last. If the host has no usable interface,
 * the array is empty. The pointers remain valid for the life of the process. A device has the same
 * pointer in every list.
 * Errors: ENOSYS: no daemon runs and none can be started; a message on stderr describes the cause
 * (on other systems: the kernel does not support RDMA); EACCES: the daemon belongs to another user;
 * a message on stderr describes the remedy;
 * EPROTO: the daemon has another version; the message describes the remedy; ENOSPC: 511 processes
 * have devices; EDQUOT: this user or all users together have the maximum number of connections to
 * the daemon, or the processes of this user have half of the process entries that other users left;
 * EINVAL: USRDMA_TRANSPORT, USRDMA_DEVICES or USRDMA_PROFILE is invalid; a message reports it;
 * EMFILE, ENFILE: no file descriptor is available; ENOMEM: no memory.
 * Threads: any. May wait for the daemon, and starts the daemon if it does not run.
 * State: the first call creates the engine thread of the process. After fork() the first call of
 * the child creates another one.
 * Since IBVERBS_1.1. Source: ibv_get_device_list(3). See also: ibv_free_device_list(),
 * ibv_get_device_name(), ibv_get_device_guid(), ibv_open_device().
 */
struct ibv_device **ibv_get_device_list(int *num_devices);

/**
 * Frees an array of ibv_get_device_list(). The devices remain valid.
 *
 * *list*: the array; NULL is allowed.
 * Threads: any. Does not block.
 * Since IBVERBS_1.1. Source: ibv_free_device_list(3). See also: ibv_get_device_list().
 */
void ibv_free_device_list(struct ibv_device **list);

/**
 * Gets the name of a device, which is that of its network interface.
 *
 * *device*: of ibv_get_device_list().
 * Returns a string that lives as long as the process. Never NULL.
 * Threads: any. Does not block.
 * Since IBVERBS_1.1. Source: ibv_get_device_name(3). See also: ibv_get_device_index().
 */
const char *ibv_get_device_name(struct ibv_device *device);

/**
 * The kernel's index of the device, for queries by netlink.
 *
 * *device*: of ibv_get_device_list().
 * Returns -1: the index is unknown. The kernel does not have the devices of usrdma. (Other
 * libraries return an index of at least 0.)
 * Threads: any. Does not block.
 * Since IBVERBS_1.9. Source: ibv_get_device_index(3). See also: ibv_get_device_name().
 */
int ibv_get_device_index(struct ibv_device *device);

/**
 * Gets the node GUID of a device without opening it.
 *
 * *device*: of ibv_get_device_list().
 * Returns the GUID in network byte order, never 0, the same each time.
 * Threads: any. Does not block.
 * Since IBVERBS_1.1. Source: ibv_get_device_guid(3). See also: ibv_device_attr.node_guid.
 */
__be64 ibv_get_device_guid(struct ibv_device *device);

/**
 * Opens a device and creates a context, from which all other objects are created.
 *
 * *device*: a device of ibv_get_device_list(). The list may be freed after the call. A device may
 * be opened any number of times.
 * Types: struct ibv_context.
 * Returns the context, or NULL with errno.
 * Errors: ENODEV: the interface was removed, or the daemon has ended and no other can be started;
 * EMFILE, ENFILE: no file descriptor is available; EAGAIN: no thread can be created; ENOMEM: no
 * memory; in a process whose daemon has ended also as ibv_get_device_list().
 * Threads: any. May wait for the daemon.
 * Events: asynchronous events of the device are reported on async_fd of the context from now on.
 * Since IBVERBS_1.1. Source: ibv_open_device(3), IBA 1.x §11.2.1. See also: ibv_close_device(),
 * ibv_get_async_event(), ibv_query_device().
 */
struct ibv_context *ibv_open_device(struct ibv_device *device);

/**
 * Closes a context.
 *
 * *context*: the context. It may not be used afterwards; its async_fd and cmd_fd are closed.
 * Destroy all of its objects first. Objects that remain stop working: QPs enter ERR, and MRs can no
 * longer be accessed. They can still be destroyed.
 * Returns 0.
 * Threads: any. Blocks until remote accesses to such MRs that are in progress have ended.
 * Since IBVERBS_1.1. Source: ibv_close_device(3), IBA 1.x §11.2.1. See also: ibv_open_device().
 */
int ibv_close_device(struct ibv_context *context);

/**
 * Opens a device once more, by the command file of a context on it.
 *
 * *cmd_fd*: a copy (dup(), SCM_RIGHTS, fork()) of ibv_context.cmd_fd, of this process or of another
 * on the same network namespace. Belongs to the new context once this succeeds, as its cmd_fd.
 * Returns the context, or NULL with errno, and *cmd_fd* is still the caller's.
 * Errors: EBADF: not a descriptor; EINVAL: not a command file of this library; ENODEV: the device
 * is of another network namespace, or gone; and those of ibv_open_device().
 * Threads: any. Asks the daemon.
 * State: within the process, objects of either context can be imported into the other, and live
 * until the last of these contexts is closed. A context from another process works like one that
 * was opened here, and has none of that one's objects.
 * Events: as ibv_open_device(): ports' and the device's come to each context, an object's to the
 * context it was made on.
 * Since IBVERBS_1.10. Source: ibv_import_device(3). See also: ibv_open_device(),
 * ibv_close_device(), ibv_import_pd().
 */
struct ibv_context *ibv_import_device(int cmd_fd);

/**
 * Imports a PD: returns another handle of it.
 *
 * *context*: the context of the PD, or a context that ibv_import_device() created from it.
 * *pd_handle*: ibv_pd.handle. The handle of a parent domain returns its PD.
 * Returns the handle, which every call that needs a PD accepts, or NULL with errno.
 * Errors: EINVAL: the context and those from which it was imported have no such PD; EOPNOTSUPP: the
 * context was imported from another process, whose objects this process cannot use; EIO: the
 * process is a fork()ed child, or the daemon has ended; ENOMEM: no memory.
 * Threads: any. Does not block.
 * State: the PD exists until its last handle is passed to ibv_dealloc_pd() or ibv_unimport_pd().
 * ibv_dealloc_pd() fails with EBUSY while an object of the PD exists, whatever handle created it.
 * Since IBVERBS_1.10. Source: ibv_import_pd(3). See also: ibv_unimport_pd(), ibv_import_mr().
 */
struct ibv_pd *ibv_import_pd(struct ibv_context *context, uint32_t pd_handle);

/**
 * Releases a handle of a PD. The PD is deallocated with its last handle.
 *
 * *pd*: a handle of ibv_import_pd() or ibv_alloc_pd(); it may not be used afterwards. Objects that
 * were created with it remain.
 * Threads: any. Does not block.
 * Since IBVERBS_1.10. Source: ibv_import_pd(3). See also: ibv_import_pd(), ibv_dealloc_pd().
 */
void ibv_unimport_pd(struct ibv_pd *pd);

/**
 * Imports an MR: returns another handle of it.
 *
 * *pd*: any handle of the PD of the MR.
 * *mr_handle*: ibv_mr.handle.
 * Returns the handle, with the keys and the length of the MR and addr NULL, or NULL with errno.
 * Errors: EINVAL: *pd* has no such MR; EOPNOTSUPP: the context was imported from another process,
 * whose memory this process cannot use; EIO: the process is a fork()ed child, or the daemon has
 * ended; ENOMEM: no memory.
 * Threads: any. Does not block.
 * State: ibv_dereg_mr() of any handle deregisters the MR. The other handles then need
 * ibv_unimport_mr(). ibv_rereg_mr() needs the handle of the registering call.
 * Since IBVERBS_1.10. Source: ibv_import_mr(3). See also: ibv_unimport_mr(), ibv_dereg_mr().
 */
struct ibv_mr *ibv_import_mr(struct ibv_pd *pd, uint32_t mr_handle);

/**
 * Releases a handle of an MR without deregistering the MR.
 *
 * *mr*: a handle of ibv_import_mr() or a registering call; it may not be used afterwards.
 * Threads: any. Does not block.
 * Since IBVERBS_1.10. Source: ibv_import_mr(3). See also: ibv_import_mr(), ibv_dereg_mr().
 */
void ibv_unimport_mr(struct ibv_mr *mr);

/**
 * Imports device memory: returns another handle of it.
 *
 * *context*: the context of the device memory, or a context that ibv_import_device() created from
 * it.
 * *dm_handle*: ibv_dm.handle.
 * Returns the handle, or NULL with errno.
 * Errors: EINVAL: the context and those from which it was imported have no such device memory;
 * EOPNOTSUPP: the context was imported from another process, whose memory this process cannot use;
 * EIO: the process is a fork()ed child, or the daemon has ended; ENOMEM: no memory.
 * Threads: any. Does not block.
 * State: the memory exists until its last handle is passed to ibv_free_dm() or ibv_unimport_dm()
 * and its last MR is deregistered.
 * Since IBVERBS_1.13. Source: ibv_import_dm(3). See also: ibv_unimport_dm(), ibv_alloc_dm().
 */
struct ibv_dm *ibv_import_dm(struct ibv_context *context, uint32_t dm_handle);

/**
 * Releases a handle of device memory. The memory is freed with its last handle and its last MR.
 *
 * *dm*: a handle of ibv_import_dm() or ibv_alloc_dm(); it may not be used afterwards.
 * Threads: any. Does not block.
 * Since IBVERBS_1.13. Source: ibv_import_dm(3). See also: ibv_import_dm(), ibv_free_dm().
 */
void ibv_unimport_dm(struct ibv_dm *dm);

/**
 * Requests that fork() is safe while memory is registered. With usrdma it always is, because memory
 * is not pinned.
 *
 * Returns 0.
 * Threads: any. Does not block.
 * State: unchanged. In the child, objects that were created before fork() fail with EIO. The child
 * must create its own objects, beginning with ibv_get_device_list(). The parent is not affected.
 * Since IBVERBS_1.1. Source: ibv_fork_init(3). See also: ibv_is_fork_initialized().
 */
int ibv_fork_init(void);

/**
 * Checks whether fork() is safe while memory is registered.
 *
 * Returns IBV_FORK_UNNEEDED: it always is.
 * Threads: any. Does not block.
 * Since IBVERBS_1.13. Source: ibv_is_fork_initialized(3). See also: ibv_fork_init().
 */
enum ibv_fork_status ibv_is_fork_initialized(void);

/* ---- Asynchronous events ---- */

/**
 * Retrieves the oldest asynchronous event of a context, and waits if none is pending.
 *
 * *context*: the context.
 * *event*: filled in. The caller must pass it to ibv_ack_async_event() exactly once.
 * Types: struct ibv_async_event, enum ibv_event_type.
 * Returns 0, or -1 with errno.
 * Errors: EAGAIN: no event is pending and async_fd is O_NONBLOCK; EINTR: a signal interrupted the
 * wait; EIO: the process is a fork()ed child.
 * Threads: any; each event is retrieved once. Blocks until an event is pending, unless async_fd is
 * O_NONBLOCK. async_fd is readable while events are pending.
 * State: an object with a retrieved event cannot be destroyed before the event is acknowledged.
 * Since IBVERBS_1.1. Source: ibv_get_async_event(3), IBA 1.x §11.5. See also:
 * ibv_ack_async_event(), ibv_event_type_str().
 */
int ibv_get_async_event(struct ibv_context *context, struct ibv_async_event *event);

/**
 * Acknowledges an asynchronous event, so that the object of the event can be destroyed.
 *
 * *event*: an event of ibv_get_async_event(). The object that it names must still exist.
 * Threads: any. Does not block. Wakes a thread that waits in the destroying call of the object.
 * Since IBVERBS_1.1. Source: ibv_get_async_event(3). See also: ibv_get_async_event().
 */
void ibv_ack_async_event(struct ibv_async_event *event);

/* ---- Device and port queries ---- */

/**
 * Queries the limits and features of a device.
 *
 * *context*: the device.
 * *device_attr*: filled in.
 * Types: struct ibv_device_attr, enum ibv_device_cap_flags.
 * Returns 0. A fork()ed child may query the device of its parent too.
 * Threads: any. May wait for the daemon after a change of the device.
 * Since IBVERBS_1.1. Source: ibv_query_device(3), IBA 1.x §11.2.1. See also: ibv_query_device_ex(),
 * ibv_query_port().
 */
int ibv_query_device(struct ibv_context *context, struct ibv_device_attr *device_attr);

/**
 * Queries the limits and features of a device, including those that ibv_query_device() does not
 * report.
 *
 * *context*: the device.
 * *input*: NULL, or a structure whose comp_mask is 0.
 * *attr*: filled in. Members that the library does not know are 0.
 * Types: struct ibv_device_attr_ex, struct ibv_odp_caps, struct ibv_cq_moderation_caps.
 * Returns 0 or an errno.
 * Errors: EINVAL: comp_mask of *input* is not 0.
 * Threads: any. May wait for the daemon after a change of the device.
 * Since v13, inline. Source: ibv_query_device_ex(3), IBA 1.x §11.2.1. See also: ibv_query_device().
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
 * *values*: in: comp_mask selects the values; out: comp_mask names the values that are set.
 * raw_clock is the clock of ibv_wc_read_completion_ts() in its unit: ticks, all of them in tv_nsec,
 * with tv_sec 0.
 * Returns 0 or an errno.
 * Errors: EINVAL: comp_mask has no known bit; EIO: the process is a fork()ed child.
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
 * Queries the state and the attributes of a port. A macro of the same name replaces the function:
 * *port_attr* then is a struct ibv_port_attr, and the macro passes its size.
 *
 * *context*: the device.
 * *port_num*: port number, from 1. usrdma devices have port 1 only.
 * *port_attr*: filled in. The exported function, for programs compiled before 2018, writes the
 * first 48 bytes only.
 * Types: struct ibv_port_attr, enum ibv_port_state, enum ibv_mtu.
 * Returns 0 or an errno.
 * Errors: EINVAL: no such port; EIO: the process is a fork()ed child.
 * Threads: any. May wait for the daemon after a change of the port.
 * Since IBVERBS_1.1. Source: ibv_query_port(3), IBA 1.x §11.2.1. See also: ibv_query_device(),
 * ibv_query_gid(), IBV_EVENT_PORT_ACTIVE, IBV_EVENT_PORT_ERR.
 */
int ibv_query_port(struct ibv_context *context, uint8_t port_num,
		   struct _compat_ibv_port_attr *port_attr);

/*
 * The implementation of ibv_query_port(): passes the caller's size of struct ibv_port_attr if the
 * library accepts a size.
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
 * Queries the effective speed of a port: that of its interface, or 10 Gbit/s if the interface does
 * not report a speed.
 *
 * *context*, *port_num*: device; port, from 1.
 * *port_speed*: set to the speed in units of 100 Mbit/s.
 * Returns 0 or an errno.
 * Errors: EINVAL: no such port; EIO: the process is a fork()ed child.
 * Threads: any. May wait for the daemon after a change.
 * Since IBVERBS_1.16. Source: ibv_query_port_speed(3). See also: ibv_query_port().
 */
int ibv_query_port_speed(struct ibv_context *context, uint32_t port_num, uint64_t *port_speed);

/**
 * Reads an entry of the GID table of a port.
 *
 * *context*: the device.
 * *port_num*: port number, from 1.
 * *index*: 0 to gid_tbl_len - 1. Entry 0 is never empty.
 * *gid*: set to the GID; all zero for an empty entry.
 * Returns 0, or -1 with errno.
 * Errors: EINVAL: no such port, or *index* is out of range; EIO: the process is a fork()ed child.
 * Threads: any. May wait for the daemon after a change of the table.
 * Events: IBV_EVENT_GID_CHANGE when an entry has changed. An address keeps its entry while the
 * interface has the address.
 * Since IBVERBS_1.1. Source: ibv_query_gid(3), IBA 1.x §11.2.1. See also: ibv_query_gid_ex(),
 * ibv_query_gid_table(), ibv_query_port().
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
 * the process is a fork()ed child.
 * Threads: any. May wait for the daemon after a change.
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
 * Errors: EINVAL: *max_entries* is too small, or flags not 0; EIO: the process is a
 * fork()ed child.
 * Threads: any. May wait for the daemon after a change.
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
 * Errors: EINVAL: no such port, or index out of range; EIO: the process is a
 * fork()ed child.
 * Threads: any. Does not block.
 * Since IBVERBS_1.1. Source: ibv_query_pkey(3), IBA 1.x §10.9. See also: ibv_get_pkey_index().
 */
int ibv_query_pkey(struct ibv_context *context, uint8_t port_num, int index, __be16 *pkey);

/**
 * Finds a P_Key in a port's table.
 *
 * *context*, *port_num*, *pkey*: device; port, from 1; what ibv_query_pkey() would give.
 * Returns the index, or -1 with errno.
 * Errors: ENOENT: the table lacks this P_Key; EINVAL: no such port; EIO: the process is a
 * fork()ed child.
 * Threads: any. Does not block.
 * Since IBVERBS_1.5. Source: ibv_get_pkey_index(3). See also: ibv_query_pkey().
 */
int ibv_get_pkey_index(struct ibv_context *context, uint8_t port_num, __be16 pkey);

/* ---- Domains ---- */

/**
 * Allocates a protection domain.
 *
 * *context*: the device.
 * Returns the PD, or NULL with errno.
 * Errors: ENOMEM: no memory, or max_pd PDs exist; EIO: the daemon has ended.
 * Threads: any. Does not block.
 * Since IBVERBS_1.1. Source: ibv_alloc_pd(3), IBA 1.x §11.2.1. See also: ibv_dealloc_pd(),
 * ibv_reg_mr(), ibv_create_qp(), ibv_create_ah().
 */
struct ibv_pd *ibv_alloc_pd(struct ibv_context *context);

/**
 * Deallocates a protection domain.
 *
 * *pd*: the PD; it is freed on success.
 * Returns 0 or an errno.
 * Errors: EBUSY: an MR, QP, SRQ or AH of the PD exists; the PD is unchanged.
 * Threads: any. Does not block.
 * Since IBVERBS_1.1. Source: ibv_alloc_pd(3), IBA 1.x §11.2.1. See also: ibv_alloc_pd().
 */
int ibv_dealloc_pd(struct ibv_pd *pd);

/**
 * Allocates a thread domain: a promise of the application that objects of this domain are used by
 * one thread at a time. The RC and UC queue pairs of a parent domain with a thread domain share no
 * lock with those of up to two other thread domains, and with those of no thread domain, while they
 * communicate with processes of this host; except queue pairs with an SRQ, with a completion
 * channel, or for ibv_wr_start(). usrdma does not rely on the promise: any thread may use any
 * object.
 *
 * *context*: the device.
 * *init_attr*: comp_mask is 0.
 * Returns the domain, which the caller passes to ibv_dealloc_td(), or NULL with errno.
 * Errors: EINVAL: comp_mask is not 0; ENOMEM: no memory; EIO: the process is a fork()ed child, or
 * the device was removed.
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
 * Allocates a parent domain: a PD with a thread domain and an allocator for the queues of its
 * objects. Objects of the parent domain and of attr->pd may be used together.
 *
 * *context*: the device.
 * *attr*: pd: a PD of the device that is not a parent domain; td: a thread domain, or NULL; alloc
 * and free: both, with IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS. The thread that creates or resizes a
 * QP or SRQ calls alloc(pd, pd_context, size, alignment, type); type is 1 for a send queue, 2 for a
 * receive queue and 3 for an SRQ. alloc() returns memory, NULL (the call then fails with ENOMEM) or
 * IBV_ALLOCATOR_USE_DEFAULT. free() receives the memory when the object is destroyed.
 * Types: struct ibv_parent_domain_init_attr.
 * Returns the domain, which every call that needs a PD accepts, until ibv_dealloc_pd(); NULL with
 * errno.
 * Errors: EINVAL: unknown comp_mask, a foreign or missing pd or td, one allocator without the
 * other; ENOMEM; EIO: the process is a fork()ed child, or
 * the device was removed.
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
 * Opens or creates an XRC domain.
 *
 * *context*: the device.
 * *xrcd_init_attr*: fd: a file whose inode identifies the domain; the caller may close it
 * afterwards. -1: a domain that no other call can open. oflags: O_CREAT: create the domain if it
 * does not exist; with O_EXCL: fail if it exists. All processes of this host that open the same
 * inode on the same device share the domain: a packet to an XRC receive QP of one process can name
 * an SRQ of another process, and then uses the receives, the CQ and the PD of that SRQ. Permission
 * to open the file is permission to join the domain.
 * Types: struct ibv_xrcd_init_attr.
 * Returns the domain, or NULL with errno.
 * Errors: EINVAL: comp_mask is not IBV_XRCD_INIT_ATTR_FD and IBV_XRCD_INIT_ATTR_OFLAGS, unknown
 * oflags, fd is -1 without O_CREAT, or the domain exists and O_CREAT and O_EXCL are set; EAGAIN:
 * the domain does not exist and O_CREAT is not set; EBADF: fd is not open, or was opened with
 * O_PATH; EDQUOT: this user has too many domains open; ENOMEM: no memory; EOPNOTSUPP: max_srq is 0
 * because of a profile (usrdma(7)); EIO: the daemon has ended.
 * Threads: any. Blocks for a reply of the daemon.
 * Since v13, inline. Source: ibv_open_xrcd(3), IBA A14. See also: ibv_close_xrcd(),
 * ibv_create_qp_ex(), ibv_create_srq_ex(), ibv_open_qp().
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
 * Closes an XRC domain. The domain ends when all that opened it have closed it.
 *
 * *xrcd*: the domain; it is freed on success.
 * Returns 0 or an errno.
 * Errors: EBUSY: an SRQ or QP of the domain exists; the domain is unchanged.
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
 * Registers memory, with all flags. This is what ibv_reg_mr() and ibv_reg_mr_iova() become when
 * their flags are not known at compile time, or contain optional ones (IBV_ACCESS_OPTIONAL_RANGE).
 *
 * *pd*, *addr*, *length*, *iova*, *access*: as ibv_reg_mr_iova().
 * Returns, errors, threads: as ibv_reg_mr().
 * Since IBVERBS_1.8. Source: ibv_reg_mr(3).
 */
struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova,
				unsigned int access);

/**
 * Registers memory for work requests of a PD and, if permitted, for peers. A macro of the same name
 * replaces the function.
 *
 * *pd*: the PD.
 * *addr*: start of the memory: heap, stack, mapped files or shared memory, with any alignment.
 * *length*: number of bytes, up to max_mr_size; 0 is allowed.
 * *access*: 0 or flags of enum ibv_access_flags, which are listed below. 0 permits sends and other
 * reads by work requests of this process only.
 *
 * - LOCAL_WRITE: work requests of this process may write: receives, and results of READs and atomic
 * operations. Without it they complete with IBV_WC_LOC_PROT_ERR. The memory must be writable.
 * - REMOTE_WRITE: peers may WRITE, with immediate data also, and use the atomic WRITE. Needs
 * LOCAL_WRITE.
 * - REMOTE_READ: peers may READ.
 * - REMOTE_ATOMIC: peers may compare-and-swap and fetch-and-add 8 bytes at a multiple of 8. Needs
 * LOCAL_WRITE.
 * - MW_BIND: memory windows may be bound to the MR. A window has remote rights of its own.
 * - ZERO_BASED: addresses in SGEs and of peers are offsets from the start of the MR.
 * - ON_DEMAND: the memory is not examined now, and its pages may be mapped later. With *addr* NULL
 * and *length* SIZE_MAX the MR is the whole address space, also mappings that are made later. No MR
 * of usrdma is pinned.
 * - HUGETLB: the program promises to use huge pages only. No effect.
 * - FLUSH_GLOBAL: peers may FLUSH the memory to the point from which all threads read it.
 * - FLUSH_PERSISTENT: peers may FLUSH the memory to the point where it survives a loss of power.
 * Not supported.
 * - RELAXED_ORDERING: a hint that writes may reach the memory in any order. No effect;
 * usrdma_ordering(7).
 *
 * REMOTE and FLUSH rights must also be in qp_access_flags of the QP. The request of a peer
 * completes with IBV_WC_REM_ACCESS_ERR if the MR does not have the right, and with
 * IBV_WC_REM_INV_REQ_ERR if the QP does not have it.
 * Types: enum ibv_access_flags, struct ibv_mr.
 * Returns the MR with lkey and rkey (the same number), or NULL with errno.
 * Errors: EFAULT: a page of the memory is not mapped, is a guard page, is behind the end of its
 * file, or does not permit *access* (not checked with IBV_ACCESS_ON_DEMAND); EINVAL: REMOTE_WRITE
 * or REMOTE_ATOMIC without LOCAL_WRITE, unknown flag, or the range exceeds max_mr_size or the
 * address space; EOPNOTSUPP: FLUSH_PERSISTENT, because the memory of a process is not persistent;
 * ENOMEM: no memory, or max_mr MRs exist; EIO: the daemon has ended.
 * Threads: any. Does not block. Memory is not pinned: RLIMIT_MEMLOCK does not apply, and no pages
 * are allocated, except at the ends of mappings. The cost grows with the number of mappings and of
 * pages that are present, not with *length*.
 * State: the memory must remain mapped until ibv_dereg_mr(). If a page cannot be accessed any more,
 * because it was unmapped, protected or is behind the end of its file, a work request that uses it
 * completes with IBV_WC_LOC_PROT_ERR, and a peer's request with IBV_WC_REM_OP_ERR. An adapter would
 * continue to use the pinned pages. The library handles SIGSEGV and SIGBUS of its own accesses;
 * usrdma(7), USRDMA_FAULT_HANDLER.
 * Since IBVERBS_1.1. Source: ibv_reg_mr(3), IBA 1.x §10.6.3. See also: ibv_reg_mr_iova(),
 * ibv_reg_mr_ex(), ibv_rereg_mr(), ibv_dereg_mr(), ibv_post_send(), ibv_post_recv(),
 * usrdma_ordering(7).
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
 * Registers memory whose addresses in SGEs and for peers start at *iova* instead of *addr*. A macro
 * of the same name replaces the function.
 *
 * *pd*, *addr*, *length*, *access*: as in ibv_reg_mr().
 * *iova*: the address of the first byte, with the same offset in its page as *addr*.
 * IBV_ACCESS_ZERO_BASED makes it 0.
 * Returns, errors, threads: as ibv_reg_mr(); EINVAL also if iova + length exceeds the address
 * space, or if the offsets in the page differ.
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
 * Registers memory of a file descriptor by mapping it: a dma-buf whose exporter permits mapping by
 * the CPU, or a memfd with F_SEAL_SHRINK, or a file of memfd_secret().
 *
 * *pd*: the PD.
 * *offset*: start of the range in *fd*, in bytes, with any alignment.
 * *length*: number of bytes, greater than 0.
 * *iova*: the address of the first byte, with the same offset in its page as *offset*.
 * *fd*: the file descriptor. The caller may close it afterwards. -1 is a probe, as NCCL and UCX use
 * it: EBADF reports that the memory of GPUs can be registered, EOPNOTSUPP that it cannot. The CPU
 * copies the data, and most GPUs do not permit it to map their memory. The result is therefore
 * EOPNOTSUPP, unless the device has the attribute gpu=yes (usrdma(1), --profile).
 * *access*: as in ibv_reg_mr(), without IBV_ACCESS_ON_DEMAND.
 * Returns the MR, whose addr is NULL, or NULL with errno.
 * Errors: EBADF: *fd* is not open, or it is -1 and the device has gpu=yes; EINVAL: *fd* can shrink,
 * as files and memfds without F_SEAL_SHRINK; the range exceeds *fd*; or as ibv_reg_mr_iova();
 * EACCES, EPERM: *fd* does not permit the mapping that *access* needs; EOPNOTSUPP: *fd* is -1; the
 * exporter does not permit mapping; IBV_ACCESS_ON_DEMAND; EAGAIN: RLIMIT_MEMLOCK, of
 * memfd_secret(); EIO: the process is a fork()ed child, or the daemon has ended; ENOMEM: no memory,
 * or max_mr MRs exist.
 * Threads: any. Does not block.
 * State: if the exporter revokes pages, operations on them fail as with an unmapped MR.
 * ibv_rereg_mr() fails with EOPNOTSUPP.
 * Since IBVERBS_1.12. Source: ibv_reg_mr(3), memfd_create(2). See also: ibv_reg_mr(),
 * ibv_reg_mr_ex().
 */
struct ibv_mr *ibv_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t length, uint64_t iova,
				 int fd, int access);

/**
 * Registers memory with extended attributes.
 *
 * *pd*: the PD.
 * *mr_init_attr*: length, access, and the members that comp_mask names: ADDR, or FD with or without
 * FD_OFFSET (default 0); both with or without IOVA (default: the address, or the offset). With ADDR
 * also BUF, whose memory must contain the range, as in ibv_reg_buf_mr().
 * Types: struct ibv_mr_init_attr, enum ibv_mr_init_attr_mask.
 * Returns the MR, or NULL with errno.
 * Errors: as ibv_reg_mr() and, with FD, ibv_reg_dmabuf_mr(); EINVAL: unknown bits, FD_OFFSET
 * without FD, both or neither of ADDR and FD, FD with BUF, or memory outside of BUF; EOPNOTSUPP:
 * DMAH.
 * Threads: any. Does not block.
 * Since IBVERBS_1.15. Source: ibv_reg_mr_ex(3). See also: ibv_reg_mr().
 */
struct ibv_mr *ibv_reg_mr_ex(struct ibv_pd *pd, struct ibv_mr_init_attr *mr_init_attr);

/**
 * Changes the memory, the PD or the access rights of an MR. The keys do not change.
 *
 * *mr*: the MR.
 * *flags*: enum ibv_rereg_mr_flags: the parameters to use; not 0.
 * *pd*: new PD, of the same context.
 * *addr*, *length*: new memory, neither NULL nor 0. Addresses then start at *addr*.
 * *access*: new access rights, enum ibv_access_flags; 0 without IBV_REREG_MR_CHANGE_ACCESS.
 * Types: enum ibv_rereg_mr_flags, enum ibv_rereg_mr_err_code.
 * Returns 0, or a negative enum ibv_rereg_mr_err_code with errno. IBV_REREG_MR_ERR_INPUT: the MR is
 * unchanged; IBV_REREG_MR_ERR_CMD: the MR is invalid and must be deregistered.
 * Errors: with ERR_INPUT: those of ibv_reg_mr(), EINVAL also for unknown flags, another context's
 * PD, or an MR of ibv_alloc_null_mr(), EBUSY: as ibv_dereg_mr(); with ERR_CMD: EIO.
 * Threads: any. Blocks for remote accesses to the MR in progress, as ibv_dereg_mr().
 * State: a work request in progress uses either the old or the new MR.
 * Since IBVERBS_1.1. Source: ibv_rereg_mr(3), IBA 1.x §10.6.3. See also: ibv_reg_mr().
 */
int ibv_rereg_mr(struct ibv_mr *mr, int flags, struct ibv_pd *pd, void *addr, size_t length,
		 int access);

/**
 * Deregisters memory.
 *
 * *mr*: the MR; it is freed on success.
 * Returns 0 or an errno.
 * Errors: EBUSY: a memory window is bound to the MR, a process of this host has not finished an
 * access to it after 10 s, or ibv_rereg_mr() of another thread waits for such an access; EINVAL:
 * the MR was deregistered through another handle (ibv_import_mr()), and this handle needs
 * ibv_unimport_mr(). On failure the MR is unchanged.
 * Threads: any. Blocks for remote accesses in progress, at most 10 s. After the call returned 0, no
 * peer reads or writes the memory. The call does not wait for a peer that was stopped or killed.
 * State: work requests that use the keys afterwards fail with a protection or access error. The
 * keys are not reused soon.
 * Since IBVERBS_1.1. Source: ibv_reg_mr(3), IBA 1.x §10.6.3. See also: ibv_reg_mr().
 */
int ibv_dereg_mr(struct ibv_mr *mr);

/**
 * Allocates an MR that discards the data written to it and reads as zeros, at any address and
 * length. Only its lkey can be used; it has no rkey for peers.
 *
 * *pd*: the protection domain.
 * Returns the MR, which the caller passes to ibv_dereg_mr(); NULL with errno.
 * Errors: ENOMEM; EIO: the process is a fork()ed child, or the device was removed.
 * Threads: any. Does not block. The first one takes 8 GiB of addresses, and memory for what is
 * written to it, at most 32 MiB, until the process ends.
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
 * Announces the use of memory, so that its pages can be loaded. For MRs with IBV_ACCESS_ON_DEMAND.
 *
 * *pd*: the PD of the MRs.
 * *advice*: IBV_ADVISE_MR_ADVICE_PREFETCH: for reading; IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE: for
 * writing; IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT: pages that are in memory already.
 * *flags*: 0, or IBV_ADVISE_MR_FLAG_FLUSH: wait until the pages are loaded. usrdma always waits.
 * *sg_list*, *num_sge*: ranges of MRs by their lkeys, and the number of ranges, which is not 0.
 * Returns 0 or an errno. On failure the ranges before the invalid one may have been loaded.
 * Errors: EOPNOTSUPP: unknown advice; EINVAL: unknown flag, no range, or an MR without
 * IBV_ACCESS_ON_DEMAND; EPERM: an MR of another PD, or one without the right to write; EFAULT:
 * unknown lkey, a range outside of the MR, or memory with a page that cannot be accessed; EIO.
 * Threads: any. Blocks until the kernel has loaded the pages.
 * Since v22, inline. Source: ibv_advise_mr(3). See also: ibv_reg_mr(), madvise(2).
 */
static inline int ibv_advise_mr(struct ibv_pd *pd, enum ibv_advise_mr_advice advice, uint32_t flags,
				struct ibv_sge *sg_list, uint32_t num_sge)
{
	struct verbs_context *vctx = verbs_get_ctx_op(pd->context, advise_mr);

	return vctx ? vctx->advise_mr(pd, advice, flags, sg_list, num_sge) : EOPNOTSUPP;
}

/**
 * Allocates memory in the way that suits the device best. For usrdma all memory does: these are
 * pages of the process, zeroed, taken when they are touched.
 *
 * *pd*: for MRs of which it will be; cannot be deallocated before the buffer is freed.
 * *size*: bytes, 1 to max_mr_size.
 * *buf*: set to a handle for ibv_reg_buf_mr() and ibv_free_buf().
 * Returns the memory, at the beginning of a page, or NULL with errno.
 * Errors: EINVAL: size out of range; ENOMEM: no memory; EIO: the process is a fork()ed child, or
 * the daemon has ended.
 * Threads: any. Does not block.
 * Since IBVERBS_1.17. Source: ibv_alloc_buf(3). See also: ibv_reg_mr().
 */
void *ibv_alloc_buf(struct ibv_pd *pd, size_t size, struct ibv_buf **buf);

/**
 * Exports the dma-buf behind memory of ibv_alloc_buf() as a file descriptor. A provider has such a
 * dma-buf where it allocates device-aware memory. usrdma allocates ordinary pages of the process on
 * every PD, so the buffer has none.
 *
 * *buf*: of ibv_alloc_buf().
 * Returns a descriptor, or -1 with errno.
 * Errors: ENODATA: no dma-buf is behind the buffer, on usrdma always; EINVAL: *buf* is NULL.
 * Threads: any. Does not block.
 * Since IBVERBS_1.18. Source: ibv_alloc_buf(3). See also: ibv_alloc_buf(), ibv_reg_dmabuf_mr().
 */
int ibv_export_buf_dmabuf_fd(struct ibv_buf *buf);

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
 * Errors: EINVAL: no buffer, another PD, outside the buffer, and as ibv_reg_mr(); EOPNOTSUPP,
 * ENOMEM, EIO: as ibv_reg_mr().
 * Threads: any. Does not block.
 * Since IBVERBS_1.17. Source: ibv_alloc_buf(3). See also: ibv_reg_mr(), ibv_reg_mr_ex().
 */
struct ibv_mr *ibv_reg_buf_mr(struct ibv_pd *pd, struct ibv_buf *buf, void *addr, size_t length,
			      int access);

/**
 * Allocates a DMA handle, which gives a PCIe device hints for the placement of its writes. usrdma
 * does not support it, because no PCIe device writes the data.
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
 * *context*, *attr*: device; length, 1 to max_dm_size bytes, alignment, at most a page, and
 * comp_mask 0.
 * Returns the memory, owned by the caller until ibv_free_dm(); NULL with errno.
 * Errors: EINVAL: length, alignment or comp_mask; ENOMEM; EIO: the device was removed.
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
 * *dm*, *dm_offset*, *host_addr*, *length*: device memory; bytes into it; source; bytes. Offset and
 * length are multiples of 4.
 * Returns 0 or an errno.
 * Errors: EINVAL: not a multiple of 4, or outside; EFAULT: *host_addr* cannot be read.
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
 * *host_addr*, *dm*, *dm_offset*, *length*: destination; device memory; bytes into it; bytes.
 * Offset and length are multiples of 4.
 * Returns 0 or an errno.
 * Errors: EINVAL: not a multiple of 4, or outside; EFAULT: *host_addr* cannot be written.
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
 * Returns the MR, which the caller passes to ibv_dereg_mr() before the memory is freed; NULL with
 * errno.
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
 * Exports device memory as a dma-buf. usrdma does not support it.
 *
 * *dm*: of ibv_alloc_dm().
 * Returns -1 with errno EOPNOTSUPP.
 * Threads: any. Does not block.
 * Since IBVERBS_1.16. Source: ibv_alloc_dm(3).
 */
int ibv_dm_export_dmabuf_fd(struct ibv_dm *dm);

/* ---- Memory windows ---- */

/**
 * Allocates a memory window. Binding it by a work request makes part of an MR accessible with a
 * separate rkey.
 *
 * *pd*: the PD. It cannot be deallocated before the window.
 * *type*: enum ibv_mw_type. ibv_bind_mw() binds a type 1 window, which serves all QPs of the PD.
 * IBV_WR_BIND_MW or ibv_wr_bind_mw() binds a type 2 window to an rkey whose low 8 bits the
 * application selects; it serves the QP on which it was bound (type 2A).
 * Returns the window, which the caller passes to ibv_dealloc_mw(), or NULL with errno.
 * Errors: EINVAL: no such type; ENOMEM: no memory, or max_mw windows exist; EIO: the process is a
 * fork()ed child, or the device was removed.
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
 * Deallocates a memory window, bound or not. Its rkey is invalid when the call returns.
 *
 * *mw*: the window. A posted bind that has not completed fails with IBV_WC_MW_BIND_ERR.
 * Returns 0.
 * Threads: any. Does not block.
 * Since v13, inline. Source: ibv_alloc_mw(3), IBA 1.x §11.2.10.13.
 */
static inline int ibv_dealloc_mw(struct ibv_mw *mw)
{
	return mw->context->ops.dealloc_mw(mw);
}

/**
 * Computes the next rkey for a type 2 memory window. Only the low 8 bits, which the application
 * selects, are incremented.
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
 * *qp*: an RC or UC QP that can send.
 * *mw*: the window. mw->rkey is the new rkey when the call returns. It is valid after the
 * completion of the bind.
 * *mw_bind*: the range, which is copied. The MR needs IBV_ACCESS_MW_BIND, and
 * IBV_ACCESS_LOCAL_WRITE if peers may write through the window. mr NULL with addr 0 and length 0
 * unbinds.
 * Types: struct ibv_mw_bind, struct ibv_mw_bind_info.
 * Returns 0 or an errno.
 * Errors: EINVAL: the window is of type 2, a range without MR, access or send flags that a bind
 * does not have, or wrong state or type of the QP; EPERM: MR and window belong to different PDs;
 * ENOMEM: the send queue is full; EIO.
 * Threads: any. Does not block.
 * State: while a window is bound, ibv_dereg_mr() of its MR fails with EBUSY.
 * Events: a completion with opcode IBV_WC_BIND_MW; with status IBV_WC_MW_BIND_ERR if the MR does
 * not permit the bind, and the QP enters ERR.
 * Since v13, inline. Source: ibv_bind_mw(3), IBA 1.x §10.6. See also: ibv_alloc_mw(),
 * IBV_WR_BIND_MW.
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
 * Creates a completion channel, on which CQs report completion events.
 *
 * *context*: the device.
 * Types: struct ibv_comp_channel.
 * Returns the channel, or NULL with errno.
 * Errors: EMFILE, ENFILE: no file descriptor is available; ENOMEM: no memory; EIO: the daemon has
 * ended.
 * Threads: any. Does not block.
 * Since IBVERBS_1.0. Source: ibv_create_comp_channel(3), IBA 1.x §11.5. See also:
 * ibv_destroy_comp_channel(), ibv_create_cq(), ibv_get_cq_event(), ibv_req_notify_cq().
 */
struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *context);

/**
 * Destroys a completion channel.
 *
 * *channel*: the channel; it is freed on success and its fd is closed.
 * Returns 0 or an errno.
 * Errors: EBUSY: a CQ uses the channel; the channel is unchanged.
 * Threads: any. Does not block.
 * Since IBVERBS_1.0. Source: ibv_create_comp_channel(3). See also: ibv_create_comp_channel().
 */
int ibv_destroy_comp_channel(struct ibv_comp_channel *channel);

/**
 * Creates a completion queue.
 *
 * *context*: the device.
 * *cqe*: minimum number of completions that the CQ can hold, 1 to max_cqe. ibv_cq.cqe is set to the
 * actual number. Unused entries need no memory.
 * *cq_context*: any value; ibv_get_cq_event() returns it. May be NULL.
 * *channel*: the completion channel for events, of the same context. NULL: the CQ has no completion
 * events.
 * *comp_vector*: 0 to num_comp_vectors - 1; no effect.
 * Returns the CQ, or NULL with errno.
 * Errors: EINVAL: *cqe* or *comp_vector* is out of range, or the channel belongs to another
 * context; ENOMEM: no memory, or max_cq CQs exist; EIO: the daemon has ended.
 * Threads: any. Does not block.
 * State: if the CQ overflows, IBV_EVENT_CQ_ERR is reported once and no more completions are added.
 * Completions in the CQ can still be polled. Each QP that loses a completion enters ERR with
 * IBV_EVENT_QP_FATAL. The size should cover all WRs that can be outstanding on the QPs of the CQ.
 * Since IBVERBS_1.1. Source: ibv_create_cq(3), IBA 1.x §11.2. See also: ibv_create_cq_ex(),
 * ibv_resize_cq(), ibv_poll_cq(), ibv_req_notify_cq(), ibv_destroy_cq().
 */
struct ibv_cq *ibv_create_cq(struct ibv_context *context, int cqe, void *cq_context,
			     struct ibv_comp_channel *channel, int comp_vector);

/**
 * Creates a completion queue whose completions are read with ibv_start_poll().
 *
 * *context*: the device.
 * *cq_attr*: size, channel, and the values that completions carry.
 * Types: struct ibv_cq_init_attr_ex, enum ibv_create_cq_wc_flags, enum ibv_create_cq_attr_flags.
 * Returns the CQ, or NULL with errno. An ibv_wc_read_*() call may be used only if wc_flags
 * requested its value.
 * Errors: as ibv_create_cq(); EINVAL: unknown bits in comp_mask or flags, parent_domain is not a
 * parent domain, or as ibv_create_cq(); EOPNOTSUPP: wc_flags has CVLAN, FLOW_TAG, TM_INFO or
 * unknown bits.
 * Threads: any. Does not block. With IBV_CREATE_CQ_ATTR_SINGLE_THREADED only one thread may poll at
 * a time.
 * State: with IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN a full CQ discards its oldest completion instead of
 * reporting IBV_EVENT_CQ_ERR.
 * Since v13, inline. Source: ibv_create_cq_ex(3), IBA 1.x §11.2. See also: ibv_start_poll(),
 * ibv_cq_ex_to_cq(), ibv_create_cq().
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
 * Converts an extended CQ for calls that take a struct ibv_cq.
 *
 * *cq*: a CQ of ibv_create_cq_ex().
 * Returns the same CQ.
 * Threads: any. Pure.
 * Since v13, inline. Source: ibv_create_cq_ex(3). See also: ibv_create_cq_ex().
 */
static inline struct ibv_cq *ibv_cq_ex_to_cq(struct ibv_cq_ex *cq)
{
	return (struct ibv_cq *)cq;
}

/**
 * Changes the size of a CQ. Its completions remain in order.
 *
 * *cq*: the CQ. ibv_cq.cqe is updated.
 * *cqe*: minimum number of completions, 1 to max_cqe.
 * Returns 0 or an errno.
 * Errors: EINVAL: *cqe* is out of range, or less than the number of completions in the CQ; ENOMEM:
 * no memory; EIO: the daemon has ended. On failure the CQ is unchanged.
 * Threads: any, also while other threads poll and work requests complete. Does not block.
 * Since IBVERBS_1.1. Source: ibv_resize_cq(3), IBA 1.x §11.2. See also: ibv_create_cq().
 */
int ibv_resize_cq(struct ibv_cq *cq, int cqe);

/**
 * Sets the event moderation of a CQ. An armed CQ reports its event when cq_count matching
 * completions are in the CQ or the oldest matching completion is cq_period old, whichever is first.
 * Completions can be polled at once in any case.
 *
 * *cq*: any CQ. A CQ without a channel has no events.
 * *attr*: attr_mask is IBV_CQ_ATTR_MODERATE, or 0 for no change; moderate: the values, up to
 * cq_mod_caps of ibv_query_device_ex().
 * Types: struct ibv_modify_cq_attr, struct ibv_moderate_cq.
 * Returns 0 or an errno.
 * Errors: EINVAL: unknown bit in attr_mask; EIO: the process is a fork()ed child. On failure the CQ
 * is unchanged.
 * Threads: any. Does not block.
 * State: the new values apply to completions that are in the CQ too. If both values are 0, a
 * pending event is reported at once.
 * Since v16, inline. Source: ibv_modify_cq(3). See also: ibv_req_notify_cq(),
 * ibv_query_device_ex().
 */
static inline int ibv_modify_cq(struct ibv_cq *cq, struct ibv_modify_cq_attr *attr)
{
	struct verbs_context *vctx = verbs_get_ctx_op(cq->context, modify_cq);

	return vctx ? vctx->modify_cq(cq, attr) : EOPNOTSUPP;
}

/*
 * Called by ibv_query_comp_cntr_caps() with the size of ibv_comp_cntr_caps that the program was
 * compiled with.
 * Since IBVERBS_1.18.
 */
int _ibv_query_comp_cntr_caps(struct ibv_context *context, struct ibv_comp_cntr_caps *caps,
			      size_t caps_size);

/**
 * Queries the completion counter capabilities of a device.
 *
 * *context*: the device.
 * *caps*: filled in. max_value is the largest value of a counter, after which it wraps to 0;
 * max_counters is the number of counters that a process may have at a time; supported_qp_attach_ops
 * is a mask of enum ibv_qp_attach_comp_cntr_op. usrdma supports all of them, as far as the type of
 * the QP has the operation.
 * Returns 0.
 * Threads: any. Does not block.
 * Since IBVERBS_1.18. Source: ibv_query_comp_cntr_caps(3). See also: ibv_create_comp_cntr(),
 * ibv_qp_attach_comp_cntr().
 */
static inline int ibv_query_comp_cntr_caps(struct ibv_context *context,
					   struct ibv_comp_cntr_caps *caps)
{
	return _ibv_query_comp_cntr_caps(context, caps, sizeof(*caps));
}

/**
 * Creates a completion counter: two 64-bit values, one of successful completions and one of failed
 * ones. Both start at 0. They count the work of the queue pairs that ibv_qp_attach_comp_cntr()
 * attaches, whether or not a work request also generates a completion in a completion queue. A
 * program that only needs the number of completed requests can post them unsignaled and read the
 * counter.
 *
 * *context*: the device.
 * *cc_attr*: *type* is the unit of the completion count. IBV_COMP_CNTR_TYPE_WRS counts work
 * requests, IBV_COMP_CNTR_TYPE_BYTES the bytes of their messages, as byte_len of their completion
 * would. The error count counts work requests with either type. comp_mask and flags are 0.
 * Returns the counter, or NULL with errno.
 * Errors: EINVAL: unknown type, comp_mask or flags not 0; ENOMEM: no memory, or max_counters
 * counters exist; EIO: the process is a fork()ed child, or the daemon has ended.
 * Threads: any. Does not block.
 * Since IBVERBS_1.18. Source: ibv_create_comp_cntr(3). See also: ibv_destroy_comp_cntr(),
 * ibv_read_comp_cntr(), ibv_query_comp_cntr_caps().
 */
struct ibv_comp_cntr *ibv_create_comp_cntr(struct ibv_context *context,
					   struct ibv_comp_cntr_init_attr *cc_attr);

/**
 * Destroys a completion counter.
 *
 * *comp_cntr*: freed on success.
 * Returns 0 or an errno.
 * Errors: EBUSY: it is attached to a QP, which must be destroyed first; nothing is changed.
 * Threads: any. Does not block.
 * Since IBVERBS_1.18. Source: ibv_create_comp_cntr(3). See also: ibv_destroy_qp().
 */
int ibv_destroy_comp_cntr(struct ibv_comp_cntr *comp_cntr);

/**
 * Sets the completion count of a completion counter.
 *
 * *comp_cntr*, *value*: counter; new count. Completions while the call runs are counted before or
 * after it, so the result is exact only while no attached QP has outstanding work.
 * Returns 0.
 * Threads: any. Does not block.
 * Since IBVERBS_1.18. Source: ibv_create_comp_cntr(3). See also: ibv_set_err_comp_cntr(),
 * ibv_inc_comp_cntr().
 */
int ibv_set_comp_cntr(struct ibv_comp_cntr *comp_cntr, uint64_t value);

/**
 * Sets the error count of a completion counter, as ibv_set_comp_cntr() sets the completion count.
 *
 * *comp_cntr*, *value*: counter; new count.
 * Returns 0.
 * Threads: any. Does not block.
 * Since IBVERBS_1.18. Source: ibv_create_comp_cntr(3). See also: ibv_set_comp_cntr().
 */
int ibv_set_err_comp_cntr(struct ibv_comp_cntr *comp_cntr, uint64_t value);

/**
 * Adds to the completion count of a completion counter. No concurrent completion is lost.
 *
 * *comp_cntr*, *amount*: counter; number to add. The sum wraps after max_value.
 * Returns 0.
 * Threads: any. Does not block.
 * Since IBVERBS_1.18. Source: ibv_create_comp_cntr(3). See also: ibv_set_comp_cntr().
 */
int ibv_inc_comp_cntr(struct ibv_comp_cntr *comp_cntr, uint64_t amount);

/**
 * Adds to the error count of a completion counter, as ibv_inc_comp_cntr() adds to the completion
 * count.
 *
 * *comp_cntr*, *amount*: counter; number to add.
 * Returns 0.
 * Threads: any. Does not block.
 * Since IBVERBS_1.18. Source: ibv_create_comp_cntr(3). See also: ibv_inc_comp_cntr().
 */
int ibv_inc_err_comp_cntr(struct ibv_comp_cntr *comp_cntr, uint64_t amount);

/**
 * Reads the completion count of a completion counter. The data of every message that the result
 * includes is visible to the calling thread. Like ibv_poll_cq(), the call also makes progress, so
 * that a program may spin on it.
 *
 * *comp_cntr*: the counter.
 * *value*: receives the count.
 * Returns 0.
 * Threads: any. Does not block.
 * Since IBVERBS_1.18. Source: ibv_create_comp_cntr(3). See also: ibv_read_err_comp_cntr(),
 * ibv_poll_cq().
 */
int ibv_read_comp_cntr(struct ibv_comp_cntr *comp_cntr, uint64_t *value);

/**
 * Reads the error count of a completion counter, as ibv_read_comp_cntr() reads the completion
 * count. A work request that is flushed is an error as well; so is an RDMA operation of the peer
 * that this side refuses.
 *
 * *comp_cntr*: the counter.
 * *value*: receives the count.
 * Returns 0.
 * Threads: any. Does not block.
 * Since IBVERBS_1.18. Source: ibv_create_comp_cntr(3). See also: ibv_read_comp_cntr().
 */
int ibv_read_err_comp_cntr(struct ibv_comp_cntr *comp_cntr, uint64_t *value);

/**
 * Destroys a completion queue with its completions and events.
 *
 * *cq*: the CQ; it is freed on success.
 * Returns 0 or an errno.
 * Errors: EBUSY: a QP uses the CQ; the CQ is unchanged.
 * Threads: any. Blocks until all events of the CQ that ibv_get_cq_event() and ibv_get_async_event()
 * returned are acknowledged. A thread that calls it with such an event unacknowledged deadlocks. If
 * the wait lasts longer than two seconds, USRDMA_LOG=warn reports it.
 * Since IBVERBS_1.1. Source: ibv_create_cq(3), IBA 1.x §11.2. See also: ibv_create_cq(),
 * ibv_ack_cq_events().
 */
int ibv_destroy_cq(struct ibv_cq *cq);

/**
 * Retrieves the oldest event of a completion channel, and waits if none is pending.
 *
 * *channel*: the channel.
 * *cq*: set to the CQ of the event.
 * *cq_context*: set to the cq_context of that CQ.
 * Returns 0, or -1 with errno.
 * Example: the usual sequence, which misses no completion:
 *
 *	ibv_req_notify_cq(cq, 0);
 *	for (;;) {
 *		ibv_get_cq_event(channel, &event_cq, &context);
 *		ibv_ack_cq_events(event_cq, 1);
 *		ibv_req_notify_cq(event_cq, 0);
 *		while (ibv_poll_cq(event_cq, 1, &wc) > 0)
 *			handle(&wc);
 *	}
 *
 * Errors: EAGAIN: no event is pending and fd of the channel is O_NONBLOCK; EINTR: a signal
 * interrupted the wait; EIO: the process is a fork()ed child.
 * Threads: any; each event is retrieved once. Blocks until an event is pending, unless fd is
 * O_NONBLOCK. fd is readable while events are pending.
 * State: the CQ is no longer armed: call ibv_req_notify_cq() again, and then poll until the CQ is
 * empty. It can be empty already: its completions were polled before the event was retrieved, or
 * the message of a process of this host that caused the event has failed. The CQ cannot be
 * destroyed before ibv_ack_cq_events().
 * Since IBVERBS_1.1. Source: ibv_get_cq_event(3), IBA 1.x §11.5. See also:
 * ibv_create_comp_channel(), ibv_req_notify_cq(), ibv_ack_cq_events(), ibv_poll_cq().
 */
int ibv_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq, void **cq_context);

/**
 * Acknowledges completion events, so that the CQ can be destroyed.
 *
 * *cq*: the CQ.
 * *nevents*: number of events of this CQ that ibv_get_cq_event() returned. One call for many events
 * is cheaper than many calls, because each call takes a mutex.
 * Threads: any. Does not block. Wakes a thread that waits in ibv_destroy_cq().
 * Since IBVERBS_1.1. Source: ibv_get_cq_event(3). See also: ibv_get_cq_event(), ibv_destroy_cq().
 */
void ibv_ack_cq_events(struct ibv_cq *cq, unsigned int nevents);

/**
 * Arms a CQ: the next matching completion causes one event on the channel of the CQ.
 *
 * *cq*: the CQ. If it has no channel, the call has no effect.
 * *solicited_only*: 0: any completion matches. Nonzero: only completions of receives whose sender
 * set IBV_SEND_SOLICITED, and completions with an error, match. If both kinds were requested, any
 * completion matches.
 * Returns 0 or an errno.
 * Errors: EIO: the process is a fork()ed child.
 * Threads: any. Does not block.
 * State: if the CQ contains a matching completion that arrived after the last event, the event is
 * generated at once. Completions that were there at the last event cause no other one. Devices
 * differ in this, so a portable program polls the CQ after arming, and accepts an event with an
 * empty CQ.
 * Events: one event, which ibv_get_cq_event() returns. It disarms the CQ.
 * Since v13, inline. Source: ibv_req_notify_cq(3), IBA 1.x §11.4.2.2. See also:
 * ibv_create_comp_channel(), ibv_get_cq_event(), ibv_poll_cq().
 */
static inline int ibv_req_notify_cq(struct ibv_cq *cq, int solicited_only)
{
	return cq->context->ops.req_notify_cq(cq, solicited_only);
}

/**
 * Removes completions from a CQ, oldest first.
 *
 * *cq*: the CQ.
 * *num_entries*: maximum number of completions.
 * *wc*: an array of *num_entries* elements, filled from the start.
 * Types: struct ibv_wc, enum ibv_wc_status, enum ibv_wc_opcode, enum ibv_wc_flags.
 * Returns the number of completions; 0 if the CQ is empty. A device can return a negative number on
 * failure; usrdma never does.
 * Threads: any; each completion is returned once. Does not block. On an empty CQ the call processes
 * packets of the process; progress does not depend on it. If the application waits for the CQ's
 * channel with poll(2) and has armed the CQ, the first call that finds it empty polls for up to 160
 * us before it returns 0.
 * State: a WR occupies its entry of the work queue until its completion, or a later completion of
 * the same queue, is polled. The data of a completed receive, READ or atomic operation is visible
 * to the thread that polled the completion; usrdma_ordering(7).
 *
 * A CQ that is full when another completion arrives is overrun. The application has to poll often
 * enough, or to create the CQ with an entry for each WR that can be outstanding on its QPs and
 * SRQs. After an overrun, IBV_EVENT_CQ_ERR is reported once. The calls that follow return the
 * completions that were in the CQ, and then 0; later completions are lost. Each QP that loses a
 * completion enters ERR with IBV_EVENT_QP_FATAL. The CQ must be destroyed. A CQ with
 * IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN discards its oldest completion instead.
 * Events: IBV_EVENT_CQ_ERR, IBV_EVENT_QP_FATAL after an overrun.
 * Since v13, inline. Source: ibv_poll_cq(3), IBA 1.x §11.4.2.1. See also: ibv_create_cq(),
 * ibv_create_cq_ex(), ibv_resize_cq(), ibv_req_notify_cq(), ibv_post_send(), ibv_post_recv(),
 * ibv_get_async_event(), ibv_wc_status_str(), usrdma_ordering(7).
 */
static inline int ibv_poll_cq(struct ibv_cq *cq, int num_entries, struct ibv_wc *wc)
{
	return cq->context->ops.poll_cq(cq, num_entries, wc);
}

/**
 * Starts to read completions of a CQ, at the oldest one.
 *
 * *cq*: a CQ of ibv_create_cq_ex().
 * *attr*: comp_mask is 0.
 * Returns 0: cq->status, cq->wr_id and the ibv_wc_read_*() calls return the values of that
 * completion until ibv_next_poll() or ibv_end_poll(). Otherwise an errno, and ibv_end_poll() must
 * not be called.
 * Errors: ENOENT: the CQ is empty; EINVAL: comp_mask is not 0; EIO: the process is a fork()ed
 * child.
 * Threads: one at a time between ibv_start_poll() and ibv_end_poll(). Other threads wait in
 * ibv_start_poll(), unless the CQ has IBV_CREATE_CQ_ATTR_SINGLE_THREADED. Other verbs may be called
 * in between.
 * Since v13, inline. Source: ibv_create_cq_ex(3), IBA 1.x §11.4.2.1. See also: ibv_create_cq_ex(),
 * ibv_next_poll(), ibv_end_poll(), ibv_wc_read_opcode().
 */
static inline int ibv_start_poll(struct ibv_cq_ex *cq, struct ibv_poll_cq_attr *attr)
{
	return cq->start_poll(cq, attr);
}

/**
 * Advances to the next completion.
 *
 * *cq*: the CQ, between ibv_start_poll() and ibv_end_poll().
 * Returns 0, or ENOENT if the CQ has no further completion. ibv_end_poll() is required in both
 * cases.
 * Threads: that of ibv_start_poll(). Does not block.
 * Since v13, inline. Source: ibv_create_cq_ex(3). See also: ibv_start_poll().
 */
static inline int ibv_next_poll(struct ibv_cq_ex *cq)
{
	return cq->next_poll(cq);
}

/**
 * Ends the reading of completions. The completions that were read are removed from the CQ.
 *
 * *cq*: the CQ, after ibv_start_poll().
 *
 * *cq*: the CQ, after ibv_start_poll().
 * Threads: that of ibv_start_poll(). Does not block.
 * Since v13, inline. Source: ibv_create_cq_ex(3). See also: ibv_start_poll().
 */
static inline void ibv_end_poll(struct ibv_cq_ex *cq)
{
	cq->end_poll(cq);
}

/**
 * Reads the opcode of the current completion. This call and the others of this page may be called
 * between ibv_start_poll() and ibv_end_poll(), by the thread that called ibv_start_poll(). A call
 * that needs a flag needs it in ibv_cq_init_attr_ex.wc_flags; without the flag its result is
 * undefined. If the status is not IBV_WC_SUCCESS, only status, wr_id, vendor_err and qp_num are
 * valid.
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
 * Gets the number of the check that failed, as ibv_wc.vendor_err.
 *
 * Returns the number; 0 on success.
 * Since v13, inline. Page: ibv_wc_read_opcode().
 */
static inline uint32_t ibv_wc_read_vendor_err(struct ibv_cq_ex *cq)
{
	return cq->read_vendor_err(cq);
}

/**
 * Gets the number of bytes received or read. Needs the flag IBV_WC_EX_WITH_BYTE_LEN.
 *
 * Returns the number of bytes; 8 for atomic operations.
 * Since v13, inline. Page: ibv_wc_read_opcode().
 */
static inline uint32_t ibv_wc_read_byte_len(struct ibv_cq_ex *cq)
{
	return cq->read_byte_len(cq);
}

/**
 * Gets the immediate data, if ibv_wc_read_wc_flags() has IBV_WC_WITH_IMM. Needs the flag
 * IBV_WC_EX_WITH_IMM.
 *
 * Returns the 4 bytes in network byte order.
 * Since v13, inline. Page: ibv_wc_read_opcode().
 */
static inline __be32 ibv_wc_read_imm_data(struct ibv_cq_ex *cq)
{
	return cq->read_imm_data(cq);
}

/**
 * Gets the rkey that the peer invalidated, if ibv_wc_read_wc_flags() has IBV_WC_WITH_INV. Needs the
 * flag IBV_WC_EX_WITH_IMM.
 *
 * Returns the rkey.
 * Since v15, inline. Page: ibv_wc_read_opcode().
 */
static inline uint32_t ibv_wc_read_invalidated_rkey(struct ibv_cq_ex *cq)
{
	return cq->read_imm_data(cq);
}

/**
 * Gets the number of the local QP. Needs the flag IBV_WC_EX_WITH_QP_NUM.
 *
 * Returns the QP number.
 * Since v13, inline. Page: ibv_wc_read_opcode().
 */
static inline uint32_t ibv_wc_read_qp_num(struct ibv_cq_ex *cq)
{
	return cq->read_qp_num(cq);
}

/**
 * Gets the QP number of the sender, for receives on UD. Needs the flag IBV_WC_EX_WITH_SRC_QP.
 *
 * Returns the QP number.
 * Since v13, inline. Page: ibv_wc_read_opcode().
 */
static inline uint32_t ibv_wc_read_src_qp(struct ibv_cq_ex *cq)
{
	return cq->read_src_qp(cq);
}

/**
 * Gets the flags of the completion.
 *
 * Returns enum ibv_wc_flags.
 * Since v13, inline. Page: ibv_wc_read_opcode().
 */
static inline unsigned int ibv_wc_read_wc_flags(struct ibv_cq_ex *cq)
{
	return cq->read_wc_flags(cq);
}

/**
 * Gets the LID of the sender. Needs the flag IBV_WC_EX_WITH_SLID.
 *
 * Returns the LID: 0 on RoCE.
 * Since v13, inline. Page: ibv_wc_read_opcode().
 */
static inline uint32_t ibv_wc_read_slid(struct ibv_cq_ex *cq)
{
	return cq->read_slid(cq);
}

/**
 * Gets the service level. Needs the flag IBV_WC_EX_WITH_SL.
 *
 * Returns the service level: 0 on RoCE.
 * Since v13, inline. Page: ibv_wc_read_opcode().
 */
static inline uint8_t ibv_wc_read_sl(struct ibv_cq_ex *cq)
{
	return cq->read_sl(cq);
}

/**
 * Gets the low bits of the destination LID. Needs the flag IBV_WC_EX_WITH_DLID_PATH_BITS.
 *
 * Returns the bits: 0 on RoCE.
 * Since v13, inline. Page: ibv_wc_read_opcode().
 */
static inline uint8_t ibv_wc_read_dlid_path_bits(struct ibv_cq_ex *cq)
{
	return cq->read_dlid_path_bits(cq);
}

/**
 * Gets the time of the completion. Needs the flag IBV_WC_EX_WITH_COMPLETION_TIMESTAMP.
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
 * Gets the wall clock time of the completion. Needs the flag
 * IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK.
 *
 * Returns nanoseconds since 1970.
 * Since v17, inline. Page: ibv_wc_read_opcode().
 */
static inline uint64_t ibv_wc_read_completion_wallclock_ns(struct ibv_cq_ex *cq)
{
	return cq->read_completion_wallclock_ns(cq);
}

/**
 * Gets the VLAN tag of the packet. Needs the flag IBV_WC_EX_WITH_CVLAN, which usrdma does not
 * support.
 *
 * Returns the tag.
 * Since v14, inline. Page: ibv_wc_read_opcode().
 */
static inline uint16_t ibv_wc_read_cvlan(struct ibv_cq_ex *cq)
{
	return cq->read_cvlan(cq);
}

/**
 * Gets the tag of the flow rule. Needs the flag IBV_WC_EX_WITH_FLOW_TAG, which usrdma does not
 * support.
 *
 * Returns the tag.
 * Since v14, inline. Page: ibv_wc_read_opcode().
 */
static inline uint32_t ibv_wc_read_flow_tag(struct ibv_cq_ex *cq)
{
	return cq->read_flow_tag(cq);
}

/**
 * Gets the tag and the application word of the message. Needs the flag IBV_WC_EX_WITH_TM_INFO,
 * which usrdma does not support.
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
 * Creates a shared receive queue.
 *
 * *pd*: the PD of the SRQ. The memory of its receives must belong to this PD. QPs of any PD of the
 * device can use the SRQ.
 * *srq_init_attr*: attr.max_wr is 1 to max_srq_wr, attr.max_sge is 0 to max_srq_sge. The actual
 * values are written back; they are not less. max_sge 0 is for receives without memory, which RDMA
 * WRITE with immediate data uses; it becomes 1.
 * Types: struct ibv_srq_init_attr, struct ibv_srq_attr.
 * Returns the SRQ, or NULL with errno.
 * Errors: EINVAL: max_wr is 0 or exceeds max_srq_wr, or max_sge exceeds max_srq_sge; ENOMEM: no
 * memory, or max_srq SRQs exist; EOPNOTSUPP: max_srq is 0 because of a profile (usrdma(7)); EIO:
 * the daemon has ended.
 * Threads: any. Does not block.
 * Since IBVERBS_1.1. Source: ibv_create_srq(3), IBA 1.x §11.2. See also: ibv_create_srq_ex(),
 * ibv_post_srq_recv(), ibv_modify_srq(), ibv_destroy_srq(), ibv_create_qp().
 */
struct ibv_srq *ibv_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *srq_init_attr);

/**
 * Creates a shared receive queue of any type.
 *
 * *context*: the device.
 * *srq_init_attr_ex*: with IBV_SRQT_BASIC, or without a type, and with a PD the call is the same as
 * ibv_create_srq(). IBV_SRQT_XRC needs an XRC domain and a CQ too: senders address the SRQ by its
 * number through any XRC receive QP of the domain. The PD of the SRQ defines the memory, and its
 * receives complete on this CQ.
 * Types: struct ibv_srq_init_attr_ex, struct ibv_srq_attr.
 * Returns the SRQ, or NULL with errno.
 * Errors: as ibv_create_srq(); EINVAL: unknown bits, no PD, or for IBV_SRQT_XRC no XRC domain or
 * CQ, or one of another context; EOPNOTSUPP: type IBV_SRQT_TM.
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
 * Changes the size of an SRQ, or arms its limit event.
 *
 * *srq*: the SRQ.
 * *srq_attr*: max_wr: the new size; srq_limit: the limit.
 * *srq_attr_mask*: enum ibv_srq_attr_mask: IBV_SRQ_MAX_WR, IBV_SRQ_LIMIT or both.
 * Types: struct ibv_srq_attr, enum ibv_srq_attr_mask.
 * Returns 0 or an errno.
 * Errors: EINVAL: unknown bit in *srq_attr_mask*; max_wr is 0, exceeds max_srq_wr, or is less than
 * an armed limit or the number of posted WRs; srq_limit exceeds max_wr; ENOMEM: no memory; EIO: the
 * daemon has ended. On failure the SRQ is unchanged.
 * Threads: any. Does not block.
 * Events: IBV_EVENT_SRQ_LIMIT_REACHED once, when fewer than srq_limit WRs remain, or at once if
 * fewer are posted already. The event disarms the limit.
 * Since IBVERBS_1.1. Source: ibv_modify_srq(3), IBA 1.x §11.2. See also: ibv_create_srq(),
 * ibv_query_srq(), ibv_get_async_event().
 */
int ibv_modify_srq(struct ibv_srq *srq, struct ibv_srq_attr *srq_attr, int srq_attr_mask);

/**
 * Queries the attributes of an SRQ.
 *
 * *srq*: the SRQ.
 * *srq_attr*: filled in. srq_limit is 0 if the limit is not armed.
 * Types: struct ibv_srq_attr.
 * Returns 0 or an errno.
 * Errors: EIO: the process is a fork()ed child.
 * Threads: any. Does not block.
 * Since IBVERBS_1.1. Source: ibv_query_srq(3), IBA 1.x §11.2. See also: ibv_create_srq(),
 * ibv_modify_srq().
 */
int ibv_query_srq(struct ibv_srq *srq, struct ibv_srq_attr *srq_attr);

/**
 * Gets the number by which XRC senders address an SRQ.
 *
 * *srq*: an SRQ of type IBV_SRQT_XRC.
 * *srq_num*: set to the number, which has 24 bits.
 * Returns 0 or an errno.
 * Errors: EOPNOTSUPP: the SRQ has another type.
 * Threads: any. Does not block.
 * Since v13, inline. Source: ibv_get_srq_num(3), IBA A14.
 */
static inline int ibv_get_srq_num(struct ibv_srq *srq, uint32_t *srq_num)
{
	struct verbs_context *vctx = verbs_get_ctx_op(srq->context, get_srq_num);

	return vctx ? vctx->get_srq_num(srq, srq_num) : EOPNOTSUPP;
}

/**
 * Destroys a shared receive queue. Its posted WRs do not complete.
 *
 * *srq*: the SRQ; it is freed on success.
 * Returns 0 or an errno.
 * Errors: EBUSY: a QP uses the SRQ; the SRQ is unchanged.
 * Threads: any. Blocks until all retrieved events of the SRQ are acknowledged.
 * Since IBVERBS_1.1. Source: ibv_create_srq(3), IBA 1.x §11.2. See also: ibv_create_srq(),
 * ibv_ack_async_event().
 */
int ibv_destroy_srq(struct ibv_srq *srq);

/**
 * Posts receive work requests to an SRQ.
 *
 * *srq*: the SRQ.
 * *recv_wr*: a list of WRs, which is copied. The memory of the SGEs must not be changed or freed
 * before the completion.
 * *bad_recv_wr*: on failure set to the first WR that was not posted. All WRs before it were posted.
 * Types: struct ibv_recv_wr, struct ibv_sge.
 * Returns 0 or an errno.
 * Errors: EINVAL: num_sge is negative or exceeds max_sge of the SRQ; ENOMEM: the SRQ is full; EIO:
 * the process is a fork()ed child.
 * Threads: any. Does not block.
 * Events: each WR completes on the receive CQ of the QP that consumes it.
 * Since v13, inline. Source: ibv_post_srq_recv(3), IBA 1.x §11.4.1. See also: ibv_create_srq(),
 * ibv_post_recv(), ibv_poll_cq().
 */
static inline int ibv_post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *recv_wr,
				    struct ibv_recv_wr **bad_recv_wr)
{
	return srq->context->ops.post_srq_recv(srq, recv_wr, bad_recv_wr);
}

/**
 * Changes the tag list of a tag matching SRQ. usrdma does not support it.
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
 * Creates a queue pair in state RESET.
 *
 * *pd*: the PD of the QP.
 * *qp_init_attr*: CQs and SRQ of the same context, type and sizes. The actual sizes are written
 * back to cap; they are not less. With an SRQ the receive sizes are ignored and become 0.
 * Types: struct ibv_qp_init_attr, struct ibv_qp_cap, enum ibv_qp_type.
 * Returns the QP, or NULL with errno.
 * Errors: EINVAL: a size exceeds max_qp_wr, max_sge or the inline limit; send_cq or recv_cq is
 * NULL; an object belongs to another context; a UC QP has an SRQ, or the SRQ is of type XRC; the
 * type is unknown, or is IBV_QPT_XRC_RECV, which needs ibv_create_qp_ex(); EOPNOTSUPP: usrdma does
 * not have this type; ENOMEM: no memory, or max_qp QPs exist; EIO: the daemon has ended.
 * Threads: any. Does not block.
 * State: move the QP to INIT with ibv_modify_qp() before anything is posted.
 * Since IBVERBS_1.1. Source: ibv_create_qp(3), IBA 1.x §11.2. See also: ibv_create_qp_ex(),
 * ibv_modify_qp(), ibv_destroy_qp(), ibv_post_send(), ibv_post_recv(), rdma_create_qp().
 */
struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *qp_init_attr);

/**
 * Creates a queue pair with extended attributes.
 *
 * *context*: the device.
 * *qp_init_attr_ex*: attributes. With only IBV_QP_INIT_ATTR_PD in comp_mask the call is the same as
 * ibv_create_qp(). With IBV_QP_INIT_ATTR_SEND_OPS_FLAGS the ibv_wr_*() calls that send_ops_flags
 * names can be used. An IBV_QPT_XRC_SEND QP receives nothing: recv_cq, srq and the receive sizes
 * are ignored. An IBV_QPT_XRC_RECV QP needs IBV_QP_INIT_ATTR_XRCD and no other member. Nothing can
 * be posted to it; each message is for the SRQ that the message names.
 * Types: struct ibv_qp_init_attr_ex, struct ibv_qp_cap, enum ibv_qp_init_attr_mask, enum
 * ibv_qp_create_flags, enum ibv_qp_create_send_ops_flags.
 * Returns the QP, or NULL with errno.
 * Errors: as ibv_create_qp(); EINVAL: unknown bits in comp_mask, no PD, an XRC domain for another
 * type than IBV_QPT_XRC_RECV or of another context, or as ibv_create_qp(); EOPNOTSUPP:
 * send_ops_flags has an operation that the type lacks, TSO or RSS is requested, or create_flags has
 * other bits than IBV_QP_CREATE_BLOCK_SELF_MCAST_LB of a UD QP.
 * Threads: any. Does not block.
 * Since v13, inline. Source: ibv_create_qp_ex(3), IBA 1.x §11.2. See also: ibv_create_qp(),
 * ibv_qp_to_qp_ex().
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
 * Converts a QP for the ibv_wr_*() calls.
 *
 * *qp*: the QP.
 * Returns the same QP, or NULL if it was created without IBV_QP_INIT_ATTR_SEND_OPS_FLAGS.
 * Threads: any. Pure.
 * Since IBVERBS_1.6. Source: ibv_wr_post(3). See also: ibv_create_qp_ex(), ibv_wr_start().
 */
struct ibv_qp_ex *ibv_qp_to_qp_ex(struct ibv_qp *qp);

/**
 * Opens an XRC receive QP: returns another handle of the QP, with asynchronous events of its own,
 * for ibv_modify_qp(), ibv_query_qp() and ibv_destroy_qp(). The QP ends when ibv_destroy_qp() is
 * called on its last handle. If the QP belongs to another process, it ends with that process at the
 * latest, and the handle reports IBV_EVENT_QP_FATAL.
 *
 * *context*: the device.
 * *qp_open_attr*: comp_mask with IBV_QP_OPEN_ATTR_NUM, IBV_QP_OPEN_ATTR_XRCD and
 * IBV_QP_OPEN_ATTR_TYPE: the number of a QP in this domain, and the type IBV_QPT_XRC_RECV.
 * IBV_QP_OPEN_ATTR_CONTEXT is optional.
 * Types: struct ibv_qp_open_attr.
 * Returns the QP, or NULL with errno.
 * Errors: EINVAL: a member is missing or unknown, other type, an XRC domain of another context, or
 * the domain has no such QP; ENOMEM: no memory; EIO: the daemon or the process of the QP has ended;
 * ETIMEDOUT: that process does not reply.
 * Threads: any. Blocks for a reply of the process of the QP if that is another process, at most 5
 * seconds. The other calls on such a handle do so too.
 * Since v13, inline. Source: ibv_open_qp(3), IBA A14. See also: ibv_open_xrcd(),
 * ibv_create_qp_ex().
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
 * Changes the state and the attributes of a QP.
 *
 * *qp*: the QP. ibv_qp.state is updated if IBV_QP_STATE is set.
 * *attr*: the values.
 * *attr_mask*: enum ibv_qp_attr_mask: the members of *attr* to use. It must contain all attributes
 * that the transition requires, and no attribute that the transition neither requires nor permits.
 * Without IBV_QP_STATE the state does not change.
 *
 * Required attributes in addition to IBV_QP_STATE, and permitted attributes in brackets, of RC and
 * UC:
 *
 * - to RESET from any state, to ERR from any state but RESET: none
 * - RESET to INIT: PKEY_INDEX, PORT, ACCESS_FLAGS
 * - INIT to INIT: [PKEY_INDEX, PORT, ACCESS_FLAGS]
 * - INIT to RTR: AV, PATH_MTU, DEST_QPN, RQ_PSN; RC also MAX_DEST_RD_ATOMIC, MIN_RNR_TIMER
 * [ALT_PATH, ACCESS_FLAGS, PKEY_INDEX]
 * - RTR to RTS: SQ_PSN; RC also TIMEOUT, RETRY_CNT, RNR_RETRY, MAX_QP_RD_ATOMIC [CUR_STATE,
 * ACCESS_FLAGS, ALT_PATH, PATH_MIG_STATE; RC also MIN_RNR_TIMER]
 * - RTS to RTS, SQD to RTS: [the permitted attributes of RTR to RTS]
 * - RTS to SQD: [EN_SQD_ASYNC_NOTIFY]
 * - SQD to SQD: [AV, ACCESS_FLAGS, PKEY_INDEX, ALT_PATH, PATH_MIG_STATE; RC also PORT, TIMEOUT,
 * RETRY_CNT, RNR_RETRY, MAX_QP_RD_ATOMIC, MAX_DEST_RD_ATOMIC, MIN_RNR_TIMER]
 * - SQE to RTS, of UC: [CUR_STATE, ACCESS_FLAGS]
 *
 * XRC is as RC, without the attributes of the other half: XRC_SEND has no MAX_DEST_RD_ATOMIC and
 * MIN_RNR_TIMER, XRC_RECV has no MAX_QP_RD_ATOMIC, RETRY_CNT and RNR_RETRY.
 *
 * Those of UD:
 *
 * - RESET to INIT: PKEY_INDEX, PORT, QKEY
 * - INIT to INIT: [PKEY_INDEX, PORT, QKEY]
 * - INIT to RTR: [PKEY_INDEX, QKEY]
 * - RTR to RTS: SQ_PSN [CUR_STATE, QKEY]
 * - RTS to RTS, SQD to RTS, SQE to RTS: [CUR_STATE, QKEY]
 * - RTS to SQD: [EN_SQD_ASYNC_NOTIFY]
 * - SQD to SQD: [PKEY_INDEX, QKEY]
 *
 * Types: struct ibv_qp_attr, enum ibv_qp_state, enum ibv_qp_attr_mask.
 * Returns 0 or an errno. On failure the QP is unchanged.
 * Errors: EINVAL: invalid transition, CUR_STATE differs from the state, or a value is out of range
 * (port, GID index, P_Key index, path MTU above that of the port, and others), or the source and
 * the destination GID have different families; EOPNOTSUPP: no transport reaches the address,
 * ALT_PATH, or in SQD another path (AV) or MAX_DEST_RD_ATOMIC than the present one; ENETUNREACH:
 * the kernel has no route to the address of the AV from the source GID; EHOSTUNREACH: its route is
 * of the type unreachable, or the next hop did not reply to ARP or neighbour discovery; ETIMEDOUT:
 * no reply of the next hop within a second, or the process whose QP ibv_open_qp() joined does not
 * reply; EAGAIN: the daemon resolves as many addresses for this process or user as it permits;
 * ENOMEM: no memory;
 * EIO: the daemon has ended, or the process whose QP ibv_open_qp() joined has ended; EBUSY: to
 * RESET or ERR: the peer, a process of this host, has not finished an RDMA operation on the QP
 * after 10 s.
 * Threads: any. INIT to RTR may wait for the daemon, which locates the peer. With AV the call waits
 * up to a second for the kernel if it has no neighbour entry of the next hop; calls of other
 * threads do not wait. RESET and ERR wait for one-sided operations of the peer that are in
 * progress. After the call returned 0, no peer reads or writes memory through the QP.
 * State: RESET empties both queues and removes the completions of the QP from its CQs. ERR
 * completes all queued WRs with IBV_WC_WR_FLUSH_ERR. A QP can also enter ERR because of an error;
 * ibv_query_qp() then reports the state, but ibv_qp.state does not.
 * Notes: as on Linux, the hop limit of the AV is replaced by that of the kernel's route, which
 * ibv_query_qp() then reports: the route's own, else net.ipv4.ip_default_ttl or
 * net.ipv6.conf.INTERFACE.hop_limit (64 by default). For an address of this host it is 64. Two
 * attributes must agree with those of the peer's QP. If max_rd_atomic exceeds
 * max_dest_rd_atomic of the peer, READs and atomics complete with IBV_WC_REM_INV_REQ_ERR when more
 * are outstanding than the peer permits; with max_dest_rd_atomic 0, all do. If path_mtu differs,
 * messages that are longer than the smaller one fail: SEND and WRITE with IBV_WC_REM_INV_REQ_ERR,
 * READ with IBV_WC_BAD_RESP_ERR. UC drops them. Between processes of one host such a QP is slower,
 * because the process of the peer executes the operations.
 * Events: IBV_EVENT_SQ_DRAINED after RTS to SQD, if en_sqd_async_notify is set;
 * IBV_EVENT_QP_LAST_WQE_REACHED in ERR, if the QP has an SRQ.
 * Since IBVERBS_1.1. Source: ibv_modify_qp(3), IBA 1.x §11.2, §10.3.1. See also: ibv_create_qp(),
 * ibv_query_qp(), ibv_destroy_qp(), rdma_init_qp_attr().
 */
int ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int attr_mask);

/**
 * Queries the state and the attributes of a QP.
 *
 * *qp*: the QP. If attr_mask contains IBV_QP_STATE, ibv_qp.state is updated.
 * *attr*: filled in.
 * *attr_mask*: enum ibv_qp_attr_mask: the attributes that are needed at least. usrdma fills in all
 * attributes that are set, except rate_limit, which only raw packet QPs have.
 * *init_attr*: filled in with the attributes that ibv_create_qp() returned.
 * Types: struct ibv_qp_attr, enum ibv_qp_state.
 * Returns 0 or an errno.
 * Errors: EIO: the process is a fork()ed child, or the process whose QP ibv_open_qp() joined has
 * ended; ETIMEDOUT: that process does not reply.
 * Threads: any. Does not block, except for a QP of another process (ibv_open_qp()).
 * Since IBVERBS_1.1. Source: ibv_query_qp(3), IBA 1.x §11.2. See also: ibv_modify_qp(),
 * ibv_create_qp().
 */
int ibv_query_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int attr_mask,
		 struct ibv_qp_init_attr *init_attr);

/**
 * Destroys a queue pair. Queued WRs do not complete, and completions of the QP that were not polled
 * are removed from its CQs. Poll completions that are needed before the call. USRDMA_LOG=debug
 * reports their number.
 *
 * *qp*: the QP; it is freed on success. The peer detects this when it sends next, or through the
 * connection manager.
 * Returns 0 or an errno.
 * Errors: EBUSY: the QP is attached to a multicast group (ibv_detach_mcast()), or the peer, a
 * process of this host, has not finished an RDMA operation on the QP after 10 s; the QP is
 * unchanged.
 * Threads: any. Blocks until all retrieved events of the QP are acknowledged and one-sided
 * operations of the peer in progress have ended. After the call returned 0, no peer reads or writes
 * memory through the QP.
 * Since IBVERBS_1.1. Source: ibv_create_qp(3), IBA 1.x §11.2. See also: ibv_create_qp(),
 * ibv_ack_async_event().
 */
int ibv_destroy_qp(struct ibv_qp *qp);

/**
 * Limits the rate of a QP. usrdma does not support it.
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
 * Attaches a completion counter to a queue pair. From then on the counter counts the named
 * operations of the QP. A counter may be attached to several QPs, and then counts the work of all
 * of them. A QP may have several counters, but for each operation at most one. Nothing detaches a
 * counter but ibv_destroy_qp(); it stays attached through RESET.
 *
 * The operations of this side, SEND, RECV, RDMA_READ and RDMA_WRITE, are counted when the work
 * request completes. SEND includes SENDs with immediate data and with invalidate, RECV includes
 * receives that an RDMA WRITE with immediate data consumes. Atomics, atomic WRITE, FLUSH, binding
 * and invalidating are not counted. REMOTE_RDMA_WRITE counts a WRITE of the peer when its data is
 * in place, REMOTE_RDMA_READ a READ of the peer when the last byte of its response has left.
 *
 * On usrdma, one-sided operations between two processes of one host are normally carried out by the
 * side that requests them. While a counter of a REMOTE operation is attached, the process that owns
 * the QP carries them out, because nothing else can count them. They are slower then, and wait
 * while that process is stopped.
 *
 * *qp*: in RESET or INIT.
 * *comp_cntr*: of the same context.
 * *attr*: op_mask names the operations, and is not 0; comp_mask is 0.
 * Returns 0 or an errno.
 * Errors: EINVAL: the QP is in another state, the counter is of another context, op_mask is 0,
 * comp_mask is not 0; EOPNOTSUPP: an unknown operation, or one that the QP's type does not have: on
 * UC the READs, on UD all but SEND and RECV, on an XRC QP all but the requests of an XRC_SEND QP;
 * EBUSY: a counter is attached for one of the operations; EIO: the process is a fork()ed child, or
 * the daemon has ended.
 * Threads: any. Does not block.
 * Since IBVERBS_1.18. Source: ibv_qp_attach_comp_cntr(3). See also: ibv_create_comp_cntr(),
 * ibv_query_comp_cntr_caps().
 */
int ibv_qp_attach_comp_cntr(struct ibv_qp *qp, struct ibv_comp_cntr *comp_cntr,
			    struct ibv_qp_attach_comp_cntr_attr *attr);

/**
 * Queries whether the bytes of a message become visible in order. If so, the application can poll
 * the last byte instead of a completion.
 *
 * *qp*, *op*: the QP, and the opcode of the message.
 * *flags*: enum ibv_query_qp_data_in_order_flags.
 * Returns 0: the bytes of a message are stored in any order, on any QP, except that the last
 * aligned word of an RDMA WRITE is stored last; usrdma_ordering(7). A device that stores them in
 * order returns 1, or with RETURN_CAPS a mask of enum ibv_query_qp_data_in_order_caps.
 * Threads: any. Does not block.
 * Since IBVERBS_1.14. Source: ibv_query_qp_data_in_order(3). See also: ibv_poll_cq(),
 * usrdma_ordering(7).
 */
int ibv_query_qp_data_in_order(struct ibv_qp *qp, enum ibv_wr_opcode op, uint32_t flags);

/**
 * Sets the vendor options of a QP for a connection. QPs of usrdma have none, as those of
 * Linux's software devices.
 *
 * *qp*, *ece*: QP in INIT; options.
 * Returns EOPNOTSUPP.
 * Threads: any. Does not block.
 * Since IBVERBS_1.10. Source: ibv_set_ece(3). See also: rdma_set_local_ece().
 */
int ibv_set_ece(struct ibv_qp *qp, struct ibv_ece *ece);

/**
 * Queries the vendor options of a QP for a connection. QPs of usrdma have none, as those
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
 * Posts work requests to the send queue of a QP.
 *
 * *qp*: a QP in RTS. In SQD the WRs wait; in SQE and ERR they are flushed.
 * *wr*: a list of WRs, which is copied. The memory of the SGEs must not be changed or freed before
 * the completion, except with IBV_SEND_INLINE, which copies the data. On UD the AH must not be
 * destroyed before the completion of the WR is polled.
 * *bad_wr*: on failure set to the first WR that was not posted. All WRs before it were posted.
 * Types: struct ibv_send_wr, struct ibv_sge, enum ibv_wr_opcode, enum ibv_send_flags.
 * Returns 0 or an errno.
 * Errors: EINVAL: the QP has not reached RTS; the QP type does not have the opcode; too many SGEs;
 * inline data exceeds max_inline_data or is used with a READ or atomic operation; on UD no AH, or a
 * QP number of more than 24 bits; IBV_WR_FLUSH, which needs ibv_wr_flush(); EFAULT: the inline data
 * cannot be read; ENOMEM: the queue is full; EIO: the process is a fork()ed child.
 * Threads: any; lists of two threads are not interleaved. Does not block. Between processes of one
 * host the call itself may carry out WRITE, READ and atomic operations.
 * Events: a completion on send_cq for each WR that is signaled or fails. Invalid keys, lengths and
 * access rights are detected when the WR is carried out, and are reported in the completion status,
 * not as an errno.
 * Notes: a WR of usrdma holds a reference to its AH, so that ibv_destroy_ah() may be called at
 * once. The drivers of adapters do not hold one. A WR without IBV_SEND_SIGNALED has completed when
 * a later WR of the queue has.
 * Since v13, inline. Source: ibv_post_send(3), IBA 1.x §11.4.1.1. See also: ibv_create_qp(),
 * ibv_create_ah(), ibv_destroy_ah(), ibv_post_recv(), ibv_poll_cq(), enum ibv_wc_status,
 * usrdma_ordering(7).
 */
static inline int ibv_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr,
				struct ibv_send_wr **bad_wr)
{
	return qp->context->ops.post_send(qp, wr, bad_wr);
}

/**
 * Posts work requests to the receive queue of a QP.
 *
 * *qp*: a QP in any state except RESET, and without an SRQ. In ERR the WRs are flushed.
 * *wr*: a list of WRs, which is copied. The memory of the SGEs must not be changed or freed before
 * the completion.
 * *bad_wr*: on failure set to the first WR that was not posted. All WRs before it were posted.
 * Types: struct ibv_recv_wr, struct ibv_sge.
 * Returns 0 or an errno.
 * Errors: EINVAL: the QP is in RESET or has an SRQ, or too many SGEs; ENOMEM: the queue is full;
 * EIO: the process is a fork()ed child.
 * Threads: any. Does not block.
 * Events: each WR causes one completion on recv_cq: when a message or an RDMA WRITE with immediate
 * data has arrived, or with an error.
 * Since v13, inline. Source: ibv_post_recv(3), IBA 1.x §11.4.1. See also: ibv_create_qp(),
 * ibv_post_send(), ibv_post_srq_recv(), ibv_poll_cq().
 */
static inline int ibv_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr,
				struct ibv_recv_wr **bad_wr)
{
	return qp->context->ops.post_recv(qp, wr, bad_wr);
}

/**
 * Starts a batch of work requests. For each work request set qp->wr_id and qp->wr_flags, call one
 * operation (ibv_wr_send() and others), and then its setters (ibv_wr_set_sge() and others). Nothing
 * is sent before ibv_wr_complete().
 *
 * *qp*: a QP of ibv_qp_to_qp_ex().
 * Example: one signaled SEND.
 *
 *	ibv_wr_start(qpx);
 *	qpx->wr_id = 1;
 *	qpx->wr_flags = IBV_SEND_SIGNALED;
 *	ibv_wr_send(qpx);
 *	ibv_wr_set_sge(qpx, mr->lkey, (uintptr_t)mr->addr, length);
 *	ret = ibv_wr_complete(qpx);
 *
 * Threads: the batch belongs to the calling thread. Other threads that post to the same QP wait
 * until the batch is completed or aborted; so does this call if another thread has a batch. One
 * thread may have batches on several QPs. It may make other calls during a batch, except
 * ibv_post_send() and ibv_bind_mw() on the same QP, which fail with EINVAL, and a second
 * ibv_wr_start() on it, with which the batch fails.
 * State: the QP is in a state that ibv_post_send() permits. ibv_wr_complete() checks it.
 * Since v24, inline. Source: ibv_wr_post(3), IBA 1.x §11.4.1.1. See also: ibv_wr_complete(),
 * ibv_wr_abort(), ibv_wr_send(), ibv_wr_set_sge(), ibv_post_send().
 */
static inline void ibv_wr_start(struct ibv_qp_ex *qp)
{
	qp->wr_start(qp);
}

/**
 * Posts the batch of work requests.
 *
 * *qp*: the QP of ibv_wr_start().
 * Returns 0, or the errno of the first call of the batch that failed. In this case no work request
 * of the batch is posted.
 * Errors: EINVAL, EFAULT, ENOMEM, EIO as ibv_post_send(); EINVAL also for an operation that is not
 * in send_ops_flags, a setter that does not suit, a QP that was moved to RESET since
 * ibv_wr_start(), or no ibv_wr_start(); EOPNOTSUPP: an operation that usrdma does not offer.
 * Threads: that of ibv_wr_start(). Does not block.
 * Events: as ibv_post_send().
 * Since v24, inline. Source: ibv_wr_post(3). See also: ibv_wr_start().
 */
static inline int ibv_wr_complete(struct ibv_qp_ex *qp)
{
	return qp->wr_complete(qp);
}

/**
 * Discards the batch of work requests. None of them is posted.
 *
 * *qp*: the QP of ibv_wr_start().
 *
 * *qp*: the QP of ibv_wr_start().
 * Threads: that of ibv_wr_start(). Does not block.
 * Since v24, inline. Source: ibv_wr_post(3). See also: ibv_wr_start().
 */
static inline void ibv_wr_abort(struct ibv_qp_ex *qp)
{
	qp->wr_abort(qp);
}

/**
 * Compares 8 bytes of the peer with a value and, if they are equal, replaces them
 * (IBV_WR_ATOMIC_CMP_AND_SWP). The first 8 bytes of the SGEs receive the original
 * value.
 *
 * *rkey*, *remote_addr*: key and address of the peer's memory, the address a multiple of 8.
 * *compare*: the value to compare with, in host byte order.
 * *swap*: the new value, in host byte order.
 * Since v24, inline. Page: ibv_wr_send().
 */
static inline void ibv_wr_atomic_cmp_swp(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t remote_addr,
					 uint64_t compare, uint64_t swap)
{
	qp->wr_atomic_cmp_swp(qp, rkey, remote_addr, compare, swap);
}

/**
 * Adds to 8 bytes of the peer (IBV_WR_ATOMIC_FETCH_AND_ADD). The first 8 bytes of the SGEs receive
 * the original value.
 *
 * *rkey*, *remote_addr*: key and address of the peer's memory, the address a multiple of 8.
 * *add*: the number to add, in host byte order.
 * Since v24, inline. Page: ibv_wr_send().
 */
static inline void ibv_wr_atomic_fetch_add(struct ibv_qp_ex *qp, uint32_t rkey,
					   uint64_t remote_addr, uint64_t add)
{
	qp->wr_atomic_fetch_add(qp, rkey, remote_addr, add);
}

/**
 * Writes 8 bytes to memory of the peer in one atomic step (IBV_WR_ATOMIC_WRITE), on RC. The MR and
 * the QP of the peer need REMOTE_WRITE. The write takes effect after preceding WRITEs and FLUSHes,
 * and counts in max_rd_atomic.
 *
 * *rkey*: key of the memory of the peer.
 * *remote_addr*: address in the MR of the peer, a multiple of 8. Otherwise the WR completes with
 * IBV_WC_REM_INV_REQ_ERR.
 * *atomic_wr*: the 8 bytes in the order in which they are stored; copied. No data setter follows.
 * *qp*: has IBV_QP_EX_WITH_ATOMIC_WRITE in send_ops_flags. Otherwise its wr_atomic_write is NULL.
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
 * *bind_info*: the range of the MR and the access rights.
 * Since v24, inline. Page: ibv_wr_send().
 */
static inline void ibv_wr_bind_mw(struct ibv_qp_ex *qp, struct ibv_mw *mw, uint32_t rkey,
				  const struct ibv_mw_bind_info *bind_info)
{
	qp->wr_bind_mw(qp, mw, rkey, bind_info);
}

/**
 * Makes preceding WRITEs of the QP globally visible or persistent (IBV_WR_FLUSH), on RC. MR and QP
 * of the peer need IBV_ACCESS_FLUSH_GLOBAL or IBV_ACCESS_FLUSH_PERSISTENT, according to the type.
 * The operation counts in max_rd_atomic. Memory of a usrdma device is memory of a process: it is
 * globally visible and not persistent. A usrdma peer therefore refuses IBV_FLUSH_PERSISTENT
 * (IBV_WC_REM_ACCESS_ERR, or IBV_WC_REM_INV_REQ_ERR if its QP does not permit the operation).
 *
 * *rkey*, *remote_addr*: key and address of the peer's memory.
 * *len*: bytes, less than 2^32; address and length mean nothing for IBV_FLUSH_MR.
 * *type*: enum ibv_placement_type, at least one. No data setter follows.
 * *level*: enum ibv_selectivity_level.
 * *qp*: has IBV_QP_EX_WITH_FLUSH in send_ops_flags. Otherwise its wr_flush is NULL, as with rxe.
 * Errors, of ibv_wr_complete(): EINVAL: no type, an unknown one or level, or a longer range.
 * Since v45, inline. Source: IBA A19. Page: ibv_wr_send().
 */
static inline void ibv_wr_flush(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t remote_addr,
				size_t len, uint8_t type, uint8_t level)
{
	qp->wr_flush(qp, rkey, remote_addr, len, type, level);
}

/**
 * Invalidates a local rkey (IBV_WR_LOCAL_INV).
 *
 * *invalidate_rkey*: the rkey of a type 2 memory window. Any other key fails with
 * IBV_WC_MW_BIND_ERR.
 * Since v24, inline. Page: ibv_wr_send().
 */
static inline void ibv_wr_local_inv(struct ibv_qp_ex *qp, uint32_t invalidate_rkey)
{
	qp->wr_local_inv(qp, invalidate_rkey);
}

/**
 * Reads memory of the peer into the local SGEs (IBV_WR_RDMA_READ).
 *
 * *rkey*: key of the memory of the peer.
 * *remote_addr*: address in the MR of the peer.
 * Since v24, inline. Page: ibv_wr_send().
 */
static inline void ibv_wr_rdma_read(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t remote_addr)
{
	qp->wr_rdma_read(qp, rkey, remote_addr);
}

/**
 * Writes the local SGEs or inline data to memory of the peer (IBV_WR_RDMA_WRITE).
 *
 * *rkey*: key of the memory of the peer.
 * *remote_addr*: address in the MR of the peer.
 * Since v24, inline. Page: ibv_wr_send().
 */
static inline void ibv_wr_rdma_write(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t remote_addr)
{
	qp->wr_rdma_write(qp, rkey, remote_addr);
}

/**
 * Writes to memory of the peer and completes one receive of the peer (IBV_WR_RDMA_WRITE_WITH_IMM).
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
 * Adds a SEND to the batch of work requests. This operation and the others of this page use wr_id
 * and wr_flags of *qp*, which are set before the call, and are followed by their setters (see
 * ibv_wr_set_sge()). send_ops_flags of the QP must contain the operation.
 *
 * *qp*: the QP, after ibv_wr_start().
 * Threads: that of ibv_wr_start(). Does not block.
 * State: ibv_wr_complete() reports the errors of the operation.
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
 * Sends a message and invalidates an rkey of the peer (IBV_WR_SEND_WITH_INV).
 *
 * *invalidate_rkey*: the rkey of a type 2 memory window at the peer.
 * Since v24, inline. Page: ibv_wr_send().
 */
static inline void ibv_wr_send_inv(struct ibv_qp_ex *qp, uint32_t invalidate_rkey)
{
	qp->wr_send_inv(qp, invalidate_rkey);
}

/**
 * Sends a large frame in segments (IBV_WR_TSO). usrdma does not support it.
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
 * Sets the destination of a UD message.
 *
 * *ah*: the address, of the PD of the QP.
 * *remote_qpn*: the QP number of the peer, 24 bits.
 * *remote_qkey*: the Q_Key of the peer. If its high bit is set, the Q_Key of the QP is sent. Each
 * message needs exactly one call; otherwise the batch fails with EINVAL.
 * Since v24, inline. Page: ibv_wr_set_sge().
 */
static inline void ibv_wr_set_ud_addr(struct ibv_qp_ex *qp, struct ibv_ah *ah, uint32_t remote_qpn,
				      uint32_t remote_qkey)
{
	qp->wr_set_ud_addr(qp, ah, remote_qpn, remote_qkey);
}

/**
 * Sets the SRQ of the peer, once for each operation of an XRC QP.
 *
 * *remote_srqn*: the number of the SRQ (ibv_get_srq_num()), 24 bits.
 * Since v24, inline. Page: ibv_wr_set_sge().
 */
static inline void ibv_wr_set_xrc_srqn(struct ibv_qp_ex *qp, uint32_t remote_srqn)
{
	qp->wr_set_xrc_srqn(qp, remote_srqn);
}

/**
 * Sets the data of the message, which the call copies.
 *
 * *addr*: any memory; NULL if *length* is 0.
 * *length*: number of bytes, up to max_inline_data.
 * Since v24, inline. Page: ibv_wr_set_sge().
 */
static inline void ibv_wr_set_inline_data(struct ibv_qp_ex *qp, void *addr, size_t length)
{
	qp->wr_set_inline_data(qp, addr, length);
}

/**
 * Sets the data of the message from several buffers, which the call copies.
 *
 * *num_buf*: number of buffers.
 * *buf_list*: the buffers, together up to max_inline_data bytes.
 * Since v24, inline. Page: ibv_wr_set_sge().
 */
static inline void ibv_wr_set_inline_data_list(struct ibv_qp_ex *qp, size_t num_buf,
					       const struct ibv_data_buf *buf_list)
{
	qp->wr_set_inline_data_list(qp, num_buf, buf_list);
}

/**
 * Sets the data of the preceding operation. Each operation that moves data needs exactly one setter
 * for data; UD and XRC need another setter for the destination. ibv_wr_set_sge() sets one range of
 * registered memory.
 *
 * *qp*: the QP, after an operation such as ibv_wr_send().
 * *lkey*, *addr*, *length*: as in struct ibv_sge.
 * Threads: that of ibv_wr_start(). Does not block.
 * State: ibv_wr_complete() reports the errors of the setter.
 * Since v24, inline. Source: ibv_wr_post(3). See also: ibv_wr_start(), ibv_wr_send(), struct
 * ibv_sge, struct ibv_data_buf.
 */
static inline void ibv_wr_set_sge(struct ibv_qp_ex *qp, uint32_t lkey, uint64_t addr,
				  uint32_t length)
{
	qp->wr_set_sge(qp, lkey, addr, length);
}

/**
 * Sets several ranges of registered memory as the data of the message.
 *
 * *num_sge*: number of ranges, up to max_send_sge.
 * *sg_list*: the ranges, in order; copied.
 * Since v24, inline. Page: ibv_wr_set_sge().
 */
static inline void ibv_wr_set_sge_list(struct ibv_qp_ex *qp, size_t num_sge,
				       const struct ibv_sge *sg_list)
{
	qp->wr_set_sge_list(qp, num_sge, sg_list);
}

/* ---- Work queues and RSS ---- */

/**
 * Creates a receive queue that is not part of a QP. usrdma does not support it (max_wq_type_rq is
 * 0).
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
 * *wq*, *wq_attr*: of ibv_create_wq(); the changes.
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
 * Creates an indirection table for receive side scaling. usrdma does not support it.
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
 * Creates an address handle, which UD sends need.
 *
 * *pd*: the PD of the AH.
 * *attr*: the address of the peer or of a multicast group: grh with the sgid_index of an entry that
 * is not empty, port_num, and is_global 1.
 * Types: struct ibv_ah_attr, struct ibv_global_route.
 * Returns the AH, or NULL with errno.
 * Errors: EINVAL: is_global is 0, no such port, sgid_index is out of range or of an empty entry, sl
 * is out of range, or one address is IPv4 and the other IPv6; EOPNOTSUPP: no transport reaches the
 * address; ENETUNREACH: the kernel has no route to it from the source GID; EHOSTUNREACH: its route
 * is of the type unreachable, or the next hop did not reply to ARP or neighbour discovery;
 * ETIMEDOUT: no reply of the next hop within a second; EAGAIN: the daemon resolves as many
 * addresses for this process or user as it permits; ENOMEM: no memory; EIO: the daemon has ended.
 * Threads: any. May wait for the daemon, which knows the addresses of this host. Waits up to a
 * second for the kernel if it has no neighbour entry of the next hop; calls of other threads do not
 * wait.
 * Notes: as on Linux, an address of this host, a multicast group, and a link-local address with a
 * source GID of type RoCE v1 need no neighbour. The hop limit of *attr* is that of multicast
 * packets; packets to other destinations have the hop limit of the kernel's route, usually 64. A
 * handle remains valid if the route or the neighbour changes later; datagrams are then lost.
 * Since IBVERBS_1.1. Source: ibv_create_ah(3), IBA 1.x §11.2.2. See also: ibv_create_ah_from_wc(),
 * ibv_init_ah_from_wc(), ibv_destroy_ah(), ibv_post_send().
 */
struct ibv_ah *ibv_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *attr);

/**
 * Computes the address of the sender of a UD message from its completion.
 *
 * *context*: the device.
 * *port_num*: port number, from 1.
 * *wc*: the completion of the receive, with IBV_WC_GRH.
 * *grh*: the first 40 bytes of the receive buffer: an IPv6 header, or 20 bytes and an IPv4 header.
 * *ah_attr*: filled in on success.
 * Returns 0, or -1 with errno.
 * Errors: EINVAL: no such port, no IBV_WC_GRH, or an invalid header; ENOENT: the destination of the
 * message is not a GID of the port; EIO: the process is a fork()ed child.
 * Threads: any. May wait for the daemon after a change.
 * Since IBVERBS_1.1. Source: ibv_create_ah_from_wc(3), IBA A17. See also: ibv_create_ah_from_wc().
 */
int ibv_init_ah_from_wc(struct ibv_context *context, uint8_t port_num, struct ibv_wc *wc,
			struct ibv_grh *grh, struct ibv_ah_attr *ah_attr);

/**
 * Creates an address handle for the sender of a UD message.
 *
 * *pd*: the PD of the AH.
 * *wc*, *grh*, *port_num*: as in ibv_init_ah_from_wc().
 * Returns the AH, or NULL with errno.
 * Errors: as ibv_init_ah_from_wc() and ibv_create_ah().
 * Threads: any. May wait as ibv_create_ah().
 * Since IBVERBS_1.1. Source: ibv_create_ah_from_wc(3). See also: ibv_create_ah().
 */
struct ibv_ah *ibv_create_ah_from_wc(struct ibv_pd *pd, struct ibv_wc *wc, struct ibv_grh *grh,
				     uint8_t port_num);

/**
 * Destroys an address handle. Queued sends that use it are still sent. An adapter may drop these
 * sends. A portable program therefore first polls the completions of all sends that use the handle.
 *
 * *ah*: the AH; it is freed.
 * Returns 0.
 * Threads: any. Does not block.
 * Since IBVERBS_1.1. Source: ibv_create_ah(3), IBA 1.x §11.2.2. See also: ibv_create_ah().
 */
int ibv_destroy_ah(struct ibv_ah *ah);

/**
 * Resolves the MAC address and the VLAN of a GID. usrdma does not support the call: the IP stack of
 * the host resolves addresses of packets.
 *
 * *context*: the device.
 * *attr*: the address.
 * *eth_mac*, *vid*: not changed.
 * Returns EOPNOTSUPP.
 * Threads: any. Does not block.
 * Since IBVERBS_1.1. Source: rdma-core's header; there is no manual page.
 */
int ibv_resolve_eth_l2_from_gid(struct ibv_context *context, struct ibv_ah_attr *attr,
				uint8_t eth_mac[ETHERNET_LL_SIZE], uint16_t *vid);

/**
 * Attaches a UD QP to a multicast group. The QP receives a copy of each message to the group,
 * including its own messages, unless it was created with IBV_QP_CREATE_BLOCK_SELF_MCAST_LB.
 *
 * *qp*: a UD QP in any state. It cannot be destroyed while it is attached.
 * *gid*: the group: an IPv6 address of ff00::/8, or an IPv4 address of 224.0.0.0/4 as
 * ::ffff:a.b.c.d. The host joins the group on the interface of the device by IGMP or MLD.
 * *lid*: ignored on RoCE.
 * Returns 0, also if the QP is attached already, or an errno.
 * Errors: EINVAL: not a UD QP, or not a group; ENOMEM: more groups or QPs than ibv_query_device()
 * reports, or no memory; EOPNOTSUPP: RoCE to other hosts is not available, because UDP port 4791 is
 * in use or because of USRDMA_TRANSPORT; ENODEV: the interface was removed; EDQUOT: the daemon of
 * another user has joined 512 groups for the processes of this user; EIO: the daemon has ended, or
 * the process is a fork()ed child.
 * Threads: any. Waits for the daemon if the daemon belongs to another user and the process has not
 * joined the group; calls of other threads do not wait.
 * Since IBVERBS_1.1. Source: ibv_attach_mcast(3), IBA 1.x §10.5, §11.3. See also:
 * ibv_detach_mcast(), rdma_join_multicast().
 */
int ibv_attach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid);

/**
 * Detaches a UD QP from a multicast group. The host leaves the group when the last QP of the
 * process is detached. If the daemon belongs to another user, it leaves the group after the call
 * has returned.
 *
 * *qp*, *gid*, *lid*: as in ibv_attach_mcast().
 * Returns 0 or an errno.
 * Errors: EINVAL: the QP is not attached to the group; EIO: the process is a fork()ed child.
 * Threads: any. Does not block.
 * Since IBVERBS_1.1. Source: ibv_attach_mcast(3), IBA 1.x §11.3. See also: ibv_attach_mcast().
 */
int ibv_detach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid);

/* UDP source ports that RoCE v2 packets use, and the bits of a flow label. */
#define IB_ROCE_UDP_ENCAP_VALID_PORT_MIN (0xC000)
#define IB_ROCE_UDP_ENCAP_VALID_PORT_MAX (0xFFFF)
#define IB_GRH_FLOWLABEL_MASK		 (0x000FFFFF)

/**
 * Computes the UDP source port of RoCE v2 packets from all 20 bits of a flow label.
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
 * Steers packets that match a rule to a raw packet QP. usrdma does not support it.
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
 * Creates an IPsec ESP action for flow rules. usrdma does not support it.
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
 * *action*, *esp*: of ibv_create_flow_action_esp(); the changes.
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
 * Creates a set of counters for flow rules. usrdma has no flow rules (ibv_create_flow()); `usrdma
 * status` reports counters of each process.
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
 * *counters*, *attr*, *flow*: of ibv_create_counters(); the values to count; the rule.
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
 * Describes a completion status, in the words of rdma-core.
 *
 * *status*: any value.
 * Returns a string that is valid for the life of the process. It is "unknown" for other values, and
 * never NULL.
 * Threads: any. Pure.
 * Since IBVERBS_1.1. Source: ibv_poll_cq(3). See also: enum ibv_wc_status.
 */
const char *ibv_wc_status_str(enum ibv_wc_status status);

/**
 * Describes an opcode in words.
 *
 * *opcode*: any value.
 * Returns a string that is valid for the life of the process. It is "unknown" for other values, and
 * never NULL.
 * Threads: any. Pure.
 * Since IBVERBS_PRIVATE_64, where rdma-core has it. Source: rdma-core's header. See also: enum
 * ibv_wr_opcode.
 */
const char *ibv_wr_opcode_str(enum ibv_wr_opcode opcode);

/**
 * Describes a node type in words.
 *
 * *node_type*: any value.
 * Returns a string that is valid for the life of the process. It is "unknown" for other values, and
 * never NULL.
 * Threads: any. Pure.
 * Since IBVERBS_1.1. Source: ibv_node_type_str(3). See also: enum ibv_node_type.
 */
const char *ibv_node_type_str(enum ibv_node_type node_type);

/**
 * Describes a port state in words.
 *
 * *port_state*: any value.
 * Returns a string that is valid for the life of the process. It is "unknown" for other values, and
 * never NULL.
 * Threads: any. Pure.
 * Since IBVERBS_1.1. Source: ibv_node_type_str(3). See also: enum ibv_port_state.
 */
const char *ibv_port_state_str(enum ibv_port_state port_state);

/**
 * Describes an asynchronous event in words.
 *
 * *event*: any value.
 * Returns a string that is valid for the life of the process. It is "unknown" for other values, and
 * never NULL.
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
 * Converts a multiple of 2.5 Gbit/s to a static rate.
 *
 * *mult*: the multiple.
 * Returns the rate, or IBV_RATE_MAX if no rate has this value.
 * Threads: any. Pure.
 * Since IBVERBS_1.0. Source: ibv_rate_to_mult(3). See also: ibv_rate_to_mult().
 */
enum ibv_rate __attribute_const mult_to_ibv_rate(int mult);

/**
 * A static rate in Mbit/s. It is 5000 for IBV_RATE_5_GBPS, the coded rate of the newer ones (103125
 * for IBV_RATE_100_GBPS).
 *
 * *rate*: any value.
 * Returns the rate, or -1 for IBV_RATE_MAX and unknown values.
 * Threads: any. Pure.
 * Since IBVERBS_1.1. Source: ibv_rate_to_mbps(3). See also: ibv_rate_to_mult().
 */
int __attribute_const ibv_rate_to_mbps(enum ibv_rate rate);

/**
 * Converts a number of Mbit/s to a static rate.
 *
 * *mbps*: a value that ibv_rate_to_mbps() returns.
 * Returns the rate, or IBV_RATE_MAX if no rate has this value.
 * Threads: any. Pure.
 * Since IBVERBS_1.1. Source: ibv_rate_to_mbps(3). See also: ibv_rate_to_mbps().
 */
enum ibv_rate __attribute_const mbps_to_ibv_rate(int mbps);

/**
 * Checks whether a mask such as ibv_tso_caps.supported_qpts contains a QP type.
 *
 * *caps*: the mask.
 * *qpt*: enum ibv_qp_type.
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
