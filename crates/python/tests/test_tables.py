"""Tables of sweeps in other libraries, and what a comparison makes of them."""

import json
import pickle
import time
from pathlib import Path
from typing import Any

import pytest

import pageblock

from .libraries import duckdb, pandas, parquet, polars, pyarrow

GRID: dict[str, Any] = {
    "workloads": ["hugealloc-short"],
    "kernels": ["linux-6.9", "linux-6.10"],
    "switches": {"watermark_boost_factor": [0, 15000], "nofragment": [False]},
    "scales": ["1/64"],
    "seeds": 5,
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns the folder of a sweep."""
    path = tmp_path_factory.mktemp("sweep")
    pageblock.sweep(GRID, path)
    return path


@pytest.fixture(scope="module")
def expected(folder: Path) -> "list[dict[str, Any]]":
    """Returns what the runs themselves say."""
    kernels = [f"{kernel},nofragment=off,watermark_boost_factor={boost}" for kernel in ("linux-6.9", "linux-6.10") for boost in (0, 15000)]
    return pageblock.run("hugealloc-short", kernels, scale="1/64", seeds=5).compare().to_dicts()


def test_a_table_has_the_verdicts_of_its_runs(folder: Path, expected: "list[dict[str, Any]]") -> None:
    frame = polars.read_parquet(folder / "runs.parquet")
    sources: list[Any] = [
        folder, folder / "runs.parquet", pageblock.sweep(GRID, folder), frame, frame.lazy().collect(), pandas.DataFrame(frame.to_pandas()),
        frame.with_columns(polars.col("kernel", "workload").cast(polars.Categorical)), pyarrow.table(frame), duckdb.sql("from frame"),
    ]  # fmt: skip
    for source in sources:
        assert pageblock.compare(source).to_dicts() == expected, type(source)
    assert {row["runs"] for row in expected} == {5}
    first = expected[0]
    assert (first["workload"], first["machine"], first["scale"]) == ("hugealloc-short", "weiner-1g8", "1/64")
    assert (first["measure"], first["unit"], first["direction"], first["is_primary"]) == ("huge-pages-on-fault", "percent", "higher", True)
    assert first["column_name"] in frame.columns


def test_own_primary_measures_are_judged_too(tmp_path: Path) -> None:
    grid = {"workloads": ["apppressure", "netperf-udp"], "kernels": ["linux-6.9", "linux-6.10"], "scales": ["1/64"], "seeds": 4}
    rows = pageblock.compare(pageblock.sweep(grid, tmp_path)).to_dicts()
    for workload in ("apppressure", "netperf-udp"):
        runs = pageblock.run(workload, ["linux-6.9", "linux-6.10"], scale="1/64", seeds=4)
        assert [row for row in rows if row["workload"] == workload] == runs.compare().to_dicts()
        assert runs.table().columns[7:] == [name for name in polars.read_parquet(tmp_path / "runs.parquet").columns if name in runs.table().columns][6:]
    assert {row["column_name"] for row in rows if row["is_primary"]} == {"latency_p95_ms", "allocation_stalls", "work_zone_lock_acquired"}


def test_what_a_query_leaves_is_compared_from_any_baseline(folder: Path) -> None:
    frame = polars.read_parquet(folder / "runs.parquet").filter(polars.col("watermark_boost_factor") == 0)
    rows = pageblock.compare(frame.drop("resolved_kernel", "mixed_pageblocks"), baseline="linux-6.10,nofragment=off,watermark_boost_factor=0").to_dicts()
    assert {row["baseline"] for row in rows} == {"linux-6.10,nofragment=off,watermark_boost_factor=0"}
    assert "mixed-pageblocks" not in {row["measure"] for row in rows}
    with pytest.raises(pageblock.Error, match="baseline 'linux-6.1': there is no such kernel among linux-6.9,nofragment=off"):
        pageblock.compare(frame, baseline="linux-6.1")
    for column in ("workload", "kernel", "machine", "seed", "event_hash"):
        with pytest.raises(pageblock.Error, match=f"the table has no column '{column}'"):
            pageblock.compare(frame.drop(column))
    with pytest.raises(pageblock.Error, match="the table has no runs"):
        pageblock.compare(frame.head(0))
    with pytest.raises(pageblock.Error, match="policy linux-6.9,nofragment=off,watermark_boost_factor=0 with seed 1 is given twice"):
        pageblock.compare(frame, frame)


def test_saved_runs_of_a_table_keep_its_measures(folder: Path, expected: "list[dict[str, Any]]", tmp_path: Path) -> None:
    runs = pageblock.load(folder)
    runs.save(tmp_path / "runs.json")
    assert pageblock.compare(tmp_path / "runs.json").to_dicts() == expected
    assert pickle.loads(pickle.dumps(runs)).to_dicts() == runs.to_dicts()


def test_columns_say_what_they_are(folder: Path) -> None:
    assert pageblock.__version__.count(".") == 2
    schema = parquet.read_schema(folder / "runs.parquet")
    assert all(name.isidentifier() for name in schema.names)
    about = schema.field("huge_fault_percent").metadata
    assert (about[b"label"], about[b"unit"], about[b"better"]) == (b"Huge pages on fault [%]", b"percent", b"higher")
    assert about[b"defined"].startswith(b"thp_fault_alloc / ")
    kinds = {name: str(schema.field(name).type) for name in ("mixed_pageblocks", "watermark_boost_factor", "nofragment", "pgfault")}
    assert kinds == {"mixed_pageblocks": "int64", "watermark_boost_factor": "int64", "nofragment": "string", "pgfault": "int64"}
    assert schema.metadata[b"pageblock.version"].decode() == pageblock.__version__
    assert json.loads(schema.metadata[b"pageblock.grid"])["seeds"] == 5
    assert "linux-6.9,nofragment=off,watermark_boost_factor=0" in json.loads(schema.metadata[b"pageblock.kernels"])
    # DuckDB has the file's entries, and takes the names without quotes.
    file = str(folder / "runs.parquet")
    keys = duckdb.sql(f"select key::varchar from parquet_kv_metadata('{file}')").fetchall()
    assert ("pageblock.grid",) in keys
    found = duckdb.sql(f"select watermark_boost_factor, avg(huge_fault_percent), sum(mixed_pageblocks) from '{file}' group by all").fetchall()
    assert sorted(row[0] for row in found) == [0, 15000]


def test_many_seeds_are_compared_in_a_moment(folder: Path) -> None:
    frame = polars.read_parquet(folder / "runs.parquet").filter(polars.col("watermark_boost_factor") == 0)
    many = polars.concat([frame.with_columns(seed=polars.col("seed") + 5 * at) for at in range(80)])
    start = time.process_time()
    rows = pageblock.compare(many).to_dicts()
    assert {row["runs"] for row in rows} == {400}
    # A build without optimisation takes some seconds; each pair of runs would be stored in minutes.
    assert time.process_time() - start < 30


def test_columns_of_nothing_but_nulls_are_named(tmp_path: Path) -> None:
    swept = pageblock.sweep({"workloads": "hugealloc-short", "kernels": ["linux-6.9", "linux-6.10"], "scales": "1/64", "seeds": 2}, tmp_path)
    frame = polars.DataFrame(swept)
    assert pageblock.compare(frame.with_columns(note=polars.lit(1))).to_dicts()
    with pytest.raises(pageblock.Error, match="the table cannot be read: a column has nothing but nulls and no type; leave it out"):
        pageblock.compare(frame.with_columns(note=None))
    with pytest.raises(pageblock.Error, match="the table cannot be read: it is one column, no table"):
        pageblock.compare(frame["seed"])


def test_tables_and_reports_are_pickled(tmp_path: Path) -> None:
    runs = pageblock.run("hugealloc-short", ["linux-6.9", "linux-6.10"], scale="1/64", seeds=2)
    table, report = runs.table(), runs.compare()
    again = pickle.loads(pickle.dumps(table))
    assert again.to_dicts() == table.to_dicts()
    assert pyarrow.table(again).schema.equals(pyarrow.table(table).schema, check_metadata=True)
    other = pickle.loads(pickle.dumps(report))
    assert (str(other), other.to_json(), other.to_dicts()) == (str(report), report.to_json(), report.to_dicts())
