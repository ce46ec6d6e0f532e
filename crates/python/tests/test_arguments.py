"""Arguments: one way to say each, and one line for each that is wrong."""

import inspect
import json
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy
import pytest

import pageblock

from .conftest import ROOT

RECORDING = ROOT / "recordings/debian-6.12-640m"
SHORT: dict[str, Any] = {"workload": "hugealloc-short", "kernels": "linux-6.9", "scale": "1/64"}
# What is no whole number from 1 on, no path, no text, and so on.
COUNT: list[Any] = [0, -1, 1.5, "2", True, [1], None, 10**30]
SOME: list[Any] = [0, -1, 1.5, "2", True, [1], 10**30]
TEXT: list[Any] = [5, None, ["a", 5], b"x", object()]
PATH: list[Any] = [5, "", [], object()]
FLAG: list[Any] = ["yes", 2, [], object()]
KERNEL: list[Any] = [5, "", "linux-9", "linux-6.9,a=b", "nowhere.toml", object(), {"linux-6.9": 1}, b"linux-6.9"]
SEEDS: list[Any] = [0, -1, 1.5, "2", True, [], [1, 1], [1.5], [-1], ["a"], 1001, range(1001), numpy.array([0.5]), object(), None, b"12", bytearray(b"12")]
SCALE: list[Any] = [0, 2, -1, "x", "1/x", True, [1], object(), float("nan"), float("inf"), 1e-9, 10**400]
MACHINE: list[Any] = [5, "", "nothing", "nowhere.toml", [], object()]
WORKLOAD: list[Any] = [5, None, "", "nothing", "json:dumps", "nowhere:x", "pageblock:nothing", [], object(), Path("/nowhere.toml"), b"mixed"]

SWITCHES: list[Any] = [5, [], {5: [1]}, {"placement": 5}, {"placement": [None]}, {"x": [1]}, {"swappiness": [0.5]}]

# Each public function with arguments that are right, and for each argument values that are wrong.
TABLE: "list[tuple[str, dict[str, Any], dict[str, list[Any]]]]" = [
    ("run", SHORT, {
        "workload": WORKLOAD, "kernels": [*KERNEL, [5], [], ["linux-6.9", "linux-6.9"]], "machine": MACHINE, "seeds": SEEDS, "scale": SCALE, "jobs": SOME,
        "save": [*PATH, "/nowhere/x/y"], "pictures": FLAG, "published": FLAG, "progress": [5, "tqdm", []], "stop": [5, object()],
    }),
    ("guest_run", {"workload": "thpfioscale", "kernels": "nowhere"}, {
        "workload": WORKLOAD, "kernels": [5, [5], object()], "sysctls": [5, [5]], "repeat": COUNT, "machine": MACHINE, "scale": SCALE, "memory": SOME,
        "cpus": COUNT, "nodes": COUNT, "record": FLAG, "out": PATH, "qemu": PATH, "accelerator": [5, "x"], "timeout": COUNT, "jobs": SOME, "program": [*PATH, "nowhere"],
    }),
    ("compare", {}, {
        "baseline": [5, "linux-6.9", object()], "force": FLAG, "published": FLAG, "stars": [5, "some", None], "tables": [5, None],
    }),
    ("load", {}, {"path": [*PATH, "nowhere", None]}),
    ("explain", {}, {"log": [5, None, "nowhere", object()]}),
    ("doctor", {"root": "nowhere"}, {
        "root": [*PATH, "nowhere"], "later": [*PATH, ROOT / "docs"], "interval": ["x", None, True, object(), -1.0, float("nan")], "flight": [*PATH, "nowhere"],
        "start": [5, "yesterday"], "end": [5, "tomorrow"], "details": FLAG,
    }),
    ("fleet", {"paths": ROOT / "crates/doctor/tests/machines/6.18-24g"}, {
        "paths": [5, [5], None, "", "/nowhere", object(), [ROOT / "crates/doctor/tests/machines/6.18-24g"] * 2], "executor": [5, "cloud", object()], "jobs": SOME,
        "progress": [5, "tqdm"], "stop": [5, object()],
    }),
    ("forecast", {}, {"root": [*PATH, "nowhere"]}),
    ("report", {"sources": str(RECORDING), "out": "/tmp/nowhere/x/page.html"}, {
        "sources": [5, [5], None, "nowhere", []], "out": [*PATH, None], "kernels": [*KERNEL, [5]], "seed": [-1, "x", 1.5, True], "kernel": [5, "six"], "proc": [*PATH, "nowhere"],
    }),
    ("bisect", {"of": "hugealloc-short", "a": "linux-6.9", "b": "linux-6.10", "scale": "1/64"}, {
        "of": [5, None, "", "nothing", object()], "a": [*KERNEL, None], "b": [*KERNEL, None], "measures": [5, "speed", ["speed"], [5]], "machine": MACHINE, "scale": SCALE,
        "seeds": [*SEEDS, 1], "out": [5, "", object()], "executor": [5, "cloud", object()], "jobs": SOME, "progress": [5, "tqdm"], "stop": [5, object()],
    }),
    ("sweep", {"grid": {"workloads": "hugealloc-short", "kernels": "linux-6.9", "scales": "1/64"}, "out": "OUT"}, {
        "grid": [
            5, None, [], {}, "nowhere.toml", {"workload": "mixed"}, {"runs": [5]}, {"runs": [{"seeds": 1}]}, {"runs": {"workload": "mixed"}},
            *({"workloads": one, "kernels": "linux-6.9"} for one in WORKLOAD),
            *({"workloads": "mixed", "kernels": one} for one in KERNEL),
            *({"workloads": "mixed", "kernels": "linux-6.9", "machines": one} for one in MACHINE if one != []),
            *({"workloads": "mixed", "kernels": "linux-6.9", "scales": one} for one in SCALE if one != [1]),
            *({"workloads": "mixed", "kernels": "linux-6.9", "seeds": one} for one in SEEDS if one is not None and repr(one) not in ("1001", "range(0, 1001)")),
            *({"workloads": "mixed", "kernels": "linux-6.9", "switches": one} for one in SWITCHES),
        ],
        "out": [5, None, "", object()], "executor": [5, "cloud", object()], "jobs": SOME, "progress": [5, "tqdm"], "stop": [5, object()],
    }),
    ("tune", {"of": "hugealloc-short", "kernel": "linux-6.9", "out": "OUT", "scale": "1/64", "knobs": ["swappiness"]}, {
        "of": [5, None, "", "nothing", "json:dumps", object()], "kernel": [5, "linux-9", None, object()], "objectives": [5, "speed", [], [5], ["work", "work"]],
        "out": [5, None, "", object()], "over": [5, "all", None], "knobs": [5, "speed", [5]], "machine": MACHINE, "scale": SCALE,
        "trials": COUNT, "batch": COUNT, "seeds": SEEDS, "held_out": [*SEEDS, [1]], "seed": [-1, 1.5, "x", True, None], "pick": [-1, "x", 1.5],
        "executor": [5, "cloud", object()], "jobs": SOME, "progress": [5, "tqdm"], "stop": [5, object()],
    }),
    ("Recording", {"path": RECORDING}, {"path": [*PATH, None, "nowhere"], "kernel": [5, "six", object(), "6.9"], "proc": [*PATH, "/nowhere"]}),
    ("Kernel", {}, {"kernel": [*KERNEL, None]}),
    ("Workload", {"name": "own", "generate": print}, {
        "name": [*TEXT, "", "mixed", "a:b"], "generate": [5, None, "x"], "tasks": COUNT, "machine": [5, None, object()], "latency": FLAG,
    }),
    ("flags", {}, {"names": [5, None, "", "GFP_NOTHING", "GFP_ATOMIC,GFP_DMA"]}),
]  # fmt: skip
# Methods, likewise.
METHODS: "list[tuple[str, dict[str, Any], dict[str, list[Any]]]]" = [
    ("recording.events", {}, {"columns": [5, "frame", ["frame"], [5]]}),
    ("recording.verify", {}, {"kernel": KERNEL, "mismatches": [-1, 1.5, "x", None, True]}),
    ("recording.replay", {"kernels": "linux-6.10"}, {
        "kernels": [*KERNEL, [5], None, ["linux-6.9"] * 2], "baseline": KERNEL, "seeds": [*SEEDS, [1, 2], [0, 2]], "pictures": FLAG, "progress": [5, "tqdm"], "stop": [5, object()],
    }),
    ("runs.compare", {}, {
        "baseline": [5, "linux-6.1", object()], "published": FLAG, "stars": [5, "some", None], "tables": [5, None, "nosuch"],
    }),
    ("runs.save", {}, {"path": [*PATH, None, "/nowhere/x/y"]}),
    ("kernel.diff", {}, {"other": [*KERNEL, None]}),
    ("kernel.switch", {}, {"name": [5, None, "nothing"]}),
    ("kernel.replace", {}, {"placement": [5, None, "best", []], "swappiness": [-1, 1.5, "x", None, 10**30], "nothing": [1]}),
]  # fmt: skip


def check(call: "Callable[..., Any]", right: "dict[str, Any]", name: str, value: Any) -> None:
    """Calls with one argument that is wrong."""
    given = {**right, name: value}
    # Arguments without a name come first.
    first = [given.pop("log")] if "log" in given else [given.pop("names")] if "names" in given else []
    if call is pageblock.Kernel:
        first = [given.pop("kernel")]
    try:
        call(*first, **given)
    except pageblock.Error as error:
        words = str(error)
        assert not getattr(error, "__notes__", []), (name, value)
    else:
        pytest.fail(f"{name}={value!r} raises nothing")
    assert words and "\n" not in words, (name, value, words)
    for dump in ("argument '", "failed to extract", "NoneType' object", "cannot be interpreted", "--", "Traceback", "`pageblock policy", " policy "):
        assert dump not in words, (name, value, words)


@pytest.mark.parametrize(("function", "right", "wrong"), TABLE, ids=[row[0] for row in TABLE])
def test_every_wrong_argument_is_a_line(function: str, right: "dict[str, Any]", wrong: "dict[str, list[Any]]", tmp_path: Path) -> None:
    right = {name: tmp_path / "out" if value == "OUT" else value for name, value in right.items()}
    call = getattr(pageblock, function)
    for name, values in wrong.items():
        for value in values:
            check(call, right, name, value)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(("method", "right", "wrong"), METHODS, ids=[row[0] for row in METHODS])
def test_every_wrong_argument_of_a_method_is_a_line(
    method: str, right: "dict[str, Any]", wrong: "dict[str, list[Any]]", recording: pageblock.Recording, runs: pageblock.Runs
) -> None:
    of, name = method.split(".")
    owner: Any = {"recording": recording, "runs": runs, "kernel": pageblock.Kernel("linux-6.9")}[of]
    for argument, values in wrong.items():
        for value in values:
            check(getattr(owner, name), right, argument, value)


def test_no_argument_of_a_public_function_is_left_out() -> None:
    table = {function: set(wrong) for function, _, wrong in TABLE}
    for function in pageblock.__all__:
        call = getattr(pageblock, function)
        if not callable(call) or function in ("Error", "Events", "Picture", "Report", "Runs", "Table", "Tuned"):
            continue
        parameters = [of for of in inspect.signature(call).parameters.values() if of.kind not in (of.VAR_POSITIONAL, of.VAR_KEYWORD)]
        assert {of.name for of in parameters} == table.get(function, set()), function


def test_each_is_said_in_one_way(tmp_path: Path) -> None:
    def hashes(**given: Any) -> "list[str]":
        return [row["event_hash"] for row in pageblock.run(**{**SHORT, **given}).to_dicts()]

    first = hashes(seeds=[1, 3])
    for seeds in ((1, 3), numpy.array([1, 3]), numpy.array([1, 3], dtype=numpy.uint8), range(1, 4, 2), iter([1, 3]), [numpy.int64(1), 3]):
        assert hashes(seeds=seeds) == first
    one = hashes()
    for scale in (1 / 64, Fraction(1, 64), numpy.float64(1 / 64), "1/64", "2/128"):
        assert hashes(scale=scale) == one
        grid: dict[str, Any] = {"workloads": "hugealloc-short", "kernels": pageblock.Kernel("linux-6.9"), "scales": [scale], "seeds": numpy.array([1, 3])}
        out = tmp_path / str(abs(hash(str(type(scale)) + str(scale))))
        assert [row["event_hash"] for row in pageblock.sweep(grid, out, progress=False).to_dicts()] == first
    assert [row["seed"] for row in pageblock.run(**SHORT, seeds=[7]).to_dicts()] == [7]


def test_one_run_is_stopped_and_the_others_go_on() -> None:
    stop = threading.Event()
    bars: "list[list[int]]" = []

    class Bar:
        def __init__(self, total: int, desc: str, unit: str) -> None:
            self.told: "list[int]" = [total]
            bars.append(self.told)

        def update(self, n: int) -> None:
            self.told.append(n)
            if sum(self.told[1:]) >= 2 and self.told[0] > 100:
                stop.set()

        def close(self) -> None:
            self.told.append(-1)

    with ThreadPoolExecutor(2) as pool:
        long = pool.submit(pageblock.run, **SHORT, seeds=500, jobs=1, stop=stop, progress=Bar)
        other = pool.submit(pageblock.run, **SHORT, seeds=20, jobs=1, progress=Bar)
        with pytest.raises(pageblock.Error, match="stopped, as the event that was given as stop was set"):
            long.result()
        assert len(other.result()) == 20
    assert sorted((told[0], told[-1]) for told in bars) == [(20, -1), (500, -1)]
    assert sum(next(told for told in bars if told[0] == 20)[1:-1]) == 20


def test_errors_of_options_are_named_as_arguments() -> None:
    with pytest.raises(pageblock.Error, match="^kernels is missing"):
        pageblock.run("hugealloc")
    assert json.loads(pageblock.run(**SHORT).to_json())
