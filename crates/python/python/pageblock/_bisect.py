"""Which switch did it: a bisection between two kernels, on any executor."""

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from fractions import Fraction
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from . import _progress
from ._arguments import jobs as jobs_of
from ._arguments import named, path, texts
from ._arguments import seeds as seeds_of
from ._engines import Engine, engine
from ._pageblock import (
    Error,
    Kernel,
    Report,
    Workload,
    bisect_answer,
    bisect_count,
    bisect_kernels,
    bisect_left,
    bisect_recording,
    machine_text,
    scale_text,
)
from ._progress import Progress, Stop
from ._trials import Simulations

__all__ = ["bisect"]

# The seeds by which kernels with the same events are found.
PROBES = 2


def bisect(
    of: "str | os.PathLike[str] | Workload",
    a: "Kernel | str",
    b: "Kernel | str",
    *,
    measures: "str | Sequence[str]" = (),
    machine: "str | os.PathLike[str] | None" = None,
    scale: "str | float | Fraction" = 1,
    seeds: "int | Iterable[int]" = 20,
    out: "str | os.PathLike[str] | None" = None,
    executor: "Engine | None" = None,
    jobs: "int | None" = None,
    progress: Progress = None,
    stop: "Stop | None" = None,
) -> Report:
    """Finds which of the switches in which `a` and `b` differ makes a difference, under a workload or in a recording.

    `of` is a name of `workloads()`, a `Workload` of your own, `module:name` of one, a workload file, or the path of a recording.

    Each switch is tried in the order of versions, alone on `a`, and left out of `b`. Kernels with the same events under two seeds count
    as one and take no more; the others have `seeds` each. `measures` are by default the workload's primary ones; `executor`, `jobs`,
    `progress` and `stop` are those of `sweep`, and `out` a folder that keeps finished runs, so that the same call goes on after it. A recording is replayed on
    this machine, in the loop with the better grade.

    The result's table has a row for each measure and switch: what it adds in the order of versions (`added`, with its interval and p), what it
    does `alone`, what is `lost_without` it, and whether it is `decided`, is `inert` (changes no event), `interacts` with the others.
    """
    wanted = texts("measures", measures, "names of measures()")
    chosen, at_a_time = seeds_of("seeds", seeds), jobs_of(jobs)
    if len(chosen) < PROBES:
        raise Error(f"seeds {seeds}: one draw cannot tell an effect from chance; at least 2 are needed")
    _progress.check(progress, stop)
    if out is not None:
        path("out", out)
    name, own = named(of)
    if own is None and os.path.exists(name):
        if chosen != list(range(1, len(chosen) + 1)):
            raise Error(f"seeds {seeds}: replays have the seeds 0, 1, 2 and so on; say how many")
        if machine is not None or scale != 1 or executor is not None or jobs is not None or out is not None:
            raise Error("machine, scale, executor, jobs and out are for workloads: a recording is replayed as it is")
        # Probes and draws, each of the recorded kernel too; kernels that count as one are not drawn.
        most = (bisect_count((a, b)) + 1) * (PROBES + len(chosen))
        with _progress.shown(progress, most, "bisect") as bar:
            return bisect_recording(name, (a, b), wanted, len(chosen), (bar, stop))
    place = None if machine is None else machine_text(machine)
    plan, kernels, measured = bisect_kernels((name, own), (a, b), place, scale_text(scale), wanted)
    cell = {"workload": name, "scale": scale_text(scale), **({} if place is None else {"machine": place})}
    labels, columns = [label for label, _ in measured], [column for _, column in measured]
    total = len(kernels) * len(chosen)
    with engine(executor, at_a_time) as found, _kept(out) as folder, _progress.shown(progress, total, "bisect") as bar:
        runner = Simulations(cell, Path(folder), (chosen, []), found, at_a_time, own, stop, bar)
        probed = runner.search_seeds[:PROBES]
        probes = _draws(runner.run(kernels, probed), kernels, range(len(kernels)), probed, columns)
        left = bisect_left(plan, json.dumps(probes))
        further = runner.search_seeds[PROBES:]
        # Kernels that count as one take no more.
        bar.update((len(kernels) - len(left)) * len(further))
        rows = runner.run([kernels[at] for at in left], further)
        draws = _draws(rows, kernels, left, further, columns)
        return bisect_answer(runner.subject, plan, (json.dumps(probes), json.dumps(draws)), labels, len(chosen))


def _kept(out: "str | os.PathLike[str] | None") -> "AbstractContextManager[str]":
    """Returns where runs are kept: the caller's folder, or one that goes with the call."""
    return TemporaryDirectory(prefix="pageblock-") if out is None else nullcontext(os.fspath(out))


def _draws(
    rows: "Mapping[str, Sequence[Mapping[str, Any]]]", kernels: "Sequence[str]", of: "Sequence[int]", seeds: "Sequence[int]", columns: "Sequence[str]"
) -> "list[dict[str, Any]]":
    """Returns rows as draws of numbered kernels."""
    return [
        {"kernel": at, "seed": seed, "event_hash": row["event_hash"], "unfinished": row["ended"] is not None, "values": [row.get(column) for column in columns]}
        for at in of
        for seed, row in zip(seeds, rows[kernels[at]])
    ]
