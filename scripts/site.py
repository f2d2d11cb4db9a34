#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The pages as a static site: site.py FOLDER. README is its main page; build/reference/html goes beside them, where it was made.

A table with a column named "ratio" gets a plot of it. Every link of the site is followed, and one that leads nowhere is an error."""
import html
import re
import shutil
import sys
from pathlib import Path
from urllib.parse import unquote, urldefrag

import markdown

ROOT = Path(__file__).resolve().parent.parent
REFERENCE = ROOT / "build" / "reference" / "html"
MENU = [("tutorial", "Tutorial"), ("install", "Install"), ("start", "Start"), ("collectives/README", "Collectives"), ("messages", "Messages"),
        ("memory", "Memory"), ("from-mpi", "From MPI"), ("faq", "Errors"), ("tuning", "Tuning"), ("performance", "Performance"),
        ("options", "Options"), ("design", "Design")]
STYLE = """
:root { --text: #1d2430; --back: #fff; --soft: #f3f5f8; --line: #d9dee6; --link: #0b57a4; --bar: #4a90d0; --bad: #d0704a; color-scheme: light dark }
@media (prefers-color-scheme: dark) { :root { --text: #dde3ec; --back: #14181f; --soft: #1d232d; --line: #343c49; --link: #82b7f0 } }
* { box-sizing: border-box }
body { margin: 0; color: var(--text); background: var(--back); font: 16px/1.55 system-ui, sans-serif }
header { background: var(--soft); border-bottom: 1px solid var(--line); padding: .5rem 1rem }
header nav { max-width: 62rem; margin: auto; display: flex; flex-wrap: wrap; gap: .2rem 1rem; align-items: baseline }
header .name { font-weight: 700; font-size: 1.15rem }
main { max-width: 62rem; margin: auto; padding: 1rem }
h1, h2, h3 { line-height: 1.25; margin: 1.8rem 0 .6rem } h1 { margin-top: .6rem }
a { color: var(--link); text-decoration: none } a:hover { text-decoration: underline }
code { font: .88em ui-monospace, monospace; background: var(--soft); padding: .1em .25em; border-radius: 3px; overflow-wrap: anywhere }
pre { background: var(--soft); border: 1px solid var(--line); border-radius: 6px; padding: .7rem .9rem; overflow-x: auto }
pre code { background: none; padding: 0; overflow-wrap: normal }
td code { overflow-wrap: break-word }  /* a column is as wide as its longest word */
.table { overflow-x: auto } table { border-collapse: collapse; margin: .6rem 0 }
th, td { border: 1px solid var(--line); padding: .3rem .6rem; text-align: left; vertical-align: top } th { background: var(--soft) }
figure { margin: .8rem 0 } figcaption { font-size: .85rem } img { max-width: 100% } figure svg { width: 100%; max-width: 40rem; height: auto }
.k, .kt, .kd, .kr { color: #a0308c } .s, .s1, .s2, .cpf { color: #2a7d3f } .c1, .cm, .c { color: #7a828e; font-style: italic } .mi, .mf { color: #a0522d }
@media (prefers-color-scheme: dark) { .k, .kt, .kd, .kr { color: #e08ad0 } .s, .s1, .s2, .cpf { color: #8fd0a0 } .mi, .mf { color: #e0a080 } }
@media (max-width: 40rem) { main { padding: .6rem .8rem } table { font-size: .88rem } th, td { padding: .25rem .4rem } }
"""


def slug(text, _separator="-"):
    """As GitHub makes anchors of headings."""
    return re.sub(r"[^\w\- ]", "", text.lower().strip()).replace(" ", "-")


def target_of(page):
    """Where a page lies on the site."""
    if page == ROOT / "README.md":
        return Path("index.html")
    path = page.relative_to(ROOT)
    if path.parts[0] == "docs":
        path = path.relative_to("docs")
    return path.with_suffix(".html")


def plot(names, values):
    """Bars on a logarithmic scale around 1, which is as fast as the other one."""
    import math
    row, left, right, width = 22, 150, 60, 640
    most = max(max(values), 1 / min(values), 1.5)
    reach = (width - left - right) / 2
    middle = left + reach
    lines = [f'<svg viewBox="0 0 {width} {row * len(values) + 24}" role="img" font-size="12" font-family="sans-serif" fill="currentColor">']
    for i, (name, value) in enumerate(zip(names, values)):
        length = reach * math.log(value) / math.log(most)
        x, y = min(middle, middle + length), 4 + row * i
        colour = "var(--bar)" if value >= 1 else "var(--bad)"
        lines.append(f'<text x="{left - 8}" y="{y + 13}" text-anchor="end">{html.escape(name)}</text>'
                     f'<rect x="{x:.1f}" y="{y}" width="{abs(length):.1f}" height="{row - 6}" fill="{colour}"/>'
                     f'<text x="{max(middle, middle + length) + 5:.1f}" y="{y + 13}">{value:g}</text>')
    bottom = row * len(values)
    lines.append(f'<line x1="{middle}" y1="0" x2="{middle}" y2="{bottom + 4}" stroke="currentColor"/>'
                 f'<text x="{middle}" y="{bottom + 18}" text-anchor="middle">as fast</text></svg>')
    return "".join(lines)


def plots_of(table):
    """Of each column "ratio", by the heading before it."""
    rows = [[re.sub(r"<[^>]*>", "", cell).strip() for cell in re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row, re.S)]
            for row in re.findall(r"<tr>(.*?)</tr>", table, re.S)]
    figures = ""
    for column, heading in enumerate(rows[0] if rows else []):
        if heading != "ratio" or column == 0:
            continue
        pairs = [(row[0], float(row[column])) for row in rows[1:] if len(row) > column and re.fullmatch(r"\d+(\.\d+)?", row[column])]
        if len(pairs) > 2:
            caption = html.escape(f"{rows[0][0]}, {rows[0][column - 1].split(',')[0]}: ratio, right is better")
            figures += f"<figure>{plot(*zip(*pairs))}<figcaption>{caption}</figcaption></figure>"
    return figures


def to_html(page, pages):
    text = page.read_text()
    text = re.sub(r"<!--.*?-->", "", text, flags=re.S)
    text = re.sub(r"^( *)```(\w*)[^\n]*$", r"\1```\2", text, flags=re.M)  # what tests are told of a block
    body = markdown.markdown(text, extensions=["tables", "fenced_code", "codehilite", "toc", "sane_lists"], extension_configs={
        "toc": {"slugify": slug}, "codehilite": {"guess_lang": False}})
    here = target_of(page)
    up = "../" * (len(here.parts) - 1)

    def link(match):
        address, anchor = urldefrag(html.unescape(match.group(1)))
        if re.match(r"[a-z]+:", address) or not address:
            return match.group(0)
        path = (page.parent / unquote(address)).resolve()
        if path.is_dir() and (path / "README.md") in pages:
            path = path / "README.md"
        if path in pages:
            return f'href="{up}{target_of(path)}{"#" + anchor if anchor else ""}"'
        copy = Path("files") / path.relative_to(ROOT)
        FILES[path] = copy
        return f'href="{up}{copy}"'

    body = re.sub(r'href="([^"]*)"', link, body)
    body = re.sub(r'src="([^"]*)"', lambda match: link(match).replace("href=", "src="), body)
    body = re.sub(r"<table>.*?</table>", lambda table: plots_of(table.group(0)) + f'<div class="table">{table.group(0)}</div>', body, flags=re.S)
    title = re.search(r"<h1[^>]*>(.*?)</h1>", body, re.S)
    title = re.sub(r"<[^>]*>", "", title.group(1)) if title else page.stem
    menu = "".join(f'<a href="{up}{name}.html">{label}</a>' for name, label in MENU)
    if REFERENCE.exists():
        menu += f'<a href="{up}reference/index.html">Reference</a>'
    return (f'<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'
            f'<title>{title}{"" if title == "qpmesh" else " - qpmesh"}</title><link rel="stylesheet" href="{up}style.css"></head>'
            f'<body><header><nav><a class="name" href="{up}index.html">qpmesh</a>{menu}</nav></header><main>{body}</main></body></html>\n')


FILES = {}  # that pages link to, and where they lie on the site


def folder_page(folder):
    entries = "".join(f'<li><a href="{html.escape(entry.name)}{"/index.html" if entry.is_dir() else ""}">{html.escape(entry.name)}</a></li>'
                      for entry in sorted(folder.iterdir()) if entry.name != "index.html")
    return f'<!doctype html><meta charset="utf-8"><title>{folder.name}</title><ul>{entries}</ul>\n'


def dead_links(site):
    dead, count = [], 0
    anchors = {}
    for page in sorted(site.rglob("*.html")):
        if "reference" in page.relative_to(site).parts[:1]:
            continue
        for address in re.findall(r'(?:href|src)="([^"]*)"', page.read_text()):
            address, anchor = urldefrag(html.unescape(address))
            if re.match(r"[a-z]+:", address):
                continue
            count += 1
            target = (page.parent / unquote(address)).resolve() if address else page
            if not target.is_file():
                dead.append(f"{page.relative_to(site)}: {address}")
            elif anchor and target.suffix == ".html":
                if target not in anchors:
                    anchors[target] = set(re.findall(r'id="([^"]*)"', target.read_text()))
                if anchor not in anchors[target]:
                    dead.append(f"{page.relative_to(site)}: {address}#{anchor}")
    return dead, count


def main():
    site = Path(sys.argv[1]).resolve()
    shutil.rmtree(site, ignore_errors=True)
    site.mkdir(parents=True)
    pages = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")] + sorted((ROOT / "docs").rglob("*.md"))
    for page in pages:
        target = site / target_of(page)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(to_html(page, pages))
    (site / "style.css").write_text(STYLE)
    for path, copy in FILES.items():
        if path.is_dir():
            shutil.copytree(path, site / copy, dirs_exist_ok=True)
            for folder in [site / copy, *(each for each in (site / copy).rglob("*") if each.is_dir())]:
                (folder / "index.html").write_text(folder_page(folder))
        elif path.is_file():
            (site / copy).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, site / copy)
    for page in site.rglob("*.html"):  # a link to a folder is one to its list
        text = page.read_text()
        found = re.sub(r'href="([^":#]*)"', lambda match: f'href="{match.group(1).rstrip("/")}/index.html"'
                       if (page.parent / unquote(match.group(1))).is_dir() else match.group(0), text)
        if found != text:
            page.write_text(found)
    if REFERENCE.exists():
        shutil.copytree(REFERENCE, site / "reference")
    dead, count = dead_links(site)
    print("\n".join(f"error: a dead link in {each}" for each in dead))
    print(f"{len(pages)} pages, {count} links, {len(dead)} of them dead: {sys.argv[1]}/index.html")
    return 1 if dead else 0


if __name__ == "__main__":
    sys.exit(main())
