"""What tuning found: the front, the importance of knobs, and the answer as a file for sysctl.d."""

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import Any

from ._knobs import THP
from ._objectives import FEW, Change, Measure
from ._pageblock import Error, Kernel, Report, guest_run, write_text
from ._show import COLORS, details, rows_html, text_html

__all__ = ["CONF", "Trial", "Tuned", "disagreements"]

CONF = "90-pageblock.conf"
# So many knobs of each objective are printed.
SHOWN = 5


@dataclass(frozen=True)
class Trial:
    """Settings that were tried: what differs from the default, the mean of each objective, and how many runs have none."""

    number: int
    settings: "dict[str, str | int]"
    values: "dict[str, float]"
    lost: int


@dataclass
class Tuned:
    """What a search found. `print` it; `save` has written it to the folder of the search.

    `settings` is the answer: knobs and values that differ from the default (empty if nothing is better); `tuned` the kernel with them;
    `front` the trials on the Pareto front and `number` the one that the answer comes from; `importance` the shares of the knobs for each
    objective; `without` what becomes of the objectives when a setting is taken back; `changes` what the held-out seeds say; `refused` settings
    that too few events tell anything of; `disagreements` where importance and `without` differ, and why; `study` Optuna's study.
    """

    subject: str
    kernel: Kernel
    tuned: str
    settings: "dict[str, str | int]"
    objectives: "list[Measure]"
    front: "list[Trial]"
    number: int
    importance: "dict[str, dict[str, float]]"
    without: "dict[str, list[Change]]"
    changes: "list[Change]"
    ended: int
    request: "dict[str, Any]" = field(default_factory=lambda: {})
    folder: Path = Path()
    refused: "dict[str, str | int]" = field(default_factory=lambda: {})
    disagreements: "list[str]" = field(default_factory=lambda: [])
    study: Any = field(default=None, repr=False, compare=False)

    def __str__(self) -> str:
        return "\n".join([*self._head(), "", *self._judgement(), "", *self._settings(), "", *self._front(), "", *self._importance()])

    def _repr_html_(self) -> str:
        head = f"<p><b>{escape(self._head()[0])}</b></p>"
        judged = rows_html(self.to_dicts(), shade=lambda row: COLORS["better"] if row["p"] < 0.05 and row["measure"] in self._better() else "")
        return head + judged + details("as the program prints it", text_html(str(self)))

    def _better(self) -> "set[str]":
        return {one.measure.text for one in self.changes if one.better}

    def sysctl_d(self) -> str:
        """Returns the answer as a file for /etc/sysctl.d; what is not a sysctl stands in comments, as lines for /etc/tmpfiles.d."""
        lines = [f"# {line}" if line else "#" for line in (*self._head(), "", *self._judgement())]
        if any(name == "vm.min_free_kbytes" for name in self.settings):
            lines.append("# vm.min_free_kbytes is that of the whole machine that was simulated: a larger or smaller one needs another value.")
        lines += [f"{name} = {value}" for name, value in self.settings.items() if name.startswith("vm.")]
        files = {name: value for name, value in self.settings.items() if name.startswith("/")}
        if files:
            lines.append("# Not sysctls; for a file in /etc/tmpfiles.d:")
            lines += [f"# w {name} - - - - {value}" for name, value in files.items()]
        switched = {name: value for name, value in self.settings.items() if not name.startswith(("vm.", "/"))}
        if switched:
            lines.append("# Switches of the policy, which no sysctl sets:")
            lines += [f"# {name}={value}" for name, value in switched.items()]
        return "\n".join(lines) + "\n"

    def to_dicts(self) -> "list[dict[str, Any]]":
        """Returns what the held-out seeds say, a row a measure."""
        return [
            {"measure": one.measure.text, "mean_default": one.default, "mean_tuned": one.tuned, "change": one.ratio - 1}
            | {"low": one.low - 1, "high": one.high - 1, "p": one.p}
            | dict(zip(("events_default", "events_tuned"), one.events or (None, None)))
            for one in self.changes
        ]

    def save(self, folder: Path) -> None:
        """Writes the answer and the report."""
        self.folder = folder
        write_text(folder / CONF, self.sysctl_d())
        write_text(folder / "report.txt", f"{self}\n")
        answer = {
            "subject": self.subject, "kernel": self.kernel.name, "tuned": self.tuned, "settings": self.settings, "changes": self.to_dicts(),
            "front": [vars(one) for one in self.front], "chosen": self.number, "importance": self.importance,
            "refused": self.refused, "disagreements": self.disagreements,
        }  # fmt: skip
        write_text(folder / "answer.json", json.dumps(answer, indent=1) + "\n")

    def check(
        self,
        kernel: "str | os.PathLike[str]",
        *,
        repeat: int = 3,
        out: "str | os.PathLike[str] | None" = None,
        qemu: "str | os.PathLike[str] | None" = None,
        program: "str | os.PathLike[str] | None" = None,
        jobs: "int | None" = None,
        timeout: int = 3600,
    ) -> Report:
        """Runs the answer on a real kernel in QEMU beside the default, `repeat` times each, and compares; `check.txt` has it too.

        `kernel` is a package, a folder or an image as for `guest_run`; the machine and the scale are those of the search.
        """
        if not self.settings:
            raise Error("there is nothing to check: the answer is the default")
        other = [name for name in self.settings if not name.startswith(("vm.", "/"))]
        if other:
            raise Error(f"no sysctl of a real kernel sets {', '.join(other)}")
        setting = ",".join(f"{name}={value}" for name, value in self.settings.items())
        runs = guest_run(
            self.request["workload"], [kernel], sysctls=["default", setting], repeat=repeat, machine=self.request.get("machine"),
            scale=self.request["scale"], out=out or self.folder / "check", qemu=qemu, program=program, jobs=jobs, timeout=timeout,
        )  # fmt: skip
        report = runs.compare()
        write_text(self.folder / "check.txt", report.text)
        return report

    def _head(self) -> "list[str]":
        names = " and ".join(one.name for one in self.objectives)
        of = self.request
        lines = [f"{self.subject} under {self.kernel.name}: {of.get('over')}, {of.get('trials')} trials, for {names}"]
        if self.changes and self.changes[0].p <= 1 and of.get("seeds"):
            lines.append(
                f"Simulated; the trials with {of['seeds']} seeds, the figures below with {of['held_out']} others that took no part in the search."
            )
        return lines

    def _judgement(self) -> "list[str]":
        if self.refused:
            of = self.changes[0]
            most = max(of.events or (0,))
            names = ", ".join(f"{name} = {value}" for name, value in self.refused.items())
            return [
                f"{of.measure.text}: at most {most} {of.measure.events} in {self.request['held_out']} runs, fewer than {FEW}: whether {names} helps "
                "cannot be told. A larger scale or more held-out seeds would tell."
            ]
        if not self.settings:
            return ["No setting is better than the default."]
        rows = [("", "default", "tuned", "change", "95 % interval", "p")]
        rows += [(one.measure.text, *one.words()) for one in self.changes]
        lines = table(rows)
        first = self.changes[0] if self.changes else None
        if first is not None and not first.better:
            lines.append(f"{first.measure.text}: no better than chance.")
        for one in self.changes:
            if one.events is not None and any(one.measure == objective for objective in self.objectives):
                before, after = one.events
                lines.append(f"{one.measure.text} rests on {before:,} {one.measure.events} of the default and {after:,} of the answer.")
        if self.ended:
            lines.append(f"{self.ended} runs with these settings did not finish.")
        return lines

    def _settings(self) -> "list[str]":
        if not self.settings:
            return [f"Settings: none is left of trial {self.number}, as it is no better without them"]
        rows = [("", *(f"{one.text} without it" for one in self.objectives))]
        for name, value in self.settings.items():
            rows.append((f"  {name} = {value}", *(_change(one) for one in self.without[name])))
        return [f"Settings (of trial {self.number}, without what costs at most 5 % of its gain; seeds of the search)", *table(rows)]

    def _front(self) -> "list[str]":
        rows = [("trial", *(one.text for one in self.objectives), "settings")]
        # Of trials with the same values one is shown, the chosen one if it is among them; answer.json has all.
        first = {tuple(one.values.values()): one for one in sorted(self.front, key=lambda one: (one.number == self.number, -one.number))}
        for one in sorted(first.values(), key=lambda one: one.number):
            shown = [f"{_short(name)}={value}" for name, value in one.settings.items() if name in self.settings]
            others = len(one.settings) - len(shown)
            settings = ", ".join(shown + [f"{others} others"] * (others > 0)) or "the default"
            rows.append((str(one.number), *(f"{one.values[of.name]:.2f}" for of in self.objectives), settings))
        more = len(self.front) - len(first)
        lines = ["Pareto front, means over the seeds of the search", *table(rows)]
        return [*lines, f"({more} more with the same values as one of these)"] if more else lines

    def _importance(self) -> "list[str]":
        lines = ["Importance (PED-ANOVA: what tells the best quarter of the trials from the others)"]
        for name, shares in self.importance.items():
            first = sorted(shares.items(), key=lambda item: (-item[1], item[0]))[:SHOWN]
            lines.append(f"  {name}: " + ", ".join(f"{_short(knob)} {100 * share:.0f} %" for knob, share in first))
        return lines + self.disagreements


def disagreements(
    tried: "Mapping[str, str | int]", importance: "Mapping[str, Mapping[str, float]]", without: "Mapping[str, Sequence[Change]]"
) -> "list[str]":
    """Returns where the importance of knobs and what becomes of the answer without them differ, with the reason."""
    lines: "list[str]" = []
    for objective, shares in importance.items():
        if not shares or sum(shares.values()) == 0:
            continue
        even = 1 / len(shares)
        first = max(shares, key=lambda name: shares[name])
        if without and first not in without and shares[first] > even:
            why = "the answer has its default" if first not in tried else "it was taken back without a loss"
            lines.append(
                f"  {objective}: {_short(first)} comes first over all trials, and the answer is without it: {why}. Importance says what tells "
                "good trials from bad ones, not what the best one needs."
            )
        for name, changed in without.items():
            needed = any(change.worse for change in changed if change.measure.name == objective)
            if needed and shares.get(name, 0.0) < even / 2:
                lines.append(
                    f"  {objective}: the answer needs {_short(name)}, which has {100 * shares.get(name, 0.0):.0f} % over all trials: it matters "
                    "together with the other settings of the answer, which few trials have."
                )
    return lines


def table(rows: "Sequence[Sequence[str]]") -> "list[str]":
    """Returns lines with aligned columns: text to the left, numbers to the right."""
    widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
    last = len(widths) - 1
    text_last = rows[0][last] == "settings"

    def cell(at: int, text: str) -> str:
        return text.ljust(widths[at]) if at == 0 or (at == last and text_last) else text.rjust(widths[at])

    return ["  ".join(cell(at, text) for at, text in enumerate(row)).rstrip() for row in rows]


def _change(one: Change) -> str:
    _, tuned, change, interval, _ = one.words()
    return f"{tuned}, {change} ({interval})" if interval else f"{tuned}, {change}"


def _short(name: str) -> str:
    return name.removeprefix("vm.").replace(THP, "thp")
