/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TOOLS_USRDMA_DOCTOR_PACKAGES_H
#define TOOLS_USRDMA_DOCTOR_PACKAGES_H

struct doctor;

/*
 * A check of `usrdma doctor`: UCX without its verbs transport, as Debian's package of UCX 1.23; what rdma(8) and programs with the
 * libraries of rdma-core report on a kernel without RDMA.
 */
void doctor_check_packages(struct doctor *doctor);

#endif /* TOOLS_USRDMA_DOCTOR_PACKAGES_H */
