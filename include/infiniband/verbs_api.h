/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The verbs names of values and structures that the kernel's user interface defines. Included by
 * <infiniband/verbs.h>; programs need not include it themselves.
 */
#ifndef VERBS_API_H
#define VERBS_API_H

#include <endian.h>
#include <stdint.h>
#include <linux/types.h>

/*
 * A pointer in a structure that has to be laid out alike for 32-bit and 64-bit programs: it takes
 * 8 bytes, the unused half following or preceding it by byte order.
 */
#if UINTPTR_MAX == UINT64_MAX
#define RDMA_UAPI_PTR(_type, _name)             \
	union {                                 \
		_type _name;                    \
		__aligned_u64 _name##_data_u64; \
	}
#elif UINTPTR_MAX == UINT32_MAX && __BYTE_ORDER == __LITTLE_ENDIAN
#define RDMA_UAPI_PTR(_type, _name)             \
	union {                                 \
		struct {                        \
			_type _name;            \
			__u32 _name##_reserved; \
		};                              \
		__aligned_u64 _name##_data_u64; \
	}
#elif UINTPTR_MAX == UINT32_MAX
#define RDMA_UAPI_PTR(_type, _name)             \
	union {                                 \
		struct {                        \
			__u32 _name##_reserved; \
			_type _name;            \
		};                              \
		__aligned_u64 _name##_data_u64; \
	}
#else
#error "pointers are neither 32 nor 64 bits wide"
#endif

#include <infiniband/ib_user_ioctl_verbs.h>

/* Access flags a device may ignore: a range of bits, see enum ibv_access_flags. */
#define IBV_ACCESS_OPTIONAL_FIRST IB_UVERBS_ACCESS_OPTIONAL_FIRST
#define IBV_ACCESS_OPTIONAL_RANGE IB_UVERBS_ACCESS_OPTIONAL_RANGE

/* ibv_port_attr.flags: every address handle on this port needs a GRH (true for RoCE). */
#define IBV_QPF_GRH_REQUIRED IB_UVERBS_QPF_GRH_REQUIRED

/* ibv_advise_mr */
#define ibv_advise_mr_advice		       ib_uverbs_advise_mr_advice
#define IBV_ADVISE_MR_ADVICE_PREFETCH	       IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH
#define IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE    IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH_WRITE
#define IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT
#define IBV_ADVISE_MR_FLAG_FLUSH	       IB_UVERBS_ADVISE_MR_FLAG_FLUSH

/* ibv_create_flow_action_esp, ibv_modify_flow_action_esp */
#define ibv_flow_action_esp			   ib_uverbs_flow_action_esp
#define ibv_flow_action_esp_encap		   ib_uverbs_flow_action_esp_encap
#define ibv_flow_action_esp_keymat		   ib_uverbs_flow_action_esp_keymat
#define IBV_FLOW_ACTION_ESP_KEYMAT_AES_GCM	   IB_UVERBS_FLOW_ACTION_ESP_KEYMAT_AES_GCM
#define ibv_flow_action_esp_keymat_aes_gcm	   ib_uverbs_flow_action_esp_keymat_aes_gcm
#define ibv_flow_action_esp_keymat_aes_gcm_iv_algo ib_uverbs_flow_action_esp_keymat_aes_gcm_iv_algo
#define IBV_FLOW_ACTION_IV_ALGO_SEQ		   IB_UVERBS_FLOW_ACTION_IV_ALGO_SEQ
#define ibv_flow_action_esp_replay		   ib_uverbs_flow_action_esp_replay
#define IBV_FLOW_ACTION_ESP_REPLAY_NONE		   IB_UVERBS_FLOW_ACTION_ESP_REPLAY_NONE
#define IBV_FLOW_ACTION_ESP_REPLAY_BMP		   IB_UVERBS_FLOW_ACTION_ESP_REPLAY_BMP
#define ibv_flow_action_esp_replay_bmp		   ib_uverbs_flow_action_esp_replay_bmp
#define ibv_flow_action_esp_flags		   ib_uverbs_flow_action_esp_flags
#define IBV_FLOW_ACTION_ESP_FLAGS_INLINE_CRYPTO	   IB_UVERBS_FLOW_ACTION_ESP_FLAGS_INLINE_CRYPTO
#define IBV_FLOW_ACTION_ESP_FLAGS_FULL_OFFLOAD	   IB_UVERBS_FLOW_ACTION_ESP_FLAGS_FULL_OFFLOAD
#define IBV_FLOW_ACTION_ESP_FLAGS_TUNNEL	   IB_UVERBS_FLOW_ACTION_ESP_FLAGS_TUNNEL
#define IBV_FLOW_ACTION_ESP_FLAGS_TRANSPORT	   IB_UVERBS_FLOW_ACTION_ESP_FLAGS_TRANSPORT
#define IBV_FLOW_ACTION_ESP_FLAGS_DECRYPT	   IB_UVERBS_FLOW_ACTION_ESP_FLAGS_DECRYPT
#define IBV_FLOW_ACTION_ESP_FLAGS_ENCRYPT	   IB_UVERBS_FLOW_ACTION_ESP_FLAGS_ENCRYPT
#define IBV_FLOW_ACTION_ESP_FLAGS_ESN_NEW_WINDOW   IB_UVERBS_FLOW_ACTION_ESP_FLAGS_ESN_NEW_WINDOW

#endif /* VERBS_API_H */
