#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Every relative link of the pages leads to a file of this tree, and every anchor to a heading. No network."""
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent


def without_code(text):
    text = re.sub(r"^ *```.*?^ *```$", "", text, flags=re.S | re.M)
    return re.sub(r"(`+)(?!`).*?\1", "", text)


def anchors_of(page):
    """As GitHub names headings: lower case, blanks as hyphens, no punctuation; the second of a name has -1."""
    text = re.sub(r"^ *```.*?^ *```$", "", page.read_text(), flags=re.S | re.M)
    found = set(re.findall(r'<a (?:id|name)="([^"]+)"', text))
    for heading in re.findall(r"^#+ +(.*?) *#*$", text, re.M):
        words = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()
        name = re.sub(r"[^\w\- ]", "", words).replace(" ", "-")
        number, unique = 0, name
        while unique in found:
            number += 1
            unique = f"{name}-{number}"
        found.add(unique)
    return found


def main():
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    links, dead = 0, []
    for page in sorted(pages):
        text = without_code(page.read_text())
        for target in re.findall(r"\]\(<?([^)>\s]+)>?\)", text) + re.findall(r'(?:href|src)="([^"]+)"', text):
            if re.match(r"[a-z]+:", target):
                continue
            links += 1
            path, _, anchor = target.partition("#")
            file = (page.parent / path).resolve() if path else page
            if not file.exists() or not file.is_relative_to(ROOT):
                dead.append(f"{page.relative_to(ROOT)}: no file {target}")
            elif anchor and file.suffix == ".md" and anchor not in anchors_of(file):
                dead.append(f"{page.relative_to(ROOT)}: no heading {target}")
    print(f"{links} links of {len(pages)} pages, {len(dead)} dead")
    print("\n".join(dead))
    return 1 if dead or not links else 0


if __name__ == "__main__":
    sys.exit(main())
