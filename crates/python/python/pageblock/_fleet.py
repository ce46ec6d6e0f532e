"""Many machines, examined on any executor: threads, processes, Dask, Ray, or another one of `concurrent.futures`."""

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import cast

from . import _progress
from ._arguments import jobs as jobs_of
from ._arguments import listed, path
from ._calls import completed
from ._engines import Engine, engine
from ._pageblock import Report, fleet_hosts, fleet_report, fleet_run
from ._progress import Progress, Stop

__all__ = ["fleet"]


def fleet(
    paths: "str | os.PathLike[str] | Sequence[str | os.PathLike[str]]",
    *,
    executor: "Engine | None" = None,
    jobs: "int | None" = None,
    progress: Progress = None,
    stop: "Stop | None" = None,
) -> Report:
    """Examines what was collected of many machines, as `pageblock fleet` does: a row a host, in the order of the paths.

    `paths` are folders with a file or folder for each host (sosreports, flight files, metrics, logs), or single hosts. A host that
    cannot be read is a row with an `error`; one that is given twice is refused. Printed, the report is the summary on one screen; its table goes to pandas, Polars or DuckDB.

    `executor`, `progress` and `stop` are what `sweep` takes: workers on other machines must see the same paths. Without an executor, `jobs`
    threads of this process read, by default one a CPU.
    """
    _progress.check(progress, stop)
    hosts = fleet_hosts([path("paths", one) for one in listed("paths", paths, "a path, or several")])
    at_a_time = jobs_of(jobs)
    rows: "list[str]" = [""] * len(hosts)
    cells = ((at, (host,)) for at, host in enumerate(hosts))
    call = cast("Callable[[str], str]", fleet_run)
    with (
        engine(executor, at_a_time) as found,
        ThreadPoolExecutor(at_a_time or os.cpu_count()) as own,
        _progress.shown(progress, len(hosts), "fleet", "host") as bar,
    ):
        for at, row in completed(found or own, call, cells, lambda: _progress.look(stop)):
            rows[at] = row
            bar.update(1)
    return fleet_report(rows)
