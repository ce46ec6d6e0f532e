"""Workloads of one's own."""

import array
import traceback
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy
import pytest

import pageblock
from pageblock import Workload

from .libraries import polars, pyarrow
from .conftest import ROOT

Batch = dict[str, Any]


def mixed(seed: int, task: int) -> Iterator[Batch]:
    """Yields requests of every kind: a cache of files, a mapping, blocks and objects that come and go."""
    rng = numpy.random.default_rng([seed, task])
    yield {"time_ns": [0, 0, 0], "op": ["file", "map", "map_huge"], "id": [0, 1, 2], "amount": [4096, 2048, 2048]}
    for second in range(3):
        start = second * 10**9
        yield {
            "time_ns": [start, start, start, start],
            "op": ["write", "read", "touch", "touch"],
            "id": [0, 0, 1, 2],
            "amount": [1000, 1000, 512, 512],
            "offset": [1000 * second, 0, 512 * second, 512 * second],
        }
        ids = numpy.arange(10, 1010)
        ops = rng.integers(0, 4, 1000)
        yield {
            "time_ns": start + numpy.arange(1000) * 1000,
            "op": ops.astype(numpy.uint8),
            "id": ids,
            "amount": numpy.where(ops < 2, rng.integers(0, 4, 1000), rng.integers(8, 4000, 1000)),
        }
        yield {"time_ns": numpy.full(1000, start + 5 * 10**8), "op": ["free"] * 1000, "id": rng.permutation(ids)}
    yield {"time_ns": [3 * 10**9] * 3, "op": ["free"] * 3, "id": [0, 1, 2]}


def one(batch: Any) -> Workload:
    """Returns a workload of one batch."""
    return Workload("one", lambda seed, task: [batch])


def test_every_kind_of_request_runs_under_every_kernel() -> None:
    kernels = pageblock.kernels()
    runs = pageblock.run(Workload("own", mixed, tasks=2), kernels, scale="1/8")
    counters = {(row["kernel"], row["counter"]): row["count"] for row in runs.counters().to_dicts()}
    for kernel in kernels:
        assert counters[kernel.name, "requests"] == 2 * (3 + 3 * 2004 + 3)
        # Two tasks, two mappings, three seconds: a huge page is one fault for 512 pages.
        assert counters[kernel.name, "pgfault"] + 511 * counters[kernel.name, "thp_fault_alloc"] >= 2 * 2 * 3 * 512
    assert len({row["event_hash"] for row in runs.to_dicts()}) > 10


def test_the_same_seed_gives_the_same_bytes() -> None:
    own = Workload("own", mixed)
    first = pageblock.run(own, "linux-6.12", seeds=2, scale="1/8")
    assert first.to_json() == pageblock.run(own, "linux-6.12", seeds=2, scale="1/8", jobs=1).to_json()
    hashes = [row["event_hash"] for row in first.to_dicts()]
    assert hashes[0] != hashes[1]
    assert "of another type" in str(pageblock.run(own, ["linux-6.9", "linux-6.12"], scale="1/8").compare(tables="all"))


def test_batches_come_in_any_columns() -> None:
    lists: Batch = {"time_ns": [0, 10, 20], "op": ["alloc", "object", "free"], "id": [1, 2, 1], "amount": [3, 64, 0]}
    codes: Batch = {**lists, "op": [pageblock.operations().index(op) for op in lists["op"]]}
    forms: list[Any] = [
        lists,
        codes,
        {name: array.array("q", values) for name, values in codes.items()},
        {name: numpy.array(values, dtype=numpy.uint16) for name, values in codes.items()},
        {name: numpy.array(values * 2)[:3] for name, values in codes.items()},
        pyarrow.table(lists),
        pyarrow.record_batch(codes),
        polars.DataFrame(lists),
    ]
    hashes = {pageblock.run(one(form), "linux-6.12", scale="1/8").to_dicts()[0]["event_hash"] for form in forms}
    assert len(hashes) == 1


def test_an_exception_names_its_line() -> None:
    def broken(seed: int, task: int) -> Iterator[Batch]:
        yield {"time_ns": [0], "op": ["alloc"], "id": [0]}
        raise LookupError("here")

    with pytest.raises(LookupError, match="here") as raised:
        pageblock.run(Workload("broken", broken), "linux-6.12", scale="1/8", seeds=3)
    lines = traceback.extract_tb(raised.value.__traceback__)
    assert lines[-1].line == 'raise LookupError("here")'


@pytest.mark.parametrize(
    ("batch", "words"),
    [
        ({"time_ns": [0], "op": ["take"], "id": [0]}, "there is no op 'take'; there are alloc, alloc_reclaimable, "),
        ({"time_ns": [0], "op": [12], "id": [0]}, "row 0: there is no op 12; allowed: 0 alloc, "),
        ({"time_ns": [0], "op": [0]}, "the batch lacks the column 'id'"),
        ({"time_ns": [0], "op": [0], "id": [0], "size": [0]}, "a batch has no column 'size'; there are time_ns, op,"),
        ({"time_ns": [0, 1], "op": [0], "id": [0]}, "the column 'op' has 1 rows, time_ns has 2"),
        ({"time_ns": [0], "op": [0], "id": numpy.array([-1])}, "the column 'id' has -1; allowed: 0 and above"),
        ({"time_ns": [0], "op": [0], "id": [0.5]}, "the column 'id' is a list; allowed: an array or a list of whole"),
        ({"time_ns": numpy.array([0.5]), "op": [0], "id": [0]}, "the column 'time_ns' has values of format 'd'"),
        ([0], "a batch is a dict of columns or a table of Arrow with time_ns, op, id, amount, offset, flags; found list"),
    ],
)
def test_wrong_batches_are_refused(batch: Any, words: str) -> None:
    with pytest.raises(pageblock.Error) as raised:
        pageblock.run(one(batch), "linux-6.12", scale="1/8")
    assert str(raised.value).startswith(f"one under linux-6.12 on small-4g at 1/8 with seed 1: the simulation failed: requests: task 0: {words}")


@pytest.mark.parametrize(
    ("batch", "words"),
    [
        ({"time_ns": [0], "op": ["free"], "id": [7]}, "task 0, request 0: free of id 7, which stands for nothing"),
        ({"time_ns": [0], "op": ["alloc"], "id": [1 << 24]}, "task 0, request 0: id 16777216: ids are below 16777216"),
        ({"time_ns": [5, 4], "op": ["alloc"] * 2, "id": [0, 1]}, "task 0, request 1: time_ns 4 is before that of"),
        ({"time_ns": [0, 0], "op": ["alloc"] * 2, "id": [0, 0]}, "task 0, request 1: id 0 stands for something else"),
        ({"time_ns": [0], "op": ["alloc"], "id": [0], "amount": [60]}, "task 0, request 0: order 60: allowed: 0 to "),
        ({"time_ns": [0], "op": ["read"], "id": [0]}, "task 0, request 0: id 0 is no file"),
        ({"time_ns": [0], "op": ["map"], "id": [0]}, "task 0, request 0: mapping 0: allowed: 1 to "),
    ],
)
def test_wrong_requests_are_named_by_their_number(batch: Any, words: str) -> None:
    with pytest.raises(pageblock.Error) as raised:
        pageblock.run(one(batch), "linux-6.12", scale="1/8")
    assert words in str(raised.value)


def test_memory_that_is_not_there_fails_or_kills_and_the_run_goes_on() -> None:
    batch = {"time_ns": [0, 0, 0], "op": ["map", "touch", "free"], "id": [0, 0, 0], "amount": [1 << 19, 1 << 19, 0]}
    run = pageblock.run(one(batch), "linux-6.12", scale="1/8")
    assert any("died" in note or "Out of memory" in note for note in run.notes), run.notes


def numbered(seed: int, task: int) -> Iterator[Batch]:
    """Yields blocks by seed: a function of a module, which processes take."""
    rng = numpy.random.default_rng([seed, task])
    count = 300
    yield {"time_ns": numpy.arange(count) * 1000, "op": ["alloc"] * count, "id": numpy.arange(count), "amount": rng.integers(0, 4, count)}


NUMBERED = Workload("numbered", numbered, machine="guest-640m")


def test_own_workloads_run_in_sweeps_on_every_engine(tmp_path: Path) -> None:
    grid: dict[str, Any] = {"workloads": [NUMBERED], "kernels": ["linux-6.9", "linux-6.12"], "scales": "1/8", "seeds": [1, 3]}
    table = pageblock.sweep(grid, tmp_path / "threads")
    expected = (tmp_path / "threads/runs.parquet").read_bytes()
    rows = pageblock.run(NUMBERED, ["linux-6.9", "linux-6.12"], scale="1/8", seeds=[1, 3]).to_dicts()
    assert {row["event_hash"] for row in table.to_dicts()} == {row["event_hash"] for row in rows}
    by_name = {**grid, "workloads": f"{__name__}:NUMBERED"}
    engines: dict[str, Any] = {"processes": "processes", "named": None}
    for name, executor in engines.items():
        pageblock.sweep(by_name if name == "named" else grid, tmp_path / name, executor=executor, jobs=2)
        assert (tmp_path / name / "runs.parquet").read_bytes() == expected, name
    found = pageblock.tune(
        NUMBERED, "linux-6.12", "small-blocks", out=tmp_path / "tune", scale="1/8", trials=2, batch=2, seeds=2, held_out=2, knobs=["watermark_scale_factor"], progress=False
    )
    assert found.subject == "numbered at 1/8" and len(found.study.trials) == 2
    with pytest.raises(pageblock.Error, match="at most 0 mixed pageblocks in the 2 runs of a trial, fewer than 20: nothing can be told"):
        pageblock.tune(NUMBERED, "linux-6.12", "spread", out=tmp_path / "few", scale="1/8", trials=2, batch=2, seeds=2, knobs=["swappiness"], progress=False)
    with pytest.raises(pageblock.Error, match="workload 'local': its function cannot be sent to a process"):
        pageblock.sweep({**grid, "workloads": Workload("local", lambda seed, task: [])}, tmp_path / "local", executor="processes", jobs=1)


def test_own_workloads_run_on_dask(tmp_path: Path) -> None:
    distributed: Any = pytest.importorskip("distributed")
    grid: dict[str, Any] = {"workloads": [NUMBERED], "kernels": ["linux-6.9", "linux-6.12"], "scales": "1/8", "seeds": 2}
    pageblock.sweep(grid, tmp_path / "threads")
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None) as cluster, distributed.Client(cluster) as client:
        pageblock.sweep(grid, tmp_path / "dask", executor=client)
    assert (tmp_path / "dask/runs.parquet").read_bytes() == (tmp_path / "threads/runs.parquet").read_bytes()


def test_a_generator_without_its_seed_is_noticed(tmp_path: Path) -> None:
    rng = numpy.random.default_rng()

    def unseeded(seed: int, task: int) -> Iterator[Batch]:
        yield {"time_ns": [0], "op": ["alloc"], "id": [0], "amount": [int(rng.integers(0, 4))]}
        yield {"time_ns": [1] * 50, "op": ["object"] * 50, "id": range(1, 51), "amount": rng.integers(8, 4000, 50)}

    own = Workload("unseeded", unseeded)
    with pytest.raises(pageblock.Error, match="seed 1, task 0, batch [01]: the generator gave other requests than for another kernel"):
        pageblock.run(own, ["linux-6.9", "linux-6.12"], scale="1/8")
    with pytest.raises(pageblock.Error, match="unseeded, seed 1: the generator gave other requests for linux-6.* than for linux-6"):
        pageblock.sweep({"workloads": own, "kernels": ["linux-6.9", "linux-6.12"], "scales": "1/8"}, tmp_path)


def test_requests_have_flags_times_and_parts_of_mappings() -> None:
    batch: Batch = {
        "time_ns": [0] * 6, "op": ["alloc", "object", "map", "touch", "unmap", "touch"], "id": [0, 1, 2, 2, 2, 2], "amount": [3, 64, 512, 512, 100, 100],
        "offset": [0, 0, 0, 0, 50, 50], "flags": ["GFP_ATOMIC|__GFP_NOWARN", "GFP_NOWAIT", "0", "0", "0", "0"],
    }  # fmt: skip
    bits = [pageblock.flags(text) for text in batch["flags"]]
    hashes: set[str] = set()
    for flags in (batch["flags"], bits, numpy.array(bits)):
        own = Workload("flags", lambda seed, task, flags=flags: [{**batch, "flags": flags}], latency=True)  # type: ignore[misc]
        runs = pageblock.run(own, "linux-6.12", scale="1/8")
        hashes.add(runs.to_dicts()[0]["event_hash"])
        counters = {row["counter"]: row["count"] for row in runs.counters().to_dicts()}
        # The pages that were unmapped are faulted again.
        assert counters["pgfault"] + 511 * counters["thp_fault_alloc"] >= 512 + 100
        times = [row for row in runs.samples().to_dicts() if row["operation"].startswith("latency-")]
        assert sorted({row["operation"] for row in times}) == ["latency-alloc", "latency-map", "latency-object", "latency-touch", "latency-unmap"]
        assert len(times) == 6
    assert len(hashes) == 1
    # A request that may not reclaim fails, where the usual one reclaims.
    hungry: Batch = {"time_ns": [0] * 9000, "op": ["alloc"] * 9000, "id": range(9000), "amount": [4] * 9000}
    failed: "list[int]" = []
    stalls: "list[int]" = []
    for more in ({"flags": ["GFP_NOWAIT"] * 9000}, {}):
        run = pageblock.run(one({**hungry, **more}), "linux-6.12", "guest-640m")
        failed.append(sum(row["value"] for row in run.samples().to_dicts() if row["operation"] == "requests-failed"))
        stalls.append(run.to_dicts()[0]["allocation_stalls"])
    assert failed[0] > failed[1] > 0 and stalls[0] == 0 < stalls[1]
    with pytest.raises(pageblock.Error, match="flags: only blocks and objects have them"):
        pageblock.run(one({"time_ns": [0], "op": ["map"], "id": [0], "amount": [1], "flags": ["GFP_ATOMIC"]}), "linux-6.12", scale="1/8")


def test_a_workload_file_is_a_workload_everywhere(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text((ROOT / "examples/workloads/swing.toml").read_text(encoding="utf-8"), encoding="utf-8")
    kernels = ["linux-6.9", "linux-6.10"]
    expected = [row["event_hash"] for row in pageblock.run(file.as_posix(), kernels, scale="1/64").to_dicts()]
    grid: dict[str, Any] = {"workloads": [file.as_posix()], "kernels": kernels, "scales": "1/64", "seeds": 1}
    assert [row["event_hash"] for row in pageblock.run(file, kernels, scale="1/64").to_dicts()] == expected
    threads = pageblock.sweep({**grid, "workloads": file}, tmp_path / "threads").to_dicts()
    assert [row["event_hash"] for row in threads] == expected
    with ProcessPoolExecutor(2) as executor:
        assert pageblock.sweep(grid, tmp_path / "processes", executor=executor).to_dicts() == threads
    single = {"runs": [{"workload": file.as_posix(), "kernel": "linux-6.9", "scale": "1/64"}]}
    assert pageblock.sweep(single, tmp_path / "single").to_dicts()[0]["event_hash"] == expected[0]
    # The sweep is of this content: another one is another sweep.
    file.write_text(file.read_text(encoding="utf-8") + "\n# changed\n", encoding="utf-8")
    with pytest.raises(pageblock.Error, match="the folder has another sweep"):
        pageblock.sweep(grid, tmp_path / "threads")
    subjects: "list[Path | str]" = [file, file.as_posix()]
    for of in subjects:
        found = pageblock.bisect(of, *kernels, scale="1/64", seeds=2)
        assert {row["switch"] for row in found.to_dicts()} >= {"claim_rule=types_agree"}


def test_an_own_workload_is_bisected() -> None:
    own = Workload("own", mixed, tasks=2, machine="guest-640m")
    with pytest.raises(pageblock.Error, match="measures is missing: own names no primary measures"):
        pageblock.bisect(own, "linux-6.9", "linux-6.10", seeds=2)
    found = pageblock.bisect(own, "linux-6.9", "linux-6.10", measures="huge-pages-on-fault", seeds=2)
    threads = [row for row in found.to_dicts()]
    assert {(row["measure"], row["label"]) for row in threads} == {("huge-pages-on-fault", "Huge pages on fault [%]")}
    with ProcessPoolExecutor(2) as executor:
        again = pageblock.bisect(own, "linux-6.9", "linux-6.10", measures="huge-pages-on-fault", seeds=2, executor=executor)
    assert again.to_dicts() == threads


def test_names_may_be_an_array_of_texts() -> None:
    def generate(seed: int, task: int) -> Iterator[Batch]:
        yield {"time_ns": [0, 1], "op": numpy.array(["map", "touch"]), "id": [0, 0], "amount": [10, 10]}

    def nothing(seed: int, task: int) -> Any:
        return None

    listed = Workload("one", lambda seed, task: [{"time_ns": [0, 1], "op": ["map", "touch"], "id": [0, 0], "amount": [10, 10]}])
    assert pageblock.run(Workload("one", generate), "linux-6.12").to_dicts() == pageblock.run(listed, "linux-6.12").to_dicts()
    with pytest.raises(pageblock.Error, match="the generator returned a NoneType; allowed: an iterable of batches"):
        pageblock.run(Workload("none", nothing), "linux-6.12")
