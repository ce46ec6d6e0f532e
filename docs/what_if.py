#!/usr/bin/env python3
"""Prints how right what-ifs of recordings are, from recordings of one load under several kernels and settings; or measures them.

    docs/what_if.py docs/what-if.json                 # how far each measure's what-if is from what another kernel recorded
    docs/what_if.py docs/what-if.json --null docs/what-if-null.json    # beside what a program without the rule measured: which is nearer
    docs/what_if.py docs/what-if.json --measure LOAD --program PROGRAM FOLDER

FOLDER is what `pageblock guest run LOAD --record` made, or several of them in one: a folder a column, named after the kernel and its setting, with a
recording a run. Each recording is replayed in both loops under its own kernel and under every other of its columns that differs in the kernel or in one
setting. The predicted ratio of a count is that of the means over the draws under both; the recorded one that of the means over all runs of both columns.
A count below 20 in a recorded column has no ratio. Events are not compared across 6.10.
"""

import argparse
import json
import math
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from statistics import mean
from typing import Any

LOOPS = ["open", "closed"]
FEW = 20
# Where a what-if explains less than this share of what changed, no change of it is marked.
EXPLAINED = 0.5
# Of a normal distribution 95 % are below so many deviations.
DEVIATIONS = 1.645
EVENTS = {"unmovable-fallbacks": "Unmovable", "movable-fallbacks": "Movable", "reclaimable-fallbacks": "Reclaimable"}
COUNTS = {"mismatched-pages": "mismatch_total", "mixed-pageblocks": "mixed_blocks", "failed-requests": "failed"}
# The part of a grade that each measure belongs to.
PARTS = {**dict.fromkeys(EVENTS, "fragmentation"), "mismatched-pages": "mismatch", "mixed-pageblocks": "mixed", "failed-requests": "failures"}
DRAWS = 3


def output(program: Path, *arguments: str) -> Any:
    """Runs the program, and returns the JSON that it prints."""
    return json.loads(subprocess.run([program, *arguments, "--json"], stdout=subprocess.PIPE, check=False).stdout)


def counts(run: "dict[str, Any]") -> "dict[str, float]":
    """Returns the counts of a replay."""
    below = [row for row in run["extfrag"] if row["fallback_order"] < run["pageblock_order"]]
    found: dict[str, float] = {measure: sum(row["count"] for row in below if row["alloc_mt"] == kind) for measure, kind in EVENTS.items()}
    found["mismatched-pages"] = run["counters"]["type_mismatch_pages"]
    found["mixed-pageblocks"] = sum(run["mixed_blocks"].values())
    found["failed-requests"] = sum(count for name, count in run["counters"].items() if name.startswith("alloc_failed_order_"))
    return found


def policy_of(column: str) -> "tuple[str, str]":
    """Returns the kernel of a column, as a preset, and its setting, as a switch; the setting is empty where nothing was set."""
    kernel, _, setting = column.removeprefix("real-").partition("_")
    return "debian-" + ".".join(kernel.split(".")[:2]), setting.removeprefix("vm.")


def measured(program: Path, recording: Path, column: str, columns: "list[str]") -> "dict[str, Any]":
    """Replays a recording under every column that differs in one thing from its own."""
    (kernel, setting), others = policy_of(column), {}
    for other in columns:
        other_kernel, other_setting = policy_of(other)
        if other == column or (other_kernel != kernel) == (other_setting != setting):
            continue
        # What is not set is as the kernel has it by itself; the machine's setting holds where a policy does not say it.
        default = {"watermark_boost_factor": "15000", "watermark_scale_factor": "10"}
        name = setting.split("=")[0]
        if setting and not other_setting and name not in default:
            continue
        says = other_setting or (f"{name}={default[name]}" if setting else "")
        others[other] = f"{other_kernel},{says}".rstrip(",")
    verified = output(program, "verify", str(recording))
    distances = {one["measure"]: one["recorded"] for one in verified["certificate"]["distances"]}
    found: dict[str, Any] = {"recorded": {measure: distances[name] for measure, name in COUNTS.items()}, "loops": {}}
    for loop, key in (("open", "certificate"), ("closed", "closed_loop")):
        policies = [word for policy in others.values() for word in ("--policy", policy)]
        runs = output(program, "replay", str(recording), f"--{loop}-loop", "--seeds", str(DRAWS), *policies)
        rows = {row["label"]: row["recorded"] for row in runs[0]["calibration"]["rows"]}
        found["recorded"].update({measure: rows[f"for-{kind}"] for measure, kind in EVENTS.items()})
        names = list(dict.fromkeys(run["policy"] for run in runs))
        replayed = [[counts(run) for run in runs if run["policy"] == name] for name in names]
        means = [{measure: round(mean(draw[measure] for draw in draws), 1) for measure in draws[0]} for draws in replayed]
        margins = {part: of.get("margin_permyriad") for part, of in verified[key]["parts"].items() if of["support"] in ("supported", "large_changes")}
        found["loops"][loop] = {"own": means[0], "under": dict(zip(others, means[1:], strict=True)), "margins": margins}
    return found


def measure(file: Path, load: str, program: Path, folder: Path) -> None:
    """Measures all recordings of a folder that the file does not have."""
    kept = json.loads(file.read_text()) if file.exists() else {}
    columns = sorted(column.name for column in folder.iterdir() if column.name.startswith("real-"))
    for column in columns:
        for run in sorted((folder / column).iterdir()):
            place = kept.setdefault(load, {}).setdefault(column, {})
            recording = run / "recording.pbrec" if (run / "recording.pbrec").exists() else run
            if run.name not in place:
                place[run.name] = measured(program, recording, column, columns)
                file.write_text(json.dumps(kept, separators=(",", ":")).replace('{"recorded"', '\n{"recorded"') + "\n")
                print(f"{load} {column} {run.name}: measured", file=sys.stderr)


def what_ifs(kept: "dict[str, Any]") -> "Iterator[dict[str, Any]]":
    """Goes through every what-if: from a recording to another column."""
    for load, columns in kept.items():
        recorded = {column: {m: mean(run["recorded"][m] for run in runs.values()) for m in PARTS} for column, runs in columns.items()}
        for column, runs in columns.items():
            for name, run in runs.items():
                for loop in filter(run["loops"].get, LOOPS):
                    of = run["loops"][loop]
                    for other, under in of["under"].items():
                        (a, _), (b, _) = policy_of(column), policy_of(other)
                        for m, part in PARTS.items():
                            # No ratio, or not of the same events.
                            if (m in EVENTS and (a == "debian-6.1") != (b == "debian-6.1")) or min(recorded[column][m], recorded[other][m]) < FEW:
                                continue
                            real = math.log(recorded[other][m] / recorded[column][m])
                            said = math.log(max(under[m], 1) / max(of["own"][m], 1))
                            yield {
                                "what": "kernel" if a != b else "setting", "loop": loop, "measure": m, "real": real, "said": said,
                                "kernel": a, "pair": (load, *sorted((column, other))), "from": (load, column, name), "margin": of["margins"].get(part),
                            }


def beyond_own_error(one: "dict[str, Any]") -> bool:
    """Tells whether a change is larger than the recording's own error."""
    return one["margin"] is not None and abs(math.exp(one["said"]) - 1) * 10000 > one["margin"]


def table(rows: "list[list[str]]") -> None:
    """Prints rows, the first of them a head."""
    widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
    for row in rows:
        print("  ".join([*(text.ljust(width) for text, width in zip(row[:3], widths[:3], strict=True)), *(text.rjust(width) for text, width in zip(row[3:], widths[3:], strict=True))]).rstrip())


def right(marked: "list[dict[str, Any]]") -> str:
    """Says how many changes are marked, and how many of them have the wrong direction."""
    wrong = [one for one in marked if one["said"] * one["real"] < 0]
    return f"{len(marked)}, {len(wrong)} wrong ({len({one['pair'] for one in marked})} pairs, {len({one['pair'] for one in wrong})})"


def summed(marked: "list[dict[str, Any]]") -> str:
    """Says the same with the share of wrong ones; where none is, how many are right at least."""
    wrong = sum(one["said"] * one["real"] < 0 for one in marked)
    # With 95 % on one side, if pairs are independent.
    least = f"; at least {100 * 0.05 ** (1 / len({one['pair'] for one in marked})):.0f} % are right" if marked and not wrong else ""
    return f"{right(marked)}, {100 * wrong / max(len(marked), 1):.0f} %{least}"


def errors(of: "list[dict[str, Any]]") -> "tuple[float, float]":
    """Returns the root mean square of the error and of the real change. Pairs count alike, however many recordings they have."""
    pairs = {one["pair"] for one in of}
    each = [[one for one in of if one["pair"] == pair] for pair in sorted(pairs)]
    return math.sqrt(mean(mean((one["said"] - one["real"]) ** 2 for one in pair) for pair in each)), math.sqrt(mean(pair[0]["real"] ** 2 for pair in each))


def explained(of: "list[dict[str, Any]]") -> float:
    """Returns the share of what changed that what-ifs explain."""
    error, change = errors(of)
    return 1 - (error / change) ** 2


def marked(of: "list[dict[str, Any]]", by: "list[dict[str, Any]]") -> "list[dict[str, Any]]":
    """Returns the changes that are marked by the limit that other what-ifs, or the same, give."""
    if not by or explained(by) < EXPLAINED:
        return []
    limit = DEVIATIONS * errors(by)[0]
    return [one for one in of if beyond_own_error(one) and abs(one["said"]) > limit]


def report(kept: "dict[str, Any]") -> None:
    """Prints how far what-ifs are from what was recorded, and what is marked by which rule."""
    rows = [["what-if", "loop", "measure", "cases", "pairs", "real change", "error", "explained", "marked by own error", "beyond the limit"]]
    all_own: list[dict[str, Any]] = []
    all_marked: list[dict[str, Any]] = []
    held_out: list[dict[str, Any]] = []
    found = list(what_ifs(kept))
    for what in ("kernel", "setting"):
        for loop in LOOPS:
            for m in PARTS:
                of = [one for one in found if (one["what"], one["loop"], one["measure"]) == (what, loop, m)]
                if not of:
                    continue
                own = [one for one in of if beyond_own_error(one)]
                beyond = marked(of, of)
                for kernel in sorted({one["kernel"] for one in of}):
                    there = [one for one in of if one["kernel"] == kernel]
                    held_out += marked(there, [one for one in of if one["kernel"] != kernel])
                all_own += own
                all_marked += beyond
                error, change = errors(of)
                rows.append([
                    what, loop, m, str(len(of)), str(len({one["pair"] for one in of})), f"{change:.3f}", f"{error:.3f}", f"{100 * explained(of):.0f} %",
                    right(own), right(beyond) if explained(of) >= EXPLAINED else "not marked",
                ])
    table(rows)
    print(f"marked by own error: {summed(all_own)}")
    print(f"beyond the limit: {summed(all_marked)}")
    print(f"beyond the limit that the other kernels give: {summed(held_out)}")


def beside(kept: "dict[str, Any]", null: "dict[str, Any]") -> None:
    """Prints by how much what-ifs are wrong, pair by pair of columns, beside those of another measurement."""
    errors_of: list[dict[tuple[Any, ...], list[float]]] = []
    for measured_by in (kept, null):
        by_pair: dict[tuple[Any, ...], list[float]] = {}
        for one in what_ifs(measured_by):
            by_pair.setdefault((one["what"], one["loop"], one["measure"], one["pair"]), []).append(abs(one["said"] - one["real"]))
        errors_of.append(by_pair)
    ours, theirs = errors_of
    rows = [["what-if", "loop", "measure", "pairs", "error", "of the null", "nearer", "farther", "p"]]
    for what, loop, m in dict.fromkeys(key[:3] for key in theirs):
        pairs = [key for key in theirs if key[:3] == (what, loop, m) and key in ours]
        a, b = ([mean(of[key]) for key in pairs] for of in (ours, theirs))
        nearer, farther = (sum(1 for x, y in zip(a, b) if sign * (y - x) > 0) for sign in (1, -1))
        n = nearer + farther
        # The exact sign test, on both sides.
        p = min(1.0, 2 * sum(math.comb(n, at) for at in range(max(nearer, farther), n + 1)) / 2**n)
        rows.append([what, loop, m, str(len(pairs)), f"{mean(a):.3f}", f"{mean(b):.3f}", str(nearer), str(farther), f"{p:.3f}"])
    table(rows)


def main() -> None:
    """Prints what was measured, or measures recordings."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path, help="what was measured")
    parser.add_argument("--null", type=Path, help="compare with what another program measured")
    parser.add_argument("--measure", metavar="LOAD", help="measure the recordings of a load")
    parser.add_argument("--program", type=Path, help="the program that measures")
    parser.add_argument("folder", type=Path, nargs="?", help="the recordings")
    options = parser.parse_intermixed_args()
    if options.null is not None:
        beside(json.loads(options.file.read_text()), json.loads(options.null.read_text()))
    elif options.measure is None:
        report(json.loads(options.file.read_text()))
    elif options.program is None or options.folder is None:
        parser.error("--measure needs --program and a folder")
    else:
        measure(options.file, options.measure, options.program, options.folder)


if __name__ == "__main__":
    main()
