#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The table of docs/from-mpi.md: of each program here, in each form, how many lines of code and how many calls.

Lines: neither empty nor comments alone; C and C++ as clang-format lays them out. Calls: places where the program calls the
library, which for qpmesh and mpi4py are calls on the namespace or the module, or on one of the objects named below.
"""
import re
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
NAMES = ["dot_product", "halo_exchange", "work_queue", "summa", "averaging", "user_reduction", "overlap", "failures"]
OBJECTS = r"\b(?:world|row|column|summing|status|pairs\[\w+\]|requests\[\w+\])\.\w+\("
FORMS = {  # the end of a file's name, what begins a comment, what a call looks like
    "qpmesh": (".cpp", "//", r"\bqpmesh::[a-z]\w+\(|" + OBJECTS),
    "MPI": ("_mpi.c", "//", r"\bMPI_[A-Z]\w*\("),
    "qpmesh in Python": ("_qpmesh.py", "#", r"\bqpmesh\.[a-z]\w+\(|" + OBJECTS),
    "mpi4py": (".py", "#", r"\bMPI\.[A-Z]\w*\(|" + OBJECTS),
}


def count(name, form):
    """Lines and calls, or nothing where there is no such program."""
    end, comment, call = FORMS[form]
    path = FOLDER / (name + end)
    if not path.exists():
        return None
    lines = [re.sub(rf"(^|\s){comment} .*", "", line) for line in path.read_text().split("\n")]
    lines = [line for line in lines if line.strip()]
    return len(lines), len(re.findall(call, "\n".join(lines)))


def table():
    rows = ["| program | " + " | ".join(f"{form}: lines, calls" for form in FORMS) + " |", "|---" * (len(FORMS) + 1) + "|"]
    for name in NAMES:
        cells = [f"[{name.replace('_', ' ')}](../examples/side_by_side/{name}.cpp)"]
        for form, (end, _, _) in FORMS.items():
            counted = count(name, form)
            cells.append(f"[{counted[0]}, {counted[1]}](../examples/side_by_side/{name}{end})" if counted else "none")
        rows.append("| " + " | ".join(cells) + " |")
    return "\n".join(rows)


if __name__ == "__main__":
    print(table())
