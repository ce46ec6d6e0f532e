"""Tables that other libraries take without copies."""

import subprocess
import sys
from typing import Any

import pytest

import pageblock

from .libraries import duckdb, pandas, polars, pyarrow


def test_every_library_counts_the_same_events(recording: pageblock.Recording) -> None:
    events = recording.events(["event", "page_order"])
    expected = {row["event"]: row["count"] for row in recording.stats().to_dicts()}
    by_pyarrow = pyarrow.table(events)["event"].cast(pyarrow.string()).value_counts().to_pylist()
    assert {row["values"]: row["counts"] for row in by_pyarrow} == expected
    by_polars = polars.DataFrame(events).group_by("event").len().rows()
    assert dict(by_polars) == expected
    by_pandas = pandas.DataFrame.from_arrow(events)["event"].value_counts()
    assert {event: n for event, n in by_pandas.items() if n} == expected
    by_duckdb = duckdb.sql("select event::varchar, count(*) from events group by all").fetchall()
    assert dict(by_duckdb) == expected
    assert sum(expected.values()) == len(recording) == len(events)


def test_buffers_are_not_copied(runs: pageblock.Runs) -> None:
    table = runs.table()
    first, second = pyarrow.table(table), pyarrow.table(table)

    def address(of: Any) -> int:
        return int(of["seed"].chunk(0).buffers()[1].address)

    assert address(first) == address(second)
    frame = polars.DataFrame(first)
    assert address(frame.to_arrow()) == address(first)


def test_a_stream_outlives_its_object(runs: pageblock.Runs) -> None:
    capsule = runs.counters().__arrow_c_stream__()
    reader = pyarrow.RecordBatchReader._import_from_c_capsule(capsule)
    assert reader.read_all().num_rows == len(runs.counters())
    # A capsule that nobody takes is released.
    del reader
    runs.samples().__arrow_c_stream__()


def test_columns_are_chosen_by_name(recording: pageblock.Recording) -> None:
    assert pyarrow.table(recording.events(["page_order", "pfn"])).column_names == ["pfn", "page_order"]
    with pytest.raises(pageblock.Error, match="events have no column 'frame'; there are t_us, cpu, pid"):
        recording.events(["frame"])


def test_what_does_not_apply_is_null(recording: pageblock.Recording) -> None:
    events = polars.DataFrame(recording.events())
    frees = events.filter(polars.col("event") == "mm_page_free")
    columns = ("pfn", "page_order", "migratetype", "gfp", "fallback_order", "fallback_migratetype", "change_ownership", "percpu_refill", "args")
    assert [name for name in columns if frees[name].null_count() == len(frees)] == list(columns[2:])
    allocs = events.filter(polars.col("event") == "mm_page_alloc")
    assert (allocs["migratetype"].null_count(), allocs["gfp"].null_count()) == (0, 0)
    for name in columns:
        values = events[name].drop_nulls()
        assert len(values) and values.cast(polars.String).is_in(["-1", "none", ""]).sum() == 0, name


def test_no_library_is_needed() -> None:
    code = """
import sys
for name in ("pyarrow", "pandas", "polars", "duckdb", "numpy"):
    sys.modules[name] = None
import pageblock
runs = pageblock.run("hugealloc-short", "linux-6.9", scale="1/64")
assert len(runs.to_dicts()) == 1
assert runs.counters().to_dicts()[0]["kernel"] == "linux-6.9"
"""
    subprocess.run([sys.executable, "-c", code], check=True)
