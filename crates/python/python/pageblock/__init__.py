"""Linux's page-frame allocator as a laboratory: recordings of real kernels, simulations, comparisons.

What the program `pageblock` does, as functions. Results are tables by Arrow's PyCapsule interface: pandas, Polars, PyArrow and
DuckDB take them without copies, and none of them is needed. `pageblock.Error` has the program's words; Ctrl-C ends long work.

    >>> import pageblock
    >>> runs = pageblock.run("hugealloc-short", ["linux-6.9", "linux-6.10"], scale="1/64", seeds=5)
    >>> print(runs.compare())
"""

from typing import Any

from . import _pageblock
from ._pageblock import (
    Error,
    Events,
    Kernel,
    Picture,
    Recording,
    Report,
    Runs,
    Table,
    Workload,
    __version__,
    compare,
    doctor,
    explain,
    flags,
    forecast,
    guest_run,
    kernels,
    load,
    machines,
    measures,
    operations,
    report,
    run,
    stop_all,
    switches,
    workloads,
)
from ._answer import Tuned
from ._bisect import bisect
from ._fleet import fleet
from ._show import attach
from ._sweep import sweep
from ._tune import tune

__all__ = [
    "Error",
    "Events",
    "Kernel",
    "Picture",
    "Recording",
    "Report",
    "Runs",
    "Table",
    "Tuned",
    "Workload",
    "__version__",
    "bisect",
    "compare",
    "doctor",
    "explain",
    "fleet",
    "flags",
    "forecast",
    "guest_run",
    "kernels",
    "load",
    "machines",
    "measures",
    "operations",
    "report",
    "run",
    "stop_all",
    "sweep",
    "switches",
    "tune",
    "workloads",
]


def _switch(row: "dict[str, Any]") -> property:
    """Returns the attribute of a switch, with its documentation."""
    name = row["switch"]
    text = f"{row['decides']} ({row['switch_group']}; {row['allowed']}).\n\n{row['since']}"
    return property(lambda kernel: kernel.switch(name), doc=text.strip())


attach()
for _row in switches().to_dicts():
    setattr(_pageblock.Kernel, _row["switch"], _switch(_row))
