"""Reads a recording (.pbrec) with PyArrow, pandas, Polars and DuckDB, a line each, and compares what they count with
`pageblock recording stats --json`.

    pageblock recording convert recordings/debian-6.12-640m -o a.pbrec
    pageblock recording stats a.pbrec --json > a.json
    python examples/python/recording.py a.pbrec a.json
"""

import base64
import json
import sys

import duckdb
import pandas
import polars
import pyarrow.dataset
import pyarrow.ipc

path, counted = sys.argv[1:]
with open(counted, encoding="utf-8") as file:
    expected = json.load(file)["by_event"]

events = pyarrow.dataset.dataset(path, format="ipc")
by_duckdb = duckdb.sql("select event, count(*) from events group by event").fetchall()
by_pandas = pandas.read_feather(path).event.value_counts()
by_polars = polars.scan_ipc(path).group_by("event").len().collect()

assert {event: n for event, n in by_duckdb} == expected
assert {event: n for event, n in by_pandas.items() if n} == expected
assert {event: n for event, n in by_polars.rows()} == expected

# The other files of the recording are in the schema's metadata, each as base64 of zstd.
metadata = pyarrow.ipc.open_file(path).schema.metadata
packed = base64.b64decode(metadata[b"file:start/buddyinfo"])
with pyarrow.input_stream(pyarrow.BufferReader(packed), compression="zstd") as stream:
    buddyinfo = stream.read().decode()
assert buddyinfo.startswith("Node 0, zone"), buddyinfo

fallbacks = """
    select migratetype requested, fallback_migratetype taken_from, count(*) fallbacks
    from events where event = 'mm_page_alloc_extfrag' group by all order by fallbacks desc
"""
print(duckdb.sql(fallbacks))
