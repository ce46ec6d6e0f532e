"""Recordings, logs and machines."""

import json
import subprocess
from pathlib import Path

import pytest

import pageblock

from .conftest import ROOT
from .test_runs import program


def test_the_shipped_recording_is_verified(recording: pageblock.Recording) -> None:
    verified = recording.verify()
    assert verified.data["certificate"]["grade"] == "B"
    row = verified.to_dicts()[0]
    assert row["exact"] <= row["shape"] <= row["cases"]
    assert "grade B" in str(verified)


def test_seeds_are_draws_of_the_same_demand(recording: pageblock.Recording) -> None:
    """Each seed is a run of each kernel, of as many requests."""
    rows = recording.replay("linux-6.10", seeds=3).to_dicts()
    assert [row["seed"] for row in rows] == [0, 0, 1, 1, 2, 2]
    with pytest.raises(pageblock.Error, match="seeds 0: allowed: how many, 1 to 1000"):
        recording.replay("linux-6.10", seeds=0)


def test_a_replay_has_the_recorded_kernel_first(recording: pageblock.Recording) -> None:
    runs = recording.replay("linux-6.10")
    assert [row["kernel"] for row in runs.to_dicts()] == ["debian-6.12", "linux-6.10"]
    comparison = runs.compare()
    mixed = next(
        row for row in comparison.to_dicts()
        if row["measure"] == "mixed-pageblocks" and row["kernel"] == "linux-6.10"
    )
    # One draw of a replay decides nothing.
    assert mixed["verdict"] == "open" and mixed["change"] < -0.5
    assert (mixed["supported"], mixed["grade"]) == ("yes", "B") and 0 < mixed["margin"] < 0.5
    with_baseline = recording.replay(["linux-6.9"], baseline="linux-6.10")
    assert [row["kernel"] for row in with_baseline.to_dicts()][0] == "linux-6.10"


def test_what_is_no_recording_is_refused(tmp_path: Path) -> None:
    with pytest.raises(pageblock.Error, match="nowhere does not exist; a recording is a .pbrec, a folder"):
        pageblock.Recording("nowhere")
    with pytest.raises(pageblock.Error):
        pageblock.Recording(tmp_path)
    with pytest.raises(pageblock.Error, match="kernel 'six' is no version such as 6.1"):
        pageblock.Recording(ROOT / "recordings/debian-6.12-640m", kernel="six")


def test_a_log_is_explained_from_a_file_and_from_text() -> None:
    file = ROOT / "crates/doctor/tests/reports/5.4-arm64-oom-cma.txt"
    explained = pageblock.explain(file)
    assert explained.to_dicts()[0]["kind"] == "oom"
    assert "Only CMA is free" in explained.text
    assert pageblock.explain(file.read_text(encoding="utf-8")).to_json() == explained.to_json()
    # A row a report, and the program's JSON, an answer a group of equal reports.
    twice = pageblock.explain(2 * file.read_bytes())
    assert (len(twice.to_dicts()), len(twice.data)) == (2, 1)
    printed = subprocess.run([str(program()), "explain", "--json", str(file)], check=True, capture_output=True, text=True).stdout
    (mine,), (its,) = explained.data, json.loads(printed)
    assert {**mine, "file": None} == {**its, "file": None}
    assert pageblock.explain(b"nothing\n").to_dicts() == []
    with pytest.raises(pageblock.Error, match="nowhere.txt: cannot read: No such file or directory"):
        pageblock.explain("nowhere.txt")


def test_this_machine_is_examined() -> None:
    found = pageblock.doctor(interval=0)
    assert found.data["page_kb"] in (4, 16, 64)
    assert found.table.columns == ["name", "severity", "confidence", "symptom", "cause", "command"]
    with pytest.raises(pageblock.Error, match="nowhere: no such folder"):
        pageblock.doctor("nowhere")
    with pytest.raises(pageblock.Error, match="a time from 0.5s to 24h"):
        pageblock.doctor(interval=0.1)


def test_a_forecast_is_made_or_says_why_not(tmp_path: Path) -> None:
    with pytest.raises(pageblock.Error):
        pageblock.forecast(tmp_path)
