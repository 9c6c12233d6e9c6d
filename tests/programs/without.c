/* SPDX-License-Identifier: BSD-2-Clause */
/*
 *	without ipv6|passrights PROGRAM...
 *
 * Runs a program as on a kernel without a feature. A seccomp filter makes a system call fail in the
 * program and its children; an unprivileged user may install one. ipv6: the creation of an AF_INET6
 * socket. passrights: setsockopt() of SO_PASSRIGHTS, which Linux 6.16 introduced.
 */
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#if defined(__x86_64__)
#define ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define ARCH AUDIT_ARCH_AARCH64
#else
#define ARCH 0
#endif

/* Loads the lower 32 bits of a 64-bit value, which come first on a little-endian machine. */
#define LOAD(member)	 BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, member))
#define IF(value, no)	 BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 0, no)
#define RETURN(response) BPF_STMT(BPF_RET | BPF_K, response)

#ifndef SO_PASSRIGHTS
#define SO_PASSRIGHTS 83
#endif

static int install(struct sock_filter *code, size_t length)
{
	struct sock_fprog program = {.len = (unsigned short)length, .filter = code};

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
		return -1;
	return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0);
}

static bool forbid_ipv6(void)
{
	struct sock_filter code[] = {
		LOAD(arch),
		IF(ARCH, 5),
		LOAD(nr),
		IF(SYS_socket, 3),
		LOAD(args[0]),
		IF(AF_INET6, 1),
		RETURN(SECCOMP_RET_ERRNO | EAFNOSUPPORT),
		RETURN(SECCOMP_RET_ALLOW),
	};

	return !install(code, sizeof(code) / sizeof(code[0])) &&
	       socket(AF_INET6, SOCK_DGRAM, 0) < 0;
}

static bool forbid_passrights(void)
{
	struct sock_filter code[] = {
		LOAD(arch),
		IF(ARCH, 7),
		LOAD(nr),
		IF(SYS_setsockopt, 5),
		LOAD(args[1]),
		IF(SOL_SOCKET, 3),
		LOAD(args[2]),
		IF(SO_PASSRIGHTS, 1),
		RETURN(SECCOMP_RET_ERRNO | ENOPROTOOPT),
		RETURN(SECCOMP_RET_ALLOW),
	};

	return !install(code, sizeof(code) / sizeof(code[0]));
}

static bool forbid(const char *feature)
{
	if (!strcmp(feature, "ipv6"))
		return forbid_ipv6();
	return !strcmp(feature, "passrights") && forbid_passrights();
}

int main(int argc, char **argv)
{
	if (argc < 3 || !ARCH) {
		fputs("without: of no use here\n", stderr);
		return EXIT_FAILURE;
	}
	if (!forbid(argv[1])) {
		perror("without: filter");
		return EXIT_FAILURE;
	}
	execvp(argv[2], &argv[2]);
	perror(argv[2]);
	return EXIT_FAILURE;
}
