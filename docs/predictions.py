#!/usr/bin/env python3
"""Prints how well predictions of real kernels came true, beside the null model "nothing changes".

    docs/predictions.py docs/predictions.json
    docs/predictions.py docs/predictions.json --changes     # of columns with two real changes or more: real, and in brackets predicted
    docs/predictions.py docs/predictions.json --noise       # the noise of predictions, and what it does to series that were left out

A change is predicted if 80 % of what is expected of the real median is on one side of 1. Its direction is right if it has the sign of the real one, or
if none was predicted and the real 95 % interval has 1 in it; that of the null model is right in the latter case. skill = (score - null) / (1 - null).
Where just one of the two is right, the prediction won or lost; p is that of the exact sign test on these (McNemar's). The measures of one column are not
independent: with them counted as one, by who won more of them, stands the last line.

Series that were predicted with noise have their certainty saved. Those before are judged here with the noise of all other such series.
"""

import json
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable
from math import comb, exp, hypot, inf, log, sqrt
from pathlib import Path
from statistics import NormalDist
from typing import Any

Prediction = dict[str, Any]

# The certainty from which on a change is predicted, as in the program.
CERTAIN = 0.8
# The 97.5 % quantile of the normal distribution.
Z = NormalDist().inv_cdf(0.975)
# The width of the interval of five and five normal runs (root of the mean square), and the deviation of its middle, in deviations of a run.
WIDTH, MIDDLE = 3.414, 0.6627
SOURCE = Path(__file__).parent.parent / "crates/measure/src/compare/noise.rs"


def error(one: Prediction) -> float:
    """Returns the logarithm of the real ratio to the predicted one."""
    return log(one["real"]["ratio"] / one["predicted"]["ratio"])


def root_mean_square(values: "list[float]") -> float:
    """Returns the root of the mean square."""
    return sqrt(sum(value * value for value in values) / len(values))


def deviations(of: "list[Prediction]") -> "dict[str, tuple[float, float]]":
    """Returns for each measure two standard deviations of logarithms: of a real run around its median, and of predictions around that."""
    found = {}
    for measure in dict.fromkeys(one["measure"] for one in of):
        own = [one for one in of if one["measure"] == measure]
        whole = root_mean_square([error(one) for one in own])
        runs = root_mean_square([log(one["real"]["interval"][1] / one["real"]["interval"][0]) / WIDTH for one in own])
        guest = min(MIDDLE * runs, whole)
        # Of five and five runs.
        found[measure] = (guest / sqrt(2 / 5), sqrt(whole * whole - guest * guest))
    return found


def reach(one: Prediction, noise: "dict[str, tuple[float, float]]") -> "tuple[float, float]":
    """Returns how far below and above the predicted ratio the real one is expected, as logarithms."""
    ratio, expected = one["predicted"]["ratio"], one.get("expected")
    if expected is None:
        # Of ten and ten runs; the first series has no other.
        least, most = one["predicted"]["interval"]
        both = [sqrt(2) * log(ratio / least), sqrt(2) * log(most / ratio)]
    else:
        least, most = expected
        both = [log(ratio / least) if least else inf, log(most / ratio) if most is not None else inf]
    # An unknown measure is as noisy as the noisiest.
    guest, model = noise.get(one["measure"], max(noise.values(), key=lambda parts: hypot(*parts)))
    added = Z * hypot(model, guest * sqrt(2 / 5))
    return hypot(max(0.0, both[0]), added), hypot(max(0.0, both[1]), added)


def judge(one: Prediction, noise: "dict[str, tuple[float, float]]") -> Prediction:
    """Returns a prediction of a series before there was noise as it is judged with it."""
    below, above = reach(one, noise)
    off, ratio = error(one), one["predicted"]["ratio"]
    towards = below if ratio > 1 else above
    certainty = NormalDist().cdf(abs(log(ratio)) * Z / towards)
    changes = certainty >= CERTAIN
    real = one["real"]["ratio"]
    direction = real != 1 and (ratio > 1) == (real > 1) if changes else not is_change(one["real"])
    return {**one, "in_interval": -below <= off <= above, "direction": direction, "changes": changes}


def left_out(of: "list[tuple[str, Prediction]]", group: "Callable[[str, Prediction], str]") -> "list[Prediction]":
    """Returns predictions as judged with the noise of those that are not of their group."""
    judged = []
    groups = {group(*one): None for one in of}
    noise = {own: deviations([one for name, one in of if group(name, one) != own]) for own in groups}
    for name, one in of:
        judged.append(judge(one, noise[group(name, one)]))
    return judged


def can_tell(one: Prediction) -> bool:
    """Reports whether there are so many real runs (four of each side) that they tell a change from none."""
    return one["real"]["interval"] is not None


def is_change(of: "dict[str, Any]") -> bool:
    """Reports whether there is a 95 % interval, and all of it is on one side of 1."""
    least, most = of["interval"] or (1, 1)
    return least > 1 or most < 1


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
    p = min(1.0, 2 * tail / 2**count)
    return f"{p:.3f}" if p >= 0.001 else "<0.001"


def outcome(one: Prediction) -> int:
    """Returns 1 where the direction is right and the null model's is not, -1 where it is the other way."""
    return one["direction"] - (not is_change(one["real"]))


def row(name: str, of: "list[Prediction]") -> "list[str]":
    """Returns the scores of some predictions."""
    cases = len(of)
    told = [one for one in of if can_tell(one)]
    right = sum(one["direction"] for one in told)
    null = sum(not is_change(one["real"]) for one in told)
    won, lost = (sum(outcome(one) == side for one in told) for side in (1, -1))
    near = sum(one["factor_of_two"] for one in of)
    near_null = sum(0.5 <= one["real"]["ratio"] <= 2 for one in of)
    inside = sum(one["in_interval"] for one in of)
    return [
        name, str(cases), share(right, len(told)), share(null, len(told)), skill(right, null, len(told)), str(won), str(lost), sign_test(won, lost),
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


def confusion(rule: str, of: "list[Prediction]", changes: "Callable[[Prediction], bool]") -> None:
    """Prints which changes were predicted by a rule, and which came."""
    counts = {"sign": 0, "wrong": 0, "missed": 0, "false": 0, "none": 0}
    for one in of:
        predicted, real = changes(one), is_change(one["real"])
        if predicted and real:
            same = (one["predicted"]["ratio"] > 1) == (one["real"]["ratio"] > 1)
            counts["sign" if same else "wrong"] += 1
        else:
            counts["missed" if real else "false" if predicted else "none"] += 1
    real = counts["sign"] + counts["wrong"] + counts["missed"]
    print(f"{rule:24}predicted  with the wrong sign  not predicted")
    print(f"{f'{real} real changes':24}{counts['sign']:9}{counts['wrong']:21}{counts['missed']:15}")
    print(f"{f'{len(of) - real} without a change':24}{counts['false']:9}{'-':>21}{counts['none']:15}")


def reliability(of: "list[Prediction]") -> None:
    """Prints of the predictions that were made with a certainty how many came."""
    saved = [one for one in of if "noise" in one]
    bounds = [0.5, 0.6, 0.7, CERTAIN, 0.9, inf]
    print(f"{'certainty':24}predicted  expected  came")
    for least, most in zip(bounds, bounds[1:], strict=False):
        own = [one for one in saved if least <= one["certainty"] < most]
        if own:
            came = sum((one["predicted"]["ratio"] > 1) == (one["real"]["ratio"] > 1) for one in own)
            mean = 100 * sum(one["certainty"] for one in own) / len(own)
            name = f"{100 * least:.0f} % or more" if most == inf else f"{100 * least:.0f} to {100 * most:.0f} %"
            print(f"{name:24}{len(own):9}{f'{mean:.0f} %':>10}{share(came, len(own)):>6}")
    print(f"{'not saved':24}{len(of) - len(saved):9}")


def noise_of(of: "list[tuple[str, Prediction]]") -> None:
    """Prints the noise of predictions, and how series fare that it was not made of; fails if the program has another."""
    found = deviations([one for _, one in of])
    program = {name: (float(guest), float(model)) for name, guest, model in re.findall(r'\("(.+)", ([\d.]+), ([\d.]+)\)', SOURCE.read_text())}
    print(f"{'deviation of the logarithm':36}cases  a real run  beyond it  95 % of five runs within")
    for measure, (guest, model) in sorted(found.items()):
        within = exp(Z * hypot(model, guest * sqrt(2 / 5)))
        print(f"{measure:36}{sum(one['measure'] == measure for _, one in of):5}{guest:12.3f}{model:11.3f}{f'1/{within:.1f} to {within:.1f} times':>26}")
    ways: "dict[str, Callable[[str, Prediction], str]]" = {
        "series": lambda name, _: name,
        "workload": lambda name, _: name.split(",")[0],
        "kernel": lambda _, one: one["column"].split(",")[0],
    }
    print(f"\n{'noise of the others':24}in 95 %  least of a group  direction  real changes predicted  false alarms")
    rows = [("none, as it was", [{**one, "changes": is_change(one["predicted"])} for _, one in of], ways["series"])]
    rows += [(f"each {name} left out", left_out(of, group), group) for name, group in ways.items()]
    for name, judged, group in rows:
        inside = [one["in_interval"] for one in judged]
        groups = [
            [one["in_interval"] for (of_name, _), one in zip(of, judged, strict=True) if group(of_name, one) == own]
            for own in {group(*one) for one in of}
        ]
        least = min((sum(own) / len(own) for own in groups if len(own) >= 30), default=0.0)
        real = [one for one in judged if is_change(one["real"])]
        hits = sum(one["changes"] and (one["predicted"]["ratio"] > 1) == (one["real"]["ratio"] > 1) for one in real)
        false = sum(one["changes"] for one in judged) - sum(one["changes"] for one in real)
        print(
            f"{name:24}{share(sum(inside), len(inside)):>7}{f'{100 * least:.0f} %':>18}{share(sum(one['direction'] for one in judged), len(judged)):>11}"
            f"{share(hits, len(real)):>24}{share(false, len(judged) - len(real)):>14}"
        )
    if program != {name: (round(guest, 3), round(model, 3)) for name, (guest, model) in found.items()}:
        print(*(f'    ("{name}", {guest:.3f}, {model:.3f}),' for name, (guest, model) in sorted(found.items())), sep="\n")
        sys.exit(f"{SOURCE}: it has other deviations; these are the measured ones")


SHOWN = {
    "Allocation stalls": "stalls",
    "Pages scanned by compaction": "scanned",
    "Pages reclaimed": "reclaimed",
    "Huge pages on fault [%]": "huge pages",
    "Fragmenting fallbacks, movable": "movable",
    "Fragmenting fallbacks, unmovable": "unmovable",
}


def percent(of: "dict[str, Any]", star: bool) -> str:
    """Returns a change in percent, with a star if it is one."""
    return f"{100 * of['ratio'] - 100:+.0f}" + "*" * star


def changes(series: "dict[str, list[Prediction]]") -> None:
    """Prints what columns changed that changed two measures or more: on the real kernel, and in brackets as predicted."""
    rows = [["workload", "kernel", "setting, or the kernel before", *SHOWN.values()]]
    for name, of in series.items():
        for column, against in dict.fromkeys((one["column"], one["against"]) for one in sorted(of, key=lambda one: one["column"])):
            cells = {one["measure"]: one for one in of if (one["column"], one["against"]) == (column, against)}
            if sum(is_change(one["real"]) for measure, one in cells.items() if measure in SHOWN) < 2:
                continue
            kernel, _, setting = column.removeprefix("real-").partition(",")
            setting = setting.removeprefix("/sys/kernel/mm/").removeprefix("vm.") or "after " + against.removeprefix("real-")
            shown = (cells.get(measure) for measure in SHOWN)
            texts = [f"{percent(one['real'], is_change(one['real']))} ({percent(one['predicted'], one['changes'])})" if one else "" for one in shown]
            clock = " (by instructions)" if name.endswith("by instructions") else ""
            rows.append([name.split(",")[0], kernel + clock, setting, *texts])
    widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
    for row in rows:
        print("  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip())


def main() -> None:
    """Reads the file that is named, and prints its tables."""
    if sys.argv[2:] not in ([], ["--changes"], ["--noise"]) or len(sys.argv) < 2:
        sys.exit(__doc__)
    read = {name: of["predictions"] for name, of in json.loads(Path(sys.argv[1]).read_text()).items()}
    before = [(name, one) for name, of in read.items() for one in of if "noise" not in one]
    if sys.argv[2:] == ["--noise"]:
        noise_of(before)
        return
    judged = iter(left_out(before, lambda name, _: name))
    series = {
        name: [next(judged) if "noise" not in one else {**one, "changes": one["certainty"] >= CERTAIN} for one in of]
        for name, of in read.items()
    }  # fmt: skip
    if sys.argv[2:]:
        changes(series)
        return
    every = [one for of in series.values() for one in of]
    # These were predicted with noise, which was fitted to the series before them.
    later = [one for one in every if "noise" in one]
    table("series", [*series.items(), ("predicted with noise", later), ("all", every)])
    print()
    measures = dict.fromkeys(one["measure"] for one in every)
    table("measure", [(name, [one for one in every if one["measure"] == name]) for name in measures])
    print()
    kernels = dict.fromkeys(one["column"].split(",")[0] for one in every)
    table("kernel", [(name, [one for one in every if one["column"].split(",")[0] == name]) for name in kernels])
    print()
    told = [one for one in every if can_tell(one)]
    confusion("with noise, 80 %", told, lambda one: one["changes"])
    confusion("predicted with noise", [one for one in later if can_tell(one)], lambda one: one["changes"])
    confusion("simulations' interval", told, lambda one: is_change(one["predicted"]))
    print()
    reliability(every)
    columns = Counter[tuple[str, str, str]]()
    for name, of in series.items():
        for one in of:
            columns[name, one["column"], one["against"]] += outcome(one) if can_tell(one) else 0
    won, lost = (sum(side * net > 0 for net in columns.values()) for side in (1, -1))
    print(f"\nof {len(columns)} columns {won} won more than they lost, {lost} lost more: p {sign_test(won, lost)}")


if __name__ == "__main__":
    main()
