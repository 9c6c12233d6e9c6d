/* SPDX-License-Identifier: BSD-2-Clause */
#include "rsocket/config.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/log.h"
#include "base/syscalls.h"
#include "rsocket/stream_proto.h"

static const struct rsock_config defaults = {
	.sizes =
		{
			.receive_bytes = 1u << 17,
			.send_bytes = 1u << 17,
			.sq_entries = 384,
			.rq_entries = 384,
			.inline_bytes = 64,
			.iomap_entries = 0,
		},
	.polling_us = 10,
	.wake_up_ms = 500,
};

/* Reads the number at the beginning of a file. */
static bool read_number(const char *dir, const char *name, unsigned long *value)
{
	char path[PATH_MAX];
	char line[32];
	int cancel_state;
	bool is_read;
	FILE *file;

	if (snprintf(path, sizeof(path), "%s/%s", dir, name) >= (int)sizeof(path))
		return false;
	cancel_state = cancel_disable();
	file = fopen(path, "re");
	is_read = file && fgets(line, sizeof(line), file);
	if (file)
		fclose(file);
	cancel_restore(cancel_state);
	if (!is_read)
		return false;
	errno = 0;
	*value = strtoul(line, NULL, 10);
	if (line[0] >= '0' && line[0] <= '9' && !errno)
		return true;
	log_warn("%s does not contain a number", path);
	return false;
}

/*
 * The number of a file, limited to the range from least to most. If the file has no number, `value`
 * is returned.
 */
static uint32_t limited(const char *dir, const char *name, uint32_t value, uint32_t least,
			uint32_t most)
{
	unsigned long number;

	if (!read_number(dir, name, &number))
		return value;
	if (number < least)
		return least;
	return number > most ? most : (uint32_t)number;
}

void rsock_config_read(const char *dir, struct rsock_config *config)
{
	struct rsock_sizes *sizes = &config->sizes;

	*config = defaults;
	sizes->receive_bytes = limited(dir, "mem_default", sizes->receive_bytes, RSOCK_RING_MIN,
				       RSOCK_RING_MAX);
	/* A ring consists of two halves, so its size is even. */
	sizes->receive_bytes &= ~1u;
	sizes->send_bytes = limited(dir, "wmem_default", sizes->send_bytes, RSOCK_RING_MIN,
				    RSOCK_RING_MAX);
	sizes->sq_entries = (uint16_t)limited(dir, "sqsize_default", sizes->sq_entries,
					      RSOCK_QUEUE_MIN, RSOCK_QUEUE_MAX);
	sizes->rq_entries = (uint16_t)limited(dir, "rqsize_default", sizes->rq_entries,
					      RSOCK_QUEUE_MIN, RSOCK_QUEUE_MAX);
	sizes->inline_bytes = (uint16_t)limited(dir, "inline_default", sizes->inline_bytes, 0,
						RSOCK_INLINE_MAX);
	sizes->iomap_entries = proto_iomap_round(limited(dir, "iomap_size", 0, 0, UINT16_MAX));
	config->polling_us = limited(dir, "polling_time", config->polling_us, 0, RSOCK_POLL_US_MAX);
	config->wake_up_ms = limited(dir, "wake_up_interval", config->wake_up_ms,
				     RSOCK_WAKE_UP_MS_MIN, RSOCK_WAKE_UP_MS_MAX);
}

static struct rsock_config process_config;
static pthread_once_t config_once = PTHREAD_ONCE_INIT;

static void read_once(void)
{
	rsock_config_read(RSOCK_CONFIG_DIR, &process_config);
}

const struct rsock_config *rsock_config(void)
{
	pthread_once(&config_once, read_once);
	return &process_config;
}
