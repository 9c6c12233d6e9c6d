#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# librdmacm 44.0-2 (Debian 12): rclose() of a descriptor that is not an rsocket returns the positive value EBADF (9). It does not
# return -1, does not set errno, and does not close the descriptor. A program that tests `rclose(fd) < 0` sees success.
# Seen: "rclose 9, errno 0, descriptor open". This script fails if that changes.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
chmod 755 "$folder"
cd "$folder"
apt-get download -q librdmacm1=44.0-2 libibverbs1=44.0-2 libnl-3-200=3.7.0-0.2+b1 libnl-route-3-200=3.7.0-0.2+b1 >/dev/null
for package in *.deb; do dpkg -x "$package" root; done
seen=$(LD_LIBRARY_PATH=$(dirname "$(find "$folder/root" -name 'librdmacm.so.1')") /usr/bin/python3 - <<'PY'
import ctypes, os
librdmacm = ctypes.CDLL("librdmacm.so.1", use_errno=True)
fd = os.open("/dev/null", os.O_RDONLY)
ctypes.set_errno(0)
result, errno = librdmacm.rclose(fd), ctypes.get_errno()
try:
    os.fstat(fd)
    state = "open"
except OSError:
    state = "closed"
print(f"rclose {result}, errno {errno}, descriptor {state}")
PY
)
echo "$seen"
[ "$seen" = "rclose 9, errno 0, descriptor open" ]
