/* SPDX-License-Identifier: BSD-2-Clause */
#include "daemon.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* Attempts to read the page while the daemon does not write it. */
#define READ_ATTEMPTS 1000

bool fault_daemon_open(struct ipc_client *client)
{
	int error = ipc_client_open(client, IPC_ROLE_CONTROL);

	if (!error)
		return true;
	fprintf(stderr, "usrdma: no daemon to ask: %s\n", strerror(-error));
	return false;
}

/* Copies the rules if the daemon does not change them meantime. */
static bool copy_page(const struct probe_page *page, char *text, struct fault_count *counts)
{
	uint32_t generation = atomic_load(&page->generation);
	uint32_t bytes = atomic_load(&page->rules_bytes);

	if (generation % 2 || bytes >= PROBE_RULES_MAX)
		return false;
	memcpy(text, page->rules, bytes);
	text[bytes] = '\0';
	for (int i = 0; counts && i < FAULT_RULES_MAX; i++)
		counts[i] = (struct fault_count){
			.passes = atomic_load(&page->counts[i].passes),
			.firings = atomic_load(&page->counts[i].firings),
			.failures = atomic_load(&page->counts[i].failures),
			.error = (int)atomic_load(&page->counts[i].error),
		};
	atomic_thread_fence(memory_order_seq_cst);
	return atomic_load(&page->generation) == generation;
}

char *fault_daemon_rules(const struct ipc_client *client,
			 struct fault_count counts[FAULT_RULES_MAX])
{
	struct probe_page *page = mmap(NULL, sizeof(*page), PROT_READ, MAP_SHARED, client->page_fd,
				       0);
	char *text = malloc(PROBE_RULES_MAX);
	bool is_read = false;

	if (page == MAP_FAILED) {
		fprintf(stderr, "usrdma: the rules cannot be read: %s\n", strerror(errno));
		free(text);
		return NULL;
	}
	for (int i = 0; text && !is_read && i < READ_ATTEMPTS; i++)
		is_read = copy_page(page, text, counts);
	munmap(page, sizeof(*page));
	if (is_read)
		return text;
	fputs("usrdma: the rules cannot be read\n", stderr);
	free(text);
	return NULL;
}

/* A memfd with the text that cannot change; -1 and errno. */
static int sealed_file(const char *text)
{
	size_t bytes = strlen(text);
	int fd = memfd_create("usrdma-faults", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	if (fd < 0)
		return -1;
	if (write(fd, text, bytes) == (ssize_t)bytes &&
	    fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE) == 0)
		return fd;
	close(fd);
	return -1;
}

static const char *refusal(int error)
{
	switch (error) {
	case -EOPNOTSUPP:
		return "it may not send signals to processes of this user: start usrdmad with CAP_KILL, or without "
		       "rules for process";
	case -EDQUOT:
		return "it has the rules of as many users as it can store";
	default:
		return strerror(-error);
	}
}

bool fault_daemon_set(struct ipc_client *client, const char *text, uint32_t uid)
{
	struct ipc_fault_set request = {.hdr.type = IPC_FAULT_SET, .uid = uid};
	struct ipc_hdr reply;
	int fd = sealed_file(text), error;

	if (fd < 0) {
		fprintf(stderr, "usrdma: the rules cannot be passed: %s\n", strerror(errno));
		return false;
	}
	error = ipc_call(client, &request, sizeof(request), &fd, 1, &reply, sizeof(reply));
	close(fd);
	if (error)
		fprintf(stderr, "usrdma: the daemon refuses the rules: %s\n", refusal(error));
	return !error;
}
