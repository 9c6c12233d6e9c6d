/* SPDX-License-Identifier: BSD-2-Clause */
#include "local/share.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/shm.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/syscalls.h"
#include "base/vma.h"
#include "core/engine/lock_check.h"
#include "core/memory/mr.h"
#include "local/local.h"
#include "local/peer.h"
#include "local/ring.h"
#include "local/run.h"

#ifndef DMA_BUF_MAGIC
#define DMA_BUF_MAGIC 0x444d4142
#endif

/* As in proc_pid_maps(5). */
#define SYSV_PREFIX "/SYSV"

/* A memory object and how a peer opens it. */
struct share_object {
	enum segment_share_kind kind;
	int64_t id;
	uint64_t dev;
	uint64_t ino;
	uint64_t stamp;
	uint64_t bytes;
};

/*
 * AT_STATX_DONT_SYNC: the program may have any descriptors, also of a file system whose server does
 * not reply to a request for the attributes, while other threads wait for engine.lock.
 */
static bool examine_fd(int fd, struct statx *file)
{
	return !statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC,
		      STATX_TYPE | STATX_INO | STATX_SIZE, file);
}

static uint64_t dev_of(const struct statx *file)
{
	return makedev(file->stx_dev_major, file->stx_dev_minor);
}

/* The inode of a dma-buf has no type. */
static bool is_mappable(int fd, const struct statx *file)
{
	struct statfs fs;

	return S_ISREG(file->stx_mode) || (!fstatfs(fd, &fs) && fs.f_type == DMA_BUF_MAGIC);
}

static int describe_fd(int fd, struct share_object *object)
{
	struct statx file;

	if (!examine_fd(fd, &file) || !is_mappable(fd, &file))
		return -ENOENT;
	*object = (struct share_object){
		.kind = SEGMENT_SHARE_FD,
		.id = fd,
		.dev = dev_of(&file),
		.ino = file.stx_ino,
		.bytes = file.stx_size,
	};
	return 0;
}

/* Finds a descriptor of this process for the object that is mapped. */
static int find_fd_in(int directory, const struct vma *vma, struct share_object *object)
{
	_Alignas(struct dirent64) char entries[4096];
	long got;

	while ((got = syscall(SYS_getdents64, directory, entries, sizeof(entries))) > 0) {
		for (long at = 0; at < got;) {
			const struct dirent64 *entry = (const void *)(entries + at);
			struct statx file;
			int fd = (int)strtol(entry->d_name, NULL, 10);

			at += entry->d_reclen;
			if (entry->d_name[0] == '.' || !examine_fd(fd, &file) ||
			    dev_of(&file) != vma->dev || file.stx_ino != vma->ino)
				continue;
			if (!describe_fd(fd, object))
				return 0;
		}
	}
	return -ENOENT;
}

static int find_fd(const struct vma *vma, struct share_object *object)
{
	int directory = sys_open("/proc/self/fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int ret;

	if (directory < 0)
		return -errno;
	ret = find_fd_in(directory, vma, object);
	sys_close(directory);
	return ret;
}

/* The program has closed its descriptors of the file. `addr` is in the mapping. */
static int describe_mapping(const void *addr, struct share_object *object)
{
	struct vma vma;
	int ret = vma_find((uintptr_t)addr, 1, &vma);

	if (ret)
		return ret;
	*object = (struct share_object){
		.kind = SEGMENT_SHARE_MAPPING,
		.id = (int64_t)vma.start,
		.dev = vma.dev,
		.ino = vma.ino,
		.stamp = vma.end,
		.bytes = vma.offset + (vma.end - vma.start),
	};
	return 0;
}

static int find_sysv(const struct vma *vma, struct share_object *object)
{
	struct shmid_ds ds;

	if (vma->ino > INT32_MAX || shmctl((int)vma->ino, IPC_STAT, &ds))
		return -ENOENT;
	*object = (struct share_object){
		.kind = SEGMENT_SHARE_SYSV,
		.id = (int64_t)vma->ino,
		.dev = vma->dev,
		.ino = vma->ino,
		.stamp = segment_sysv_stamp(ds.shm_ctime, ds.shm_cpid),
		.bytes = ds.shm_segsz,
	};
	return 0;
}

/* *offset: of the MR's first byte in the object. */
static int find_object(const struct mr *mr, struct share_object *object, uint64_t *offset)
{
	struct vma vma;
	int ret = vma_find((uintptr_t)mr->addr, mr->length, &vma);

	if (ret)
		return ret;
	if (!vma.is_shared)
		return -ENOENT;
	*offset = vma.offset + ((uintptr_t)mr->addr - vma.start);
	if (major(vma.dev) == 0 && !strncmp(vma.name, SYSV_PREFIX, strlen(SYSV_PREFIX)))
		ret = find_sysv(&vma, object);
	else if (find_fd(&vma, object))
		ret = describe_mapping(mr->addr, object);
	if (!ret && (*offset > object->bytes || mr->length > object->bytes - *offset))
		ret = -ENOENT;
	return ret;
}

static bool is_published_as(const struct segment_share *share, const struct share_object *object)
{
	return segment_share_kind(atomic_load_explicit(&share->word, memory_order_relaxed)) ==
		       object->kind &&
	       share->id == object->id && share->dev == object->dev && share->ino == object->ino &&
	       share->stamp == object->stamp;
}

/* The place of the published object; 0: it is not published and all entries are used. */
static uint32_t share_place(struct local *local, const struct share_object *object)
{
	struct segment *segment = local->segment;
	uint32_t end = atomic_load_explicit(&segment->hdr.shares_end, memory_order_relaxed);
	uint32_t unused = 0;

	for (uint32_t i = 0; i < end; i++) {
		if (is_published_as(&segment->shares[i], object))
			return i + 1;
		if (!unused && !local->share_users[i])
			unused = i + 1;
	}
	if (unused || end == SEGMENT_SHARES)
		return unused;
	atomic_store_explicit(&segment->hdr.shares_end, end + 1, memory_order_relaxed);
	return end + 1;
}

static void publish_object(struct segment_share *share, const struct share_object *object)
{
	segment_revoke_word(&share->word);
	share->id = object->id;
	share->dev = object->dev;
	share->ino = object->ino;
	share->stamp = object->stamp;
	atomic_store_explicit(&share->bytes, object->bytes, memory_order_relaxed);
	atomic_store(&share->word,
		     segment_share_word(segment_next_generation(&share->word), object->kind));
}

/* Publishes the object, if it is not published yet, as that of the entry. */
static void set_share(struct local *local, struct segment_mr *entry,
		      const struct share_object *object, uint64_t offset)
{
	uint32_t place = share_place(local, object);
	struct segment_share *share;

	if (!place) {
		atomic_store_explicit(&entry->share, SEGMENT_SHARE_NONE, memory_order_relaxed);
		return;
	}
	share = &local->segment->shares[place - 1];
	if (!local->share_users[place - 1]++)
		publish_object(share, object);
	else if (object->bytes > atomic_load_explicit(&share->bytes, memory_order_relaxed))
		atomic_store_explicit(&share->bytes, object->bytes, memory_order_relaxed);
	entry->share_generation =
		segment_generation(atomic_load_explicit(&share->word, memory_order_relaxed));
	entry->share_offset = offset;
	atomic_store_explicit(&entry->share, place, memory_order_release);
}

/*
 * Whether the memory of the MR can have an object. The pages of an on-demand MR can be mapped
 * differently at any time.
 */
static bool may_be_shared(const struct mr *mr)
{
	return mr->length && !mr->is_null && !mr->is_unreachable &&
	       !(mr->access & IBV_ACCESS_ON_DEMAND);
}

/* Keeps the memory of the MR in the file of the arena until unkeep_memory(). 0 or -errno. */
static int keep_memory(struct local *local, const struct mr *mr, const struct segment_mr *entry,
		       int *fd, uint64_t *offset)
{
	void *kept;

	if (!usrdma_arena_keep)
		return -ENOENT;
	if (!local->arena_kept)
		local->arena_kept = calloc(SEGMENT_MRS, sizeof(*local->arena_kept));
	if (!local->arena_kept)
		return -ENOMEM;
	kept = usrdma_arena_keep(mr->addr, mr->length, fd, offset);
	if (!kept)
		return -ENOENT;
	local->arena_kept[entry - local->segment->mrs] = kept;
	return 0;
}

static void unkeep_memory(struct local *local, const struct segment_mr *entry)
{
	void **kept = local->arena_kept ? &local->arena_kept[entry - local->segment->mrs] : NULL;

	if (!kept || !*kept)
		return;
	usrdma_arena_unkeep(*kept);
	*kept = NULL;
}

void share_publish(struct engine *engine, const struct mr *mr, struct segment_mr *entry)
{
	struct local *local = local_of(engine);
	struct share_object object;
	uint64_t offset;
	uint32_t place;
	int fd;

	engine_assert_locked(engine);
	entry->share_generation = 0;
	entry->share_offset = 0;
	atomic_store_explicit(&entry->share, may_be_shared(mr) ? 0 : SEGMENT_SHARE_NONE,
			      memory_order_relaxed);
	if (!may_be_shared(mr) || keep_memory(local, mr, entry, &fd, &offset) ||
	    describe_fd(fd, &object))
		return;
	set_share(local, entry, &object, offset);
	/* An arena exists as long as the process. */
	place = atomic_load_explicit(&entry->share, memory_order_relaxed);
	if (place <= SEGMENT_SHARES && local->share_users[place - 1] == 1)
		local->share_users[place - 1]++;
}

void share_resolve(struct peer *peer, uint32_t rkey)
{
	struct local *local = local_of(peer->engine);
	const struct mr *mr = mr_find(peer->engine, rkey);
	struct share_object object;
	struct segment_mr *entry;
	uint64_t offset;
	uint32_t place;

	engine_assert_locked(peer->engine);
	if (!mr || !peer->was_admitted)
		return;
	place = atomic_load_explicit(&local->segment->mr_places[rkey % SEGMENT_MRS],
				     memory_order_relaxed);
	if (!place)
		return;
	entry = &local->segment->mrs[place - 1];
	if (segment_mr_rkey(atomic_load_explicit(&entry->word, memory_order_relaxed)) != rkey ||
	    atomic_load_explicit(&entry->share, memory_order_relaxed))
		return;
	if (find_object(mr, &object, &offset))
		atomic_store_explicit(&entry->share, SEGMENT_SHARE_NONE, memory_order_relaxed);
	else
		set_share(local, entry, &object, offset);
}

void share_send_notice(struct peer *peer)
{
	shard_assert_locked(peer->engine, peer->our_shard);
	if (!peer->share_notice_waits || !ring_write_notice(&peer->tx, CELL_SHARE_GONE, 0))
		return;
	peer->has_sent = true;
	peer->share_notice_waits = false;
}

/*
 * Notifies each peer that has ever announced an access. Peers that did not request the object map
 * it, too, if the MR's entry has it. A peer announces its access before it reads the word of the
 * object: either it finds the revoked word, or its thread id is read here.
 */
static void notify_peers(struct local *local)
{
	struct peer *peer;

	atomic_thread_fence(memory_order_seq_cst);
	list_for_each_entry(peer, &local->peers, node) {
		if (!peer->was_admitted ||
		    !atomic_load_explicit(&peer->rx.shared->accessing_tid, memory_order_relaxed))
			continue;
		peer->share_notice_waits = true;
		share_send_notice(peer);
		local_finish_turn(peer);
	}
}

void share_release(struct engine *engine, struct segment_mr *entry)
{
	struct local *local = local_of(engine);
	uint32_t place = atomic_load_explicit(&entry->share, memory_order_relaxed);

	engine_assert_all_locked(engine);
	unkeep_memory(local, entry);
	if (!place || place > SEGMENT_SHARES)
		return;
	atomic_store_explicit(&entry->share, 0, memory_order_relaxed);
	if (--local->share_users[place - 1])
		return;
	segment_revoke_word(&local->segment->shares[place - 1].word);
	notify_peers(local);
}
