#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The workflow tests what scripts/platforms tests: the same systems, suites and compilers."""
import importlib.machinery
import importlib.util
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
loader = importlib.machinery.SourceFileLoader("platforms", str(ROOT / "scripts/platforms"))
sys.dont_write_bytecode = True
platforms = importlib.util.module_from_spec(importlib.util.spec_from_loader("platforms", loader))
sys.modules["platforms"] = platforms
loader.exec_module(platforms)

text = (ROOT / ".github/workflows/platforms.yml").read_text()
rows = {}
for line in re.findall(r"- \{ (name: .*) \}$", text, re.MULTILINE):
    row = dict(part.split(": ", 1) for part in line.split(", "))
    rows[row["name"]] = {key: value.strip('"').removeprefix("debian:") for key, value in row.items() if key != "name"}
(arm64,) = re.findall(r"^    name: (debian-\S+)$", text, re.MULTILINE)
rows[arm64] = {"image": "trixie"}

expected = {}
for name, platform in platforms.PLATFORMS.items():
    expected[name] = {"image": platform.suite}
    if platform.cxx:
        expected[name] |= {"packages": " ".join(platform.packages), "cc": platform.cc, "cxx": platform.cxx}
assert rows == expected, f"the workflow has {rows}, scripts/platforms has {expected}"
