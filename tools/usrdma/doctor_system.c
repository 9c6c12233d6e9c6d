/* SPDX-License-Identifier: BSD-2-Clause */
/* What the kernel and the settings of this machine permit. */
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "doctor.h"
#include "port_holder.h"
#include "report.h"

/* The daemon has a socket for each of its slots, and each process needs one for each peer. */
#define FILES_DAEMON	   2048
#define FILES_DAEMON_LEAST 768
#define FILES_PROGRAM	   256

#define LINE_BYTES 512

/*
 * Writes the names of the kernel's RDMA devices into text, separated by spaces. Returns their
 * number.
 */
static int kernel_devices(char *text, size_t size)
{
	DIR *dir = opendir("/sys/class/infiniband");
	const struct dirent *entry;
	size_t used = 0;
	int count = 0;

	text[0] = '\0';
	while (dir && (entry = readdir(dir))) {
		int n;

		if (entry->d_name[0] == '.')
			continue;
		count++;
		n = snprintf(text + used, size - used, "%s%s", used ? " " : "", entry->d_name);
		used = n > 0 && (size_t)n < size - used ? used + (size_t)n : used;
	}
	if (dir)
		closedir(dir);
	return count;
}

void doctor_check_port(struct doctor *doctor)
{
	const char *state = text_of(json_object_object_get(doctor->report, "daemon"), "roce_port");
	char devices[LINE_BYTES], holder[LINE_BYTES];

	if (strcmp(state, "open") == 0) {
		doctor_say(doctor, DOCTOR_OK, NULL, "UDP port %d: the daemon has it", ROCE_PORT);
		return;
	}
	if (strcmp(state, strerror(EMFILE)) == 0) {
		doctor_say(
			doctor, DOCTOR_PROBLEM,
			"stop the programs, so that the daemon ends, and start them with a larger limit of open files (ulimit -Hn)",
			"UDP port %d: the daemon cannot open a socket for each process: %s. Other hosts cannot be reached",
			ROCE_PORT, state);
		return;
	}
	if (strcmp(state, strerror(ENOPROTOOPT)) == 0) {
		doctor_say(
			doctor, DOCTOR_PROBLEM,
			"start the container with a runtime that uses the kernel of the host (runc, crun)",
			"UDP port %d: the kernel refuses SO_ATTACH_REUSEPORT_CBPF, as gVisor does: %s. Processes of this "
			"host reach each other; other hosts cannot be reached",
			ROCE_PORT, state);
		return;
	}
	if (kernel_devices(devices, sizeof(devices)) && access("/sys/module/rdma_rxe", F_OK) == 0) {
		doctor_say(
			doctor, DOCTOR_PROBLEM, "rdma link show; rdma link delete NAME",
			"UDP port %d: %s. The kernel's rxe may have it (RDMA devices: %s). Other hosts "
			"cannot be reached",
			ROCE_PORT, state, devices);
		return;
	}
	if (!port_holder_describe(holder, sizeof(holder)))
		snprintf(holder, sizeof(holder), "no socket that /proc/net/udp lists");
	doctor_say(doctor, DOCTOR_PROBLEM, "ss -lunp sport = :4791",
		   "UDP port %d: %s. It belongs to %s. Other hosts cannot be reached", ROCE_PORT,
		   state, holder);
}

/* In a child: whether it can read the memory of its sibling. The exit status is an errno. */
static int read_sibling(pid_t sibling, const uint64_t *word)
{
	uint64_t copy = 0;
	struct iovec here = {&copy, sizeof(copy)};
	struct iovec there = {(void *)(uintptr_t)word, sizeof(*word)};

	return process_vm_readv(sibling, &here, 1, &there, 1, 0) == (ssize_t)sizeof(copy) ? 0 :
											    errno;
}

/*
 * Two children of this process are to each other what two programs are that a shell started.
 * Returns 0 or an errno.
 */
static int try_memory_access(void)
{
	static const uint64_t word = 1;
	pid_t sibling = fork(), reader;
	int status, error = EAGAIN;

	if (sibling < 0)
		return errno;
	if (sibling == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		pause();
		_exit(0);
	}
	reader = fork();
	if (reader == 0)
		_exit(read_sibling(sibling, &word));
	if (reader > 0 && waitpid(reader, &status, 0) == reader && WIFEXITED(status))
		error = WEXITSTATUS(status);
	kill(sibling, SIGKILL);
	waitpid(sibling, &status, 0);
	return error;
}

void doctor_check_memory_access(struct doctor *doctor)
{
	char scope[16];
	int error = try_memory_access();
	bool is_final;

	/* The limit of processes, which another check reports. */
	if (error == EAGAIN)
		return;
	if (!error) {
		doctor_say(
			doctor, DOCTOR_OK, NULL,
			"processes of this user can access each other's memory (process_vm_readv)");
		return;
	}
	if (file_first_line("/proc/sys/kernel/yama/ptrace_scope", scope, sizeof(scope)) &&
	    strcmp(scope, "0") != 0) {
		/* Yama does not permit to change the value 3. */
		is_final = strcmp(scope, "3") == 0;
		doctor_say(
			doctor, DOCTOR_WARNING,
			is_final ? "set kernel.yama.ptrace_scope=0 in /etc/sysctl.d, and boot" :
				   "sysctl kernel.yama.ptrace_scope=0",
			"processes cannot access each other's memory: ptrace_scope is %s. RDMA READ and "
			"WRITE are copied by both processes, which is slower",
			scope);
	} else {
		doctor_say(
			doctor, DOCTOR_WARNING,
			"start the container with --cap-add SYS_PTRACE or another seccomp profile",
			"processes cannot access each other's memory: %s. RDMA READ and WRITE are copied "
			"by both processes, which is slower",
			strerror(error));
	}
}

void doctor_check_files(struct doctor *doctor)
{
	static const struct {
		const char *path;
		const char *mend;
		const char *effect;
	} files[] = {
		{"/proc/self/exe", "mount -t proc proc /proc",
		 "programs and devices are not found, and users other than root are refused"},
		{"/dev/null", "mount --rbind /dev ROOT/dev, outside of this root directory",
		 "no daemon can start here"},
	};

	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
		if (access(files[i].path, F_OK))
			doctor_say(doctor, DOCTOR_PROBLEM, files[i].mend, "%s: %s: %s",
				   files[i].path, strerror(errno), files[i].effect);
	}
}

void doctor_check_limits(struct doctor *doctor)
{
	struct rlimit files, memory;

	if (getrlimit(RLIMIT_NOFILE, &files) || getrlimit(RLIMIT_AS, &memory))
		return;
	if (files.rlim_max < FILES_DAEMON)
		doctor_say(
			doctor,
			files.rlim_max < FILES_DAEMON_LEAST ? DOCTOR_PROBLEM : DOCTOR_WARNING,
			"as root: prlimit --nofile=65536 --pid $$; or nofile in limits.conf(5), --ulimit nofile=65536 of the container",
			"%llu open files at most: a daemon that this shell starts %s %d",
			(unsigned long long)files.rlim_max,
			files.rlim_max < FILES_DAEMON_LEAST ? "needs" :
							      "serves few programs; it needs",
			FILES_DAEMON);
	else if (files.rlim_cur < FILES_PROGRAM)
		doctor_say(doctor, DOCTOR_WARNING, "ulimit -Sn 1024",
			   "%llu open files for each program: too few for many peers",
			   (unsigned long long)files.rlim_cur);
	else
		doctor_say(doctor, DOCTOR_OK, NULL, "open files: %llu, at most %llu",
			   (unsigned long long)files.rlim_cur, (unsigned long long)files.rlim_max);
	if (memory.rlim_cur != RLIM_INFINITY)
		doctor_say(doctor, DOCTOR_WARNING, "ulimit -Sv unlimited",
			   "the address space of a program is limited to %llu bytes",
			   (unsigned long long)memory.rlim_cur);
}

void doctor_check_ipv6(struct doctor *doctor)
{
	char line[LINE_BYTES];
	int fd = socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	bool has_sockets = fd >= 0 || errno != EAFNOSUPPORT;

	if (fd >= 0)
		close(fd);

	/* Interfaces that are down have no addresses, of IPv6 either. */
	if (doctor->report && report_length(json_object_object_get(doctor->report, "devices")) == 0)
		return;
	if (file_first_line("/proc/net/if_inet6", line, sizeof(line)) && !has_sockets)
		doctor_say(
			doctor, DOCTOR_WARNING,
			"permit socket(AF_INET6) in the seccomp profile of the container",
			"IPv6 sockets are refused: other hosts can be reached by IPv4 addresses only");
	else if (file_first_line("/proc/net/if_inet6", line, sizeof(line)))
		doctor_say(doctor, DOCTOR_OK, NULL, "IPv6: interfaces have addresses");
	else
		doctor_say(
			doctor, DOCTOR_WARNING, "sysctl net.ipv6.conf.all.disable_ipv6=0",
			"no interface has an IPv6 address: devices have GIDs of IPv4 addresses only");
}

/* Rules are visible to root only. The modules tell whether there can be any. */
void doctor_check_packet_filter(struct doctor *doctor)
{
	static const char *const modules[] = {"nf_tables", "ip_tables", "ip6_tables"};

	for (size_t i = 0; i < sizeof(modules) / sizeof(modules[0]); i++) {
		char path[PATH_MAX];

		snprintf(path, sizeof(path), "/sys/module/%s", modules[i]);
		if (access(path, F_OK))
			continue;
		doctor_say(
			doctor, DOCTOR_OK,
			"nft list ruleset; nft insert rule inet filter input udp dport 4791 accept",
			"a packet filter is loaded (%s). If other hosts cannot be reached, see that it "
			"accepts UDP port %d",
			modules[i], ROCE_PORT);
		return;
	}
	doctor_say(doctor, DOCTOR_OK, NULL, "no packet filter is loaded");
}
