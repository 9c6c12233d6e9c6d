#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# Valkey 8.1.1 (source package of Debian 13, 8.1.1+dfsg1-3+deb13u3): runtest-rdma ends with status 0 on a machine without an RDMA
# device. After a failed test it ends by the same call (read in tests/rdma/run.py, not run). If its standard output is a file or a pipe,
# as in a CI job, it prints nothing of its own: it ends by os._exit(), which does not write the buffered lines. A job that tests the status
# only passes without having tested anything. With PYTHONUNBUFFERED=1 the lines appear; a caller can search for
# "Valkey Over RDMA test over ADDRESS [OK]". Needs gcc, make and a machine without RDMA devices.
# Seen: "status 0, in a file: 0 lines, unbuffered: test detect existing RDMA device [FAILED]". This script fails if that changes.
set -eu
[ ! -e /sys/class/infiniband ] || { echo "this machine has RDMA devices" >&2; exit 2; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
chmod 755 "$folder"
cd "$folder"
mkdir -p lists/partial
echo 'deb-src http://deb.debian.org/debian trixie main' >trixie.list
trixie="-o Dir::Etc::SourceList=$folder/trixie.list -o Dir::Etc::SourceParts=/dev/null -o Dir::State::Lists=$folder/lists -o APT::Sandbox::User=root"
apt-get -qq $trixie update
apt-get -qq $trixie source --download-only --tar-only valkey=8.1.1+dfsg1-3+deb13u3 >/dev/null
tar -xf valkey_*.orig.tar.*
apt-get download -qq -o APT::Sandbox::User=root python3-netifaces=0.11.0-2+b1 librdmacm-dev=44.0-2 librdmacm1=44.0-2 libibverbs-dev=44.0-2 libibverbs1=44.0-2 >/dev/null
for package in *.deb; do dpkg -x "$package" root; done
libraries=$(dirname "$(find "$folder/root" -name 'librdmacm.so')")
export C_INCLUDE_PATH="$folder/root/usr/include" LIBRARY_PATH="$libraries" PYTHONPATH="$folder/root/usr/lib/python3/dist-packages"
export LDFLAGS= CC="cc -Wl,--allow-shlib-undefined"
test=$(echo "$folder"/valkey-*/tests/rdma/run.py)
env -u PYTHONUNBUFFERED /usr/bin/python3 "$test" >buffered
status=$?
PYTHONUNBUFFERED=1 /usr/bin/python3 "$test" >unbuffered
seen="status $status, in a file: $(grep -c 'Valkey Over RDMA' buffered || true) lines, unbuffered: $(sed -n 's/^Valkey Over RDMA \(test detect.*\)/\1/p' unbuffered)"
echo "$seen"
[ "$seen" = "status 0, in a file: 0 lines, unbuffered: test detect existing RDMA device [FAILED]" ]
