"""What the tests share."""

from pathlib import Path

import pytest

import pageblock

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="session")
def recording() -> pageblock.Recording:
    """Opens the recording that is part of the project."""
    return pageblock.Recording(ROOT / "recordings/debian-6.12-640m")


@pytest.fixture(scope="session")
def runs() -> pageblock.Runs:
    """Simulates two kernels with five seeds."""
    return pageblock.run("hugealloc-short", ["linux-6.9", "linux-6.10"], scale="1/64", seeds=5)
