"""What tuning looks for, and how two kernels compare in it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ._pageblock import Error, holm, objectives, unpaired

__all__ = ["FEW", "MEASURES", "Change", "Measure", "changes", "measures"]

Row = Mapping[str, Any]
# The level of the intervals and of the tests.
LEVEL = 0.05


@dataclass(frozen=True)
class Measure:
    """Something that is measured in a run: the sum of these columns of a table of runs."""

    name: str
    text: str
    columns: "tuple[str, ...]"
    more_is_better: bool = False
    # What was counted to measure it, in words, and the columns of these counts; of what is no count nothing.
    events: str = ""
    counts: "tuple[str, ...]" = ()

    def counted(self, rows: "Sequence[Row]") -> "int | None":
        """Returns how many events the values of these runs rest on; None where they were not counted."""
        if not self.counts or any(row.get(column) is None for row in rows for column in self.counts):
            return None
        return sum(int(row[column]) for row in rows for column in self.counts)

    def of(self, row: Row) -> "float | None":
        """Returns the value of a run; None where it was not measured."""
        found = [float(row[column]) for column in self.columns if row.get(column) is not None]
        return sum(found) if found else None


MEASURES = tuple(Measure(name, text, tuple(columns), more, events, tuple(counts)) for name, text, columns, more, events, counts in objectives())
# Fewer events than these tell nothing: a difference of a few is chance, as in certificates of recordings.
FEW = 20


@dataclass(frozen=True)
class Change:
    """A measure under the kernel as it is and under other settings, over the same seeds."""

    measure: Measure
    default: float
    tuned: float
    # The median of the ratios of all pairs with its 95 % interval; the p of the rank-sum test after Holm's correction.
    ratio: float
    low: float
    high: float
    p: float
    # The events that both rest on; None where they are not counted.
    events: "tuple[int, int] | None" = None

    @property
    def told(self) -> bool:
        """Whether there were enough events on a side to tell anything."""
        return self.events is None or max(self.events) >= FEW

    @property
    def worse(self) -> bool:
        """Whether the whole interval is on the worse side."""
        return self.high < 1 if self.measure.more_is_better else self.low > 1

    @property
    def better(self) -> bool:
        """Whether it is better by more than chance."""
        return self.p < LEVEL and (self.ratio > 1) == self.measure.more_is_better and self.ratio != 1

    def words(self) -> "tuple[str, str, str, str, str]":
        """Returns the cells of a table: default, tuned, change, interval, p."""
        if self.low == self.high == 1.0:
            return f"{self.default:.2f}", f"{self.tuned:.2f}", "+0 %", "", ""
        if self.ratio == float("inf"):
            return f"{self.default:.2f}", f"{self.tuned:.2f}", "from 0", "", f"{self.p:.3f}"
        interval = f"{_percent(self.low)} to {_percent(self.high)}" if self.high < float("inf") else ""
        return f"{self.default:.2f}", f"{self.tuned:.2f}", _percent(self.ratio), interval, f"{self.p:.3f}"


def measures(names: "Sequence[str]") -> "list[Measure]":
    """Returns the measures with these names.

    Raises `Error` if there is none, or one is given twice.
    """
    known = {measure.name: measure for measure in MEASURES}
    if not names:
        raise Error(f"an objective is missing: {', '.join(known)}")
    for at, name in enumerate(names):
        if name not in known:
            raise Error(f"there is no objective '{name}'; there are {', '.join(known)}")
        if name in names[:at]:
            raise Error(f"objective '{name}' is given twice")
    return [known[name] for name in names]


def changes(of: "Sequence[Measure]", default: "Sequence[Row]", tuned: "Sequence[Row]") -> "list[Change]":
    """Compares the runs of the same seeds in each measure that all of them have."""
    found: "list[Change]" = []
    for measure in of:
        pairs = [(a, b) for a, b in zip(map(measure.of, default), map(measure.of, tuned)) if a is not None and b is not None]
        if not pairs or len(pairs) < len(default):
            continue
        before, after = [a for a, _ in pairs], [b for _, b in pairs]
        ratio, low, high, p = unpaired(before, after)
        counted = (measure.counted(default), measure.counted(tuned))
        events = None if counted[0] is None or counted[1] is None else (counted[0], counted[1])
        found.append(Change(measure, sum(before) / len(before), sum(after) / len(after), ratio, low, high, p, events))
    corrected = holm([one.p for one in found])
    return [replace(one, p=p) for one, p in zip(found, corrected)]


def _percent(ratio: float) -> str:
    if ratio == float("inf"):
        return "from 0"
    return f"{100 * (ratio - 1):+.0f} %"
