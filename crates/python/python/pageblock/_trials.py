"""The runs of a search: simulations as sweeps, or replays of a recording, on any executor."""

import hashlib
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from pathlib import Path
from typing import Any, Protocol

from . import _progress
from ._calls import completed
from ._pageblock import Error, Kernel, Sweep, Workload, write_text
from ._progress import Stop
from ._recordings import Sent, opened, shared
from ._sweep import check_pickles, swept

__all__ = ["Replays", "Runner", "Simulations"]

Row = Mapping[str, Any]


class Runner(Protocol):
    """Runs kernels and keeps what is done."""

    subject: str
    search_seeds: "list[int]"
    held_out: "list[int]"

    def run(self, kernels: "Sequence[str]", seeds: "Sequence[int]") -> "dict[str, list[Row]]":
        """Returns the rows of each kernel, a row a seed."""
        ...


class Simulations:
    """Simulations of a workload: each batch is a sweep in a folder of its own, so what is done is not run again."""

    def __init__(
        self,
        cell: "Mapping[str, str]",
        out: Path,
        seeds: "tuple[list[int], list[int]]",
        executor: "Executor | None",
        jobs: "int | None",
        own: "Workload | None" = None,
        stop: "Stop | None" = None,
        bar: "_progress.Bar | None" = None,
    ) -> None:
        self.cell, self.out, self.executor, self.jobs, self.own, self.stop = cell, out, executor, jobs, own, stop
        self.bar = _progress.Silent() if bar is None else bar
        # Those of the search, and those that judge its answer.
        self.search_seeds, self.held_out = seeds
        machine = f" on {cell['machine']}" if "machine" in cell else ""
        self.subject = f"{cell['workload']}{machine} at {cell['scale']}"
        self.done: "dict[tuple[str, int], Row]" = {}

    def run(self, kernels: "Sequence[str]", seeds: "Sequence[int]") -> "dict[str, list[Row]]":
        """Returns the rows of each kernel, a row a seed; what was run before is not run again."""
        wanted = [(kernel, seed) for kernel in dict.fromkeys(kernels) for seed in seeds]
        new = [one for one in wanted if one not in self.done]
        if new:
            runs: "list[dict[str, Any]]" = [{**self.cell, "kernel": kernel, "seed": seed} for kernel, seed in new]
            # The same runs are found again, however many trials come before them.
            folder = self.out / "runs" / hashlib.sha256(json.dumps(runs).encode()).hexdigest()[:16]
            own = {} if self.own is None else {self.own.name: self.own}
            check_pickles(own, self.executor)
            work = Sweep(json.dumps({"runs": runs}), folder, list(own.values()))
            table = swept(work, own, self.executor, self.jobs, self.bar, self.stop)
            for one, row in zip(new, table.to_dicts()):
                self.done[one] = row
        return {kernel: [self.done[kernel, seed] for seed in seeds] for kernel in kernels}


class Replays:
    """Replays of a recording, which have no seeds; a line of a journal each."""

    def __init__(self, path: str, out: Path, executor: "Executor | None", jobs: "int | None", stop: "Stop | None" = None) -> None:
        self.given, self.executor, self.jobs, self.stop = shared(path, executor), executor, jobs, stop
        self.search_seeds, self.held_out = [0], [0]
        self.subject = opened(path).name
        self.journal = out / "replays.jsonl"
        self.done: "dict[str, Row]" = {}
        if self.journal.exists():
            text = self.journal.read_text(encoding="utf-8")
            # What was half written goes.
            text = text[: text.rfind("\n") + 1]
            write_text(self.journal, text)
            self.done = {row["kernel"]: row for row in map(json.loads, text.splitlines())}

    def run(self, kernels: "Sequence[str]", seeds: "Sequence[int]") -> "dict[str, list[Row]]":
        """Returns the row of each kernel."""
        new = [kernel for kernel in dict.fromkeys(kernels) if kernel not in self.done]
        if new:
            self._replay(new)
        return {kernel: [self.done[kernel]] for kernel in kernels}

    def _replay(self, kernels: "Sequence[str]") -> None:
        own = self.executor is None
        executor = ThreadPoolExecutor(self.jobs or os.cpu_count()) if self.executor is None else self.executor
        calls = ((kernel, (self.given, kernel)) for kernel in kernels)
        try:
            with self.journal.open("a", encoding="utf-8") as journal:
                for kernel, line in completed(executor, replay_one, calls, lambda: _progress.look(self.stop)):
                    journal.write(line + "\n")
                    journal.flush()
                    self.done[kernel] = json.loads(line)
        finally:
            if own:
                executor.shutdown(wait=False, cancel_futures=True)


def replay_one(recording: "str | Sent", kernel: str) -> str:
    """Replays a recording under a kernel, and returns the row as JSON."""
    of = opened(recording)
    rows: "Iterable[Row]" = of.replay(kernel).to_dicts()
    for row in rows:
        if row["kernel"] == kernel:
            return json.dumps(dict(row))
    raise Error(f"{of.name}: no replay under {kernel}")


def recorded_kernel(path: str) -> Kernel:
    """Returns the preset of a recording's kernel."""
    for row in opened(path).replay([]).to_dicts():
        return Kernel(str(row["kernel"]))
    raise Error(f"{path}: the recorded kernel is not known; name one")
