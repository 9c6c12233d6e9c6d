/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * An MPI program that verifies its data. Every rank concurrently sends buffers of 1 byte to 4 MiB
 * to its right neighbour and receives from its left. All ranks sum vectors of the same lengths; one
 * gathers from all. Each byte depends on the sender, its offset and the round. Rank 0 prints a line
 * if all data was right.
 */
#include <mpi.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define BYTES_MAX (4 << 20)
#define ROUNDS	  3

static unsigned char *sent, *received;
static int rank, ranks;

static unsigned char pattern(int from, int round, int at)
{
	return (unsigned char)(from * 89 + round * 31 + at * 7 + (at >> 8) * 13);
}

static void expect(bool truth, const char *what, int bytes)
{
	if (truth)
		return;
	fprintf(stderr, "rank %d: %s of %d bytes brought something else\n", rank, what, bytes);
	MPI_Abort(MPI_COMM_WORLD, 1);
}

/*
 * If a connection ends during a rendezvous, libfabric reports the outstanding RDMA READ as
 * FI_ECANCELED. Open MPI then completes the receive as cancelled and without an error, and the rest
 * of the buffer is unchanged.
 */
static void expect_complete(const MPI_Status *status, int bytes)
{
	int is_cancelled;

	MPI_Test_cancelled(status, &is_cancelled);
	if (!is_cancelled)
		return;
	fprintf(stderr, "rank %d: the connection ended during a receive of %d bytes\n", rank,
		bytes);
	MPI_Abort(MPI_COMM_WORLD, 1);
}

/*
 * Prints which bytes are wrong, because a lost packet, a lost page and an incomplete message differ
 * in them.
 */
static void expect_pattern(int from, int round, int bytes)
{
	int first = bytes, end = 0, wrong = 0, zeros = 0;

	for (int i = 0; i < bytes; i++) {
		if (received[i] == pattern(from, round, i))
			continue;
		first = i < first ? i : first;
		end = i + 1;
		wrong++;
		zeros += !received[i];
	}
	if (wrong)
		fprintf(stderr, "rank %d: %d bytes in [%d, %d) at %p are wrong, %d of them 0\n",
			rank, wrong, first, end, (void *)received, zeros);
	expect(!wrong, "sendrecv", bytes);
}

static void pass_on(int bytes, int round)
{
	int left = (rank + ranks - 1) % ranks, right = (rank + 1) % ranks;
	MPI_Status status;

	for (int i = 0; i < bytes; i++) {
		sent[i] = pattern(rank, round, i);
		received[i] = 0;
	}
	MPI_Sendrecv(sent, bytes, MPI_BYTE, right, round, received, bytes, MPI_BYTE, left, round,
		     MPI_COMM_WORLD, &status);
	expect_complete(&status, bytes);
	expect_pattern(left, round, bytes);
}

static void sum(int bytes, int round)
{
	int count = bytes / (int)sizeof(int64_t);
	int64_t *mine = (int64_t *)(void *)sent, *all = (int64_t *)(void *)received;
	bool is_right = true;

	for (int i = 0; i < count; i++)
		mine[i] = (int64_t)(rank + 1) * (i + round);
	MPI_Allreduce(mine, all, count, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD);
	for (int i = 0; i < count; i++)
		is_right &= all[i] == (int64_t)ranks * (ranks + 1) / 2 * (i + round);
	expect(is_right, "allreduce", bytes);
}

static void gather(int bytes, int round)
{
	int share = bytes / ranks;
	bool is_right = true;

	for (int i = 0; i < share; i++)
		sent[i] = pattern(rank, round, i);
	MPI_Gather(sent, share, MPI_BYTE, received, share, MPI_BYTE, round % ranks, MPI_COMM_WORLD);
	for (int from = 0; from < ranks && rank == round % ranks; from++)
		for (int i = 0; i < share; i++)
			is_right &= received[from * share + i] == pattern(from, round, i);
	expect(is_right, "gather", bytes);
}

int main(int argc, char **argv)
{
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	sent = malloc(BYTES_MAX);
	received = malloc(BYTES_MAX);
	expect(sent && received, "memory", BYTES_MAX);
	for (int bytes = 1; bytes <= BYTES_MAX; bytes *= 4) {
		for (int round = 0; round < ROUNDS; round++) {
			pass_on(bytes, round);
			sum(bytes, round);
			gather(bytes, round);
			MPI_Barrier(MPI_COMM_WORLD);
		}
	}
	if (!rank)
		printf("%d ranks: all as it should be\n", ranks);
	free(sent);
	free(received);
	MPI_Finalize();
	return 0;
}
