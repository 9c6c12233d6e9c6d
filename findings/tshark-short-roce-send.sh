#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# tshark 4.0.17 (Debian 12): a valid RoCEv2 SEND Only with fewer than 16 bytes of payload is shown as "Malformed Packet". The heuristic
# dissector for RPC-over-RDMA claims every SEND and fails on the short ones. With --disable-heuristic rpcrdma_infiniband the same
# packet is shown as data. Seen: 8 bytes "malformed", 8 bytes without the heuristic "ok", 16 bytes "ok".
# This script fails if that changes. Libraries that tshark shares with other programs come from the system.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
chmod 755 "$folder"
cd "$folder"
version=4.0.17-0+deb12u3
apt-get download -q tshark=$version libwireshark16=$version libwireshark-data=$version libwiretap13=$version \
	libwsutil14=$version >/dev/null
for package in *.deb; do dpkg -x "$package" root; done
/usr/bin/python3 - <<'PY'
import struct
import zlib

def frame(payload):
    """An Ethernet frame with a SEND Only of RC, and the ICRC of annex A17."""
    bth = struct.pack(">BBHII", 4, 0, 0xffff, 0x11, 0x80000001)
    udp_bytes = 8 + len(bth) + len(payload) + 4
    ip = struct.pack(">BBHHHBBH4s4s", 0x45, 0, 20 + udp_bytes, 0, 0x4000, 64, 17, 0, b"\xc0\0\2\1", b"\xc0\0\2\2")
    udp = struct.pack(">HHHH", 49152, 4791, udp_bytes, 0)
    masked_ip = ip[:1] + b"\xff" + ip[2:8] + b"\xff" + ip[9:10] + b"\xff\xff" + ip[12:]
    masked = b"\xff" * 8 + masked_ip + udp[:6] + b"\xff\xff" + bth[:4] + b"\xff" + bth[5:] + payload
    icrc = struct.pack("<I", zlib.crc32(masked))
    return b"\2\0\0\0\0\2" + b"\2\0\0\0\0\1" + b"\x08\0" + ip + udp + bth + payload + icrc

for name, count in (("8", 8), ("16", 16)):
    data = frame(bytes(range(1, count + 1)))
    with open(name + ".pcap", "wb") as file:
        file.write(struct.pack("<IHHiIII", 0xa1b2c3d4, 2, 4, 0, 0, 65535, 1))
        file.write(struct.pack("<IIII", 0, 0, len(data), len(data)) + data)
PY
LD_LIBRARY_PATH=$(dirname "$(find "$folder/root" -name 'libwireshark.so.16')")
WIRESHARK_DATA_DIR=$folder/root/usr/share/wireshark
export LD_LIBRARY_PATH WIRESHARK_DATA_DIR
show() {
	file=$1
	shift
	if "$folder/root/usr/bin/tshark" -r "$file" "$@" -V 2>/dev/null | grep -q "Malformed Packet"; then
		echo malformed
	else
		echo ok
	fi
}
seen="8: $(show 8.pcap), without the heuristic: $(show 8.pcap --disable-heuristic rpcrdma_infiniband), 16: $(show 16.pcap)"
echo "$seen"
[ "$seen" = "8: malformed, without the heuristic: ok, 16: ok" ]
