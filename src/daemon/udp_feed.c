/* SPDX-License-Identifier: BSD-2-Clause */
#include "daemon/udp_feed.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/resize.h"
#include "base/seal.h"

#define MEMFD_NOEXEC_SEAL 0x0008u /* Linux 6.3; headers of Debian 12 lack it */
#define STORED_BYTES	  offsetof(struct udp_ring_memory, cells)

static int sealable_memory(const char *name, size_t bytes)
{
	int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING | MEMFD_NOEXEC_SEAL);
	int error;

	if (fd < 0 && errno == EINVAL)
		fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (fd < 0)
		return -errno;
	error = resize_memory(fd, bytes);
	if (!error)
		return fd;
	close(fd);
	return error;
}

static int seal(int fd, int seals)
{
	return fcntl(fd, F_ADD_SEALS, seals) ? -errno : 0;
}

/*
 * Creates the memory of the ring, which only this process can write. The part that this process
 * stores to directly is allocated at once. The elements (cells) are written by recvmsg(), which
 * returns EFAULT if the machine has no memory for one.
 */
static int udp_feed_open_memory(struct udp_feed *feed, int *fd)
{
	int error;

	*fd = sealable_memory("usrdma-ring", sizeof(*feed->memory));
	if (*fd < 0)
		return *fd;
	error = fallocate(*fd, 0, 0, (off_t)STORED_BYTES) ? -errno : 0;
	if (error)
		goto err_memory;
	feed->memory = mmap(NULL, sizeof(*feed->memory), PROT_READ | PROT_WRITE, MAP_SHARED, *fd,
			    0);
	if (feed->memory == MAP_FAILED) {
		error = -errno;
		goto err_memory;
	}
	error = seal_future_writes(fd, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
	if (!error)
		return 0;
	munmap(feed->memory, sizeof(*feed->memory));
err_memory:
	close(*fd);
	return error;
}

static int open_words(struct udp_feed *feed, int *fd)
{
	int error;

	*fd = sealable_memory("usrdma-ring-words", sizeof(struct udp_ring_words));
	if (*fd < 0)
		return *fd;
	error = seal(*fd, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
	if (!error) {
		feed->words_fd = fcntl(*fd, F_DUPFD_CLOEXEC, 0);
		if (feed->words_fd >= 0)
			return 0;
		error = -errno;
	}
	close(*fd);
	return error;
}

static int open_bells(struct udp_feed *feed, int fds[UDP_RING_FDS])
{
	int bell[2], error;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, bell))
		return -errno;
	/*
	 * The consumer must not send on this socket: closing the socket would close descriptors
	 * that the consumer sent, which may block.
	 */
	(void)shutdown(bell[0], SHUT_RD);
	feed->bell_fd = bell[0];
	fds[UDP_RING_FD_BELL] = bell[1];
	feed->room_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	fds[UDP_RING_FD_ROOM] = feed->room_fd < 0 ? -1 : fcntl(feed->room_fd, F_DUPFD_CLOEXEC, 0);
	if (fds[UDP_RING_FD_ROOM] >= 0)
		return 0;
	error = -errno;
	if (feed->room_fd >= 0)
		close(feed->room_fd);
	close(bell[0]);
	close(bell[1]);
	return error;
}

int udp_feed_open(struct udp_feed *feed, int socket_fd, int fds[UDP_RING_FDS])
{
	int error;

	*feed = (struct udp_feed){.socket_fd = socket_fd, .free_count = UDP_RING_CELLS};
	for (uint32_t i = 0; i < UDP_RING_CELLS; i++)
		feed->free_cells[i] = (uint8_t)i;
	error = udp_feed_open_memory(feed, &fds[UDP_RING_FD_MEMORY]);
	if (error)
		return error;
	error = open_words(feed, &fds[UDP_RING_FD_WORDS]);
	if (error)
		goto err_words;
	error = open_bells(feed, fds);
	if (!error)
		return 0;
	close(feed->words_fd);
	close(fds[UDP_RING_FD_WORDS]);
err_words:
	munmap(feed->memory, sizeof(*feed->memory));
	close(fds[UDP_RING_FD_MEMORY]);
	return error;
}

void udp_feed_close(struct udp_feed *feed)
{
	munmap(feed->memory, sizeof(*feed->memory));
	close(feed->words_fd);
	close(feed->bell_fd);
	close(feed->room_fd);
}

struct words {
	uint32_t tail;
	uint32_t sleeps;
};
static_assert(sizeof(struct words) == sizeof(struct udp_ring_words), "the same in memory");

/*
 * Reads the words that the consumer has written. pread() fails, but does not fault, whatever the
 * consumer does to the memory. A system call is not a fence. The first fence orders the stores of
 * `head` and `full` before the load: it pairs with those of link/udp_ring.c. The second one makes
 * the load an acquire: the consumer has read the elements that its tail frees.
 */
static bool read_words(const struct udp_feed *feed, struct words *words)
{
	ssize_t n;

	atomic_thread_fence(memory_order_seq_cst);
	n = pread(feed->words_fd, words, sizeof(*words), 0);
	atomic_thread_fence(memory_order_acquire);
	return n == (ssize_t)sizeof(*words);
}

/* Frees the elements of the entries that the consumer has processed. An invalid tail is ignored. */
static void udp_feed_take_back(struct udp_feed *feed, uint32_t tail)
{
	if (tail - feed->tail > feed->head - feed->tail)
		return;
	while (feed->tail != tail)
		feed->free_cells[feed->free_count++] = feed->cell_of[feed->tail++ % UDP_RING_CELLS];
}

static void look_for_room(struct udp_feed *feed)
{
	struct words words;

	if (read_words(feed, &words))
		udp_feed_take_back(feed, words.tail);
}

static bool udp_feed_has_room(struct udp_feed *feed)
{
	if (feed->free_count)
		return true;
	look_for_room(feed);
	if (feed->free_count)
		return true;
	/*
	 * A consumer that frees an entry after this store signals room_fd. An entry that was freed
	 * before is found by the second check.
	 */
	feed->full_count++;
	atomic_store_explicit(&feed->memory->full, (uint32_t)feed->full_count,
			      memory_order_relaxed);
	look_for_room(feed);
	return feed->free_count > 0;
}

static void fill_entry(struct udp_feed *feed, const struct udp_rx_control *control, size_t len)
{
	struct udp_ring_entry *entry = &feed->memory->entries[feed->head % UDP_RING_CELLS];
	uint8_t cell = feed->free_cells[--feed->free_count];

	memcpy(entry->local_gid, control->local_gid, GID_BYTES);
	memcpy(entry->remote_gid, control->remote_gid, GID_BYTES);
	entry->ifindex = control->ifindex;
	entry->flow_label = control->flow_label;
	entry->segment_bytes = (uint32_t)control->segment_bytes;
	entry->len_bytes = (uint32_t)len;
	entry->cell = cell;
	entry->src_port = control->src_port;
	entry->traffic_class = control->traffic_class;
	entry->hop_limit = control->hop_limit;
	feed->cell_of[feed->head % UDP_RING_CELLS] = cell;
	feed->head++;
	feed->datagrams++;
}

/* Receives one datagram directly into an element of the ring. false: the socket has no datagram. */
static bool move_one(struct udp_feed *feed)
{
	struct udp_rx_control control;
	struct sockaddr_in6 from;
	struct iovec iov = {feed->memory->cells[feed->free_cells[feed->free_count - 1]],
			    UDP_RING_CELL_BYTES};
	_Alignas(struct cmsghdr) uint8_t bytes[UDP_RX_CONTROL_BYTES];
	struct msghdr msg = {
		.msg_name = &from,
		.msg_namelen = sizeof(from),
		.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = bytes,
		.msg_controllen = sizeof(bytes),
	};
	ssize_t len = recvmsg(feed->socket_fd, &msg, MSG_DONTWAIT);

	/* EFAULT: no memory; this datagram is lost, the next one may be received. */
	if (len < 0)
		return errno == EFAULT || errno == EINTR;
	udp_rx_control_read(&control, &msg);
	fill_entry(feed, &control, (size_t)len);
	return true;
}

static void udp_feed_publish(struct udp_feed *feed)
{
	struct words words;

	atomic_store_explicit(&feed->memory->head, feed->head, memory_order_release);
	if (!read_words(feed, &words))
		return;
	udp_feed_take_back(feed, words.tail);
	if (!(words.sleeps & 1) || words.sleeps == feed->woken_at)
		return;
	feed->woken_at = words.sleeps;
	/* If the socket is full, the consumer has unread wake-ups. */
	(void)send(feed->bell_fd, "", 1, MSG_DONTWAIT | MSG_NOSIGNAL);
}

enum udp_feed_state udp_feed_run(struct udp_feed *feed, unsigned int max)
{
	enum udp_feed_state state = UDP_FEED_MORE;
	uint32_t before = feed->head;

	for (unsigned int i = 0; i < max && state == UDP_FEED_MORE; i++) {
		if (!udp_feed_has_room(feed))
			state = UDP_FEED_FULL;
		else if (!move_one(feed))
			state = UDP_FEED_EMPTY;
	}
	if (feed->head != before)
		udp_feed_publish(feed);
	return state;
}
