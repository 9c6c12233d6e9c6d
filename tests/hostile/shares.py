# SPDX-License-Identifier: BSD-2-Clause
"""Several attacking users together use up what the daemon has a fixed number of. Other users and root are served."""

import contextlib
import errno
import os
import resource

from tests.hostile import fuse, kit
from tests.hostile.probes import refused_with, rules_file, set_rules
from tests.programs import wire

DEVICE_GET = wire.message(wire.DEVICE_GET, wire.body("device_get", 0, 0))
# The number of threads of the daemon in a close() that may block.
SERVING_MAX = 64
# PROBES_RULE_USERS_MAX of src/daemon/probes.h.
RULE_USERS = 1024
FIRST_UID = 100000


def connects(role):
    """Opens sessions until the daemon refuses one. errno 0: this process has no descriptors for more."""
    def attack():
        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
        held = []
        try:
            while True:
                held.append(wire.Connection(role))
        except wire.Refused as answer:
            return held, f"{len(held)} {answer.errno}"
        except OSError as why:
            return held, f"{len(held)} {0 if why.errno == errno.EMFILE else why.errno}"
    return attack


def creates_channels():
    """Creates event channels, whose own ends it closes, until the daemon refuses one, and then sessions."""
    client, made = wire.Connection(wire.CM), 0
    try:
        while True:
            _, channel = client.request_socket(wire.CM_CHANNEL_CREATE)
            channel.close()
            made += 1
    except wire.Refused as answer:
        held, text = connects(wire.CM)()
        return [client, *held], f"{made} {answer.errno} {text}"


def uses_a_device():
    """A victim: processes connect, publish segments and are introduced to each other."""
    try:
        for _ in range(50):
            with kit.closing(wire.Engine(), wire.Engine(), wire.Connection(wire.CM)) as (one, other, manager):
                one.introduce(other.slot)
                manager.request_socket(wire.CM_CHANNEL_CREATE)[1].close()
    except OSError as why:
        return None, f"{why!r}"
    return None, "served"


def are_served(text):
    for uid in (kit.VICTIM, kit.ROOT):
        with kit.Child(uid, uses_a_device) as child:
            kit.check(child.result == "served", f"{text}: uid {uid}: {child.result}")


def numbers(child):
    return [int(word) for word in child.result.split()]


def sessions_of_several_users(lab):
    """Each of five users opens as many sessions as it can."""
    with kit.daemon(lab, uid=0), contextlib.ExitStack() as stack:
        counts = []
        for uid in range(FIRST_UID, FIRST_UID + 5):
            child = stack.enter_context(kit.Child(uid, connects(wire.CONTROL)))
            count, error = numbers(child)
            if not error:
                print(f"# not tried: the descriptors of one process are sufficient for {count} sessions only")
                return
            kit.check(error in (errno.EDQUOT, errno.EMFILE), f"{count} sessions, errno {error}")
            counts.append(count)
        kit.check(counts == sorted(counts, reverse=True) and counts[-1] >= 16, f"{counts}")
        are_served(f"{counts} sessions")


def descriptors_of_several_users(lab):
    """The daemon has few descriptors. Users create event channels and sessions until it refuses them."""
    limited = ["prlimit", "--nofile=4096:4096"]
    with kit.daemon(lab, uid=0, limited=limited) as process, contextlib.ExitStack() as stack:
        are_served("no attack")
        before = len(os.listdir(f"/proc/{process.pid}/fd"))
        counts = []
        for uid in range(FIRST_UID, FIRST_UID + 3):
            child = stack.enter_context(kit.Child(uid, creates_channels))
            channels, error, _, second_error = numbers(child)
            kit.check((error, second_error) == (errno.EDQUOT, errno.EMFILE), child.result)
            counts.append(channels)
        kit.check(counts[0] > counts[1] > counts[2] > 32, f"{counts}")
        are_served(f"{counts} channels")
        stack.close()
        kit.wait_until(lambda: len(os.listdir(f"/proc/{process.pid}/fd")) <= before, lab.seconds(20),
                       "the descriptors' end")


def passes_a_file(folder, must_hang):
    """Passes a file of a FUSE file system that does not reply to FUSE_FLUSH. If `must_hang`, waits until the daemon
    closes it."""
    def attack():
        try:
            file = fuse.HangingFile(folder)
        except (PermissionError, FileNotFoundError) as why:
            return None, f"not possible: {why}"
        attacker = wire.Connection()
        attacker.send(DEVICE_GET, [file.fd] * 3)
        os.close(file.fd)
        return (file, attacker), f"{not must_hang or file.has_flush.wait(30)}"
    return attack


def files_of_many_users(lab):
    """close() of a file hangs for more users than the daemon has threads for it."""
    with kit.daemon(lab, uid=0), contextlib.ExitStack() as stack:
        for number in range(SERVING_MAX + 6):
            uid = FIRST_UID + number
            folder = os.path.join(lab.scratch, f"attacker-{uid}")
            os.mkdir(folder, 0o700)
            os.chown(folder, uid, uid)
            child = stack.enter_context(kit.Child(uid, passes_a_file(folder, number < SERVING_MAX)))
            if child.result.startswith("not possible"):
                print(f"# not tried: a user cannot mount a file system here: {child.result}")
                return
            kit.check(child.result == "True", f"close() for user {number} does not hang")
        are_served("hanging files")


def sets_rules_as(first, count):
    """Opens a session as each of these users, with rules, until the daemon refuses them."""
    held = []
    for uid in range(first, first + count):
        os.seteuid(uid)
        held.append(wire.Connection(wire.CONTROL))
        os.seteuid(0)
        answer = refused_with(set_rules, held[-1], uid, rules_file(b"call:fail=ENOMEM:name=ibv_reg_mr"))
        if answer:
            return held, f"{len(held) - 1} {answer}"
    return held, f"{len(held)} accepted"


def rules_of_many_users(lab):
    """The number of users whose rules the daemon stores is limited. Root sets rules all the same."""
    with kit.daemon(lab, uid=0), kit.Child(kit.ROOT, lambda: sets_rules_as(FIRST_UID, RULE_USERS + 1)) as child:
        kit.check(child.result == f"{RULE_USERS} EDQUOT", child.result)
        with kit.closing(wire.Connection(wire.CONTROL)) as (root,):
            set_rules(root, kit.ROOT, rules_file(b"call:fail=ENOMEM:name=ibv_reg_mr"))
        are_served("rules")


def body(lab, cases):
    for case in (sessions_of_several_users, descriptors_of_several_users, files_of_many_users, rules_of_many_users):
        cases.run(case.__name__.replace("_", " "), case, lab)


if __name__ == "__main__":
    kit.main(body)
