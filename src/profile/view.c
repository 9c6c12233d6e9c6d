/* SPDX-License-Identifier: BSD-2-Clause */
#include "profile/view.h"

#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"

#define SEPARATORS ", \t\n"
#define ONLY	   "only"

/*
 * A GUID of a hardware address has the constant ff:fe here (RFC 4291 App. A), so that the result is
 * not another interface's.
 */
#define RAIL_GUID_SHIFT 24
/* Interface indices are smaller; the largest device index is below 2^31. */
#define RAIL_INDEX_SHIFT 24

static int view_fail(struct view *view, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

static int view_fail(struct view *view, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(view->why, sizeof(view->why), format, args);
	va_end(args);
	return -EINVAL;
}

/*
 * Returns the next part of a list and its length, and moves *text behind it. NULL: no more parts.
 */
static const char *view_next_part(const char **text, size_t *length)
{
	const char *part = *text + strspn(*text, SEPARATORS);

	*length = strcspn(part, SEPARATORS);
	*text = part + *length;
	return *length ? part : NULL;
}

static bool is_name_char(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
	       c == '_' || c == '-' || c == '.';
}

static bool is_device_name(const char *name, size_t length)
{
	if (!length || length >= VIEW_NAME_BYTES || *name == '.')
		return false;
	for (size_t i = 0; i < length; i++) {
		if (!is_name_char(name[i]))
			return false;
	}
	return true;
}

static bool is_interface_name(const char *name, size_t length)
{
	return length && length < VIEW_IF_BYTES && !memchr(name, '/', length) && *name != '.';
}

/* The entry with this device name, or NULL. */
static const struct view_entry *find_name(const struct view *view, const char *name)
{
	for (unsigned int i = 0; i < view->count; i++) {
		if (!strcmp(view->entries[i].name, name))
			return &view->entries[i];
	}
	return NULL;
}

static int parse_profile_name(struct view *view, const char *name, size_t length,
			      struct profile *profile)
{
	char names[VIEW_WHY_BYTES / 2] = "";

	if (!profile_by_name(name, length, profile))
		return 0;
	for (size_t i = 0; profile_name(i); i++) {
		size_t used = strlen(names);

		snprintf(names + used, sizeof(names) - used, "%s%s", used ? ", " : "",
			 profile_name(i));
	}
	return view_fail(view, "unknown profile '%.*s' (one of %s)",
			 (int)(length < 40 ? length : 40), name, names);
}

/* Parses NAME=INTERFACE[:PROFILE]. */
static int parse_entry(struct view *view, const char *part, size_t length)
{
	struct view_entry *entry = &view->entries[view->count];
	const char *end = part + length;
	const char *interface = memchr(part, '=', length);
	const char *profile;
	int shown = (int)(length < 80 ? length : 80);

	if (!interface)
		return view_fail(view,
				 "invalid device '%.*s' (NAME=INTERFACE or NAME=INTERFACE:PROFILE)",
				 shown, part);
	if (view->count == VIEW_DEVICES_MAX)
		return view_fail(view, "too many devices (at most %d)", VIEW_DEVICES_MAX);
	memset(entry, 0, sizeof(*entry));
	if (!is_device_name(part, (size_t)(interface - part)))
		return view_fail(
			view, "invalid name of a device in '%.*s' (1 to %d letters, digits, _ - .)",
			shown, part, VIEW_NAME_BYTES - 1);
	memcpy(entry->name, part, (size_t)(interface - part));
	if (find_name(view, entry->name))
		return view_fail(view, "two devices have the name '%s'", entry->name);
	interface++;
	profile = memchr(interface, ':', (size_t)(end - interface));
	if (!is_interface_name(interface, (size_t)((profile ? profile : end) - interface)))
		return view_fail(view,
				 "invalid name of an interface in '%.*s' (1 to %d characters)",
				 shown, part, VIEW_IF_BYTES - 1);
	memcpy(entry->interface, interface, (size_t)((profile ? profile : end) - interface));
	for (unsigned int i = 0; i < view->count; i++)
		entry->rail += !strcmp(view->entries[i].interface, entry->interface);
	entry->has_profile = profile;
	view->count++;
	return profile ? parse_profile_name(view, profile + 1, (size_t)(end - profile - 1),
					    &entry->profile) :
			 0;
}

static int parse_devices(struct view *view, const char *text)
{
	const char *part;
	size_t length;
	int ret = 0;

	while (!ret && (part = view_next_part(&text, &length))) {
		if (length == strlen(ONLY) && !memcmp(part, ONLY, length))
			view->is_only = true;
		else
			ret = parse_entry(view, part, length);
	}
	return ret;
}

static int parse_profile(struct view *view, const char *text)
{
	const char *part;
	size_t length;
	int ret = 0;

	for (bool is_first = true; !ret && (part = view_next_part(&text, &length));
	     is_first = false) {
		int shown = (int)(length < 80 ? length : 80);

		if (is_first && !memchr(part, '=', length)) {
			ret = parse_profile_name(view, part, length, &view->general);
			continue;
		}
		ret = profile_set(&view->general, part, length);
		if (ret == -ENOENT)
			ret = view_fail(view, "unknown attribute of a device in '%.*s'", shown,
					part);
		else if (ret)
			ret = view_fail(view, "invalid value of an attribute in '%.*s'", shown,
					part);
	}
	return ret;
}

int view_parse(struct view *view, const char *devices, const char *profile)
{
	int ret;

	memset(view, 0, sizeof(*view));
	ret = parse_profile_name(view, "usrdma", strlen("usrdma"), &view->general);
	if (!ret && profile)
		ret = parse_profile(view, profile);
	if (!ret && devices)
		ret = parse_devices(view, devices);
	view->is_invalid = ret;
	return ret;
}

static struct view process_view;
static pthread_once_t process_view_once = PTHREAD_ONCE_INIT;

static void process_view_read(void)
{
	view_parse(&process_view, secure_getenv(VIEW_DEVICES_ENV), secure_getenv(VIEW_PROFILE_ENV));
}

const struct view *view_of_process(void)
{
	pthread_once(&process_view_once, process_view_read);
	return &process_view;
}

static void device_of_entry(const struct view *view, unsigned int at, struct view_device *device)
{
	const struct view_entry *entry = &view->entries[at];

	device->name = entry->name;
	device->order = at;
	device->rail = entry->rail;
	device->profile = entry->has_profile ? &entry->profile : &view->general;
}

bool view_next(const struct view *view, const char *interface, unsigned int *cursor,
	       struct view_device *device)
{
	bool is_first = *cursor == 0;

	for (unsigned int i = *cursor; i < view->count && !view->is_invalid; i++) {
		if (strcmp(view->entries[i].interface, interface) != 0)
			continue;
		device_of_entry(view, i, device);
		*cursor = i + 1;
		return true;
	}
	*cursor = VIEW_DEVICES_MAX;
	if (!is_first || view->is_only || view->is_invalid || find_name(view, interface))
		return false;
	device->name = interface;
	device->order = VIEW_ORDER_UNNAMED;
	device->rail = 0;
	device->profile = &view->general;
	return true;
}

uint64_t view_guid(uint64_t node_guid, unsigned int rail)
{
	return node_guid ^ (uint64_t)rail << RAIL_GUID_SHIFT;
}

uint32_t view_index(uint32_t ifindex, unsigned int rail)
{
	return ifindex | rail << RAIL_INDEX_SHIFT;
}
