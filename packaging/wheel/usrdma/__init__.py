# SPDX-License-Identifier: BSD-2-Clause
"""RDMA in user space: libibverbs, librdmacm, a daemon and the command `usrdma`, installed in this package."""

import os

PREFIX = os.path.join(os.path.dirname(os.path.abspath(__file__)), "prefix")


def program():
    """Returns the path of the command `usrdma`."""
    return os.path.join(PREFIX, "bin", "usrdma")


def daemon():
    """Returns the path of the daemon `usrdmad`."""
    return os.path.join(PREFIX, "libexec", "usrdma", "usrdmad")


def pkgconfig_dir():
    """Returns the directory of libibverbs.pc and librdmacm.pc, for PKG_CONFIG_PATH."""
    return os.path.join(PREFIX, "lib", "pkgconfig", "usrdma")
