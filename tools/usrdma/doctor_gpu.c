/* SPDX-License-Identifier: BSD-2-Clause */
/* Whether NCCL and UCX will try to register the memory of a GPU, which usrdma cannot access. */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "doctor.h"
#include "profile/view.h"

#define NO_GPU_DIRECT "export NCCL_DMABUF_ENABLE=0 NCCL_NET_GDR_LEVEL=LOC UCX_IB_GPU_DIRECT_RDMA=n"

/* Files that exist while the driver of a GPU is loaded. */
static const char *const gpu_files[] = {"/proc/driver/nvidia/version", "/sys/module/nvidia",
					"/dev/kfd"};

/* While one of these files exists, NCCL and UCX pass addresses of device memory to ibv_reg_mr(). */
static const char *const peer_files[] = {
	"/sys/module/nvidia_peermem/version",
	"/sys/module/nv_peer_mem/version",
	"/sys/kernel/mm/memory_peers/nv_mem/version",
	"/sys/kernel/mm/memory_peers/nv_mem_nc/version",
	"/sys/kernel/mm/memory_peers/nvidia-peermem/version",
	"/dev/kfd",
};

static const char *first_file(const char *const *files, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		if (!access(files[i], F_OK))
			return files[i];
	}
	return NULL;
}

/* Variables that container runtimes and users set if there is a GPU. */
static const char *gpu_variable(void)
{
	static const char *const names[] = {"NVIDIA_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES",
					    "ROCR_VISIBLE_DEVICES"};
	static const char *const none[] = {"", "void", "none", "-1", "NoDevFiles"};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		const char *value = getenv(names[i]);
		bool is_none = !value;

		for (size_t k = 0; !is_none && k < sizeof(none) / sizeof(none[0]); k++)
			is_none = !strcmp(value, none[k]);
		if (!is_none)
			return names[i];
	}
	return NULL;
}

static bool is_value(const char *name, const char *const *values)
{
	const char *value = getenv(name);

	for (; value && *values; values++) {
		if (!strcmp(value, *values))
			return true;
	}
	return false;
}

/* Whether the environment keeps both libraries from using GPUDirect RDMA. */
static bool uses_host_memory(void)
{
	return is_value("NCCL_DMABUF_ENABLE", (const char *const[]){"0", NULL}) &&
	       is_value("NCCL_NET_GDR_LEVEL", (const char *const[]){"LOC", "0", NULL}) &&
	       is_value("UCX_IB_GPU_DIRECT_RDMA", (const char *const[]){"n", "no", "0", NULL});
}

void doctor_check_gpu(struct doctor *doctor)
{
	const char *peer = first_file(peer_files, sizeof(peer_files) / sizeof(peer_files[0]));
	const char *gpu = first_file(gpu_files, sizeof(gpu_files) / sizeof(gpu_files[0]));
	bool is_promised = profile_value(&view_of_process()->general, PROFILE_GPU, 0);

	if (!gpu)
		gpu = gpu_variable();
	if (!gpu && !peer && !is_promised)
		return;
	if (uses_host_memory())
		doctor_say(doctor, DOCTOR_OK, NULL,
			   "GPU: the environment makes NCCL and UCX use host memory");
	else if (is_promised)
		doctor_say(
			doctor, DOCTOR_WARNING, NO_GPU_DIRECT,
			"GPU: with gpu=yes in " VIEW_PROFILE_ENV
			", NCCL and UCX register the memory of GPUs, which fails unless the CPU can map it");
	else if (peer)
		doctor_say(
			doctor, DOCTOR_WARNING, NO_GPU_DIRECT,
			"GPU: %s exists, so NCCL and UCX register the memory of GPUs, which fails with EFAULT",
			peer);
	else
		doctor_say(
			doctor, DOCTOR_OK, NULL,
			"GPU: found %s; programs use host memory, because the devices do not register that of GPUs",
			gpu);
}
