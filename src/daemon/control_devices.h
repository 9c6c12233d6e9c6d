/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef USRDMA_DAEMON_CONTROL_DEVICES_H
#define USRDMA_DAEMON_CONTROL_DEVICES_H

#include <json-c/json.h>
#include <stdint.h>

#include "daemon/session.h"

/* Add a member to a JSON object. Characters of `value` that are not printable are replaced. */
void control_add_number(json_object *to, const char *key, uint64_t value);
void control_add_string(json_object *to, const char *key, const char *value);

/* The devices of a report that the asker may see, with the numbers of the complete sum. */
json_object *control_devices(const struct session *asker, const struct device_sum *sum);

#endif
