// SPDX-License-Identifier: BSD-2-Clause
// DEVICE SIZE RANK DIRECTORY: sums the vectors of SIZE processes over gloo's transport ibverbs, and checks the sums.
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include <gloo/allreduce_ring.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/ibverbs/device.h>

int main(int argc, char **argv)
{
	if (argc != 5)
		return 2;
	const int size = std::atoi(argv[2]), rank = std::atoi(argv[3]), count = 100000;
	// Index 3 is the RoCE v2 GID of the first IPv4 address.
	gloo::transport::ibverbs::attr attributes = {argv[1], 1, 3};
	auto device = gloo::transport::ibverbs::CreateDevice(attributes);
	gloo::rendezvous::FileStore store(argv[4]);
	auto context = std::make_shared<gloo::rendezvous::Context>(rank, size);
	context->connectFullMesh(store, device);

	std::vector<float> data(count, static_cast<float>(rank + 1));
	// Not destroyed: the destructor aborts if a completion of the last send has not arrived.
	auto allreduce = new gloo::AllreduceRing<float>(context, {data.data()}, count);
	allreduce->run();
	const float sum = static_cast<float>(size * (size + 1) / 2);
	for (float value : data) {
		if (value != sum) {
			std::fprintf(stderr, "rank %d: %f, not %f\n", rank, value, sum);
			return 1;
		}
	}
	std::printf("rank %d: the sums of %d numbers of %d processes are right\n", rank, count, size);
	std::fflush(stdout);

	// No process ends before all have their sums.
	std::vector<std::string> all;
	for (int i = 0; i < size; i++)
		all.push_back("done" + std::to_string(i));
	store.set(all[rank], {1});
	store.wait(all);
	std::quick_exit(0);
}
