/* SPDX-License-Identifier: BSD-2-Clause */
/*
 *	verbs_random SIDE PAIR SEED RUN FIRST ROUNDS SOCKET DEVICE GID DIRECTORY TALLY SOAK
 *
 * One side of a pair (verbs_random.h): SIDE 0 listens on the path SOCKET, SIDE 1 connects. It runs
 * ROUNDS rounds from FIRST on; 0: until SIGTERM. RUN is printed in reports. DIRECTORY is for files
 * on a disk, TALLY the file of the counts. With SOAK 1, a call that does not return is reported,
 * and some rounds have a short ACK timeout.
 *
 * Exit status: 0 after all rounds; 3 if the peer has ended before; 4 without the transport RoCE v2;
 * 1 after a line with FAIL.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "verbs_random.h"

#define CONNECT_TRIES 6000

struct vr_process vr;

static volatile sig_atomic_t is_terminated;

static void vr_on_term(int number)
{
	(void)number;
	is_terminated = 1;
}

static void vr_pause(void)
{
	static const struct timespec pause = {.tv_nsec = 10000000};

	nanosleep(&pause, NULL);
}

static int vr_connect_peer(const char *path)
{
	struct sockaddr_un addr = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	int peer;

	snprintf(addr.sun_path, sizeof(addr.sun_path), "%s", path);
	if (vr.side) {
		for (int i = 0; i < CONNECT_TRIES; i++) {
			if (!connect(fd, (struct sockaddr *)&addr, sizeof(addr)))
				return fd;
			vr_pause();
		}
		vr_fail(NULL, "no peer at %s: %s", path, strerror(errno));
	}
	if (bind(fd, (struct sockaddr *)&addr, sizeof(addr)) || listen(fd, 1))
		vr_fail(NULL, "cannot listen on %s: %s", path, strerror(errno));
	peer = accept4(fd, NULL, NULL, SOCK_CLOEXEC);
	if (peer < 0)
		vr_fail(NULL, "accept: %s", strerror(errno));
	close(fd);
	unlink(path);
	return peer;
}

static struct vr_tally *vr_map_tally(const char *path)
{
	int fd = open(path, O_RDWR | O_CLOEXEC);
	void *memory = mmap(NULL, sizeof(struct vr_tally), PROT_READ | PROT_WRITE, MAP_SHARED, fd,
			    0);

	if (memory == MAP_FAILED) {
		perror(path);
		exit(1);
	}
	close(fd);
	return memory;
}

static bool vr_is_complete(const struct vr_round *r)
{
	bool is_lossy = r->plan.service == VR_UC || r->plan.service == VR_UD;

	if (!r->out.is_done || r->out.retired != r->plan.ops || !r->in.is_done)
		return false;
	return is_lossy || (r->out.acked == r->plan.ops && r->in.next == r->plan.ops &&
			    (!r->mw || r->is_mw_bound));
}

static void vr_traffic(struct vr_round *r)
{
	bool is_running = true;

	while (is_running && !vr_is_complete(r)) {
		bool is_posted = vr_post_some(r);

		if (!vr_roll(r, 512))
			vr_churn(r);
		is_running = vr_pump(r, !is_posted);
	}
	if (!is_running)
		return;
	/*
	 * Late messages of UC may still arrive. The peer begins to flood when it knows that the
	 * memory was checked.
	 */
	if (r->plan.service != VR_UC)
		vr_check_memory(r);
	else
		r->in.skipped = r->plan.ops;
	vr_send(r, VR_QUIET, 0, 0);
	while (!r->is_peer_quiet && vr_pump(r, true))
		;
	if (!r->is_peer_quiet || r->is_broken)
		return;
	if (r->plan.action != VR_NO_ACTION && !vr_revoke(r))
		return;
	r->is_passed = !r->is_broken;
}

static void vr_count_round(const struct vr_round *r, bool is_passed)
{
	atomic_fetch_add(&vr.tally->rounds, 1);
	if (!is_passed) {
		atomic_fetch_add(&vr.tally->broken, 1);
		return;
	}
	atomic_fetch_add(&vr.tally->services[r->plan.service], 1);
	atomic_fetch_add(&vr.tally->memories[r->plan.memory[vr.side]], 1);
	atomic_fetch_add(&vr.tally->actions[r->plan.action], 1);
}

/* Returns whether a further round is to follow. */
static bool vr_run_round(uint32_t number, uint8_t *stack, bool is_last)
{
	static struct vr_round round;
	struct vr_round *r = &round;
	bool is_open;

	memset(r, 0, sizeof(*r));
	r->number = number;
	atomic_store(&vr.tally->next_round[vr.pair][vr.side], number + 1);
	r->bell = -1;
	r->start_ns = vr_now_ns();
	r->progress_tick = atomic_load(&vr.ticks);
	vr_make_plan(&r->plan, vr.seed, vr.pair, number, vr.is_soak);
	r->dice = r->plan.key + vr.side + 1;
	is_open = vr_open_device(r);
	if (is_open) {
		vr_create(r, stack);
		if (!r->is_broken && vr_connect(r))
			vr_traffic(r);
	} else {
		vr_pause();
	}
	r->is_last = is_last || is_terminated || vr.is_without_port;
	vr_send(r, VR_END, r->is_passed, r->is_last);
	while (!r->is_ended && !vr.is_peer_gone)
		vr_pump(r, true);
	vr_take_events(r);
	if (is_open)
		vr_destroy(r);
	vr_count_round(r, r->is_passed && r->is_peer_passed);
	return !r->is_last && !vr.is_peer_gone;
}

static void vr_run(uint32_t first, uint32_t rounds)
{
	static uint8_t *at;
	uint8_t stack[VR_STACK_BYTES];

	/* The memory of a round is aligned as the words in it are. */
	at = stack + (64 - (uintptr_t)stack % 64) % 64;
	for (uint32_t i = 0; vr_run_round(first + i, at, i + 1 == rounds); i++)
		;
}

int main(int argc, char **argv)
{
	if (argc != 13) {
		fprintf(stderr,
			"usage: %s SIDE PAIR SEED RUN FIRST ROUNDS SOCKET DEVICE GID "
			"DIRECTORY TALLY SOAK\n",
			argv[0]);
		return 2;
	}
	signal(SIGTERM, vr_on_term);
	vr.side = (unsigned int)strtoul(argv[1], NULL, 10);
	vr.pair = (unsigned int)strtoul(argv[2], NULL, 10);
	vr.seed = strtoull(argv[3], NULL, 10);
	vr.run = (unsigned int)strtoul(argv[4], NULL, 10);
	vr.device = argv[8];
	vr.gid_index = (uint8_t)strtoul(argv[9], NULL, 10);
	if (vr.side > 1 || vr.pair >= VR_PAIRS_MAX)
		return 2;
	vr.directory = argv[10];
	vr.tally = vr_map_tally(argv[11]);
	vr.is_soak = !strcmp(argv[12], "1");
	vr_start_watchdog();
	vr.peer_fd = vr_connect_peer(argv[7]);
	vr_run((uint32_t)strtoul(argv[5], NULL, 10), (uint32_t)strtoul(argv[6], NULL, 10));
	if (vr.context)
		ibv_close_device(vr.context);
	if (vr.is_peer_gone)
		return 3;
	return vr.is_without_port ? 4 : 0;
}
