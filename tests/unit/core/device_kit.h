/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_TESTS_UNIT_CORE_DEVICE_KIT_H
#define USRDMA_TESTS_UNIT_CORE_DEVICE_KIT_H

#include "fake.h"

/*
 * A library whose daemon is a table of devices: engine_get, engine_start and ipc_call are replaced
 * (meson.build).
 */

#define DEVICES_MAX 3

extern struct fake fake;

/* The daemon's devices in its order, and the error that it returns. */
extern struct ipc_device_reply daemon_devices[DEVICES_MAX];
extern unsigned int daemon_count;
extern int daemon_error;
/* The number of calls of the daemon. */
extern unsigned int daemon_calls;
/* The errno of engine_get(); 0: it succeeds. */
extern int engine_error;

/* Sets entry `at` of daemon_devices: a device that is up, with the GIDs 0 and 2. */
void daemon_has(unsigned int at, const char *name, uint32_t dev_id, uint32_t mtu_bytes);

/* The daemon has eth0 with number 2 and lo with number 1. */
int device_kit_setup(void **state);
int device_kit_teardown(void **state);

#define DEVICE_TEST(function) \
	cmocka_unit_test_setup_teardown(function, device_kit_setup, device_kit_teardown)

/* NULL: the list has no device of this name. */
struct ibv_device *device_named(const char *name);
struct ibv_context *open_named(const char *name);

#endif
