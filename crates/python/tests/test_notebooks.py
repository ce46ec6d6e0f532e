"""What a notebook shows: tables, pictures, and frames of pandas."""

import pickle
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

import pageblock

from .libraries import pandas, polars


@pytest.fixture(scope="module")
def pictured() -> pageblock.Runs:
    """Simulates two kernels with their histories."""
    return pageblock.run("hugealloc-short", ["linux-6.9", "linux-6.10"], scale="1/64", pictures=True)


def test_runs_are_iterated_and_survive_a_pickle(pictured: pageblock.Runs) -> None:
    each = list(pictured)
    assert [one.to_dicts() for one in each] == [[row] for row in pictured.to_dicts()]
    assert pictured[-1].to_dicts() == each[1].to_dicts()
    with pytest.raises(IndexError):
        _ = pictured[2]
    again: pageblock.Runs = pickle.loads(pickle.dumps(pictured))
    assert again.to_json() == pictured.to_json() and again.history().to_dicts() == pictured.history().to_dicts()


def test_results_show_themselves_whole(pictured: pageblock.Runs, runs: pageblock.Runs, recording: pageblock.Recording) -> None:
    long = pageblock.run("hugealloc-short", "linux-6.9,placement=linux,nofragment=off,watermark_boost_factor=0,swappiness=60", scale="1/64")
    assert "linux-6.9,placement=linux,nofragment=off,watermark_boost_factor=0,swappiness=60" in long._repr_html_()
    shown = runs.compare()._repr_html_()
    assert "Huge pages on fault [%]" in shown and "baseline" in shown and "linux-6.10" in shown
    assert "Grade B" in recording.verify()._repr_html_()
    assert "<td" in runs.counters()._repr_html_() and "more rows" in runs.counters()._repr_html_()
    odd = pageblock.explain(b"<b>nothing</b>\n")._repr_html_()
    assert "<b>nothing" not in odd
    for html in (shown, pictured._repr_html_()):
        ElementTree.fromstring(f"<div>{html}</div>")


def test_pictures_are_drawn_without_a_file(pictured: pageblock.Runs, runs: pageblock.Runs, tmp_path: Path) -> None:
    kinds: Any = ("map", "series", "orders", "matrix", "frontier")
    for kind in kinds:
        picture = pictured.plot(kind)
        assert ElementTree.fromstring(picture.svg).tag.endswith("svg"), kind
    assert pictured.plot("map", at=0.5).svg != pictured.plot("map").svg
    assert pictured.plot("map").png().startswith(b"\x89PNG")
    pictured.plot("map").save(tmp_path / "map.svg")
    assert (tmp_path / "map.svg").read_text() == pictured.plot("map").svg
    with pytest.raises(pageblock.Error, match="no run has its history"):
        runs.plot("map")
    wrong: "list[dict[str, Any]]" = [{"kind": "pie"}, {"kind": 5}, {"at": 2}, {"at": "x"}, {"seed": 99}, {"seed": -1}]
    for given in wrong:
        with pytest.raises(pageblock.Error):
            pictured.plot(**given)
    with pytest.raises(pageblock.Error, match="a name that ends with .svg or .png"):
        pictured.plot("map").save(tmp_path / "map.gif")


def test_a_bisection_has_a_waterfall(runs: pageblock.Runs) -> None:
    found = pageblock.bisect("hugealloc-short", "linux-6.9", "linux-6.10", scale="1/64", seeds=4, measures="mismatched-pages")
    rows = found.to_dicts()
    texts = [of.text for of in ElementTree.fromstring(found.waterfall().svg).iter() if of.tag.endswith("text")]
    assert {row["switch"] for row in rows} <= set(texts)
    whole = rows[0]["base"] + sum(row["added"] for row in rows)
    assert f"{whole:,.4g}" in texts
    with pytest.raises(pageblock.Error, match="measure 'speed': allowed: "):
        found.waterfall("speed")
    with pytest.raises(pageblock.Error, match="only the answer of a bisection has a waterfall"):
        runs.compare().waterfall()


def test_histories_are_tidy(pictured: pageblock.Runs, runs: pageblock.Runs) -> None:
    history, series = polars.DataFrame(pictured.history()), polars.DataFrame(pictured.series())
    assert history.columns == ["kernel", "seed", "time_us", "zone", "page_order", "blocks"]
    last = history.filter(kernel="linux-6.9").filter(polars.col("time_us") == polars.col("time_us").max())
    free = {(row["zone"].split("-")[-1], row["page_order"]): row["blocks"] for row in pictured.free_blocks().to_dicts() if row["kernel"] == "linux-6.9"}
    assert {(row["zone"].split("-")[-1], row["page_order"]): row["blocks"] for row in last.to_dicts() if row["kernel"] == "linux-6.9"} == free
    assert "free memory [MiB]" in series["series"].to_list()
    assert len(runs.history()) == len(runs.series()) == 0


def test_frames_of_pandas_2_and_3(runs: pageblock.Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = runs.to_pandas()
    assert list(expected.columns) == runs.table().columns and len(expected) == 10
    assert len(runs.compare().to_pandas()) == len(runs.compare().to_dicts())
    # pandas 2 has no from_arrow; without PyArrow rows are copied.
    monkeypatch.delattr(pandas.DataFrame, "from_arrow", raising=False)
    assert runs.to_pandas()["event_hash"].tolist() == expected["event_hash"].tolist()
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    assert runs.to_pandas()["event_hash"].tolist() == expected["event_hash"].tolist()
