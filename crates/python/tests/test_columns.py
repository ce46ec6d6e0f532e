"""Columns of every public table: names that SQL takes, and what their fields say."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import pageblock

from .conftest import ROOT
from .libraries import duckdb, polars, pyarrow

# What PostgreSQL 18 takes as a name of a column in quotes only (Appendix C, reserved in any way).
RESERVED = frozenset(
    """all analyse analyze and any array as asc asymmetric authorization binary both case cast check collate collation column concurrently constraint create
    cross current_catalog current_date current_role current_schema current_time current_timestamp current_user default deferrable desc distinct do else end
    except false fetch for foreign freeze from full grant group having ilike in initially inner intersect into is isnull join lateral leading left like limit
    localtime localtimestamp natural not notnull null offset on only or order outer overlaps placing primary references returning right select session_user
    similar some symmetric system_user table tablesample then to trailing true union unique user using variadic verbose when where window with""".split()
)
KERNELS = ["linux-6.9", "linux-6.10"]
SHORT: dict[str, Any] = {"scale": "1/64", "seeds": 2}
MACHINE = ROOT / "crates/doctor/tests/machines/6.18-24g"


@pytest.fixture(scope="module")
def tables(recording: pageblock.Recording, tmp_path_factory: pytest.TempPathFactory) -> "dict[str, Any]":
    """Returns every public table."""
    folder: Path = tmp_path_factory.mktemp("sweep")
    grid = {"workloads": ["hugealloc-short", "netperf-udp"], "kernels": KERNELS, "switches": {"nofragment": [False]}, "scales": "1/64", "seeds": 2}
    runs = pageblock.run("hugealloc-short", KERNELS, pictures=True, **SHORT)
    make: "dict[str, Callable[[], Any]]" = {
        "bisect": lambda: pageblock.bisect("hugealloc-short", "linux-6.9", "linux-6.9,nofragment=off", **SHORT),
        "compare": runs.compare,
        "counters": runs.counters,
        "diff": lambda: pageblock.Kernel("linux-6.9").diff("linux-6.10"),
        "doctor": lambda: pageblock.doctor(MACHINE),
        "events": recording.events,
        "explain": lambda: pageblock.explain(ROOT / "crates/doctor/tests/pasted/with-stars.log"),
        "fallbacks": runs.fallbacks,
        "fleet": lambda: pageblock.fleet(MACHINE),
        "forecast": lambda: pageblock.forecast(free_machine(folder)),
        "free_blocks": runs.free_blocks,
        "history": runs.history,
        "measures": pageblock.measures,
        "replay": lambda: recording.replay("linux-6.10"),
        "run": runs.table,
        "samples": runs.samples,
        "series": runs.series,
        "stats": recording.stats,
        "sweep": lambda: pageblock.sweep(grid, folder),
        "switches": pageblock.switches,
        "verify": recording.verify,
        "workloads": pageblock.workloads,
    }
    return {name: of() for name, of in make.items()}


def free_machine(folder: Path) -> Path:
    """Writes what a forecast reads of a machine whose eight pageblocks are free."""
    (folder / "kpageflags").write_bytes((1 << 10).to_bytes(8, "little") * 4096)
    (folder / "zoneinfo").write_text(
        "Node 0, zone   Normal\n  pages free     4096\n        min      8\n        low      10\n        high     12\n        spanned  4096\n"
        "        present  4096\n        managed  4096\n        protection: (0, 0)\n  pagesets\n    cpu: 0\n              count:    0\n  start_pfn:           0\n"
    )
    return folder


def test_every_column_is_queried_without_quotes(tables: "dict[str, Any]") -> None:
    keywords = {row[0] for row in duckdb.sql("select keyword_name from duckdb_keywords() where keyword_category = 'reserved'").fetchall()} | RESERVED
    assert "order" in keywords
    for name, table in tables.items():
        frame = pyarrow.table(table)
        columns = list(frame.column_names)
        assert not keywords.intersection(columns), name
        assert all(column.isidentifier() and column == column.lower() for column in columns), name
        listed = ", ".join(columns)
        assert duckdb.sql(f"select {listed} from frame").columns == columns, name
        for column in columns:
            duckdb.sql(f"select frame.{column}, count(*) from frame where {column} is not null group by {column} order by {column}").fetchall()
        # Polars knows no more than this of dictionaries.
        of = polars.from_arrow(frame)
        assert polars.SQLContext(of=of).execute(f"select {listed} from of", eager=True).columns == columns, name


def test_every_field_says_what_it_is(tables: "dict[str, Any]") -> None:
    for name, table in tables.items():
        for field in pyarrow.table(table).schema:
            about: "dict[bytes, bytes]" = field.metadata or {}
            assert about.get(b"label") and about.get(b"defined"), (name, field.name)
            assert pyarrow.types.is_boolean(field.type) or not pyarrow.types.is_floating(field.type) or about.get(b"unit") or field.name in UNITLESS, (name, field.name)


# Numbers without a unit.
UNITLESS = ("p", "level", "index_pageblock")


def test_differences_of_counts_do_not_wrap(tables: "dict[str, Any]") -> None:
    for name, table in tables.items():
        frame = pyarrow.table(table)
        assert "uint64" not in {str(field.type) for field in frame.schema}, name
    fallen = tables["run"]
    rows = duckdb.sql("select min(a.mixed_pageblocks - b.mixed_pageblocks) from fallen a, fallen b where a.kernel <> b.kernel").fetchall()
    assert rows[0][0] < 0
    assert polars.DataFrame(fallen).sort("seed", descending=True)["seed"].diff().min() < 0


def test_a_seed_that_needs_all_bits_is_kept(tmp_path: Path) -> None:
    largest = 2**64 - 1
    table = pageblock.sweep({"workloads": "hugealloc-short", "kernels": "linux-6.9", "scales": "1/64", "seeds": [largest]}, tmp_path)
    assert [row["seed"] for row in table.to_dicts()] == [largest]
    assert str(pyarrow.table(table).schema.field("seed").type) == "uint64"
