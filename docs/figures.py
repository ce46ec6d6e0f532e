#!/usr/bin/env python3
"""Runs the commands whose output README and docs/ quote, and compares or rewrites what they quote.

A marker stands above each quoted block of a command line that runs `pageblock` or a script of docs/, or of a session of Python (`>>>`):

    <!-- run -->                  its output is compared by CI
    <!-- run before a release --> it takes more than 30 seconds of CPU time
    <!-- not run: REASON -->      it needs a real kernel, another machine, or something else that a script lacks

A line `(rows omitted)` or `(...)` in a block stands for lines that are left out, `(...)` within a line for text. Standard error is part of the
output. The commands of a block share a folder that has the repository's files in it, the statements of a session one interpreter.

    docs/figures.py --program target/release/pageblock [--python PYTHON] [--all] [--write] [FILE...]

Exit status: 0 if everything agrees, 1 if not, 2 for wrong usage.
"""

import argparse
import difflib
import json
import os
import re
import resource
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LEFT_OUT = "(...)"
LEFT_OUT_ROWS = (LEFT_OUT, "(rows omitted)")
MARKER = re.compile(r"^<!-- (run|run before a release|not run: .+) -->$")
# What the tables of data frames are drawn with.
BOX = set("┌─┬┐│┆╞═╪╡└┴┘")
# A quoted command line that runs the program; others, such as `cat`, may stand beside it.
COMMAND = re.compile(r"^\$ (.*\| *)?(pageblock|python3 docs/predictions\.py) |^>>> ")
# Runs the statements of a session and prints what each printed, as JSON.
SESSION = """
import contextlib, doctest, io, json, sys, traceback
names, printed = {"__name__": "__main__"}, []
for example in doctest.DocTestParser().get_examples(sys.stdin.read()):
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        try:
            exec(compile(example.source, "<session>", "single"), names)
        except Exception as error:
            print("".join(traceback.format_exception_only(error)), end="")
    printed.append(out.getvalue())
print(json.dumps(printed))
"""


@dataclass
class Step:
    """A command line with the output that is quoted below it."""

    command: str
    typed: "list[str]"
    output: "list[str]" = field(default_factory=list)


@dataclass
class Block:
    """A quoted block: the lines of a file from `first` (counted from 0) to `end`, without their indentation."""

    path: Path
    first: int
    end: int
    lines: "list[str]"
    marker: "str | None"

    @property
    def is_session(self) -> bool:
        return self.lines[0].startswith(">>> ")

    def steps(self) -> "list[Step]":
        steps: "list[Step]" = []
        continued = False
        if self.is_session:
            for line in self.lines:
                if line.startswith(">>> "):
                    steps.append(Step(line[4:], [line]))
                elif line.startswith("... ") and not steps[-1].output:
                    steps[-1].typed.append(line)
                else:
                    steps[-1].output.append(line)
            return steps
        document = None
        for line in self.lines:
            if continued or document:
                steps[-1].typed.append(line)
                steps[-1].command += "\n" + line
                document = None if line == document else document
            elif line.startswith("$ "):
                steps.append(Step(line[2:], [line]))
                here = re.search(r"<<(\w+)$", line)
                document = here.group(1) if here else None
            elif steps:
                steps[-1].output.append(line)
            continued = steps[-1].typed[-1].endswith("\\") and not steps[-1].output if steps else False
        return steps


def blocks(path: Path) -> "list[Block]":
    """Returns the indented blocks of a document that quote the program."""
    lines = path.read_text().split("\n")
    found, at, marker = [], 0, None
    while at < len(lines):
        line = lines[at]
        if match := MARKER.match(line):
            marker = match.group(1)
        elif line.startswith("    ") and (at == 0 or not lines[at - 1].strip() or marker is not None):
            end = at
            while end < len(lines) and (lines[end].startswith("    ") or not lines[end].strip()):
                end += 1
            while not lines[end - 1].strip():
                end -= 1
            text = [line[4:] for line in lines[at:end]]
            if any(COMMAND.match(line) for line in text):
                found.append(Block(path, at, end, text, marker))
            marker, at = None, end
            continue
        elif line.strip():
            marker = None
        at += 1
    return found


def run(command: str, folder: Path, program: Path) -> "list[str]":
    """Runs a command line and returns what it prints."""
    environment = {
        "PATH": f"{folder / '.bin'}:{os.environ['PATH']}",
        "HOME": str(folder),
        "PAGEBLOCK_CACHE": os.environ.get("PAGEBLOCK_CACHE") or str(folder / ".cache"),
        "LC_ALL": "C.UTF-8",
        "TZ": "UTC",
    }
    result = subprocess.run(
        ["bash", "-c", command], cwd=folder, env=environment, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", check=False,
    )
    return result.stdout.rstrip("\n").split("\n") if result.stdout.strip() else []


def run_session(block: Block, folder: Path, python: Path) -> "list[list[str]]":
    """Runs the statements of a session and returns what each prints."""
    result = subprocess.run(
        [python, "-I", "-c", SESSION], cwd=folder, input="\n".join(block.lines) + "\n", text=True, check=True, stdout=subprocess.PIPE,
        env={**os.environ, "PAGEBLOCK_CACHE": str(folder / ".cache")},
    )
    return [text.rstrip("\n").split("\n") if text.strip() else [] for text in json.loads(result.stdout)]


def pattern(line: str) -> "re.Pattern[str]":
    """Returns what a quoted line stands for."""
    parts = (re.escape(part) for part in line.rstrip().split(LEFT_OUT))
    return re.compile(".*".join(parts) + r"\s*")


def agrees(quoted: "list[str]", printed: "list[str]") -> bool:
    """Reports whether a quotation is what was printed, but for what it leaves out."""
    at, free = 0, False
    for line in quoted:
        if line.strip() in LEFT_OUT_ROWS:
            free = True
            continue
        wanted = pattern(line)
        while at < len(printed) and not wanted.fullmatch(printed[at]):
            if not free:
                return False
            at += 1
        if at == len(printed):
            return False
        at, free = at + 1, False
    return free or at == len(printed)


def label(line: str) -> str:
    """Returns what stays where figures change: the words before them; of a line that a table draws, its corner."""
    line = line.strip()
    if line and set(line) <= BOX:
        return line[0]
    return re.split(r"\s{2,}|[-+]?\d", line)[0]


def rewritten(quoted: "list[str]", printed: "list[str]") -> "list[str] | None":
    """Returns what was printed with the same lines left out; `None` where a line that was quoted is printed no more."""
    new: "list[str]" = []
    at, free = 0, False
    for line in quoted:
        if line.strip() in LEFT_OUT_ROWS:
            free = True
            continue
        cut = line.split(LEFT_OUT)[0] if LEFT_OUT in line else None
        found = next((i for i in range(at, len(printed)) if label(printed[i]) == label(cut or line)), None)
        if found is None:
            return None
        if found > at or free:
            new.append(LEFT_OUT_ROWS[1])
        same = pattern(line).fullmatch(printed[found])
        new.append(line if same else printed[found] if cut is None else printed[found][: len(cut)].rstrip() + " " + LEFT_OUT)
        at, free = found + 1, False
    if free or at < len(printed):
        new.append(LEFT_OUT_ROWS[1])
    return new


def check(block: Block, program: Path, python: "Path | None") -> "tuple[bool, list[str] | None]":
    """Runs a block. Returns whether all agrees, and the lines that it should have."""
    agreed, lines, whole = True, [], True
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for entry in ROOT.iterdir():
            if not entry.name.startswith(".") and entry.name != "target":
                (folder / entry.name).symlink_to(entry)
        (folder / ".bin").mkdir()
        (folder / ".bin/pageblock").symlink_to(program)
        printed_by_session = run_session(block, folder, python) if block.is_session and python else []
        for at, step in enumerate(block.steps()):
            printed = printed_by_session[at] if block.is_session else run(step.command, folder, program)
            quoted = step.output
            while quoted and not quoted[-1].strip():
                quoted = quoted[:-1]
            good = agrees(quoted, printed)
            agreed &= good
            new = quoted if good else rewritten(quoted, printed)
            if new is None:
                whole = False
            lines += [*step.typed, *(new or []), *step.output[len(quoted):]]
            if not good:
                print(f"{block.path.relative_to(ROOT)}:{block.first + 1}: $ {step.command}")
                shown = difflib.unified_diff(quoted, printed if new is None else new, "quoted", "printed", lineterm="", n=0)
                print("".join(f"  {line}\n" for line in shown))
    return agreed, lines if whole else None


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", type=Path, required=True, help="the program that is run")
    parser.add_argument("--python", type=Path, help="an interpreter with the package; without it sessions of Python are not run")
    parser.add_argument("--all", action="store_true", help="run those that take long, too")
    parser.add_argument("--write", action="store_true", help="rewrite what does not agree")
    parser.add_argument("files", type=Path, nargs="*", help="documents; by default README.md and all of docs/")
    options = parser.parse_args()
    program = options.program.resolve()
    if not program.is_file():
        parser.error(f"--program: {program} is no file")
    files = [file.resolve() for file in options.files] or [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    bad = ran = skipped = 0
    for path in files:
        # From the end, so that rewriting moves no block that is still to come.
        for block in reversed(blocks(path)):
            place = f"{path.relative_to(ROOT)}:{block.first + 1}"
            if block.marker is None:
                print(f"{place}: no marker stands above this block; allowed: <!-- run -->, <!-- run before a release -->, <!-- not run: REASON -->")
                bad += 1
            elif block.marker.startswith("not run") or (block.marker != "run" and not options.all) or (block.is_session and not options.python):
                skipped += 1
            else:
                before = resource.getrusage(resource.RUSAGE_CHILDREN)
                agreed, new = check(block, program, options.python)
                after = resource.getrusage(resource.RUSAGE_CHILDREN)
                seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
                print(f"{place}: {'agrees' if agreed else 'differs'}, {seconds:.1f} s of CPU time", flush=True)
                ran += 1
                if agreed:
                    continue
                if options.write and new is not None:
                    lines = path.read_text().split("\n")
                    lines[block.first : block.end] = [("    " + line).rstrip() for line in new]
                    path.write_text("\n".join(lines))
                    print(f"{place}: rewritten")
                else:
                    bad += 1
    print(f"{ran} blocks run, {bad} wrong, {skipped} not run")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
