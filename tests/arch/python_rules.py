# SPDX-License-Identifier: BSD-2-Clause
"""Rules for Python that need no other program than Python. ruff.toml has the complete list of rules, for ruff."""

import ast
import os
import re
import tomllib

from sources import ROOT, files, read, tracked

# A source with a fault of each kind, and the reports that faults() yields for it at 60 columns.
FAULTY = '''
import os
import sys as system
from re import compile, search as find

LONG = "A string whose line is longer than sixty columns............"


def example():
    """find() is mentioned here, and used below."""
    try:
        return find("a", "b")
    except:
        return None
'''
REPORTS = ["2: unused import os", "3: unused import system", "4: unused import compile",
           "6: 69 columns, at most 60", "13: except without an exception"]
# Imports of names that are exported, attributes of packages, and an except clause with a name.
CORRECT = '''
import os.path
from re import search

__all__ = ["search"]
try:
    os.path.exists("/")
except OSError:
    pass
'''


def max_columns():
    with open(os.path.join(ROOT, "ruff.toml"), "rb") as file:
        return tomllib.load(file)["line-length"]


def python_files():
    """Files with the suffix .py, and scripts without a suffix whose first line names python3."""
    for path in tracked() or files():
        is_script = "." not in os.path.basename(path) and re.match(r"#!.*\bpython3\b", read(path))
        if path.endswith(".py") or is_script:
            yield path


def unused_imports(nodes):
    """Pairs of line and name of the imports whose name occurs neither in the code nor in __all__."""
    used = {node.id for node in nodes if isinstance(node, ast.Name)}
    for node in nodes:
        if isinstance(node, ast.Assign) and any(getattr(target, "id", None) == "__all__" for target in node.targets):
            used |= {item.value for item in ast.walk(node.value) if isinstance(item, ast.Constant)}
    for node in nodes:
        if isinstance(node, ast.Import | ast.ImportFrom) and getattr(node, "module", None) != "__future__":
            for alias in node.names:
                name = alias.asname or alias.name.split(".")[0]
                if name not in used | {"*"}:
                    yield alias.lineno, name


def faults(text, columns):
    """Reports about a source, in the order of its lines. `columns` is the maximal length of a line."""
    try:
        nodes = list(ast.walk(ast.parse(text)))
    except SyntaxError as error:
        return [f"{error.lineno}: {error.msg}"]
    found = [(line, f"unused import {name}") for line, name in unused_imports(nodes)]
    found += [(node.lineno, "except without an exception")
              for node in nodes if isinstance(node, ast.ExceptHandler) and node.type is None]
    found += [(number, f"{len(line)} columns, at most {columns}")
              for number, line in enumerate(text.split("\n"), 1) if len(line) > columns]
    return [f"{line}: {report}" for line, report in sorted(found)]


def breaks():
    columns = max_columns()
    for path in python_files():
        for fault in faults(read(path), columns):
            yield f"{path}:{fault}"


def wrong_reports():
    """The rules applied to FAULTY, to CORRECT and to text that is not Python."""
    for text, wanted in ((FAULTY, REPORTS), (CORRECT, []), ("if:\n", ["1: invalid syntax"])):
        reports = faults(text, 60)
        if reports != wanted:
            yield f"{reports}, not {wanted}"
