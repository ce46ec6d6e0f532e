#!/usr/bin/env python3
"""Runs the commands whose output README and docs/ quote, and compares or rewrites what they quote. Holds the figures of their text to a source.

A marker stands above each quoted block of a command line that runs `pageblock`, an example or a script of docs/, or of a session of Python (`>>>`):

    <!-- run -->                  its output is compared by CI
    <!-- run before a release --> it takes more than 30 seconds of CPU time
    <!-- not run: REASON -->      it needs a real kernel, another machine, or something else that a script lacks

A line `(rows omitted)` or `(...)` in a block stands for lines that are left out, `(...)` within a line for text. Standard error is part of the
output. The commands of a block share a folder that has the repository's files in it, the statements of a session one interpreter.

A measured figure outside of such blocks, in a table, a list or a paragraph, needs a marker above it. The marker holds until the next one of its kind, or
the end of its section (a page is the section of its title):

    <!-- figures: COMMAND -->                  each figure is in what COMMAND prints, to the digits quoted
    <!-- figures before a release: COMMAND --> the same, if it takes more than 30 seconds of CPU time
    <!-- figures in FILE, FILE -->             each figure is in one of these files, named from the page's folder; `blocks`: in the page's own blocks,
                                              `tables`: in its own tables, which have another marker
    <!-- figures not run: REASON -->           they need a real kernel or another machine, or are limits and no measurements

A figure is a number with a separator of thousands, a decimal that cannot be a kernel's version, a number before `%`, `ns`, `us`, `ms`, `s` or
`points`, and in a table a cell of numbers only. What stands in backticks or in the address of a link does not
count, nor does the 95 % of an interval. docs/linux is not looked at: its figures are constants of the kernel.

    docs/figures.py --program target/release/pageblock [--python PYTHON] [--all] [--write] [FILE...]
    docs/figures.py --sources [FILE...]        # without any command: markers, and the files that they name

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
SOURCE = re.compile(r"^<!-- figures(?: (in|not run:|before a release:)|:) (.+) -->$")
SOURCES = ", ".join(f"<!-- figures{kind} -->" for kind in (": COMMAND", " before a release: COMMAND", " in FILE", " not run: REASON"))
UNIT = r"(?= ?%| (?:ns|us|ms|s|points)\b)"
NUMBER = r"\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?"
# What no number follows directly: letters, and what joins it to a name, a date or a share.
FIGURE = re.compile(rf"(?<![\w.,/^-])[-+]?({NUMBER})(?![\w,/^-]|\.\d)")
CELL = re.compile(rf"[-+]?(?:{NUMBER})(?: ?%| ?\*|(?: to| of| /|,|;|:)? [-+]?\(?[-+]?(?:{NUMBER})\)?)*")
VERSION = re.compile(r"[1-7]\.\d{1,2}")
# What the tables of data frames are drawn with.
BOX = set("┌─┬┐│┆╞═╪╡└┴┘")
# A quoted command line that runs the program; others, such as `cat`, may stand beside it.
COMMAND = re.compile(r"^\$ (.*(\||&&) *)?(pageblock|python3 docs/\w+\.py) |^\$ .*(cargo run|\./pool)\b|^>>> ")
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


@dataclass
class Figure:
    """A measured number in the text of a document, with the marker that holds for it: its kind (`""`: a command) and what it names."""

    path: Path
    line: int
    text: str
    source: "tuple[str, str] | None"
    is_in_table: bool

    @property
    def place(self) -> str:
        path = self.path.relative_to(ROOT) if ROOT in self.path.parents else self.path
        return f"{path}:{self.line + 1}"

    def is_in(self, numbers: "list[float]") -> bool:
        """Reports whether one of these numbers is this one, rounded or cut to its digits."""
        value, step = float(self.text.replace(",", "")), 10.0 ** -len(self.text.partition(".")[2])
        cut = step if step < 1 else step / 2
        return any(value - step / 2 - 1e-9 <= number < value + cut - 1e-9 or number == value + step / 2 for number in numbers)


def figures(path: Path) -> "list[Figure]":
    """Returns the measured figures of a document's text."""
    found: "list[Figure]" = []
    # The sections that the line is in, with their depth and marker.
    sections: "list[tuple[int, tuple[str, str] | None]]" = [(0, None)]
    for at, line in enumerate(path.read_text().split("\n")):
        if match := SOURCE.match(line):
            sections[-1] = (sections[-1][0], (match.group(1) or "", match.group(2)))
        elif line.startswith("#"):
            depth = len(line) - len(line.lstrip("#"))
            while sections[-1][0] >= depth:
                sections.pop()
            sections.append((depth, sections[-1][1]))
        elif not line.startswith("    "):
            found += [Figure(path, at, text, sections[-1][1], line.startswith("|")) for text in figures_of(line)]
    return found


def figures_of(line: str) -> "list[str]":
    """Returns the measured figures of a line of text."""
    line = re.sub(r"\]\([^)]*\)", "]", re.sub(r"`[^`]*`|<!--.*?-->|95 % (?=interval|range)", "``", line))
    cells = [cell.strip().strip("*") for cell in line.split("|")[2:-1]] if line.startswith("|") else []
    found = []
    for match in FIGURE.finditer(line):
        text = match.group(1)
        has_unit = re.match(UNIT, line[match.end():]) is not None
        is_decimal = "." in text and not VERSION.fullmatch(text)
        if "," in text or has_unit or is_decimal:
            found.append(text)
    for cell in cells:
        if CELL.fullmatch(cell) and not VERSION.fullmatch(cell):
            found += [text for text in re.findall(NUMBER, cell) if len(text) > 1]
    return list(dict.fromkeys(found))


def numbers_in(text: str) -> "list[float]":
    """Returns every number of a text."""
    return [float(number.replace(",", "")) for number in re.findall(NUMBER, text)]


def source_of(path: Path, source: "tuple[str, str]", program: "Path | None") -> str:
    """Returns the text in which a page's figures must be."""
    kind, named = source
    if kind == "in":
        texts = []
        for name in named.split(", "):
            if start := {"blocks": "    ", "tables": "|"}.get(name):
                texts += [line for line in path.read_text().split("\n") if line.startswith(start)]
            else:
                texts.append((path.parent / name).read_text())
        return "\n".join(texts)
    assert program, "commands are left out without one"
    with tempfile.TemporaryDirectory() as folder:
        return "\n".join(run(named, furnished(Path(folder), program), program))


def check_figures(path: Path, program: "Path | None", with_slow: bool) -> int:
    """Holds a page's figures to their sources. Returns how many are in none, or have no marker."""
    bad, texts = 0, {}
    for figure in figures(path):
        if figure.source is None:
            print(f"{figure.place}: no marker says where {figure.text} is from; allowed: {SOURCES}")
            bad += 1
            continue
        kind, named = figure.source
        if figure.is_in_table and kind == "in" and "tables" in named.split(", "):
            print(f"{figure.place}: a table is no source of itself: {figure.text}")
            bad += 1
            continue
        if kind == "not run:" or (kind.startswith("before") and not with_slow) or (kind != "in" and not program):
            continue
        if figure.source not in texts:
            try:
                texts[figure.source] = numbers_in(source_of(path, figure.source, program))
            except FileNotFoundError as error:
                texts[figure.source] = []
                print(f"{figure.place}: its marker names a file that is not there: {error.filename}")
        if not figure.is_in(texts[figure.source]):
            print(f"{figure.place}: {figure.text} is not in {named}")
            bad += 1
    return bad


def furnished(folder: Path, program: Path) -> Path:
    """Puts the repository's files and the program into a folder, and returns it."""
    for entry in ROOT.iterdir():
        if not entry.name.startswith(".") and entry.name != "target":
            (folder / entry.name).symlink_to(entry)
    (folder / ".bin").mkdir()
    (folder / ".bin/pageblock").symlink_to(program)
    return folder


def run(command: str, folder: Path, program: Path) -> "list[str]":
    """Runs a command line and returns what it prints."""
    environment = {
        "PATH": f"{folder / '.bin'}:{os.environ['PATH']}",
        "HOME": str(folder),
        "PAGEBLOCK_CACHE": os.environ.get("PAGEBLOCK_CACHE") or str(folder / ".cache"),
        "CARGO_HOME": os.environ.get("CARGO_HOME") or str(Path.home() / ".cargo"),
        "CARGO_TARGET_DIR": os.environ.get("CARGO_TARGET_DIR") or str(ROOT / "target"),
        "RUSTUP_HOME": os.environ.get("RUSTUP_HOME") or str(Path.home() / ".rustup"),
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
        folder = furnished(Path(name), program)
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
    parser.add_argument("--program", type=Path, help="the program that is run")
    parser.add_argument("--sources", action="store_true", help="run nothing: look at the markers of figures, and into the files that they name")
    parser.add_argument("--python", type=Path, help="an interpreter with the package; without it sessions of Python are not run")
    parser.add_argument("--all", action="store_true", help="run those that take long, too")
    parser.add_argument("--write", action="store_true", help="rewrite what does not agree")
    parser.add_argument("files", type=Path, nargs="*", help="documents; by default README.md and all of docs/")
    options = parser.parse_args()
    if options.sources == (options.program is not None):
        parser.error("either --program or --sources")
    program = options.program and options.program.resolve()
    if program and not program.is_file():
        parser.error(f"--program: {program} is no file")
    top = [ROOT / "README.md", ROOT / "ARCHITECTURE.md"]
    files = [file.resolve() for file in options.files] or [*top, *sorted((ROOT / "docs").rglob("*.md"))]
    bad = ran = skipped = 0
    for path in files:
        if ROOT / "docs/linux" not in path.parents:
            bad += check_figures(path, program, options.all)
        # From the end, so that rewriting moves no block that is still to come.
        for block in reversed(blocks(path)):
            place = f"{path.relative_to(ROOT)}:{block.first + 1}"
            if block.marker is None:
                print(f"{place}: no marker stands above this block; allowed: <!-- run -->, <!-- run before a release -->, <!-- not run: REASON -->")
                bad += 1
            elif not program or block.marker.startswith("not run") or (block.marker != "run" and not options.all) or (block.is_session and not options.python):
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
    print(f"{ran} blocks run, {skipped} not run; {bad} blocks and figures wrong")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
