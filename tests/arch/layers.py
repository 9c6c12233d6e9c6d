# SPDX-License-Identifier: BSD-2-Clause
"""The layers of src/core/ (ADR 0082): its directories. An edge is a pair of files, without suffix, of which the first
includes the second or calls a function of it. An edge against the order leads to a higher layer."""

import collections
import os
import re

from sources import code_only, files, includes, read

# The lowest first. "" is src/core/ itself, whose files concern all layers.
LAYERS = ("object", "engine", "report", "device", "memory", "queue", "qp", "")

FILES_MAX = 40  # of a directory
LEVELS_MAX = 8  # of the includes within a directory
AGAINST_MAX = 40

# Edges against the direction, and their reasons.
STATE = "struct engine contains this state by value, so that the data path reads it without another pointer"
CREATES = "the first call that needs the engine creates it"
LOST = "the loss of the daemon concerns the objects of all layers"
AGAINST = {
    ("object/objects", "engine/engine_watch"): "struct comp_channel contains the epoll descriptor of its threads",
    ("object/objects", "engine/shard"): "the maximum number of QPs depends on the QPNs of a shard",
    ("engine/engine", "device/av_call"): STATE,
    ("engine/engine", "queue/datagram"): STATE,
    ("engine/engine", "report/failure"): STATE,
    ("engine/engine", "report/usage"): STATE,
    ("engine/engine", "qp/xrc"): STATE,
    ("engine/engine", "qp/xrc_forward"): STATE,
    ("engine/engine", "qp/xrc_remote"): STATE,
    ("engine/armed_spin", "queue/cq"): "a spin ends when its CQ has a completion",
    ("engine/direct_wake", "report/usage"): "peers read in the segment which CQs take wake-ups",
    ("engine/engine_notice", "report/counters"): "dropped notices are counted",
    ("engine/direct_wake", "queue/cq"): "a promised event is reported through its CQ",
    ("engine/channel", "device/context"): "a channel is an object of a context",
    ("engine/channel", "report/call_failed"): "ibv_create_comp_channel() reports why it failed",
    ("engine/engine_notice", "core_notice"): LOST,
    ("engine/engine_run", "queue/datagram"): "datagrams that the transport had no room for are due",
    ("engine/shard", "memory/domain"): "a thread domain selects the shard of its QPs",
    ("report/fault_points", "device/ah"): "a fault rule can name the destination of a datagram",
    ("report/probe", "device/device"): "a trace contains the addresses of the device",
    ("device/ah", "memory/pd"): "an address handle is an object of a protection domain",
    ("device/async", "qp/xrc_remote"): "an event of an XRC QP belongs to each process that has opened it",
    ("device/async", "qp/xrc_remote_server"): "an event of an XRC QP belongs to each process that has opened it",
    ("device/context", "engine_open"): CREATES,
    ("device/context", "memory/mr"): "closing a device revokes the MRs that the application has left",
    ("device/context", "ops"): "a context contains the operations that programs call",
    ("device/context", "queue/qp_error"): "closing a device ends the QPs that the application has left",
    ("device/device", "engine_open"): CREATES,
    ("memory/mr", "queue/failure_call"): "ibv_reg_mr() reports why it failed",
    ("memory/mw", "queue/execute"): "the result of the check of a window is that of the request",
    ("memory/mw", "queue/post"): "ibv_bind_mw() posts a WR",
    ("memory/mw", "queue/wr_batch"): "ibv_bind_mw() waits until no batch is open",
    ("queue/qp_error", "qp/qp"): "an error is a transition of the QP",
    ("queue/srq", "qp/xrc"): "an XRC SRQ is an object of an XRC domain",
}

FUNCTION = re.compile(r"^(?:static inline )?(?!static|typedef)[A-Za-z_][\w \*]*?\b(\w+)\([^;{}]*\)\n\{", re.M)

PROTOTYPE = re.compile(r"^[A-Za-z_][^;{}=]*\([^;{}]*\)[^;{}]*;", re.M)


def core_files():
    return [os.path.relpath(path, "src/core") for path in files(".c", ".h", under=os.path.join("src", "core"))]


def stem(name):
    return os.path.splitext(name)[0]


def layer_of(name):
    return LAYERS.index(os.path.dirname(name))


def edges():
    """Pairs of file names without suffix: the first one includes or calls the second one."""
    defined = {}
    for name in core_files():
        for match in FUNCTION.finditer(code_only(read(os.path.join("src/core", name)))):
            defined[match[1]] = stem(name)
    found = set()
    for name in core_files():
        path = os.path.join("src/core", name)
        code = PROTOTYPE.sub("", code_only(read(path)))
        targets = {stem(included[5:]) for _, included in includes(path) if included.startswith("core/")}
        targets |= {defined[word] for word in re.findall(r"\b(\w+)\(", code) if word in defined}
        found |= {(stem(name), target) for target in targets if target != stem(name)}
    return found


def against():
    return {(source, target) for source, target in edges() if layer_of(source) < layer_of(target)}


def levels(directory):
    """The number of files on the longest chain of includes within a directory."""
    headers = {name: [included[5:] for _, included in includes(os.path.join("src/core", name))
                      if included.startswith(f"core/{directory}/")]
               for name in core_files() if os.path.dirname(name) == directory}
    depths = {}

    def depth(name, through=()):
        if name not in depths:
            below = [depth(other, (*through, name)) for other in headers.get(name, ()) if other not in through]
            depths[name] = 1 + max(below, default=0)
        return depths[name]

    return max((depth(name) for name in headers), default=0)


def layer_breaks():
    for name in core_files():
        if os.path.dirname(name) not in LAYERS:
            yield f"src/core/{name}: its directory is missing in LAYERS"
            return
    found = against()
    for source, target in sorted(found - set(AGAINST)):
        yield f"src/core/{source} includes or calls {target}, which is in a higher layer"
    for source, target in sorted(set(AGAINST) - found):
        yield f"tests/arch/layers.py: {source} does not include or call {target}: remove it from AGAINST"
    if len(found) > AGAINST_MAX:
        yield f"{len(found)} edges against the direction of the layers of src/core/, at most {AGAINST_MAX}"


def layer_sizes():
    counts = collections.Counter(os.path.dirname(name) for name in core_files())
    for directory, count in sorted(counts.items()):
        if count > FILES_MAX:
            yield f"src/core/{directory} has {count} files, at most {FILES_MAX}"
        if levels(directory) > LEVELS_MAX:
            yield f"src/core/{directory} has {levels(directory)} levels of includes, at most {LEVELS_MAX}"


if __name__ == "__main__":
    counts = collections.Counter(os.path.dirname(name) for name in core_files())
    for layer in LAYERS:
        print(f"{layer or '.'}: {counts[layer]} files, {levels(layer) if layer else 0} levels")
    print(f"{len(edges())} edges, {len(against())} of them against the direction of the layers")
