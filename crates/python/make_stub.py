"""Writes the part of the typed stub that has a line for each switch; the tests compare it with the file.

    python crates/python/make_stub.py
"""

from pathlib import Path

import pageblock

STUB = Path(__file__).parent / "python/pageblock/_switches.pyi"


def value_type(allowed: str) -> str:
    """Returns the type of a switch's values."""
    if not allowed.startswith("one of "):
        return "int"
    names = allowed.removeprefix("one of ").split(", ")
    if sorted(names) == ["off", "on"]:
        return "bool"
    return "Literal[" + ", ".join(f'"{name}"' for name in names) + "]"


def argument_type(allowed: str) -> str:
    """Returns the type of what a switch is set to: True and False are on and off."""
    read = value_type(allowed)
    return f"bool | {read}" if '"on"' in read else read


def stub() -> str:
    """Returns the stub's text."""
    lines = [
        "# Written by crates/python/make_stub.py.",
        "from typing import Literal, TypedDict",
        "",
        "class Switches(TypedDict, total=False):",
    ]
    rows = pageblock.switches().to_dicts()
    lines += [f"    {row['switch']}: {argument_type(row['allowed'])}" for row in rows]
    lines += ["", "class SwitchAttributes:"]
    for row in rows:
        lines += [
            "    @property",
            f"    def {row['switch']}(self) -> {value_type(row['allowed'])}:",
            f"        {doc(row['decides'])}",
        ]
    return "\n".join(lines) + "\n"


def doc(text: str) -> str:
    """Returns a docstring in a line."""
    quote = 'r"""' if "\\" in text else '"""'
    return f'{quote}{text}"""'


if __name__ == "__main__":
    STUB.write_text(stub(), encoding="utf-8")
