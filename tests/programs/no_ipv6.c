/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Runs a program as on a kernel without IPv6: the creation of an AF_INET6 socket fails in the program and its children.
 * A seccomp filter does this, which an unprivileged user may install.
 */
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
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

static int forbid(void)
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
	struct sock_fprog program = {.len = sizeof(code) / sizeof(code[0]), .filter = code};

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
		return -1;
	return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0);
}

int main(int argc, char **argv)
{
	if (argc < 2 || !ARCH) {
		fputs("no_ipv6: of no use here\n", stderr);
		return EXIT_FAILURE;
	}
	if (forbid() || socket(AF_INET6, SOCK_DGRAM, 0) >= 0) {
		perror("no_ipv6: filter");
		return EXIT_FAILURE;
	}
	execvp(argv[1], &argv[1]);
	perror(argv[1]);
	return EXIT_FAILURE;
}
