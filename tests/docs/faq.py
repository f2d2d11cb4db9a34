#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Every message that docs/faq.md explains is one that the library prints: each piece of it, between what stands for values
(…, numbers, names of options), stands in a text of the sources."""
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent


def literals():
    """What string literals hold, those side by side as one, and {} for values."""
    text = ""
    for folder in ("src", "bootstrap", "tools", "include"):
        for path in sorted((ROOT / folder).rglob("*.[ch]pp")):
            source = re.sub(r"//.*", "", path.read_text())
            source = re.sub(r'"\s*"', "", source)
            text += "\n".join(re.findall(r'"((?:[^"\\]|\\.)*)"', source)) + "\n"
    return re.sub(r"\{[^}]*\}", "…", text)


def main():
    texts = literals()
    missing, count = [], 0
    for bold in re.findall(r"\*\*(.+?)\*\*", (ROOT / "docs" / "faq.md").read_text()):
        for message in re.findall(r"`([^`]+)`", bold):
            count += 1
            # Numbers and numbered names are values.
            for piece in re.split(r"…|\b\d+\b|'[^']*'", message):
                piece = piece.strip(" :;,.()")
                if len(piece) > 3 and piece not in texts:
                    missing.append(f"docs/faq.md: nothing prints \"{piece}\" (of \"{message}\")")
    print("\n".join(missing) if missing else f"{count} messages stand in the sources")
    return 1 if missing or count < 20 else 0


if __name__ == "__main__":
    sys.exit(main())
