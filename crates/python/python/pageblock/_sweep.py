"""Sweeps of a grid on any executor: threads, processes, Dask, or another one of `concurrent.futures`."""

import json
import os
import sys
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from fractions import Fraction
from typing import Any, cast

from ._calls import completed
from ._engines import Engine, engine
from ._pageblock import Error, Kernel, Sweep, Table, sweep_grid_of, sweep_run

__all__ = ["sweep"]

# The shortest time between two lines of progress, seconds.
SAY_EVERY = 1.0


def sweep(
    grid: "Mapping[str, Any] | str | os.PathLike[str]",
    out: "str | os.PathLike[str]",
    *,
    executor: "Engine | None" = None,
    jobs: "int | None" = None,
    progress: "bool | None" = None,
) -> Table:
    """Runs every combination of a grid and returns one table, a row a run, in the order of the grid.

    `grid` has `workloads`, `kernels`, `machines`, `scales` (lists), `seeds` (how many, or a list), `switches` (a dict of lists, sysctls
    too: every combination is set on every kernel), and `runs` (a list of dicts with `workload`, `kernel`, `machine`, `scale`, `seed`:
    single runs); or it is the path of a TOML file with these keys. All of it is checked before anything runs, and a grid of more than
    a million runs is refused with its number.

    `out` is a folder. Each finished run is there at once (`runs.jsonl`), and a sweep of the same grid goes on after it. At the end
    `runs.parquet` is written, which depends on the grid alone: not on the executor, the number of workers or the order.

    `executor` is any of `concurrent.futures`, a Dask client, the module `ray`, or a name: `"processes"` or `"dask"` (on this machine, `jobs`
    of them), the address of a Dask scheduler, `"ray"`. Without one, `jobs` threads of this process run the simulations, by default one a CPU. With `progress` (by default on a terminal) a line says how far it is, and the time that is left.

    The columns: `workload`, `kernel`, `machine`, `scale`, `seed`, `event_hash`, `ended`, `resolved_kernel` (JSON: the preset and every
    switch), the measures that decide, and every counter.
    """
    with engine(executor, jobs) as found:
        work = Sweep(_json(grid), out)
        if found is None:
            work.run(jobs)
        else:
            _on(work, found, _Progress(work, progress))
    work.finish()
    return work.table()


def _on(work: Sweep, executor: Executor, progress: "_Progress") -> None:
    """Runs what is not done, and takes it as it is done."""
    cells = ((at, (cell,)) for at, cell in work.to_do())
    try:
        for at, row in completed(executor, cast("Callable[[str], str]", sweep_run), cells, progress.say):
            work.take(at, row)
    finally:
        progress.end()


def _json(grid: "Mapping[str, Any] | str | os.PathLike[str]") -> str:
    """Returns a grid as JSON."""
    if isinstance(grid, (str, os.PathLike)):
        return sweep_grid_of(grid)
    return json.dumps(dict(grid), default=_plain)


def _plain(value: object) -> object:
    """Returns what JSON does not have: kernels and fractions by their text, ranges as lists."""
    if isinstance(value, range):
        return list(value)
    if isinstance(value, (Kernel, Fraction)):
        return str(value)
    raise Error(f"grid: a {type(value).__name__} is no list, text, number or kernel")


class _Progress:
    """A line on standard error: how far it is, and the time that is left."""

    def __init__(self, work: Sweep, wanted: "bool | None") -> None:
        self.work, self.wanted = work, sys.stderr.isatty() if wanted is None else wanted
        self.start, self.before = time.monotonic(), work.done
        self.said = self.start

    def say(self) -> None:
        """Says it, if it was not said just before."""
        now = time.monotonic()
        if not self.wanted or now - self.said < SAY_EVERY:
            return
        self.said = now
        done, whole = self.work.done, len(self.work)
        here = done - self.before
        left = f", {(whole - done) * (now - self.start) / here:.0f} s left" if here else ""
        print(f"\r{done} of {whole} runs{left}   ", end="", file=sys.stderr, flush=True)

    def end(self) -> None:
        """Ends the line."""
        if self.wanted and self.said > self.start:
            print(file=sys.stderr)
