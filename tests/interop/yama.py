# SPDX-License-Identifier: BSD-2-Clause
"""Debian's kernel with each setting of Yama (kernel.yama.ptrace_scope), in a virtual machine: programs of an
unprivileged user exchange data, and `usrdma doctor` names the setting. Run by tests/soak; root only."""

import os
import re
import shlex
import sys

from tests.interop.guest import Guest, prepare
from tests.programs import lab as laboratory
from tests.programs.lab import Failure, check

KEPT = os.path.join(laboratory.BUILD, "vm")
SLOW = 120  # seconds; the guest is emulated
# The command that doctor advises. Scope 3 can be changed by a boot only.
ADVICE = {1: "sysctl kernel.yama.ptrace_scope=0", 2: "sysctl kernel.yama.ptrace_scope=0",
          3: "set kernel.yama.ptrace_scope=0 in /etc/sysctl.d, and boot"}

PAIR = """
{usrdma} rping -s -a 127.0.0.1 -C 3 & until {usrdma} status | grep -q :7174; do sleep 0.2; done
{usrdma} rping -c -v -a 127.0.0.1 -C 3 && wait
{usrdma} doctor
"""


def data_are_exchanged(guest, scope):
    guest.start("sysctl", "-w", f"kernel.yama.ptrace_scope={scope}").finish(SLOW)
    pair = PAIR.format(usrdma=shlex.quote(os.path.join(laboratory.BUILD, "usrdma")))
    text = guest.start("setpriv", "--reuid", laboratory.UID_NOBODY, "--regid", laboratory.UID_NOBODY, "--clear-groups",
                       "bash", "-c", shlex.quote(pair), seconds=SLOW).finish(SLOW, None)
    check(text.count("ping data: ") == 3, text)
    if scope:
        check(re.search(rf"^warning  processes cannot access each other's memory: ptrace_scope is {scope}\. .*\n"
                        rf" +try: {re.escape(ADVICE[scope])}$", text, re.M), text)
    else:
        check("ok       processes of this user can access each other's memory" in text, text)


def main():
    why_not = prepare(KEPT) if os.geteuid() == 0 else "needs root"
    if why_not:
        print(re.sub("^", "# ", why_not, flags=re.M))
        return 1
    guest = Guest(KEPT, "yama", "none")
    failed = 0
    try:
        for scope in (0, 1, 2, 3):
            try:
                data_are_exchanged(guest, scope)
                print(f"ok {scope + 1} - ptrace_scope {scope}: data are exchanged", flush=True)
            except Failure as failure:
                failed += 1
                print(f"not ok {scope + 1} - ptrace_scope {scope}: data are exchanged\n" +
                      re.sub("^", "#   ", str(failure), flags=re.M), flush=True)
    finally:
        guest.end()
    print("1..4")
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())
