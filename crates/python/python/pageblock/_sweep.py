"""Sweeps of a grid on any executor: threads, processes, Dask, or another one of `concurrent.futures`."""

import json
import os
import pickle
from collections.abc import Callable, Mapping
from concurrent.futures import Executor, ProcessPoolExecutor
from typing import Any, cast

from . import _progress
from ._arguments import jobs as jobs_of
from ._arguments import listed, path, plain_grid, wrong
from ._calls import completed
from ._engines import Engine, engine
from ._pageblock import Error, Sweep, Table, Workload, own_workload, sweep_grid_of, sweep_run
from ._progress import Progress, Stop

__all__ = ["check_pickles", "own_of", "sweep", "swept"]


def sweep(
    grid: "Mapping[str, Any] | str | os.PathLike[str]",
    out: "str | os.PathLike[str]",
    *,
    executor: "Engine | None" = None,
    jobs: "int | None" = None,
    progress: Progress = None,
    stop: "Stop | None" = None,
) -> Table:
    """Runs every combination of a grid and returns one table, a row a run, in the order of the grid.

    `grid` has `workloads`, `kernels`, `machines`, `scales` (lists, or one), `seeds` (how many, or which), `switches` (a dict of lists, sysctls
    too: every combination is set on every kernel), and `runs` (a list of dicts with `workload`, `kernel`, `machine`, `scale`, `seed`:
    single runs); or it is the path of a TOML file with these keys. Arguments are said as in `run`; a workload may be a `Workload` of your own,
    `module:name` of one, or a workload file. All of it is checked before anything runs, and a grid of more than a million runs is refused with its number.

    `out` is a folder. Each finished run is there at once (`runs.jsonl`), and a sweep of the same grid goes on after it, as one of a larger grid
    does: with more `seeds` only the new ones are run. At the end
    `runs.parquet` is written, which depends on the grid alone: not on the executor, the number of workers or the order.

    `executor` is any of `concurrent.futures`, a Dask client, the module `ray`, or a name: `"processes"` or `"dask"` (on this machine, `jobs`
    of them), the address of a Dask scheduler, `"ray"`. Without one, `jobs` threads of this process run the simulations, by default one a CPU.
    `progress` is True for a line that says how far it is (by default on a terminal), or what makes a bar, such as `tqdm.auto.tqdm`. `stop` is
    an event (`threading.Event`): when it is set, this sweep ends with an error, and what is done stays.

    The columns: `workload`, `kernel`, `machine`, `scale`, `seed`, `event_hash`, `ended`, `resolved_kernel` (JSON: the preset and every
    switch); each switch that a kernel of the grid sets, as a number, a truth value or text; the measures that decide (`measures()`) and
    the workload's own primary ones; every counter. Counts are whole numbers. A field's metadata has its label, unit and definition, the
    table's the version, the grid and the kernels. `compare` takes the table, its file, its folder, and what a query leaves of it.
    """
    folder, at_a_time = path("out", out), jobs_of(jobs)
    _progress.check(progress, stop)
    text, own = _read(grid)
    with engine(executor, at_a_time) as found:
        check_pickles(own, found)
        work = Sweep(text, folder, list(own.values()))
        with _progress.shown(progress, len(work), "sweep") as bar:
            return swept(work, own, found, at_a_time, bar, stop)


def swept(
    work: Sweep, own: "Mapping[str, Workload]", executor: "Executor | None", jobs: "int | None", bar: _progress.Bar, stop: "Stop | None"
) -> Table:
    """Runs what is not done of a sweep, tells the bar what is, and returns the table."""
    try:
        bar.update(work.done)
        if executor is None:
            work.run(jobs, bar, stop)
        else:
            _on(work, executor, own, bar, stop)
        work.finish()
        return work.table()
    finally:
        work.release()


def _on(work: Sweep, executor: Executor, own: "Mapping[str, Workload]", bar: _progress.Bar, stop: "Stop | None") -> None:
    """Runs what is not done, and takes it as it is done."""

    def call(cell: str) -> "tuple[Any, ...]":
        of = own.get(json.loads(cell)["workload"]) if own else None
        return (cell,) if of is None else (cell, of)

    cells = ((at, call(cell)) for at, cell in work.to_do())
    for at, row in completed(executor, cast("Callable[..., str]", sweep_run), cells, lambda: _progress.look(stop)):
        work.take(at, row)
        bar.update(1)


def _read(grid: "Mapping[str, Any] | str | os.PathLike[str]") -> "tuple[str, dict[str, Workload]]":
    """Returns a grid as JSON, and users' own workloads by their names."""
    if isinstance(grid, (str, os.PathLike)):
        text = sweep_grid_of(path("grid", grid))
        of: "dict[str, Any]" = json.loads(text)
        own = own_of(of)
        return (json.dumps(plain_grid({key: value for key, value in of.items() if value})) if own else text), own
    if not isinstance(cast(object, grid), Mapping):
        raise wrong("grid", grid, "a dict with workloads, kernels, seeds and others, or the path of a TOML file")
    own = own_of(grid)
    return json.dumps(plain_grid(grid)), own


def own_of(grid: "Mapping[str, Any]") -> "dict[str, Workload]":
    """Returns the own workloads of a grid by their names."""
    given: "list[Any]" = listed("workloads", grid.get("workloads", []), "names of workloads(), or Workloads")
    runs = listed("runs", grid.get("runs", []), "a list of dicts")
    given += [one["workload"] for one in runs if isinstance(one, Mapping) and "workload" in one]
    own: "dict[str, Workload]" = {}
    for one in given:
        if isinstance(one, (Workload, str, os.PathLike)):
            workload = own_workload(one)
            if workload is not None and own.setdefault(workload.name, workload) is not workload and isinstance(one, Workload):
                raise Error(f"workload '{workload.name}' is given twice")
    return own


def check_pickles(own: "Mapping[str, Workload]", executor: "Executor | None") -> None:
    """Raises `Error` if a workload cannot be sent to processes."""
    for name, workload in own.items() if isinstance(executor, ProcessPoolExecutor) else ():
        try:
            pickle.dumps(workload)
        except Exception as error:
            raise Error(f"workload '{name}': its function cannot be sent to a process ({error}); define it in a module") from None
