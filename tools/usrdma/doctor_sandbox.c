/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a container, a seccomp filter or an older kernel refuses, and what that reduces
 * (docs/sandboxes.md).
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/membarrier.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/procfs.h"
#include "doctor.h"
#include "ipc/segment.h"

#ifndef UDP_GRO
#define UDP_GRO 104
#endif
#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif

#define MIB (1024ull * 1024)

/* Of the daemon, and of two programs with an engine thread. */
#define THREADS	      8
#define THREADS_LEAST 2

/* Defined by glibc 2.35 and later (sys/rseq.h). 0: the kernel refused the registration. */
extern const unsigned int __rseq_size __attribute__((weak));

/* 0 or an errno. */
static int try_memory(void)
{
	int fd = memfd_create("usrdma-doctor", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	if (fd < 0)
		return errno;
	close(fd);
	return 0;
}

static int try_seal(void)
{
	int fd = memfd_create("usrdma-doctor", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	int error = 0;

	/* try_memory() reports this. */
	if (fd < 0)
		return 0;
	if (fcntl(fd, F_ADD_SEALS, F_SEAL_FUTURE_WRITE))
		error = errno;
	close(fd);
	return error;
}

static int try_barriers(void)
{
	int commands = (int)syscall(SYS_membarrier, MEMBARRIER_CMD_QUERY, 0, 0);
	int needed = MEMBARRIER_CMD_PRIVATE_EXPEDITED | MEMBARRIER_CMD_GLOBAL_EXPEDITED;

	if (commands < 0)
		return errno;
	return (commands & needed) == needed ? 0 : ENOSYS;
}

static int try_sequences(void)
{
	return &__rseq_size && __rseq_size ? 0 : ENOSYS;
}

static int try_gro(void)
{
	int on = 1, fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	int error = 0;

	if (fd < 0)
		return errno;
	if (setsockopt(fd, IPPROTO_UDP, UDP_GRO, &on, sizeof(on)))
		error = errno;
	close(fd);
	return error;
}

/* A descriptor of a process, by which fault rules stop and end it. */
static int try_processes(void)
{
	int fd = (int)syscall(SYS_pidfd_open, getpid(), 0);

	if (fd < 0)
		return errno;
	close(fd);
	return 0;
}

struct sandbox_check {
	int (*try)(void);
	enum doctor_level level;
	const char *call;
	const char *effect;
	const char *mend;
};

#define PERMIT " in the seccomp profile of the container, or boot a later kernel"

static const struct sandbox_check sandbox_checks[] = {
	{try_memory, DOCTOR_PROBLEM, "memfd_create(2)",
	 "programs and the daemon cannot share memory, and there are no RDMA devices",
	 "permit memfd_create in the seccomp profile of the container"},
	{try_seal, DOCTOR_WARNING, "F_SEAL_FUTURE_WRITE (Linux 5.1)",
	 "processes of the same user can write the shared memory in which a program describes its queue pairs",
	 "boot Linux 5.1 or later"},
	{try_barriers, DOCTOR_WARNING, "membarrier(2)",
	 "each operation executes memory fences, which is slower", "permit membarrier" PERMIT},
	{try_sequences, DOCTOR_WARNING, "rseq(2), or the C library is older than glibc 2.35",
	 "the target process executes RDMA READ and WRITE of the same host, which is slower and needs its threads",
	 "permit rseq in the seccomp profile of the container, and unset GLIBC_TUNABLES; or use glibc 2.35 or later"},
	{try_gro, DOCTOR_WARNING, "UDP_GRO (Linux 5.0)",
	 "the kernel delivers the packets of other hosts one by one, which is slower",
	 "boot Linux 5.0 or later"},
	{try_processes, DOCTOR_WARNING, "pidfd_open(2) (Linux 5.3)",
	 "rules of usrdma fault cannot stop or end processes", "permit pidfd_open" PERMIT},
};

static void check_procfs(struct doctor *doctor)
{
	/* doctor_check_files() reports that /proc is missing. */
	if (!access("/proc/self/exe", F_OK) && !procfs_is_ours())
		doctor_say(
			doctor, DOCTOR_WARNING, "mount -t proc proc /proc, in the container",
			"/proc belongs to another PID namespace: programs are not named in reports, and fault rules that name a "
			"program do not act on it");
}

static void check_files(struct doctor *doctor)
{
	static const char *const places[] = {"/tmp", "/dev/shm", "/var/tmp"};

	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		if (!access(places[i], W_OK))
			return;
	}
	doctor_say(
		doctor, DOCTOR_WARNING,
		"give the container a writable /tmp (--tmpfs /tmp), or use usrdma run --mount",
		"/tmp, /dev/shm and /var/tmp are not writable: programs that search /sys find no RDMA device");
}

static void *thread_wait(void *gate)
{
	pthread_mutex_lock(gate);
	pthread_mutex_unlock(gate);
	return NULL;
}

/* Creates threads that live at the same time. Returns their number. */
static unsigned int try_threads(void)
{
	pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
	pthread_t threads[THREADS];
	unsigned int count = 0;

	pthread_mutex_lock(&gate);
	while (count < THREADS && !pthread_create(&threads[count], NULL, thread_wait, &gate))
		count++;
	pthread_mutex_unlock(&gate);
	for (unsigned int i = 0; i < count; i++)
		pthread_join(threads[i], NULL);
	return count;
}

static void check_threads(struct doctor *doctor)
{
	unsigned int count = try_threads();

	if (count < THREADS)
		doctor_say(
			doctor, count < THREADS_LEAST ? DOCTOR_PROBLEM : DOCTOR_WARNING,
			"raise pids.max (--pids-limit of the container), or ulimit -u",
			"the limit of processes permits %u more: the daemon and a pair of programs need %d",
			count, THREADS);
}

/* RLIMIT_FSIZE applies to shared memory, too. */
static void check_file_size(struct doctor *doctor)
{
	struct rlimit size;

	if (getrlimit(RLIMIT_FSIZE, &size) || size.rlim_cur >= SEGMENT_BYTES)
		return;
	doctor_say(
		doctor, DOCTOR_PROBLEM, "ulimit -Sf unlimited",
		"the size of files is limited to %llu bytes (ulimit -f): a program needs %llu MiB of shared memory, and has "
		"no RDMA device",
		(unsigned long long)size.rlim_cur, SEGMENT_BYTES / MIB + 1);
}

void doctor_check_sandbox(struct doctor *doctor)
{
	struct utsname kernel = {.release = "?"};

	(void)uname(&kernel);
	for (size_t i = 0; i < sizeof(sandbox_checks) / sizeof(sandbox_checks[0]); i++) {
		const struct sandbox_check *check = &sandbox_checks[i];
		int error = check->try();

		if (error)
			doctor_say(doctor, check->level, check->mend,
				   "Linux %s or a seccomp filter refuses %s: %s: %s",
				   kernel.release, check->call, strerror(error), check->effect);
	}
	check_procfs(doctor);
	check_files(doctor);
	check_file_size(doctor);
	check_threads(doctor);
}
