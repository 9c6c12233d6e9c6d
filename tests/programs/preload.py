# SPDX-License-Identifier: BSD-2-Clause
"""Runs unmodified TCP programs over RDMA by librspreload: iperf3, curl and web servers, event loops, servers that fork
and execute. Tests also connections to peers that use plain TCP. The kernel's counters show whether TCP carried data."""

import filecmp
import glob
import json
import os
import random
import signal
import socket
import subprocess

from tests.programs import lab as laboratory
from tests.programs.lab import WIRE, check, wait_until

PYTHON = "/usr/bin/python3"

ECHO_ASYNC = """
import asyncio, sys
async def echo(reader, writer):
    while data := await reader.read(65536):
        writer.write(data)
        await writer.drain()
    writer.close()
async def main():
    server = await asyncio.start_server(echo, sys.argv[1], int(sys.argv[2]))
    await server.serve_forever()
asyncio.run(main())
"""

# Twenty concurrent connections. Each sends a number of bytes with a value of its own.
CLIENTS_ASYNC = """
import asyncio, sys
async def one(byte):
    reader, writer = await asyncio.open_connection(sys.argv[1], int(sys.argv[2]))
    async def send():
        for _ in range(5):
            writer.write(bytes([byte]) * 200000)
            await writer.drain()
        writer.write_eof()
    sending = asyncio.create_task(send())
    received = 0
    while data := await reader.read(100000):
        assert data == bytes([byte]) * len(data)
        received += len(data)
    await sending
    writer.close()
    assert received == 1000000, received
async def main():
    await asyncio.gather(*[one(byte) for byte in range(20)])
    print("all came back")
asyncio.run(main())
"""

UPPER_FORKING = """
import socketserver, os, sys
class Upper(socketserver.StreamRequestHandler):
    def handle(self):
        for line in self.rfile:
            self.wfile.write(b"%d " % os.getpid() + line.upper())
class Server(socketserver.ForkingTCPServer):
    allow_reuse_address = True
Server((sys.argv[1], int(sys.argv[2])), Upper).serve_forever()
"""

# As inetd: a child whose standard input and output are the connection executes another program.
CAT_EXECUTED = """
import os, signal, socket, sys
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
listener = socket.create_server((sys.argv[1], int(sys.argv[2])))
while True:
    connection, _ = listener.accept()
    if os.fork() == 0:
        os.dup2(connection.fileno(), 0)
        os.dup2(connection.fileno(), 1)
        os.execv("/bin/cat", ["cat"])
    connection.close()
"""

ASK_THREE_TIMES = """
import socket, sys
connection = socket.create_connection((sys.argv[1], int(sys.argv[2])))
lines = connection.makefile("rwb")
for turn in range(3):
    lines.write(b"hello %d\\n" % turn)
    lines.flush()
    print(lines.readline())
connection.shutdown(socket.SHUT_WR)
print("end", lines.read())
"""

# The connection has the lowest number, as in programs that inetd starts.
ASK_BY_STANDARD_INPUT = """
import os, socket, sys
connection = socket.create_connection((sys.argv[1], int(sys.argv[2])))
os.dup2(connection.fileno(), 0)
connection.close()
connection = socket.socket(fileno=0)
for turn in range(100):
    connection.sendall(bytes([turn]) * 1000)
    assert connection.recv(1000, socket.MSG_WAITALL) == bytes([turn]) * 1000
print("all came back")
"""

QUEUE_SIZES = """
import socket
one = socket.socket()
print([one.getsockopt(0x10000, option) for option in range(3)])
"""


def over_rdma(lab, **more):
    """The environment of a program whose sockets are rsockets."""
    library = os.path.join(lab.tree, "lib", "rsocket", "librspreload.so")
    return dict(more, LD_PRELOAD=":".join(filter(None, [lab.env.get("LD_PRELOAD"), library])))


def counters():
    """Returns the TCP counters of this namespace: active opens and segments sent."""
    with open("/proc/self/net/snmp", encoding="ascii") as file:
        rows = [line.split() for line in file if line.startswith("Tcp:")]
    values = dict(zip(rows[0][1:], map(int, rows[1][1:]), strict=False))
    return values["ActiveOpens"], values["OutSegs"]


class WithoutTcp:
    """Checks that the enclosed code opens no TCP connection and causes at most `segments` TCP segments."""

    def __init__(self, lab, connections=0, segments=0):
        self.watches = lab.isolated
        self.limits = (connections, segments)

    def __enter__(self):
        self.before = counters()

    def __exit__(self, kind, *_):
        if kind is None and self.watches:
            for what, before, after, limit in zip(("connections", "segments"), self.before, counters(), self.limits,
                                                  strict=True):
                check(after - before <= limit, f"{after - before} {what} by TCP")


def ordinary_program(lab, is_rdma):
    program = lab.start(lab.tool("sockets"), **(over_rdma(lab) if is_rdma else {}))
    check(program.finish(lab.seconds(30)).count(": good") >= 50, program.story())


def iperf3(lab, address, *options):
    port = lab.port()
    with WithoutTcp(lab):
        server = lab.start("iperf3", "-s", "-1", "-p", port, **over_rdma(lab))
        lab.listens_cm(server, port)
        client = lab.client("iperf3", "-c", address, "-p", port, "-t", 1, "-J", *options, **over_rdma(lab))
        answer = json.loads(client.finish(lab.seconds(30)))
        check("error" not in answer and answer["end"], client.story())
        server.finish(lab.seconds(20))
    end = answer["end"]
    check((end.get("sum_received") or end["sum"])["bytes"] > 1000000, client.story())


def web(lab, address, parallel=1):
    """curl downloads a file from Python's HTTP server."""
    home = os.path.join(lab.scratch, "web")
    os.makedirs(home, exist_ok=True)
    source = os.path.join(home, "file")
    with open(source, "wb") as file:
        file.write(os.urandom(5000000))
    port = lab.port()
    with WithoutTcp(lab):
        server = lab.start(PYTHON, "-m", "http.server", "-b", address, "-d", home, port, **over_rdma(lab))
        lab.listens_cm(server, port)
        url = f"http://{address}:{port}/file"
        copies = [os.path.join(lab.scratch, f"copy.{number}") for number in range(parallel)]
        clients = [lab.client("curl", "-sS", "-o", copy, url, "-o", "/dev/null", url, "-w", "%{http_code} ",
                              **over_rdma(lab)) for copy in copies]
        for client, copy in zip(clients, copies, strict=True):
            check(client.finish(lab.seconds(30)).startswith("200 200"), client.story())
            check(filecmp.cmp(source, copy, shallow=False), "another file came")
    check(server.running(), server.story())


def with_curl(lab, cases, name, *args):
    """Debian's curl does not reach main() if AddressSanitizer is preloaded, with or without our libraries."""
    if lab.sanitized:
        cases.skip(name, "curl does not start under AddressSanitizer")
    else:
        cases.run(name, web, lab, *args)


def event_loops(lab, address):
    port = lab.port()
    with WithoutTcp(lab):
        server = lab.start(PYTHON, "-c", ECHO_ASYNC, address, port, **over_rdma(lab))
        lab.listens_cm(server, port)
        client = lab.client(PYTHON, "-c", CLIENTS_ASYNC, address, port, **over_rdma(lab))
        check("all came back" in client.finish(lab.seconds(60)), client.story())
    check(server.running(), server.story())


def maps_with_lowest_number(lab, address):
    """The library opens a peer's file with number 0 in a descriptor table of its own, not in that of the program."""
    port = lab.port()
    server = lab.start(PYTHON, "-c", ECHO_ASYNC, address, port, **over_rdma(lab))
    lab.listens_cm(server, port)
    client = lab.client(PYTHON, "-c", ASK_BY_STANDARD_INPUT, address, port, USRDMA_LOG="debug", **over_rdma(lab))
    check("all came back" in client.finish(lab.seconds(30)), client.story())
    check("cannot be mapped" not in client.output(), client.story())


def fork_safe(lab, **more):
    return over_rdma(lab, RDMAV_FORK_SAFE="1", **more)


def forking(lab, address, script, answer, clients=3):
    """With fork support each connection begins as TCP, which carries only the message that starts the change to
    RDMA."""
    port = lab.port()
    server = lab.start(PYTHON, "-c", script, address, port, **fork_safe(lab))
    lab.listens_tcp(server, port)
    # Three segments for the handshake, the message, and the close: no byte of the program's data.
    with WithoutTcp(lab, clients, clients * 12):
        asked = [lab.client(PYTHON, "-c", ASK_THREE_TIMES, address, port, **fork_safe(lab)) for _ in range(clients)]
        for client in asked:
            printed = client.finish(lab.seconds(30))
            check(all(f"{answer} {turn}" in printed for turn in range(3)) and "end b''" in printed, client.story())
    check(server.running(), server.story())


def one_case(lab, case, is_rdma=True):
    program = lab.start(lab.tool("sockets"), case, **(fork_safe(lab) if is_rdma else {}))
    check(f"{case}: good" in program.finish(lab.seconds(30)), program.story())


TRACE_STEPS = 3000
RANDOM_CONNECTIONS = 60


def same_events_as_tcp(lab, seed, runs):
    """Each call of a program that changes epoll sets at random returns the same with TCP and with RDMA."""
    for number in range(seed, seed + runs):
        outputs = []
        for env in ({}, over_rdma(lab)):
            program = lab.start(lab.tool("epoll_trace"), number, TRACE_STEPS, **env)
            outputs.append(program.finish(lab.seconds(30)).splitlines())
        for line, (by_tcp, by_rdma) in enumerate(zip(*outputs, strict=False)):
            check(by_tcp == by_rdma, f"seed {number}, line {line}: {by_tcp} with TCP, {by_rdma} with RDMA")
        check(outputs[0][-1] == outputs[1][-1] == "end", f"seed {number}: the program did not finish")


def no_event_is_lost(lab, seed, is_rdma):
    """Threads wait in nested sets, to which other threads add and move connections. The program checks each byte."""
    program = lab.start(lab.tool("epoll_random"), seed, RANDOM_CONNECTIONS, **(over_rdma(lab) if is_rdma else {}))
    check(": good" in program.finish(lab.seconds(60)), f"seed {seed}: {program.story()}")


def closed_while_added(lab):
    program = lab.start(lab.tool("epoll_close"), **over_rdma(lab))
    check(": good" in program.finish(lab.seconds(30)), program.story())


def settled_by_rdma(lab, address):
    """Checks that both sides report the transport of their sockets."""
    port = lab.port()
    server = lab.start(PYTHON, "-c", UPPER_FORKING, address, port, USRDMA_LOG="debug", **fork_safe(lab))
    lab.listens_tcp(server, port)
    client = lab.client(PYTHON, "-c", ASK_THREE_TIMES, address, port, USRDMA_LOG="debug", **fork_safe(lab))
    check("falls back to TCP" not in client.finish(lab.seconds(30)), client.story())
    check("falls back to TCP" not in server.output(), server.story())


def plain_server(lab, address):
    """A connection to a peer without an rsocket listener falls back to TCP."""
    port = lab.port()
    server = lab.start(PYTHON, "-c", UPPER_FORKING, address, port)
    lab.listens_tcp(server, port)
    client = lab.client(PYTHON, "-c", ASK_THREE_TIMES, address, port, **over_rdma(lab))
    check("HELLO 2" in client.finish(lab.seconds(20)), client.story())


def without_daemon(lab, address):
    """Sockets are those of TCP if no daemon can be started, and unsupported types have the errors of socket(2)."""
    port = lab.port()
    env = over_rdma(lab, USRDMA_DAEMON="/nonexistent")
    lab.end_daemons()
    server = lab.start(PYTHON, "-c", UPPER_FORKING, address, port, **env)
    lab.listens_tcp(server, port)
    client = lab.client(PYTHON, "-c", ASK_THREE_TIMES, address, port, **env)
    check("HELLO 2" in client.finish(lab.seconds(20)), client.story())
    for arguments, error in (("AF_INET, SOCK_SEQPACKET", "ESOCKTNOSUPPORT"),
                             ("AF_INET, SOCK_STREAM, IPPROTO_UDP", "EPROTONOSUPPORT"), ("AF_UNIX, SOCK_STREAM", "0")):
        script = ("from socket import *\nimport errno\ntry:\n    socket(%s)\n    print('0')\n"
                  "except OSError as error:\n    print(errno.errorcode[error.errno])" % arguments)
        for more in ({}, env):
            program = lab.start(PYTHON, "-c", script, **more)
            check(program.finish(lab.seconds(20)).splitlines()[-1] == error, program.story())


def silent_server(lab, address):
    """With fork support the first write to a server that uses plain TCP waits only for a limited time."""
    port = lab.port()
    server = lab.start(PYTHON, "-c", UPPER_FORKING, address, port)
    lab.listens_tcp(server, port)
    client = lab.client(PYTHON, "-c", ASK_THREE_TIMES, address, port, **fork_safe(lab))
    check("HELLO 2" in client.finish(lab.seconds(30)), client.story())


def silent_client(lab, address):
    """TCP clients that send nothing do not stop an event loop with fork support."""
    port = lab.port()
    server = lab.start(PYTHON, "-c", ECHO_ASYNC, address, port, **fork_safe(lab))
    lab.listens_tcp(server, port)
    with socket.create_connection((address, port)), socket.create_connection((address, port)):
        client = lab.client(PYTHON, "-c", ASK_THREE_TIMES, address, port, **fork_safe(lab))
        check("hello 2" in client.finish(lab.seconds(30)), client.story())


def sizes(lab):
    program = lab.start(PYTHON, "-c", QUEUE_SIZES, **over_rdma(lab, RS_SQ_SIZE="100", RS_RQ_SIZE="200", RS_INLINE="0"))
    check("[100, 200, 0]" in program.finish(lab.seconds(20)), program.story())


def killed(lab, address):
    """A killed server resets the connections of its clients."""
    port = lab.port()
    server = lab.start(PYTHON, "-c", ECHO_ASYNC, address, port, **over_rdma(lab))
    lab.listens_cm(server, port)
    client = lab.client(PYTHON, "-c", "import socket, sys\n"
                        "connection = socket.create_connection((sys.argv[1], int(sys.argv[2])))\n"
                        "connection.sendall(b'x'); connection.recv(1)\n"
                        "print('there', flush=True)\n"
                        "connection.recv(1)\n", address, port, **over_rdma(lab))
    client.says("there")
    server.signal(signal.SIGKILL)
    printed = client.finish(lab.seconds(20), None)
    check("ConnectionResetError" in printed, client.story())


DEBIANS = glob.glob("/usr/lib/*/rsocket/librspreload.so")
# Debian's module creates the semaphore for the first user; other users cannot open it.
DEBIANS_SEMAPHORE = "/dev/shm/sem.rsocket_fork"


def names_of(library):
    listed = subprocess.run(["nm", "-D", "--defined-only", library], stdout=subprocess.PIPE, text=True,
                            check=True).stdout
    return {line.split()[2] for line in listed.splitlines() if line.split()[1] == "T"}


def all_names(lab):
    missing = names_of(DEBIANS[0]) - names_of(os.path.join(lab.tree, "lib", "rsocket", "librspreload.so"))
    check(not missing, f"Debian's module also has {sorted(missing)}")


def debians_module(lab, address):
    """Runs rdma-core's preload module on our library."""
    port = lab.port()
    env = {"LD_PRELOAD": ":".join(filter(None, [lab.env.get("LD_PRELOAD"), DEBIANS[0]]))}
    load = ("-T", "s", "-T", "b", "-T", "v", "-S", 5000, "-C", 20, "-I", 10)
    with WithoutTcp(lab):
        server = lab.start("rstream", "-b", address, "-p", port, *load, **env)
        lab.listens_cm(server, port)
        client = lab.client("rstream", "-s", address, "-p", port, *load, **env)
        for side in (client, server):
            check("Gb/sec" in side.finish(lab.seconds(30)), side.story())


def debians_forks(lab, address, ours_is_server):
    """rstream's forking server, one side with rdma-core's module: both sides change from TCP to RDMA."""
    port = lab.port()
    debians = {"LD_PRELOAD": ":".join(filter(None, [lab.env.get("LD_PRELOAD"), DEBIANS[0]])), "RDMAV_FORK_SAFE": "1"}
    envs = (fork_safe(lab), debians) if ours_is_server else (debians, fork_safe(lab))
    load = ("-T", "b", "-T", "v", "-S", 5000, "-C", 20, "-I", 10)
    server = lab.start("rstream", "-b", address, "-p", port, "-T", "f", *load, **envs[0])
    lab.listens_tcp(server, port)
    with WithoutTcp(lab, 1, 15):
        client = lab.client("rstream", "-s", address, "-p", port, "-T", "s", *load, **envs[1])
        for side in (client, server):
            printed = side.finish(lab.seconds(30))
            check("Gb/sec" in printed and "verification failed" not in printed, side.story())


def nothing_is_left(lab):
    wait_until(lambda: not (lab.status() or {}).get("processes"), lab.seconds(10), "the end of all processes")


def body(lab, cases):
    cases.run("an ordinary program, by TCP", ordinary_program, lab, False)
    cases.run("an ordinary program, by RDMA", ordinary_program, lab, True)
    for name, options in {"one stream": (), "reverse": ("-R",), "three streams": ("-P", 3), "both ways": ("--bidir",),
                          "datagrams": ("-u", "-b", "100M", "-l", 1000)}.items():
        cases.run(f"iperf3, {name}", iperf3, lab, "127.0.0.1", *options)
    cases.run("iperf3, IPv6", iperf3, lab, "::1")
    with_curl(lab, cases, "curl and a web server", "127.0.0.1")
    with_curl(lab, cases, "three curls at once", "127.0.0.1", 3)
    cases.run("event loops with twenty connections", event_loops, lab, "127.0.0.1")
    cases.run("memory is mapped if the connection is standard input", maps_with_lowest_number, lab, "127.0.0.1")
    cases.run("a server that forks", forking, lab, "127.0.0.1", UPPER_FORKING, "HELLO")
    cases.run("a server that forks and executes", forking, lab, "127.0.0.1", CAT_EXECUTED, "hello")
    cases.run("all of that is RDMA", settled_by_rdma, lab, "127.0.0.1")
    # The thread that waits for the change from TCP to RDMA holds no lock that the child or a later call needs.
    cases.run("a thread that forks", one_case, lab, "a child closes what a thread reads")
    cases.run("a thread that is cancelled before the change to RDMA", one_case, lab, "threads are cancelled")
    cases.run("a one-shot member that changes to RDMA", one_case, lab,
              "a one-shot member stays disabled when its socket changes")
    child = "a child gets events of a socket that it changes"
    cases.run("a child that changes to RDMA", one_case, lab, child)
    cases.run("a child that uses TCP", one_case, lab, child, False)
    cases.run("a socket that is closed while epoll adds it", closed_while_added, lab)
    # USRDMA_EPOLL="RUNS [SEED]" overrides the number of runs, or repeats failed ones.
    asked = [int(word) for word in os.environ.get("USRDMA_EPOLL", "").split()]
    runs, seed = asked[0] if asked else 3, asked[1] if len(asked) > 1 else random.randrange(1 << 32)
    cases.run(f"epoll sets that change at random, as with TCP, seed {seed}", same_events_as_tcp, lab, seed, runs)
    cases.run(f"threads that wait in nested epoll sets, by TCP, seed {seed}", no_event_is_lost, lab, seed, False)
    for number in range(seed, seed + runs):
        cases.run(f"threads that wait in nested epoll sets, by RDMA, seed {number}", no_event_is_lost, lab, number,
                  True)
    cases.run("a server without RDMA", plain_server, lab, "127.0.0.1")
    cases.run("no daemon", without_daemon, lab, "127.0.0.1")
    cases.run("a server without RDMA, with fork support", silent_server, lab, "127.0.0.1")
    cases.run("silent clients of an event loop with fork support", silent_client, lab, "127.0.0.1")
    cases.run("sizes from the environment", sizes, lab)
    cases.run("a server that is killed", killed, lab, "127.0.0.1")
    if DEBIANS:
        cases.run("every name that Debian's module has", all_names, lab)
        cases.run("Debian's module on our library", debians_module, lab, "127.0.0.1")
        cases.run("Debian's module and ours, ours the server", debians_forks, lab, "127.0.0.1", True)
        if os.path.exists(DEBIANS_SEMAPHORE):
            cases.skip("Debian's module and ours, ours the client", f"another user has {DEBIANS_SEMAPHORE}")
        else:
            cases.run("Debian's module and ours, ours the client", debians_forks, lab, "127.0.0.1", False)
            os.unlink(DEBIANS_SEMAPHORE)
    else:
        cases.skip("Debian's module", "it is not installed")
    cases.run("nothing is left", nothing_is_left, lab)
    if not lab.isolated:
        cases.skip("between hosts", "needs two network namespaces")
        return
    lab.add_host()
    cases.run("iperf3, between hosts", iperf3, lab, WIRE["ip4"])
    with_curl(lab, cases, "curl and a web server, between hosts", WIRE["ip4"])
    cases.run("a server that forks, between hosts", forking, lab, WIRE["ip4"], UPPER_FORKING, "HELLO")


if __name__ == "__main__":
    laboratory.main(body)
