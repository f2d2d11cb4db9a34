# SPDX-License-Identifier: MIT
"""python -m qpmesh.run -n 4 program.py …: qpmesh-run with this Python for the program."""

import os
import shutil
import sys


BIN = os.path.join(os.path.dirname(__file__), "bin")  # the tools of pip's package

# As in tools/qpmesh_run.cpp: the word behind them is theirs.
OPTIONS_WITH_VALUE = ("-n", "-np", "--np", "--grace-ms", "--hosts", "--hostfile", "--ssh", "--wdir", "--remote-run",
                      "--hosts-timeout-ms", "--states")


def command(arguments):
    """What is executed: a program that ends in .py, -m or -c is Python's, behind the options of qpmesh-run."""
    here = os.path.join(BIN, "qpmesh-run")
    launcher = here if os.access(here, os.X_OK) else shutil.which("qpmesh-run")
    if launcher is None:
        raise SystemExit("qpmesh.run: qpmesh-run is neither in this package nor in PATH")
    end = 0
    while end < len(arguments) and arguments[end].startswith("-") and arguments[end] not in ("--", "-m", "-c"):
        end += 2 if arguments[end] in OPTIONS_WITH_VALUE else 1
    options, program = arguments[:end], arguments[end:]
    if program[:1] == ["--"]:
        program = program[1:]
    if program and (program[0].endswith(".py") or program[0] in ("-m", "-c")):
        program = [sys.executable, *program]
    return [launcher, *options, "--", *program]


def tool():
    """Becomes the tool of this package by whose name it was called: the commands that pip installs."""
    name = os.path.basename(sys.argv[0])
    path = os.path.join(BIN, name)
    if not os.access(path, os.X_OK):
        raise SystemExit(f"{name}: this package of qpmesh was built without it (CLI11 and nlohmann-json were not found)")
    os.execv(path, [path, *sys.argv[1:]])


if __name__ == "__main__":
    line = command(sys.argv[1:])
    os.execv(line[0], line)
