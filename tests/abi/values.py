# SPDX-License-Identifier: BSD-2-Clause
"""Compares the strings and rates that our libraries return with those of the system's libraries, because programs print
and compare them.

    values.py DIRECTORY       DIRECTORY: contains our libibverbs.so.1 and librdmacm.so.1

For a value that the system's release does not define, our libraries may return any name or rate.
"""

import ctypes
import glob
import json
import os
import subprocess
import sys

from tests.abi.tap import Tap

STRINGS = ("ibv_node_type_str", "ibv_port_state_str", "ibv_event_type_str", "ibv_wc_status_str", "ibv_wr_opcode_str")
RATES = ("ibv_rate_to_mult", "mult_to_ibv_rate", "ibv_rate_to_mbps", "mbps_to_ibv_rate")
EVENTS = ("rdma_event_str",)
UNKNOWN = {**dict.fromkeys(STRINGS, "unknown"), **dict.fromkeys(EVENTS, "UNKNOWN EVENT"), "ibv_rate_to_mult": -1,
           "mult_to_ibv_rate": 0, "ibv_rate_to_mbps": -1, "mbps_to_ibv_rate": 0}
# Nominal rates, which are not those of the API, and values at the limits.
MBPS = [25000, 50000, 100000, 200000, 400000, -1, 1 << 30]
LAST = 600


def print_values(directory):
    """Prints the results of all functions that the libraries of this directory have, as JSON."""
    values = {}
    for library, names in (("libibverbs.so.1", STRINGS + RATES), ("librdmacm.so.1", EVENTS)):
        functions = ctypes.CDLL(os.path.join(directory, library))
        for name in names:
            function = getattr(functions, name, None)
            if not function:
                continue
            arguments = list(range(-2, LAST))
            if name == "mbps_to_ibv_rate":
                arguments += MBPS + [functions.ibv_rate_to_mbps(rate) for rate in range(40)]
            if name not in RATES:
                function.restype = ctypes.c_char_p
            values[name] = {number: result if isinstance(result, int) else result.decode()
                            for number in arguments for result in (function(number),)}
    json.dump(values, sys.stdout)


def values_of(directory):
    env = dict(os.environ, LD_LIBRARY_PATH=directory)
    done = subprocess.run([sys.executable, "-m", "tests.abi.values", "--print", directory], stdout=subprocess.PIPE,
                          env=env, text=True, check=True)
    return json.loads(done.stdout)


def main():
    if sys.argv[1] == "--print":
        print_values(sys.argv[2])
        return 0
    tap = Tap()
    systems = glob.glob("/usr/lib/*/librdmacm.so.1")
    if not systems:
        tap.skip("values of the system's libraries", "not installed")
        return tap.done()
    expected, ours = values_of(os.path.dirname(systems[0])), values_of(os.path.abspath(sys.argv[1]))
    for name, results in expected.items():
        tap.rule(f"{name} has the values of the system's library",
                 [f"{number}: {ours[name].get(number)!r}, expected {result!r}" for number, result in results.items()
                  if result != UNKNOWN[name] and ours[name].get(number) != result])
    defined = {name: sum(result != UNKNOWN[name] for result in results.values()) for name, results in expected.items()}
    tap.rule("the system's libraries define at least 5 values of each function",
             [f"{name}: {count} values" for name, count in defined.items() if count < 5])
    for number in (25000, 100000, 200000, 400000):
        rate = ours["mbps_to_ibv_rate"][str(number)]
        tap.rule(f"mbps_to_ibv_rate({number}) is 0", [f"it is {rate}"] if rate else [])
    return tap.done()


if __name__ == "__main__":
    sys.exit(main())
