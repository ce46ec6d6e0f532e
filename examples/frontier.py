"""Every kernel under every workload: runs the sweep of frontier.toml, draws docs/pictures/frontier.svg, and writes the table of
docs/frontier.md again.

    pip install 'pageblock[dask]' matplotlib numpy polars scipy
    python examples/frontier.py --out frontier.sweep            # --seeds 8 for fewer seeds, --dask 4 for a cluster of four processes
    python examples/frontier.py --finalists --out finalists.sweep --seeds 6     # the second table: some of them at 1/8
"""

import argparse
import contextlib
import itertools
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import matplotlib
import numpy
import polars
from matplotlib import pyplot
from matplotlib.ticker import NullFormatter
from scipy import stats

import pageblock

HERE = Path(__file__).parent
PAGE, PICTURE = HERE.parent / "docs/frontier.md", HERE.parent / "docs/pictures/frontier.svg"
BEGIN, END = "<!-- examples/frontier.py writes from here -->\n", "<!-- to here -->\n"
WORK = ["pgsteal_kswapd", "pgsteal_direct", "compact_migrate_scanned", "compact_free_scanned", "pgmigrate_success"]
NAMES = {row["measure"]: row["column_name"] for row in pageblock.measures().to_dicts()}
FAULT, SMALL = NAMES["huge-pages-on-fault"], NAMES["free-in-small-blocks"]
COLUMNS = ["linux-3.10", "linux-4.4", "linux-4.20", "linux-5.15", "linux-6.1", "linux-6.12", "linux-7.3"]
# The loads of recordings have a machine of 640 MiB, and cannot run in 1/64.
LOADS, SCALE_OF_LOADS = ["mixed", "oscillating", "kernel-memory"], "1/8"
BASE = "linux-7.3"
VARIANTS = {
    f"{BASE},placement=packed": "packed",
    f"{BASE},percpu_pagelist_high_fraction=64": "short CPU lists",
    f"{BASE},claim_order_unmovable=5": "claims from order 5",
    f"{BASE},nofragment=defrag_mode": "defrag_mode",
    f"{BASE},nofragment=defrag_mode,defrag_blocks=all": "all build blocks",
    f"{BASE},nofragment=defrag_mode,defrag_last=fails": "defrag_mode=2",
    f"{BASE},decide=superpageblocks": "superpageblocks",
    f"{BASE},atomic_boost=on": "atomic boost",
    f"{BASE},decide=owners": "owners",
    f"{BASE},decide=lifetimes": "lifetimes",
    f"{BASE},decide=boundary": "boundary",
    f"{BASE},decide=trees": "trees",
    f"{BASE},decide=unmapped": "unmapped",
}
# With fewer pairs an interval says nothing; a workload that no variant changes for certain is left out.
FEWEST, NOTHING = 5, "0"
MEASURES = {"huge": ("Huge pages [points]", 1), "work": ("Work [thousands of pages]", 1000)}
# Those that run at 1/8, and the workloads whose runs take seconds there.
FINALISTS = ["packed", "short CPU lists", "defrag_mode", "all build blocks", "superpageblocks", "trees", "unmapped"]
WORKLOADS_OF_FINALISTS = ["hugealloc-short", "parallelio", "android-uptime", "apppressure-tabs", "netperf-udp"]
MEASURES_OF_FINALISTS = MEASURES | {
    "gigabytes": ("Gigabytes without an unmovable page [points]", 1), "probes": ("Lists looked at [thousands]", 1000),
    "locks": ("Zone locks [thousands]", 1000),
}
BEGIN_2, END_2 = "<!-- examples/frontier.py --finalists writes from here -->\n", "<!-- to here, too -->\n"
COLOURS = ["red", "green", "brown", "orange", "pink", "purple", "cyan", "olive", "blue", "gray", "red", "green", "brown"]
MARKS = dict(zip(VARIANTS, [(f"tab:{colour}", mark) for colour, mark in zip(COLOURS, "s^vDPXp*h<dH>")]))


def main() -> None:
    """Does everything."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("frontier.sweep"), help="the folder of the sweep, which goes on there")
    parser.add_argument("--seeds", type=int, help="run so many seeds instead of those of the grid")
    parser.add_argument("--workload", action="append", help="run these workloads only, and write nothing")
    parser.add_argument("--finalists", action="store_true", help="run some changes at 1/8, and write their table")
    parser.add_argument("--dask", type=int, help="run on a local Dask cluster of so many processes")
    given = parser.parse_args()
    grid = tomllib.loads((HERE / "frontier.toml").read_text(encoding="utf-8"))
    grid |= {"seeds": given.seeds} if given.seeds else {}
    if given.finalists:
        kernels = [BASE, *(kernel for kernel, label in VARIANTS.items() if label in FINALISTS)]
        grid |= {"workloads": WORKLOADS_OF_FINALISTS, "kernels": kernels, "scales": ["1/8"]}
    if given.workload:
        grid |= {"workloads": given.workload}
    elif not given.finalists:
        grid["runs"] = [
            {"workload": load, "kernel": kernel, "scale": SCALE_OF_LOADS, "seed": seed}
            for load in LOADS for kernel in grid["kernels"] for seed in range(1, grid["seeds"] + 1)
        ]  # fmt: skip
    with cluster(given.dask) as executor:
        table = polars.DataFrame(pageblock.sweep(grid, given.out, executor=executor))
    if given.workload:
        return
    runs = measured(table)
    if given.finalists:
        write(BEGIN_2, of_finalists(runs), END_2)
    else:
        draw(runs)
        write(BEGIN, page(runs, table), END)


def write(begin: str, text: str, end: str) -> None:
    """Writes a part of the page again."""
    whole = PAGE.read_text(encoding="utf-8")
    before, after = whole.split(begin)[0], whole.split(end)[1]
    PAGE.write_text(before + begin + text + end + after, encoding="utf-8")


@contextlib.contextmanager
def cluster(workers: "int | None") -> Iterator[Any]:
    """Yields the client of a cluster, or None for the threads of this process."""
    if workers is None:
        yield None
        return
    import distributed

    with (
        distributed.LocalCluster(n_workers=workers, threads_per_worker=1, processes=True, dashboard_address=None) as local,
        distributed.Client(local) as client,
    ):
        yield client


def measured(table: polars.DataFrame) -> polars.DataFrame:
    """Returns a row a run: the workload, the kernel, the seed, huge-page availability [%], the work [pages], and whether it ended early."""
    # Where every run faults for huge pages, it is their success; else the free memory in blocks of a pageblock or more.
    faults = polars.col(FAULT).is_not_null().all().over("workload")
    return table.select(
        "workload", "kernel", "seed", faults.alias("on_fault"), polars.col("ended").is_not_null().alias("lost"),
        huge=polars.when(faults).then(polars.col(FAULT)).otherwise(100 - polars.col(SMALL)),
        work=polars.sum_horizontal(*WORK).cast(polars.Float64), probes=polars.col("list_probes").cast(polars.Float64),
        locks=polars.col("zone_lock_acquired").cast(polars.Float64), gigabytes=gigabytes(table),
    )  # fmt: skip


def gigabytes(table: polars.DataFrame) -> polars.Expr:
    """Returns the share of whole gigabytes without an unmovable page [%]; null where a machine has none."""
    if "gigabytes" not in table.columns:
        return polars.lit(None, dtype=polars.Float64)
    return 100 * polars.col("gigabytes_movable") / polars.col("gigabytes")


def means(runs: polars.DataFrame, workload: str) -> polars.DataFrame:
    """Returns the means of each kernel under a workload, in the order of the grid; runs that ended early are counted and left out."""
    of = runs.filter(polars.col("workload") == workload).group_by("kernel", maintain_order=True)
    done = [polars.col(name).filter(~polars.col("lost")).mean().alias(name) for name in ("huge", "work")]
    return of.agg(*done, polars.col("lost").sum(), polars.col("on_fault").first())


def front(of: polars.DataFrame) -> "list[str]":
    """Returns the kernels that no other one beats in both means."""
    points = [row for row in of.rows(named=True) if row["huge"] is not None]
    beaten = lambda a: any(  # noqa: E731
        b["huge"] >= a["huge"] and b["work"] <= a["work"] and (b["huge"], b["work"]) != (a["huge"], a["work"]) for b in points
    )
    return [row["kernel"] for row in points if not beaten(row)]


def draw(runs: polars.DataFrame) -> None:
    """Draws a panel for each workload: a dot for each kernel's means, the newer the darker, a bar of 95 % over the seeds."""
    matplotlib.rcParams.update({"svg.hashsalt": "frontier", "svg.fonttype": "none", "font.size": 7, "axes.titlesize": 8})
    workloads = runs["workload"].unique(maintain_order=True).to_list()
    figure, axes = pyplot.subplots(5, 3, figsize=(9.2, 13.0), layout="constrained")
    for axis, workload in zip(axes.flat, workloads):
        of = means(runs, workload)
        best = front(of)
        for at, row in enumerate(of.rows(named=True)):
            if row["huge"] is None:
                continue
            color, mark = look(row["kernel"], at / of.height)
            values = runs.filter((polars.col("workload") == workload) & (polars.col("kernel") == row["kernel"]) & ~polars.col("lost"))
            if len(values) > 1:
                low_and_high = numpy.clip(interval(values["huge"].to_numpy()), 0, 100)
                axis.plot([row["work"] / 1e3] * 2, low_and_high, color=color, linewidth=0.6, alpha=0.6)
            axis.plot(row["work"] / 1e3, row["huge"], mark, color=color, markersize=4, markeredgecolor="black" if row["kernel"] in best else color)
            # The legend names the variants.
            if row["kernel"] not in VARIANTS and (row["kernel"] in best or row["kernel"] in ("linux-3.10", BASE)):
                axis.annotate(short(row["kernel"]), (row["work"] / 1e3, row["huge"]), fontsize=5.5, xytext=(3, 2), textcoords="offset points")
        axis.set_title(workload)
        if of["work"].max():
            axis.set_xscale("log")
            axis.xaxis.set_minor_formatter(NullFormatter())
        axis.set_ylabel("huge pages on fault [%]" if of["on_fault"][0] else "free memory in pageblocks [%]")
        axis.set_xlabel("pages reclaimed, scanned, moved [thousands]")
        axis.grid(alpha=0.2)
    for axis in list(axes.flat)[len(workloads) :]:
        axis.axis("off")
    labels = [("linux-3.10", 0.0, "3.10"), (BASE, 0.95, "7.3 (newer is darker)"), *((name, 1.0, short(name)) for name in VARIANTS)]
    for name, at, label in labels:
        color, mark = look(name, at)
        axes.flat[-1].plot([], [], mark, color=color, markersize=4, label=label)
    axes.flat[-1].plot([], [], "o", color="white", markeredgecolor="black", markersize=4, label="on the front")
    axes.flat[-1].legend(loc="center", fontsize=8, frameon=False)
    figure.savefig(PICTURE, metadata={"Date": None})


def look(kernel: str, age: float) -> "tuple[Any, str]":
    """Returns the colour and the mark of a kernel."""
    if kernel in MARKS:
        return MARKS[kernel]
    return matplotlib.colormaps["Blues"](0.25 + 0.7 * age), "o"


def short(kernel: str) -> str:
    """Returns `7.3 packed` for `linux-7.3,placement=packed`."""
    name = kernel.removeprefix("linux-").partition(",")[0]
    return f"{name} {VARIANTS.get(kernel, '')}".strip()


def interval(values: "numpy.ndarray[Any, Any]") -> "tuple[float, float]":
    """Returns the 95 % interval of the mean, by Student's t: the percentiles of a bootstrap are too narrow for ten values."""
    half = stats.sem(values) * stats.t.ppf(0.975, len(values) - 1)
    return float(values.mean() - half), float(values.mean() + half)


def differences(runs: polars.DataFrame, workload: str, name: str, variant: str) -> "numpy.ndarray[Any, Any]":
    """Returns how much more a measure is than under 7.3, for each seed under which both finished."""
    of = runs.filter((polars.col("workload") == workload) & ~polars.col("lost"))
    both = of.filter(polars.col("kernel") == BASE).join(of.filter(polars.col("kernel") == variant), on="seed", suffix="_b")
    return (both[f"{name}_b"] - both[name]).to_numpy()


def false_marks(runs: polars.DataFrame) -> float:
    """Returns how many of the intervals are without 0 [%] if nothing changes: with the sign of each difference drawn at random."""
    rng = numpy.random.default_rng(1)
    marks = []
    for workload in runs["workload"].unique(maintain_order=True):
        for variant, name in itertools.product(VARIANTS, MEASURES):
            values = differences(runs, workload, name, variant)
            if len(values) >= FEWEST and values.any():
                drawn = [interval(values * rng.choice([-1, 1], len(values))) for _ in range(100)]
                marks += [low > 0 or high < 0 for low, high in drawn]
    return 100 * float(numpy.mean(marks))


def change(runs: polars.DataFrame, workload: str, name: str, variant: str, per: int) -> str:
    """Returns how much more a measure is than under 7.3: the mean over the seeds of the difference, with its 95 % interval."""
    difference = differences(runs, workload, name, variant) / per
    if len(difference) < FEWEST:
        return f"{len(difference)} of {runs['seed'].n_unique()} pairs"
    if not difference.any():
        return NOTHING
    low, high = interval(difference)
    return f"{difference.mean():+.1f} ({low:+.1f} to {high:+.1f}){'*' if low > 0 or high < 0 else ''}"


def of_finalists(runs: polars.DataFrame) -> str:
    """Returns a table for each workload: 7.3 itself, and by how much each change differs."""
    variants = {kernel: label for kernel, label in VARIANTS.items() if label in FINALISTS}
    lines = [f"{runs.height} runs at 1/8, {runs['seed'].n_unique()} seeds. 7.3: the mean; others as above."]
    for workload in runs["workload"].unique(maintain_order=True):
        of = runs.filter((polars.col("workload") == workload) & (polars.col("kernel") == BASE) & ~polars.col("lost"))
        lines += ["", f"| {workload} | 7.3 | " + " | ".join(variants.values()) + " |", "|---" + "|---:" * (len(variants) + 1) + "|"]
        for name, (measure, per) in MEASURES_OF_FINALISTS.items():
            if of[name].null_count() < of.height:
                cells = [change(runs, workload, name, variant, per) for variant in variants]
                lines.append(f"| {measure} | {of[name].mean() / per:,.1f} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def spans(kernels: "list[str]", all_: "list[str]") -> str:
    """Returns names with neighbours joined: 5.1 to 5.8."""
    groups: "list[list[str]]" = []
    for kernel in kernels:
        if groups and "," not in kernel and all_.index(kernel) == all_.index(groups[-1][-1]) + 1:
            groups[-1].append(kernel)
        else:
            groups.append([kernel])
    return ", ".join(f"{short(one[0])} to {short(one[-1])}" if len(one) > 1 else short(one[0]) for one in groups)


def page(runs: polars.DataFrame, table: polars.DataFrame) -> str:
    """Returns the table and the findings."""
    seeds = table["seed"].n_unique()
    lost = runs.filter("lost").group_by("workload", "kernel").len().sort("workload", "kernel")
    small = f"{SCALE_OF_LOADS} of 640 MiB for {', '.join(LOADS)}"
    named = f"{table['kernel'].n_unique()} kernels, {table['workload'].n_unique()} workloads, {seeds} seeds"
    lines = [f"{runs.height:,} runs at 1/64 ({small}): {named}.", ""]
    lines += ["| workload | " + " | ".join(short(name) for name in COLUMNS) + " | on the front |", "|---" * (len(COLUMNS) + 2) + "|"]
    alike = []
    for workload in runs["workload"].unique(maintain_order=True):
        of = means(runs, workload)
        by = {row["kernel"]: row for row in of.rows(named=True)}
        kind = "" if of["on_fault"][0] else " (free)"
        best = front(of)
        if len(best) == of.height:
            alike.append(workload)
            continue
        names = spans(best, of["kernel"].to_list())
        lines.append(f"| {workload}{kind} | " + " | ".join(cell(by[name]) for name in COLUMNS) + f" | {names} |")
    if alike:
        lines += ["", f"Under {', '.join(alike)} every kernel is on the front."]
    lines += ["", f"{int(runs['lost'].sum())} runs did not finish"]
    if lost.height:
        most = lost.sort("len", descending=True)
        lines[-1] += ": " + ", ".join(f"{row['workload']} under {short(row['kernel'])} {row['len']}" for row in most.head(8).rows(named=True))
        lines[-1] += f", and in {lost.height - 8} other cells" if lost.height > 8 else ""
    lines[-1] += "."
    marks = f"With the signs of the differences drawn at random {false_marks(runs):.1f} % of the intervals are without 0."
    lines += ["", f"Changes from 7.3: mean of the differences of equal seeds with its 95 % interval; `*`: without 0. {marks} Workloads without a `*` are left out."]
    for name, (measure, per) in MEASURES.items():
        lines += ["", f"{measure}:", ""]
        lines += ["| workload | " + " | ".join(VARIANTS.values()) + " |", "|---" + "|---:" * len(VARIANTS) + "|"]
        for workload in runs["workload"].unique(maintain_order=True):
            cells = [change(runs, workload, name, variant, per) for variant in VARIANTS]
            if any("*" in cell for cell in cells):
                lines.append(f"| {workload} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def cell(row: "dict[str, Any]") -> str:
    """Returns huge-page availability and work of a kernel."""
    return "did not finish" if row["huge"] is None else f"{row['huge']:.1f} / {row['work'] / 1e3:,.0f}"


if __name__ == "__main__":
    main()
