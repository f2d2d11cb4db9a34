#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Every code block of the pages says what it is, and does what it says.

A fence's first word is the language. What is asked of the block:

  cpp, c           Compiled, and run by four ranks. With a main it is a program, as it stands; a word like sum.cpp names it
                   for console blocks below. Without one it is the inside of a function that has a communicator, `world`.
  … compiled       Compiled only.
  cpp quoted       Each line stands in include/ or src/.
  console          The lines behind "$ " are run, in a folder with the page's programs. What they print is the other lines,
                   in any order, since ranks do not wait for each other to print; "…" stands for any text of a line, and
                   a line of its own for any lines.
  … shown          Nothing: it needs hosts, passwords or time. Other languages must say so.
  none             A drawing, or pseudocode.

A comment before the fence, <!-- given: … -->, has what a fragment finds declared.

  blocks.py BUILD-FOLDER CXX CC LIBRARY TOOLS-FOLDER [MPI-INCLUDE-FOLDER…]
"""
import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
RANKS = 4
SECONDS_MAX = 60  # of one command
SUFFIX = {"cpp": ".cpp", "c": ".c"}


@dataclass
class Block:
    page: Path
    line: int  # of its first line
    words: list
    text: str
    given: str

    @property
    def place(self):
        return f"{self.page.relative_to(ROOT)}:{self.line}"

    @property
    def language(self):
        return self.words[0] if self.words else ""

    @property
    def kind(self):
        if "shown" in self.words:
            return "shown"
        if self.language in ("", "console"):
            return self.language or "drawing"
        if self.language not in SUFFIX:
            return "unknown"
        if "quoted" in self.words:
            return "quoted"
        return "program" if re.search(r"\bint main\(", self.text) else "fragment"

    @property
    def runs(self):
        return "compiled" not in self.words


def pages():
    return [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]


def blocks_of(page):
    lines = page.read_text().split("\n")
    found, at = [], 0
    while at < len(lines):
        fence = re.match(r"( *)```(.*)$", lines[at])
        at += 1
        if not fence:
            continue
        start = at
        while at < len(lines) and lines[at].strip() != "```":
            at += 1
        given = re.search(r"<!-- given:((?:(?!-->).)*)-->\n?$", "\n".join(lines[:start - 1]).rstrip("\n"), re.S)
        text = "\n".join(line.removeprefix(fence[1]) for line in lines[start:at])
        found.append(Block(page, start + 1, fence[2].split(), text, given[1].strip() if given else ""))
        at += 1
    return found


def run(command, **settings):
    """Exit code and what it printed; never for longer than SECONDS_MAX."""
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
                              text=True, timeout=SECONDS_MAX, **settings)
        return done.returncode, done.stdout
    except subprocess.TimeoutExpired as late:
        return 124, f"{late.stdout or ''}\nnot over after {SECONDS_MAX} s"


def line_mark(block, text):
    """The compiler's messages name the page."""
    return f'#line {block.line} "{block.place.rsplit(":", 1)[0]}"\n{text}\n'


def apart(text):
    """Its #include lines, and the rest, with as many lines as before."""
    is_include = re.compile(r"^ *#include .*$", re.M)
    return "\n".join(is_include.findall(text)), is_include.sub("", text)


def fragments_source(fragments, language):
    """One program of all fragments, each a function; it runs those that are to be run, one after the other."""
    in_c = language == "c"
    header = "#include <qpmesh/qpmesh.h>\n#include <stdio.h>\n" if in_c else "#include <qpmesh/qpmesh.hpp>\n#include <cstdio>\n"
    world = "qpmesh_communicator* world" if in_c else "[[maybe_unused]] qpmesh::Communicator& world"
    includes, functions, calls = [header], [], []
    for number, block in enumerate(fragments):
        given_includes, given = apart(block.given)
        more_includes, text = apart(block.text)
        includes += [given_includes, more_includes]
        functions.append(f"static void fragment_{number}({world}) {{\n{'(void)world;' if in_c else ''}{given}\n{{\n"
                         f"{line_mark(block, text)}}}\n}}\n")
        if block.runs:
            calls.append(f'at = "{block.place}"; fragment_{number}(world);')
        else:
            calls.append(f"(void)&fragment_{number};")
    if in_c:
        main = ("int main(void) {\nqpmesh_communicator* world = NULL;\nconst char* at = NULL;\n(void)at;\n"
                "if (qpmesh_init(&world) != QPMESH_OK) return 1;\n" + "\n".join(calls) +
                "\nreturn qpmesh_finalize(world, NULL) == QPMESH_OK ? 0 : 1;\n}\n")
    else:
        main = ('int main() {\nconst char* at = "init";\ntry {\nauto world = qpmesh::init();\n' + "\n".join(calls) +
                '\nworld.finish();\n} catch (const std::exception& error) {\n'
                'std::fprintf(stderr, "%s: %s\\n", at, error.what());\nreturn 1;\n}\n}\n')
    return "\n".join([*includes, *functions, main])


class Check:
    def __init__(self, folder, cxx, cc, library, tools, mpi_includes):
        self.folder, self.library, self.tools = Path(folder), Path(library), Path(tools)
        self.compilers = {"cpp": [*cxx.split(), "-std=c++20"], "c": [*cc.split(), "-std=c99", "-pedantic"]}
        self.mpi_includes = mpi_includes
        self.failures, self.counts = [], Counter()
        shutil.rmtree(self.folder, ignore_errors=True)
        # Under a launcher's variables a rank of a test would take itself for one of that job.
        environment = {name: value for name, value in os.environ.items() if not name.startswith("QPMESH_")}
        self.environment = environment | {"PATH": f"{self.tools}:{os.environ['PATH']}",
                                          "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}

    def fail(self, where, what):
        self.failures.append(f"{where}: {what}")

    def compile(self, name, text, language, links=True):
        """Nothing, or what the compiler says."""
        source = self.folder / f"{name}{SUFFIX[language]}"
        source.parent.mkdir(parents=True, exist_ok=True)
        source.write_text(text)
        command = [*self.compilers[language], "-O0", "-Wall", "-Wextra", "-Werror", "-Wno-unused-variable",
                   "-Wno-unused-but-set-variable", f"-I{ROOT / 'include'}", *(f"-isystem{path}" for path in self.mpi_includes),
                   str(source)]
        command += [str(self.library), f"-Wl,-rpath,{self.library.parent}", "-o", str(self.folder / name)] if links else ["-fsyntax-only"]
        code, output = run(command)
        return output if code else ""

    def four_ranks(self, name):
        return run([str(self.tools / "qpmesh-run"), "-np", str(RANKS), str(self.folder / name)], env=self.environment,
                   cwd=(self.folder / name).parent)

    def needs_mpi(self, block):
        return "qpmesh/mpi.hpp" in block.given + block.text and not self.mpi_includes

    def check_fragments(self, language, fragments, links):
        name = f"fragments_{language}" + ("" if links else "_compiled")
        complaint = self.compile(name, fragments_source(fragments, language), language, links)
        if complaint:
            self.fail(name, complaint)
        elif links:
            code, output = self.four_ranks(name)
            if code:
                self.fail(name, f"four ranks: exit code {code}\n{output}")

    def program_name(self, block):
        named = [word for word in block.words if word.endswith(SUFFIX[block.language])]
        return f"{block.page.stem}/" + (named[0].rsplit(".", 1)[0] if named else f"line_{block.line}")

    def check_program(self, block, run_by_console):
        complaint = self.compile(self.program_name(block), line_mark(block, block.text), block.language)
        if complaint:
            self.fail(block.place, complaint)
        elif block.runs and not run_by_console:
            code, output = self.four_ranks(self.program_name(block))
            if code:
                self.fail(block.place, f"four ranks: exit code {code}\n{output}")

    def check_quoted(self, block, sources):
        for number, line in enumerate(block.text.split("\n")):
            line = re.sub(r"//.*", "", line)
            squeezed = re.sub(r"\s", "", re.sub(r"template *<[^>]*>", "", line)).rstrip(";{")
            if squeezed and squeezed not in sources:
                self.fail(block.place, f"line {block.line + number} stands nowhere in include/ or src/: {line.strip()}")

    def check_console(self, block):
        folder = self.folder / block.page.stem
        folder.mkdir(parents=True, exist_ok=True)
        expected = []
        lines = block.text.split("\n")
        for number, line in enumerate(lines):
            if line.startswith("$ "):
                command = line.removeprefix("$ ")
                expected = []
            else:
                expected.append(line)
            if number + 1 < len(lines) and not lines[number + 1].startswith("$ "):
                continue
            code, output = run(["bash", "-c", command], env=self.environment, cwd=folder)
            printed = [text for text in output.split("\n") if text.strip()]
            if code == 124:
                self.fail(block.place, f"$ {command}\n{output}")
                continue
            for text in [text for text in expected if text.strip() and text.strip() != "…"]:
                pattern = re.compile(".*".join(re.escape(part) for part in text.split("…")))
                match = next((one for one in printed if pattern.fullmatch(one)), None)
                if match is None:
                    self.fail(block.place, f"$ {command}\nprinted no line\n{text}\nbut\n{output}")
                else:
                    printed.remove(match)
            if printed and "…" not in [text.strip() for text in expected]:
                self.fail(block.place, f"$ {command}\nprinted more than the page says:\n" + "\n".join(printed))

    def check(self, blocks):
        jobs = []
        for block in blocks:
            kind = block.kind
            if kind == "unknown":
                self.fail(block.place, f"a block of {block.language}: run it as console, or mark it shown")
            elif kind in ("program", "fragment") and self.needs_mpi(block):
                kind = "without MPI, not compiled"
            elif kind in ("program", "fragment") and not block.runs:
                kind += ", compiled only"
            self.counts[kind] += 1
        compiled = [block for block in blocks if block.kind in ("program", "fragment") and not self.needs_mpi(block)]
        for language in SUFFIX:
            for runs in (True, False):
                fragments = [block for block in compiled
                             if block.kind == "fragment" and block.language == language and block.runs == runs]
                if fragments:
                    jobs.append((self.check_fragments, language, fragments, runs))
        consoles = [block for block in blocks if block.kind == "console"]
        for block in compiled:
            if block.kind == "program":
                name = self.program_name(block).rsplit("/", 1)[1]
                by_console = any(block.page == console.page and name in console.text for console in consoles)
                jobs.append((self.check_program, block, by_console))
        with ThreadPoolExecutor(min(4, os.cpu_count())) as pool:
            for done in [pool.submit(*job) for job in jobs]:
                done.result()
        sources = "".join(re.sub(r"\s", "", path.read_text()) for folder in ("include", "src")
                          for path in (ROOT / folder).rglob("*.[ch]*"))
        for block in blocks:
            if block.kind == "quoted":
                self.check_quoted(block, sources)
            if block.kind == "console" and not self.failures:
                self.check_console(block)


def main():
    folder, cxx, cc, library, tools, *mpi_includes = sys.argv[1:]
    blocks = [block for page in pages() for block in blocks_of(page)]
    check = Check(folder, cxx, cc, library, tools, mpi_includes)
    check.check(blocks)
    print(f"{len(blocks)} blocks of {len(pages())} pages: " +
          ", ".join(f"{count} {kind}" for kind, count in sorted(check.counts.items())))
    for failure in check.failures:
        print(failure)
    return 1 if check.failures or not blocks else 0


if __name__ == "__main__":
    sys.exit(main())
