"""python -m qpmesh.run -n 4 program.py …: qpmesh-run with this Python for the program."""

import os
import shutil
import sys


def command(arguments):
    """What is executed: options of qpmesh-run go first, and what ends in .py, -m or -c is Python's."""
    here = os.path.join(os.path.dirname(__file__), "bin", "qpmesh-run")
    launcher = here if os.access(here, os.X_OK) else shutil.which("qpmesh-run")
    if launcher is None:
        raise SystemExit("qpmesh.run: qpmesh-run is neither in this package nor in PATH")
    for i, word in enumerate(arguments):
        if word.endswith(".py") or word in ("-m", "-c"):
            options = [each for each in arguments[:i] if each != "--"]
            return [launcher, *options, "--", sys.executable, *arguments[i:]]
    return [launcher, *arguments]


if __name__ == "__main__":
    line = command(sys.argv[1:])
    os.execv(line[0], line)
