/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rcopy: copies a file to another host, over an rsocket.
 *
 * The client sends the commands OPEN, WRITE and CLOSE. The server responds to each command with an
 * errno. A message is a struct header, followed by data of the length in the header. The content of
 * the file follows the WRITE message. Numbers are in host byte order, as in rdma-core's program of
 * this name: both hosts must have the same byte order.
 *
 * The server does not authenticate clients: any client can write all files that the server's user
 * can write.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <netdb.h>
#include <netinet/in.h>
#include <arpa/inet.h>
#include <rdma/rsocket.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tool.h"

#define PATH_BYTES  4096
#define CHUNK_BYTES (1 << 20)

enum command { COMMAND_OPEN = 1, COMMAND_CLOSE = 2, COMMAND_WRITE = 3, COMMAND_ANSWER = 0x80 };

struct header {
	uint8_t version;
	uint8_t command;
	uint16_t length; /* bytes of the message, including this header */
	uint32_t data;	 /* OPEN: mode of the file; response: errno */
	uint64_t id;	 /* 0 */
};

/* OPEN: the path, padded with zeros to a multiple of 8 bytes. */
struct open_message {
	struct header header;
	char path[PATH_BYTES];
};

struct write_message {
	struct header header;
	uint64_t size_bytes; /* number of bytes that follow the message */
};

static const char *port = "7427";
static uint8_t chunk[CHUNK_BYTES];

/* ---- Bytes ---- */

static int send_all(int fd, const void *data, size_t length)
{
	const uint8_t *bytes = data;
	ssize_t moved;

	while (length > 0) {
		moved = rsend(fd, bytes, length, 0);
		if (moved < 0)
			return tool_fail("rsend");
		bytes += moved;
		length -= (size_t)moved;
	}
	return 0;
}

/* Returns 0; 1 if the peer closed the connection before the first byte; or -1. */
static int receive_all(int fd, void *data, size_t length)
{
	uint8_t *bytes = data;
	size_t left = length;
	ssize_t moved;

	while (left > 0) {
		moved = rrecv(fd, bytes, left, 0);
		if (moved < 0)
			return tool_fail("rrecv");
		if (moved == 0)
			return left == length ? 1 : -1;
		bytes += moved;
		left -= (size_t)moved;
	}
	return 0;
}

/* ---- The client ---- */

/* Waits for the response to a command. Returns 0, or the errno in the response. */
static int take_answer(int fd, uint8_t command)
{
	struct header response;

	if (receive_all(fd, &response, sizeof(response))) {
		fprintf(stderr, "the server went away\n");
		return ECONNRESET;
	}
	if (response.command != (command | COMMAND_ANSWER) || response.length != sizeof(response)) {
		fprintf(stderr, "not an answer to what was asked\n");
		return EPROTO;
	}
	return (int)response.data;
}

static int ask_open(int fd, const char *path, uint32_t mode)
{
	struct open_message message = {.header = {.command = COMMAND_OPEN, .data = mode}};
	size_t length = strlen(path) + 1;

	if (length > sizeof(message.path))
		return ENAMETOOLONG;
	memcpy(message.path, path, length);
	length = sizeof(message.header) + ((length + 7) & ~7ul);
	message.header.length = (uint16_t)length;
	return send_all(fd, &message, length) ? EIO : take_answer(fd, COMMAND_OPEN);
}

static int ask_write(int fd, int file, uint64_t size_bytes)
{
	struct write_message message = {.header = {.command = COMMAND_WRITE,
						   .length = sizeof(message)},
					.size_bytes = size_bytes};
	uint64_t left = size_bytes;
	ssize_t length;

	if (send_all(fd, &message, sizeof(message)))
		return EIO;
	while (left > 0) {
		length = read(file, chunk, left < CHUNK_BYTES ? (size_t)left : CHUNK_BYTES);
		if (length <= 0) {
			fprintf(stderr, "the file got shorter while it was read\n");
			return EIO;
		}
		if (send_all(fd, chunk, (size_t)length))
			return EIO;
		left -= (uint64_t)length;
	}
	return take_answer(fd, COMMAND_WRITE);
}

static int ask_close(int fd)
{
	struct header message = {.command = COMMAND_CLOSE, .length = sizeof(message)};

	return send_all(fd, &message, sizeof(message)) ? EIO : take_answer(fd, COMMAND_CLOSE);
}

static int copy(int fd, int file, const char *path)
{
	uint64_t began_ns = tool_now_ns();
	struct stat status;
	double seconds;
	int error;

	if (fstat(file, &status)) {
		tool_fail("stat");
		return errno;
	}
	error = ask_open(fd, path, status.st_mode);
	if (error)
		return error;
	printf("transferring");
	fflush(stdout);
	error = status.st_size ? ask_write(fd, file, (uint64_t)status.st_size) : 0;
	if (error)
		return error;
	printf("...closing...");
	fflush(stdout);
	error = ask_close(fd);
	if (error)
		return error;
	seconds = (double)(tool_now_ns() - began_ns) / 1e9;
	printf("done\n%lld bytes in %.2f seconds = %.2f Gb/sec\n", (long long)status.st_size,
	       seconds, (double)status.st_size * 8 / seconds / 1e9);
	return 0;
}

static int connect_to(const char *server)
{
	struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
	struct addrinfo *found;
	int error = getaddrinfo(server, port, &hints, &found);
	int fd;

	if (error) {
		printf("getaddrinfo failed: %s\n", gai_strerror(error));
		return -1;
	}
	fd = rsocket(found->ai_family, SOCK_STREAM, 0);
	if (fd < 0) {
		perror("rsocket failed");
	} else if (rconnect(fd, found->ai_addr, found->ai_addrlen)) {
		perror("rconnect failed");
		rclose(fd);
		fd = -1;
	}
	freeaddrinfo(found);
	return fd;
}

/* destination: "server" or "server:path"; this function replaces the colon by a NUL. */
static int client(const char *source, char *destination)
{
	char *path = strchr(destination, ':');
	int file, fd, error;

	if (path)
		*path++ = '\0';
	file = open(source, O_RDONLY);
	if (file < 0) {
		tool_fail(source);
		return errno;
	}
	fd = connect_to(destination);
	if (fd < 0) {
		close(file);
		return EXIT_FAILURE;
	}
	printf("opening...");
	fflush(stdout);
	error = copy(fd, file, path && *path ? path : source);
	if (error)
		printf("failed: %s\n", strerror(error));
	rshutdown(fd, SHUT_RDWR);
	rclose(fd);
	close(file);
	return error;
}

/* ---- The server ---- */

static int response(int fd, uint8_t command, int error)
{
	struct header message = {.command = command | COMMAND_ANSWER,
				 .length = sizeof(message),
				 .data = (uint32_t)error};

	return send_all(fd, &message, sizeof(message));
}

/* Receives the rest of an OPEN message and opens the file. Returns its descriptor, or -1. */
static int serve_open(int fd, const struct header *header)
{
	size_t length = header->length - sizeof(*header);
	char path[PATH_BYTES + 1];
	int file;

	if (length == 0 || length > PATH_BYTES || receive_all(fd, path, length))
		return -1;
	path[length] = '\0';
	printf("opening: %s, ", path);
	fflush(stdout);
	file = open(path, O_RDWR | O_CREAT | O_TRUNC, header->data & 0777);
	if (file < 0)
		printf("unable to open destination file\n");
	if (response(fd, COMMAND_OPEN, file < 0 ? errno : 0) && file >= 0) {
		close(file);
		return -1;
	}
	return file;
}

/* Receives the rest of a WRITE message and the data after it. */
static int serve_write(int fd, int file, const struct header *header)
{
	uint64_t size_bytes, left;
	size_t length;

	if (header->length != sizeof(struct write_message) ||
	    receive_all(fd, &size_bytes, sizeof(size_bytes)))
		return -1;
	printf("transferring");
	fflush(stdout);
	for (left = size_bytes; left > 0; left -= length) {
		length = left < CHUNK_BYTES ? (size_t)left : CHUNK_BYTES;
		if (receive_all(fd, chunk, length))
			return -1;
		if (write(file, chunk, length) != (ssize_t)length) {
			response(fd, COMMAND_WRITE, errno);
			return tool_fail("write");
		}
	}
	printf("...%llu bytes...", (unsigned long long)size_bytes);
	fflush(stdout);
	return response(fd, COMMAND_WRITE, 0);
}

/* Processes one message. 0: the connection continues. */
static int serve_message(int fd, int *file, const struct header *header)
{
	switch (header->command) {
	case COMMAND_OPEN:
		if (*file >= 0 || header->length <= sizeof(*header))
			return -1;
		*file = serve_open(fd, header);
		return *file < 0 ? -1 : 0;
	case COMMAND_WRITE:
		return *file < 0 ? -1 : serve_write(fd, *file, header);
	case COMMAND_CLOSE:
		if (*file < 0)
			return -1;
		printf("closing...");
		close(*file);
		*file = -1;
		printf("done\n");
		return response(fd, COMMAND_CLOSE, 0);
	default:
		printf("unknown command %#x\n", header->command);
		return -1;
	}
}

static void serve(int fd)
{
	struct header header;
	int file = -1;

	while (!receive_all(fd, &header, sizeof(header))) {
		if (header.version != 0 || serve_message(fd, &file, &header))
			break;
	}
	if (file >= 0)
		close(file);
	rshutdown(fd, SHUT_RDWR);
	rclose(fd);
}

static int listen_here(void)
{
	struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE};
	struct addrinfo *found;
	int error = getaddrinfo(NULL, port, &hints, &found);
	int is_on = 1;
	int fd;

	if (error) {
		printf("getaddrinfo failed: %s\n", gai_strerror(error));
		return -1;
	}
	fd = rsocket(found->ai_family, SOCK_STREAM, 0);
	if (fd < 0)
		perror("rsocket failed");
	else if (rsetsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &is_on, sizeof(is_on)))
		perror("rsetsockopt failed");
	else if (rbind(fd, found->ai_addr, found->ai_addrlen))
		perror("rbind failed");
	else if (rlisten(fd, 1))
		perror("rlisten failed");
	else
		goto out;
	if (fd >= 0)
		rclose(fd);
	fd = -1;
out:
	freeaddrinfo(found);
	return fd;
}

static int server(void)
{
	struct sockaddr_storage peer;
	char name[NI_MAXHOST];
	int listener = listen_here();
	socklen_t length;
	int fd;

	if (listener < 0)
		return EXIT_FAILURE;
	for (;;) {
		printf("waiting for connection...");
		fflush(stdout);
		length = sizeof(peer);
		fd = raccept(listener, (struct sockaddr *)&peer, &length);
		if (fd < 0) {
			perror("raccept failed");
			return EXIT_FAILURE;
		}
		if (getnameinfo((struct sockaddr *)&peer, length, name, sizeof(name), NULL, 0,
				NI_NUMERICHOST))
			snprintf(name, sizeof(name), "unknown");
		printf("client: %s\n", name);
		serve(fd);
	}
}

/* ---- Options ---- */

static int usage(const char *program)
{
	printf("usage 1: %s [options]\n", program);
	printf("\t     starts the server application\n");
	printf("\t[-p  port_number]\n");
	printf("usage 2: %s source server[:destination] [options]\n", program);
	printf("\t     source - file name and path\n");
	printf("\t     server - name or address\n");
	printf("\t     destination - file name and path\n");
	printf("\t[-p  port_number]\n");
	return EXIT_FAILURE;
}

int main(int argc, char **argv)
{
	int option;

	while ((option = getopt(argc, argv, "p:")) != -1) {
		if (option != 'p')
			return usage(argv[0]);
		port = optarg;
	}
	if (optind == argc)
		return server();
	if (argc - optind != 2)
		return usage(argv[0]);
	return client(argv[optind], argv[optind + 1]);
}
