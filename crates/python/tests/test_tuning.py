"""Searches: the same history gives the same proposals, and what is done is not done again."""

import json
import shutil
import subprocess
import sys
import threading
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import pageblock
from pageblock import _recordings
from pageblock._engines import engine
from pageblock._trials import Replays

SEARCH: dict[str, Any] = {
    "kernel": "linux-6.12", "objectives": ["spread", "work"], "scale": "1/64", "trials": 8, "batch": 4, "seeds": 8, "held_out": 6,
    "knobs": ["min_free_kbytes", "vm.watermark_scale_factor", "swappiness", "watermark_boost_factor", "compaction_proactiveness"],
}  # fmt: skip
WORKLOAD = "hugealloc-short"


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> "tuple[Path, pageblock.Tuned]":
    """Returns a search on one thread, and its folder."""
    folder = tmp_path_factory.mktemp("one")
    return folder, pageblock.tune(WORKLOAD, out=folder, jobs=1, **SEARCH)


def answer(folder: Path) -> str:
    return (folder / "answer.json").read_text(encoding="utf-8")


def test_the_answer_is_a_file_for_sysctl_d(expected: "tuple[Path, pageblock.Tuned]") -> None:
    folder, tuned = expected
    text = (folder / "90-pageblock.conf").read_text(encoding="utf-8")
    settings = [line for line in text.splitlines() if not line.startswith("#")]
    assert settings == [f"{name} = {value}" for name, value in tuned.settings.items()]
    assert tuned.front and tuned.settings, "something is better than the default"
    assert "hugealloc-short at 1/64 under linux-6.12" in text and "95 % interval" in text and "with 6 others" in text
    assert {row["measure"] for row in tuned.to_dicts()} >= {"Pages reclaimed and scanned", "Mixed pageblocks at the end", "Allocation stalls"}
    knobs = {"min_free_kbytes", "watermark_scale_factor", "swappiness", "watermark_boost_factor", "compaction_proactiveness"}
    assert set(tuned.importance["work"]) == {f"vm.{knob}" for knob in knobs}
    for one in tuned.front:
        other = [two for two in tuned.front if two.values["work"] <= one.values["work"] and two.values["spread"] < one.values["spread"]]
        assert not other, "it is a front"


def test_the_held_out_seeds_are_judged_as_run_compares_them(expected: "tuple[Path, pageblock.Tuned]") -> None:
    _, tuned = expected
    runs = pageblock.run(WORKLOAD, ["linux-6.12", tuned.tuned], scale="1/64", seeds=range(9, 15))
    compared = {row["label"]: row for row in runs.compare().to_dicts() if row["kernel"] == tuned.tuned}
    mixed, row = compared["Mixed pageblocks at the end"], tuned.to_dicts()[0]
    assert row["mean_tuned"] == pytest.approx(mixed["mean"])
    assert (row["change"], row["low"], row["high"]) == pytest.approx((mixed["change"], mixed["low"], mixed["high"]))


def test_any_engine_makes_the_same_proposals(expected: "tuple[Path, pageblock.Tuned]", tmp_path: Path) -> None:
    with ProcessPoolExecutor(2) as executor:
        pageblock.tune(WORKLOAD, out=tmp_path, executor=executor, **SEARCH)
    assert answer(tmp_path) == answer(expected[0])


def test_a_search_that_was_killed_goes_on(expected: "tuple[Path, pageblock.Tuned]", tmp_path: Path) -> None:
    class Killed(ThreadPoolExecutor):
        left = 17

        def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> "Future[Any]":
            type(self).left -= 1
            if self.left < 0:
                raise KeyboardInterrupt
            return super().submit(fn, *args, **kwargs)

    with Killed(1) as killed, pytest.raises(KeyboardInterrupt):
        pageblock.tune(WORKLOAD, out=tmp_path, executor=killed, **SEARCH)
    assert list(tmp_path.glob("runs/*/runs.jsonl")), "some is done"
    ran: list[str] = []

    class Counting(ThreadPoolExecutor):
        def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> "Future[Any]":
            ran.append(args[0])
            return super().submit(fn, *args, **kwargs)

    with Counting(2) as executor:
        pageblock.tune(WORKLOAD, out=tmp_path, executor=executor, **SEARCH)
    assert answer(tmp_path) == answer(expected[0])
    ran.clear()
    with Counting(2) as executor:
        pageblock.tune(WORKLOAD, out=tmp_path, executor=executor, **SEARCH)
    assert not ran, "all of it is there"
    other: dict[str, Any] = {**SEARCH, "seeds": 4}
    with pytest.raises(pageblock.Error, match="the folder has another search: seeds is 8, not 4; name another folder"):
        pageblock.tune(WORKLOAD, out=tmp_path, **other)


def test_a_recording_is_replayed(tmp_path: Path) -> None:
    path = Path(__file__).parents[3] / "recordings/debian-6.12-640m"
    tuned = pageblock.tune(path, out=tmp_path, objectives="spread", over="switches", knobs=["placement"], trials=2, batch=2)
    assert tuned.kernel.base == "debian-6.12"
    assert tuned.settings in ({}, {"placement": "packed"})
    assert (tmp_path / "replays.jsonl").read_text(encoding="utf-8").count("\n") >= 1
    with pytest.raises(pageblock.Error, match="there is no knob 'swappiness'; a replay of a recording obeys vm.min_free_kbytes, "):
        pageblock.tune(path, out=tmp_path / "other", objectives="spread", knobs=["swappiness"])


def test_a_setting_that_is_better_in_every_replay_is_the_answer(tmp_path: Path) -> None:
    path = Path(__file__).parents[3] / "recordings/debian-6.12-640m"
    tuned = pageblock.tune(path, out=tmp_path, objectives="spread", over="switches", knobs=["fallback_pick"], trials=4, batch=2)
    default, best = tuned.study.trials[0].values[0], min(trial.values[0] for trial in tuned.study.trials)
    assert best < default, "the recording's default is not the best"
    assert list(tuned.settings) == ["fallback_pick"]
    assert "seeds" not in str(tuned).split("Settings")[0], str(tuned)


def test_a_kernel_of_a_file_is_tuned(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(pageblock.Kernel("linux-6.12", placement="packed").to_toml(), encoding="utf-8")
    search: "dict[str, Any]" = {**SEARCH, "kernel": file, "objectives": "spread", "trials": 2, "batch": 2, "held_out": 2, "knobs": ["swappiness"]}
    tuned = pageblock.tune(WORKLOAD, out=tmp_path / "out", **search)
    runs = pageblock.run(WORKLOAD, pageblock.Kernel("linux-6.12", placement="packed"), scale="1/64", seeds=8)
    mixed = [row["mean"] for row in runs.compare().to_dicts() if row["label"] == "Mixed pageblocks at the end"]
    assert [tuned.study.trials[0].values[0]] == pytest.approx(mixed), "the first trial is the kernel itself"


def test_a_search_over_a_recording_is_stopped(tmp_path: Path) -> None:
    stop = threading.Event()
    stop.set()
    search: dict[str, Any] = {"out": tmp_path, "trials": 2, "batch": 2, "knobs": ["min_free_kbytes"], "objectives": "spread", "stop": stop}
    with pytest.raises(pageblock.Error, match="stopped, as the event that was given as stop was set"):
        pageblock.tune(Path(__file__).parents[3] / "recordings/debian-6.12-640m", **search)


def test_a_search_answers_for_no_other_recording_under_the_same_path(tmp_path: Path) -> None:
    path = tmp_path / "there-6.12"
    shutil.copytree(Path(__file__).parents[3] / "recordings/debian-6.12-640m", path)

    def search() -> pageblock.Tuned:
        return pageblock.tune(path, objectives="spread", over="switches", knobs=["placement"], trials=1, batch=1, out=tmp_path / "out")

    search()
    with (path / "comms.json").open("a") as file:
        file.write("\n")
    vars(_recordings)["_OPENED"].clear()
    with pytest.raises(pageblock.Error, match="the folder has another search: content is there-6.12-"):
        search()


def test_a_recording_travels_to_the_workers_of_dask(tmp_path: Path) -> None:
    distributed: Any = pytest.importorskip("distributed")
    there = Path(__file__).parents[3] / "recordings/debian-6.12-640m"
    kernels = ["debian-6.12", "debian-6.12,placement=packed"]
    expected = Replays(str(there), tmp_path, None, 1).run(kernels, [0])
    moved = tmp_path / "here/debian-6.12-640m"
    shutil.copytree(there, moved)
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None) as cluster,
        distributed.Client(cluster) as client,
        engine(client, None) as executor,
    ):
        (tmp_path / "dask").mkdir()
        replays = Replays(str(moved), tmp_path / "dask", executor, None)
        moved.rename(tmp_path / "gone")
        assert replays.run(kernels, [0]) == expected


def test_no_more_than_a_twentieth_of_memory_is_reserved(tmp_path: Path) -> None:
    """The machine of the load has 640 MiB: of the values of `min_free_kbytes` one is below 32 MiB."""
    small: dict[str, Any] = {"scale": "1/8", "trials": 4, "batch": 4, "seeds": 2, "held_out": 1}
    search: dict[str, Any] = {**SEARCH, "knobs": ["min_free_kbytes"], "objectives": ["stalls"], **small}
    pageblock.tune("mixed", out=tmp_path / "found", **search)
    lines = [line for journal in (tmp_path / "found/runs").glob("*/runs.jsonl") for line in journal.read_text().splitlines()[1:]]
    kernels = {json.loads(line)[1]["cell"]["kernel"] for line in lines}
    assert kernels == {"linux-6.12", "linux-6.12,min_free_kbytes=16896"}


def test_what_exists_depends_on_the_kernel(tmp_path: Path) -> None:
    for kernel, knob in [("linux-4.20", "watermark_boost_factor"), ("linux-6.14", "vm.defrag_mode"), ("linux-5.8", "compaction_proactiveness")]:
        with pytest.raises(pageblock.Error, match=f"there is no knob '{knob}'; {kernel} has vm.min_free_kbytes, "):
            pageblock.tune(WORKLOAD, kernel, "work", out=tmp_path / "out", scale="1/64", knobs=[knob])
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"objectives": "speed"}, "there is no objective 'speed'; there are huge-pages, stalls, work, "),
        ({"objectives": ["work", "work"]}, "objective 'work' is given twice"),
        ({"kernel": "linux-6.11"}, "unknown kernel 'linux-6.11'; 6.11 behaves as"),
        ({"kernel": None}, "a kernel is missing: "),
        ({"over": "all"}, "over 'all': allowed: sysctls, switches"),
        ({"trials": 0}, "trials 0: allowed: a whole number from 1 to 100000"),
        ({"machine": "nothing"}, "there is no machine 'nothing'; there are "),
    ],
)
def test_mistakes_are_named_before_anything_is_written(change: "dict[str, Any]", words: str, tmp_path: Path) -> None:
    with pytest.raises(pageblock.Error) as raised:
        pageblock.tune(WORKLOAD, out=tmp_path / "out", **{**SEARCH, **change})
    assert str(raised.value).startswith(words)
    with pytest.raises(pageblock.Error, match="there is no workload and no recording 'nothing'; there are thpfioscale, "):
        pageblock.tune("nothing", out=tmp_path / "out", **SEARCH)
    assert not (tmp_path / "out").exists()


def test_without_optuna_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(pageblock.Error, match=r"pip install 'pageblock\[tune\]'"):
        pageblock.tune(WORKLOAD, out=tmp_path / "out", **SEARCH)


def test_the_program_runs_it_as_a_module(expected: "tuple[Path, pageblock.Tuned]") -> None:
    folder, tuned = expected
    request = {"of": WORKLOAD, "out": str(folder), **SEARCH}
    ran = subprocess.run([sys.executable, "-m", "pageblock", json.dumps(request)], capture_output=True, text=True)
    assert (ran.returncode, ran.stdout) == (0, f"{tuned}\n")
    ran = subprocess.run([sys.executable, "-m", "pageblock", json.dumps({**request, "over": "x"})], capture_output=True, text=True)
    assert (ran.returncode, ran.stdout, ran.stderr) == (2, "", "error: over 'x': allowed: sysctls, switches\n")


def test_the_p_of_several_objectives_are_corrected() -> None:
    from pageblock._objectives import MEASURES, changes
    from pageblock._pageblock import unpaired

    base = [{"allocation_stalls": 100.0 + n, "mixed_pageblocks": 50.0 + n} for n in range(8)]
    less = [{"allocation_stalls": 50.0 + n, "mixed_pageblocks": 40.0 + n} for n in range(8)]
    found = changes(MEASURES, base, less)
    assert [change.measure.name for change in found] == ["stalls", "spread"]
    # Holm: the smaller of two equal p counts twice, and the other is no smaller.
    single = unpaired([100.0 + n for n in range(8)], [50.0 + n for n in range(8)])[3]
    assert [change.p for change in found] == [2 * single, 2 * single]
