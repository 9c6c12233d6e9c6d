#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# libibverbs 44.0-2 (Debian 12): ibv_rate_to_mult() has no multiple for the rates of EDR lanes. It returns -1 for IBV_RATE_25_GBPS (15),
# 100 (16) and 200 (17), and 11 for IBV_RATE_28_GBPS (19), which is 11.25 times 2.5 Gb/s. ibv_rate_to_mbps() knows all of them, as
# lanes of 25,781 Mb/s. A program that computes with multiples of 2.5 Gb/s has to handle -1 on a 25 or 100 Gb/s port.
# The line that is compared at the end was seen. This script fails if it changes.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
chmod 755 "$folder"
cd "$folder"
apt-get download -q libibverbs1=44.0-2 libnl-3-200=3.7.0-0.2+b1 libnl-route-3-200=3.7.0-0.2+b1 >/dev/null
for package in *.deb; do dpkg -x "$package" root; done
seen=$(LD_LIBRARY_PATH=$(dirname "$(find "$folder/root" -name 'libibverbs.so.1')") /usr/bin/python3 - <<'PY'
import ctypes
libibverbs = ctypes.CDLL("libibverbs.so.1")
print(", ".join(f"{gbps}: {libibverbs.ibv_rate_to_mult(rate)} {libibverbs.ibv_rate_to_mbps(rate)}"
                for gbps, rate in ((25, 15), (100, 16), (200, 17), (28, 19))))
PY
)
echo "$seen"
[ "$seen" = "25: -1 25781, 100: -1 103125, 200: -1 206250, 28: 11 28125" ]
