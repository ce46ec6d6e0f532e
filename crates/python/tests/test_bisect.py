"""Bisections: the program's answer, on any executor."""

import json
import subprocess
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import pytest

import pageblock

from .test_runs import program

WORKLOAD = "hugealloc-short"


def test_processes_give_the_programs_answer(tmp_path: Path) -> None:
    command = [str(program()), "bisect", WORKLOAD, "linux-6.9", "linux-6.10", "--scale", "1/64", "--seeds", "4", "--json"]
    printed = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    with ProcessPoolExecutor(2) as executor:
        found = pageblock.bisect(WORKLOAD, "linux-6.9", "linux-6.10", scale="1/64", seeds=4, out=tmp_path, executor=executor)
    assert found.data["measures"] == printed["measures"]
    assert found.data["runs"] == printed["runs"]
    rows = found.to_dicts()
    assert {row["switch"] for row in rows} == {step["change"] for step in printed["measures"][0]["steps"]}
    for measure in printed["measures"]:
        added = sum(row["added"] for row in rows if row["label"] == measure["measure"])
        assert added == pytest.approx(measure["whole"]["difference"])
    # Names join with those of other tables.
    assert {row["measure"] for row in rows} <= {row["measure"] for row in pageblock.measures().to_dicts()}
    # What is kept is not run again.
    again = pageblock.bisect(WORKLOAD, "linux-6.9", pageblock.Kernel("linux-6.10"), scale="1/64", seeds=4, out=tmp_path)
    assert str(again) == str(found)


def test_wrong_arguments_are_a_line() -> None:
    with pytest.raises(pageblock.Error, match="at least 2 are needed"):
        pageblock.bisect(WORKLOAD, "linux-6.9", "linux-6.10", seeds=1)
    with pytest.raises(pageblock.Error, match="do not differ in any switch that matters here"):
        pageblock.bisect(WORKLOAD, "linux-6.9", "linux-6.9", scale="1/64")
    with pytest.raises(pageblock.Error, match="measures 'speed' is not one of "):
        pageblock.bisect(WORKLOAD, "linux-6.9", "linux-6.10", measures="speed", scale="1/64")
