"""How far long work is: a line on the terminal, or the bar of a library such as tqdm."""

import sys
import time
from collections.abc import Callable
from typing import Any, Protocol, TypeAlias, Union

from ._pageblock import Error

__all__ = ["Bar", "Progress", "Stop", "begin", "check", "look"]

# The shortest time between two lines of progress, seconds.
SAY_EVERY = 1.0


class Bar(Protocol):
    """What tqdm's bars have."""

    def update(self, n: int) -> Any: ...
    def close(self) -> Any: ...


Progress: TypeAlias = Union[bool, None, Callable[..., Any]]


class Stop(Protocol):
    """What `threading.Event` has."""

    def is_set(self) -> bool: ...


class Line:
    """A line on standard error: how far it is, and the time that is left."""

    def __init__(self, total: int, desc: str, unit: str) -> None:
        self.total, self.desc, self.unit, self.done = total, desc, unit, 0
        self.start = self.said = time.monotonic()

    def update(self, n: int) -> None:
        """Says it, if it was not said just before."""
        self.done += n
        now = time.monotonic()
        if now - self.said < SAY_EVERY:
            return
        self.said = now
        left = (self.total - self.done) * (now - self.start) / self.done if self.done else 0.0
        print(f"\r{self.desc}: {self.done} of {self.total} {self.unit}s, {left:.0f} s left   ", end="", file=sys.stderr, flush=True)

    def close(self) -> None:
        """Ends the line."""
        if self.said > self.start:
            print(file=sys.stderr)


class Silent:
    """Shows nothing."""

    def update(self, n: int) -> None:
        """Shows nothing."""

    def close(self) -> None:
        """Shows nothing."""


def begin(progress: Progress, total: int, desc: str, unit: str = "run") -> Bar:
    """Begins to show work of so many units: for None a line on a terminal, for True a line, for False nothing; or by calling what was
    given with `total`, `desc` and `unit`, as `tqdm.tqdm` and `tqdm.auto.tqdm` are called.
    """
    if progress is None:
        return Line(total, desc, unit) if sys.stderr.isatty() else Silent()
    if isinstance(progress, bool):
        return Line(total, desc, unit) if progress else Silent()
    bar: Bar = progress(total=total, desc=desc, unit=unit)
    return bar


def check(progress: Progress, stop: "Stop | None") -> None:
    """Raises `Error` for what cannot show work, or stop it."""
    if progress is not None and not isinstance(progress, bool) and not callable(progress):
        raise Error(f"progress {progress!r}: allowed: True, False, None, tqdm")
    if stop is not None and not callable(getattr(stop, "is_set", None)):
        raise Error(f"stop {stop!r}: allowed: an event with is_set, None")


def look(stop: "Stop | None") -> None:
    """Raises `Error` if the event is set."""
    if stop is not None and stop.is_set():
        raise Error("stopped, as the event that was given as stop was set")
