/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <uv.h>

#include "base/log.h"
#include "base/probe.h"
#include "config.h"
#include "daemon/activation.h"
#include "daemon/cma.h"
#include "daemon/fault_user.h"
#include "daemon/guardian.h"
#include "daemon/neigh_wait.h"
#include "daemon/netdev.h"
#include "daemon/server.h"
#include "daemon/start.h"
#include "daemon/user_log.h"
#include "ipc/msg.h"

#define IDLE_SECONDS_DEFAULT 10
#define IDLE_SECONDS_MAX     (365l * 24 * 3600)

static const char help[] =
	"Usage: usrdmad [OPTION]...\n"
	"\n"
	"The daemon of the RDMA libraries of usrdma: it assigns queue pair numbers, establishes\n"
	"connections and connects processes with each other. The first program starts it, and it\n"
	"ends after the last program. Each network namespace has one daemon. A daemon of root serves\n"
	"all users; a daemon of another user serves this user only.\n"
	"\n"
	"      --foreground      stay in the foreground and log to stderr\n"
	"      --idle-seconds N  end after N seconds without clients; 0: never (default 10, or 600 after the\n"
	"                        last failure, so that usrdma why can explain it)\n"
	"      --ready-fd N      do not fork; write a zero byte to descriptor N when clients can\n"
	"                        connect (the libraries use this option)\n"
	"      --help            print this and exit\n"
	"      --version         print the version and exit\n"
	"\n"
	"USRDMA_LOG=error|warn|info|debug|trace sets the log level of a foreground daemon.\n";

struct options {
	bool is_foreground;
	int ready_fd; /* -1: none */
	uint64_t idle_ms;
	bool has_idle; /* idle_ms is from the command line */
};

/* The connection managers of the daemon, one for each transport. */
static const struct cm_ops *const connection_managers[] = {&cma_ib_ops, NULL};

/* The state of the daemon. */
struct daemon {
	uv_loop_t loop;
	uv_signal_t sigterm;
	uv_signal_t sigint;
	struct server server;
};

/* Parses a number from 0 to max. Returns -1 after a message on stderr if the text is invalid. */
static long main_parse_number(const char *text, long max)
{
	char *end;
	long number;

	errno = 0;
	number = strtol(text, &end, 10);
	if (!errno && *text >= '0' && *text <= '9' && !*end && number <= max)
		return number;
	fprintf(stderr, "usrdmad: invalid number '%s' (0 to %ld)\n", text, max);
	return -1;
}

/* Returns the exit status, or -1 if the daemon is to be started. */
static int main_parse(int argc, char **argv, struct options *options)
{
	static const struct option table[] = {
		{"foreground", no_argument, NULL, 'f'},
		{"idle-seconds", required_argument, NULL, 'i'},
		{"ready-fd", required_argument, NULL, 'r'},
		{"help", no_argument, NULL, 'h'},
		{"version", no_argument, NULL, 'v'},
		{NULL, 0, NULL, 0},
	};
	int option;
	long number;

	while ((option = getopt_long(argc, argv, "", table, NULL)) != -1) {
		switch (option) {
		case 'f':
			options->is_foreground = true;
			break;
		case 'i':
			number = main_parse_number(optarg, IDLE_SECONDS_MAX);
			if (number < 0)
				return EXIT_FAILURE;
			options->idle_ms = (uint64_t)number * 1000;
			options->has_idle = true;
			break;
		case 'r':
			number = main_parse_number(optarg, INT_MAX);
			if (number < 0)
				return EXIT_FAILURE;
			options->ready_fd = (int)number;
			break;
		case 'h':
			fputs(help, stdout);
			return EXIT_SUCCESS;
		case 'v':
			puts("usrdmad " USRDMA_VERSION);
			return EXIT_SUCCESS;
		default:
			fputs("Try 'usrdmad --help'.\n", stderr);
			return EXIT_FAILURE;
		}
	}
	if (optind == argc)
		return -1;
	fprintf(stderr, "usrdmad: unexpected argument '%s'; try 'usrdmad --help'\n", argv[optind]);
	return EXIT_FAILURE;
}

static void on_signal(uv_signal_t *handle, int signo)
{
	log_info("signal %d: the daemon exits", signo);
	uv_stop(handle->loop);
}

static void on_device_change(void *ctx, uint32_t dev_id, uint32_t what)
{
	struct server *server = ctx;

	/* netdev_open() reports the existing devices before the CM is open. */
	if (!server->cma)
		return;
	log_info("device %u: change %u", dev_id, what);
	/* First, because a notified process may send from a new address at once. */
	roce_port_set_sources(&server->port);
	server_notify_device(server, FAULT_EVERY_USER, dev_id, what);
}

static int signals_start(struct daemon *daemon)
{
	int error = uv_signal_init(&daemon->loop, &daemon->sigterm);

	if (!error)
		error = uv_signal_init(&daemon->loop, &daemon->sigint);
	if (!error)
		error = uv_signal_start(&daemon->sigterm, on_signal, SIGTERM);
	if (!error)
		error = uv_signal_start(&daemon->sigint, on_signal, SIGINT);
	return error;
}

static void close_handle(uv_handle_t *handle, void *ctx)
{
	(void)ctx;
	if (!uv_is_closing(handle))
		uv_close(handle, NULL);
}

/*
 * Serves clients until the daemon is idle or gets a signal. Reports to report_fd when it is ready
 * for clients. 0 or -errno.
 */
static int daemon_run(struct daemon *daemon, int listen_fd, const struct options *options,
		      int report_fd)
{
	struct server *server = &daemon->server;
	int error = uv_loop_init(&daemon->loop);

	if (error)
		return error;
	error = user_log_open(&daemon->loop);
	if (error)
		goto err_signals;
	error = signals_start(daemon);
	if (error)
		goto err_signals;
	error = netdev_open(&daemon->loop, on_device_change, server);
	if (error)
		goto err_signals;
	error = neigh_waits_open(&daemon->loop);
	if (error)
		goto err_waits;
	server->cma = cma_open(&daemon->loop, connection_managers);
	if (!server->cma) {
		error = -ENOMEM;
		goto err_cma;
	}
	cma_set_qpn_check(server->cma, server_check_qpn, server);
	cma_set_qpn_known(server->cma, server_knows_qpn, server);
	cma_set_failure_sink(server->cma, server_store_failure, server);
	server->keeps_failures = !options->has_idle;
	error = server_start(server, &daemon->loop, listen_fd, options->idle_ms);
	if (error)
		goto err_server;

	start_report(report_fd, EXIT_SUCCESS);
	log_info("serving %s", server->uid == 0 ? "every user" : "one user and root");
	uv_run(&daemon->loop, UV_RUN_DEFAULT);

	server_end_sessions(server);
	server_stop(server);
err_server:
	cma_close(server->cma);
	server->cma = NULL;
err_cma:
	neigh_waits_close();
err_waits:
	netdev_close();
err_signals:
	user_log_close();
	/*
	 * Closes the remaining handles: those of the signals and, after an error, those that were
	 * initialised before it.
	 */
	uv_walk(&daemon->loop, close_handle, NULL);
	while (uv_run(&daemon->loop, UV_RUN_DEFAULT) != 0)
		;
	uv_loop_close(&daemon->loop);
	return error;
}

/* The socket with the daemon's name: that of a service manager, or a new one. Or -errno. */
static int main_listen(void)
{
	int fd = activation_socket();
	int error;

	if (fd == -ENOENT)
		return server_bind();
	error = fd < 0 ? fd : server_adopt(fd);
	if (error == -EINVAL)
		log_user("the service manager passed another descriptor than one socket with "
			 "ListenSequentialPacket=@" IPC_NAME);
	return error ? error : fd;
}

/*
 * Binds the socket name, serves, and closes the name last: when another daemon can bind the name,
 * this daemon has released everything else.
 */
static int main_serve(const struct options *options, int report_fd)
{
	static struct daemon daemon;
	int listen_fd = main_listen();
	int error;

	probe_init();
	if (listen_fd == -EADDRINUSE && !options->is_foreground) {
		start_report(report_fd, EXIT_SUCCESS);
		return EXIT_SUCCESS;
	}
	if (listen_fd == -EADDRINUSE) {
		log_user("another usrdmad serves this network namespace already");
		return EXIT_FAILURE;
	}
	error = listen_fd;
	if (listen_fd >= 0) {
		int guard_error = guardian_start();

		if (guard_error)
			log_warn("fault rules cannot stop programs: %s", strerror(-guard_error));
		error = daemon_run(&daemon, listen_fd, options, report_fd);
		guardian_stop();
		close(listen_fd);
	}
	if (!error)
		return EXIT_SUCCESS;
	errno = -error;
	log_user("usrdmad cannot start: %m");
	start_report(report_fd, EXIT_FAILURE);
	return EXIT_FAILURE;
}

int main(int argc, char **argv)
{
	struct options options = {.ready_fd = -1, .idle_ms = IDLE_SECONDS_DEFAULT * 1000};
	int report_fd = -1;
	int status = main_parse(argc, argv, &options);

	if (status >= 0)
		return status;
	start_clean();
	if (options.is_foreground) {
		if (!getenv("USRDMA_LOG"))
			log_set_level(LOG_LEVEL_INFO);
		return main_serve(&options, report_fd);
	}
	report_fd = options.ready_fd < 0 ? start_detach() : start_attach(options.ready_fd);
	if (report_fd < 0) {
		errno = -report_fd;
		log_user("usrdmad cannot start: %m");
		return EXIT_FAILURE;
	}
	return main_serve(&options, report_fd);
}
