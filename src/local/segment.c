/* SPDX-License-Identifier: BSD-2-Clause */
#include "local/segment.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/log.h"
#include "base/resize.h"
#include "base/seal.h"
#include "base/syscalls.h"
#include "base/util.h"
#include "core/engine/lock_check.h"
#include "core/engine/transport.h"
#include "core/queue/comp_cntr.h"
#include "core/report/usage.h"
#include "local/local.h"
#include "local/share.h"

static int make_memfd(struct segment **segment)
{
	int fd = memfd_create("usrdma-segment", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	int ret;

	if (fd < 0)
		return -errno;
	ret = resize_memory(fd, SEGMENT_BYTES);
	if (ret == -EFBIG)
		log_user("no RDMA devices: the limit of file sizes (ulimit -f) is below "
			 "the %u MiB of shared memory that a process needs",
			 (unsigned int)(SEGMENT_BYTES >> 20) + 1);
	if (ret) {
		sys_close(fd);
		return ret;
	}
	*segment = mmap(NULL, SEGMENT_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd,
			0);
	if (*segment == MAP_FAILED)
		goto err_fd;
	/* The seals prevent further writable mappings and any change of the size. */
	ret = seal_future_writes(&fd, F_SEAL_SHRINK | F_SEAL_GROW);
	if (!ret)
		return fd;
	munmap(*segment, SEGMENT_BYTES);
	sys_close(fd);
	return ret;
err_fd:
	ret = -errno;
	sys_close(fd);
	return ret;
}

int segment_open(struct local *local, int *fd)
{
	struct segment_hdr *hdr;

	*fd = make_memfd(&local->segment);
	if (*fd < 0)
		return *fd;
	if (sys_getrandom(&local->probe, sizeof(local->probe)) != sizeof(local->probe))
		local->probe = (uint64_t)(uintptr_t)local ^ (uint64_t)getpid();
	hdr = &local->segment->hdr;
	hdr->magic = SEGMENT_MAGIC;
	hdr->version = SEGMENT_VERSION;
	hdr->slot = local->engine->slot;
	hdr->pid = getpid();
	hdr->probe_addr = (uint64_t)(uintptr_t)&local->probe;
	hdr->probe = local->probe;
	local->engine->segment.counters = &local->segment->counters;
	local->engine->segment.cqs = &local->segment->cqs;
	local->engine->segment.unused_cq = 0;
	return 0;
}

void segment_close(struct local *local)
{
	local->engine->segment.counters = NULL;
	local->engine->segment.cqs = NULL;
	munmap(local->segment, SEGMENT_BYTES);
}

/*
 * Takes a place that was never used. A process has at most as many QPs and MRs as the tables have
 * entries, so a place is always available.
 */
static uint32_t take_new_place(_Atomic uint32_t *end)
{
	uint32_t place = atomic_load_explicit(end, memory_order_relaxed) + 1;

	atomic_store_explicit(end, place, memory_order_relaxed);
	return place;
}

/*
 * The owner: while `changes` is odd, readers do not use what they read. The release fence orders
 * this store before the changes. Pairs with changes_of() of daemon/device_total.c.
 */
static void devices_change_begin(struct segment_devices *devices)
{
	atomic_store_explicit(&devices->changes,
			      atomic_load_explicit(&devices->changes, memory_order_relaxed) + 1,
			      memory_order_relaxed);
	atomic_thread_fence(memory_order_release);
}

static void devices_change_end(struct segment_devices *devices)
{
	atomic_store_explicit(&devices->changes,
			      atomic_load_explicit(&devices->changes, memory_order_relaxed) + 1,
			      memory_order_release);
}

/* The device's entry, which is added if it does not exist. NULL: the table is full. */
static struct segment_device *device_entry(struct segment_devices *devices, uint32_t dev_id)
{
	uint32_t end = atomic_load_explicit(&devices->end, memory_order_relaxed);

	for (uint32_t i = 0; i < end; i++) {
		if (devices->entries[i].dev_id == dev_id)
			return &devices->entries[i];
	}
	if (end == SEGMENT_DEVICES)
		return NULL;
	devices->entries[end].dev_id = dev_id;
	atomic_store_explicit(&devices->end, end + 1, memory_order_release);
	return &devices->entries[end];
}

/* Moves the usage of a QP that is revoked to the entry of its device. */
static void retire_qp_usage(struct segment *segment, uint32_t place)
{
	struct segment_qp_usage *usage = &segment->qp_usage[place - 1];
	struct segment_device *device = device_entry(&segment->devices,
						     segment->qps[place - 1].dev_id);
	const struct ipc_usage total = segment_qp_total(usage);

	devices_change_begin(&segment->devices);
	if (device)
		ipc_usage_add(&device->total, &total);
	*usage = (struct segment_qp_usage){.send_cq = usage->send_cq, .recv_cq = usage->recv_cq};
	devices_change_end(&segment->devices);
}

void segment_unpublish_qp(struct qp *qp)
{
	struct local *local = local_of(qp->context->engine);
	_Atomic uint16_t *place = &local->segment->qp_places[qp->qpn % SEGMENT_QPS];
	uint32_t last = atomic_load_explicit(place, memory_order_relaxed);
	struct segment_qp *entry;

	if (!last)
		return;
	entry = &local->segment->qps[last - 1];
	segment_revoke_word(&entry->word);
	atomic_store_explicit(place, 0, memory_order_relaxed);
	qp->usage = &usage_unread_qp;
	retire_qp_usage(local->segment, last);
	entry->next_unused = local->unused_qp;
	local->unused_qp = last;
}

/*
 * Takes an unused entry. *place: its place, which the caller stores after it has published the
 * entry.
 */
static struct segment_qp *segment_take_qp(struct local *local, uint32_t *place)
{
	struct segment *segment = local->segment;

	*place = local->unused_qp;
	if (*place)
		local->unused_qp = segment->qps[*place - 1].next_unused;
	else
		*place = take_new_place(&segment->hdr.qps_end);
	return &segment->qps[*place - 1];
}

static void describe_qp(struct segment_qp *entry, const struct qp *qp)
{
	entry->type = qp->type & 0xff;
	entry->rq_psn = qp->attr.rq_psn & MASK_24;
	entry->remote_qpn = qp->attr.dest_qp_num;
	entry->pd = qp->pd ? qp->pd->id : 0;
	entry->dev_id = qp->context->device->dev_id;
	entry->is_local = qp->transport == &local_transport;
	for (size_t i = 0; i < sizeof(entry->remote_gid); i++)
		entry->remote_gid[i] = qp->attr.ah_attr.grh.dgid.raw[i];
	snprintf(entry->transport, sizeof(entry->transport), "%s",
		 qp->transport ? qp->transport->name : "");
}

/* Counts the QP's transfers in its entry from now on. */
static void count_qp_usage(struct local *local, struct qp *qp, uint32_t place)
{
	struct segment_qp_usage *usage = &local->segment->qp_usage[place - 1];
	uint32_t dev_id = qp->context->device->dev_id;

	if (qp->usage == usage)
		return;
	*usage = (struct segment_qp_usage){
		.send_cq = usage_place(qp->context->engine, qp->send_cq),
		.recv_cq = usage_place(qp->context->engine, qp->recv_cq),
	};
	local->segment->qps[place - 1].dev_id = dev_id;
	(void)device_entry(&local->segment->devices, dev_id);
	qp->usage = usage;
}

static_assert(MAX_RD_ATOMIC <= SEGMENT_DEPTH_MAX, "segment_onesided() has room for each depth");

static void publish_onesided(struct segment_qp *entry, const struct qp *qp)
{
	bool by_owner = comp_cntr_counts_remote(qp) ||
			(qp->state == IBV_QPS_RTR && !qp->has_comm_est);

	atomic_store(&entry->onesided,
		     segment_onesided(by_owner, qp->attr.path_mtu, qp->attr.max_dest_rd_atomic));
}

void segment_note_established(struct qp *qp)
{
	struct local *local = local_of(qp->context->engine);
	uint32_t own = atomic_load_explicit(&local->segment->qp_places[qp->qpn % SEGMENT_QPS],
					    memory_order_relaxed);

	if (own)
		publish_onesided(&local->segment->qps[own - 1], qp);
}

void segment_publish_qp(struct qp *qp)
{
	struct local *local = local_of(qp->context->engine);
	_Atomic uint16_t *place = &local->segment->qp_places[qp->qpn % SEGMENT_QPS];
	uint32_t own = atomic_load_explicit(place, memory_order_relaxed);
	struct segment_qp *entry;

	engine_assert_locked(qp->context->engine);
	qp_assert_locked(qp);
	/* While revoke_qp() waits for the end of the peers' accesses, no access may begin. */
	if (qp->revokers)
		return;
	if (qp->state == IBV_QPS_RESET) {
		segment_unpublish_qp(qp);
		return;
	}
	entry = own ? &local->segment->qps[own - 1] : segment_take_qp(local, &own);
	count_qp_usage(local, qp, own);
	if (!segment_qp_qpn(atomic_load_explicit(&entry->word, memory_order_relaxed)) ||
	    entry->remote_qpn != qp->attr.dest_qp_num ||
	    entry->is_local != (qp->transport == &local_transport)) {
		segment_revoke_word(&entry->word);
		describe_qp(entry, qp);
	}
	atomic_store(&entry->access, qp->attr.qp_access_flags);
	publish_onesided(entry, qp);
	/* After the contents; seq_cst as the revocation. Pairs with peer_access_check(). */
	atomic_store(&entry->word,
		     segment_qp_word(segment_next_generation(&entry->word), qp->qpn, qp->state));
	/* Release: pairs with segment_qp_entry(). */
	atomic_store_explicit(place, (uint16_t)own, memory_order_release);
}

static struct segment_mr *segment_take_mr(struct local *local, uint32_t *place)
{
	struct segment *segment = local->segment;

	*place = local->unused_mr;
	if (*place)
		local->unused_mr = segment->mrs[*place - 1].next_unused;
	else
		*place = take_new_place(&segment->hdr.mrs_end);
	return &segment->mrs[*place - 1];
}

void segment_publish_mr(struct engine *engine, const struct mr *mr)
{
	struct local *local = local_of(engine);
	_Atomic uint32_t *place = &local->segment->mr_places[mr->key % SEGMENT_MRS];
	uint32_t own;
	struct segment_mr *entry;

	engine_assert_all_locked(engine);
	segment_unpublish_mr(engine, mr);
	entry = segment_take_mr(local, &own);
	entry->access = mr->access;
	entry->pd = mr->pd->id;
	entry->is_unreachable = mr->is_unreachable;
	entry->iova = mr->iova;
	entry->length_bytes = mr->length;
	entry->addr = (uint64_t)(uintptr_t)mr->addr;
	share_publish(engine, mr, entry);
	/* As in segment_publish_qp(). */
	atomic_store(&entry->word, segment_mr_word(segment_next_generation(&entry->word), mr->key));
	atomic_store_explicit(place, own, memory_order_release);
}

void segment_unpublish_mr(struct engine *engine, const struct mr *mr)
{
	struct local *local = local_of(engine);
	_Atomic uint32_t *place = &local->segment->mr_places[mr->key % SEGMENT_MRS];
	uint32_t last = atomic_load_explicit(place, memory_order_relaxed);
	struct segment_mr *entry;

	if (!last)
		return;
	entry = &local->segment->mrs[last - 1];
	/* Another MR with the same low key bits. */
	if (segment_mr_rkey(atomic_load_explicit(&entry->word, memory_order_relaxed)) != mr->key)
		return;
	segment_revoke_word(&entry->word);
	atomic_store_explicit(place, 0, memory_order_relaxed);
	share_release(engine, entry);
	entry->next_unused = local->unused_mr;
	local->unused_mr = last;
}

/* The mutex is robust and process-shared. Peers only read its futex word. */
static int life_init(union segment_life *life)
{
	pthread_mutexattr_t attr;
	int ret = pthread_mutexattr_init(&attr);

	if (ret)
		return -ret;
	ret = pthread_mutexattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
	if (!ret)
		ret = pthread_mutexattr_setrobust(&attr, PTHREAD_MUTEX_ROBUST);
	if (!ret)
		ret = pthread_mutex_init(&life->mutex, &attr);
	pthread_mutexattr_destroy(&attr);
	return -ret;
}

int segment_thread_begins(struct engine *engine)
{
	struct segment_hdr *hdr = &local_of(engine)->segment->hdr;
	int ret = life_init(&hdr->life);

	engine_assert_unlocked(engine);
	if (!ret)
		ret = -pthread_mutex_lock(&hdr->life.mutex);
	if (!ret)
		atomic_store(&hdr->engine_tid, (uint32_t)gettid());
	return ret;
}

void segment_thread_ends(struct engine *engine)
{
	struct segment_hdr *hdr = &local_of(engine)->segment->hdr;

	engine_assert_unlocked(engine);
	atomic_store(&hdr->engine_tid, 0);
	pthread_mutex_unlock(&hdr->life.mutex);
}
