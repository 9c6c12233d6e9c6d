/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef INFINIBAND_SA_H
#define INFINIBAND_SA_H

/*
 * Records of subnet administration (IBA 1.x §15.2.5) in the form of the API: path, multicast
 * membership and service. RoCE has no subnet manager; the rdma_cm fills in path records from the IP
 * route.
 */

#include <infiniband/verbs.h>
#include <linux/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * An unpacked PathRecord, the type of rdma_cm_id.route.path_rec. Selectors have the meaning of the
 * subnet administrator: 0 greater than, 1 less than, 2 exactly, 3 the largest available. *mtu* is
 * an enum ibv_mtu, *rate* an enum ibv_rate, *packet_life_time* an exponent: 4.096 us * 2^n.
 */
struct ibv_sa_path_rec {
	union ibv_gid dgid;
	union ibv_gid sgid;
	__be16 dlid;
	__be16 slid;
	int raw_traffic;
	__be32 flow_label;
	uint8_t hop_limit;
	uint8_t traffic_class;
	int reversible;
	uint8_t numb_path;
	__be16 pkey;
	uint8_t sl;
	uint8_t mtu_selector;
	uint8_t mtu;
	uint8_t rate_selector;
	uint8_t rate;
	uint8_t packet_life_time_selector;
	uint8_t packet_life_time;
	uint8_t preference;
};

/**
 * An unpacked MCMemberRecord: one port's membership in a multicast group.
 */
struct ibv_sa_mcmember_rec {
	union ibv_gid mgid;
	union ibv_gid port_gid;
	uint32_t qkey;
	uint16_t mlid;
	uint8_t mtu_selector;
	uint8_t mtu;
	uint8_t traffic_class;
	uint16_t pkey;
	uint8_t rate_selector;
	uint8_t rate;
	uint8_t packet_life_time_selector;
	uint8_t packet_life_time;
	uint8_t sl;
	uint32_t flow_label;
	uint8_t hop_limit;
	uint8_t scope;
	uint8_t join_state;
	int proxy_join;
};

/**
 * An unpacked ServiceRecord: a service ID or name and the port that offers it.
 */
struct ibv_sa_service_rec {
	uint64_t id;
	union ibv_gid gid;
	uint16_t pkey;
	uint32_t lease;
	uint8_t key[16];
	uint8_t name[64];
	uint8_t data8[16];
	uint16_t data16[8];
	uint32_t data32[4];
	uint64_t data64[2];
};

/* The reversible bit of ibv_path_record.reversible_numpath. */
#define IBV_PATH_RECORD_REVERSIBLE 0x80

/**
 * A PathRecord in wire format, 64 bytes, for RDMA_OPTION_IB_PATH and ai_route.
 */
struct ibv_path_record {
	__be64 service_id;
	union ibv_gid dgid;
	union ibv_gid sgid;
	__be16 dlid;
	__be16 slid;
	__be32 flowlabel_hoplimit; /* [31:28] reserved, [27:8] label, [7:0] hops */
	uint8_t tclass;
	uint8_t reversible_numpath; /* [7] reversible, [6:0] number of paths */
	__be16 pkey;
	__be16 qosclass_sl;	/* [15:4] QoS class, [3:0] SL */
	uint8_t mtu;		/* [7:6] selector, [5:0] MTU */
	uint8_t rate;		/* [7:6] selector, [5:0] rate */
	uint8_t packetlifetime; /* [7:6] selector, [5:0] lifetime */
	uint8_t preference;
	uint8_t reserved[6];
};

/* ibv_path_data.flags: the use and the direction of the path. */
#define IBV_PATH_FLAG_GMP	      (1 << 0)
#define IBV_PATH_FLAG_PRIMARY	      (1 << 1)
#define IBV_PATH_FLAG_ALTERNATE	      (1 << 2)
#define IBV_PATH_FLAG_OUTBOUND	      (1 << 3)
#define IBV_PATH_FLAG_INBOUND	      (1 << 4)
#define IBV_PATH_FLAG_INBOUND_REVERSE (1 << 5)
#define IBV_PATH_FLAG_BIDIRECTIONAL   (IBV_PATH_FLAG_OUTBOUND | IBV_PATH_FLAG_INBOUND_REVERSE)

/**
 * An element of the array of RDMA_OPTION_IB_PATH. *reserved* must be 0.
 */
struct ibv_path_data {
	uint32_t flags;
	uint32_t reserved;
	struct ibv_path_record path;
};

#ifdef __cplusplus
}
#endif

#endif /* INFINIBAND_SA_H */
