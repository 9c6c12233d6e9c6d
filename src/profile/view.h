/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_PROFILE_VIEW_H
#define USRDMA_PROFILE_VIEW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "profile/profile.h"

/*
 * The view: names and profiles of the devices as this process sees them. The daemon and other
 * processes are not concerned: they identify a device by its interface.
 *
 * USRDMA_DEVICES=NAME=INTERFACE[:PROFILE],...[,only]: devices with names, in the order of the list.
 * Several entries with the same interface create several devices. Interfaces without an entry have
 * the interface's name and follow in the daemon's order; with the word "only", they have no device.
 * USRDMA_PROFILE=[PROFILE][,ATTRIBUTE=VALUE]...: the profile of all devices whose entry names no
 * profile.
 */
#define VIEW_DEVICES_ENV "USRDMA_DEVICES"
#define VIEW_PROFILE_ENV "USRDMA_PROFILE"

#define VIEW_DEVICES_MAX 64
#define VIEW_NAME_BYTES	 64 /* of ibv_device.name, with the NUL */
#define VIEW_IF_BYTES	 16 /* of an interface's name, with the NUL */
#define VIEW_WHY_BYTES	 256

/* Order of a device without an entry: after all entries. */
#define VIEW_ORDER_UNNAMED VIEW_DEVICES_MAX

struct view_entry {
	char name[VIEW_NAME_BYTES];
	char interface[VIEW_IF_BYTES];
	bool has_profile;
	unsigned int rail; /* number of preceding entries with the same interface */
	struct profile profile;
};

struct view {
	struct view_entry entries[VIEW_DEVICES_MAX];
	unsigned int count;
	bool is_only;		/* interfaces without an entry have no device */
	bool is_invalid;	/* the environment cannot be parsed: no devices */
	struct profile general; /* of all devices without a profile of their own */
	char why[VIEW_WHY_BYTES];
};

/* A device of an interface. The pointers are valid as long as the view. */
struct view_device {
	const char *name;
	unsigned int order;
	unsigned int rail;
	const struct profile *profile;
};

/*
 * Parses the values of the two variables; NULL or "": not set. 0, or -EINVAL and a message in
 * view->why, which names the invalid part; view->is_invalid is set.
 */
int view_parse(struct view *view, const char *devices, const char *profile);

/*
 * The view of this process, read from the environment at the first call. Constant afterwards.
 * Set-user-ID programs ignore the environment (secure_getenv(3)).
 */
const struct view *view_of_process(void);

/*
 * Finds the next device of an interface. *cursor is 0 before the first call. false: no more
 * devices.
 */
bool view_next(const struct view *view, const char *interface, unsigned int *cursor,
	       struct view_device *device);

/* The node GUID and the device index of a device, computed from those of the interface. */
uint64_t view_guid(uint64_t node_guid, unsigned int rail);
uint32_t view_index(uint32_t ifindex, unsigned int rail);

#endif
