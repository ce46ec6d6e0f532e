"""Simulations and comparisons."""

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from fractions import Fraction
from pathlib import Path

import pytest

import pageblock

from .conftest import ROOT


def program() -> Path:
    """Returns the program, which .ci/run built."""
    named = os.environ.get("PAGEBLOCK_PROGRAM") or shutil.which("pageblock")
    if named is None:
        pytest.skip("PAGEBLOCK_PROGRAM names no program to compare with")
    return Path(named)


def test_the_program_makes_the_same_runs(runs: pageblock.Runs) -> None:
    command = "run hugealloc-short --policy linux-6.9 --policy linux-6.10 --scale 1/64 --seeds 5 --json"
    printed = subprocess.run([program(), *command.split()], check=True, capture_output=True, text=True).stdout
    assert json.loads(printed) == json.loads(runs.to_json())


def test_a_row_a_run(runs: pageblock.Runs) -> None:
    rows = runs.to_dicts()
    assert [row["seed"] for row in rows] == [1, 1, 2, 2, 3, 3, 4, 4, 5, 5]
    assert rows[0]["kernel"] == "linux-6.9"
    assert rows[0]["event_hash"] != rows[1]["event_hash"]
    assert rows[0]["mixed_pageblocks"] >= 0 and isinstance(rows[0]["mixed_pageblocks"], int)
    assert (rows[0]["machine"], rows[0]["scale"], rows[0]["origin"]) == ("weiner-1g8", "1/64", "simulated")
    again = pageblock.run("hugealloc-short", "linux-6.9", scale=Fraction(1, 64), seeds=range(3, 5))
    assert [row["event_hash"] for row in again.to_dicts()] == [rows[4]["event_hash"], rows[6]["event_hash"]]


def test_the_measures_are_the_columns_of_a_table(runs: pageblock.Runs) -> None:
    measures = {row["measure"]: row for row in pageblock.measures().to_dicts()}
    assert all(row["column_name"] in runs.to_dicts()[0] for row in measures.values())
    assert measures["huge-pages-on-fault"]["better"] == "higher"
    assert measures["huge-pages-on-fault"]["column_name"] == "huge_fault_percent"
    assert "thp_fault_fallback" in measures["huge-pages-on-fault"]["defined"]


def test_the_longer_tables_have_what_their_documentation_says(runs: pageblock.Runs) -> None:
    for table in (runs.counters(), runs.samples(), runs.free_blocks(), runs.fallbacks()):
        assert table.columns[:2] == ["kernel", "seed"]
        assert len(table) > 0
    assert {row["page_order"] for row in runs.free_blocks().to_dicts()} == set(range(11))


def test_a_comparison_is_text_data_and_a_table(runs: pageblock.Runs) -> None:
    comparison = runs.compare()
    assert "B linux-6.10" in str(comparison)
    assert comparison.data["summary"]["policies"] == ["linux-6.9", "linux-6.10"]
    rows = comparison.to_dicts()
    assert {row["verdict"] for row in rows} <= {"better", "worse", "unchanged", "undecided", "identical", "open"}
    assert all(row["change"] is None for row in rows if row["kernel"] == "linux-6.9")


def test_saved_runs_are_compared_with_others(runs: pageblock.Runs, tmp_path: Path) -> None:
    file = tmp_path / "runs.json"
    runs.save(file)
    assert pageblock.load(file).to_json() == runs.to_json()
    third = pageblock.run("hugealloc-short", "linux-6.12", scale="1/64", seeds=5)
    assert pageblock.compare(file, third).data["summary"]["policies"][-1] == "linux-6.12"
    with pytest.raises(pageblock.Error, match="policy linux-6.9 with seed 1 is given twice"):
        pageblock.compare(file, runs)
    other = pageblock.run("hugealloc-short", "linux-6.12", scale="1/32")
    with pytest.raises(pageblock.Error, match="the runs differ in scale 1/64 and 1/32"):
        pageblock.compare(runs, other)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"workload": "nothing"}, "there is no workload 'nothing'; there are thpfioscale, "),
        ({"workload": "hugealloc"}, "kernels is missing"),
        ({"workload": "hugealloc", "machine": "big"}, "there is no machine 'big'; there are skylake-1s, "),
        ({"workload": "hugealloc", "scale": "9"}, "scale: "),
        ({"workload": "hugealloc", "kernels": "linux-6.9", "seeds": 0}, "seeds 0: allowed: how many, 1 to 1000, or which: a range, a list, an array"),
        ({"workload": "hugealloc", "kernels": ["linux-6.9"] * 2}, "kernels 'linux-6.9' is given twice"),
        ({"workload": "hugealloc", "kernels": "linux-6.9", "seeds": [1, 1]}, "seeds: 1 is given twice"),
    ],
)
def test_errors_have_the_words_of_the_program(arguments: "dict[str, object]", words: str) -> None:
    with pytest.raises(pageblock.Error) as raised:
        pageblock.run(**arguments)  # type: ignore[arg-type]  # pyright: ignore
    assert str(raised.value).startswith(words)


def test_the_lock_of_the_interpreter_is_free_during_work() -> None:
    counted = 0
    done = threading.Event()

    def count() -> None:
        nonlocal counted
        while not done.is_set():
            counted += 1
            time.sleep(0.001)

    thread = threading.Thread(target=count)
    thread.start()
    pageblock.run("hugealloc-short", "linux-6.9", scale="1/16")
    done.set()
    thread.join()
    assert counted > 20


def test_ctrl_c_ends_long_work_within_a_second() -> None:
    code = """
import pageblock, sys, time
print("ready", flush=True)
try:
    pageblock.run("hugealloc", "linux-6.9", seeds=100)
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""
    child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    assert child.stdout.readline() == "ready\n"
    time.sleep(2)
    child.send_signal(signal.SIGINT)
    pressed = time.monotonic()
    assert child.stdout.readline() == "interrupted\n"
    waited = time.monotonic() - pressed
    assert child.wait(timeout=30) == 0
    assert waited < 1, waited


def test_a_page_of_pictures_is_written(tmp_path: Path) -> None:
    file = tmp_path / "runs.json"
    pageblock.run("hugealloc-short", "linux-6.9", scale="1/64", pictures=True, save=file)
    page = pageblock.report(file, tmp_path / "page.html")
    assert "hugealloc-short" in Path(page).read_text(encoding="utf-8")


def test_a_guest_without_a_kernel_is_refused(tmp_path: Path) -> None:
    with pytest.raises(pageblock.Error, match="no guest runs 'nothing'; allowed: "):
        pageblock.guest_run("nothing", tmp_path, program=sys.executable)
    assert not (ROOT / "guest-runs").exists()
