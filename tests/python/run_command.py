# SPDX-License-Identifier: MIT
"""What python -m qpmesh.run makes of its words."""

import pathlib
import re
import sys

from qpmesh.run import OPTIONS_WITH_VALUE, command

# Both know which options take a word.
launcher = (pathlib.Path(__file__).parents[2] / "tools" / "qpmesh_run.cpp").read_text()
known = re.search(r"options_with_value\{(.*?)\};", launcher, re.DOTALL)[1]
assert set(re.findall(r'"(.*?)"', known)) == set(OPTIONS_WITH_VALUE)

ours = sys.executable
for words, expected in [
    ("-n 4 program.py a -m b", f"-n 4 -- {ours} program.py a -m b"),
    ("-n 4 -m package", f"-n 4 -- {ours} -m package"),
    ("--prefix -np 2 -- -c pass", f"--prefix -np 2 -- {ours} -c pass"),
    ("-n 2 echo -c hello", "-n 2 -- echo -c hello"),
    ("-n 2 cat first.py -- last", "-n 2 -- cat first.py -- last"),
    ("--hosts a:2,b:2 --wdir my.py program.py", f"--hosts a:2,b:2 --wdir my.py -- {ours} program.py"),
    ("--np=2 --prefix program", "--np=2 --prefix -- program"),
    ("-n 2", "-n 2 --"),
]:
    assert command(words.split())[1:] == expected.split(), (words, command(words.split()))
