"""Many machines, examined on any executor: threads, processes, Dask, Ray, or another one of `concurrent.futures`."""

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import cast

from ._arguments import jobs as jobs_of
from ._arguments import listed, path
from ._calls import completed
from ._engines import Engine, engine
from ._pageblock import Report, fleet_hosts, fleet_report, fleet_run

__all__ = ["fleet"]


def fleet(
    paths: "str | os.PathLike[str] | Sequence[str | os.PathLike[str]]", *, executor: "Engine | None" = None, jobs: "int | None" = None
) -> Report:
    """Examines what was collected of many machines, as `pageblock fleet` does: a row a host, in the order of the paths.

    `paths` are folders with a file or folder for each host (sosreports, flight files, metrics, logs), or single hosts. A host that
    cannot be read is a row with an `error`. Printed, the report is the summary on one screen; its table goes to pandas, Polars or DuckDB.

    `executor` is what `sweep` takes: workers on other machines must see the same paths. Without one, `jobs` threads of this process
    read, by default one a CPU.
    """
    hosts = fleet_hosts([path("paths", one) for one in listed("paths", paths, "a path, or several")])
    at_a_time = jobs_of(jobs)
    rows: "list[str]" = [""] * len(hosts)
    cells = ((at, (host,)) for at, host in enumerate(hosts))
    call = cast("Callable[[str], str]", fleet_run)
    with engine(executor, at_a_time) as found, ThreadPoolExecutor(at_a_time or os.cpu_count()) as own:
        for at, row in completed(found or own, call, cells, lambda: None):
            rows[at] = row
    return fleet_report(rows)
