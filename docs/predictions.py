#!/usr/bin/env python3
"""Prints how well predictions of real kernels came true, beside the null model "nothing changes".

    docs/predictions.py docs/predictions.json
    docs/predictions.py docs/predictions.json --changes     # each column's changes: real, and in brackets predicted

The direction of a prediction is right if a predicted change (its 95 % interval is on one side of 1) has the sign of the real one, or if none was
predicted and the real interval has 1 in it; that of the null model is right in the latter case. skill = (score - null) / (1 - null). Where just one
of the two is right, the prediction won or lost; p is that of the exact sign test on these (McNemar's). The measures of one column are not independent:
with them counted as one, by who won more of them, stands the last line.
"""

import json
import sys
from collections import Counter
from collections.abc import Iterable
from math import comb
from pathlib import Path
from typing import Any

Prediction = dict[str, Any]


def is_change(of: "dict[str, float]") -> bool:
    """Reports whether a 95 % interval is on one side of 1."""
    return of["least"] > 1 or of["most"] < 1


def share(part: int, whole: int) -> str:
    """Returns a share in percent."""
    return f"{100 * part / whole:.0f} %" if whole else "-"


def skill(right: int, null: int, cases: int) -> str:
    """Returns by how much of what the null model misses a score is better."""
    return f"{(right - null) / (cases - null):+.2f}" if cases > null else "-"


def sign_test(won: int, lost: int) -> str:
    """Returns the two-sided p of so many wins and losses."""
    count = won + lost
    tail = sum(comb(count, fewer) for fewer in range(min(won, lost) + 1))
    return f"{min(1.0, 2 * tail / 2**count):.3f}"


def outcome(one: Prediction) -> int:
    """Returns 1 where the direction is right and the null model's is not, -1 where it is the other way."""
    return one["direction"] - (not is_change(one["real"]))


def row(name: str, of: "list[Prediction]") -> "list[str]":
    """Returns the scores of some predictions."""
    cases = len(of)
    right = sum(one["direction"] for one in of)
    null = sum(not is_change(one["real"]) for one in of)
    won, lost = (sum(outcome(one) == side for one in of) for side in (1, -1))
    near = sum(one["factor_of_two"] for one in of)
    near_null = sum(0.5 <= one["real"]["ratio"] <= 2 for one in of)
    inside = sum(one["in_interval"] for one in of)
    return [
        name, str(cases), share(right, cases), share(null, cases), skill(right, null, cases), str(won), str(lost), sign_test(won, lost),
        share(near, cases), share(near_null, cases), skill(near, near_null, cases), share(inside, cases),
    ]  # fmt: skip


def table(head: str, named: "Iterable[tuple[str, list[Prediction]]]") -> None:
    """Prints a table of scores."""
    columns = [head, "cases", "direction", "null", "skill", "won", "lost", "p", "factor of 2", "null", "skill", "in 95 %"]
    rows = [columns, *(row(name, of) for name, of in named)]
    widths = [max(len(line[at]) for line in rows) for at in range(len(columns))]
    for line in rows:
        cells = (text.rjust(width) for text, width in zip(line[1:], widths[1:], strict=True))
        print("  ".join([line[0].ljust(widths[0]), *cells]))


def confusion(of: "list[Prediction]") -> None:
    """Prints which changes were predicted, and which came."""
    counts = {"sign": 0, "wrong": 0, "missed": 0, "false": 0, "none": 0}
    for one in of:
        predicted, real = is_change(one["predicted"]), is_change(one["real"])
        if predicted and real:
            same = (one["predicted"]["ratio"] > 1) == (one["real"]["ratio"] > 1)
            counts["sign" if same else "wrong"] += 1
        else:
            counts["missed" if real else "false" if predicted else "none"] += 1
    real = counts["sign"] + counts["wrong"] + counts["missed"]
    print(f"{'':24}predicted  with the wrong sign  not predicted")
    print(f"{f'{real} real changes':24}{counts['sign']:9}{counts['wrong']:21}{counts['missed']:15}")
    print(f"{f'{len(of) - real} without a change':24}{counts['false']:9}{'-':>21}{counts['none']:15}")


SHOWN = {
    "Allocation stalls": "stalls",
    "Pages scanned by compaction": "scanned",
    "Pages reclaimed": "reclaimed",
    "Huge pages on fault [%]": "huge pages",
    "Fragmenting fallbacks, movable": "movable",
    "Fragmenting fallbacks, unmovable": "unmovable",
}


def percent(of: "dict[str, float]") -> str:
    """Returns a change in percent, with a star if its interval is on one side of nothing."""
    return f"{100 * of['ratio'] - 100:+.0f}" + "*" * is_change(of)


def changes(series: "dict[str, list[Prediction]]") -> None:
    """Prints what each column changed: on the real kernel, and in brackets as predicted."""
    rows = [["workload", "kernel", "setting, or the kernel before", *SHOWN.values()]]
    for name, of in series.items():
        for column, against in dict.fromkeys((one["column"], one["against"]) for one in sorted(of, key=lambda one: one["column"])):
            cells = {one["measure"]: one for one in of if (one["column"], one["against"]) == (column, against)}
            kernel, _, setting = column.removeprefix("real-").partition(",")
            setting = setting.removeprefix("/sys/kernel/mm/").removeprefix("vm.") or "after " + against.removeprefix("real-")
            shown = (cells.get(measure) for measure in SHOWN)
            texts = [f"{percent(one['real'])} ({percent(one['predicted'])})" if one else "" for one in shown]
            rows.append([name.split(",")[0], kernel, setting, *texts])
    widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
    for row in rows:
        print("  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip())


def main() -> None:
    """Reads the file that is named, and prints its tables."""
    if sys.argv[2:] not in ([], ["--changes"]) or len(sys.argv) < 2:
        sys.exit(__doc__)
    series = {name: of["predictions"] for name, of in json.loads(Path(sys.argv[1]).read_text()).items()}
    if sys.argv[2:]:
        changes(series)
        return
    every = [one for of in series.values() for one in of]
    table("series", [*series.items(), ("all", every)])
    print()
    measures = dict.fromkeys(one["measure"] for one in every)
    table("measure", [(name, [one for one in every if one["measure"] == name]) for name in measures])
    print()
    kernels = dict.fromkeys(one["column"].split(",")[0] for one in every)
    table("kernel", [(name, [one for one in every if one["column"].split(",")[0] == name]) for name in kernels])
    print()
    confusion(every)
    columns = Counter[tuple[str, str, str]]()
    for name, of in series.items():
        for one in of:
            columns[name, one["column"], one["against"]] += outcome(one)
    won, lost = (sum(side * net > 0 for net in columns.values()) for side in (1, -1))
    print(f"\nof {len(columns)} columns {won} won more than they lost, {lost} lost more: p {sign_test(won, lost)}")


if __name__ == "__main__":
    main()
