/* SPDX-License-Identifier: BSD-2-Clause */
#include "profile/profile.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"

#define SETTING_BYTES 64

struct setting {
	enum profile_value value;
	uint64_t number;
};

/* Attributes that all adapters with the driver mlx5 have in common. */
#define MLX5_SETTINGS                                                                              \
	{PROFILE_VENDOR_ID, 0x02c9}, {PROFILE_HW_VER, 0}, {PROFILE_PCI_VENDOR, 0x15b3},            \
		{PROFILE_MAX_MR_SIZE, UINT64_MAX - 1}, {PROFILE_MAX_QP_WR, 32768},                 \
		{PROFILE_MAX_SGE, 30}, {PROFILE_MAX_SGE_RD, 30}, {PROFILE_MAX_CQ, 16777216},       \
		{PROFILE_MAX_CQE, 4194303}, {PROFILE_MAX_MR, 16777216}, {PROFILE_MAX_PD, 8388608}, \
		{PROFILE_MAX_QP_RD_ATOM, 16}, {PROFILE_MAX_QP_INIT_RD_ATOM, 16},                   \
		{PROFILE_MAX_RES_RD_ATOM, 2097152}, {PROFILE_ATOMIC_CAP, 1},                       \
		{PROFILE_MAX_MW, 16777216}, {PROFILE_MAX_MCAST_GRP, 2097152},                      \
		{PROFILE_MAX_MCAST_QP_ATTACH, 240},                                                \
		{PROFILE_MAX_TOTAL_MCAST_QP_ATTACH, 503316480}, {PROFILE_MAX_AH, 2147483647},      \
		{PROFILE_MAX_SRQ, 8388608}, {PROFILE_MAX_SRQ_WR, 32767},                           \
		{PROFILE_MAX_SRQ_SGE, 31}, {PROFILE_LOCAL_CA_ACK_DELAY, 16},                       \
		{PROFILE_MIN_ACK_TIMEOUT, 12}, {PROFILE_GID_TBL_LEN, 255},                         \
		{PROFILE_GID_LAYOUT, GID_LAYOUT_PAIRS},                                            \
	{                                                                                          \
		PROFILE_LANES, 4                                                                   \
	}

static const struct setting rxe[] = {
	{PROFILE_VENDOR_ID, 0xffffff},
	{PROFILE_VENDOR_PART_ID, 0},
	{PROFILE_HW_VER, 0},
	{PROFILE_MAX_MR_SIZE, UINT64_MAX - 1},
	{PROFILE_MAX_QP, 1048560},
	{PROFILE_MAX_QP_WR, 1048576},
	{PROFILE_MAX_SGE, 32},
	{PROFILE_MAX_SGE_RD, 32},
	{PROFILE_MAX_CQ, 1048576},
	{PROFILE_MAX_CQE, 32767},
	{PROFILE_MAX_MR, 1048575},
	{PROFILE_MAX_PD, 1048576},
	{PROFILE_MAX_QP_RD_ATOM, 128},
	{PROFILE_MAX_QP_INIT_RD_ATOM, 128},
	{PROFILE_MAX_RES_RD_ATOM, 258048},
	{PROFILE_ATOMIC_CAP, 1},
	{PROFILE_MAX_MW, 4096},
	{PROFILE_MAX_MCAST_GRP, 8192},
	{PROFILE_MAX_MCAST_QP_ATTACH, 56},
	{PROFILE_MAX_TOTAL_MCAST_QP_ATTACH, 458752},
	{PROFILE_MAX_AH, 32767},
	{PROFILE_MAX_SRQ, 917503},
	{PROFILE_MAX_SRQ_WR, 1048576},
	{PROFILE_MAX_SRQ_SGE, 27},
	{PROFILE_LOCAL_CA_ACK_DELAY, 15},
	{PROFILE_MAX_INLINE_DATA, 512},
	{PROFILE_GID_LAYOUT, GID_LAYOUT_SINGLE},
	{PROFILE_ERROR_DETAILS, 0},
	{PROFILE_EVENT_FOR_ERROR, 0},
	{PROFILE_EVENT_FOR_UNPOLLED, 0},
};

static const struct setting connectx6[] = {
	MLX5_SETTINGS,
	{PROFILE_VENDOR_PART_ID, 4123},
	{PROFILE_PCI_DEVICE, 0x101b},
	{PROFILE_MAX_QP, 262144},
	{PROFILE_RATE, 200},
};

static const struct setting connectx7[] = {
	MLX5_SETTINGS,
	{PROFILE_VENDOR_PART_ID, 4129},
	{PROFILE_PCI_DEVICE, 0x1021},
	{PROFILE_MAX_QP, 131072},
	{PROFILE_RATE, 400},
};

static const struct setting e810[] = {
	{PROFILE_VENDOR_ID, 0x8086},
	{PROFILE_VENDOR_PART_ID, 5522},
	{PROFILE_HW_VER, 2},
	{PROFILE_PCI_VENDOR, 0x8086},
	{PROFILE_PCI_DEVICE, 0x1592},
	{PROFILE_MAX_MR_SIZE, 0x200000000000},
	{PROFILE_MAX_QP, 4092},
	{PROFILE_MAX_QP_WR, 8127},
	{PROFILE_MAX_SGE, 6},
	{PROFILE_MAX_SGE_RD, 6},
	{PROFILE_MAX_CQ, 8189},
	{PROFILE_MAX_CQE, 1048574},
	{PROFILE_MAX_MR, 4194301},
	{PROFILE_MAX_PD, 262141},
	{PROFILE_MAX_QP_RD_ATOM, 8},
	{PROFILE_MAX_QP_INIT_RD_ATOM, 8},
	{PROFILE_ATOMIC_CAP, 0},
	{PROFILE_MAX_MCAST_GRP, 4096},
	{PROFILE_MAX_MCAST_QP_ATTACH, 8},
	{PROFILE_MAX_TOTAL_MCAST_QP_ATTACH, 32768},
	{PROFILE_MAX_AH, 131072},
	{PROFILE_MAX_SRQ, 0},
	{PROFILE_MAX_SRQ_WR, 0},
	{PROFILE_MAX_SRQ_SGE, 0},
	{PROFILE_MAX_INLINE_DATA, 101},
	{PROFILE_GID_LAYOUT, GID_LAYOUT_SINGLE},
	{PROFILE_RATE, 100},
	{PROFILE_LANES, 4},
};

static const struct setting erdma[] = {
	{PROFILE_VENDOR_ID, 0x1ded},
	{PROFILE_VENDOR_PART_ID, 0x107f},
	{PROFILE_PCI_VENDOR, 0x1ded},
	{PROFILE_PCI_DEVICE, 0x107f},
	{PROFILE_MAX_QP_WR, 8192},
	{PROFILE_MAX_SGE, 1},
	{PROFILE_MAX_SGE_RD, 1},
	{PROFILE_MAX_PD, 131072},
	{PROFILE_MAX_QP_RD_ATOM, 128},
	{PROFILE_MAX_QP_INIT_RD_ATOM, 128},
	{PROFILE_MAX_SRQ, 0},
	{PROFILE_MAX_SRQ_WR, 0},
	{PROFILE_MAX_SRQ_SGE, 0},
	{PROFILE_MAX_INLINE_DATA, 96},
	{PROFILE_GID_LAYOUT, GID_LAYOUT_SINGLE},
};

static const struct {
	const char *name;
	const char *fw_ver;
	const char *ca_type;
	const char *board_id;
	const struct setting *settings;
	size_t count;
} builtin[] = {
	{"usrdma", NULL, "usrdma", "usrdma", NULL, 0},
	{"rxe", "", NULL, NULL, rxe, COUNT(rxe)},
	{"connectx-6", "20.29.1016", "MT4123", "MT_0000000223", connectx6, COUNT(connectx6)},
	{"connectx-7", "28.39.2048", "MT4129", "MT_0000000838", connectx7, COUNT(connectx7)},
	{"e810", "1.74", NULL, NULL, e810, COUNT(e810)},
	{"erdma", NULL, NULL, NULL, erdma, COUNT(erdma)},
};

/*
 * Names and ranges in settings. `words` is a list of words for the values 0, 1, ..., separated by a
 * blank.
 */
static const struct {
	const char *name;
	uint64_t max;
	const char *words;
} attributes[] = {
	[PROFILE_VENDOR_ID] = {"vendor_id", 0xffffff, NULL},
	[PROFILE_VENDOR_PART_ID] = {"vendor_part_id", UINT32_MAX, NULL},
	[PROFILE_HW_VER] = {"hw_ver", UINT32_MAX, NULL},
	[PROFILE_PCI_VENDOR] = {"pci_vendor", UINT16_MAX, NULL},
	[PROFILE_PCI_DEVICE] = {"pci_device", UINT16_MAX, NULL},
	[PROFILE_MAX_MR_SIZE] = {"max_mr_size", UINT64_MAX - 1, NULL},
	[PROFILE_MAX_QP] = {"max_qp", INT32_MAX, NULL},
	[PROFILE_MAX_QP_WR] = {"max_qp_wr", INT32_MAX, NULL},
	[PROFILE_MAX_SGE] = {"max_sge", INT32_MAX, NULL},
	[PROFILE_MAX_SGE_RD] = {"max_sge_rd", INT32_MAX, NULL},
	[PROFILE_MAX_CQ] = {"max_cq", INT32_MAX, NULL},
	[PROFILE_MAX_CQE] = {"max_cqe", INT32_MAX, NULL},
	[PROFILE_MAX_MR] = {"max_mr", INT32_MAX, NULL},
	[PROFILE_MAX_PD] = {"max_pd", INT32_MAX, NULL},
	[PROFILE_MAX_QP_RD_ATOM] = {"max_qp_rd_atom", INT32_MAX, NULL},
	[PROFILE_MAX_QP_INIT_RD_ATOM] = {"max_qp_init_rd_atom", INT32_MAX, NULL},
	[PROFILE_MAX_RES_RD_ATOM] = {"max_res_rd_atom", INT32_MAX, NULL},
	[PROFILE_ATOMIC_CAP] = {"atomic_cap", 2, "none hca glob"},
	[PROFILE_MAX_MW] = {"max_mw", INT32_MAX, NULL},
	[PROFILE_MAX_MCAST_GRP] = {"max_mcast_grp", INT32_MAX, NULL},
	[PROFILE_MAX_MCAST_QP_ATTACH] = {"max_mcast_qp_attach", INT32_MAX, NULL},
	[PROFILE_MAX_TOTAL_MCAST_QP_ATTACH] = {"max_total_mcast_qp_attach", INT32_MAX, NULL},
	[PROFILE_MAX_AH] = {"max_ah", INT32_MAX, NULL},
	[PROFILE_MAX_SRQ] = {"max_srq", INT32_MAX, NULL},
	[PROFILE_MAX_SRQ_WR] = {"max_srq_wr", INT32_MAX, NULL},
	[PROFILE_MAX_SRQ_SGE] = {"max_srq_sge", INT32_MAX, NULL},
	[PROFILE_LOCAL_CA_ACK_DELAY] = {"local_ca_ack_delay", 31, NULL},
	[PROFILE_MAX_INLINE_DATA] = {"max_inline_data", INT32_MAX, NULL},
	[PROFILE_MIN_ACK_TIMEOUT] = {"min_ack_timeout", 31, NULL},
	[PROFILE_GID_TBL_LEN] = {"gid_tbl_len", INT32_MAX, NULL},
	[PROFILE_GID_LAYOUT] = {"gid_layout", GID_LAYOUT_COUNT - 1, "usrdma single pairs"},
	[PROFILE_RATE] = {"rate", 1000000, NULL},
	[PROFILE_LANES] = {"lanes", 12, NULL},
	[PROFILE_ERROR_DETAILS] = {"error_details", 1, "no yes"},
	[PROFILE_EVENT_FOR_ERROR] = {"event_for_error", 1, "no yes"},
	[PROFILE_EVENT_FOR_UNPOLLED] = {"event_for_unpolled", 1, "no yes"},
	[PROFILE_GPU] = {"gpu", 1, "no yes"},
};

static_assert(COUNT(attributes) == PROFILE_VALUES, "a name for each attribute");

int profile_by_name(const char *name, size_t length, struct profile *profile)
{
	size_t i = 0;

	while (i < COUNT(builtin) &&
	       (strlen(builtin[i].name) != length || memcmp(builtin[i].name, name, length) != 0))
		i++;
	if (i == COUNT(builtin))
		return -ENOENT;
	profile->name = builtin[i].name;
	profile->fw_ver = builtin[i].fw_ver;
	profile->ca_type = builtin[i].ca_type;
	profile->board_id = builtin[i].board_id;
	for (size_t at = 0; at < PROFILE_VALUES; at++)
		profile->values[at] = PROFILE_UNSET;
	for (size_t at = 0; at < builtin[i].count; at++)
		profile->values[builtin[i].settings[at].value] = builtin[i].settings[at].number;
	return 0;
}

const char *profile_name(size_t number)
{
	return number < COUNT(builtin) ? builtin[number].name : NULL;
}

const char *profile_value_name(enum profile_value value)
{
	return attributes[value].name;
}

/* The position of the word in a list of words. -ENOENT: the list does not contain the word. */
static int word_number(const char *words, const char *word, uint64_t *number)
{
	size_t length = strlen(word);

	for (*number = 0; words; (*number)++) {
		size_t word_length = strcspn(words, " ");

		if (word_length == length && !memcmp(words, word, length))
			return 0;
		words = words[word_length] ? words + word_length + 1 : NULL;
	}
	return -ENOENT;
}

static int number_parse(const char *text, uint64_t *number)
{
	char *end;

	if (*text < '0' || *text > '9')
		return -EINVAL;
	errno = 0;
	*number = strtoull(text, &end, 0);
	return errno || *end ? -EINVAL : 0;
}

static bool is_lane_count(uint64_t lanes)
{
	return lanes == 1 || lanes == 2 || lanes == 4 || lanes == 8 || lanes == 12;
}

static int attribute_parse(enum profile_value value, const char *text, uint64_t *number)
{
	if (!word_number(attributes[value].words, text, number))
		return 0;
	if (number_parse(text, number) || *number > attributes[value].max)
		return -EINVAL;
	if (value == PROFILE_LANES && !is_lane_count(*number))
		return -EINVAL;
	return value == PROFILE_RATE && !*number ? -EINVAL : 0;
}

int profile_set(struct profile *profile, const char *setting, size_t length)
{
	char text[SETTING_BYTES];
	uint64_t number;
	char *value;
	int ret;

	if (length >= sizeof(text))
		return -EINVAL;
	memcpy(text, setting, length);
	text[length] = '\0';
	value = strchr(text, '=');
	if (!value)
		return -ENOENT;
	*value++ = '\0';
	for (size_t i = 0; i < PROFILE_VALUES; i++) {
		if (strcmp(attributes[i].name, text) != 0)
			continue;
		ret = attribute_parse((enum profile_value)i, value, &number);
		if (!ret)
			profile->values[i] = number;
		return ret;
	}
	return -ENOENT;
}
