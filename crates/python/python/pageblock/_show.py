"""What notebooks show of results, and results as frames of pandas. The methods are attached to the classes of the extension module."""

import importlib
import os
from collections.abc import Callable, Mapping, Sequence
from html import escape
from typing import Any, cast

from ._arguments import path as path_of
from ._pageblock import Error, Events, Report, Runs, Table, write_text

__all__ = ["attach", "rows_html"]

# So many rows of a table are shown; the others are counted.
ROWS = 60
CELL = "padding:2px 8px;text-align:{align};white-space:nowrap"
COLORS = {"better": "#d7f0dc", "worse": "#f8d7d7", "unchanged": "#eeeeee", "identical": "#eeeeee"}


def rows_html(rows: "Sequence[Mapping[str, Any]]", columns: "Sequence[str] | None" = None, shade: "Callable[[Mapping[str, Any]], str] | None" = None) -> str:
    """Returns rows as a table of HTML: numbers to the right, whole texts."""
    names = list(columns if columns is not None else (rows[0] if rows else ()))

    def cell(value: Any, tag: str = "td") -> str:
        number = isinstance(value, (int, float)) and not isinstance(value, bool)
        text = "" if value is None else f"{value:,.4g}" if isinstance(value, float) else f"{value:,}" if number else str(value)
        return f"<{tag} style='{CELL.format(align='right' if number else 'left')}'>{escape(text)}</{tag}>"

    head = "".join(cell(name, "th") for name in names)
    lines = [f"<tr style='background:{shade(row) if shade else ''}'>{''.join(cell(row.get(name)) for name in names)}</tr>" for row in rows[:ROWS]]
    more = f"<p>{len(rows) - ROWS:,} more rows</p>" if len(rows) > ROWS else ""
    return f"<table><tr>{head}</tr>{''.join(lines)}</table>{more}"


def text_html(text: str) -> str:
    """Returns a text as it is, whole."""
    return f"<pre style='line-height:1.25;overflow-x:auto'>{escape(text)}</pre>"


def details(title: str, inside: str) -> str:
    """Returns what is folded away."""
    return f"<details><summary>{escape(title)}</summary>{inside}</details>"


def table_html(table: Table) -> str:
    """Returns a row for each row."""
    return rows_html(table.to_dicts())


def comparison(report: Report) -> str:
    """Returns the measures of a comparison, a row each and kernel; what is decided has a colour."""
    shown: "list[dict[str, Any]]" = []
    for row in report.to_dicts():
        change = "" if row["change"] is None else f"{100 * row['change']:+.0f} %"
        interval = "" if row["low"] is None else f"{100 * row['low']:+.0f} to {100 * row['high']:+.0f} %"
        verdict = row["verdict"] if row["is_primary"] or row["verdict"] == "identical" else ""
        shown.append({
            "workload": row["workload"], "measure": row["label"], "kernel": row["kernel"], "mean": row["mean"], "change": change, "interval": interval,
            "p": row["p"], "verdict": "baseline" if row["kernel"] == row["baseline"] else verdict, "supported": row["supported"],
        })  # fmt: skip
    names = list(shown[0]) if shown else []
    names = [name for name in names if any(row[name] not in (None, "") for row in shown)]
    return rows_html(shown, names, lambda row: COLORS.get(str(row["verdict"]), "")) + details("as the program prints it", text_html(report.text))


def certificate(report: Report) -> str:
    """Returns the decisions of a verification, and the grade."""
    grade = cast("dict[str, Any]", report.data.get("certificate") or {}).get("grade")
    first = next((line for line in report.text.splitlines() if line.strip()), "")
    head = f"<p><b>Grade {escape(grade)}</b>: {escape(first)}</p>" if grade else f"<p>{escape(first)}</p>"
    return head + rows_html(report.to_dicts()) + details("as the program prints it", text_html(report.text))


def report_html(report: Report) -> str:
    """Returns what a notebook shows of a result."""
    columns = report.table.columns
    if "verdict" in columns and "baseline" in columns:
        return comparison(report)
    if columns[:2] == ["decision", "cases"]:
        return certificate(report)
    if "lost_without" in columns:
        return waterfall(report).svg + details("as the program prints it", text_html(report.text))
    return text_html(report.text)


def runs_html(runs: Runs) -> str:
    """Returns a row for each workload, machine and kernel: how many runs, and the means of what decides."""
    groups: "dict[tuple[str, ...], list[dict[str, Any]]]" = {}
    table = runs.table()
    for row in table.to_dicts():
        groups.setdefault((row["workload"], row["machine"], row["scale"], row["kernel"]), []).append(row)
    # The measures follow what says which run it is, and how it ended.
    measures = [name for name in table.columns[table.columns.index("ended") + 1 :] if name != "unfinished"]
    shown: "list[dict[str, Any]]" = []
    for (workload, machine, scale, kernel), rows in groups.items():
        one: "dict[str, Any]" = {"workload": workload, "machine": machine, "scale": scale, "kernel": kernel, "runs": len(rows)}
        one["unfinished"] = sum(row["ended"] is not None for row in rows)
        for name in measures:
            values = [float(row[name]) for row in rows if row.get(name) is not None]
            one[name] = sum(values) / len(values) if values else None
        shown.append(one)
    names = [name for name in (shown[0] if shown else ()) if name in ("kernel", "runs") or any(row[name] for row in shown)]
    notes = "".join(f"<li>{escape(note)}</li>" for note in runs.notes)
    return rows_html(shown, names) + (details("notes", f"<ul>{notes}</ul>") if notes else "")


class Waterfall:
    """A waterfall: what each switch adds to a measure, from one kernel to the other. A notebook shows it; `svg` is its text."""

    def __init__(self, svg: str) -> None:
        self.svg = svg

    def save(self, path: "str | os.PathLike[str]") -> None:
        """Writes the SVG to a file."""
        write_text(path_of("path", path), self.svg)

    def _repr_svg_(self) -> str:
        return self.svg

    def __repr__(self) -> str:
        return f"<pageblock.Waterfall, {len(self.svg)} bytes of SVG>"


def waterfall(report: Report, measure: "str | None" = None) -> Waterfall:
    """Draws the answer of a bisection: `measure` is one of its measures, by name or label; by default the first."""
    rows = report.to_dicts()
    if "lost_without" not in report.table.columns or not rows:
        raise Error("there is nothing to draw: only the answer of a bisection has a waterfall")
    known = {str(row["measure"]): str(row["label"]) for row in rows}
    if measure is not None and measure not in known and measure not in known.values():
        raise Error(f"measure {measure!r}: allowed: {', '.join(known)}")
    of = [row for row in rows if measure in (None, row["measure"], row["label"])]
    of = [row for row in of if row["measure"] == of[0]["measure"]]
    level = float(of[0]["base"])
    bars: "list[tuple[str, float, float, str]]" = [("before", 0.0, level, "#8899aa")]
    for row in of:
        after = level + float(row["added"])
        bars.append((str(row["switch"]), level, after, "#c0504d" if row["decided"] else "#d0d0d0"))
        level = after
    bars.append(("after", 0.0, level, "#8899aa"))
    return Waterfall(_bars(str(of[0]["label"]), bars))


def _bars(title: str, bars: "list[tuple[str, float, float, str]]") -> str:
    left, width, line = 330, 420, 24
    low = min(0.0, *(min(a, b) for _, a, b, _ in bars))
    span = max(*(max(a, b) for _, a, b, _ in bars), low + 1e-9) - low

    def x(value: float) -> float:
        return left + width * (value - low) / span

    parts = [
        f"<svg xmlns='http://www.w3.org/2000/svg' width='{left + width + 110}' height='{line * (len(bars) + 2)}' font-family='sans-serif' font-size='12'>",
        f"<text x='8' y='16' font-weight='bold'>{escape(title)}: what each switch adds (red: decided)</text>",
    ]
    for at, (name, start, end, color) in enumerate(bars, 1):
        y = line * at
        first, wide = min(x(start), x(end)), max(abs(x(end) - x(start)), 1.0)
        shown = f"{end:,.4g}" if start == 0.0 and name in ("before", "after") else f"{end - start:+,.4g}"
        parts.append(f"<text x='{left - 8}' y='{y + 16}' text-anchor='end'>{escape(name)}</text>")
        parts.append(f"<rect x='{first:.1f}' y='{y + 4}' width='{wide:.1f}' height='{line - 8}' fill='{color}'/>")
        parts.append(f"<text x='{first + wide + 6:.1f}' y='{y + 16}'>{shown}</text>")
    return "".join([*parts, "</svg>"])


def to_pandas(table: Any) -> Any:
    """Returns a pandas.DataFrame, by pandas 2 and 3; without PyArrow the rows are copied."""
    try:
        pandas = importlib.import_module("pandas")
    except ImportError:
        raise Error("to_pandas needs pandas: pip install pandas") from None
    if hasattr(pandas.DataFrame, "from_arrow"):
        return pandas.DataFrame.from_arrow(table)
    try:
        return importlib.import_module("pyarrow").table(table).to_pandas()
    except ImportError:
        if not hasattr(table, "to_dicts"):
            raise Error("to_pandas of events needs pandas 3, or PyArrow: pip install pyarrow") from None
        return pandas.DataFrame(table.to_dicts())


def _add_note(error: Error, note: str) -> None:
    # The binding adds which argument it read, which the words of the error say.
    if not note.startswith("while processing '"):
        Exception.add_note(error, note)  # type: ignore[attr-defined,unused-ignore]  # pyright: ignore


def attach() -> None:
    """Gives the classes of the extension module what is written in Python."""
    setattr(Error, "add_note", _add_note)  # noqa: B010
    shown: "list[tuple[type, Callable[..., str]]]" = [(Report, report_html), (Runs, runs_html), (Table, table_html)]
    for of, show in shown:
        setattr(of, "_repr_html_", show)  # noqa: B010
    for of in (Table, Report, Runs, Events):
        setattr(of, "to_pandas", to_pandas)  # noqa: B010
    setattr(Report, "waterfall", waterfall)  # noqa: B010
