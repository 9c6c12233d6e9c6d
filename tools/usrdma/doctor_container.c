/* SPDX-License-Identifier: BSD-2-Clause */
/* Whether the daemon ends with a container. */
#include "doctor.h"
#include "ipc/client.h"
#include "report.h"

/* 0: the daemon was started to serve without an end. */
static bool daemon_is_permanent(const struct doctor *doctor)
{
	json_object *daemon = json_object_object_get(doctor->report, "daemon");

	return number_of(daemon, "idle_seconds") == 0;
}

void doctor_check_container(struct doctor *doctor)
{
	struct ipc_client client;

	if (!doctor->report || ipc_client_open(&client, IPC_ROLE_CONTROL))
		return;
	if (client.is_daemon_elsewhere && !daemon_is_permanent(doctor))
		doctor_say(
			doctor, DOCTOR_WARNING,
			"usrdmad --foreground --idle-seconds 0, in a container that runs longer than the others",
			"the daemon is in another PID namespace: a program of another container started it. It ends with "
			"that container, and ends the connections of all other containers of this network namespace");
	ipc_client_close(&client);
}
