/* SPDX-License-Identifier: BSD-2-Clause */
/* Whether faults are injected. */
#include <inttypes.h>
#include <stdlib.h>
#include <unistd.h>

#include "doctor.h"
#include "fault/active.h"

static void say_own_rules(struct doctor *doctor, const struct fault_active *active)
{
	for (int i = 0; i < active->text.count; i++)
		doctor_say(doctor, DOCTOR_WARNING,
			   i + 1 < active->text.count ? NULL : "usrdma fault clear",
			   "fault rule %d is in force and has fired %" PRIu64 " times: %s", i + 1,
			   active->counts[i].firings, active->text.rules[i]);
}

void doctor_check_faults(struct doctor *doctor)
{
	json_object *uids = json_object_object_get(doctor->report, "fault_rule_uids");
	size_t count = report_length(uids);

	for (size_t i = 0; i < count; i++) {
		uint64_t uid = json_object_get_uint64(json_object_array_get_idx(uids, i));
		struct fault_active active;

		if (uid == getuid()) {
			fault_active_read(&active);
			say_own_rules(doctor, &active);
			fault_active_free(&active);
		} else if (uid == doctor->daemon.uid) {
			doctor_say(
				doctor, DOCTOR_WARNING, "usrdma fault clear, as that user",
				"the daemon's user, uid %" PRIu64
				", has set fault rules, some of which apply to the connections of all users",
				uid);
		}
	}
}

void doctor_check_fault_variables(struct doctor *doctor)
{
	static const char *const names[] = {"USRDMA_FAULT", "USRDMA_FAULTS"};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (getenv(names[i]))
			doctor_say(doctor, DOCTOR_WARNING, "unset USRDMA_FAULT USRDMA_FAULTS",
				   "%s is set: faults are injected into programs of this shell",
				   names[i]);
	}
}
