"""Libraries whose stubs do not know what is used of them here."""

import importlib
from typing import Any

duckdb: Any = importlib.import_module("duckdb")
pandas: Any = importlib.import_module("pandas")
polars: Any = importlib.import_module("polars")
pyarrow: Any = importlib.import_module("pyarrow")
parquet: Any = importlib.import_module("pyarrow.parquet")
