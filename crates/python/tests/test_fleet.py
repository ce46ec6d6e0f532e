"""Many machines, on threads and on other executors."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import pageblock

from .libraries import polars


def hosts(folder: Path) -> Path:
    for number in range(3):
        proc = folder / f"h{number}" / "proc"
        proc.mkdir(parents=True)
        (proc / "buddyinfo").write_text(f"Node 0, zone   Normal {100 * number} 0 0 0 0 0 0 0 0 4 0\n")
        (proc / "version").write_text("Linux version 6.1.0-9-amd64 (x)\n")
    (folder / "empty.log").write_text("")
    return folder


def test_a_row_a_host_in_the_order_of_paths(tmp_path: Path) -> None:
    report = pageblock.fleet(hosts(tmp_path))
    table = polars.DataFrame(report.table)
    assert table["host"].to_list() == ["empty", "h0", "h1", "h2"]
    assert table["kernel_version"].to_list() == [None, "6.1", "6.1", "6.1"]
    assert table["error"][0].endswith("an empty file")
    assert str(report).startswith("4 hosts: 3 examined, 1 cannot be read\n")


def test_every_executor_gives_the_same_rows(tmp_path: Path) -> None:
    folder = hosts(tmp_path)
    expected = pageblock.fleet(folder, jobs=1).to_json()
    with ThreadPoolExecutor(2) as executor:
        assert pageblock.fleet([folder], executor=executor).to_json() == expected


def test_no_host_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(pageblock.Error, match="no host in"):
        pageblock.fleet(tmp_path)
