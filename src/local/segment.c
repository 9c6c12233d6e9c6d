/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "base/log.h"
#include "base/resize.h"
#include "core/qp.h"
#include "core/transport.h"
#include "local/local.h"

#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif

/* Looks at a peer's use of a region this often without sleeping: an access takes microseconds. */
#define REVOKE_SPINS  1000
#define REVOKE_NAP_NS 50000

static int make_memfd(struct segment **segment)
{
	int fd = memfd_create("usrdma-segment", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	int ret;

	if (fd < 0)
		return -errno;
	ret = resize_memory(fd, SEGMENT_BYTES);
	if (ret == -EFBIG)
		log_user("no RDMA in this process: its limit of file sizes (ulimit -f) is below "
			 "the %u MiB of shared memory that it takes",
			 (unsigned int)(SEGMENT_BYTES >> 20) + 1);
	if (ret) {
		close(fd);
		return ret;
	}
	*segment = mmap(NULL, SEGMENT_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd,
			0);
	if (*segment == MAP_FAILED)
		goto err_fd;
	/* From here on nobody maps it for writing, or resizes it under a reader. */
	if (fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE))
		goto err_map;
	return fd;

err_map:
	ret = -errno;
	munmap(*segment, SEGMENT_BYTES);
	close(fd);
	return ret;
err_fd:
	ret = -errno;
	close(fd);
	return ret;
}

int segment_open(struct local *local, int *fd)
{
	struct segment_hdr *hdr;

	*fd = make_memfd(&local->segment);
	if (*fd < 0)
		return *fd;
	if (getrandom(&local->probe, sizeof(local->probe), 0) != sizeof(local->probe))
		local->probe = (uint64_t)(uintptr_t)local ^ (uint64_t)getpid();
	hdr = &local->segment->hdr;
	hdr->magic = SEGMENT_MAGIC;
	hdr->version = SEGMENT_VERSION;
	hdr->slot = local->engine->slot;
	hdr->pid = getpid();
	hdr->probe_addr = (uint64_t)(uintptr_t)&local->probe;
	hdr->probe = local->probe;
	local->engine->counters = &local->segment->counters;
	return 0;
}

void segment_close(struct local *local)
{
	local->engine->counters = NULL;
	munmap(local->segment, SEGMENT_BYTES);
}

static void raise_end(_Atomic uint32_t *end, uint32_t index)
{
	if (atomic_load_explicit(end, memory_order_relaxed) <= index)
		atomic_store_explicit(end, index + 1, memory_order_relaxed);
}

void segment_withdraw_qp(struct qp *qp)
{
	atomic_store(&local_of(qp->context->engine)->segment->qps[qp->qpn % SEGMENT_QPS].qpn, 0);
}

static void describe_qp(struct segment_qp *entry, const struct qp *qp)
{
	entry->type = qp->type;
	entry->remote_qpn = qp->attr.dest_qp_num;
	entry->pd = qp->pd ? qp->pd->id : 0;
	entry->dev_id = qp->context->device->info.dev_id;
	entry->is_local = qp->transport == &local_transport;
	for (size_t i = 0; i < sizeof(entry->remote_gid); i++)
		entry->remote_gid[i] = qp->attr.ah_attr.grh.dgid.raw[i];
	snprintf(entry->transport, sizeof(entry->transport), "%s",
		 qp->transport ? qp->transport->name : "");
}

void segment_publish_qp(struct qp *qp)
{
	struct segment *segment = local_of(qp->context->engine)->segment;
	uint32_t index = qp->qpn % SEGMENT_QPS;
	struct segment_qp *entry = &segment->qps[index];

	if (qp->state == IBV_QPS_RESET) {
		segment_withdraw_qp(qp);
		return;
	}
	if (atomic_load(&entry->qpn) != qp->qpn || entry->remote_qpn != qp->attr.dest_qp_num ||
	    entry->is_local != (qp->transport == &local_transport)) {
		atomic_store(&entry->qpn, 0);
		describe_qp(entry, qp);
	}
	atomic_store(&entry->access, qp->attr.qp_access_flags);
	atomic_store(&entry->state, qp->state);
	atomic_store(&entry->qpn, qp->qpn);
	raise_end(&segment->hdr.qps_end, index);
}

void segment_publish_mr(struct engine *engine, const struct mr *mr)
{
	struct segment *segment = local_of(engine)->segment;
	uint32_t index = mr->key % SEGMENT_MRS;
	struct segment_mr *entry = &segment->mrs[index];

	entry->access = mr->access;
	entry->pd = mr->pd->id;
	entry->is_unreachable = mr->is_unreachable;
	entry->iova = mr->iova;
	entry->length_bytes = mr->length;
	entry->addr = (uint64_t)(uintptr_t)mr->addr;
	atomic_store(&entry->rkey, mr->key);
	raise_end(&segment->hdr.mrs_end, index);
}

static bool is_in_use(struct local *local, uint32_t key)
{
	struct peer *peer;

	list_for_each_entry(peer, &local->peers, node) {
		if (!peer->is_gone && peer->may_reach_ours &&
		    atomic_load(&peer->rx.shared->accessing) == key)
			return true;
	}
	return false;
}

/*
 * Withdraws the region, then waits until no peer is inside it: a peer announces the key it is about to use, then looks
 * whether it is still published, so either it sees that it is not, or we see the announcement. One of another user
 * cannot be inside, and would only keep us waiting. A peer that dies is gone from the list by the daemon's notice.
 * engine.lock is let go while waiting, since a stopped peer takes its time.
 */
void segment_revoke_mr(struct engine *engine, const struct mr *mr)
{
	struct local *local = local_of(engine);
	const struct timespec nap = {.tv_nsec = REVOKE_NAP_NS};
	uint32_t key = mr->key;

	atomic_store(&local->segment->mrs[key % SEGMENT_MRS].rkey, 0);
	for (unsigned int spins = 0; is_in_use(local, key); spins++) {
		if (spins < REVOKE_SPINS)
			continue;
		engine_unlock(engine);
		nanosleep(&nap, NULL);
		engine_lock(engine);
		engine_take_notices(engine);
	}
}
