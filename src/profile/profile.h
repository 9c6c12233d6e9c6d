/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_PROFILE_PROFILE_H
#define USRDMA_PROFILE_PROFILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * A profile contains the attributes that a device reports, the limits that its calls enforce, and a
 * few kinds of behaviour (docs/adr/0076). docs/profiles.md names the source of each value. A
 * profile changes no packet: peers cannot determine the profile of a process.
 */

/* The type of each entry of the GID table (gid_layout.h). */
enum gid_layout {
	GID_LAYOUT_USRDMA, /* RoCE v2; the first IPv4 address has index 3 also */
	GID_LAYOUT_SINGLE, /* RoCE v2, one entry for each address */
	GID_LAYOUT_PAIRS,  /* two entries for each address: RoCE v1, then RoCE v2 */
	GID_LAYOUT_COUNT
};

/*
 * The numeric attributes. Their names in a setting are those of ibv_devinfo(1), if it prints the
 * attribute.
 */
enum profile_value {
	PROFILE_VENDOR_ID,
	PROFILE_VENDOR_PART_ID,
	PROFILE_HW_VER,
	PROFILE_PCI_VENDOR,
	PROFILE_PCI_DEVICE,
	PROFILE_MAX_MR_SIZE,
	PROFILE_MAX_QP,
	PROFILE_MAX_QP_WR,
	PROFILE_MAX_SGE,
	PROFILE_MAX_SGE_RD,
	PROFILE_MAX_CQ,
	PROFILE_MAX_CQE,
	PROFILE_MAX_MR,
	PROFILE_MAX_PD,
	PROFILE_MAX_QP_RD_ATOM,
	PROFILE_MAX_QP_INIT_RD_ATOM,
	PROFILE_MAX_RES_RD_ATOM,
	PROFILE_ATOMIC_CAP, /* enum ibv_atomic_cap */
	PROFILE_MAX_MW,
	PROFILE_MAX_MCAST_GRP,
	PROFILE_MAX_MCAST_QP_ATTACH,
	PROFILE_MAX_TOTAL_MCAST_QP_ATTACH,
	PROFILE_MAX_AH,
	PROFILE_MAX_SRQ,
	PROFILE_MAX_SRQ_WR,
	PROFILE_MAX_SRQ_SGE,
	PROFILE_LOCAL_CA_ACK_DELAY,
	PROFILE_MAX_INLINE_DATA,
	PROFILE_MIN_ACK_TIMEOUT, /* exponent, as ibv_qp_attr.timeout */
	PROFILE_GID_TBL_LEN,
	PROFILE_GID_LAYOUT, /* enum gid_layout */
	PROFILE_RATE,	    /* of the port, in Gbit/s */
	PROFILE_LANES,	    /* width of the port: 1, 2, 4, 8 or 12 */
	/* Behaviour in which Linux's rxe differs (docs/adr/0076): 0 or 1, the value of usrdma. */
	PROFILE_ERROR_DETAILS,	 /* error completions have opcode, byte_len and vendor_err */
	PROFILE_EVENT_FOR_ERROR, /* with solicited_only, an error completion generates an event */
	/* ibv_req_notify_cq() generates one if the CQ has a new completion */
	PROFILE_EVENT_FOR_UNPOLLED,
	PROFILE_GPU, /* 1: the probe for dma-buf support of ibv_reg_dmabuf_mr() succeeds */
	PROFILE_VALUES
};

/* The profile does not change this attribute. */
#define PROFILE_UNSET UINT64_MAX

struct profile {
	const char *name;
	const char *fw_ver;   /* NULL: not changed */
	const char *ca_type;  /* file hca_type in sysfs; NULL: no such file */
	const char *board_id; /* likewise */
	uint64_t values[PROFILE_VALUES];
};

/* The built-in profile with this name: 0, or -ENOENT. */
int profile_by_name(const char *name, size_t length, struct profile *profile)
	__attribute__((warn_unused_result));

/* The name of the built-in profile with this number, from 0; NULL after the last one. */
const char *profile_name(size_t number);

/* The name of an attribute, as in a setting. */
const char *profile_value_name(enum profile_value value);

/*
 * Applies "NAME=VALUE". A value is a decimal or hexadecimal number, or a word for some attributes.
 * 0, -ENOENT: unknown name; -EINVAL: the value is not a number, or out of range.
 */
int profile_set(struct profile *profile, const char *setting, size_t length)
	__attribute__((warn_unused_result));

/*
 * The attribute, or `own` if the profile does not change it. profile may be NULL: it changes
 * nothing.
 */
static inline uint64_t profile_value(const struct profile *profile, enum profile_value value,
				     uint64_t own)
{
	if (!profile || profile->values[value] == PROFILE_UNSET)
		return own;
	return profile->values[value];
}

/*
 * The limit: the smaller one of the profile's and `own`, which is the limit of this implementation.
 */
static inline uint64_t profile_limit(const struct profile *profile, enum profile_value value,
				     uint64_t own)
{
	uint64_t limit = profile_value(profile, value, own);

	return limit < own ? limit : own;
}

static inline enum gid_layout profile_gid_layout(const struct profile *profile)
{
	return (enum gid_layout)profile_value(profile, PROFILE_GID_LAYOUT, GID_LAYOUT_USRDMA);
}

#endif
