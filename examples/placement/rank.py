"""Runs the small changes of Linux under the workloads that real kernels run too, beside Linux and packed placement, and prints what each gains and
what it costs (docs/linux-patch.md). Runs that are in the folder are not repeated.

    cargo build --release
    python3 rank.py target/release/placement FOLDER [--base debian-6.12] [--seeds 6] [--workload NAME...]
"""

import argparse
import json
import statistics
import subprocess
from pathlib import Path
from typing import Any

# The scale of each workload: that of its guest, or the machine itself.
SCALES = {
    "hugealloc-short": "1/8", "hugealloc": "1/8", "oscillating": "1", "mixed": "1", "kernel-memory": "1",
    "parallelio": "1/32", "thpfioscale-madvhugepage": "1/64", "apppressure": "1/16",
}  # fmt: skip
LIMIT = "percpu_pagelist_high_fraction"
# What is added to the base, and the lines that Linux would change; a counter of free pages a pageblock is about twelve of them.
CHANGES = {
    "": None, "placement=packed": None,
    f"{LIMIT}=32": 0, f"{LIMIT}=64": 0, f"{LIMIT}=128": 0,
    "decide=freed-half": 16, "decide=freed-eighth": 16, "decide=freed-or-half": 16, "decide=freed-fuller": 18,
    "decide=look-8": 24, "decide=fallback": 24, "decide=tail-16": 16, "decide=zone-16": 18, "decide=zone-2": 18,
    "decide=half-8": 28, "decide=half-fallback": 28, "decide=fuller-8-fallback": 40,
}  # fmt: skip


def main() -> None:
    """Does everything."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--base", default="debian-6.12")
    parser.add_argument("--seeds", type=int, default=6)
    parser.add_argument("--workload", action="append", help="these workloads only")
    parser.add_argument("--change", action="append", help="these changes only, beside Linux as it is")
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    changes = ["", *given.change] if given.change else list(CHANGES)
    print("| workload | change | lines | huge pages [%] | seeds better, worse | pageblocks free, unmovable | work | steps | locks |")
    print("|---|---|---:|---:|---:|---:|---:|---:|---:|")
    for workload in given.workload or SCALES:
        base = runs(given, workload, "")
        for change in changes:
            print(row(workload, change, base, runs(given, workload, change)))


def runs(given: argparse.Namespace, workload: str, change: str) -> "list[dict[str, Any]]":
    """Returns the runs of a workload under a change, a seed each."""
    scale = SCALES[workload]
    policy = f"{given.base},{change}" if change else given.base
    file = given.folder / f"{workload}-{policy}-{scale.replace('/', '_')}-{given.seeds}.json"
    if not file.exists():
        command = [given.program, "run", workload, "--policy", policy, "--scale", scale, "--seeds", str(given.seeds), "--json"]
        file.write_bytes(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    return json.loads(file.read_text(encoding="utf-8"))


def huge(run: "dict[str, Any]") -> float:
    """Returns the share of huge-page faults that succeed; where nobody faults for them, of free memory in whole pageblocks."""
    counters = run["counters"]
    got, refused = counters["thp_fault_alloc"], counters["thp_fault_fallback"]
    if got + refused:
        return 100 * got / (got + refused)
    free = sum(count << order for zone in run["free_blocks"].values() for order, count in enumerate(zone))
    return 100 * whole(run) / max(free >> run["pageblock_order"], 1)


def whole(run: "dict[str, Any]") -> int:
    """Returns the free pageblocks at the end."""
    order = run["pageblock_order"]
    return sum(count << (at - order) for zone in run["free_blocks"].values() for at, count in enumerate(zone) if at >= order)


def row(workload: str, change: str, base: "list[dict[str, Any]]", changed: "list[dict[str, Any]]") -> str:
    """Returns a row of the table: means over the seeds; counts in thousands."""

    def mean(value: Any) -> float:
        return statistics.mean(value(run) for run in changed)

    def thousands(*names: str) -> str:
        return f"{mean(lambda run: sum(run['counters'][name] for name in names)) / 1000:,.0f}"

    pairs = [(huge(a), huge(b)) for a, b in zip(base, changed, strict=True)]
    better, worse = sum(b > a for a, b in pairs), sum(b < a for a, b in pairs)
    unmovable = mean(lambda run: sum(run["blocks_by_type"].get(kind, 0) for kind in ("Unmovable", "Reclaimable")))
    work = thousands("pgsteal_kswapd", "pgsteal_direct", "compact_migrate_scanned", "compact_free_scanned", "pgmigrate_success")
    lines = CHANGES.get(change)
    cells = [
        workload, f"`{change}`" if change else "Linux", "" if lines is None else str(lines), f"{mean(huge):.1f}",
        f"{better}, {worse}" if change else "", f"{mean(whole):.1f}, {unmovable:.1f}", work,
        thousands("list_probes", "fallback_block_looks"), thousands("zone_lock_acquired"),
    ]  # fmt: skip
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    main()
