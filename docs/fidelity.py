#!/usr/bin/env python3
"""Prints how well the allocator follows recordings of real kernels, from what was measured of them; or measures recordings.

    docs/fidelity.py docs/fidelity.json decisions     # guided replay: decisions that are exactly the kernel's
    docs/fidelity.py docs/fidelity.json what-if       # free replay: how far from what was recorded
    docs/fidelity.py docs/fidelity.json draws         # how far replays of one demand differ
    docs/fidelity.py docs/fidelity.json measure --program PROGRAM [--draws N] [--policy NAME]... FOLDER...

`measure` verifies recordings, and replays each N times in both loops under its own policy and those that are named. The recordings take 10 to 23 MB each,
and but for one are not part of the project: the file keeps what the program printed of them with --json, and the version that printed it. Shares of
decisions are rounded down. `rare`: fewer than 20 of them were recorded. A star: measured by an earlier version.
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path
from statistics import median
from typing import Any

KINDS = ["CPU-list frame", "refill frame", "refill count", "drain frame", "drain count", "zone frame", "fallback"]
DISTANCES = {"by types": "fallback_types", "pages by types": "mismatch_types", "failed": "failed", "free pages": "free_by_order", "pageblocks": "blocks"}
LOOPS = {"open": "certificate", "closed": "closed_loop"}
RARE = 20


def output(program: Path, *arguments: str) -> Any:
    """Runs the program, and returns the JSON that it prints."""
    # The status is 1 where a recording has gaps.
    return json.loads(subprocess.run([program, *arguments, "--json"], stdout=subprocess.PIPE, check=False).stdout)


def measure(program: Path, folder: Path, draws: int, policies: "list[str]") -> "dict[str, Any]":
    """Verifies a recording, and replays it in both loops."""
    verified = output(program, "verify", str(folder))
    measured = {key: verified[key] for key in ("program", "preset", "events", "kinds", "drains", "end_state_recorded", "end_state_equal")}
    for loop, key in LOOPS.items():
        of = verified[key]
        distances = {one["measure"]: [one["recorded"], one["replayed"], one["permyriad"]] for one in of["distances"]}
        measured[loop] = {"grade": of["grade"], "distances": distances, "draws": {}}
        chosen = dict.fromkeys([verified["preset"], *policies])
        named = [word for policy in chosen for word in ("--policy", policy)]
        runs = output(program, "replay", str(folder), *named, f"--{loop}-loop", "--seeds", str(draws)) if draws else []
        for policy in dict.fromkeys(run["policy"] for run in runs):
            of_policy = [run for run in runs if run["policy"] == policy]
            measured[loop]["draws"][policy] = {
                "events": [fragmenting(run) for run in of_policy],
                "pages": [run["counters"]["type_mismatch_pages"] for run in of_policy],
                "failed": [sum(count for name, count in run["counters"].items() if name.startswith("alloc_failed_order_")) for run in of_policy],
            }
    return measured


def fragmenting(run: "dict[str, Any]") -> int:
    """Returns the fragmentation events of a run: fallbacks below the order of a pageblock."""
    return sum(row["count"] for row in run["extfrag"] if row["fallback_order"] < run["pageblock_order"])


def share(part: int, whole: int) -> str:
    """Returns a share in percent, rounded down to hundredths."""
    hundredths = 10000 * part // whole
    return f"{hundredths // 100}.{hundredths % 100:02}"


def table(rows: "list[list[str]]") -> None:
    """Prints rows, the first of them a head."""
    widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
    for row in rows:
        print("  ".join([row[0].ljust(widths[0]), *(text.rjust(width) for text, width in zip(row[1:], widths[1:], strict=True))]).rstrip())


def supported(recordings: "dict[str, dict[str, Any]]") -> None:
    """Prints how far free replays are from what was recorded."""
    rows = [["medians of 5 draws", "loop", "grade", "events", "replayed", "pages", "replayed", *(f"{name} %" for name in DISTANCES)]]
    for name, of in recordings.items():
        for loop in LOOPS:
            distances = of[loop]["distances"]

            def counts(measure: str) -> "list[str]":
                recorded, replayed, _ = distances[measure]
                return ["rare", ""] if recorded < RARE else [str(recorded), str(replayed)]

            def distance(measure: str) -> str:
                recorded, _, permyriad = distances.get(measure, (0, 0, 0))
                return "" if recorded < RARE else f"{permyriad / 100:.2f}"

            cells = [distance(measure) for measure in DISTANCES.values()]
            rows.append([name, loop, of[loop]["grade"], *counts("fallback_total"), *counts("mismatch_total"), *cells])
    table(rows)


def guided(recordings: "dict[str, dict[str, Any]]") -> None:
    """Prints the shares of decisions that are exactly the kernel's."""
    rows = [["exact decisions [%]", "decisions", *KINDS[:-1], "fallback", "drains", "of"]]
    for name, of in recordings.items():
        if "kinds" not in of:
            rows.append([f"{name} *", *of["earlier"]])
            continue
        kinds = {kind: (one["exact"], one["cases"]) for kind, one in of["kinds"].items()}
        cells = [share(*kinds[kind]) if kind in kinds else "" for kind in KINDS]
        drains = of["drains"]
        rows.append([name, str(sum(cases for _, cases in kinds.values())), *cells, share(drains["exact"], drains["cases"]), str(drains["cases"])])
    table(rows)


def chance(recordings: "dict[str, dict[str, Any]]") -> None:
    """Prints how far draws of one replay differ: each count as recorded, then its least, median and most."""
    rows = [["recording", "replayed under", "loop", "draws", "events", "least", "median", "most", "pages", "least", "median", "most", "failed", "least", "most"]]
    long = {"events": "fallback_total", "pages": "mismatch_total", "failed": "failed"}
    for name, of in recordings.items():
        for policy in of["open"]["draws"]:
            for loop in LOOPS:
                cells = []
                for key, values in of[loop]["draws"][policy].items():
                    recorded = str(of[loop]["distances"][long[key]][0]) if policy == of["preset"] else ""
                    middle = [] if key == "failed" else [f"{median(values):.0f}"]
                    cells += [recorded, str(min(values)), *middle, str(max(values))]
                rows.append([name, policy, loop, str(len(of[loop]["draws"][policy]["events"])), *cells])
    table(rows)


def main() -> None:
    """Prints a table of what was measured, or measures recordings."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path, help="what was measured")
    parser.add_argument("what", choices=["decisions", "what-if", "draws", "measure"])
    parser.add_argument("--program", type=Path, help="the program that measures")
    parser.add_argument("--draws", type=int, default=16, help="replays of each loop and policy; 0: none")
    parser.add_argument("--policy", action="append", default=[], help="a further policy to replay under")
    parser.add_argument("folders", type=Path, nargs="*", help="recordings to measure")
    options = parser.parse_intermixed_args()
    if (options.what == "measure") != (bool(options.folders) and options.program is not None):
        parser.error("measure needs --program and recordings, the others neither")
    recordings = json.loads(options.file.read_text())
    if options.what == "decisions":
        guided(recordings)
    elif options.what == "what-if":
        supported({name: of for name, of in recordings.items() if "open" in of})
    elif options.what == "draws":
        # Where everything is rare, draws say nothing.
        chance({name: of for name, of in recordings.items() if "open" in of and of["open"]["distances"]["fallback_total"][0] >= RARE})
    for folder in options.folders:
        recordings[folder.name] = measure(options.program, folder, options.draws, options.policy)
        options.file.write_text(json.dumps(recordings, indent=1) + "\n")
        print(f"{folder.name}: measured", file=sys.stderr)


if __name__ == "__main__":
    main()
