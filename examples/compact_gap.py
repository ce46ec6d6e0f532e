"""Counts what kswapd and direct reclaim do with `compact_gap` at most 32 pages (Linux 7.2) and without a limit: docs/compact-gap.md.

Seconds to minutes; `--scale 1` runs the machines at their size. Needs the package `pageblock` and polars.
"""

import argparse
import tempfile
from pathlib import Path

import pageblock
import polars

WORKLOADS = ["android-uptime", "apppressure", "thpfioscale-madvhugepage", "hugealloc"]
KERNELS = ["linux-7.2", "linux-7.2,compact_gap=by_order"]
# Of a row: the counters that it adds up.
ROWS = {
    "reclaimed by kswapd [pages]": ["pgsteal_kswapd"],
    "reclaimed by tasks [pages]": ["pgsteal_direct"],
    "scanned by compaction [pages]": ["compact_migrate_scanned", "compact_free_scanned"],
    "stalls in reclaim": ["allocstall"],
    "stalls in compaction": ["compact_stall"],
    "compactions that succeed": ["compact_success"],
    "huge pages on fault": ["thp_fault_alloc"],
}


def main() -> None:
    """Runs both kernels, and prints a table of medians."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--scale", default="1/16", help="of machines and workloads")
    parser.add_argument("--seeds", type=int, default=10, help="so many seeds")
    given = parser.parse_args()
    grid = {"workloads": WORKLOADS, "kernels": KERNELS, "scales": [given.scale], "seeds": given.seeds}
    with tempfile.TemporaryDirectory() as folder:
        runs = polars.DataFrame(pageblock.sweep(grid, Path(folder) / "gap.sweep"))
    print(f"medians of {given.seeds} seeds at {given.scale}: at most 32 pages (7.2), without a limit, [p of the rank sums]")
    for workload in WORKLOADS:
        print(workload)
        for row, counters in ROWS.items():
            each = [runs.filter(workload=workload, kernel=kernel).select(sum=polars.sum_horizontal(*counters))["sum"] for kernel in KERNELS]
            capped, free = (of.median() for of in each)
            if capped or free:
                print(f"  {row:<30} {capped:>12,.0f} {free:>12,.0f}   {rank_sums(*each):.4f}")


def rank_sums(ours: polars.Series, others: polars.Series) -> float:
    """Returns the two-sided p of the rank sums, of 100,000 labels drawn at random."""
    import numpy

    both = numpy.concatenate([ours.to_numpy(), others.to_numpy()])
    ranks = polars.Series(both).rank().to_numpy()
    middle = ranks.mean() * len(ours)
    found = abs(ranks[: len(ours)].sum() - middle)
    drawn = numpy.random.default_rng(1).permuted(numpy.tile(ranks, (100_000, 1)), axis=1)[:, : len(ours)].sum(axis=1)
    return float((abs(drawn - middle) >= found - 1e-9).mean())


if __name__ == "__main__":
    main()
