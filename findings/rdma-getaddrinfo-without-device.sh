#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# librdmacm 44.0-2 (Debian 12): without an RDMA device rdma_getaddrinfo() returns -1 with errno ENODEV. -1 is also EAI_BADFLAGS, and
# rdma-core's own examples pass the result to gai_strerror(3): the message blames ai_flags, and nothing names the missing device.
# Seen: "rdma_getaddrinfo: Bad value for ai_flags". This
# script needs a machine without RDMA devices, and fails if the output changes.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
chmod 755 "$folder"
cd "$folder"
apt-get download -q rdmacm-utils=44.0-2 librdmacm1=44.0-2 libibverbs1=44.0-2 libnl-3-200=3.7.0-0.2+b1 \
	libnl-route-3-200=3.7.0-0.2+b1 >/dev/null
for package in *.deb; do dpkg -x "$package" root; done
seen=$(LD_LIBRARY_PATH=$(dirname "$(find "$folder/root" -name 'librdmacm.so.1')") "$folder/root/usr/bin/rdma_client" \
	-s 127.0.0.1 2>&1 || true)
echo "$seen"
echo "$seen" | grep -qx "rdma_getaddrinfo: Bad value for ai_flags"
