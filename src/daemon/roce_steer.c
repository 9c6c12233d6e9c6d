/* SPDX-License-Identifier: BSD-2-Clause */
#include "daemon/roce_steer.h"

#include <assert.h>
#include <errno.h>
#include <linux/if_arp.h>
#include <netinet/ip6.h>
#include <stddef.h>
#include <sys/socket.h>

#include "base/be.h"
#include "base/util.h"
#include "ipc/msg.h"

/*
 * Bytes 4 to 7 of the UDP payload: the lower 24 bits are BTH.DestQP, whose upper bits (from
 * IPC_SLOT_SHIFT) are the slot.
 */
#define DEST_QP_WORD 4
#define STEER_INSNS  4 /* of the instructions that return the slot */

#define VERSION_SHIFT 4 /* in the first byte of an IP header */
#define VERSION_IPV6  6
#define SOURCE_WORDS  4
#define SOURCE_INSNS  (2 * SOURCE_WORDS + 1) /* that compare one address */

static void steer_append(struct roce_steer *steer, struct sock_filter insn)
{
	assert(steer->len < COUNT(steer->code));
	steer->code[steer->len++] = insn;
}

/* The instructions that return the slot of the destination QPN. */
static void append_slot(struct roce_steer *steer)
{
	steer_append(steer, (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, DEST_QP_WORD));
	steer_append(steer, (struct sock_filter)BPF_STMT(BPF_ALU | BPF_AND | BPF_K, MASK_24));
	steer_append(steer,
		     (struct sock_filter)BPF_STMT(BPF_ALU | BPF_RSH | BPF_K, IPC_SLOT_SHIFT));
	steer_append(steer, (struct sock_filter)BPF_STMT(BPF_RET | BPF_A, 0));
}

/* Jumps in classic BPF go forward only: the slot of a datagram from a device comes first. */
void roce_steer_begin(struct roce_steer *steer)
{
	const struct sock_filter head[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (uint32_t)(SKF_AD_OFF + SKF_AD_HATYPE)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ARPHRD_LOOPBACK, 0, 3),
		BPF_STMT(BPF_LD | BPF_B | BPF_ABS, (uint32_t)SKF_NET_OFF),
		BPF_STMT(BPF_ALU | BPF_RSH | BPF_K, VERSION_SHIFT),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, VERSION_IPV6, STEER_INSNS, 0),
	};

	steer->len = 0;
	steer->source_count = 0;
	for (unsigned int i = 0; i < COUNT(head); i++)
		steer_append(steer, head[i]);
	append_slot(steer);
	for (uint32_t i = 0; i < SOURCE_WORDS; i++) {
		uint32_t offset = (uint32_t)(offsetof(struct ip6_hdr, ip6_src) + 4 * i);

		steer_append(steer, (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
								 (uint32_t)SKF_NET_OFF + offset));
		steer_append(steer, (struct sock_filter)BPF_STMT(BPF_ST, i));
	}
}

/*
 * Compares the words of an address, the last word first: addresses of one host often differ in this
 * word only. The last instruction, which is reached if all words are equal, is completed by
 * roce_steer_end().
 */
bool roce_steer_add_source(struct roce_steer *steer, const uint8_t gid[GID_BYTES])
{
	if (gid_is_ipv4(gid))
		return true;
	if (steer->source_count == ROCE_STEER_SOURCES_MAX)
		return false;
	steer->source_count++;
	for (uint32_t left = SOURCE_WORDS; left-- > 0;) {
		uint8_t behind = (uint8_t)(2 * left + 1);

		steer_append(steer, (struct sock_filter)BPF_STMT(BPF_LD | BPF_MEM, left));
		steer_append(steer,
			     (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K,
							  be_load32(gid + 4 * left), 0, behind));
	}
	steer_append(steer, (struct sock_filter)BPF_STMT(BPF_JMP | BPF_JA, 0));
	return true;
}

void roce_steer_end(struct roce_steer *steer)
{
	unsigned int end = steer->len;

	steer_append(steer, (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, IPC_SLOTS));
	for (uint32_t i = 0; i < steer->source_count; i++) {
		unsigned int jump = end - 1 - i * SOURCE_INSNS;

		steer->code[jump].k = end - jump;
	}
	append_slot(steer);
}

int roce_steer_attach(const struct roce_steer *steer, int fd)
{
	/* The kernel copies the program and does not change it. */
	const struct sock_fprog program = {
		.len = steer->len,
		.filter = (struct sock_filter *)(uintptr_t)steer->code,
	};

	return setsockopt(fd, SOL_SOCKET, SO_ATTACH_REUSEPORT_CBPF, &program, sizeof(program)) ?
		       -errno :
		       0;
}

int roce_steer_block(int fd)
{
	struct sock_filter nothing = BPF_STMT(BPF_RET | BPF_K, 0);
	const struct sock_fprog program = {.len = 1, .filter = &nothing};

	return setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof(program)) ? -errno : 0;
}
