"""Sweeps on every engine."""

import json
import os
import signal
import subprocess
import sys
import time
import types
from collections.abc import Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import pageblock

from .libraries import polars, pyarrow

GRID: dict[str, Any] = {
    "workloads": ["hugealloc-short"],
    "kernels": ["linux-6.12", pageblock.Kernel("linux-7.3")],
    "switches": {"placement": ["linux", "packed"]},
    "scales": ["1/64"],
    "seeds": range(1, 4),
}


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """Returns the bytes of the table, from threads."""
    folder = tmp_path_factory.mktemp("threads")
    table = pageblock.sweep(GRID, folder)
    assert len(table) == 12
    return (folder / "runs.parquet").read_bytes()


def test_the_table_has_a_row_a_run(expected: bytes) -> None:
    table = polars.read_parquet(expected)
    assert table["seed"].to_list() == [1, 2, 3] * 4
    assert table["kernel"].unique(maintain_order=True).to_list() == [
        "linux-6.12,placement=linux", "linux-6.12,placement=packed", "linux-7.3,placement=linux", "linux-7.3,placement=packed",
    ]  # fmt: skip
    run = pageblock.run("hugealloc-short", "linux-6.12,placement=packed", scale="1/64", seeds=2)
    assert run.to_dicts()[1]["event_hash"] == table["event_hash"][4]
    assert table["pgfault"].null_count() == 0
    assert '"placement":"packed"' in table["resolved_kernel"][3]


class Backwards(Executor):
    """Runs the last of its tasks first, here."""

    def __init__(self) -> None:
        self.tasks: list[tuple[Future[Any], Any, tuple[Any, ...]]] = []

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> "Future[Any]":
        future: Future[Any] = Future()
        self.tasks.append((future, fn, args))
        if len(self.tasks) == 12:
            for first, work, with_ in reversed(self.tasks):
                first.set_result(work(*with_))
        return future


def test_every_engine_gives_the_same_bytes(expected: bytes, tmp_path: Path) -> None:
    for name, executor in [
        ("two", ThreadPoolExecutor(2)),
        ("processes", ProcessPoolExecutor(2)),
        ("backwards", Backwards()),
    ]:
        with executor:
            pageblock.sweep(GRID, tmp_path / name, executor=executor)
        assert (tmp_path / name / "runs.parquet").read_bytes() == expected, name


def test_what_is_there_is_not_run_again(expected: bytes, tmp_path: Path) -> None:
    pageblock.sweep(GRID, tmp_path)
    journal = tmp_path / "runs.jsonl"
    lines = journal.read_text(encoding="utf-8").splitlines()
    journal.write_text("\n".join(lines[:5]) + "\n" + lines[5][:100], encoding="utf-8")
    ran: list[str] = []

    class Counting(ThreadPoolExecutor):
        def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> "Future[Any]":
            ran.append(args[0])
            return super().submit(fn, *args, **kwargs)

    with Counting(2) as executor:
        pageblock.sweep(GRID, tmp_path, executor=executor)
    assert len(ran) == 8
    assert (tmp_path / "runs.parquet").read_bytes() == expected


def test_a_larger_grid_runs_only_what_is_new(expected: bytes, tmp_path: Path) -> None:
    told: "list[int]" = []

    class Bar:
        def __init__(self, **about: Any) -> None:
            told.append(about["total"])

        def update(self, n: int) -> None:
            told.append(n)

        def close(self) -> None:
            pass

    pageblock.sweep({**GRID, "seeds": 2}, tmp_path)
    pageblock.sweep(GRID, tmp_path, progress=Bar)
    assert (told[0], told[1], sum(told[2:])) == (12, 8, 4)
    assert (tmp_path / "runs.parquet").read_bytes() == expected
    with pytest.raises(pageblock.Error, match="the folder has another sweep: hugealloc-short under .* with seed 3 is not one of this grid"):
        pageblock.sweep({**GRID, "seeds": 2}, tmp_path)


def test_workers_end_with_a_parent_that_is_killed(tmp_path: Path) -> None:
    """A parent that is killed says nothing: neither the package's workers nor those of a pool of the user's outlive it."""
    code = f"""
import pageblock
from concurrent.futures import ProcessPoolExecutor
if __name__ == "__main__":
    grid = {{"workloads": ["hugealloc"], "kernels": ["linux-6.9"], "scales": ["1/4"], "seeds": 4}}
    pageblock.sweep(grid, {str(tmp_path)!r}, executor=EXECUTOR, jobs=2)
"""
    for executor in ("ProcessPoolExecutor(2)", "'processes'"):
        child = subprocess.Popen([sys.executable, "-c", code.replace("EXECUTOR", executor)], stdout=subprocess.PIPE, text=True)
        workers: "set[int]" = set()
        while len(workers) < 2:
            listed = subprocess.run(["ps", "-o", "pid=", "--ppid", str(child.pid)], capture_output=True, text=True).stdout.split()
            workers = {int(pid) for pid in listed}
            assert child.poll() is None
            time.sleep(0.1)
        # Workers begin to look for their parent with their first call.
        time.sleep(2)
        child.kill()
        child.wait()
        deadline = time.monotonic() + 10
        while any(Path(f"/proc/{pid}/stat").exists() for pid in workers) and time.monotonic() < deadline:
            time.sleep(0.1)
        left = [pid for pid in workers if Path(f"/proc/{pid}/stat").exists()]
        for pid in left:
            os.kill(pid, signal.SIGKILL)
        assert not left, executor


def test_a_toml_file_is_the_same_grid(expected: bytes, tmp_path: Path) -> None:
    file = tmp_path / "grid.toml"
    file.write_text(
        'workloads = ["hugealloc-short"]\nkernels = ["linux-6.12", "linux-7.3"]\nscales = ["1/64"]\nseeds = 3\n'
        '[switches]\nplacement = ["linux", "packed"]\n',
        encoding="utf-8",
    )
    pageblock.sweep(file, tmp_path / "out")
    assert (tmp_path / "out/runs.parquet").read_bytes() == expected
    pyarrow.parquet = __import__("pyarrow.parquet").parquet
    pyarrow.parquet.write_table(pyarrow.table(pageblock.sweep(file, tmp_path / "out")), tmp_path / "runs.parquet")
    assert polars.read_parquet(tmp_path / "runs.parquet").equals(polars.read_parquet(expected))


def test_a_worker_of_dask_that_dies_loses_nothing(tmp_path: Path) -> None:
    distributed: Any = pytest.importorskip("distributed")
    grid: dict[str, Any] = {**GRID, "switches": {}, "seeds": 40}
    pageblock.sweep(grid, tmp_path / "threads")
    journal = tmp_path / "dask/runs.jsonl"

    def kill(pid: int) -> int:
        """Kills a worker when some runs are done; returns how many."""
        while not journal.exists() or (done := journal.read_text(encoding="utf-8").count("\n") - 1) < 5:
            time.sleep(0.01)
        os.kill(pid, signal.SIGKILL)
        return done

    with (
        distributed.LocalCluster(n_workers=4, threads_per_worker=1, processes=True, dashboard_address=None) as cluster,
        distributed.Client(cluster) as client,
        ThreadPoolExecutor(1) as killer,
    ):
        pids = list(client.run(os.getpid).values())
        assert len(pids) == 4
        killed = killer.submit(kill, pids[0])
        pageblock.sweep(grid, tmp_path / "dask", executor=client)
        assert killed.result() < 60, "the worker died in the middle"
    assert (tmp_path / "dask/runs.parquet").read_bytes() == (tmp_path / "threads/runs.parquet").read_bytes()


@pytest.mark.parametrize(
    ("grid", "words"),
    [
        ({**GRID, "seeds": 250_000_000}, "the grid has 1000000000 runs; at most 1000000 are allowed in a sweep"),
        ({**GRID, "workloads": ["nothing"]}, "there is no workload 'nothing'; there are "),
        ({**GRID, "machines": ["nothing"]}, "there is no machine 'nothing'; there are "),
        ({**GRID, "kernels": ["linux-6.11"]}, "unknown kernel 'linux-6.11'; 6.11 behaves as"),
        ({**GRID, "switches": {"placement": ["best"]}}, "switch 'placement' has no value 'best'; one of linux, packed"),
        ({**GRID, "kernel": 1}, "grid: there is no key 'kernel'; there are workloads, kernels, machines, scales, seeds, switches, runs"),
        ({"seeds": 3}, "the grid has no runs"),
    ],
)
def test_mistakes_are_named_before_anything_is_written(grid: "dict[str, Any]", words: str, tmp_path: Path) -> None:
    with pytest.raises(pageblock.Error) as raised:
        pageblock.sweep(grid, tmp_path / "out")
    assert str(raised.value).startswith(words)
    assert not (tmp_path / "out").exists()


def test_what_is_no_executor_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(pageblock.Error, match="a list is no executor of concurrent.futures, no Dask client"):
        pageblock.sweep(GRID, tmp_path / "out", executor=[])  # type: ignore[arg-type]  # pyright: ignore
    for name, extra in [("ray", "ray"), ("dask", "dask"), ("tcp://nowhere:8786", "dask")]:
        monkeypatch.setitem(sys.modules, "distributed" if extra == "dask" else extra, None)
        with pytest.raises(pageblock.Error, match=rf"is not installed: pip install 'pageblock\[{extra}\]'"):
            pageblock.sweep(GRID, tmp_path / "out", executor=name)
    assert not (tmp_path / "out").exists()


def test_ray_is_an_executor(expected: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ray = types.ModuleType("ray")
    retries: list[int] = []

    class Task:
        """A remote function of Ray, as far as it is used."""

        def __init__(self, work: Any) -> None:
            assert isinstance(work, types.FunctionType), "Ray takes nothing else"
            self.work = work

        def options(self, max_retries: int) -> "Task":
            retries.append(max_retries)
            return self

        def remote(self, *args: Any) -> "Task":
            self.result: Future[Any] = Future()
            self.result.set_result(self.work(*args))
            return self

        def future(self) -> "Future[Any]":
            return self.result

    monkeypatch.setattr(ray, "remote", Task, raising=False)
    monkeypatch.setattr(ray, "is_initialized", lambda: True, raising=False)
    pageblock.sweep(GRID, tmp_path, executor=ray)
    assert (tmp_path / "runs.parquet").read_bytes() == expected
    assert retries == [3] * 12


def assert_ends_of_ctrl_c(child: "subprocess.Popen[str]") -> None:
    """Interrupts a process, and waits for what it says of it."""
    child.send_signal(signal.SIGINT)
    pressed = time.monotonic()
    try:
        said, _ = child.communicate(timeout=20)
    finally:
        child.kill()
    assert said == "interrupted\n"
    assert time.monotonic() - pressed < 5


@pytest.mark.parametrize("executor", ["None", "ThreadPoolExecutor(2)", "'processes'"])
@pytest.mark.parametrize("runs", [1, 3, 6])
def test_ctrl_c_keeps_what_is_done(executor: str, runs: int, tmp_path: Path) -> None:
    code = f"""
import pageblock
from concurrent.futures import ThreadPoolExecutor
if __name__ == "__main__":
    grid = {{"workloads": ["hugealloc-short"], "kernels": ["linux-6.9"], "scales": ["1/64"], "seeds": 100_000}}
    try:
        pageblock.sweep(grid, {str(tmp_path)!r}, executor={executor})
    except KeyboardInterrupt:
        print("interrupted", flush=True)
"""
    child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    journal = tmp_path / "runs.jsonl"
    while not journal.exists() or journal.read_text(encoding="utf-8").count("\n") < 1 + runs:
        time.sleep(0.01)
        assert child.poll() is None
    assert_ends_of_ctrl_c(child)
    assert journal.read_text(encoding="utf-8").count("\n") >= 1 + runs


def test_worker_processes_stop_in_the_middle_of_a_run(tmp_path: Path) -> None:
    """A notebook's interrupt reaches one process only."""
    code = f"""
import pageblock
if __name__ == "__main__":
    print("ready", flush=True)
    grid = {{"workloads": ["hugealloc"], "kernels": ["linux-6.9"], "scales": ["1/4"], "seeds": 100}}
    try:
        pageblock.sweep(grid, {str(tmp_path)!r}, executor="processes", jobs=2)
    except KeyboardInterrupt:
        print("interrupted", flush=True)
"""
    child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None and child.stdout.readline() == "ready\n"
    time.sleep(3)
    assert_ends_of_ctrl_c(child)


def _steady(seed: int, task: int) -> "Iterator[dict[str, Any]]":
    yield {"time_ns": [0, 10**9], "op": ["map", "touch"], "id": [0, 0], "amount": [100, 100 if seed < 10 else 50]}


def test_another_generator_of_the_same_name_is_another_sweep(tmp_path: Path) -> None:
    def other(seed: int, task: int) -> "Iterator[dict[str, Any]]":
        yield {"time_ns": [0, 10**9], "op": ["map", "touch"], "id": [0, 0], "amount": [100, 71]}

    def grid(of: Any) -> "dict[str, Any]":
        return {"workloads": [pageblock.Workload("own", of, machine="guest-640m")], "kernels": "linux-6.12", "seeds": 2}

    first = pageblock.sweep(grid(_steady), tmp_path).to_dicts()
    assert pageblock.sweep(grid(_steady), tmp_path).to_dicts() == first
    with pytest.raises(pageblock.Error, match="own, seed 1: the generator gives other requests than in the runs that are done"):
        pageblock.sweep(grid(other), tmp_path)


def test_a_sweep_that_failed_before_its_first_run_leaves_the_folder_free(tmp_path: Path) -> None:
    def raises(seed: int, task: int) -> "Iterator[dict[str, Any]]":
        raise ValueError("not yet")

    def grid(of: Any, **more: Any) -> "dict[str, Any]":
        return {"workloads": [pageblock.Workload("own", of, machine="guest-640m")], "kernels": "linux-6.12", **more}

    with pytest.raises(ValueError, match="not yet") as kept:
        pageblock.sweep(grid(raises), tmp_path)
    assert len(pageblock.sweep(grid(_steady, seeds=2), tmp_path).to_dicts()) == 2
    with pytest.raises(pageblock.Error, match="the folder has another sweep"):
        pageblock.sweep(grid(_steady, seeds=[1, 3]), tmp_path)
    assert kept.value.args == ("not yet",)


def test_a_kernel_of_a_file_is_that_kernel_in_a_sweep(tmp_path: Path) -> None:
    for name in ["linux-6.12.toml", "mine.toml"]:
        file = tmp_path / name
        file.write_text(pageblock.Kernel("linux-6.12", placement="packed").to_toml(), encoding="utf-8")
        kernel = pageblock.Kernel(file)
        expected = [row["event_hash"] for row in pageblock.run("hugealloc-short", kernel, scale="1/64").to_dicts()]
        for at, given in enumerate([kernel, file, kernel.replace(swappiness=60)]):
            grid: "dict[str, Any]" = {"workloads": "hugealloc-short", "kernels": given, "scales": "1/64"}
            (row,) = pageblock.sweep(grid, tmp_path / f"{name}-{at}").to_dicts()
            assert [row["event_hash"]] == expected, given
            assert json.loads(row["resolved_kernel"])["placement"] == "packed"
