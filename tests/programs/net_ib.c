/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Makes the calls with which NCCL's InfiniBand transport starts, finds devices, connects, transfers
 * and recovers, on each device:
 *
 *	net_ib
 *
 * The library is loaded by dlopen(3) and dlvsym(3), and this program is not linked with it. Each
 * device is a rail, whose queue pairs are connected with each other. Prints one line for each
 * device, or the call that failed and exits with 1.
 */
#include <arpa/inet.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BUF_BYTES 65536u
#define DEVICES	  32
#define ACCESS                                                                       \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | \
	 IBV_ACCESS_REMOTE_ATOMIC)

/* The exponent and count of NCCL; the last ones end soon, for a peer that does not answer. */
#define TIMEOUT	      20
#define RETRIES	      7
#define SHORT_TIMEOUT 10
#define SHORT_RETRIES 1

struct calls {
	struct ibv_device **(*get_device_list)(int *);
	void (*free_device_list)(struct ibv_device **);
	const char *(*get_device_name)(struct ibv_device *);
	struct ibv_context *(*open_device)(struct ibv_device *);
	int (*close_device)(struct ibv_context *);
	int (*get_async_event)(struct ibv_context *, struct ibv_async_event *);
	void (*ack_async_event)(struct ibv_async_event *);
	int (*query_device)(struct ibv_context *, struct ibv_device_attr *);
	int (*query_port)(struct ibv_context *, uint8_t, struct ibv_port_attr *);
	int (*query_gid)(struct ibv_context *, uint8_t, int, union ibv_gid *);
	int (*query_qp)(struct ibv_qp *, struct ibv_qp_attr *, int, struct ibv_qp_init_attr *);
	struct ibv_pd *(*alloc_pd)(struct ibv_context *);
	int (*dealloc_pd)(struct ibv_pd *);
	struct ibv_mr *(*reg_mr)(struct ibv_pd *, void *, size_t, int);
	int (*dereg_mr)(struct ibv_mr *);
	struct ibv_cq *(*create_cq)(struct ibv_context *, int, void *, struct ibv_comp_channel *,
				    int);
	int (*destroy_cq)(struct ibv_cq *);
	struct ibv_qp *(*create_qp)(struct ibv_pd *, struct ibv_qp_init_attr *);
	int (*modify_qp)(struct ibv_qp *, struct ibv_qp_attr *, int);
	int (*destroy_qp)(struct ibv_qp *);
	int (*fork_init)(void);
	const char *(*event_type_str)(enum ibv_event_type);
	/* Of later versions. */
	struct ibv_mr *(*reg_mr_iova2)(struct ibv_pd *, void *, size_t, uint64_t, unsigned int);
	struct ibv_mr *(*reg_dmabuf_mr)(struct ibv_pd *, uint64_t, size_t, uint64_t, int, int);
	int (*query_ece)(struct ibv_qp *, struct ibv_ece *);
	int (*set_ece)(struct ibv_qp *, struct ibv_ece *);
	int (*query_port_speed)(struct ibv_context *, uint32_t, uint64_t *);
};

static struct calls calls;

#define CALL(member, version)                                           \
	{                                                               \
		"ibv_" #member, version, offsetof(struct calls, member) \
	}
static const struct {
	const char *name, *version;
	size_t offset;
} symbols[] = {
	CALL(get_device_list, "IBVERBS_1.1"),	CALL(free_device_list, "IBVERBS_1.1"),
	CALL(get_device_name, "IBVERBS_1.1"),	CALL(open_device, "IBVERBS_1.1"),
	CALL(close_device, "IBVERBS_1.1"),	CALL(get_async_event, "IBVERBS_1.1"),
	CALL(ack_async_event, "IBVERBS_1.1"),	CALL(query_device, "IBVERBS_1.1"),
	CALL(query_port, "IBVERBS_1.1"),	CALL(query_gid, "IBVERBS_1.1"),
	CALL(query_qp, "IBVERBS_1.1"),		CALL(alloc_pd, "IBVERBS_1.1"),
	CALL(dealloc_pd, "IBVERBS_1.1"),	CALL(reg_mr, "IBVERBS_1.1"),
	CALL(dereg_mr, "IBVERBS_1.1"),		CALL(create_cq, "IBVERBS_1.1"),
	CALL(destroy_cq, "IBVERBS_1.1"),	CALL(create_qp, "IBVERBS_1.1"),
	CALL(modify_qp, "IBVERBS_1.1"),		CALL(destroy_qp, "IBVERBS_1.1"),
	CALL(fork_init, "IBVERBS_1.1"),		CALL(event_type_str, "IBVERBS_1.1"),
	CALL(reg_mr_iova2, "IBVERBS_1.8"),	CALL(reg_dmabuf_mr, "IBVERBS_1.12"),
	CALL(query_ece, "IBVERBS_1.10"),	CALL(set_ece, "IBVERBS_1.10"),
	CALL(query_port_speed, "IBVERBS_1.16"),
};

/*
 * One device. The queue pairs a and b of each type are connected with each other, flush with
 * itself.
 */
struct rail {
	const char *name;
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_mr *mr;
	struct ibv_port_attr port;
	struct ibv_qp *a, *b, *flush, *uc_a, *uc_b;
	union ibv_gid gid;
	int gid_index;
	uint8_t *buf;
};

static void fail(const char *name, const char *what, int error)
{
	printf("failed: %s: %s: %s\n", name, what, strerror(error));
	exit(1);
}

static void ok(const struct rail *rail, const char *what, int error)
{
	if (error)
		fail(rail->name, what, error < 0 ? errno : error);
}

static void some(const struct rail *rail, const char *what, const void *object)
{
	if (!object)
		fail(rail->name, what, errno);
}

static void *load(const char *name, const char *numbered)
{
	void *library = dlopen(name, RTLD_NOW);

	if (!library)
		library = dlopen(numbered, RTLD_NOW);
	if (!library)
		fail(numbered, dlerror(), ENOENT);
	return library;
}

static void load_calls(void)
{
	void *verbs = load("libibverbs.so", "libibverbs.so.1");
	void *mlx5 = load("libmlx5.so", "libmlx5.so.1");

	for (size_t i = 0; i < sizeof(symbols) / sizeof(symbols[0]); i++) {
		void *symbol = dlvsym(verbs, symbols[i].name, symbols[i].version);

		if (!symbol)
			fail(symbols[i].name, symbols[i].version, ENOENT);
		memcpy((char *)&calls + symbols[i].offset, &symbol, sizeof(symbol));
	}
	if (!dlvsym(mlx5, "mlx5dv_is_supported", "MLX5_1.8"))
		fail("mlx5dv_is_supported", "MLX5_1.8", ENOENT);
}

/* The type of a GID, as open(2) of its file in sysfs reports it. */
static bool is_roce_v2(const struct rail *rail, int index)
{
	char path[256], type[32] = "";
	ssize_t length;
	int fd;

	snprintf(path, sizeof(path), "/sys/class/infiniband/%s/ports/1/gid_attrs/types/%d",
		 rail->name, index);
	fd = open(path, O_RDONLY);
	if (fd < 0)
		fail(rail->name, path, errno);
	length = read(fd, type, sizeof(type) - 1);
	close(fd);
	if (length <= 0)
		fail(rail->name, path, errno);
	return !strncmp(type, "RoCE v2", 7);
}

/* The first RoCE v2 entry of an IPv4 address; an index without a GID is all zeros. */
static void gid_choose(struct rail *rail)
{
	static const uint8_t v4_prefix[12] = {[10] = 0xff, [11] = 0xff};
	union ibv_gid gid, none = {0};
	int entries = 0;

	rail->gid_index = -1;
	for (int i = 0; i < rail->port.gid_tbl_len; i++) {
		ok(rail, "ibv_query_gid", calls.query_gid(rail->context, 1, i, &gid));
		if (!memcmp(&gid, &none, sizeof(gid)))
			continue;
		entries++;
		if (is_roce_v2(rail, i) && rail->gid_index < 0 &&
		    !memcmp(gid.raw, v4_prefix, sizeof(v4_prefix))) {
			rail->gid_index = i;
			rail->gid = gid;
		}
	}
	if (rail->gid_index < 0)
		fail(rail->name, "no IPv4 GID of type RoCE v2", ENOENT);
	printf("%s: gids %d of %d, index %d", rail->name, entries, rail->port.gid_tbl_len,
	       rail->gid_index);
}

static void *watch_events(void *arg)
{
	const struct rail *rail = arg;
	struct ibv_async_event event;

	while (!calls.get_async_event(rail->context, &event)) {
		if (!calls.event_type_str(event.event_type))
			fail(rail->name, "ibv_event_type_str", EINVAL);
		calls.ack_async_event(&event);
	}
	return NULL;
}

/* Queries the port as NCCL does: through the table of the extended context. */
static void port_query(struct rail *rail)
{
	struct verbs_context *table = verbs_get_ctx(rail->context);
	struct ibv_device_attr device;
	uint64_t speed = 0;

	ok(rail, "ibv_query_device", calls.query_device(rail->context, &device));
	some(rail, "verbs_context", table);
	ok(rail, "query_port",
	   table->query_port(rail->context, 1, &rail->port, sizeof(rail->port)));
	if (rail->port.state != IBV_PORT_ACTIVE || rail->port.link_layer != IBV_LINK_LAYER_ETHERNET)
		fail(rail->name, "port state or link layer", EINVAL);
	ok(rail, "ibv_query_port_speed", calls.query_port_speed(rail->context, 1, &speed));
	gid_choose(rail);
	printf(", speed %" PRIu64 " Mb/s", speed * 100);
}

static void rail_open(struct rail *rail, struct ibv_device *device)
{
	pthread_t thread;

	rail->name = calls.get_device_name(device);
	rail->context = calls.open_device(device);
	some(rail, "ibv_open_device", rail->context);
	port_query(rail);
	ok(rail, "pthread_create", pthread_create(&thread, NULL, watch_events, rail));
	rail->pd = calls.alloc_pd(rail->context);
	some(rail, "ibv_alloc_pd", rail->pd);
	rail->cq = calls.create_cq(rail->context, 256, NULL, NULL, 0);
	some(rail, "ibv_create_cq", rail->cq);
	if (posix_memalign((void **)&rail->buf, 4096, 2 * BUF_BYTES))
		fail(rail->name, "posix_memalign", ENOMEM);
	rail->mr = calls.reg_mr_iova2(rail->pd, rail->buf, 2 * BUF_BYTES, (uintptr_t)rail->buf,
				      ACCESS | IBV_ACCESS_RELAXED_ORDERING);
	some(rail, "ibv_reg_mr_iova2", rail->mr);
	errno = 0;
	if (calls.reg_dmabuf_mr(rail->pd, 0, 0, 0, -1, 0))
		fail(rail->name, "ibv_reg_dmabuf_mr(-1) succeeded", EINVAL);
	printf(", gpu %s", errno == EOPNOTSUPP || errno == EPROTONOSUPPORT ? "no" : "yes");
}

static struct ibv_qp *qp_open(const struct rail *rail, enum ibv_qp_type type)
{
	struct ibv_qp_init_attr init = {
		.send_cq = rail->cq,
		.recv_cq = rail->cq,
		.qp_type = type,
		.cap = {.max_send_wr = 64, .max_recv_wr = 64, .max_send_sge = 1, .max_recv_sge = 1},
	};
	struct ibv_qp *qp = calls.create_qp(rail->pd, &init);

	some(rail, "ibv_create_qp", qp);
	return qp;
}

static void qp_reset(const struct rail *rail, struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RESET};

	ok(rail, "RESET", calls.modify_qp(qp, &attr, IBV_QP_STATE));
}

static void qp_connect(const struct rail *rail, struct ibv_qp *qp, const struct ibv_qp *peer,
		       bool is_short)
{
	bool is_rc = qp->qp_type == IBV_QPT_RC;
	struct ibv_ece ece = {0};
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT,
		.port_num = 1,
		.qp_access_flags = is_rc ? ACCESS : IBV_ACCESS_REMOTE_WRITE,
		.path_mtu = rail->port.active_mtu,
		.dest_qp_num = peer->qp_num,
		.max_dest_rd_atomic = 1,
		.max_rd_atomic = 1,
		.min_rnr_timer = 12,
		.timeout = is_short ? SHORT_TIMEOUT : TIMEOUT,
		.retry_cnt = is_short ? SHORT_RETRIES : RETRIES,
		.rnr_retry = 7,
		.ah_attr = {.is_global = 1,
			    .port_num = 1,
			    .grh = {.dgid = rail->gid,
				    .sgid_index = (uint8_t)rail->gid_index,
				    .hop_limit = 255}},
	};

	ok(rail, "INIT",
	   calls.modify_qp(qp, &attr,
			   IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS));
	/*
	 * The result is ignored, because a device may not support Enhanced Connection
	 * Establishment.
	 */
	calls.query_ece(qp, &ece);
	attr.qp_state = IBV_QPS_RTR;
	ok(rail, "RTR",
	   calls.modify_qp(qp, &attr,
			   IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
				   IBV_QP_RQ_PSN |
				   (is_rc ? IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER : 0)));
	attr.qp_state = IBV_QPS_RTS;
	ok(rail, "RTS",
	   calls.modify_qp(qp, &attr,
			   IBV_QP_STATE | IBV_QP_SQ_PSN |
				   (is_rc ? IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
						    IBV_QP_MAX_QP_RD_ATOMIC :
					    0)));
}

static void post(const struct rail *rail, struct ibv_qp *qp, enum ibv_wr_opcode opcode,
		 uint32_t length, uint64_t wr_id)
{
	struct ibv_sge sge = {(uintptr_t)rail->buf, length, rail->mr->lkey};
	struct ibv_send_wr wr = {.wr_id = wr_id,
				 .sg_list = &sge,
				 .num_sge = length ? 1 : 0,
				 .opcode = opcode,
				 .imm_data = htonl(7),
				 .send_flags = IBV_SEND_SIGNALED},
			   *bad;
	uint64_t target = (uintptr_t)rail->buf + BUF_BYTES;

	if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr.wr.atomic.remote_addr = target;
		wr.wr.atomic.rkey = rail->mr->rkey;
		wr.wr.atomic.compare_add = 1;
	} else {
		wr.wr.rdma.remote_addr = target;
		wr.wr.rdma.rkey = rail->mr->rkey;
	}
	ok(rail, "post_send", ibv_post_send(qp, &wr, &bad));
}

static void post_recv(const struct rail *rail, struct ibv_qp *qp)
{
	struct ibv_recv_wr wr = {.wr_id = 0x100}, *bad;

	ok(rail, "post_recv", ibv_post_recv(qp, &wr, &bad));
}

/* Waits for this number of completions. All must have this status. */
static void wait_status(const struct rail *rail, const char *what, int count,
			enum ibv_wc_status status)
{
	struct ibv_wc wc;

	while (count) {
		if (ibv_poll_cq(rail->cq, 1, &wc) != 1)
			continue;
		if (wc.status != status) {
			printf("failed: %s: %s: WR %" PRIu64 " status %d, not %d\n", rail->name,
			       what, wc.wr_id, wc.status, status);
			exit(1);
		}
		if (wc.opcode == IBV_WC_RECV_RDMA_WITH_IMM && ntohl(wc.imm_data) != 7)
			fail(rail->name, "immediate data", EINVAL);
		count--;
	}
}

/*
 * Adds 1 to the first word of the target, whose 8 bytes all have this value. The former word is
 * returned to the buffer.
 */
static void fetch_add(const struct rail *rail, uint8_t value)
{
	uint64_t before, returned, after;

	memset(&before, value, sizeof(before));
	memset(rail->buf, 0, sizeof(returned));
	post(rail, rail->a, IBV_WR_ATOMIC_FETCH_AND_ADD, sizeof(returned), 4);
	wait_status(rail, "FETCH_ADD", 1, IBV_WC_SUCCESS);
	memcpy(&returned, rail->buf, sizeof(returned));
	memcpy(&after, rail->buf + BUF_BYTES, sizeof(after));
	if (returned != before || after != before + 1)
		fail(rail->name, "values of the FETCH_ADD", EINVAL);
}

/*
 * A transfer: data, then an empty WRITE with immediate, then the READ that flushes the memory of a
 * GPU.
 */
static void transfer(struct rail *rail, uint8_t value)
{
	memset(rail->buf, value, BUF_BYTES);
	post_recv(rail, rail->b);
	post(rail, rail->a, IBV_WR_RDMA_WRITE, BUF_BYTES, 1);
	post(rail, rail->a, IBV_WR_RDMA_WRITE_WITH_IMM, 0, 2);
	wait_status(rail, "WRITE and WRITE with immediate", 3, IBV_WC_SUCCESS);
	if (memcmp(rail->buf, rail->buf + BUF_BYTES, BUF_BYTES) != 0)
		fail(rail->name, "data of the WRITE", EINVAL);
	post(rail, rail->flush, IBV_WR_RDMA_READ, 4, 3);
	wait_status(rail, "READ", 1, IBV_WC_SUCCESS);
	fetch_add(rail, value);
	post_recv(rail, rail->uc_b);
	post(rail, rail->uc_a, IBV_WR_RDMA_WRITE_WITH_IMM, 0, 5);
	wait_status(rail, "UC WRITE with immediate", 2, IBV_WC_SUCCESS);
}

static void rail_connect(struct rail *rail)
{
	rail->a = qp_open(rail, IBV_QPT_RC);
	rail->b = qp_open(rail, IBV_QPT_RC);
	rail->flush = qp_open(rail, IBV_QPT_RC);
	rail->uc_a = qp_open(rail, IBV_QPT_UC);
	rail->uc_b = qp_open(rail, IBV_QPT_UC);
	qp_connect(rail, rail->b, rail->a, false);
	qp_connect(rail, rail->a, rail->b, false);
	qp_connect(rail, rail->flush, rail->flush, false);
	qp_connect(rail, rail->uc_b, rail->uc_a, false);
	qp_connect(rail, rail->uc_a, rail->uc_b, false);
}

/*
 * The peer does not answer, as after the failure of a rail: the first WR fails with RETRY_EXC_ERR,
 * the next one is flushed. NCCL survives only these two. Both queue pairs are then connected again.
 */
static void fail_over(struct rail *rail)
{
	qp_reset(rail, rail->a);
	qp_connect(rail, rail->a, rail->b, true);
	qp_reset(rail, rail->b);
	post(rail, rail->a, IBV_WR_RDMA_WRITE, BUF_BYTES, 6);
	post(rail, rail->a, IBV_WR_RDMA_WRITE_WITH_IMM, 0, 7);
	wait_status(rail, "WRITE to a failed rail", 1, IBV_WC_RETRY_EXC_ERR);
	wait_status(rail, "the following WRITE", 1, IBV_WC_WR_FLUSH_ERR);
	qp_reset(rail, rail->a);
	qp_connect(rail, rail->b, rail->a, false);
	qp_connect(rail, rail->a, rail->b, false);
}

static void rail_close(struct rail *rail)
{
	struct ibv_qp *qps[] = {rail->a, rail->b, rail->flush, rail->uc_a, rail->uc_b};

	for (size_t i = 0; i < sizeof(qps) / sizeof(qps[0]); i++)
		ok(rail, "ibv_destroy_qp", calls.destroy_qp(qps[i]));
	ok(rail, "ibv_destroy_cq", calls.destroy_cq(rail->cq));
	ok(rail, "ibv_dereg_mr", calls.dereg_mr(rail->mr));
	ok(rail, "ibv_dealloc_pd", calls.dealloc_pd(rail->pd));
}

int main(void)
{
	static struct rail rails[DEVICES];
	struct ibv_device **list;
	int count = 0;

	load_calls();
	if (calls.fork_init())
		fail("all", "ibv_fork_init", errno);
	list = calls.get_device_list(&count);
	if (!list || count > DEVICES)
		fail("all", "ibv_get_device_list", errno);
	for (int i = 0; i < count; i++) {
		rail_open(&rails[i], list[i]);
		rail_connect(&rails[i]);
		transfer(&rails[i], (uint8_t)(i + 1));
		fail_over(&rails[i]);
		transfer(&rails[i], (uint8_t)(i + 101));
		puts(", transferred");
	}
	/*
	 * The contexts are not closed: the threads of watch_events() wait in ibv_get_async_event()
	 * until the process exits.
	 */
	for (int i = 0; i < count; i++)
		rail_close(&rails[i]);
	calls.free_device_list(list);
	printf("devices: %d\n", count);
	return 0;
}
