/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <netdb.h>
#include <rdma/rdma_cma.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/fault.h"
#include "base/syscalls.h"
#include "rdmacm/addrinfo.h"
#include "rdmacm/id.h"

/*
 * The functions of this file return 0 or an error code of getaddrinfo(), which is negative; with
 * EAI_SYSTEM errno is set. No routes are returned: on Ethernet there is no subnet administration,
 * and a connection needs only the addresses.
 */
#define KNOWN_FLAGS (RAI_PASSIVE | RAI_NUMERICHOST | RAI_NOROUTE | RAI_FAMILY | RAI_SA | RAI_DNS)

/*
 * ai_src_addr of the last look-up, if rcm_addrinfo_is_localhost(); otherwise NULL. Only compared.
 */
static _Thread_local const struct sockaddr *localhost_addr;

static bool is_datagram_space(int ps)
{
	return ps == RDMA_PS_UDP || ps == RDMA_PS_IPOIB;
}

static int check_space(int ps)
{
	switch (ps) {
	case 0:
	case RDMA_PS_TCP:
	case RDMA_PS_UDP:
	case RDMA_PS_IPOIB:
	case RDMA_PS_IB:
		return 0;
	default:
		return EAI_SOCKTYPE;
	}
}

static int check_qp_type(int qp_type)
{
	switch (qp_type) {
	case 0:
	case IBV_QPT_RC:
	case IBV_QPT_UC:
	case IBV_QPT_UD:
	case IBV_QPT_XRC_SEND:
	case IBV_QPT_XRC_RECV:
		return 0;
	default:
		return EAI_SOCKTYPE;
	}
}

int rcm_addrinfo_service(const struct rdma_addrinfo *hints, struct rcm_service *service)
{
	int qp_type = hints ? hints->ai_qp_type : 0;
	int ps = hints ? hints->ai_port_space : 0;

	if (check_qp_type(qp_type) || check_space(ps))
		return EAI_SOCKTYPE;
	if (!qp_type)
		qp_type = is_datagram_space(ps) ? IBV_QPT_UD : IBV_QPT_RC;
	if (!ps)
		ps = qp_type == IBV_QPT_UD ? RDMA_PS_UDP : RDMA_PS_TCP;
	/* RDMA_PS_IB permits every QP type. */
	if (ps != RDMA_PS_IB && is_datagram_space(ps) != (qp_type == IBV_QPT_UD))
		return EAI_SOCKTYPE;
	service->qp_type = (enum ibv_qp_type)qp_type;
	service->ps = (enum rdma_port_space)ps;
	return 0;
}

static int addrinfo_copy_addr(const struct sockaddr *addr, socklen_t bytes, struct sockaddr **to,
			      socklen_t *to_bytes)
{
	socklen_t wanted = bytes >= sizeof(addr->sa_family) ? rcm_addr_bytes(addr) : 0;

	if (!wanted || bytes < wanted)
		return EAI_FAMILY;
	*to = malloc(wanted);
	if (!*to)
		return EAI_MEMORY;
	memcpy(*to, addr, wanted);
	*to_bytes = wanted;
	return 0;
}

/* Copies the addresses of the hints for which the look-up has no result. */
static int take_hints(struct rdma_addrinfo *info, const struct rdma_addrinfo *hints)
{
	int ret = 0;

	if (!hints)
		return 0;
	if (!info->ai_src_addr && hints->ai_src_len)
		ret = addrinfo_copy_addr(hints->ai_src_addr, hints->ai_src_len, &info->ai_src_addr,
					 &info->ai_src_len);
	if (!ret && !info->ai_dst_addr && hints->ai_dst_len && !(info->ai_flags & RAI_PASSIVE))
		ret = addrinfo_copy_addr(hints->ai_dst_addr, hints->ai_dst_len, &info->ai_dst_addr,
					 &info->ai_dst_len);
	if (ret)
		return ret;
	if (info->ai_dst_addr)
		info->ai_family = info->ai_dst_addr->sa_family;
	else if (info->ai_src_addr)
		info->ai_family = info->ai_src_addr->sa_family;
	return 0;
}

/* Sets the source (RAI_PASSIVE) or destination address to the first result of getaddrinfo(). */
static int take_found(struct rdma_addrinfo *info, const struct addrinfo *found)
{
	bool is_passive = info->ai_flags & RAI_PASSIVE;
	char **canonname = is_passive ? &info->ai_src_canonname : &info->ai_dst_canonname;

	info->ai_family = found->ai_family;
	if (found->ai_canonname) {
		*canonname = strdup(found->ai_canonname);
		if (!*canonname)
			return EAI_MEMORY;
	}
	if (is_passive)
		return addrinfo_copy_addr(found->ai_addr, found->ai_addrlen, &info->ai_src_addr,
					  &info->ai_src_len);
	return addrinfo_copy_addr(found->ai_addr, found->ai_addrlen, &info->ai_dst_addr,
				  &info->ai_dst_len);
}

static int look_up(const char *node, const char *service, struct rdma_addrinfo *info)
{
	struct addrinfo query = {.ai_family = info->ai_family};
	struct addrinfo *found;
	int cancel_state, ret;

	query.ai_socktype = info->ai_qp_type == IBV_QPT_UD ? SOCK_DGRAM : SOCK_STREAM;
	if (info->ai_flags & RAI_PASSIVE)
		query.ai_flags |= AI_PASSIVE;
	if (info->ai_flags & RAI_NUMERICHOST)
		query.ai_flags |= AI_NUMERICHOST;
	if (node)
		query.ai_flags |= AI_CANONNAME;
	cancel_state = cancel_disable();
	ret = getaddrinfo(node, service, &query, &found);
	cancel_restore(cancel_state);
	if (ret)
		return ret;
	ret = take_found(info, found);
	freeaddrinfo(found);
	return ret;
}

static int check_hints(const struct rdma_addrinfo *hints)
{
	if (!hints)
		return 0;
	if (hints->ai_flags & ~KNOWN_FLAGS) {
		errno = EINVAL;
		return EAI_BADFLAGS;
	}
	if (hints->ai_flags & RAI_SA) {
		errno = EOPNOTSUPP;
		return EAI_SYSTEM;
	}
	if (hints->ai_family != AF_UNSPEC && hints->ai_family != AF_INET &&
	    hints->ai_family != AF_INET6)
		return EAI_FAMILY;
	return 0;
}

static int addrinfo_fill(struct rdma_addrinfo *info, const char *node, const char *service,
			 const struct rdma_addrinfo *hints)
{
	struct rcm_service wanted;
	int ret;

	ret = check_hints(hints);
	if (!ret)
		ret = rcm_addrinfo_service(hints, &wanted);
	if (ret)
		return ret;
	info->ai_flags = hints ? hints->ai_flags : 0;
	info->ai_family = hints ? hints->ai_family : AF_UNSPEC;
	info->ai_qp_type = (int)wanted.qp_type;
	info->ai_port_space = (int)wanted.ps;
	if (node || service)
		ret = look_up(node, service, info);
	return ret ? ret : take_hints(info, hints);
}

int rcm_addrinfo_errno(int code)
{
	switch (code) {
	case 0:
		return 0;
	case EAI_SYSTEM:
		return errno ? errno : EIO;
	case EAI_MEMORY:
		return ENOMEM;
	case EAI_AGAIN:
		return EAGAIN;
	case EAI_BADFLAGS:
	case EAI_SOCKTYPE:
		return EINVAL;
	case EAI_FAMILY:
		return EAFNOSUPPORT;
	default:
		return ENOENT;
	}
}

int rdma_getaddrinfo(const char *node, const char *service, const struct rdma_addrinfo *hints,
		     struct rdma_addrinfo **res)
{
	struct rdma_addrinfo *info;
	int ret;

	if (!res || (!node && !service && !hints)) {
		errno = EINVAL;
		return -1;
	}
	probe_init();
	if (fault_call_fails(__func__))
		return -1;
	info = calloc(1, sizeof(*info));
	if (!info) {
		errno = ENOMEM;
		return EAI_MEMORY;
	}
	ret = addrinfo_fill(info, node, service, hints);
	if (ret) {
		int saved = rcm_addrinfo_errno(ret);

		rdma_freeaddrinfo(info);
		errno = saved;
		return ret;
	}
	localhost_addr = node && !service && info->ai_flags & RAI_PASSIVE &&
					 !strcmp(node, "localhost") ?
				 info->ai_src_addr :
				 NULL;
	*res = info;
	return 0;
}

bool rcm_addrinfo_is_localhost(const struct sockaddr *addr)
{
	return addr && addr == localhost_addr;
}

void rdma_freeaddrinfo(struct rdma_addrinfo *res)
{
	while (res) {
		struct rdma_addrinfo *next = res->ai_next;

		if (res->ai_src_addr == localhost_addr)
			localhost_addr = NULL;
		free(res->ai_src_addr);
		free(res->ai_dst_addr);
		free(res->ai_src_canonname);
		free(res->ai_dst_canonname);
		free(res->ai_route);
		free(res->ai_connect);
		free(res);
		res = next;
	}
}
