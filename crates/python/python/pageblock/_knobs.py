"""What tuning may change: the sysctls of a kernel version, or the switches of its policy."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, cast

from ._pageblock import Error, Kernel, switches

__all__ = ["Knob", "space", "version", "with_switches"]

# vm.min_free_kbytes is at most this part of memory: a twentieth.
MIN_FREE_PART = 20

# What leaves a knob as the kernel and the workload have it.
DEFAULT = "default"
THP = "/sys/kernel/mm/transparent_hugepage"


@dataclass(frozen=True)
class Knob:
    """A knob: what it is called, the switch that stands for it, and the values that are tried."""

    name: str
    switch: str
    # A list of values, or the ends of a range of whole numbers, both included, with its step.
    values: "tuple[str | int, ...] | range"
    log: bool = False
    # The first version of the kernel that has it, and the first one that has another name for it.
    since: "tuple[int, int]" = (3, 10)
    before: "tuple[int, int]" = (999, 0)
    # Whether the allocator itself reads it: replays obey it.
    allocator: bool = False
    # Whether it is tried without being asked for.
    usual: bool = True

    def suggest(self, trial: Any) -> "str | int":
        """Returns the value that a trial of Optuna proposes."""
        if isinstance(self.values, range):
            low, high = self.values.start, self.values.stop
            step = 1 if self.log else self.values.step
            return int(trial.suggest_int(self.name, low, high, log=self.log, step=step))
        value: "str | int" = trial.suggest_categorical(self.name, list(self.values))
        return value

    def default(self, kernel: Kernel) -> "str | int":
        """Returns the value that leaves the kernel as it is."""
        if isinstance(self.values, range):
            return int(kernel.switch(self.switch))
        return DEFAULT

    def with_values(self, values: "tuple[str | int, ...] | range", log: bool) -> "Knob":
        """Returns the same knob with other values."""
        return replace(self, values=values, log=log)

    def switched(self, value: "str | int") -> str:
        """Returns a value as the switch has it."""
        if self.name == "vm.defrag_mode":
            return "defrag_mode"
        if self.switch == "khugepaged_defrag":
            return "on" if value == 1 else "off"
        return str(value)


def _sizes(*values: "str | int") -> "tuple[str | int, ...]":
    return (DEFAULT, *values)


# Ranges in which administrators set them: watermarks keep memory from everybody, which no objective counts, so that min_free_kbytes is at most a twentieth of
# memory. dirty_*bytes stand for the ratios of small machines and are left out, as is
# zone_reclaim_mode, which only several nodes have a use for.
SYSCTLS = (
    Knob("vm.min_free_kbytes", "min_free_kbytes", _sizes(16896, 33792, 67584, 135168, 270336, 540672), allocator=True),
    Knob("vm.watermark_scale_factor", "watermark_scale_factor", range(10, 300), log=True, since=(4, 6), allocator=True),
    Knob("vm.watermark_boost_factor", "watermark_boost_factor", range(0, 30000, 2500), since=(5, 0), allocator=True),
    Knob("vm.percpu_pagelist_fraction", "percpu_pagelist_high_fraction", _sizes(8, 32, 128), before=(5, 14), allocator=True),
    Knob("vm.percpu_pagelist_high_fraction", "percpu_pagelist_high_fraction", _sizes(8, 32, 128), since=(5, 14), allocator=True),
    Knob("vm.defrag_mode", "nofragment", _sizes(1), since=(6, 15), allocator=True),
    Knob("vm.compaction_proactiveness", "compaction_proactiveness", range(0, 100, 5), since=(5, 9)),
    Knob("vm.extfrag_threshold", "extfrag_threshold", range(0, 1000, 50)),
    Knob("vm.swappiness", "swappiness", range(0, 100, 5), before=(5, 8)),
    Knob("vm.swappiness", "swappiness", range(0, 200, 5), since=(5, 8)),
    Knob("vm.vfs_cache_pressure", "vfs_cache_pressure", range(10, 1000), log=True),
    Knob("vm.dirty_ratio", "dirty_ratio", range(2, 60, 2)),
    Knob("vm.dirty_background_ratio", "dirty_background_ratio", range(1, 40)),
    Knob("vm.dirty_expire_centisecs", "dirty_expire_centisecs", range(100, 12000), log=True),
    Knob("vm.dirty_writeback_centisecs", "dirty_writeback_centisecs", range(50, 3000), log=True),
    Knob(f"{THP}/defrag", "thp_defrag", _sizes("always", "defer", "madvise", "never"), since=(4, 6), before=(4, 11)),
    Knob(f"{THP}/defrag", "thp_defrag", _sizes("always", "defer", "defer+madvise", "madvise", "never"), since=(4, 11)),
    Knob(f"{THP}/khugepaged/defrag", "khugepaged_defrag", _sizes(1, 0)),
    Knob(f"{THP}/khugepaged/pages_to_scan", "khugepaged_pages_to_scan", range(512, 65536), log=True),
    Knob(f"{THP}/khugepaged/scan_sleep_millisecs", "khugepaged_scan_sleep_ms", range(100, 60000), log=True),
    Knob(f"{THP}/khugepaged/max_ptes_none", "khugepaged_max_ptes_none", _sizes(0, 64, 255)),
    # It decides how many huge pages are asked for: the share that is had then means something else.
    Knob(f"{THP}/enabled", "thp_enabled", _sizes("always", "madvise", "never"), usual=False),
)

# What a switch only reports, or what bounds a computation of Linux.
NO_POLICY = {"trace_refill"}


def version(kernel: Kernel) -> "tuple[int, int]":
    """Returns the version of a kernel: (6, 12)."""
    parts = kernel.base.split("-")[1].split(".")
    return int(parts[0]), int(parts[1])


def space(kernel: Kernel, over: str, wanted: "Iterable[str] | None", replayed: bool) -> "list[Knob]":
    """Returns the knobs of a kernel: all that are usual, or those that are wanted."""
    if over == "sysctls":
        here = version(kernel)
        all_ = [knob for knob in SYSCTLS if knob.since <= here < knob.before]
        usual = [knob for knob in all_ if knob.usual]
    elif over == "switches":
        all_ = [_of_switch(row) for row in switches().to_dicts() if str(row["allowed"]).startswith("one of ")]
        usual = [knob for knob in all_ if knob.allocator and knob.name not in NO_POLICY]
    else:
        raise Error(f"over '{over}': allowed: sysctls, switches")
    if replayed:
        all_, usual = ([knob for knob in list_ if knob.allocator] for list_ in (all_, usual))
    if wanted is None:
        return usual
    known = {knob.name: knob for knob in all_}
    known |= {knob.name.removeprefix("vm."): knob for knob in all_}
    chosen: "list[Knob]" = []
    for name in wanted:
        if name not in known:
            whose = f"{kernel.base} has" if not replayed else "a replay of a recording obeys"
            raise Error(f"there is no knob '{name}'; {whose} {', '.join(knob.name for knob in all_)}")
        if known[name] not in chosen:
            chosen.append(known[name])
    return chosen


def with_switches(kernel: Kernel, switched: "Mapping[str, str]") -> str:
    """Returns the text of a kernel in which these switches have these values."""
    return kernel.replace(**cast(Any, switched)).text if switched else kernel.text


def _of_switch(row: "Mapping[str, Any]") -> Knob:
    names = str(row["allowed"]).removeprefix("one of ").split(", ")
    return Knob(str(row["switch"]), str(row["switch"]), _sizes(*names), allocator=row["switch_group"] == "allocator")
