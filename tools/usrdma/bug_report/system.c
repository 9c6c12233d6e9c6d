/* SPDX-License-Identifier: BSD-2-Clause */
/* Versions, machine, limits, and the settings of devices. */
#include <gnu/libc-version.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "../places.h"
#include "config.h"
#include "html.h"
#include "ipc/msg.h"
#include "profile/view.h"
#include "sections.h"

#define LINE_BYTES 512

/*
 * Finds the line of a file that begins with `name` and a separator, and copies its value without
 * quotes.
 */
static bool file_value(const char *path, const char *name, char value[LINE_BYTES])
{
	FILE *file = fopen(path, "re");
	size_t len = strlen(name);
	char line[LINE_BYTES];
	bool is_found = false;

	while (file && !is_found && fgets(line, sizeof(line), file)) {
		const char *at = line + len;

		if (strncmp(line, name, len) != 0)
			continue;
		at += strspn(at, " \t=:\"");
		snprintf(value, LINE_BYTES, "%.*s", (int)strcspn(at, "\"\n"), at);
		is_found = true;
	}
	if (file)
		fclose(file);
	return is_found;
}

static void print_container(FILE *out)
{
	static const struct {
		const char *path, *name;
	} marks[] = {{"/.dockerenv", "Docker"}, {"/run/.containerenv", "Podman"}};
	char manager[LINE_BYTES];
	const char *name = getenv("KUBERNETES_SERVICE_HOST") ? "Kubernetes" : NULL;

	for (size_t i = 0; !name && i < sizeof(marks) / sizeof(marks[0]); i++)
		name = access(marks[i].path, F_OK) == 0 ? marks[i].name : NULL;
	if (!name && file_first_line("/run/systemd/container", manager, sizeof(manager)))
		name = manager;
	html_entry(out, "container", name ? name : "no mark of a container was found");
}

static void print_machine(FILE *out)
{
	struct utsname kernel;
	char value[LINE_BYTES];

	if (uname(&kernel) == 0)
		html_entry_format(out, "kernel", "%s %s, %s, %s", kernel.sysname, kernel.release,
				  kernel.machine, kernel.version);
	if (file_value("/etc/os-release", "PRETTY_NAME=", value))
		html_entry(out, "distribution", value);
	html_entry_format(out, "C library", "glibc %s", gnu_get_libc_version());
	print_container(out);
	html_entry_format(out, "processors", "%ld", sysconf(_SC_NPROCESSORS_ONLN));
	if (file_value("/proc/cpuinfo", "model name", value))
		html_entry(out, "model", value);
	if (file_value("/proc/meminfo", "MemTotal", value))
		html_entry(out, "memory", value);
	if (file_value("/proc/self/status", "Seccomp:", value))
		html_entry_format(out, "seccomp", "mode %s", value);
	if (file_value("/proc/self/status", "CapEff", value))
		html_entry(out, "capabilities", value);
}

static void limit_text(char text[32], rlim_t limit)
{
	if (limit == RLIM_INFINITY)
		strcpy(text, "unlimited");
	else
		snprintf(text, 32, "%" PRIu64, (uint64_t)limit);
}

static void print_limits(FILE *out)
{
	static const char *const heads[] = {"Limit", "Soft", "Hard", NULL};
	static const struct {
		const char *name;
		__rlimit_resource_t resource;
	} limits[] = {{"open files", RLIMIT_NOFILE},
		      {"locked memory, bytes", RLIMIT_MEMLOCK},
		      {"address space, bytes", RLIMIT_AS},
		      {"processes", RLIMIT_NPROC}};
	char soft[32], hard[32];

	html_table(out, "Limits of the command that created the report", heads);
	for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++) {
		struct rlimit limit;

		if (getrlimit(limits[i].resource, &limit))
			continue;
		limit_text(soft, limit.rlim_cur);
		limit_text(hard, limit.rlim_max);
		html_row(out, limits[i].name);
		html_cell(out, soft);
		html_cell(out, hard);
		html_row_end(out);
	}
	html_table_end(out);
}

static void print_settings(FILE *out)
{
	static const char *const heads[] = {"Setting", "Value", NULL};
	static const char *const names[] = {
		"kernel/yama/ptrace_scope",
		"kernel/unprivileged_userns_clone",
		"kernel/apparmor_restrict_unprivileged_userns",
		"net/core/rmem_max",
		"net/core/wmem_max",
		"net/ipv6/conf/all/disable_ipv6",
		"vm/overcommit_memory",
	};
	char path[LINE_BYTES], value[LINE_BYTES];

	html_table(out, "Settings of the kernel (sysctl)", heads);
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		snprintf(path, sizeof(path), "/proc/sys/%s", names[i]);
		html_row(out, names[i]);
		html_cell(out, file_first_line(path, value, sizeof(value)) ? value : "not present");
		html_row_end(out);
	}
	html_table_end(out);
}

static void print_versions(FILE *out, const struct bug_report *report)
{
	json_object *daemon = json_object_object_get(report->state, "daemon");

	html_entry_format(out, "command", "usrdma %s, daemon protocol %d, uid %u", USRDMA_VERSION,
			  IPC_VERSION, (unsigned int)geteuid());
	if (report->state)
		html_entry_format(out, "daemon", "usrdmad %s, pid %s, uid %s, UDP port 4791: %s",
				  text_of(daemon, "version"), text_of(daemon, "pid"),
				  text_of(daemon, "uid"), text_of(daemon, "roce_port"));
	else
		html_entry_format(out, "daemon", "no report: %s", strerror(-report->daemon.error));
	html_entry(out, "files", place_is_built(PLACE_LIBRARIES) ? "a build tree" : "installed");
}

void section_system(FILE *out, const struct bug_report *report)
{
	html_section(out, "system", "System");
	html_list(out);
	print_versions(out, report);
	print_machine(out);
	html_list_end(out);
	print_limits(out);
	print_settings(out);
	html_section_end(out);
}

static void print_attributes(FILE *out, const char *device, const struct profile *profile)
{
	for (int i = 0; i < PROFILE_VALUES; i++) {
		if (profile->values[i] == PROFILE_UNSET)
			continue;
		html_row(out, device);
		html_cell(out, profile->name ? profile->name : "");
		html_cell(out, profile_value_name((enum profile_value)i));
		html_cell_number(out, profile->values[i]);
		html_row_end(out);
	}
}

static void print_view(FILE *out, const struct view *view)
{
	static const char *const heads[] = {"Device", "Profile", "Attribute", "Value", NULL};

	if (view->is_invalid) {
		html_paragraph(out, "The settings are invalid, so that programs have no device: %s",
			       view->why);
		return;
	}
	html_table(out, "Attributes that a profile sets", heads);
	print_attributes(out, "all others", &view->general);
	for (unsigned int i = 0; i < view->count; i++) {
		if (view->entries[i].has_profile)
			print_attributes(out, view->entries[i].name, &view->entries[i].profile);
	}
	html_table_end(out);
}

void section_profile(FILE *out, const struct bug_report *report)
{
	static const char *const names[] = {VIEW_DEVICES_ENV,	VIEW_PROFILE_ENV,
					    "USRDMA_TRANSPORT", "USRDMA_CM_TIMEOUT",
					    "USRDMA_SHARE",	"USRDMA_LOG",
					    "USRDMA_FAULT",	"USRDMA_FAULTS"};
	static struct view view;
	bool has_settings = false;

	(void)report;
	html_section(out, "profile", "Profile and environment");
	html_list(out);
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		const char *value = getenv(names[i]);

		if (value)
			html_entry(out, names[i], value);
		has_settings |= value != NULL;
	}
	if (!has_settings)
		html_entry(out, "environment", "no variable of usrdma is set");
	html_list_end(out);
	html_paragraph(
		out,
		"These are the variables of the command that created the report; those of the failed program can differ.");
	(void)view_parse(&view, getenv(VIEW_DEVICES_ENV), getenv(VIEW_PROFILE_ENV));
	if (getenv(VIEW_DEVICES_ENV) || getenv(VIEW_PROFILE_ENV))
		print_view(out, &view);
	html_section_end(out);
}
