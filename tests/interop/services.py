# SPDX-License-Identifier: BSD-2-Clause
"""The kernel's RDMA services in the guest as peers of programs of this project on usrdma. The programs use no other
libraries than librdmacm and libibverbs; the services are set up through configfs and proc. docs/kernel-services.md
describes them."""

import hashlib
import os
import random
import re

from tests.interop import mountd
from tests.programs.lab import Failure, check

SLOW = 300  # seconds; a script in the emulated guest loads modules and starts many programs
NVME_PORT = 4420
NVME_SUBSYSTEM = "nqn.2026-01.test.usrdma:disk"

# Exports a RAM disk of 64 MiB as namespace 1.
NVMET = f"""
set -e
modprobe brd rd_nr=1 rd_size=65536
modprobe nvmet-rdma
mountpoint -q /sys/kernel/config || mount -t configfs none /sys/kernel/config
cd /sys/kernel/config/nvmet
mkdir subsystems/{NVME_SUBSYSTEM}
echo 1 > subsystems/{NVME_SUBSYSTEM}/attr_allow_any_host
mkdir subsystems/{NVME_SUBSYSTEM}/namespaces/1
echo -n /dev/ram0 > subsystems/{NVME_SUBSYSTEM}/namespaces/1/device_path
echo 1 > subsystems/{NVME_SUBSYSTEM}/namespaces/1/enable
mkdir ports/1
echo ipv4 > ports/1/addr_adrfam
echo rdma > ports/1/addr_trtype
echo ADDRESS > ports/1/addr_traddr
echo {NVME_PORT} > ports/1/addr_trsvcid
ln -s /sys/kernel/config/nvmet/subsystems/{NVME_SUBSYSTEM} ports/1/subsystems/
"""

NFS_PORT = 20049
NFS_BYTES = 65536

# Without mountd: its replies to the kernel's questions about the client OUR_ADDRESS and the export are stored before.
# 9218: insecure ports, no subtree check, file system ID 0.
NFSD = f"""
set -e
modprobe rpcrdma
modprobe nfsd
mountpoint -q /proc/fs/nfsd || mount -t nfsd nfsd /proc/fs/nfsd
mkdir /run/nfs
mount -t tmpfs tmpfs /run/nfs
head -c {NFS_BYTES} /dev/zero > /run/nfs/file
cd /proc/net/rpc
echo "nfsd OUR_ADDRESS 2147483647 test" > auth.unix.ip/channel
echo "test /run/nfs 2147483647 9218 65534 65534 0" > nfsd.export/channel
echo 'test 1 \\x00000000 2147483647 /run/nfs' > nfsd.fh/channel
cd /proc/fs/nfsd
echo "-3 +4" > versions
echo 10 > nfsv4leasetime
echo 10 > nfsv4gracetime
echo "rdma {NFS_PORT}" > portlist
echo 2 > threads
"""

ISER_PORT = 3260
ISER_TARGET = "iqn.2026-01.test.usrdma:disk"

# A RAM disk of 32 MiB, for every initiator and without authentication.
LIO = f"""
set -e
modprobe ib_isert
mountpoint -q /sys/kernel/config || mount -t configfs none /sys/kernel/config
cd /sys/kernel/config/target
mkdir -p core/rd_mcp_0/disk
echo rd_pages=8192 > core/rd_mcp_0/disk/control
echo 1 > core/rd_mcp_0/disk/enable
mkdir -p iscsi/{ISER_TARGET}/tpgt_1
cd iscsi/{ISER_TARGET}/tpgt_1
echo 0 > attrib/authentication
echo 1 > attrib/generate_node_acls
echo 1 > attrib/cache_dynamic_acls
echo 0 > attrib/demo_mode_write_protect
mkdir lun/lun_0
ln -s /sys/kernel/config/target/core/rd_mcp_0/disk lun/lun_0/disk
mkdir np/ADDRESS:{ISER_PORT}
echo 1 > np/ADDRESS:{ISER_PORT}/iser
echo 1 > enable
"""


def script(guest, name, text, address):
    """Executes a script in the guest, with the address of the service."""
    with open(os.path.join(guest.out, name), "w", encoding="utf-8") as file:
        file.write(text.replace("ADDRESS", address))
    return guest.start("bash", f"/out/{name}", seconds=SLOW).finish(SLOW)


def kernel_log(guest):
    return "the guest's kernel log ends with:\n" + guest.ask("dmesg", "|", "tail", "-n", 15)


def check_client(guest, client):
    """Waits for the end of the client, which must succeed. A failure contains the guest's kernel log."""
    client.finish(SLOW, None)
    if client.process.returncode != 0:
        raise Failure(f"{client.story()}\n{kernel_log(guest)}")


def nvme_host(lab, guest, theirs):
    script(guest, "nvmet.sh", NVMET, theirs["4"])
    client = lab.start(lab.tool("nvme_host"), theirs["4"], NVME_PORT, NVME_SUBSYSTEM)
    check_client(guest, client)


# Connects without nvme-cli, writes two patterns, drops the page cache and compares them, and makes a file system.
NVME_HOST = f"""
set -e
modprobe nvme-rdma
modprobe ext4
echo nqn={NVME_SUBSYSTEM},transport=rdma,traddr=ADDRESS,trsvcid={NVME_PORT} > /dev/nvme-fabrics
for i in $(seq 100); do [ ! -b /dev/nvme0n1 ] || break; sleep 0.1; done
dd if=/dev/urandom of=/tmp/pattern bs=1M count=8 status=none
dd if=/tmp/pattern of=/dev/nvme0n1 bs=1M oflag=direct status=none
dd if=/dev/nvme0n1 of=/tmp/read bs=1M count=8 iflag=direct status=none
cmp /tmp/pattern /tmp/read
mkfs.ext4 -q -F /dev/nvme0n1
mkdir -p /tmp/disk
mount /dev/nvme0n1 /tmp/disk
cp /tmp/pattern /tmp/disk/
umount /tmp/disk
mount /dev/nvme0n1 /tmp/disk
cmp /tmp/pattern /tmp/disk/pattern
umount /tmp/disk
echo 1 > /sys/class/nvme/nvme0/delete_controller
echo "the kernel's host has compared all data"
"""


def nvme_target(lab, guest, ours):
    server = lab.start(lab.tool("nvme_target"), ours["4"], NVME_PORT, NVME_SUBSYSTEM, 64)
    lab.listens_cm(server, NVME_PORT)
    try:
        printed = script(guest, "nvme.sh", NVME_HOST, ours["4"])
        check("has compared all data" in printed, printed)
        printed = server.finish(SLOW)
    except Failure as failure:
        raise Failure(f"{failure}\n{server.story()}\n{kernel_log(guest)}") from None
    moved = [int(number) for number in re.findall(r"(\d+) (?:WRITEs|READs|SENDs)", printed.splitlines()[-1])]
    check(len(moved) == 3 and all(moved), printed)


def nfs_client(lab, guest, sides):
    ours, theirs = sides
    script(guest, "nfsd.sh", NFSD.replace("OUR_ADDRESS", ours["4"]), theirs["4"])
    client = lab.start(lab.tool("nfs_client"), theirs["4"], NFS_PORT, "file")
    check_client(guest, client)


# Mounts without mount.nfs: the options are those that mount.nfs would give to the kernel. The contents are compared
# after the kernel has dropped its pages. 150 bytes are appended to a file that ends in the middle of a page.
NFS_MOUNT = f"""
set -e
modprobe rpcrdma
modprobe nfsv3
options=vers=3,proto=rdma,port={NFS_PORT},nolock,mountproto=tcp,mountport=MOUNT_PORT,addr=ADDRESS,mountaddr=ADDRESS
at=/run/nfs-mount
mkdir -p $at
connect() {{ mount -i -t nfs -o $options ADDRESS:{mountd.EXPORT.decode()} $at; }}
connect
[ "$(ls $at | tr '\\n' ' ')" = "read written " ]
df $at > /dev/null
sha256sum < $at/read
dd if=/dev/urandom of=/tmp/data bs=1000 count=153 status=none
dd if=/tmp/data of=$at/written bs=10000 status=none
umount $at
connect
cmp /tmp/data $at/written
dd if=/dev/urandom of=/tmp/more bs=150 count=1 status=none
cat /tmp/more >> /tmp/data
cat /tmp/more >> $at/written
echo 3 > /proc/sys/vm/drop_caches
cmp /tmp/data $at/written
dd if=$at/read bs=30000 iflag=direct status=none | sha256sum
if echo x 2> /dev/null > $at/read; then echo "a file of mode 0444 was opened for writing"; exit 1; fi
if touch $at/created 2> /dev/null; then echo "a file was created"; exit 1; fi
sha256sum < /tmp/data
umount $at
echo "the kernel's client has compared all data"
"""
NFS_CONTENT_BYTES = 100003


def sha256(data):
    return hashlib.sha256(data).hexdigest()


def nfs_server(lab, guest, ours):
    """The guest prints the checksums of the file `read`, twice, and of what it wrote to the file `written`."""
    content_path = os.path.join(lab.scratch, "nfs-content")
    written_path = os.path.join(lab.scratch, "nfs-written")
    content = random.randbytes(NFS_CONTENT_BYTES)
    with open(content_path, "wb") as file:
        file.write(content)
    server = lab.start(lab.tool("nfs_server"), ours["4"], NFS_PORT, content_path, written_path, 2)
    lab.listens_cm(server, NFS_PORT)
    try:
        with mountd.Mountd(ours["4"]) as mounts:
            printed = script(guest, "nfs.sh", NFS_MOUNT.replace("MOUNT_PORT", str(mounts.port)), ours["4"])
        report = server.finish(SLOW)
    except Failure as failure:
        raise Failure(f"{failure}\n{server.story()}\n{kernel_log(guest)}") from None
    with open(written_path, "rb") as file:
        written = file.read()
    check(len(mounts.mounted) == 2 and "has compared all data" in printed, printed)
    sums = re.findall(r"^[0-9a-f]{64}", printed, re.M)
    check(sums == [sha256(content)] * 2 + [sha256(written)], f"{len(written)} bytes were written\n{printed}")
    used = re.search(r"(\d+) read chunks, (\d+) write chunks, (\d+) reply chunks, (\d+) SENDs.* 0 errors$", report,
                     re.M)
    check(used and all(int(count) for count in used.groups()), report)


def iser_client(lab, guest, theirs):
    script(guest, "lio.sh", LIO, theirs["4"])
    client = lab.start(lab.tool("iser_client"), theirs["4"], ISER_PORT, ISER_TARGET)
    check_client(guest, client)


def run(lab, cases, guest, sides):
    ours, theirs = sides
    cases.run("NVMe over RDMA: our host, the kernel's nvmet-rdma", nvme_host, lab, guest, theirs)
    cases.run("NVMe over RDMA: our controller, the kernel's nvme-rdma", nvme_target, lab, guest, ours)
    cases.run("NFS over RDMA: our client, the kernel's server", nfs_client, lab, guest, sides)
    cases.run("NFS over RDMA: our server, the kernel's client", nfs_server, lab, guest, ours)
    cases.run("iSER: our initiator, the kernel's LIO target", iser_client, lab, guest, theirs)
