"""Work that fails, or is stopped: one line that says what and where, and the user's own exception as the cause."""

import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import pageblock

from .conftest import ROOT

KERNELS = ["linux-6.9", "linux-6.10"]
GRID: dict[str, Any] = {"workloads": "hugealloc-short", "kernels": KERNELS, "scales": "1/64", "seeds": 3}
MACHINES = ROOT / "crates/doctor/tests/machines"
RECORDING = ROOT / "recordings/debian-6.12-640m"


def engines(folder: Path) -> "dict[str, tuple[Callable[..., Any], dict[str, Any]]]":
    """Returns every function that takes `progress` and `stop`, with its other arguments."""
    bisected = {"a": "linux-6.9", "b": "linux-6.9,nofragment=off"}
    short = {"scale": "1/64", "seeds": 3}
    tuned = {"kernel": "linux-6.9", "objectives": "work", "knobs": ["swappiness"], "trials": 2, "batch": 2, "scale": "1/64", "seeds": 2}
    return {
        "bisect": (pageblock.bisect, {"of": "hugealloc-short", **bisected, **short}),
        "bisect-recording": (pageblock.bisect, {"of": RECORDING, **bisected, "seeds": 2, "measures": "mismatched-pages"}),
        "fleet": (pageblock.fleet, {"paths": MACHINES}),
        "replay": (pageblock.Recording(RECORDING).replay, {"kernels": KERNELS}),
        "run": (pageblock.run, {"workload": "hugealloc-short", "kernels": KERNELS, **short}),
        "sweep": (pageblock.sweep, {"grid": GRID, "out": folder / "sweep"}),
        "sweep-pool": (pageblock.sweep, {"grid": GRID, "out": folder / "pool", "executor": ThreadPoolExecutor(1)}),
        "tune": (pageblock.tune, {"of": "hugealloc-short", "out": folder / "tune", **tuned}),
    }


NAMES = ("bisect", "bisect-recording", "fleet", "replay", "run", "sweep", "sweep-pool", "tune")


def call(name: str, folder: Path, **look: Any) -> Any:
    """Calls one of them."""
    function, given = engines(folder)[name]
    return function(**given, **look)


class Bar:
    """A bar that counts, and that can raise something."""

    told: "list[int]"
    raises = ""

    def __init__(self, total: int, desc: str, unit: str) -> None:
        type(self).told = [total]
        self.do("init")

    def update(self, n: int) -> None:
        type(self).told.append(n)
        self.do("update")

    def close(self) -> None:
        type(self).told.append(-1)
        self.do("close")

    def do(self, what: str) -> None:
        if self.raises == what:
            raise ValueError(f"in {what}\nof mine")


@pytest.mark.parametrize("name", NAMES)
def test_every_engine_tells_a_bar_what_is_done(name: str, tmp_path: Path) -> None:
    assert call(name, tmp_path, progress=Bar) is not None
    total, *parts, last = Bar.told
    done = sum(parts)
    # A replay of a recording under kernels that count as one is not made, which nobody knows before.
    assert last == -1 and (0 < done <= total if name == "bisect-recording" else done == total), Bar.told


@pytest.mark.parametrize("name", NAMES)
def test_every_engine_stops_when_the_event_is_set(name: str, tmp_path: Path) -> None:
    stop = threading.Event()
    stop.set()
    with pytest.raises(pageblock.Error, match="^stopped, as the event that was given as stop was set$"):
        call(name, tmp_path, stop=stop)


@pytest.mark.parametrize("what", ["init", "update", "close"])
@pytest.mark.parametrize("name", NAMES)
def test_what_a_bar_raises_is_the_cause_of_one_line(name: str, what: str, tmp_path: Path) -> None:
    class Raises(Bar):
        raises = what

    with pytest.raises(pageblock.Error) as raised:
        call(name, tmp_path, progress=Raises)
    place = "progress" if what == "init" else f"progress: {what}"
    assert str(raised.value) == f"{place} raised ValueError: in {what}"
    assert str(raised.value.__cause__) == f"in {what}\nof mine"


def assert_alone(error: BaseException) -> None:
    """Checks that nothing else is printed with an error."""
    assert error.__cause__ is None and (error.__context__ is None or error.__suppress_context__)


def test_an_engine_that_is_closed_is_a_line(tmp_path: Path) -> None:
    pool = ThreadPoolExecutor(1)
    pool.shutdown()
    with pytest.raises(pageblock.Error, match="^executor: cannot schedule new futures after shutdown; what is done is kept$") as raised:
        pageblock.sweep(GRID, tmp_path, executor=pool)
    assert_alone(raised.value)
    distributed: Any = pytest.importorskip("distributed")
    with distributed.LocalCluster(n_workers=1, threads_per_worker=1, processes=False, dashboard_address=None) as cluster:
        client = distributed.Client(cluster)

        class Closes(Bar):
            def update(self, n: int) -> None:
                if n:
                    client.close()

        with pytest.raises(pageblock.Error, match="^(a run was cancelled by its executor|executor: ClosedClientError)[^\n]*$") as raised:
            pageblock.sweep({**GRID, "seeds": 50}, tmp_path, executor=client, progress=Closes)
        assert_alone(raised.value)
        with pytest.raises(pageblock.Error, match="^executor: the Dask client is closed$") as raised:
            pageblock.sweep(GRID, tmp_path, executor=client)
        assert_alone(raised.value)


def test_what_an_executor_of_the_users_raises_is_the_cause(tmp_path: Path) -> None:
    class Mine(Executor):
        def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> "Future[Any]":
            raise ValueError("mine\nand more")

    with pytest.raises(pageblock.Error, match="^executor: mine; what is done is kept$") as raised:
        pageblock.sweep(GRID, tmp_path, executor=Mine())
    assert isinstance(raised.value.__cause__, ValueError)


def generator(batch: "dict[str, Any] | None") -> Callable[[int, int], "Iterator[dict[str, Any]]"]:
    """Returns a generator of one batch; None raises at seed 2."""

    def generate(seed: int, task: int) -> "Iterator[dict[str, Any]]":
        if batch is None and seed == 2:
            raise ValueError("mine")
        yield batch or {"time_ns": [0], "op": ["map"], "id": [0], "amount": [10]}

    return generate


WRONG = {"time_ns": [0], "op": ["map"], "id": [0], "amount": [10], "size": [1]}
FAILS = {"time_ns": [0], "op": ["alloc"], "id": [1 << 24]}


@pytest.mark.parametrize("engine", ["run", "sweep"])
def test_failed_work_names_workload_kernel_and_seed(engine: str, tmp_path: Path) -> None:
    def work(batch: "dict[str, Any] | None") -> Any:
        own = pageblock.Workload("mine", generator(batch), machine="guest-640m")
        if engine == "run":
            return pageblock.run(own, "linux-6.12", seeds=[2])
        return pageblock.sweep({"workloads": own, "kernels": "linux-6.12", "seeds": [2]}, tmp_path)

    place = "mine under linux-6.12 on guest-640m with seed 2: the simulation failed: requests: task 0"
    with pytest.raises(pageblock.Error, match=f"^{place}: a batch has no column 'size'; there are "):
        work(WRONG)
    with pytest.raises(pageblock.Error, match=f"^{place}, request 0: id 16777216: ids are below 16777216"):
        work(FAILS)
    with pytest.raises(ValueError) as raised:
        work(None)
    assert str(raised.value) == "mine"
    if sys.version_info >= (3, 11):
        assert raised.value.__notes__ == [f"in {place}"]
